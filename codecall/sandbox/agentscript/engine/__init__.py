"""The engine, QuickJS, and the JavaScript of the realm in it."""
