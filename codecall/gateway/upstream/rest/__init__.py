"""REST APIs as servers: their documents, the requests of their operations, and what of both is let through."""
