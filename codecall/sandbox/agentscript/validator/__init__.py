"""The walk over the syntax tree that checks a script against the policy."""
