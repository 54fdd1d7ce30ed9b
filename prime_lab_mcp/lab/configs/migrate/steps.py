"""The steps of a migration, which move or drop the keys of an older config.

Tables and keys move to their present place. Arguments of `load_environment` become keys of the taskset. Values of
several components become one shared value. Keys that the present platform refuses are dropped with a reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from prime_lab_mcp.lab.configs.config import taskset_identity
from prime_lab_mcp.lab.configs.draft import KeyPath
from prime_lab_mcp.lab.configs.migrate.rows import key_index
from prime_lab_mcp.lab.configs.older_platforms import OLD_KEYS, OldKey, translate_key
from prime_lab_mcp.lab.configs.schema import SchemaProblem, schema_problems, tables_of_key

if TYPE_CHECKING:
    from prime_lab_mcp.lab.configs.migrate.mover import ConfigMover

_TABLES = (
    ("wandb", "monitors.wandb", "monitors share one table"),
    ("trainer.wandb", "monitors.wandb", "monitors share one table"),
    ("orchestrator.wandb", "monitors.wandb", "monitors share one table"),
    ("checkpoints", "ckpt", "renamed"),
    ("trainer.model.experimental.lora", "trainer.model.lora", "no longer experimental"),
    ("model.lora", "trainer.model.lora", "LoRA is a table of the trainer's model"),
    ("inference.parallel", "inference.vllm", "options of vLLM stand under inference.vllm"),
    ("inference.model", "inference.vllm", "options of vLLM stand under inference.vllm"),
)
_RENAMED = {
    "inference.parallel.tp": "tensor_parallel_size",
    "inference.parallel.dp": "data_parallel_size",
    "checkpoints.keep_cloud": "keep_last",
}
_GATED = ("online_difficulty", "zero_advantage")
_LOSSES = {"rl": "grpo", "grpo": "grpo", "default": "grpo"}
_THRESHOLDS = {"hard_threshold": "hard", "easy_threshold": "easy"}
"""Pool of the present curriculum by the older threshold that limits it."""
_POOLED = "the difficulty buffer was removed; pools weigh tasks by difficulty and keep the threshold"
_NO_PLACE = "the difficulty buffer was removed from prime-rl"


def move_tables(mover: ConfigMover) -> None:
    """Move the tables and keys that have another place in the present shape, except environments."""
    for old, new, why in _TABLES:
        _table(mover, old, new, why)
    _checkpoints(mover)
    _vllm(mover)
    _buffer(mover)
    _filters(mover)
    _gpus(mover)
    _loss(mover)


def move_keys(mover: ConfigMover) -> None:
    """Move every renamed key whose value stays the same."""
    for old in OLD_KEYS:
        if old.to is None or old.path.endswith(".*") or not all(p.isidentifier() for p in old.to.split(".")):
            continue
        if old.path.endswith("eval_base_model"):
            continue  # its value is also inverted, in `_evaluation`
        value = mover.draft.get(old.path)
        if value is not None and (not isinstance(value, (dict, list)) or old.path.endswith("extra_body")):
            mover.to(old.path, old.to, old.why)


def _table(mover: ConfigMover, old: str, new: str, why: str) -> None:
    table = mover.draft.get(old)
    if not isinstance(table, dict):
        return
    mover.draft.pop(old)
    for key, value in table.items():
        place = f"{old}.{key}"
        if old == "inference.model" and key in ("name", "enable_auto_tool_choice"):
            shared = "model.name holds for all components"
            mover.drop(place, value, shared if key == "name" else "prime-rl sets it itself where tools are parsed")
        elif place == "checkpoints.keep_cloud" and isinstance(value, int) and value < 1:
            mover.drop(place, value, "all checkpoints are kept unless ckpt.keep_last says how many")
        else:
            mover.place(place, f"{new}.{_RENAMED.get(place, key)}", value, why)
    if not table and mover.draft.get(new) is None:
        mover.draft.put(new, {}, f"from {mover.name}")
        mover.rows.moved(old, new, {}, why)


def _checkpoints(mover: ConfigMover) -> None:
    keys = (("keep", "ckpt.keep_last", "renamed"), ("resume_step", "resume.step", "continuing has a table of its own"))
    for key, new, why in keys:
        value = mover.draft.get(f"ckpt.{key}")
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            mover.to(f"ckpt.{key}", new, why)


def _vllm(mover: ConfigMover) -> None:
    """Move options of vLLM from [inference] to [inference.vllm]."""
    table = mover.draft.get("inference")
    if not isinstance(table, Mapping):
        return
    for key, value in list(table.items()):
        places = tables_of_key("rl").get(key, ())
        extra = key in ("max_num_seqs", "max_num_batched_tokens")
        if f"inference.{key}" not in places and (f"inference.vllm.{key}" in places or extra):
            mover.draft.pop(f"inference.{key}")
            mover.place(
                f"inference.{key}", f"inference.vllm.{key}", value, "options of vLLM stand under inference.vllm"
            )


def _buffer(mover: ConfigMover) -> None:
    for place in ("buffer", "orchestrator.buffer"):
        table = mover.draft.get(place)
        if not isinstance(table, dict):
            continue
        mover.draft.pop(place)
        if not table:
            mover.drop(place, table, _NO_PLACE)
        for key, value in table.items():
            if key in _THRESHOLDS and isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1:
                mover.curriculum.add("pools")
                mover.thresholds[_THRESHOLDS[key]] = float(value)
                to = f"curriculum sampler pool {_THRESHOLDS[key]}"
                mover.rows.dropped(f"{place}.{key}", value, _POOLED, to)
                continue
            gated = str(value if key == "type" else key).replace("-", "_").startswith(_GATED)
            if value in (False, None) or (key in ("seed", "from_scratch", "env_ratios", "type") and not gated):
                mover.drop(f"{place}.{key}", value, _NO_PLACE)
            else:
                _curriculum(mover, f"{place}.{key}", value, "gate" if gated else "pools")


def _curriculum(mover: ConfigMover, key: str, value: Any, kind: str) -> None:
    mover.curriculum.add(kind)
    to = "curriculum gate advantage_range" if kind == "gate" else "curriculum sampler difficulty_pool"
    why = "the difficulty buffer was removed; this does its work per training source"
    mover.rows.dropped(key, value, why, to)


def _filters(mover: ConfigMover) -> None:
    """Replace the filters of the last shared-LoRA platform: an enforced filter of zero advantages becomes a gate."""
    for place in ("pre_batch_filters", "post_batch_filters", "orchestrator.pre_batch_filters"):
        entries = mover.draft.get(place)
        if not isinstance(entries, list):
            continue
        mover.draft.pop(place)
        gated = any(
            isinstance(e, Mapping) and e.get("type") == "zero_advantage" and e.get("enforce", True) for e in entries
        )
        if gated and "pre" in place:
            _curriculum(mover, place, entries, "gate")
        else:
            mover.drop(place, entries, "groups without a gradient are left out of training anyway")


def _gpus(mover: ConfigMover) -> None:
    places = (("trainer_gpu_ids", "num_train_gpus"), ("inference_gpu_ids", "num_infer_gpus"))
    gpu_ids = {old: mover.draft.get(old) for old, _ in places}
    lists = [set(map(str, v)) for v in gpu_ids.values() if isinstance(v, list)]
    why = "GPUs are counted, not named"
    if len(lists) == 2 and lists[0] & lists[1]:
        why += "; training and inference no longer share one"
    for old, new in places:
        if isinstance(value := gpu_ids[old], list):
            mover.draft.pop(old)
            mover.place(old, f"deployment.{new}", max(1, len(value)), why, was=value)


def _loss(mover: ConfigMover) -> None:
    value = mover.draft.get("loss")
    if not isinstance(value, str):
        return
    mover.draft.pop("loss")
    if value in _LOSSES:
        mover.place("loss", "orchestrator.algo.type", _LOSSES[value], "the algorithm is named there", was=value)
    else:
        why = "learning from a teacher is an algorithm with its own table, [orchestrator.algo]: write it by hand"
        mover.drop("loss", value, why)


_PLACES = (
    ("env", "orchestrator.train.source"),
    ("orchestrator.env", "orchestrator.train.source"),
    ("orchestrator.train.env", "orchestrator.train.source"),
    ("eval.env", "orchestrator.eval.source"),
    ("orchestrator.eval.env", "orchestrator.eval.source"),
)
_SAMPLING = {"max_tokens": "max_completion_tokens"}
_SOURCE_KEYS = {
    "train": ("ratio", "group_size", "algo"),
    "eval": ("group_size", "num_examples", "interval"),
}
_V1 = "environments are v1 sources now, with their own harness and runtime"
_ARGS = "arguments of load_environment are fields of the taskset's config now, if it has them"


def move_environments(mover: ConfigMover) -> None:
    """Turn the environments of an older config into training and eval sources."""
    for place, to in _PLACES:
        entries = mover.draft.get(place)
        if not isinstance(entries, list):
            continue
        mover.draft.pop(place)
        sources = list(mover.draft.get(to) or [])
        for index, entry in enumerate(entries):
            old = f"{place}[{index}]" if len(entries) > 1 else place
            if isinstance(entry, Mapping):
                new = f"{to}[{len(sources)}]"
                sources.append(_Entry(mover, entry, old, new).source())
        mover.draft.put(to, sources, "")


class _Entry:
    """One environment of an older config, which becomes a source. `old` and `new` are its dotted keys."""

    def __init__(self, mover: ConfigMover, entry: Mapping[str, Any], old: str, new: str) -> None:
        self._mover, self._entry, self._old, self._new = mover, entry, old, new
        self._kind = "train" if ".train." in new else "eval"

    def source(self) -> dict[str, Any]:
        """Return the table of the source, and record the move of every key."""
        entry = self._entry
        if isinstance(entry.get("env"), Mapping):
            self._moved("", dict(entry), "", "renamed")
            return dict(entry)
        taskset = entry.get("taskset")
        id = self._id(taskset)
        source: dict[str, Any] = {"name": str(entry.get("name") or taskset_identity(id)[1])}
        if entry.get("name"):
            self._moved(".name", entry["name"], ".name", "it labels the source")
        self._move_source_keys(source)
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
            self._mover.rows.dropped(
                f"{self._old}.version", version, "a source names its version with its id", f"{self._new}{place} = {id}"
            )
        old = ".id" if entry.get("id") else ".taskset.id" if isinstance(taskset, Mapping) else ".taskset"
        if id:
            self._moved(old, id, place, _V1, entry.get("id") or inner)
        if entry.get("id") and inner:
            below = ".taskset.id" if isinstance(taskset, Mapping) else ".taskset"
            self._mover.drop(f"{self._old}{below}", inner, "the id of the source names the taskset")
        return id

    def _args(self, table: Any, place: str) -> dict[str, Any]:
        args = {k: v for k, v in table.items() if k != "id"} if isinstance(table, Mapping) else {}
        if isinstance(table, Mapping) and not table:
            self._mover.drop(f"{self._old}{place}", {}, "it was empty")
        for key, value in args.items():
            self._moved(f"{place}.{key}", value, f".env.taskset.{key}", _ARGS)
        return args

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
            self._note_default_agent()
        return agent

    def _note_default_agent(self) -> None:
        reason = f"{self._mover.name} named none"
        *parents, last = self._new.split(".")
        path: KeyPath = (*parents, last.partition("[")[0], int(last.partition("[")[2].rstrip("]")), "env", "agent")
        self._mover.draft.reasons[(*path, "harness", "id")] = f"{reason}: the model answers directly"
        self._mover.draft.reasons[(*path, "runtime", "type")] = f"{reason}: needs no sandbox"

    def _move_source_keys(self, source: dict[str, Any]) -> None:
        for key, value in self._entry.items():
            if key in ("id", "name", "args", "taskset", "harness", "version"):
                continue
            if key in _SOURCE_KEYS[self._kind]:
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


_SHARED = (
    ("max_steps", ("orchestrator.max_steps", "trainer.max_steps")),
    ("model.name", ("orchestrator.model.name", "trainer.model.name", "inference.vllm.model")),
)
_ONCE = "set once, shared by all components"


def share_settings(mover: ConfigMover) -> None:
    """Move values that several components set to the shared key."""
    move_keys(mover)
    _evaluation(mover)
    _lengths(mover)
    for path in ("orchestrator.model.lora.rank", "orchestrator.model.lora.alpha"):
        if mover.draft.get(path) is not None:
            mover.drop(path, mover.draft.pop(path), "trainer.model.lora holds for all components")
    for shared, paths in _SHARED:
        for path in paths:
            if (value := mover.draft.get(path)) is None:
                continue
            mover.draft.pop(path)
            if mover.draft.get(shared) is None:
                mover.place(path, shared, value, _ONCE)
            else:
                mover.drop(path, value, f"{shared} holds for all components")


def _evaluation(mover: ConfigMover) -> None:
    table = mover.draft.get("eval")
    if isinstance(table, dict):
        mover.draft.pop("eval")
        if not table:
            mover.drop("eval", table, "it was empty")
        for key, value in table.items():
            if key == "eval_base_model":
                _inverted(mover, "eval.eval_base_model", value)
                continue
            new = {"rollouts_per_example": "group_size"}.get(key, key)
            mover.place(f"eval.{key}", f"orchestrator.eval.{new}", value, "evaluation belongs to the orchestrator")
        move_keys(mover)  # a moved key may also have a new name there (eval.sampling.max_tokens)
    if mover.draft.get("orchestrator.eval.eval_base_model") is not None:
        place = "orchestrator.eval.eval_base_model"
        _inverted(mover, place, mover.draft.pop(place))


def _inverted(mover: ConfigMover, old: str, value: object) -> None:
    flag = not value if isinstance(value, bool) else False
    mover.place(old, "orchestrator.eval.skip_first_step", flag, "renamed with the opposite sense", was=value)


def _lengths(mover: ConfigMover) -> None:
    """Merge the sequence lengths of orchestrator and trainer into the shared `seq_len`."""
    paths = ("orchestrator.seq_len", "trainer.model.seq_len")
    own = {path: mover.draft.get(path) for path in paths if mover.draft.get(path) is not None}
    if not own:
        return
    shared = own.get(paths[0], mover.draft.get("seq_len") or own.get(paths[1]))
    top = mover.draft.get("seq_len")
    if top is not None and top != shared:
        mover.rows.dropped("seq_len", top, "the orchestrator's own length held", f"seq_len = {shared}")
    for path, value in own.items():
        mover.draft.pop(path)
        mover.rows.moved(path, "seq_len", shared, _ONCE, was=value)
    mover.draft.put("seq_len", shared, f"from {mover.name}")


_NOT_HOSTED = ("k8s", "clean")
_ROUNDS = 100
"""Most rounds of dropping keys. Dropping one key can expose another, so there is more than one round."""


def drop_leftovers(mover: ConfigMover) -> None:
    """Drop the keys that the platform or the present prime-rl refuses."""
    draft = mover.draft
    if mover.target == "hosted":
        for key in _NOT_HOSTED:
            if key in draft.table:
                mover.drop(key, draft.pop(key), "the platform decides on it")
    if "type" in draft.table:
        mover.drop("type", draft.pop("type"), "every run is a dedicated one now; the key is ignored")
    if draft.get("weight_broadcast.type") in ("nccl", "nixl") and draft.get("trainer.model.lora") is not None:
        mover.drop("weight_broadcast", draft.pop("weight_broadcast"), "LoRA works with the file system only")
    _refused(mover)
    if draft.get("orchestrator.eval") is not None and not draft.get("orchestrator.eval.source"):
        table = draft.pop("orchestrator.eval")
        table.pop("source", None)
        mover.drop("orchestrator.eval", table, "it named no environment; pass eval={...} for held-out tasks")


def _refused(mover: ConfigMover) -> None:
    for _ in range(_ROUNDS):
        mover.draft.table.setdefault("trainer", {})
        mover.draft.table.setdefault("orchestrator", {})
        problems = [p for p in schema_problems(mover.draft.table) if p.kind != "missing"]
        if not problems:
            return
        places = key_index(mover.draft.table)
        for problem in problems:
            path = _drop(mover, problem, places)
            if path is None or isinstance(path[-1], int):
                break  # the following entries of the array have other indices now


def _drop(mover: ConfigMover, problem: SchemaProblem, places: Mapping[str, KeyPath]) -> KeyPath | None:
    keys = [*_prefixes(mover.rows.origin(problem.key)), *_prefixes(problem.key)]
    reason = next((old.why for name in keys if (old := translate_key(name)) is not None and not _renames(old)), None)
    key = problem.key
    while key and key not in places:  # a problem with a missing key is about its table
        key = key.rpartition(".")[0]
    if not key or mover.draft.get(places[key]) is None:
        return None
    mover.drop(key, mover.draft.pop(places[key]), reason or f"it {problem.problem} in today's prime-rl")
    return places[key]


def _renames(old: OldKey) -> bool:
    return old.to is not None and all(part.isidentifier() for part in old.to.split("."))


def _prefixes(key: str) -> Iterator[str]:
    while key:
        yield key
        key = key.rpartition(".")[0]
