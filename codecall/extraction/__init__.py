"""`extract(value, type)` of scripts: a value read into a type by a model, checked, and counted."""
