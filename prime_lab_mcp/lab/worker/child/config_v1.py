"""The configuration of a v1 environment: its arguments, its agents, and the schemas of its tables in a training config.

The schemas come from the classes with which verifiers validates the `env` table of a source. A key that the schemas
refuse is therefore refused when the platform loads the environment. The schemas accept anything for parts that a config
chooses by name (harness, judges, client).

The last section finds out what the arguments of a generated taskset change.
"""

from __future__ import annotations

import importlib
import json
import time
from collections.abc import Collection, Iterator
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from . import coercion, solutions
from .protocol import ArgReply, GeneratorReply, RoleReply

if TYPE_CHECKING:
    from .adapter_v1 import AdapterV1

EVAL_NAMES = ("eval", "evaluation", "validation", "valid", "val", "dev", "test", "heldout", "held_out", "held-out")
_TRAIN_NAMES = ("train", "training")
_LARGEST_SCHEMA = 60_000
"""Most characters of a schema that is passed on. A longer schema is left out."""
_OPEN_KEYS = frozenset({"client", "harness", "judges"})
"""Fields whose schema accepts anything. An id in the config determines the fields of a harness or judge; a client is
set by the run, not by the environment's table."""
_PROSE_KEYS = frozenset({"title", "description", "examples"})
_KEYED_BY_NAME = frozenset({"properties", "$defs", "mapping"})


def schemas(adapter: AdapterV1) -> dict[str, Any]:
    """Return JSON schemas of the tables `taskset` and `env`, whether the model gets `tools`, and the settings of an
    `episode` that decide how many rollouts it plays. A value is None if it is unknown."""
    return {
        "taskset": _taskset(adapter),
        "env": _env(adapter),
        "tools": _tools(adapter),
        "episode": _episode(adapter),
    }


def env_type(adapter: AdapterV1) -> Any:
    """Return the `Env` class that runs the taskset if a config names no other."""
    v1 = adapter.v1
    exported = [getattr(adapter.module, name, None) for name in adapter.module.__all__]
    kinds = [k for k in exported if isinstance(k, type) and issubclass(k, v1.Env) and k is not v1.Env]
    return kinds[0] if kinds else v1.SingleAgentEnv


def env_config_type(adapter: AdapterV1) -> Any:
    """Return the config class of `env_type`.

    The function of the same name in verifiers imports all built-in tasksets, which takes more than a second.
    """
    generic = importlib.import_module("verifiers.v1.utils.generic")
    v1 = adapter.v1
    return generic.concrete_type(env_type(adapter), v1.EnvConfig, origin=v1.Env) or v1.EnvConfig


def held_out(config: Any) -> tuple[str, str] | None:
    """Return the config field and value that select the split that is not loaded; None if there is no such field.

    Such a field is a Literal with a training and a held-out split among its values, and `config` has one of them.
    """
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
    """Yield the fields of a taskset's config class and of its task config, without those of the base classes."""
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
    """Return whether the environment has an `Env` of its own that overrides `run` or `finalize`.

    Such an `Env` may write prompts and record rewards.
    """
    try:
        kind, base = env_type(adapter), adapter.v1.SingleAgentEnv
        return any(getattr(kind, name) is not getattr(base, name) for name in ("run", "finalize"))
    except Exception:
        return False  # check_environment reports the error.


def roles(adapter: AdapterV1) -> list[RoleReply] | None:
    """Return the agents of the environment, each with its default harness and runtime; None if they are unknown."""
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
    """Return the schema of the table `env`. The table `taskset` inside accepts anything; it has its own schema."""
    try:
        schema: dict[str, Any] = env_config_type(adapter).model_json_schema()
        schema["properties"]["taskset"] = {}
        return _without_prose(schema)
    except Exception:
        return None


def _episode(adapter: AdapterV1) -> dict[str, Any] | None:
    """Return the defaults of the agents and of the retries, and whether the class that plays an episode has code of its
    own: such a class may let its agents play any number of times."""
    v1 = adapter.v1
    try:
        config = env_config_type(adapter)()
        agents = importlib.import_module("verifiers.v1.configs.agent").agent_config_fields(config)
        exported = [getattr(adapter.module, name, None) for name in adapter.module.__all__]
        harness = any(isinstance(k, type) and issubclass(k, v1.Harness) and k is not v1.Harness for k in exported)
        default = adapter.module.__name__ if harness else "bash"
        return {
            "own": _has_own_code(env_type(adapter), v1.SingleAgentEnv),
            "agents": {
                str(name): {
                    "harness": str(role.harness.id if role.harness is not None else default),
                    "runtime": str(role.runtime.type),
                    "max_turns": role.max_turns,
                    "sampling": role.sampling.model_dump(exclude_unset=True) if role.sampling is not None else None,
                    "retries": role.retries.model_dump(),
                    **({"creates_per_min": pace} if (pace := _sandbox_pace(role)) is not None else {}),
                }
                for name, role in agents.items()
            },
            "retries": config.retries.model_dump(),
        }
    except Exception:
        return None


def _sandbox_pace(role: Any) -> int | None:
    """Return how many sandboxes the runtime of an agent makes in a minute; None without such a limit."""
    return getattr(role.runtime, "creates_per_min", None)


def _has_own_code(kind: type, base: type) -> bool:
    """Whether a class adds functions to `base`, or is no kind of it."""
    if not issubclass(kind, base) or type(kind) is not type(base):
        return True
    added = [c for c in kind.__mro__ if c not in base.__mro__]
    kinds = (staticmethod, classmethod, property)
    return any(callable(value) or isinstance(value, kinds) for c in added for value in vars(c).values())


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
    return bare if len(json.dumps(bare)) <= _LARGEST_SCHEMA else None


def structure(node: Any, open_keys: Collection[str] = _OPEN_KEYS, keys_are_names: bool = False) -> Any:
    """Return a JSON schema without titles and descriptions.

    Of the defaults, only those stay that choose between the variants of a table by their `type`. Properties named in
    `open_keys` accept anything. `keys_are_names` says that the keys of `node` are names, as in `properties`.
    """
    if isinstance(node, list):
        return [structure(inner, open_keys) for inner in node]
    if not isinstance(node, dict):
        return node
    result = {}
    for key, inner in node.items():
        if keys_are_names:
            result[key] = {} if key in open_keys else structure(inner, open_keys)
        elif key == "default":
            if isinstance(inner, dict) and isinstance(inner.get("type"), str):
                result[key] = {"type": inner["type"]}
        elif key not in _PROSE_KEYS:
            result[key] = (
                inner if key == "mapping" else structure(inner, open_keys, keys_are_names=key in _KEYED_BY_NAME)
            )
    return result


def used_definitions(node: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the definitions that a schema refers to, directly or through other definitions."""
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


# --- the effect of arguments on tasks -----------------------------------------------------------------------------

_COMPARED_TASKS = 24
"""Number of tasks that are compared for each argument."""
_SLOW_LOAD = 5.0
"""Seconds. A taskset that takes longer to load is not loaded again: it reads data rather than generating tasks."""
_COMPARE_SECONDS = 6.0
"""Seconds after which no further arguments are tried."""
_SEED_FIELD = "seed"
_LEVEL_FIELDS = frozenset({"level", "levels", "difficulty", "difficulties", "tier", "stage", "hardness"})
_ALL_LEVELS = frozenset({"all", "any", "mixed", "mix", "every"})


def argument_effects(adapter: AdapterV1) -> list[GeneratorReply]:
    """Return, for each tried pair of values of an argument, whether both give the same tasks.

    The argument is empty for two loads with the same arguments of a taskset without a seed.
    """
    if adapter.infinite or adapter.load_seconds > _SLOW_LOAD:
        return []
    effects: list[GeneratorReply] = []
    deadline = time.monotonic() + _COMPARE_SECONDS
    for argument, first, second in _argument_pairs(adapter.taskset.config):
        if time.monotonic() > deadline:
            break
        try:
            after = _first_tasks(adapter, argument, second)
            if argument:
                before = _first_tasks(adapter, argument, first)
            else:
                before, after = adapter.tasks[: len(after)], after[: len(adapter.tasks)]
            if before and after:
                effects.append(_effect(adapter, argument, (first, second), before, after))
        except Exception:
            continue  # The environment may refuse a value, and data may have no form as text.
    return effects


def _effect(
    adapter: AdapterV1, argument: str, values: tuple[Any, Any], before: list[Any], after: list[Any]
) -> GeneratorReply:
    """Compare the tasks of two values.

    Where they differ only by the value, such as an opponent's strength that the tasks carry, their solutions may differ
    all the same, because another opponent plays otherwise.
    """
    one, other = (
        [_task_text(task, argument, value) for task in tasks]
        for tasks, value in zip((before, after), values, strict=True)
    )
    same, marked = one == other, False
    if same and argument and values[0] != values[1]:
        marked = [_task_text(task, "", "") for task in before] != [_task_text(task, "", "") for task in after]
        same = not marked or _solution_texts(adapter, before) == _solution_texts(adapter, after)
    return {"argument": argument, "values": [str(value) for value in values], "same": same, "marked": same and marked}


def _solution_texts(adapter: AdapterV1, tasks: list[Any]) -> list[str]:
    """Return the solutions of tasks as text; an empty text for one that is no list of messages."""
    texts = []
    for task in tasks:
        try:
            turns = adapter.event_loop().run_until_complete(solutions.stated_turns(getattr(task, "solution", None)))
        except Exception:
            turns = None  # test_reward reports what is wrong with the solution.
        texts.append("" if turns is None else repr(turns))
    return texts


def _argument_pairs(config: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield an argument with two values. Two equal values show whether equal arguments give equal tasks."""
    seed = getattr(config, _SEED_FIELD, None)
    if isinstance(seed, int) and not isinstance(seed, bool):
        yield _SEED_FIELD, seed, seed
        yield _SEED_FIELD, seed, seed + 1
    else:
        yield "", "", ""
    for name, field in type(config).model_fields.items():
        if name.lower() not in _LEVEL_FIELDS:
            continue
        levels: list[Any] = []
        if get_origin(field.annotation) is Literal:
            levels = [c for c in get_args(field.annotation) if str(c).lower() not in _ALL_LEVELS]
        elif field.annotation is int:
            levels = [getattr(config, name), getattr(config, name) + 1]
        yield from ((name, one, other) for one, other in pairwise(levels))


def _first_tasks(adapter: AdapterV1, argument: str, value: Any) -> list[Any]:
    """Return the first tasks with this value of the argument."""
    config = adapter.taskset.config
    changed = {argument: value} if argument else {}
    other = adapter.kind(type(config).model_validate({**config.model_dump(), **changed}))
    return list(islice(iter(other), _COMPARED_TASKS))


def _task_text(task: Any, argument: str, value: Any) -> str:
    """Return the data of a task as text, without the argument and its value."""
    data = task.data.model_dump(mode="json")
    text = json.dumps({k: v for k, v in data.items() if k != argument}, sort_keys=True, default=str)
    return text.replace(str(value), "") if isinstance(value, str) else text
