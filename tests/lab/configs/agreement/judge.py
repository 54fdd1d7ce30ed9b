"""The judge of the agreement table: prime-rl's own config classes, in an interpreter that has them.

Run by a Python 3.12 with the package `prime_rl.configs` (packages/prime-rl-configs of PrimeIntellect-ai/prime-rl).
Imports nothing of this repository. Reads cases as JSON from standard input and writes a verdict for each to standard
output: null for an accepted config, or the first lines of the refusal.

A source names a taskset that has to be importable, so the judge makes a stand-in for each: `tiny-env` has typed fields
(those of `TINY` in cases.py), any other taskset takes every key.
"""

from __future__ import annotations

import json
import sys
import tomllib
import types
import warnings
from typing import Any, Literal


def main() -> None:
    warnings.simplefilter("ignore")
    request = json.load(sys.stdin)
    from prime_rl.configs.rl import RLConfig
    from prime_rl.configs.sft import SFTConfig

    verdicts: dict[str, str | None] = {}
    for name, case in request["cases"].items():
        table = {k: v for k, v in tomllib.loads(case["text"]).items() if k not in request["platform_keys"]}
        _stand_ins(table)
        # As training_schema_worker.py of prime 0.18: the platform's launcher brings SLURM along.
        if case["target"] == "hosted" and table.get("deployment", {}).get("type") == "multi_node":
            table.setdefault("slurm", {})
        try:
            (SFTConfig if case["mode"] == "sft" else RLConfig).model_validate(table)
            verdicts[name] = None
        except (Exception, SystemExit) as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            verdicts[name] = " | ".join(lines[:3])[:300] or type(error).__name__
    json.dump(verdicts, sys.stdout)


def _stand_ins(table: dict[str, Any]) -> None:
    for id in _tasksets(table):
        name = id.rsplit("/", 1)[-1].split("@", 1)[0].replace("-", "_").lower()
        if name and name not in sys.modules:
            sys.modules[name] = _module(name)


def _tasksets(node: Any) -> list[str]:
    if isinstance(node, list):
        return [id for inner in node for id in _tasksets(inner)]
    if not isinstance(node, dict):
        return []
    taskset = node.get("taskset")
    own = [taskset["id"]] if isinstance(taskset, dict) and isinstance(taskset.get("id"), str) else []
    return own + [id for inner in node.values() for id in _tasksets(inner)]


def _module(name: str) -> types.ModuleType:
    import verifiers.v1 as vf
    from pydantic import ConfigDict

    class AnyConfig(vf.TasksetConfig):
        model_config = ConfigDict(extra="allow")

    class TinyConfig(vf.TasksetConfig):
        split: Literal["train", "eval"] = "train"
        min_turns: int = 1
        level: str | None = None

    if name == "tiny_env":

        class TinyTaskset(vf.Taskset[vf.Task, TinyConfig]):
            def load(self) -> Any:
                return []

        found: type = TinyTaskset
    else:

        class AnyTaskset(vf.Taskset[vf.Task, AnyConfig]):
            def load(self) -> Any:
                return []

        found = AnyTaskset
    module = types.ModuleType(name)
    setattr(module, found.__name__, found)
    module.__all__ = [found.__name__]  # type: ignore[attr-defined]
    found.__module__ = name
    return module


main()
