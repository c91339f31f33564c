"""AgentScript, the language of the scripts: its policy as data, the validator that applies it, the realm that runs
it."""
