"""One model by name: what its name states, and what the registry adds."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SIZE = re.compile(r"(?<![A-Za-z\d.])(\d+(?:\.\d+)?)B\b", re.I)
_ACTIVE = re.compile(r"\bA(\d+(?:\.\d+)?)B\b", re.I)
_THINKS = re.compile(r"Thinking|DeepSeek-R1|gpt-oss|/Qwen3-[\d.]+B(-A\d+B)?$|/Qwen3\.[568]-(?!0\.8B|2B)", re.I)


@dataclass(frozen=True, slots=True)
class Model:
    """None: not known. Sizes are billions of parameters; `active` equals `parameters` for a dense model."""

    name: str
    parameters: float | None = None
    active: float | None = None
    thinks: bool = False
    """Writes a chain of thought before it answers, so that completions are long."""
    architecture: str | None = None
    native: bool | None = None
    """prime-rl's trainer has an implementation of its own; False: it falls back to that of transformers."""
    vision: bool | None = None
    tool_parser: str | None = None
    """The vLLM tool-call parser that reads its calls."""
    renderer: str | None = None
    """Of prime-rl's renderers; None: it must be named in the config."""
    context: int | None = None
    """Tokens."""


def find(name: str) -> Model:
    """What is known of a model, at least what its name states (`Qwen3-30B-A3B` has 30, of which 3 are active)."""
    bare = name.rpartition("/")[2]
    total, active = _SIZE.search(bare), _ACTIVE.search(bare)
    size = float(total[1]) if total else None
    return Model(name, size, float(active[1]) if active else size, bool(_THINKS.search(name)))
