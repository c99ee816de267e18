"""Bridges to other people's environments. Their packages are imported only when they are asked for."""
