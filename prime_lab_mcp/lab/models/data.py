"""The registry's files: what is known of models, each fact with its date and source."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal

What = Literal["size", "context", "price", "baseline", "note", "fault"]


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that somebody found out. `source`: a key of `sources()`, or an address."""

    what: What
    value: Mapping[str, Any]
    source: str
    date: str
    """ISO day on which it was true, or was read."""

    @property
    def said(self) -> str:
        """In a few words, with its date."""
        return f"{_SAID[self.what](self.value)} ({self.date})"


def _size(v: Mapping[str, Any]) -> str:
    active = v.get("active")
    return f"{v['parameters']:g}B" + (f", {active:g}B active" if active and active != v["parameters"] else "")


def _baseline(v: Mapping[str, Any]) -> str:
    share = f"{v['low']:.0%} to {v['high']:.0%}" if "low" in v else f"{v['mean']:.1%}".replace(".0%", "%")
    about = "about " if v.get("approximate") else ""
    count = f"{v['n']} tasks" if v.get("n") else "an unknown number of tasks"
    return f"{about}{share} on {count} of {v['environment']}"


_SAID: Mapping[What, Callable[[Mapping[str, Any]], str]] = {
    "size": _size,
    "context": lambda v: f"{v['tokens']:,} tokens of context",
    "price": lambda v: f"${v['input']:g} in, ${v['output']:g} out per million tokens",
    "baseline": _baseline,
    "note": lambda v: str(v["text"]),
    "fault": lambda v: str(v["text"]),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One model under its name on Hugging Face; `names` are what platforms call it besides."""

    name: str
    names: tuple[str, ...]
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Vendor:
    """Models of which `match` finds the name, and those that were listed."""

    match: re.Pattern[str]
    vendor: str
    listed: tuple[str, ...]
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class Family:
    """What holds for every model whose name `match` finds."""

    match: re.Pattern[str]
    value: Mapping[str, Any]
    source: str
    date: str


@dataclass(frozen=True, slots=True)
class Registry:
    sources: Mapping[str, Mapping[str, str]]
    rows: tuple[Row, ...]
    closed: tuple[Vendor, ...]
    inference_only: tuple[Vendor, ...]
    """Served by the platform and not offered for training, whatever becomes of their weights."""
    architectures: tuple[Family, ...]
    tool_parsers: tuple[Family, ...]
    trained: Mapping[str, Mapping[str, Any]]
    """Architecture to how prime-rl's trainer knows it: `native`, `images`, `text_of_vision`, `gpus`."""
    renderers: Mapping[str, str]
    by_name: Mapping[str, Row] = field(default_factory=dict)
    """Every name in lower case."""

    def spelt(self, name: str) -> str:
        """The name on Hugging Face of what is asked for, in its own capitals; as given where it is not known."""
        row = self.by_name.get(name.lower())
        if row is not None:
            return row.name
        return _folded_renderers().get(name.lower(), name)


@cache
def registry() -> Registry:
    told = _read("registry.json")
    families = _read("families.json")
    rows = tuple(Row(row["name"], tuple(row["names"]), tuple(_fact(f) for f in row["facts"])) for row in told["models"])
    trained = {f["architecture"]: {**f, "native": True} for f in families["native"]}
    trained |= {f["architecture"]: {**f, "native": False} for f in families["vision_on_text"]}
    return Registry(
        sources=told["sources"],
        rows=rows,
        closed=_vendors(told["closed"]),
        inference_only=_vendors(told["inference_only"]),
        architectures=_families(families["architectures"]),
        tool_parsers=_families(families["tool_parsers"]),
        trained=trained,
        renderers=_renderers(),
        by_name={name.lower(): row for row in rows for name in (row.name, *row.names)},
    )


def first(families: Sequence[Family], name: str) -> Family | None:
    return next((f for f in families if f.match.search(name)), None)


def _fact(told: Mapping[str, Any]) -> Fact:
    value = {key: v for key, v in told.items() if key not in ("what", "source", "date")}
    return Fact(told["what"], value, told["source"], told["date"])


def _families(told: Sequence[Mapping[str, Any]]) -> tuple[Family, ...]:
    return tuple(Family(re.compile(f["match"], re.I), f, f["source"], f["date"]) for f in told)


def _vendors(told: Sequence[Mapping[str, Any]]) -> tuple[Vendor, ...]:
    return tuple(
        Vendor(re.compile("^" + v["match"], re.I), v["vendor"], tuple(v["listed"]), v["source"], v["date"])
        for v in told
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
