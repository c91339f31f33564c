"""Usage examples."""
