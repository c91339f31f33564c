"""JSON Schema: validation of values and of partly known ones, and the parts that examples and declarations read."""
