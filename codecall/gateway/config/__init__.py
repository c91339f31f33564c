"""The gateway's configuration: files, command line, other clients' files, variables and secrets."""
