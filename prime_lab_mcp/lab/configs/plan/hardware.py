"""How many GPUs train and how many generate, on one node or several."""

from __future__ import annotations

from dataclasses import dataclass

from prime_lab_mcp.lab.configs.plan.choices import Choices, Value, up
from prime_lab_mcp.lab.configs.plan.memory import (
    ASSUMED_GB,
    PER_NODE,
    TRAINABLE,
    memory_of,
    reference,
    tensor_parallel,
    trainer_gb,
)
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.models import Model, find

LONG = 8192
"""Tokens of a sample from which on activation checkpointing is written out, though prime-rl has it on by default."""
_TRAINING = (1, 2, 4, 6, *range(PER_NODE, 33 * PER_NODE, PER_NODE))
"""Numbers of training GPUs that are tried: beyond a node whole nodes."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """`nodes` is (training, inference) where one node of 8 does not hold it. `short` says what does not fit."""

    train: Value
    infer: Value
    tensor_parallel: Value | None = None
    nodes: tuple[int, int] | None = None
    checkpointing: Value | None = None
    short: str | None = None

    @property
    def gpus(self) -> int:
        return int(self.train.value) + int(self.infer.value)


def hardware(choices: Choices, model: str, lora: bool, seq_len: int, gpu_type: str | None) -> Hardware:
    """For GPUs of this type, 80 GB each where it says nothing. Raises BadInput for numbers no deployment has."""
    known = find(model)
    memory = memory_of(gpu_type) or ASSUMED_GB
    on = f"{gpu_type or 'GPUs of'} {memory:g} GB".replace("_", " ") if gpu_type is None else gpu_type
    checkpointing = Value(1, f"samples of {seq_len} tokens: every layer recomputed") if seq_len >= LONG else None
    if known.parameters is None and choices.gpus is None:
        return Hardware(
            Value(1, "smallest pair; the name of the model does not tell its size"),
            Value(1, "the rest generates, which takes most of a step"),
            checkpointing=checkpointing,
        )
    needed = _training(known, lora, seq_len, memory) if known.parameters else 1
    parallel = tensor_parallel(known, memory) if known.parameters else 1
    if choices.gpus is not None:
        return _asked(choices, known, needed, parallel, on, checkpointing)
    return _sized(known, lora, seq_len, needed, parallel, on, checkpointing)


def _training(model: Model, lora: bool, seq_len: int, memory: float) -> int | None:
    """The smallest number of training GPUs; None where no number does, as each holds a sample's activations."""
    return next((n for n in _TRAINING if trainer_gb(model, lora, seq_len, n) <= TRAINABLE * memory), None)


def _sized(
    model: Model, lora: bool, seq_len: int, needed: int | None, parallel: int | None, on: str,
    checkpointing: Value | None,
) -> Hardware:  # fmt: skip
    train, tp = needed or PER_NODE, parallel or PER_NODE
    each = trainer_gb(model, lora, seq_len, train)
    mode = "LoRA" if lora else "full fine-tuning"
    why = f"about {each:.0f} GB each on {on}: {model.parameters:g}B, {mode}, {seq_len} tokens"
    why += reference(model) if lora else ""
    infer = up(max(train, tp), tp)
    serving = "generation takes most of a step"
    if train + infer > PER_NODE and train < PER_NODE:
        infer = (PER_NODE - train) // tp * tp
    nodes = None
    if infer < tp or train + infer > PER_NODE:
        nodes = (up(train, PER_NODE) // PER_NODE, 1)
        train, infer = nodes[0] * PER_NODE, PER_NODE
        serving = "one node generates"
    return Hardware(
        Value(train, why),
        Value(infer, serving),
        _parallel(tp, model, on),
        nodes,
        checkpointing,
        _short(model, needed, parallel, on),
    )


def _asked(
    choices: Choices, model: Model, needed: int | None, parallel: int | None, on: str, checkpointing: Value | None
) -> Hardware:
    total, reason = choices.gpus or 0, choices.because.get("gpus", "as asked")
    if total == 1:
        return _one(choices, reason, checkpointing)
    if total > PER_NODE:
        return _whole_nodes(total, model, needed, parallel, on, reason, checkpointing)
    tp = parallel if parallel is not None and parallel < total else 1
    train = choices.train_gpus or min(max(needed or 1, total // 4), total - tp)
    infer = (total - train) // tp * tp
    tp = tp if infer else 1
    infer = infer or total - train
    if choices.train_gpus is None:
        train = total - infer  # what no tensor-parallel group takes trains
    short = _short(model, needed, parallel, on)
    if short is None and model.parameters and ((needed or 1) > train or (parallel or 1) > infer):
        short = f"about {needed} training and {parallel} inference GPUs are needed on {on}"
    return Hardware(
        Value(train, f"{reason}: {total} in all"),
        Value(infer, "the rest generates, which takes most of a step"),
        _parallel(tp, model, on),
        None,
        checkpointing,
        short,
    )


def _one(choices: Choices, reason: str, checkpointing: Value | None) -> Hardware:
    if choices.target == "hosted":
        raise BadInput(
            "hosted training takes at least two GPUs, one that trains and one that generates",
            fix='Pass gpus=2 or more, or target="self-managed" for a single GPU of your own.',
            code="config-gpus",
        )
    shared = "the same GPU trains and generates"
    return Hardware(Value(1, reason), Value(1, shared), checkpointing=checkpointing)


def _whole_nodes(
    total: int, model: Model, needed: int | None, parallel: int | None, on: str, reason: str,
    checkpointing: Value | None,
) -> Hardware:  # fmt: skip
    if total % PER_NODE:
        raise BadInput(
            f"{total} GPUs are no whole number of nodes of {PER_NODE}",
            fix=f"Pass gpus={up(total, PER_NODE)}, or at most {PER_NODE} for a single node.",
            code="config-gpus",
        )
    nodes = total // PER_NODE
    train = min(up(needed or 1, PER_NODE) // PER_NODE, nodes - 1)
    short = _short(model, needed, parallel, on)
    if short is None and needed and needed > train * PER_NODE:
        short = f"about {needed} training GPUs are needed on {on}, and {train * PER_NODE} are left for training"
    return Hardware(
        Value(train * PER_NODE, f"{reason}: {nodes} nodes in all"),
        Value((nodes - train) * PER_NODE, "the other nodes generate"),
        _parallel(parallel or PER_NODE, model, on),
        (train, nodes - train),
        checkpointing,
        short,
    )


def _parallel(gpus: int, model: Model, on: str) -> Value | None:
    if gpus < 2:
        return None
    return Value(gpus, f"{2 * (model.parameters or 0):.0f} GB of served weights with room for the cache, on {on}")


def _short(model: Model, needed: int | None, parallel: int | None, on: str) -> str | None:
    if needed is None:
        return f"one sample takes more than a GPU has, however many train ({on})"
    if parallel is None:
        return f"a node of {PER_NODE} does not hold {2 * (model.parameters or 0):.0f} GB of served weights ({on})"
    return None
