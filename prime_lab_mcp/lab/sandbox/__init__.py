ENTRY = ("caches", "confine", "offer", "policy")
"""Modules that other packages may import."""
