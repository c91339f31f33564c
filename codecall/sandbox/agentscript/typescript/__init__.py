"""Removal of types from TypeScript."""
