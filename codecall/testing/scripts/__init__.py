"""Script files: scripts with the results that they must have."""
