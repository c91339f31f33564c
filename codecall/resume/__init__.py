"""Resume."""
