"""Training on one's own GPUs with prime-rl: what the config needs there, how it is run, and where GPUs are rented."""
