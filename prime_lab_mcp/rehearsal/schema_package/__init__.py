"""Stands in for prime-rl-configs in a rehearsal: the modules that `prime`'s schema worker imports (schema_cache.py).

Not prime-rl: the schema of one of its commits, judged by pydantic-core, with the few relations between keys that are
known; what tables share (`seq_len`, `model`) is not handed on to them. It runs in an environment of its own, copied
there, and is never imported by the server or the platform.
"""
