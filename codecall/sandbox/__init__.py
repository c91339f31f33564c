"""Where a script runs: an enclave of worker processes, and the pipe to them."""
