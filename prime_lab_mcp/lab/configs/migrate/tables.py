"""Tables and single keys that have another place today: monitors, checkpoints, LoRA, GPUs, the difficulty buffer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prime_lab_mcp.lab.configs.old_keys import OLD_KEYS
from prime_lab_mcp.lab.configs.schema import homes

if TYPE_CHECKING:
    from prime_lab_mcp.lab.configs.migrate.mover import Mover

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
_NO_PLACE = "the difficulty buffer was removed from prime-rl"


def move_tables(mover: Mover) -> None:
    for old, new, why in _TABLES:
        _table(mover, old, new, why)
    _checkpoints(mover)
    _vllm(mover)
    _buffer(mover)
    _filters(mover)
    _gpus(mover)
    _loss(mover)


def move_keys(mover: Mover) -> None:
    """Every renamed key that is a plain value on both sides."""
    for old in OLD_KEYS:
        if old.to is None or old.path.endswith(".*") or not all(p.isidentifier() for p in old.to.split(".")):
            continue
        if old.path.endswith("eval_base_model"):
            continue  # inverted, not only renamed
        value = mover.draft.get(old.path)
        if value is not None and (not isinstance(value, (dict, list)) or old.path.endswith("extra_body")):
            mover.to(old.path, old.to, old.why)


def _table(mover: Mover, old: str, new: str, why: str) -> None:
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


def _checkpoints(mover: Mover) -> None:
    keys = (("keep", "ckpt.keep_last", "renamed"), ("resume_step", "resume.step", "continuing has a table of its own"))
    for key, new, why in keys:
        value = mover.draft.get(f"ckpt.{key}")
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            mover.to(f"ckpt.{key}", new, why)


def _vllm(mover: Mover) -> None:
    """Options of vLLM that stood under [inference] itself."""
    table = mover.draft.get("inference")
    if not isinstance(table, Mapping):
        return
    for key, value in list(table.items()):
        places = homes("rl").get(key, ())
        extra = key in ("max_num_seqs", "max_num_batched_tokens")
        if f"inference.{key}" not in places and (f"inference.vllm.{key}" in places or extra):
            mover.draft.pop(f"inference.{key}")
            mover.place(
                f"inference.{key}", f"inference.vllm.{key}", value, "options of vLLM stand under inference.vllm"
            )


def _buffer(mover: Mover) -> None:
    for place in ("buffer", "orchestrator.buffer"):
        table = mover.draft.get(place)
        if not isinstance(table, dict):
            continue
        mover.draft.pop(place)
        if not table:
            mover.drop(place, table, _NO_PLACE)
        for key, value in table.items():
            gated = str(value if key == "type" else key).replace("-", "_").startswith(_GATED)
            if value in (False, None) or (key in ("seed", "from_scratch", "env_ratios", "type") and not gated):
                mover.drop(f"{place}.{key}", value, _NO_PLACE)
            else:
                _curriculum(mover, f"{place}.{key}", value, "gate" if gated else "pools")


def _curriculum(mover: Mover, key: str, value: Any, kind: str) -> None:
    mover.curriculum.add(kind)
    to = "curriculum gate advantage_range" if kind == "gate" else "curriculum sampler difficulty_pool"
    why = "the difficulty buffer was removed; this does its work per training source"
    mover.rows.dropped(key, value, why, to)


def _filters(mover: Mover) -> None:
    """Filters of the last shared-LoRA platform: an enforced one of zero advantages is today's gate."""
    for place in ("pre_batch_filters", "post_batch_filters", "orchestrator.pre_batch_filters"):
        entries = mover.draft.get(place)
        if not isinstance(entries, list):
            continue
        mover.draft.pop(place)
        gated = any(isinstance(e, Mapping) and e.get("type") == "zero_advantage" and e.get("enforce", True)
                    for e in entries)  # fmt: skip
        if gated and "pre" in place:
            _curriculum(mover, place, entries, "gate")
        else:
            mover.drop(place, entries, "groups without a gradient are left out of training anyway")


def _gpus(mover: Mover) -> None:
    places = (("trainer_gpu_ids", "num_train_gpus"), ("inference_gpu_ids", "num_infer_gpus"))
    found = {old: mover.draft.get(old) for old, _ in places}
    lists = [set(map(str, v)) for v in found.values() if isinstance(v, list)]
    why = "GPUs are counted, not named"
    if len(lists) == 2 and lists[0] & lists[1]:
        why += "; training and inference no longer share one"
    for old, new in places:
        if isinstance(value := found[old], list):
            mover.draft.pop(old)
            mover.place(old, f"deployment.{new}", max(1, len(value)), why, was=value)


def _loss(mover: Mover) -> None:
    value = mover.draft.get("loss")
    if not isinstance(value, str):
        return
    mover.draft.pop("loss")
    if value in _LOSSES:
        mover.place("loss", "orchestrator.algo.type", _LOSSES[value], "the algorithm is named there", was=value)
    else:
        why = "learning from a teacher is an algorithm with its own table, [orchestrator.algo]: write it by hand"
        mover.drop("loss", value, why)
