"""What bounds the answers of servers before the libraries read them: first answers, long results, heads of HTTP."""
