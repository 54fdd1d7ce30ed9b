"""The rules about a training config. Each rule is a pure function of the config and its context."""

from __future__ import annotations
