"""The untrusted side of the pipe: what runs inside a worker process."""
