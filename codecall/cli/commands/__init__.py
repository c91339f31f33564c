"""The commands of `codecall`, one file for each."""
