"""Which GPU type to ask the platform for: the cheapest that fits and is there now."""

from __future__ import annotations

from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.configs.plan.choices import Choices, Value
from prime_lab_mcp.lab.configs.plan.hardware import Hardware, hardware
from prime_lab_mcp.lab.configs.plan.memory import ASSUMED_GB, memory_of
from prime_lab_mcp.lab.prime.answers import Models

_CHEAPEST = "the cheapest that fits and was free when this was written"
_OWN = "of a cluster that holds this model already; the platform names no price for it"
"""Without the price: it changes by the hour, and the same call must write the same file. The report has it."""


def placed(choices: Choices, seen: Observed, model: str, lora: bool, seq_len: int) -> tuple[Value | None, Hardware]:
    """The type, None to leave it to the platform, and the GPUs sized for it."""
    if choices.target != "hosted" or choices.gpu_type is not None or seen.models is None:
        found = hardware(choices, model, lora, seq_len, choices.gpu_type)
        asked = choices.gpu_type if choices.target == "hosted" else None
        return (Value(asked, choices.because.get("gpu_type", "as asked")) if asked else None), found
    options = []
    for gpu_type, price in _there(seen.models, model).items():
        sized = hardware(choices, model, lora, seq_len, gpu_type)
        if sized.short is None:
            slow = (memory_of(gpu_type) or ASSUMED_GB) < ASSUMED_GB
            options.append((slow, (price or 0.0) * sized.gpus, sized.gpus, gpu_type, price, sized))
    if not options:
        return None, hardware(choices, model, lora, seq_len, None)
    # Types of less memory generate several times slower (L4 300 GB/s, A100 2,000): cheap by the hour, not by the run.
    *_, gpu_type, price, sized = min(options, key=lambda o: o[:4])
    return Value(gpu_type, _OWN if price is None else _CHEAPEST), sized


def _there(models: Models, model: str) -> dict[str, float | None]:
    """GPU types to be had now, with dollars per GPU-hour; None: a cluster of one's own that holds the model."""
    found: dict[str, float | None] = {
        o.gpu_type: o.price_per_gpu_hour for o in models.offers if o.available_now and o.price_per_gpu_hour is not None
    }
    for gpu_type in models.trainable.get(model, ()):
        if all(o.gpu_type != gpu_type for o in models.offers):
            found[gpu_type] = None
    return found
