"""Scripts that are composite tools: files that say in a comment at their top what the tool is called and takes."""
