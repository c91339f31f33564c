"""Properties that a script reads of answers: what it needs them for, and which of them no answer has."""
