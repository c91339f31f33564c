"""TypeScript declarations."""
