"""Questions about a shop that are answered with its product database."""

from store_lookup.taskset import StoreLookupEnv, StoreLookupTaskset

__all__ = ["StoreLookupEnv", "StoreLookupTaskset"]
