"""Where the values of a script come from: its variables, and the paths from the answers of its calls."""
