"""Chooses the GPUs of a new config: the cheapest fitting type that is available, and the numbers for training and
inference.

The memory estimate is that of `models/memory`; a dated reference is given for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.configs.plan.choices import ChosenValue, ConfigChoices, round_up
from prime_lab_mcp.lab.models import memory
from prime_lab_mcp.lab.models.registry import KnownModel, find_model
from prime_lab_mcp.lab.prime.answers import PlatformModels

TRAINER_SIZES = memory.TRAIN_SHARE * memory.TIGHT_SHARE
"""Usable memory of a training GPU, with a margin for the error of the estimate."""
WEIGHTS, WEIGHTS_OF_NODE = 0.7, 0.8
"""Largest share of the inference GPUs' memory for weights, so that the cache has room (our judgement). The second value
applies where a whole node serves them."""
ASSUMED_GB = 80.0
"""Gigabytes of a GPU of unknown type, as of A100 and H100."""
PER_NODE = 8
_BYTES_SERVED = 2

REFERENCE = ((5.0, "2 A100 80GB"), (40.0, "4 to 8 H100"), (250.0, "16 H100"))
"""Hardware for LoRA by billions of parameters, from the prime-lab-trainer skill of early 2026, which names it for
Qwen3-4B, 30B-A3B and 235B-A22B on the platform's retired shared LoRA."""


def gigabytes_of_gpu(gpu_type: str | None) -> float | None:
    """Gigabytes of one GPU; None for an unknown type."""
    return memory.gpu_memory(gpu_type) if gpu_type else None


def trainer_gb(model: KnownModel, lora: bool, seq_len: int, gpus: int) -> float:
    """Gigabytes on each of `gpus` training GPUs, with Adam's moments on the GPU during the step. The model's size must
    be known."""
    state = "lora" if lora else "full"
    return memory.training_memory(model.parameters or 0.0, model.active, gpus, seq_len=seq_len, state=state)


def tensor_parallel(model: KnownModel, gigabytes: float) -> int | None:
    """The smallest power of two of GPUs that holds the served weights; None where a node does not."""
    weights = (model.parameters or 0.0) * _BYTES_SERVED
    for gpus in (1, 2, 4):
        if weights <= WEIGHTS * gpus * gigabytes:
            return gpus
    return PER_NODE if weights <= WEIGHTS_OF_NODE * PER_NODE * gigabytes else None


def reference_hardware(model: KnownModel) -> str:
    """The dated reference for a model of this size with LoRA."""
    size = model.parameters
    hardware = next((gpus for most, gpus in REFERENCE if size is not None and size <= most), None)
    return f"; an older guide: {hardware}" if hardware else ""


LONG_SEQUENCE = 8192
"""Tokens of a sample from which the config states activation checkpointing, which prime-rl enables by default."""
_TRAINING = (1, 2, 4, 6, *range(PER_NODE, 33 * PER_NODE, PER_NODE))
"""Numbers of training GPUs to try. Above one node, only whole nodes."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """Chosen GPUs. `nodes` is (training, inference) where one node of 8 is too small. `short` says what
    does not fit."""

    train: ChosenValue
    infer: ChosenValue
    tensor_parallel: ChosenValue | None = None
    nodes: tuple[int, int] | None = None
    checkpointing: ChosenValue | None = None
    short: str | None = None

    @property
    def gpus(self) -> int:
        return int(self.train.value) + int(self.infer.value)


def size_hardware(choices: ConfigChoices, model: str, lora: bool, seq_len: int, gpu_type: str | None) -> Hardware:
    """Numbers of GPUs of this type, at 80 GB for an unknown type. Raises BadInput for impossible numbers."""
    known_model = find_model(model)
    memory = gigabytes_of_gpu(gpu_type) or ASSUMED_GB
    on = f"{gpu_type or 'GPUs of'} {memory:g} GB".replace("_", " ") if gpu_type is None else gpu_type
    checkpointing = (
        ChosenValue(1, f"samples of {seq_len} tokens: every layer recomputed") if seq_len >= LONG_SEQUENCE else None
    )
    if known_model.parameters is None and choices.gpus is None:
        return Hardware(
            ChosenValue(1, "smallest pair; the name of the model does not tell its size"),
            ChosenValue(1, "the rest generates, which takes most of a step"),
            checkpointing=checkpointing,
        )
    needed = _training(known_model, lora, seq_len, memory) if known_model.parameters else 1
    parallel = tensor_parallel(known_model, memory) if known_model.parameters else 1
    if choices.gpus is not None:
        return _requested_hardware(choices, known_model, needed, parallel, on, checkpointing)
    return _sized(known_model, lora, seq_len, needed, parallel, on, checkpointing)


def _training(model: KnownModel, lora: bool, seq_len: int, memory: float) -> int | None:
    """The smallest number of training GPUs; None where no number suffices, because each GPU holds a sample's
    activations."""
    return next((n for n in _TRAINING if trainer_gb(model, lora, seq_len, n) <= TRAINER_SIZES * memory), None)


def _sized(
    model: KnownModel,
    lora: bool,
    seq_len: int,
    needed: int | None,
    parallel: int | None,
    on: str,
    checkpointing: ChosenValue | None,
) -> Hardware:
    train, tp = needed or PER_NODE, parallel or PER_NODE
    each = trainer_gb(model, lora, seq_len, train)
    mode = "LoRA" if lora else "full fine-tuning"
    why = f"about {each:.0f} GB each on {on}: {model.parameters:g}B, {mode}, {seq_len} tokens"
    why += reference_hardware(model) if lora else ""
    infer = round_up(max(train, tp), tp)
    serving = "generation takes most of a step"
    if train + infer > PER_NODE and train < PER_NODE:
        infer = (PER_NODE - train) // tp * tp
    nodes = None
    if infer < tp or train + infer > PER_NODE:
        nodes = (round_up(train, PER_NODE) // PER_NODE, 1)
        train, infer = nodes[0] * PER_NODE, PER_NODE
        serving = "one node generates"
    return Hardware(
        ChosenValue(train, why),
        ChosenValue(infer, serving),
        _parallel(tp, model, on),
        nodes,
        checkpointing,
        _short(model, needed, parallel, on),
    )


def _requested_hardware(
    choices: ConfigChoices,
    model: KnownModel,
    needed: int | None,
    parallel: int | None,
    on: str,
    checkpointing: ChosenValue | None,
) -> Hardware:
    total, reason = choices.gpus or 0, choices.because.get("gpus", "as asked")
    if total == 1:
        return _single_gpu(choices, reason, checkpointing)
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
        ChosenValue(train, f"{reason}: {total} in all"),
        ChosenValue(infer, "the rest generates, which takes most of a step"),
        _parallel(tp, model, on),
        None,
        checkpointing,
        short,
    )


def _single_gpu(choices: ConfigChoices, reason: str, checkpointing: ChosenValue | None) -> Hardware:
    if choices.target == "hosted":
        raise BadInput(
            "hosted training takes at least two GPUs, one that trains and one that generates",
            fix='Pass gpus=2 or more, or target="self-managed" for a single GPU of your own.',
            code="config-gpus",
        )
    shared = "the same GPU trains and generates"
    return Hardware(ChosenValue(1, reason), ChosenValue(1, shared), checkpointing=checkpointing)


def _whole_nodes(
    total: int,
    model: KnownModel,
    needed: int | None,
    parallel: int | None,
    on: str,
    reason: str,
    checkpointing: ChosenValue | None,
) -> Hardware:
    if total % PER_NODE:
        raise BadInput(
            f"{total} GPUs are no whole number of nodes of {PER_NODE}",
            fix=f"Pass gpus={round_up(total, PER_NODE)}, or at most {PER_NODE} for a single node.",
            code="config-gpus",
        )
    nodes = total // PER_NODE
    train = min(round_up(needed or 1, PER_NODE) // PER_NODE, nodes - 1)
    short = _short(model, needed, parallel, on)
    if short is None and needed and needed > train * PER_NODE:
        short = f"about {needed} training GPUs are needed on {on}, and {train * PER_NODE} are left for training"
    return Hardware(
        ChosenValue(train * PER_NODE, f"{reason}: {nodes} nodes in all"),
        ChosenValue((nodes - train) * PER_NODE, "the other nodes generate"),
        _parallel(parallel or PER_NODE, model, on),
        (train, nodes - train),
        checkpointing,
        short,
    )


def _parallel(gpus: int, model: KnownModel, on: str) -> ChosenValue | None:
    if gpus < 2:
        return None
    return ChosenValue(gpus, f"{2 * (model.parameters or 0):.0f} GB of served weights with room for the cache, on {on}")


def _short(model: KnownModel, needed: int | None, parallel: int | None, on: str) -> str | None:
    if needed is None:
        return f"one sample takes more than a GPU has, however many train ({on})"
    if parallel is None:
        return f"a node of {PER_NODE} does not hold {2 * (model.parameters or 0):.0f} GB of served weights ({on})"
    return None


_CHEAPEST = "the cheapest that fits and was free when this was written"
_OWN = "of a cluster that holds this model already; the platform names no price for it"
"""The reason for a type without its price, because prices change by the hour and the same call must write the same
file. The report has the price."""


def choose_gpu_type(
    choices: ConfigChoices, context: ConfigContext, model: str, lora: bool, seq_len: int
) -> tuple[ChosenValue | None, Hardware]:
    """The GPU type, None where the platform chooses, and the GPUs sized for that type."""
    if choices.target != "hosted" or choices.gpu_type is not None or context.models is None:
        hardware = size_hardware(choices, model, lora, seq_len, choices.gpu_type)
        requested = choices.gpu_type if choices.target == "hosted" else None
        return (ChosenValue(requested, choices.because.get("gpu_type", "as asked")) if requested else None), hardware
    options = []
    for gpu_type, price in _available_types(context.models, model).items():
        sized = size_hardware(choices, model, lora, seq_len, gpu_type)
        if sized.short is None:
            slow = (gigabytes_of_gpu(gpu_type) or ASSUMED_GB) < ASSUMED_GB
            options.append((slow, (price or 0.0) * sized.gpus, sized.gpus, gpu_type, price, sized))
    if not options:
        return None, size_hardware(choices, model, lora, seq_len, None)
    # Types of less memory generate several times slower (L4 300 GB/s, A100 2,000): cheap by the hour, not by the run.
    *_, gpu_type, price, sized = min(options, key=lambda o: o[:4])
    return ChosenValue(gpu_type, _OWN if price is None else _CHEAPEST), sized


def _available_types(models: PlatformModels, model: str) -> dict[str, float | None]:
    """Dollars per GPU-hour by GPU type that is available now; None for a cluster that trains the model and has no
    hourly price."""
    prices: dict[str, float | None] = {
        o.gpu_type: o.price_per_gpu_hour for o in models.offers if o.available_now and o.price_per_gpu_hour is not None
    }
    for gpu_type in models.trainable.get(model, ()):
        if all(o.gpu_type != gpu_type for o in models.offers):
            prices[gpu_type] = None
    return prices
