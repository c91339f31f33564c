"""Static analysis of a parsed script: its calls, which of them every run reaches, and its executable statements."""
