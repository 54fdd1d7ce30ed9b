"""Contains the rules that a reward must satisfy. Each rule is a pure function from a `Trial` to findings."""

from __future__ import annotations
