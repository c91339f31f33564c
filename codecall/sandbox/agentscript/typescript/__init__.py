"""Typescript."""
