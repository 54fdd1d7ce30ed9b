"""Empty: without `dump_rl_components` the worker takes the components from the config itself."""
