"""Tools as Python: the texts of `.pyi` files, for models that write Starlark."""
