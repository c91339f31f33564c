"""The language: the policy as data, the guard that reads it before, the realm that reads it during."""
