"""Learning rate and LoRA.

Sources: prime-rl's recipes (1e-5 with LoRA at 4B, 1e-6 full at 1.5B and more, 3e-6 full at 0.6B) and LoRA Without
Regret (ten times the full rate, fifteen times in a run of fewer than 100 steps).
"""

from __future__ import annotations

from prime_lab_mcp.lab.configs.plan.choices import Choices, Value
from prime_lab_mcp.lab.models import find

SHORT = 100
"""Steps below which a run is short."""
SMALL = 1.0
"""Billions of parameters up to which the rate of the 0.6B recipe holds (our judgement)."""


def rate(choices: Choices, lora: bool, model: str, steps: int) -> Value:
    """trainer.optim.lr, which prime-rl takes for 1e-6 also when LoRA is on."""
    if choices.lr is not None:
        return Value(choices.lr, choices.because.get("lr", "as asked"))
    size = find(model).parameters
    small = size is not None and size <= SMALL
    full = 3e-6 if small else 1e-6
    of = "for a model this small (reverse-text recipe)" if small else "of full fine-tuning (recipes from 1.5B on)"
    if not lora:
        return Value(full, f"the rate {of}")
    times = 15 if steps < SHORT else 10
    why = f"{times} times {full:g}, the rate {of}: LoRA wants that" + (f" below {SHORT} steps" if times == 15 else "")
    return Value(float(f"{times * full:.6g}"), why)


def adapter(choices: Choices) -> tuple[Value, Value]:
    """(rank, alpha) of LoRA."""
    why = choices.because
    rank = choices.lora_rank or 16
    return (
        Value(rank, why.get("lora_rank", "as asked" if choices.lora_rank else "8 to 32 is enough for RL")),
        Value(
            float(choices.lora_alpha or 2 * rank),
            why.get("lora_alpha", "as asked" if choices.lora_alpha else "twice the rank, as in the recipes"),
        ),
    )
