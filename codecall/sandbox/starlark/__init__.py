"""Starlark, the second dialect of scripts, behind the same protocol as JavaScript."""
