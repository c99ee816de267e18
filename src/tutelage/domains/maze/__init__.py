"""Partially observable mazes by MiniGrid's rules."""
