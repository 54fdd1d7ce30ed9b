"""Chooses the GPUs of a new config: the cheapest available type that fits, and how many train and generate.

`models/memory` estimates the needed memory. Reasons also name the hardware of an older guide for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, SameCall
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.configs.plan.choices import ChosenValue, ConfigChoices, round_up
from prime_lab_mcp.lab.models import memory
from prime_lab_mcp.lab.models.registry import KnownModel, find_model
from prime_lab_mcp.lab.prime.answers import PlatformModels

TRAINER_SIZES = memory.TRAIN_SHARE * memory.TIGHT_SHARE
"""Share of a training GPU's memory that the estimate may use, with a margin for the error of the estimate."""
WEIGHTS, WEIGHTS_OF_NODE = 0.7, 0.8
"""Largest share of the inference GPUs' memory for weights, so that the cache has room (our judgement). The second value
applies if a whole node serves the model."""
ASSUMED_GB = 80.0
"""Assumed gigabytes of a GPU of unknown type, as for A100 and H100."""
PER_NODE = 8
"""GPUs in a node."""
_BYTES_SERVED = 2
"""Bytes per parameter in the inference server (bfloat16)."""

REFERENCE = ((5.0, "2 A100 80GB"), (40.0, "4 to 8 H100"), (250.0, "16 H100"))
"""Hardware for LoRA by the largest size in billions of parameters. The prime-lab-trainer skill of early 2026 names it
for Qwen3-4B, 30B-A3B and 235B-A22B, on the platform's retired shared LoRA."""


def gigabytes_of_gpu(gpu_type: str | None) -> float | None:
    """Return the gigabytes of one GPU of this type; None for an unknown type."""
    return memory.gpu_memory(gpu_type) if gpu_type else None


def trainer_gb(model: KnownModel, lora: bool, seq_len: int, gpus: int) -> float:
    """Return the gigabytes of memory that each of `gpus` training GPUs needs.

    Adam's moments are on the GPU during the step. The model's size must be known.
    """
    state = "lora" if lora else "full"
    return memory.training_memory(model.parameters or 0.0, model.active, gpus, seq_len=seq_len, state=state)


def tensor_parallel(model: KnownModel, gigabytes: float) -> int | None:
    """Return the number of inference GPUs that one copy of the model needs: 1, 2, 4 or 8. None if 8 are too few.

    `gigabytes` is the memory of one GPU.
    """
    weights = (model.parameters or 0.0) * _BYTES_SERVED
    for gpus in (1, 2, 4):
        if weights <= WEIGHTS * gpus * gigabytes:
            return gpus
    return PER_NODE if weights <= WEIGHTS_OF_NODE * PER_NODE * gigabytes else None


def reference_hardware(model: KnownModel) -> str:
    """Return the hardware in `REFERENCE` for a model of this size, as the end of a sentence. Empty if none fits."""
    size = model.parameters
    hardware = next((gpus for most, gpus in REFERENCE if size is not None and size <= most), None)
    return f"; an older guide: {hardware}" if hardware else ""


LONG_SEQUENCE = 8192
"""Sample length in tokens from which the config sets activation checkpointing, prime-rl's default, explicitly."""
_TRAINING = (1, 2, 4, 6, *range(PER_NODE, 33 * PER_NODE, PER_NODE))
"""Numbers of training GPUs among which the plan chooses. Above one node they are whole nodes."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """The GPUs that a plan chose for training and for inference, each number with its reason."""

    train: ChosenValue
    """Number of training GPUs."""
    infer: ChosenValue
    """Number of inference GPUs."""
    tensor_parallel: ChosenValue | None = None
    """Number of GPUs that serve one copy of the model; None for one."""
    nodes: tuple[int, int] | None = None
    """Numbers of training and inference nodes; None if all GPUs are in one node."""
    checkpointing: ChosenValue | None = None
    """Setting of activation checkpointing; None for prime-rl's default."""
    short: str | None = None
    """A sentence about what does not fit into the memory of the GPUs. None if everything fits."""

    @property
    def gpus(self) -> int:
        """Number of all GPUs."""
        return int(self.train.value) + int(self.infer.value)


def size_hardware(choices: ConfigChoices, model: str, lora: bool, seq_len: int, gpu_type: str | None) -> Hardware:
    """Choose the numbers of GPUs of one type, with 80 GB each for an unknown type.

    Raises BadInput for a requested number of GPUs that is impossible.
    """
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
    """Return the smallest number of training GPUs with enough memory.

    None if no number suffices, because each GPU holds the activations of one sample.
    """
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
        train = total - infer  # GPUs that fill no tensor-parallel group train
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
            fix=Fix(
                "Pass ",
                SameCall(gpus=2),
                " or more, or ",
                SameCall(target="self-managed"),
                " for a single GPU of your own.",
            ),
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
            fix=Fix("Pass ", SameCall(gpus=round_up(total, PER_NODE)), f", or at most {PER_NODE} for a single node."),
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
_MODEL_CLUSTER = "of a cluster that holds this model already; the platform names no price for it"
"""Both reasons leave out the price, because prices change by the hour and the same call must write the same file. The
report has the price."""


def choose_gpu_type(
    choices: ConfigChoices, context: ConfigContext, model: str, lora: bool, seq_len: int
) -> tuple[ChosenValue | None, Hardware]:
    """Choose the GPU type and the numbers of GPUs of that type. The type is None if the platform chooses it."""
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
    # GPUs with less memory also have a lower memory bandwidth (L4 300 GB/s, A100 2,000 GB/s), so they generate several
    # times slower: they are cheap by the hour and not by the run.
    *_, gpu_type, price, sized = min(options, key=lambda o: o[:4])
    return ChosenValue(gpu_type, _MODEL_CLUSTER if price is None else _CHEAPEST), sized


def _available_types(models: PlatformModels, model: str) -> dict[str, float | None]:
    """Return the price in US dollars per GPU-hour of each GPU type that is available now.

    The price is None for the GPUs of a cluster that trains the model and has no hourly price.
    """
    prices: dict[str, float | None] = {
        o.gpu_type: o.price_per_gpu_hour for o in models.offers if o.available_now and o.price_per_gpu_hour is not None
    }
    for gpu_type in models.trainable.get(model, ()):
        if all(o.gpu_type != gpu_type for o in models.offers):
            prices[gpu_type] = None
    return prices
