"""Brings a config of any earlier shape to the present one, saying what became of every key.

Known shapes: the retired shared-LoRA one (`model = "..."`, `[[env]]`), prime-rl's own of late 2025 to mid 2026
(`[[orchestrator.env]]`, `[orchestrator.sampling]`, `[wandb]`, `[inference.model]`), and today's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.configs.draft import Draft, KeyPath
from prime_lab_mcp.lab.configs.inherit import inherit
from prime_lab_mcp.lab.configs.old_keys import OLD_KEYS
from prime_lab_mcp.lab.configs.plan import Choices, Curriculum
from prime_lab_mcp.lab.configs.read import Config, Target, identity
from prime_lab_mcp.lab.configs.schema import check
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.text import quote

_NOT_HOSTED = ("k8s", "clean")
_MOVED_TABLES = (
    ("wandb", "monitors.wandb"),
    ("trainer.wandb", "monitors.wandb"),
    ("orchestrator.wandb", "monitors.wandb"),
    ("checkpoints", "ckpt"),
    ("trainer.model.experimental.lora", "trainer.model.lora"),
    ("model.lora", "trainer.model.lora"),
    ("inference.parallel", "inference.vllm"),
    ("inference.model", "inference.vllm"),
)
_RENAMED = {"tp": "tensor_parallel_size", "dp": "data_parallel_size"}


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one old key. `to` is the new place and value, or "dropped"."""

    key: str
    to: str
    why: str
    was: Any = None

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"key": self.key, "to": self.to, "why": self.why}
        if self.was is not None:
            shown["from"] = self.was if isinstance(self.was, (bool, int, float)) else quote(self.was, limit=80)
        return shown


@dataclass(frozen=True, slots=True)
class Migration:
    """`draft` holds the old file's settings in today's shape; `choices` the same as far as a plan decides on them."""

    draft: Draft
    choices: Choices
    changes: tuple[Change, ...]


def migrate(config: Config, target: Target = "hosted") -> Migration:
    """Raises BadInput for a config of supervised fine-tuning, which has no environments."""
    if config.shape == "sft":
        raise BadInput(
            f"{config.path.name} is a config for supervised fine-tuning; there is nothing in it to migrate",
            fix="Edit it directly, or write an RL config with environments=[...].",
            code="config-not-rl",
        )
    mover = _Mover(config, target)
    mover.move()
    choices = inherit(mover.draft, config.path.name, target, lora=True if config.shape == "shared-lora" else None)
    kind = mover.curriculum
    return Migration(mover.draft, replace(choices, curriculum=kind), tuple(mover.changes))


class _Mover:
    """One migration in progress."""

    def __init__(self, config: Config, target: Target) -> None:
        self.draft = Draft(copy.deepcopy(dict(config.table)))
        self.changes: list[Change] = []
        self._name = config.path.name
        self._target = target
        self._curriculum: set[str] = set()

    @property
    def curriculum(self) -> Curriculum | None:
        if self._curriculum == {"gate", "pools"}:
            return "both"
        return "gate" if "gate" in self._curriculum else "pools" if "pools" in self._curriculum else None

    def move(self) -> None:
        if isinstance(self.draft.get("model"), str):
            self._to("model", "model.name", "the model is a table now")
        for old, new in _MOVED_TABLES:
            self._table(old, new)
        self._buffer()
        self._gpus()
        self._environments()
        self._simple()
        self._evaluation()
        self._shared()
        self._rest()
        if self.draft.get("orchestrator.eval") is not None and not self.draft.get("orchestrator.eval.source"):
            self._drop("eval", None, "it named no environment; pass eval={...} to select held-out tasks")
            self.draft.pop("orchestrator.eval")
        for path in _leaves(self.draft.table):
            self.draft.reasons.setdefault(path, f"from {self._name}")

    # Steps

    def _table(self, old: str, new: str) -> None:
        table = self.draft.get(old)
        if not isinstance(table, dict):
            return
        self.draft.pop(old)
        for key, value in table.items():
            place = f"{new}.{_RENAMED.get(key, key)}"
            if old == "inference.model" and key in ("name", "enable_auto_tool_choice"):
                self._drop(f"{old}.{key}", value, "prime-rl sets it itself")
                continue
            self._place(f"{old}.{key}", place, value, "moved")
        if not table and self.draft.get(new) is None:
            self.draft.put(new, {}, f"from {self._name}")

    def _buffer(self) -> None:
        for place in ("buffer", "orchestrator.buffer"):
            table = self.draft.get(place)
            if not isinstance(table, dict):
                continue
            self.draft.pop(place)
            for key, value in table.items():
                kind = "gate" if key.startswith("online_difficulty") else "pools"
                if value in (False, None) or key in ("seed", "from_scratch", "env_ratios", "type"):
                    self._drop(f"{place}.{key}", value, "the difficulty buffer was removed from prime-rl")
                    continue
                self._curriculum.add(kind)
                to = "curriculum gate advantage_range" if kind == "gate" else "curriculum sampler difficulty_pool"
                why = "the difficulty buffer was removed; this does its work per training source"
                self.changes.append(Change(f"{place}.{key}", to, why, value))

    def _gpus(self) -> None:
        for old, new in (("trainer_gpu_ids", "num_train_gpus"), ("inference_gpu_ids", "num_infer_gpus")):
            value = self.draft.get(old)
            if isinstance(value, list):
                self.draft.pop(old)
                self._place(old, f"deployment.{new}", len(value), "GPUs are counted, not named", was=value)

    def _environments(self) -> None:
        for place in ("env", "orchestrator.env", "orchestrator.train.env"):
            self._sources(place, "orchestrator.train.source")
        for place in ("eval.env", "orchestrator.eval.env"):
            self._sources(place, "orchestrator.eval.source")

    def _sources(self, place: str, to: str) -> None:
        entries = self.draft.get(place)
        if not isinstance(entries, list):
            return
        self.draft.pop(place)
        kept = list(self.draft.get(to) or [])
        for entry in entries:
            if isinstance(entry, Mapping):
                if not isinstance(entry.get("env"), Mapping) and not entry.get("harness"):
                    agent: KeyPath = (*to.split("."), len(kept), "env", "agent")
                    named = f"{self._name} named none"
                    self.draft.reasons[(*agent, "harness", "id")] = f"{named}: the model answers directly"
                    self.draft.reasons[(*agent, "runtime", "type")] = f"{named}: needs no sandbox"
                kept.append(self._source(entry, place))
        self.draft.put(to, kept, "")

    def _source(self, entry: Mapping[str, Any], place: str) -> dict[str, Any]:
        if isinstance(entry.get("env"), Mapping):
            return dict(entry)
        taskset = entry.get("taskset")
        id = str(entry.get("id") or (taskset.get("id") if isinstance(taskset, Mapping) else taskset) or "")
        args = entry.get("args")
        keys = {**(taskset if isinstance(taskset, Mapping) else {}), **(args if isinstance(args, Mapping) else {})}
        keys.pop("id", None)
        harness = entry.get("harness")
        agent: dict[str, Any] = {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}}
        if isinstance(harness, Mapping):
            agent["harness"] = {k: v for k, v in harness.items() if k != "runtime"} or {"id": "null"}
            agent["runtime"] = harness.get("runtime") or {"type": "subprocess"}
        elif isinstance(harness, str):
            agent["harness"] = {"id": harness}
        source: dict[str, Any] = {"name": str(entry.get("name") or identity(id)[1])}
        for key, value in entry.items():
            if key in ("ratio", "group_size", "algo", "num_examples", "interval"):
                source[key] = value
            elif key == "rollouts_per_example":
                source["group_size"] = value
            elif key == "sampling" and isinstance(value, Mapping):
                source["sampling"] = {
                    ("max_completion_tokens" if k == "max_tokens" else k): v for k, v in value.items()
                }
            elif key not in ("id", "name", "args", "taskset", "harness"):
                self._drop(f"{place}.{key}", value, "a source has no such key; give it to the taskset if it takes it")
        source["env"] = {"taskset": {"id": id, **keys}, "agent": agent}
        to = f"env.taskset.id of source {source['name']}"
        why = "environments are v1 sources now, with their own harness and runtime"
        self.changes.append(Change(f"{place}.id", to, why, id))
        return source

    def _simple(self) -> None:
        for old in OLD_KEYS:
            if old.to is None or old.path.endswith(".*") or not all(p.isidentifier() for p in old.to.split(".")):
                continue
            if old.path in ("eval.eval_base_model", "orchestrator.eval.eval_base_model"):
                continue
            value = self.draft.get(old.path)
            if value is not None and (not isinstance(value, (dict, list)) or old.path.endswith("extra_body")):
                self._to(old.path, old.to, old.why)
        if isinstance(name := self.draft.get("orchestrator.lora_name"), str):
            self._place("orchestrator.lora_name", "orchestrator.model.lora.name", name, "moved")
            self.draft.pop("orchestrator.lora_name")

    def _evaluation(self) -> None:
        table = self.draft.get("eval")
        if isinstance(table, dict):
            self.draft.pop("eval")
            for key, value in table.items():
                if key == "eval_base_model":
                    self.draft.put("orchestrator.eval.eval_base_model", value, "")
                    continue
                new = {"rollouts_per_example": "group_size"}.get(key, key)
                self._place(f"eval.{key}", f"orchestrator.eval.{new}", value, "evaluation belongs to the orchestrator")
        table = self.draft.get("orchestrator.eval")
        if isinstance(table, dict) and "eval_base_model" in table:
            value = self.draft.pop("orchestrator.eval.eval_base_model")
            flag = not value if isinstance(value, bool) else False
            self._place("eval.eval_base_model", "orchestrator.eval.skip_first_step", flag, "inverted", was=value)

    def _shared(self) -> None:
        """One place for what prime-rl shares: its components may not disagree with it."""
        lengths = ("orchestrator.seq_len", "trainer.model.seq_len")
        own = [self.draft.get(p) for p in lengths]
        if any(v is not None for v in own):
            shared = next((v for v in (own[0], self.draft.get("seq_len"), own[1]) if v is not None), None)
            for path, value in zip(lengths, own, strict=True):
                if value is not None:
                    self.draft.pop(path)
                    self.changes.append(
                        Change(path, f"seq_len = {shared}", "set once, shared by all components", value)
                    )
            self.draft.put("seq_len", shared, f"from {self._name}")
        for path in ("orchestrator.model.lora.rank", "orchestrator.model.lora.alpha"):
            if (value := self.draft.get(path)) is not None:
                self._drop(path, self.draft.pop(path), "trainer.model.lora holds for all components")
        for shared_path, paths in (
            ("max_steps", ("orchestrator.max_steps", "trainer.max_steps")),
            ("model.name", ("orchestrator.model.name", "trainer.model.name", "inference.vllm.model")),
        ):
            for path in paths:
                if (value := self.draft.get(path)) is not None:
                    self.draft.pop(path)
                    if self.draft.get(shared_path) is None:
                        self._place(path, shared_path, value, "set once, shared by all components")
                    elif self.draft.get(shared_path) != value:
                        self._drop(path, value, f"{shared_path} holds for all components")

    def _rest(self) -> None:
        """Whatever today's schema does not take."""
        if self._target == "hosted":
            for key in _NOT_HOSTED:
                if key in self.draft.table:
                    self._drop(key, self.draft.pop(key), "the platform decides on it")
        if "type" in self.draft.table:
            self._drop("type", self.draft.pop("type"), "every run is a dedicated one now; the key is ignored")
        if (
            self.draft.get("weight_broadcast.type") in ("nccl", "nixl")
            and self.draft.get("trainer.model.lora") is not None
        ):
            self._drop("weight_broadcast", self.draft.pop("weight_broadcast"), "LoRA works with the file system only")
        old = {key.path.removesuffix(".*"): key.why for key in OLD_KEYS}
        for _ in range(200):
            self.draft.table.setdefault("trainer", {})
            self.draft.table.setdefault("orchestrator", {})
            problem = next((p for p in check(self.draft.table) if p.kind != "missing"), None)
            if problem is None:
                return
            path = _path(problem.key)
            why = next(
                (old[k] for k in _prefixes(problem.key) if k in old), f"it {problem.problem} in today's prime-rl"
            )
            self._drop(problem.key, self.draft.pop(path), why)

    # Small steps

    def _to(self, old: str, new: str, why: str) -> None:
        self._place(old, new, self.draft.pop(old), why)

    def _place(self, old: str, new: str, value: Any, why: str, was: Any = None) -> None:
        was = value if was is None else was
        present = self.draft.get(new)
        if present is not None and not isinstance(present, dict):
            self.changes.append(Change(old, f"dropped ({new} = {present} stands)", why, was))
            return
        self.draft.put(new, value, f"from {old} of {self._name}")
        self.changes.append(Change(old, f"{new} = {value}" if not isinstance(value, (dict, list)) else new, why, was))

    def _drop(self, key: str, value: Any, why: str) -> None:
        self.changes.append(Change(key, "dropped", why, value))


def _leaves(table: Mapping[str, Any], path: KeyPath = ()) -> Iterator[KeyPath]:
    for key, value in table.items():
        here = (*path, key)
        if isinstance(value, Mapping):
            yield from _leaves(value, here)
        elif isinstance(value, list) and value and all(isinstance(v, Mapping) for v in value):
            for index, entry in enumerate(value):
                yield from _leaves(entry, (*here, index))
        else:
            yield here


def _path(key: str) -> KeyPath:
    """`orchestrator.train.source[0].ratio` as a path."""
    parts: list[str | int] = []
    for part in key.split("."):
        name, *indices = part.split("[")
        parts += [name, *(int(i.rstrip("]")) for i in indices)]
    return tuple(parts)


def _prefixes(key: str) -> Iterator[str]:
    while key:
        yield key
        key = key.rpartition(".")[0]
