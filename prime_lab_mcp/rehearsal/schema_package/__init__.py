"""A replacement of prime-rl-configs for rehearsals, with the modules that `prime`'s schema worker imports.

The package validates with pydantic-core and the exported schema of one prime-rl commit, plus the known relations
between keys. Unlike prime-rl it does not copy shared values (`seq_len`, `model`) to other tables. schema_cache.py
copies the package to a Python environment of its own; the server and the rehearsal platform never import it.
"""
