"""Searches for holes in a reward: completions that are paid although they were made without knowing the answer.

The search is guided by feedback, like a fuzzer: it mutates completions that earn more or reach new branches of the
reward's code. A completion is a hole if it is paid more than the best trivial policy deserves.
"""
