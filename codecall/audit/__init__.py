"""The record of what scripts did."""
