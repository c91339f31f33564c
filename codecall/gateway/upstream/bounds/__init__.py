"""What bounds the answers of servers before the libraries read them: introductions, long results, heads of HTTP."""
