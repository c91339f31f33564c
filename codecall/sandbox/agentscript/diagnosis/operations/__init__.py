"""What a script does with values of answers that are of another kind than it takes them for."""
