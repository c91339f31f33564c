"""The trusted side of the pipe: worker processes, the pool, the turn loop."""
