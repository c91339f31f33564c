"""Output schemas inferred from results."""
