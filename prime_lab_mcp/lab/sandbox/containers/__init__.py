"""Containers for confined environment code: a broker outside of the confinement runs the container program for it."""
