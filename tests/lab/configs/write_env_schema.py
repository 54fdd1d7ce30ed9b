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
from prime_lab_mcp.lab.worker.child.config_v1 import structure, used_definitions

PLACE = Path(package.__file__).parent / "schemas" / "env.json"


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
            harnesses[id] = structure(harness_config_type(id).model_json_schema(), open_keys=())
        except AttributeError:
            continue  # a module that harnesses share
    for key in ("taskset", "task"):
        env["$defs"].pop(key, None)
    return {
        "verifiers": metadata.version("verifiers"),
        "env": _pruned(structure(env, open_keys=())),
        "harnesses": harnesses,
    }


def _pruned(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.pop("$defs")
    return {**schema, "$defs": dict(sorted(used_definitions(schema, definitions).items()))}


if __name__ == "__main__":
    PLACE.write_text(json.dumps(env_schema(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
