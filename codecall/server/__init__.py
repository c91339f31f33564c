"""What belongs to a running server: lifespan of the workers, shutdown, clients that disconnect, progress."""
