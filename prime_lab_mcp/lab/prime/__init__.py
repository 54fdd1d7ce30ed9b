"""Runs the program `prime`, with one method for each of its commands that the server uses."""

ENTRY = ("answers", "client", "per_call", "pods", "refusals")
"""Modules that other packages may import."""
