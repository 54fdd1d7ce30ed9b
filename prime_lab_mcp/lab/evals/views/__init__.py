"""Views of a finished evaluation: one module each, a pure function from rollouts to data."""
