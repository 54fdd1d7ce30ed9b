"""Smells in a reward's code, shown as hints that point to lines. Only findings of `test_reward` decide."""

from __future__ import annotations
