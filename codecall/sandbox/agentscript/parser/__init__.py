"""Parser."""
