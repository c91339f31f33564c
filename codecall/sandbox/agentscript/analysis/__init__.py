"""Static analysis of a parsed script: its calls, and which of them every run reaches."""
