"""Ways to look at a finished evaluation: one module each, a pure function from rollouts to what is shown."""
