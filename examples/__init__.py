"""Runnable examples. Start with `quickstart.py`; `demo.py` is what `make demo` prints."""
