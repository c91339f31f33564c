"""What a model is asked: to read a value into a type for `extract` of scripts, and to choose among hits of a search."""
