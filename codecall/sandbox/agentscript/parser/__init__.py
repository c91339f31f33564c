"""The JavaScript parser: esprima with corrections, and checks of the raw text and of tokens."""
