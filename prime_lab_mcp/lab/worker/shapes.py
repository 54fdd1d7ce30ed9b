"""The tables that a config may give a v1 environment, as JSON schemas; runs in the environment's interpreter.

Taken from the classes that verifiers validates a source's `env` with, so a key that is refused here is refused when the
environment is loaded on the platform. What is chosen by name only then (harness, judges, client) stays open.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

_LARGEST = 60_000
"""Characters of a schema beyond which it is not kept."""
_OPEN_KEYS = frozenset({"client", "harness", "judges"})
"""Fields narrowed by an id in the config, and a client that nobody gives an environment."""
_WORDS = frozenset({"title", "description", "examples"})
_NAMED = frozenset({"properties", "$defs", "mapping"})


def of(adapter: Any) -> dict[str, Any]:
    """`taskset` and `env`: schemas, null where there is none; `tools`: whether the model is offered any."""
    return {"taskset": _taskset(adapter), "env": _env(adapter), "tools": _tools(adapter)}


def _taskset(adapter: Any) -> dict[str, Any] | None:
    try:
        config = type(adapter.taskset.config)
        schema = config.model_json_schema()
        note = config.model_fields["task"].annotation
        if isinstance(note, type) and note is not adapter.v1.TaskConfig:
            schema["properties"]["task"] = {"$ref": f"#/$defs/{note.__name__}"}
        return _kept(schema)
    except Exception:
        return None


def _env(adapter: Any) -> dict[str, Any] | None:
    """Of the environment that runs the taskset where a config names no other; its taskset has a schema of its own."""
    try:
        v1, module = adapter.v1, adapter.module
        exported = [getattr(module, name, None) for name in module.__all__]
        kinds = [k for k in exported if isinstance(k, type) and issubclass(k, v1.Env) and k is not v1.Env]
        generic = importlib.import_module("verifiers.v1.utils.generic")
        env = kinds[0] if kinds else v1.SingleAgentEnv
        schema = (generic.concrete_type(env, v1.EnvConfig, origin=v1.Env) or v1.EnvConfig).model_json_schema()
        schema["properties"]["taskset"] = {}
        return _kept(schema)
    except Exception:
        return None


def _tools(adapter: Any) -> bool | None:
    try:
        task = adapter.tasks[0] if adapter.tasks else None
        own = task is not None and bool(task.toolsets(task.config))
        return own or bool(adapter.taskset.toolsets(adapter.taskset.config))
    except Exception:
        return None


def _kept(schema: dict[str, Any]) -> dict[str, Any] | None:
    bare = _bare(schema)
    used = _used(bare, bare.pop("$defs", {}))
    if used:
        bare["$defs"] = used
    return bare if len(json.dumps(bare)) <= _LARGEST else None


def _bare(node: Any, named: bool = False) -> Any:
    """Without prose, and of defaults only what chooses between tables."""
    if isinstance(node, list):
        return [_bare(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    found = {}
    for key, inner in node.items():
        if named:
            found[key] = {} if key in _OPEN_KEYS else _bare(inner)
        elif key == "default":
            if isinstance(inner, dict) and isinstance(inner.get("type"), str):
                found[key] = {"type": inner["type"]}
        elif key not in _WORDS:
            found[key] = inner if key == "mapping" else _bare(inner, named=key in _NAMED)
    return found


def _used(node: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The definitions that a schema still refers to."""
    found: dict[str, Any] = {}
    queue = [node]
    while queue:
        one = queue.pop()
        if isinstance(one, list):
            queue += one
        elif isinstance(one, dict):
            name = str(one.get("$ref", "")).rpartition("/")[2]
            if name in definitions and name not in found:
                found[name] = definitions[name]
                queue.append(definitions[name])
            queue += [inner for key, inner in one.items() if key not in ("$ref", "mapping")]
    return found
