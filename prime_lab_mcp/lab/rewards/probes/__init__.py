"""Builds probes: completions of known quality, such as a right or a wrong answer, with which a reward is tested."""

from __future__ import annotations
