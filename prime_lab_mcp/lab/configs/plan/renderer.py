"""How a model's chat template is rendered."""

from __future__ import annotations

import difflib

from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.configs.plan.choices import Choices, Value
from prime_lab_mcp.lab.models import find


def renderer(choices: Choices, seen: Observed, model: str) -> Value | None:
    """None for a model that prime-rl renders without being told."""
    if choices.renderer is not None:
        return Value(choices.renderer, choices.because.get("renderer", "as asked"))
    if model in seen.renderers:
        return None
    if known := find(model).renderer:
        return Value(known, "prime-rl does not know the model by this name; this is the renderer of its family")
    return Value("default", "the model is not among those prime-rl knows: its own chat template is used, without tools")


def near_models(model: str, seen: Observed) -> list[str]:
    """Known models that a misspelt name may have meant."""
    folded = {name.lower(): name for name in seen.renderers}
    return [folded[m] for m in difflib.get_close_matches(model.lower(), list(folded), n=3, cutoff=0.75)]
