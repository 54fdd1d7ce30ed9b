"""The values of a new config as changes, each with its reason: what a report shows of the file's comments."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.configs.draft import KeyPath
from prime_lab_mcp.lab.configs.make import Made
from prime_lab_mcp.lab.configs.migrate import Change

_KEYS = (
    "orchestrator.group_size",
    "orchestrator.batch_size",
    "max_steps",
    "orchestrator.train.sampling.max_completion_tokens",
    "seq_len",
    "trainer.optim.lr",
    "trainer.model.lora.rank",
    "model.name",
    "gpu_type",
    "deployment.type",
    "deployment.num_train_gpus",
    "deployment.num_infer_gpus",
    "deployment.num_train_nodes",
    "deployment.num_infer_nodes",
    "inference.vllm.tensor_parallel_size",
    "trainer.model.ac.freq",
    "orchestrator.renderer.name",
    "orchestrator.train.sampling.temperature",
    "orchestrator.eval.interval",
    "ckpt.interval",
)
"""Most telling first: the report is cut at its end."""
_OF_SOURCE = ("ratio", "group_size")


def chosen(made: Made) -> tuple[Change, ...]:
    """Without `was`: there was nothing before."""
    return tuple(_changes(made))


def _changes(made: Made) -> Iterator[Change]:
    paths: list[KeyPath] = [tuple(key.split(".")) for key in _KEYS]
    sources = made.draft.get("orchestrator.train.source") or ()
    paths += [("orchestrator", "train", "source", i, key) for i in range(len(sources)) for key in _OF_SOURCE]
    for path in paths:
        value, why = made.draft.get(path), made.draft.reasons.get(path)
        if value is not None and why:
            yield Change(_named(path), str(value), why)


def _named(path: KeyPath) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
