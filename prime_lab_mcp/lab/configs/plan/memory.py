"""Which numbers of GPUs a plan tries, by the estimate of `lab/models/memory.py`, and what to compare it with."""

from __future__ import annotations

from prime_lab_mcp.lab.models import Model, memory

TRAINABLE = memory.TRAIN_SHARE * memory.TIGHT
"""Of a GPU's memory, so that the error of the estimate does not decide."""
WEIGHTS, WEIGHTS_OF_NODE = 0.7, 0.8
"""Largest share of the inference GPUs' memory that weights may take, so that the cache has room (judgement); the second
where a whole node serves them."""
ASSUMED_GB = 80.0
"""Of a GPU whose type is not known: A100 and H100 have it."""
PER_NODE = 8
_BYTES_SERVED = 2

REFERENCE = ((5.0, "2 A100 80GB"), (40.0, "4 to 8 H100"), (250.0, "16 H100"))
"""Up to that many billions of parameters, with LoRA: what the guide this project started from gave for Qwen3-4B,
30B-A3B and 235B-A22B (prime-lab-trainer skill, early 2026, of the platform's retired shared LoRA)."""


def memory_of(gpu_type: str | None) -> float | None:
    """Gigabytes of one GPU; None for a type that says nothing."""
    return memory.gpu_memory(gpu_type) if gpu_type else None


def trainer_gb(model: Model, lora: bool, seq_len: int, gpus: int) -> float:
    """On each of `gpus`, with Adam's moments on the GPU for the step. The model's size must be known."""
    state = "lora" if lora else "full"
    return memory.training(model.parameters or 0.0, model.active, gpus, seq_len=seq_len, state=state)


def tensor_parallel(model: Model, gigabytes: float) -> int | None:
    """The smallest power of two of GPUs that holds the served weights; None where a node does not."""
    weights = (model.parameters or 0.0) * _BYTES_SERVED
    for gpus in (1, 2, 4):
        if weights <= WEIGHTS * gpus * gigabytes:
            return gpus
    return PER_NODE if weights <= WEIGHTS_OF_NODE * PER_NODE * gigabytes else None


def reference(model: Model) -> str:
    """What the dated reference says of a model this large, with LoRA."""
    size = model.parameters
    found = next((gpus for most, gpus in REFERENCE if size is not None and size <= most), None)
    return f"; an older guide: {found}" if found else ""
