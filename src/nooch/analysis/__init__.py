"""One file a command: where context misleads a model, how sure that is, and what to do."""
