"""What exists: the tools one caller may see, and how they are found."""
