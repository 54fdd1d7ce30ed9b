"""The two config classes."""
