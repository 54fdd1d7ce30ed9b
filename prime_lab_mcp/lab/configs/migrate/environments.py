"""Environments of older files as v1 sources: the arguments of `load_environment` become keys of the taskset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prime_lab_mcp.lab.configs.draft import KeyPath
from prime_lab_mcp.lab.configs.read import identity

if TYPE_CHECKING:
    from prime_lab_mcp.lab.configs.migrate.mover import Mover

_PLACES = (
    ("env", "orchestrator.train.source"),
    ("orchestrator.env", "orchestrator.train.source"),
    ("orchestrator.train.env", "orchestrator.train.source"),
    ("eval.env", "orchestrator.eval.source"),
    ("orchestrator.eval.env", "orchestrator.eval.source"),
)
_SAMPLING = {"max_tokens": "max_completion_tokens"}
_OWN = {
    "train": ("ratio", "group_size", "algo"),
    "eval": ("group_size", "num_examples", "interval"),
}
_V1 = "environments are v1 sources now, with their own harness and runtime"
_ARGS = "arguments of load_environment are fields of the taskset's config now, if it has them"


def move_environments(mover: Mover) -> None:
    for place, to in _PLACES:
        entries = mover.draft.get(place)
        if not isinstance(entries, list):
            continue
        mover.draft.pop(place)
        kept = list(mover.draft.get(to) or [])
        for index, entry in enumerate(entries):
            old = f"{place}[{index}]" if len(entries) > 1 else place
            if isinstance(entry, Mapping):
                new = f"{to}[{len(kept)}]"
                kept.append(_Entry(mover, entry, old, new).source())
        mover.draft.put(to, kept, "")


class _Entry:
    """One environment on its way from `old` to `new`."""

    def __init__(self, mover: Mover, entry: Mapping[str, Any], old: str, new: str) -> None:
        self._mover, self._entry, self._old, self._new = mover, entry, old, new
        self._kind = "train" if ".train." in new else "eval"

    def source(self) -> dict[str, Any]:
        entry = self._entry
        if isinstance(entry.get("env"), Mapping):
            self._moved("", dict(entry), "", "renamed")
            return dict(entry)
        taskset = entry.get("taskset")
        id = self._id(taskset)
        source: dict[str, Any] = {"name": str(entry.get("name") or identity(id)[1])}
        if entry.get("name"):
            self._moved(".name", entry["name"], ".name", "it labels the source")
        self._own_keys(source)
        args = {**self._args(taskset, ".taskset"), **self._args(entry.get("args"), ".args")}
        source["env"] = {"taskset": {"id": id, **args}, "agent": self._agent(entry.get("harness"))}
        return source

    def _id(self, taskset: Any) -> str:
        entry = self._entry
        inner = taskset.get("id") if isinstance(taskset, Mapping) else taskset
        id = str(entry.get("id") or inner or "")
        version = entry.get("version")
        if isinstance(version, str) and version and id and "@" not in id:
            id = f"{id}@{version}"
        place = ".env.taskset.id"
        if version is not None:
            self._mover.rows.dropped(f"{self._old}.version", version, "a source names its version with its id",
                                     f"{self._new}{place} = {id}")  # fmt: skip
        old = ".id" if entry.get("id") else ".taskset.id" if isinstance(taskset, Mapping) else ".taskset"
        if id:
            self._moved(old, id, place, _V1, entry.get("id") or inner)
        if entry.get("id") and inner:
            below = ".taskset.id" if isinstance(taskset, Mapping) else ".taskset"
            self._mover.drop(f"{self._old}{below}", inner, "the id of the source names the taskset")
        return id

    def _args(self, table: Any, place: str) -> dict[str, Any]:
        found = {k: v for k, v in table.items() if k != "id"} if isinstance(table, Mapping) else {}
        if isinstance(table, Mapping) and not table:
            self._mover.drop(f"{self._old}{place}", {}, "it was empty")
        for key, value in found.items():
            self._moved(f"{place}.{key}", value, f".env.taskset.{key}", _ARGS)
        return found

    def _agent(self, harness: Any) -> dict[str, Any]:
        agent: dict[str, Any] = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
        if isinstance(harness, Mapping) and harness:
            runtime = harness.get("runtime")
            agent["harness"] = {k: v for k, v in harness.items() if k != "runtime"} or {"id": "null"}
            agent["runtime"] = runtime or {"type": "subprocess"}
            for key, value in harness.items():
                new = ".runtime" if key == "runtime" else f".harness.{key}"
                self._moved(f".harness.{key}", value, f".env.agent{new}", "harness and runtime belong to the agent")
        elif isinstance(harness, str):
            agent["harness"] = {"id": harness}
            self._moved(".harness", harness, ".env.agent.harness.id", "harness and runtime belong to the agent")
        else:
            self._none_named()
        return agent

    def _none_named(self) -> None:
        named = f"{self._mover.name} named none"
        *parents, last = self._new.split(".")
        path: KeyPath = (*parents, last.partition("[")[0], int(last.partition("[")[2].rstrip("]")), "env", "agent")
        self._mover.draft.reasons[(*path, "harness", "id")] = f"{named}: the model answers directly"
        self._mover.draft.reasons[(*path, "runtime", "type")] = f"{named}: needs no sandbox"

    def _own_keys(self, source: dict[str, Any]) -> None:
        for key, value in self._entry.items():
            if key in ("id", "name", "args", "taskset", "harness", "version"):
                continue
            if key in _OWN[self._kind]:
                source[key] = value
                self._moved(f".{key}", value, f".{key}", "it belongs to the source")
            elif key == "rollouts_per_example" and "group_size" not in self._entry:
                source["group_size"] = value
                self._moved(f".{key}", value, ".group_size", "renamed: rollouts of one task")
            elif key == "sampling" and isinstance(value, Mapping):
                source["sampling"] = {_SAMPLING.get(k, k): v for k, v in value.items()}
                for name, inner in value.items():
                    self._moved(f".sampling.{name}", inner, f".sampling.{_SAMPLING.get(name, name)}", "of the source")
            else:
                why = "a source has no such key; give it to the taskset if it takes it"
                self._mover.drop(f"{self._old}.{key}", value, why)

    def _moved(self, old: str, value: Any, new: str, why: str, was: Any = None) -> None:
        self._mover.rows.moved(self._old + old, self._new + new, value, why, was)
