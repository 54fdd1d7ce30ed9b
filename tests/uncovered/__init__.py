"""Compares the branches that no test takes with those whose reason is named."""
