"""Rate limits: rules, counting in memory or Redis, and the middleware that refuses calls."""
