"""The configuration of a v1 environment: its arguments, its agents, and schemas of the tables of a training config.

The schemas come from the classes with which verifiers validates the `env` table of a source, so a key that they refuse
is refused when the platform loads the environment. Parts that a config chooses by name (harness, judges, client) stay
open.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from . import coercion
from .protocol import ArgReply, RoleReply

if TYPE_CHECKING:
    from .adapter_v1 import AdapterV1

EVAL_NAMES = ("eval", "evaluation", "validation", "valid", "val", "dev", "test", "heldout", "held_out", "held-out")
_TRAIN_NAMES = ("train", "training")
_LARGEST = 60_000
"""Characters of a schema beyond which it is not kept."""
_OPEN_KEYS = frozenset({"client", "harness", "judges"})
"""Fields narrowed by an id in the config, and a client that nobody gives an environment."""
_WORDS = frozenset({"title", "description", "examples"})
_NAMED = frozenset({"properties", "$defs", "mapping"})


def schemas(adapter: AdapterV1) -> dict[str, Any]:
    """`taskset` and `env`: schemas, null where there is none; `tools`: whether the model is offered any."""
    return {"taskset": _taskset(adapter), "env": _env(adapter), "tools": _tools(adapter)}


def env_type(adapter: AdapterV1) -> Any:
    """The class of the environment that runs the taskset where a config names no other."""
    v1 = adapter.v1
    exported = [getattr(adapter.module, name, None) for name in adapter.module.__all__]
    kinds = [k for k in exported if isinstance(k, type) and issubclass(k, v1.Env) and k is not v1.Env]
    return kinds[0] if kinds else v1.SingleAgentEnv


def env_config_type(adapter: AdapterV1) -> Any:
    """The class of that environment's config.

    Not through verifiers' `env_config_type`, which imports the package of built-in tasksets (more than a second).
    """
    generic = importlib.import_module("verifiers.v1.utils.generic")
    v1 = adapter.v1
    return generic.concrete_type(env_type(adapter), v1.EnvConfig, origin=v1.Env) or v1.EnvConfig


def held_out(config: Any) -> tuple[str, str] | None:
    """The config field and value that select the other split: a Literal whose values name a training and a held-out
    split, one of which `config` has."""
    for name, field in type(config).model_fields.items():
        choices = [c for c in get_args(field.annotation) if isinstance(c, str)]
        if get_origin(field.annotation) is not Literal or len(choices) < 2:
            continue
        wanted = EVAL_NAMES if str(getattr(config, name)).lower() in _TRAIN_NAMES else _TRAIN_NAMES
        known = str(getattr(config, name)).lower() in (*EVAL_NAMES, *_TRAIN_NAMES)
        choice = next((c for c in choices if c.lower() in wanted), None) if known else None
        if choice is not None:
            return name, choice
    return None


def arguments(config: type[Any], v1: Any) -> Iterator[ArgReply]:
    """The fields of a taskset's config and of its task config."""
    base = set(v1.TasksetConfig.model_fields)
    for name, field in config.model_fields.items():
        if name not in base:
            yield _arg(name, field)
    note: Any = config.model_fields["task"].annotation
    kinds = [t for t in (note, *get_args(note)) if isinstance(t, type) and issubclass(t, v1.TaskConfig)]
    for name, field in getattr(kinds[0], "model_fields", {}).items() if kinds else ():
        if name not in v1.TaskConfig.model_fields:
            yield _arg(f"task.{name}", field)


def _arg(name: str, field: Any) -> ArgReply:
    kind = field.annotation
    type_name = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind).replace("typing.", "")
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    return {
        "name": name,
        "type": coercion.text(type_name, 200),
        "default": coercion.to_json(default),
        "required": bool(field.is_required()),
        "choices": [coercion.to_json(c) for c in get_args(kind)] if get_origin(kind) is Literal else [],
    }


def has_own_run(adapter: AdapterV1) -> bool:
    """Whether the environment's own `Env` plays the rollout or ends it, and so may make prompts and record rewards."""
    try:
        kind, base = env_type(adapter), adapter.v1.SingleAgentEnv
        return any(getattr(kind, name) is not getattr(base, name) for name in ("run", "finalize"))
    except Exception:
        return False  # check_environment reports what is broken there


def roles(adapter: AdapterV1) -> list[RoleReply] | None:
    """Each agent of the environment with the harness and runtime it gets when a run names none."""
    v1, module = adapter.v1, adapter.module
    try:
        exported = [getattr(module, name, None) for name in module.__all__]
        kinds = [k for k in exported if isinstance(k, type)]
        env = env_type(adapter)
        harness = any(issubclass(k, v1.Harness) and k is not v1.Harness for k in kinds)
        config = env_config_type(adapter)()
        agents = importlib.import_module("verifiers.v1.configs.agent").agent_config_fields(config)
        default = module.__name__ if harness else "bash"
        return [
            {
                "name": str(name),
                "harness": str(role.harness.id if role.harness is not None else default),
                "runtime": str(role.runtime.type),
                "own": harness or env is not v1.SingleAgentEnv,
            }
            for name, role in agents.items()
        ]
    except Exception:
        return None


def _taskset(adapter: AdapterV1) -> dict[str, Any] | None:
    try:
        config = type(adapter.taskset.config)
        schema = config.model_json_schema()
        note = config.model_fields["task"].annotation
        if isinstance(note, type) and note is not adapter.v1.TaskConfig:
            schema["properties"]["task"] = {"$ref": f"#/$defs/{note.__name__}"}
        return _without_prose(schema)
    except Exception:
        return None


def _env(adapter: AdapterV1) -> dict[str, Any] | None:
    """Of the environment that runs the taskset where a config names no other; its taskset has a schema of its own."""
    try:
        schema: dict[str, Any] = env_config_type(adapter).model_json_schema()
        schema["properties"]["taskset"] = {}
        return _without_prose(schema)
    except Exception:
        return None


def _tools(adapter: AdapterV1) -> bool | None:
    try:
        task = adapter.tasks[0] if adapter.tasks else None
        own = task is not None and bool(task.toolsets(task.config))
        return own or bool(adapter.taskset.toolsets(adapter.taskset.config))
    except Exception:
        return None


def _without_prose(schema: dict[str, Any]) -> dict[str, Any] | None:
    bare = structure(schema)
    used = used_definitions(bare, bare.pop("$defs", {}))
    if used:
        bare["$defs"] = used
    return bare if len(json.dumps(bare)) <= _LARGEST else None


def structure(node: Any, open_keys: Collection[str] = _OPEN_KEYS, named: bool = False) -> Any:
    """A JSON schema without prose, and of its defaults only those that choose between tables.

    Properties named in `open_keys` accept anything. `named`: the keys of `node` are names, as those of properties are.
    """
    if isinstance(node, list):
        return [structure(inner, open_keys) for inner in node]
    if not isinstance(node, dict):
        return node
    result = {}
    for key, inner in node.items():
        if named:
            result[key] = {} if key in open_keys else structure(inner, open_keys)
        elif key == "default":
            if isinstance(inner, dict) and isinstance(inner.get("type"), str):
                result[key] = {"type": inner["type"]}
        elif key not in _WORDS:
            result[key] = inner if key == "mapping" else structure(inner, open_keys, named=key in _NAMED)
    return result


def used_definitions(node: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The definitions that a schema refers to, directly or through other definitions."""
    used: dict[str, Any] = {}
    queue = [node]
    while queue:
        part = queue.pop()
        if isinstance(part, list):
            queue += part
        elif isinstance(part, dict):
            name = str(part.get("$ref", "")).rpartition("/")[2]
            if name in definitions and name not in used:
                used[name] = definitions[name]
                queue.append(definitions[name])
            queue += [inner for key, inner in part.items() if key not in ("$ref", "mapping")]
    return used
