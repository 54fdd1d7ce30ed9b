"""Confines environment code with the means of the kernel: files, processes, network and data caches."""

ENTRY = ("caches", "confine", "containers.access", "kernel_support", "policy")
"""Modules that other packages may import."""
