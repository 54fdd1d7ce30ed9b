"""The skill of a scripted model, and the difficulty of a prompt.

The probability of solving a prompt has the skill as its mean over prompts. It follows a Kumaraswamy distribution,
which is close to a beta distribution and has a closed inverse. Each prompt has a fixed quantile, so that a hard prompt
is hard for every model.
"""

from __future__ import annotations

import hashlib
import math
from functools import lru_cache

MODELS: dict[str, float] = {
    "rehearsal/skill-0": 0.0,
    "rehearsal/skill-20": 0.2,
    "rehearsal/skill-50": 0.5,
    "rehearsal/skill-100": 1.0,
    "Qwen/Qwen3-0.6B": 0.15,
    "Qwen/Qwen3-4B-Instruct-2507": 0.45,
    "openai/gpt-4.1-mini": 0.8,
}
TRAINABLE = ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-4B-Instruct-2507")
DEFAULT_SKILL = 0.3
_SHAPE = 1.3


def skill_of(model: str) -> float:
    """The skill that a model name states; `rehearsal/skill-N` works for every N from 0 to 100."""
    if model in MODELS:
        return MODELS[model]
    name = model.removeprefix("rehearsal/skill-")
    if name != model and name.isdigit() and int(name) <= 100:
        return int(name) / 100
    return DEFAULT_SKILL


def quantile(*parts: str) -> float:
    """A number in (0, 1) that depends only on the parts."""
    digest = hashlib.sha256("\0".join(parts).encode("utf-8")).digest()
    return (int.from_bytes(digest[:8], "big") + 0.5) / 2**64


def chance(skill: float, prompt_quantile: float) -> float:
    """The probability that a model of this skill solves a prompt at this quantile of easiness."""
    if skill <= 0.0 or skill >= 1.0:
        return min(1.0, max(0.0, skill))
    b = _second_shape(round(skill, 4))
    return float((1 - (1 - prompt_quantile) ** (1 / b)) ** (1 / _SHAPE))


@lru_cache(maxsize=4096)
def zero_variance_share(skill: float, group: int) -> float:
    """Expected share of groups in which every rollout has the same outcome, so nothing is learned."""
    if group < 2:
        return 1.0
    points = [chance(skill, (i + 0.5) / 40) for i in range(40)]
    return sum(p**group + (1 - p) ** group for p in points) / len(points)


@lru_cache(maxsize=512)
def _second_shape(skill: float) -> float:
    low, high = 1e-3, 1e4
    for _ in range(80):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _mean(middle) > skill else (low, middle)
    return math.sqrt(low * high)


def _mean(b: float) -> float:
    log = math.lgamma(1 + 1 / _SHAPE) + math.lgamma(b) - math.lgamma(1 + 1 / _SHAPE + b)
    return b * math.exp(log)
