"""Looks up facts about a model: those that its name states, and the dated facts of the registry with their sources."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal

FactName = Literal["size", "context", "price", "baseline", "note", "fault"]


@dataclass(frozen=True, slots=True)
class ModelFact:
    """One dated fact about a model. `source` is a key of `ModelRegistry.sources` or an address."""

    what: FactName
    value: Mapping[str, Any]
    source: str
    date: str
    """ISO day on which the fact was true or was read."""

    @property
    def summary(self) -> str:
        """The fact in a few words with its date."""
        return f"{_FACT_TEXTS[self.what](self.value)} ({self.date})"


def _size(v: Mapping[str, Any]) -> str:
    active = v.get("active")
    return f"{v['parameters']:g}B" + (f", {active:g}B active" if active and active != v["parameters"] else "")


def _baseline(v: Mapping[str, Any]) -> str:
    share = f"{v['low']:.0%} to {v['high']:.0%}" if "low" in v else f"{v['mean']:.1%}".replace(".0%", "%")
    about = "about " if v.get("approximate") else ""
    count = f"{v['n']} tasks" if v.get("n") else "an unknown number of tasks"
    return f"{about}{share} on {count} of {v['environment']}"


_FACT_TEXTS: Mapping[FactName, Callable[[Mapping[str, Any]], str]] = {
    "size": _size,
    "context": lambda v: f"{v['tokens']:,} tokens of context",
    "price": lambda v: f"${v['input']:g} in, ${v['output']:g} out per million tokens",
    "baseline": _baseline,
    "note": lambda v: str(v["text"]),
    "fault": lambda v: str(v["text"]),
}


@dataclass(frozen=True, slots=True)
class ModelRow:
    """The facts about one model. `name` is its name on Hugging Face; `names` are other names that platforms use."""

    name: str
    names: tuple[str, ...]
    facts: tuple[ModelFact, ...]


@dataclass(frozen=True, slots=True)
class ModelVendor:
    """The models of a vendor: `match` is a pattern of their names, `listed` are models that the vendor offered."""

    match: re.Pattern[str]
    vendor: str
    listed: tuple[str, ...]
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """Facts that hold for every model whose name `match` finds."""

    match: re.Pattern[str]
    value: Mapping[str, Any]
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class ModelRegistry:
    """The registry: models with their facts, vendors, renderers and supported architectures."""

    sources: Mapping[str, Mapping[str, str]]
    rows: tuple[ModelRow, ...]
    closed: tuple[ModelVendor, ...]
    inference_only: tuple[ModelVendor, ...]
    """Models that the platform serves and does not offer for training, whether or not their weights are open."""
    architectures: tuple[ModelFamily, ...]
    tool_parsers: tuple[ModelFamily, ...]
    trained: Mapping[str, Mapping[str, Any]]
    """Support of prime-rl's trainer by architecture: `native`, `images`, `text_of_vision`, `gpus`."""
    renderers: Mapping[str, str]
    by_name: Mapping[str, ModelRow] = field(default_factory=dict)
    """Rows by each of their names in lower case."""

    def spelt(self, name: str) -> str:
        """The model's name as Hugging Face spells it; an unknown name is returned unchanged."""
        row = self.by_name.get(name.lower())
        if row is not None:
            return row.name
        return _folded_renderers().get(name.lower(), name)


@cache
def load_registry() -> ModelRegistry:
    """Read the registry that the package contains. The result is cached."""
    data = _read("registry.json")
    families = _read("families.json")
    rows = tuple(
        ModelRow(row["name"], tuple(row["names"]), tuple(_fact(f) for f in row["facts"])) for row in data["models"]
    )
    trained = {f["architecture"]: {**f, "native": True} for f in families["native"]}
    trained |= {f["architecture"]: {**f, "native": False} for f in families["vision_on_text"]}
    return ModelRegistry(
        sources=data["sources"],
        rows=rows,
        closed=_vendors(data["closed"]),
        inference_only=_vendors(data["inference_only"]),
        architectures=_families(families["architectures"]),
        tool_parsers=_families(families["tool_parsers"]),
        trained=trained,
        renderers=_renderers(),
        by_name={name.lower(): row for row in rows for name in (row.name, *row.names)},
    )


def first_match(families: Sequence[ModelFamily], name: str) -> ModelFamily | None:
    """Return the first family whose pattern matches the name of a model."""
    return next((f for f in families if f.match.search(name)), None)


def _fact(row: Mapping[str, Any]) -> ModelFact:
    value = {key: v for key, v in row.items() if key not in ("what", "source", "date")}
    return ModelFact(row["what"], value, row["source"], row["date"])


def _families(rows: Sequence[Mapping[str, Any]]) -> tuple[ModelFamily, ...]:
    return tuple(ModelFamily(re.compile(f["match"], re.I), f, f["source"], f["date"]) for f in rows)


def _vendors(rows: Sequence[Mapping[str, Any]]) -> tuple[ModelVendor, ...]:
    return tuple(
        ModelVendor(re.compile("^" + v["match"], re.I), v["vendor"], tuple(v["listed"]), v["source"], v["date"])
        for v in rows
    )


def _read(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((resources.files(__package__) / name).read_text(encoding="utf-8"))
    return loaded


@cache
def _renderers() -> Mapping[str, str]:
    path = resources.files("prime_lab_mcp.lab.configs") / "renderers.json"
    models: Mapping[str, str] = json.loads(path.read_text(encoding="utf-8"))["models"]
    return models


@cache
def _folded_renderers() -> Mapping[str, str]:
    return {name.lower(): name for name in _renderers()}


_SIZE = re.compile(r"(?<![A-Za-z\d.])(\d+(?:\.\d+)?)B\b", re.I)
_ACTIVE = re.compile(r"\bA(\d+(?:\.\d+)?)B\b", re.I)
_THINKS = re.compile(r"Thinking|DeepSeek-R1|gpt-oss|/Qwen3-[\d.]+B(-A\d+B)?$|/Qwen3\.[568]-(?!0\.8B|2B)", re.I)
_PUBLISHED = re.compile(r"[\w.-]+/[\w.-]+\Z")


@dataclass(frozen=True, slots=True)
class KnownModel:
    """All known facts about a model; None means unknown. Sizes are in billions of parameters, and `active` equals
    `parameters` for a dense model."""

    name: str
    """The name that the caller gave."""
    parameters: float | None = None
    active: float | None = None
    thinks: bool = False
    """Whether the model writes a chain of thought before its answer, which makes completions long."""
    architecture: str | None = None
    """The `model_type` in transformers."""
    native: bool | None = None
    """Whether prime-rl's trainer has its own implementation; False means the fallback to transformers."""
    vision: bool | None = None
    tool_parser: str | None = None
    """The vLLM parser for the model's tool calls."""
    renderer: str | None = None
    """The renderer of prime-rl; None if the config must name one."""
    published: str | None = None
    """The name as Hugging Face spells it, under which trainer and renderer look the model up; None without such
    a name."""
    is_known: bool = False
    """Whether the registry or the renderers name the model; otherwise all fields follow from its name."""
    closed: str | None = None
    """The vendor, if it does not publish the weights; None if the weights are open or nothing is known."""
    inference_only: bool = False
    """Whether the platform served a model of this name and did not offer it for training."""
    text_of_vision: bool | None = None
    """Whether it is a vision model that prime-rl trains on text with a frozen vision part."""
    images: bool | None = None
    """Whether it is a vision model that prime-rl trains on images, under `[model.vlm]`."""
    parser_found: bool = False
    """Whether prime-rl selects `tool_parser` itself; otherwise the config must name it."""
    hopper: bool = False
    """Whether prime-rl trains the model on Hopper GPUs (H100, H200) only."""
    context: int | None = None
    """Context length in tokens."""
    facts: tuple[ModelFact, ...] = ()
    """Dated facts about the model with their sources."""

    def facts_about(self, what: FactName) -> tuple[ModelFact, ...]:
        return tuple(f for f in self.facts if f.what == what)

    def fault(self, kind: str) -> ModelFact | None:
        return next((f for f in self.facts_about("fault") if f.value.get("kind") == kind), None)


def find_model(name: str) -> KnownModel:
    """Return the facts about a model, by any of its names, in upper or lower case.

    For an unknown model, only the facts in its name are returned: `Qwen3-30B-A3B` states 30 billion parameters, of
    which 3 billion are active.
    """
    registry = load_registry()
    spelt = registry.spelt(name)
    row = registry.by_name.get(name.lower())
    facts = row.facts if row else ()
    total, active = _sizes(spelt, facts)
    family = first_match(registry.architectures, spelt)
    architecture = family.value["architecture"] if family else None
    parser = first_match(registry.tool_parsers, spelt)
    return KnownModel(
        name,
        total,
        active,
        thinks=bool(_THINKS.search(spelt)) or bool(family and family.value.get("thinks")),
        architecture=architecture,
        vision=bool(family.value["vision"]) if family else None,
        tool_parser=parser.value["parser"] if parser else None,
        renderer=registry.renderers.get(name) or registry.renderers.get(spelt),
        published=spelt if _PUBLISHED.match(spelt) else None,
        is_known=row is not None or spelt in registry.renderers,
        closed=next((v.vendor for v in registry.closed if v.match.search(name)), None),
        inference_only=any(v.match.search(name) for v in registry.inference_only) and row is None,
        parser_found=bool(parser and parser.value["found"]),
        context=next((f.value["tokens"] for f in facts if f.what == "context"), None),
        facts=facts,
        **_trained(registry, architecture, vision=bool(family and family.value["vision"])),
    )


def _sizes(name: str, facts: tuple[ModelFact, ...]) -> tuple[float | None, float | None]:
    """Total and active parameters, in billions. The registry's sizes take precedence, because names round."""
    fact = next((f for f in facts if f.what == "size"), None)
    if fact is not None:
        return fact.value["parameters"], fact.value["active"]
    bare = name.rpartition("/")[2]
    total, active = _SIZE.search(bare), _ACTIVE.search(bare)
    size = float(total[1]) if total else None
    return size, float(active[1]) if active else size


def _trained(registry: ModelRegistry, architecture: str | None, *, vision: bool) -> dict[str, Any]:
    """Support of prime-rl's trainer for the architecture. An unlisted architecture falls back to transformers."""
    if architecture is None:
        return {}
    support = registry.trained.get(architecture, {})
    return {
        "native": bool(support.get("native")),
        "text_of_vision": bool(support.get("text_of_vision")) if vision else None,
        "images": bool(support.get("images")) if vision else None,
        "hopper": support.get("gpus") == "hopper",
    }
