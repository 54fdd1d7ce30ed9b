"""Remembers which models were looked up, so that the evaluation of one leads to that of the next.

A server forgets them when it ends. Whoever names a model by its whole name means that model; a search that lists many
models names none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from prime_lab_mcp.lab.lab import Lab


@dataclass(slots=True)
class LookedUpModels:
    """The models that were looked up by name, in this order."""

    names: dict[str, None] = field(default_factory=dict)


def remember_model(lab: Lab, name: str) -> None:
    """Remember that a model was looked up."""
    lab.memory(LookedUpModels).names[name] = None


def other_models(lab: Lab, model: str) -> tuple[str, ...]:
    """The other models that were looked up, if `model` was; empty otherwise."""
    names = lab.memory(LookedUpModels).names
    return tuple(name for name in names if name != model) if model in names else ()
