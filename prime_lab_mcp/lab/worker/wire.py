"""What training asks of a v1 taskset beyond loading it; runs in the environment's interpreter.

The env server never calls `load()`: it is sent `TaskData` as JSON and rebuilds `TaskT(DataT.model_validate(...),
config.task)` (verifiers 0.4.0, serve/server.py). So a task must survive the wire whole and score from its data alone.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Literal, get_args, get_origin

_TRIPS = 500
"""Tasks sent over the wire and back; of a larger set evenly spaced ones."""
_SHOWN = 3
_SENT = 3
_LARGEST = 2**64 - 1
EVAL_NAMES = ("eval", "evaluation", "validation", "valid", "val", "dev", "test", "heldout", "held_out", "held-out")
_TRAIN_NAMES = ("train", "training")


def _plain() -> Any:
    return sys.modules["_prime_lab_worker_program"].sibling("plain")


def facts(adapter: Any) -> dict[str, Any]:
    """What can be told of a loaded taskset without scoring anything."""
    declared = adapter.kind.task_type()
    data_type = declared.data_type()
    others = sorted({type(t).__name__ for t in adapter.tasks if type(t) is not declared})
    tried = _spaced(len(adapter.tasks), _TRIPS)
    lost = [(i, *found) for i in tried if (found := lossy(adapter.tasks[i].data, data_type))]
    split = held_out(adapter.taskset.config)
    return {
        "args": list(_args(type(adapter.taskset.config), adapter.v1)),
        "excluded": [n for n, field in data_type.model_fields.items() if field.exclude],
        "declared_task": declared.__name__,
        "other_tasks": others,
        "tried": len(tried),
        "lossy": [{"row": i, "field": name, "why": _plain().text(why, 300)} for i, name, why in lost[:_SHOWN]],
        "lossy_total": len(lost),
        "roles": _roles(adapter),
        "shapes": sys.modules["_prime_lab_worker_program"].sibling("shapes").of(adapter),
        "held_out": f"{split[0]}={split[1]}" if split else None,
        "wire": [{"row": i, "data": d} for i in tried[:_SENT] if (d := _dumped(adapter.tasks[i].data)) is not None],
    }


def _spaced(size: int, wanted: int) -> list[int]:
    return list(range(size)) if size <= wanted else [i * size // wanted for i in range(wanted)]


def _dumped(data: Any) -> Any:
    try:
        return json.loads(json.dumps(data.model_dump(mode="json"), allow_nan=False))
    except Exception:
        return None


def lossy(data: Any, declared: type[Any]) -> tuple[str, str] | None:
    """The field that does not survive the wire, and why; None when the task comes back equal."""
    try:
        sent = data.model_dump(mode="json")
        text = json.dumps(sent)
    except Exception as error:
        return _culprit(data), f"{type(error).__name__}: {error}"
    if (name := _too_large(sent)) is not None:
        return name, "an integer beyond 64 bits cannot be sent"
    try:
        again = declared.model_validate(json.loads(text))
    except Exception as error:
        return "", f"what was sent is refused: {error}"
    if type(data) is not declared:
        more = sorted(set(type(data).model_fields) - set(declared.model_fields))
        what = f"its fields {', '.join(more)} are dropped" if more else "its class is replaced"
        return "", f"the data is a {type(data).__name__}, the Task declares {declared.__name__}: {what}"
    for name in declared.model_fields:
        before, after = getattr(data, name), getattr(again, name)
        if not _same(before, after):
            return name, f"{type(before).__name__} {before!r:.80} comes back as {type(after).__name__} {after!r:.80}"
    return None


def _same(one: Any, other: Any) -> bool:
    if repr(one) == repr(other):  # NaN equals itself here
        return True
    try:
        return bool(one == other) and type(one) is type(other)
    except Exception:
        return False


def _culprit(data: Any) -> str:
    for name in type(data).model_fields:
        try:
            json.dumps(data.model_dump(mode="json", include={name}))
        except Exception:
            return str(name)
    return ""


def _too_large(sent: dict[str, Any]) -> str | None:
    def large(value: Any) -> bool:
        if isinstance(value, int):
            return not -(2**63) <= value <= _LARGEST
        if isinstance(value, dict):
            return any(map(large, value.values()))
        return isinstance(value, list) and any(map(large, value))

    return next((name for name, value in sent.items() if large(value)), None)


def _args(config: type[Any], v1: Any) -> Iterator[dict[str, Any]]:
    base = set(v1.TasksetConfig.model_fields)
    for name, field in config.model_fields.items():
        if name not in base:
            yield _arg(name, field)
    note: Any = config.model_fields["task"].annotation
    kinds = [t for t in (note, *get_args(note)) if isinstance(t, type) and issubclass(t, v1.TaskConfig)]
    for name, field in getattr(kinds[0], "model_fields", {}).items() if kinds else ():
        if name not in v1.TaskConfig.model_fields:
            yield _arg(f"task.{name}", field)


def _arg(name: str, field: Any) -> dict[str, Any]:
    kind = field.annotation
    shown = kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind).replace("typing.", "")
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    return {
        "name": name,
        "type": _plain().text(shown, 200),
        "default": _plain().plain(default),
        "required": bool(field.is_required()),
        "choices": [_plain().plain(c) for c in get_args(kind)] if get_origin(kind) is Literal else [],
    }


def _roles(adapter: Any) -> list[dict[str, Any]] | None:
    """Each agent of the environment with the harness and runtime it gets when a run names none.

    By hand and not through `env_config_type`, which imports the package of built-in tasksets (more than a second).
    """
    v1, module = adapter.v1, adapter.module
    try:
        exported = [getattr(module, name, None) for name in module.__all__]
        kinds = [k for k in exported if isinstance(k, type)]
        env = next((k for k in kinds if issubclass(k, v1.Env) and k is not v1.Env), v1.SingleAgentEnv)
        harness = any(issubclass(k, v1.Harness) and k is not v1.Harness for k in kinds)
        generic = importlib.import_module("verifiers.v1.utils.generic")
        config = (generic.concrete_type(env, v1.EnvConfig, origin=v1.Env) or v1.EnvConfig)()
        found = importlib.import_module("verifiers.v1.configs.agent").agent_config_fields(config)
        default = module.__name__ if harness else "bash"
        return [
            {
                "name": str(name),
                "harness": str(role.harness.id if role.harness is not None else default),
                "runtime": str(role.runtime.type),
                "own": harness or env is not v1.SingleAgentEnv,
            }
            for name, role in found.items()
        ]
    except Exception:
        return None


def held_out(config: Any) -> tuple[str, str] | None:
    """The config field and value that select the other split: a Literal whose values name a training and a held-out
    split, one of which `config` has."""
    for name, field in type(config).model_fields.items():
        choices = [c for c in get_args(field.annotation) if isinstance(c, str)]
        if get_origin(field.annotation) is not Literal or len(choices) < 2:
            continue
        wanted = EVAL_NAMES if str(getattr(config, name)).lower() in _TRAIN_NAMES else _TRAIN_NAMES
        known = str(getattr(config, name)).lower() in (*EVAL_NAMES, *_TRAIN_NAMES)
        found = next((c for c in choices if c.lower() in wanted), None) if known else None
        if found is not None:
            return name, found
    return None


def served(adapter: Any, module: ModuleType, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Score completions as the env server does: tasks rebuilt from data, in a process that never called `load()`."""
    adapter.build(module, request)
    task_type = adapter.kind.task_type()
    data_type = task_type.data_type()
    config = adapter.taskset.config.task
    adapter.tasks = [task_type(data_type.model_validate(c["data"]), config) for c in request["cases"]]
    adapter.ended = True
    limit = request["case_timeout"]
    return [adapter.score({"row": i, "messages": c["messages"]}, limit) for i, c in enumerate(request["cases"])]
