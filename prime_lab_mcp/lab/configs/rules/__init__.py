"""The rules about a training config. Each rule is a pure function of the config and its context.

A rule returns findings if the config breaks it. Its docstring says what must hold.
"""

from __future__ import annotations
