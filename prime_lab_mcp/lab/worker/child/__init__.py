"""The package that loads an environment and answers the server's requests, in the environment's own interpreter.

`__main__.py` registers the package under the name `_prime_lab_worker`. The environment's interpreter does not have
`prime_lab_mcp`, so the modules import only the standard library, verifiers, and each other by relative imports.
Evaluations run `harness/` and `vf_eval_v0.py` in the same interpreter without the rest of the package.
"""
