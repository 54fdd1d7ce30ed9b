"""Which modules of an interpreter a package may count on: those that its declared requirements bring.

The server's own environment and the toolchain's hold more than a package asks for. Loading a package with the rest
hidden is what a clean installation would do, without making one.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

_FILE = re.compile(r"^([^/,]+?)(?:/|(?:\.[^/,]*)?\.(?:py|so|pyd)(?:,|$))")


@dataclass(frozen=True, slots=True)
class Distribution:
    """One installed distribution: what it requires, and the top-level modules it holds."""

    requires: tuple[str, ...]
    modules: frozenset[str]


def hidden(python: Path, key: str, wanted: Sequence[Requirement]) -> tuple[str, ...]:
    """Top-level modules that an interpreter has and `wanted` does not bring. `key` names its exact contents."""
    return _hidden(python, key, tuple(map(str, wanted)))


@lru_cache(maxsize=64)
def _hidden(python: Path, key: str, requirements: tuple[str, ...]) -> tuple[str, ...]:
    installed, wanted = _installed(python, key), [Requirement(r) for r in requirements]
    brought = closure(installed, wanted)
    allowed = {m for name in brought for m in installed[name].modules}
    found = {m for name, dist in installed.items() if name not in brought for m in dist.modules}
    return tuple(sorted(found - allowed - sys.stdlib_module_names))


def closure(installed: Mapping[str, Distribution], wanted: Iterable[Requirement]) -> frozenset[str]:
    """Names of the installed distributions that these requirements bring, directly or through others."""
    seen: set[tuple[str, str]] = set()
    todo = [(canonicalize_name(r.name), extra) for r in wanted for extra in ("", *r.extras)]
    while todo:
        name, extra = todo.pop()
        if (name, extra) in seen or name not in installed:
            continue
        seen.add((name, extra))
        for text in installed[name].requires:
            need = _readable(text)
            if need is None or (need.marker is not None and not need.marker.evaluate({"extra": extra})):
                continue
            todo += [(canonicalize_name(need.name), more) for more in ("", *need.extras)]
    return frozenset(name for name, _ in seen)


def _readable(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None


@lru_cache(maxsize=4)
def _installed(python: Path, key: str) -> Mapping[str, Distribution]:
    root = python.parent.parent
    paths = [str(p) for p in (*root.glob("lib/python*/site-packages"), root / "Lib" / "site-packages")]
    found: dict[str, Distribution] = {}
    for dist in importlib.metadata.distributions(path=paths):
        if name := dist.metadata["Name"]:
            record = (dist.read_text("RECORD") or "").splitlines()
            found[canonicalize_name(name)] = Distribution(tuple(dist.requires or ()), frozenset(_tops(record)))
    return found


def _tops(record: Sequence[str]) -> Iterator[str]:
    for line in record:
        top = _FILE.match(line)
        if top and top[1].isidentifier():
            yield top[1]
