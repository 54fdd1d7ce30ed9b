"""Whether a rollout was paid for its answer: form alone is paid for by components that are named after it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from prime_lab_mcp.lab.evals.results import Rollout

_FORM = frozenset({
    "format", "formatted", "formatting", "parse", "parsed", "parses", "parser", "parsing", "parsable",
    "parseable", "wellformed", "syntax",
})  # fmt: skip
_IN_FORM = re.compile(r"(?:^|_)(?:in|well)_?form(?:ed)?(?:_|$)|^form(?:_(?:reward|score|func|ok))*$", re.I)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@cache
def words(name: str) -> frozenset[str]:
    """The words in the name of a component or metric: `answer_format` and `answerFormat` have two."""
    return frozenset(part.casefold() for part in _PART.findall(name))


@cache
def judges_form(name: str) -> bool:
    """Whether a component's name says that it looks at the form: `answer_format`, `xmlparser_format_reward`."""
    return bool(words(name) & _FORM or _IN_FORM.search(name))


def earned(rollout: Rollout, weights: Mapping[str, float] | None = None) -> bool:
    """Whether a scored rollout was paid for its answer; being paid for its form alone is earning nothing."""
    found = answers(rollout, weights)
    if not found:
        return (rollout.reward or 0.0) > 0
    return max(found.values()) > 0 and (rollout.reward is None or rollout.reward > 0)


def answers(rollout: Rollout, weights: Mapping[str, float] | None = None) -> dict[str, float]:
    """Scores of the components that pay and judge the answer, not its form. `weights` of layouts without (v0)."""
    found = {}
    for name, (score, weight) in rollout.components.items():
        if weight is None:
            # v0 counts calls of tools among its scores.
            weight = 0.0 if name.endswith("_calls") else (weights or {}).get(name, 0.0 if weights else 1.0)
        if weight > 0 and not judges_form(name):
            found[name] = score
    return found
