"""Finds smells in a reward's code: patterns that are often mistakes. They are shown as hints and never decide a
verdict."""

from __future__ import annotations
