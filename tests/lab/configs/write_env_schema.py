"""Writes `schemas/env.json`: what verifiers' own classes take in the `env` table of a source.

    .venv/bin/python -m tests.lab.configs.write_env_schema

The pinned verifiers of the environment that runs this is the source. Prose and defaults are left out, but for defaults
that choose between tables.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import prime_lab_mcp.lab.configs as package

PLACE = Path(package.__file__).parent / "schemas" / "env.json"
_WORDS = ("title", "description", "examples")
_NAMED = ("properties", "$defs")


def env_schema() -> dict[str, Any]:
    """The schema of a plain taskset's environment, and of each harness that ships with verifiers."""
    from verifiers.v1.envs.single_agent import SingleAgentEnvConfig
    from verifiers.v1.utils.loaders import builtin_harness_ids, harness_config_type

    env = SingleAgentEnvConfig.model_json_schema()
    env["properties"]["taskset"] = {}
    env["$defs"]["AgentConfig"]["properties"]["harness"] = {}
    # A renderer of a client of one agent is rare and large; its table is not judged.
    env["$defs"]["TrainClientConfig"]["properties"].pop("renderer", None)
    env["$defs"]["TrainClientConfig"]["additionalProperties"] = True
    harnesses = {}
    for id in builtin_harness_ids():
        try:
            harnesses[id] = _bare(harness_config_type(id).model_json_schema())
        except AttributeError:
            continue  # a module that harnesses share
    for key in ("taskset", "task"):
        env["$defs"].pop(key, None)
    return {"verifiers": metadata.version("verifiers"), "env": _pruned(_bare(env)), "harnesses": harnesses}


def _bare(node: Any, named: bool = False) -> Any:
    if isinstance(node, list):
        return [_bare(inner) for inner in node]
    if not isinstance(node, dict):
        return node
    found = {}
    for key, inner in node.items():
        if named:
            found[key] = _bare(inner)
        elif key == "default":
            if isinstance(inner, dict) and isinstance(inner.get("type"), str):
                found[key] = {"type": inner["type"]}
        elif key not in _WORDS:
            found[key] = inner if key == "mapping" else _bare(inner, named=key in _NAMED)
    return found


def _pruned(schema: dict[str, Any]) -> dict[str, Any]:
    definitions, used = schema.pop("$defs"), {}
    queue: list[Any] = [schema]
    while queue:
        one = queue.pop()
        if isinstance(one, list):
            queue += one
        elif isinstance(one, dict):
            name = str(one.get("$ref", "")).rpartition("/")[2]
            if name in definitions and name not in used:
                used[name] = definitions[name]
                queue.append(definitions[name])
            queue += [inner for key, inner in one.items() if key not in ("$ref", "mapping")]
    return {**schema, "$defs": dict(sorted(used.items()))}


if __name__ == "__main__":
    PLACE.write_text(json.dumps(env_schema(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
