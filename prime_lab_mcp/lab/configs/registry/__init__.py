"""`configs/registry.json`: which config came from which, beside the files it speaks of and meant to be committed."""

from prime_lab_mcp.lab.configs.registry.drift import drift, hardware, parameters
from prime_lab_mcp.lab.configs.registry.entry import Entry
from prime_lab_mcp.lab.configs.registry.file import REGISTRY, Held, add, load, locked, replace

__all__ = ["REGISTRY", "Entry", "Held", "add", "drift", "hardware", "load", "locked", "parameters", "replace"]
