"""Bridges to other people's environments. Nothing imports these unless asked to."""
