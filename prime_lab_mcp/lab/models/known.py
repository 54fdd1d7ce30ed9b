"""One model by name: what its name states, and what the registry adds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.models.data import Fact, Registry, What, first, registry

_SIZE = re.compile(r"(?<![A-Za-z\d.])(\d+(?:\.\d+)?)B\b", re.I)
_ACTIVE = re.compile(r"\bA(\d+(?:\.\d+)?)B\b", re.I)
_THINKS = re.compile(r"Thinking|DeepSeek-R1|gpt-oss|/Qwen3-[\d.]+B(-A\d+B)?$|/Qwen3\.[568]-(?!0\.8B|2B)", re.I)
_PUBLISHED = re.compile(r"[\w.-]+/[\w.-]+\Z")


@dataclass(frozen=True, slots=True)
class Model:
    """None: not known. Sizes are billions of parameters; `active` equals `parameters` for a dense model."""

    name: str
    """As it was asked for."""
    parameters: float | None = None
    active: float | None = None
    thinks: bool = False
    """Writes a chain of thought before it answers, so that completions are long."""
    architecture: str | None = None
    """`model_type` in transformers."""
    native: bool | None = None
    """prime-rl's trainer has an implementation of its own; False: it falls back to that of transformers."""
    vision: bool | None = None
    tool_parser: str | None = None
    """The vLLM tool-call parser that reads its calls."""
    renderer: str | None = None
    """Of prime-rl's renderers; None: it must be named in the config."""
    published: str | None = None
    """Name on Hugging Face in its own capitals, where trainer and renderer look for it; None: no such name."""
    known: bool = False
    """The registry or the renderers name it; else all of this follows from its name."""
    closed: str | None = None
    """The vendor that keeps its weights; None: open, or not known."""
    inference_only: bool = False
    """Was served by the platform under this name and not offered for training."""
    text_of_vision: bool | None = None
    """A vision model that prime-rl trains on text with its vision part frozen."""
    images: bool | None = None
    """A vision model that prime-rl trains on images, under `[model.vlm]`."""
    parser_found: bool = False
    """prime-rl finds `tool_parser` by itself; else the config must name it."""
    hopper: bool = False
    """prime-rl trains it on Hopper GPUs (H100, H200) only."""
    context: int | None = None
    """Tokens."""
    facts: tuple[Fact, ...] = ()
    """What was found out about it, with date and source."""

    def told(self, what: What) -> tuple[Fact, ...]:
        return tuple(f for f in self.facts if f.what == what)

    def fault(self, kind: str) -> Fact | None:
        return next((f for f in self.told("fault") if f.value.get("kind") == kind), None)


def find(name: str) -> Model:
    """What is known of a model by any of its names in any capitals, at least what the name states.

    `Qwen3-30B-A3B` states 30 billion parameters, of which 3 are active.
    """
    known = registry()
    spelt = known.spelt(name)
    row = known.by_name.get(name.lower())
    facts = row.facts if row else ()
    total, active = _sizes(spelt, facts)
    family = first(known.architectures, spelt)
    architecture = family.value["architecture"] if family else None
    parser = first(known.tool_parsers, spelt)
    return Model(
        name,
        total,
        active,
        thinks=bool(_THINKS.search(spelt)) or bool(family and family.value.get("thinks")),
        architecture=architecture,
        vision=bool(family.value["vision"]) if family else None,
        tool_parser=parser.value["parser"] if parser else None,
        renderer=known.renderers.get(name) or known.renderers.get(spelt),
        published=spelt if _PUBLISHED.match(spelt) else None,
        known=row is not None or spelt in known.renderers,
        closed=next((v.vendor for v in known.closed if v.match.search(name)), None),
        inference_only=any(v.match.search(name) for v in known.inference_only) and row is None,
        parser_found=bool(parser and parser.value["found"]),
        context=next((f.value["tokens"] for f in facts if f.what == "context"), None),
        facts=facts,
        **_trained(known, architecture, vision=bool(family and family.value["vision"])),
    )


def _sizes(name: str, facts: tuple[Fact, ...]) -> tuple[float | None, float | None]:
    """The registry's sizes before the name's, which round."""
    told = next((f.value for f in facts if f.what == "size"), None)
    if told is not None:
        return told["parameters"], told["active"]
    bare = name.rpartition("/")[2]
    total, active = _SIZE.search(bare), _ACTIVE.search(bare)
    size = float(total[1]) if total else None
    return size, float(active[1]) if active else size


def _trained(known: Registry, architecture: str | None, *, vision: bool) -> dict[str, Any]:
    """How prime-rl's trainer takes it. An architecture that it does not name falls back to transformers."""
    if architecture is None:
        return {}
    told = known.trained.get(architecture, {})
    return {
        "native": bool(told.get("native")),
        "text_of_vision": bool(told.get("text_of_vision")) if vision else None,
        "images": bool(told.get("images")) if vision else None,
        "hopper": told.get("gpus") == "hopper",
    }
