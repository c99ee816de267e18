"""Bridges to environments of other packages, which are imported only when they are used."""
