"""Which GPU type to ask the platform for: the cheapest that fits and is there now."""

from __future__ import annotations

from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.configs.plan.choices import Choices, Value
from prime_lab_mcp.lab.configs.plan.hardware import Hardware, hardware
from prime_lab_mcp.lab.prime.answers import Models


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
            options.append(((price or 0.0) * sized.gpus, sized.gpus, gpu_type, price, sized))
    if not options:
        return None, hardware(choices, model, lora, seq_len, None)
    hourly, gpus, gpu_type, price, sized = min(options, key=lambda o: o[:3])
    return Value(gpu_type, _why(price, hourly, gpus, len(options))), sized


def _there(models: Models, model: str) -> dict[str, float | None]:
    """GPU types to be had now, with dollars per GPU-hour; None: a cluster of one's own that holds the model."""
    found: dict[str, float | None] = {
        o.gpu_type: o.price_per_gpu_hour for o in models.offers if o.available_now and o.price_per_gpu_hour is not None
    }
    for gpu_type in models.trainable.get(model, ()):
        if all(o.gpu_type != gpu_type for o in models.offers):
            found[gpu_type] = None
    return found


def _why(price: float | None, hourly: float, gpus: int, options: int) -> str:
    if price is None:
        return "of a cluster that holds this model already; the platform names no price for it"
    among = f"cheapest of {options} types that fit and are there now" if options > 1 else "fits and is there now"
    return f"{among}: {price:g} dollars a GPU-hour, {hourly:.2f} an hour for {gpus}"
