"""Resumes failed runs: their completed calls are answered from a record instead of being made again."""
