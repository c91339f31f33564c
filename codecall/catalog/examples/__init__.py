"""Usage examples of tools."""
