"""Recordings of calls, and their replay."""
