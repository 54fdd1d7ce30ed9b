"""Probes: completions of known quality with which a reward is tried."""

from __future__ import annotations
