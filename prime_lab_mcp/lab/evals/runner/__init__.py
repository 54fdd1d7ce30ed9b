"""The detached job of an evaluation: command line, supervisor, attempts, and how an attempt ends."""

from __future__ import annotations
