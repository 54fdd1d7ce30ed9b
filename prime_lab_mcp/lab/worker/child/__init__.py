"""The package that the environment's own interpreter runs: it loads an environment and answers the server's requests.

`__main__.py` starts it by path, and there it is called `_prime_lab_worker`. That interpreter lacks `prime_lab_mcp`, so
modules import the standard library, verifiers, and each other by relative imports. `harness/` and `vf_eval_v0.py` are
used by evaluations in the same interpreter, each on its own.
"""
