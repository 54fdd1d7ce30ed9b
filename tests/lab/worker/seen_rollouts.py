"""A program that prints what a reward sees of one reply in our scoring, in a witness and in a rollout of verifiers.

It runs in the interpreter of the environment, as the worker does: `python seen_rollouts.py v0|v1 CHILD MODULE.py`.
CHILD is the folder of `worker/child`. The reward of the module calls `seen.see(name=value)`.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import runpy
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

_DEEP = 12


def leaves(value: Any, path: str = "", depth: int = 0) -> dict[str, str]:
    """Every value below an object by its path: items, fields, properties and attributes, private ones left out."""
    if depth > _DEEP:
        return {path: "too deep"}
    if value is None or isinstance(value, str | int | float | bool | bytes | type):
        return {path: f"{type(value).__name__} {value!r}"}
    found = {f"{path}:": type(value).__name__}
    if isinstance(value, dict):
        parts: list[tuple[str, Any]] = [(f"[{key!r}]", part) for key, part in value.items()]
        found[f"{path}:keys"] = repr(list(value))
    elif isinstance(value, list | tuple):
        parts = [(f"[{at}]", part) for at, part in enumerate(value)]
        found[f"{path}:length"] = str(len(value))
    else:
        parts = list(_attributes(value))
    for name, part in parts:
        found |= leaves(part, f"{path}{name}", depth + 1)
    return found


def _attributes(value: Any) -> list[tuple[str, Any]]:
    kind = type(value)
    if not (hasattr(kind, "model_fields") or kind.__module__.startswith(("verifiers", "sample"))):
        return []
    names = set(vars(value)) if hasattr(value, "__dict__") else set()
    names |= set(getattr(kind, "model_fields", ()))
    names |= {n for n, member in inspect.getmembers(kind) if isinstance(member, property)}
    found: list[tuple[str, Any]] = []
    for name in sorted(n for n in names if not n.startswith(("_", "model_"))):
        try:
            found.append((f".{name}", getattr(value, name)))
        except Exception as error:
            found.append((f".{name}", f"{type(error).__name__}: {error}"))
    if hasattr(kind, "model_fields"):
        found.append((":set", sorted(value.model_fields_set)))
    return found


SEEN: list[dict[str, str]] = []


def see(**values: Any) -> None:
    """Note what a reward sees. The rewards of the module call it by `seen.see`."""
    SEEN.append({k: v for name, value in values.items() for k, v in leaves(value, name).items()})


def _request(tree: Path, module: str) -> dict[str, Any]:
    made = {"tree": str(tree), "module": module, "env_args": {}, "hidden": [], "variables": {}, "caches": {}}
    return {**made, "scratch": tempfile.gettempdir(), "op": "load", "last": 0}


def main(api: str, child: str, path: str) -> None:
    """Print three tables of what the reward saw, as JSON: of the worker, of the witness and of the rollout."""
    runpy.run_path(f"{child}/__main__.py", run_name="launcher")["register"](Path(child))
    seen: Any = ModuleType("seen")
    seen.see = see
    sys.modules["seen"] = seen
    file = Path(path)
    sys.path.insert(0, str(file.parent))
    module = importlib.import_module(file.stem)
    request = _request(file.parent, file.stem)
    reply: list[dict[str, Any]] = [{"role": "assistant", "content": "4"}]
    kind = importlib.import_module(f"_prime_lab_worker.adapter_{api}")
    adapter = getattr(kind, f"Adapter{api.upper()}")()
    adapter.load(module, request)
    adapter.score({"row": 0, "messages": reply}, 20.0)
    witness = runpy.run_path(f"{child}/witness.py", run_name="witness")[f"_{api.upper()}"](request)
    witness.prepare([0])
    case = {"row": 0, "messages": reply, "rest_of_group": []}
    asyncio.run(witness.score(case))
    script = {"turns": ["4"], "then": "silence"}
    asked = {"rollouts": [{"row": 0, "script": script}], "in_order": True, "held": True, "observed": ""}
    times = {"seconds": 60.0, "rollout_seconds": 60.0, "serving": 60.0, "turns": 5, "endless": 5, "case_timeout": 20.0}
    ended = adapter.run_rollouts({"op": "rollout", **asked, **times})
    print(json.dumps({"seen": SEEN, "rollout": ended}, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:4])
