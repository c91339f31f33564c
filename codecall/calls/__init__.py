"""What happens to a call: who may make it, how often, how it is made, and what comes back."""
