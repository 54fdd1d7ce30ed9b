"""In which form the answers of a dataset are, by rules in order (facts/validation 1.3).

A form is accepted when 95 % of the answers that are there have it; between 60 and 95 % the column is mixed, and no one
parser can be right for it. Where several forms fit, the order decides, and the confidence says how surely.

Two rules differ from the facts. Numbers among which more than one in a hundred is other mathematics are `latex_math`,
not `numeric`: the wider form reads all of them, and the narrower would fail on rows that are right. And a column that
is split between several strict forms is mixed even where none has 60 %, because calling it prose would be a guess.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.chat import is_chat
from prime_lab_mcp.lab.datasets.rules import RULES, Context, Facts, Fit, Format, Rule

__all__ = [
    "ACCEPT", "CLASSES", "MIXED", "NUMERIC", "SURE", "Context", "Format", "Recognised", "accepts",
    "has_inline_options", "is_chat", "recognise",
]  # fmt: skip

ACCEPT = 0.95
"""Share of the non-empty answers that must have a form (facts/validation 1.3)."""
MIXED = 0.60
SURE = 0.75
"""Confidence under which a form is one of several that fit."""
SAMPLE = 2000
"""Answers that every rule is tried on, spread evenly over the column; the one that wins is held against all."""
NUMERIC: frozenset[str] = frozenset({"gsm8k_hash", "numeric"})
CLASSES: frozenset[str] = frozenset({"boolean", "choice_letter", "choice_index", "class_id", "label"})
_ACCEPTS: Mapping[str, Callable[[Any], bool]] = {rule.format: rule.accepts for rule in RULES}
_INLINE = re.compile(
    r"(?:^|\s)[(\[]?A[).:\]]\s*\S.*?(?:^|\s)[(\[]?B[).:\]]\s*\S|(?:^|\s)[(\[]?a[).\]]\s*\S.*?(?:^|\s)[(\[]?b[).\]]\s*\S",
    re.S,
)


@dataclass(frozen=True, slots=True)
class Recognised:
    """A form and how sure it is. `counterexamples` are row and value of answers that do not have it."""

    format: Format
    confidence: float
    counterexamples: tuple[tuple[int, Any], ...] = ()
    mixed: bool = False
    index_base: int | None = None
    """For choice_index: what the first option counts as; None when the gold is an option's text or a list of marks."""
    also: tuple[tuple[str, float], ...] = ()
    """Forms of the other answers with their shares, when mixed."""
    rival: Format | None = None
    """Another form that fits as well as this one."""
    share: float = 1.0
    """Share of the non-empty answers that have the form."""


def accepts(format: str, value: Any) -> bool:
    """Whether one answer has a form. Forms that only a whole column has (label, short_text, free_text) take all."""
    test = _ACCEPTS.get(format)
    return True if test is None else test(value)


def recognise(values: Sequence[tuple[int, Any]], context: Context | None = None) -> Recognised | None:
    """The form of a column given as (row, value). None when it holds no answer at all."""
    known = [(row, value) for row, value in values if not golds.is_empty(value)]
    if not known:
        return None
    facts = Facts.of([value for _, value in known], context or Context(), SAMPLE)
    fits = [(rule, fit) for rule in RULES if (fit := rule.fits(facts)).certainty > 0]
    shares: dict[str, float] = {
        rule.format: sum(map(rule.accepts, facts.sample)) / len(facts.sample) for rule, _ in fits
    }
    for rule, fit in fits:
        if shares[rule.format] >= ACCEPT and not _better_as_latex(rule.format, shares, facts):
            return _accepted(rule, fit, known, facts)
    return _not_accepted(known, facts, [rule for rule, _ in fits], shares)


def _better_as_latex(format: Format, shares: Mapping[str, float], facts: Facts) -> bool:
    return format == "numeric" and shares["numeric"] < 0.99 < shares.get("latex_math", 0.0)


def _accepted(rule: Rule, fit: Fit, known: Sequence[tuple[int, Any]], facts: Facts) -> Recognised:
    against = [entry for entry in known if not rule.accepts(entry[1])]
    share = 1 - len(against) / len(known)
    found = Recognised(
        rule.format, round(share * fit.certainty, 4), tuple(against[:5]), rival=fit.rival, share=round(share, 4)
    )
    if rule.format != "choice_index":
        return found
    base, certain = facts.index_base()
    return replace(found, index_base=base, confidence=found.confidence if certain else min(found.confidence, 0.6))


def _not_accepted(
    known: Sequence[tuple[int, Any]], facts: Facts, rules: Sequence[Rule], shares: Mapping[str, float]
) -> Recognised:
    if facts.label_like:
        letters = facts.share_of("choice_letter") >= ACCEPT
        certain = 0.6 if letters else 0.95 if len(facts.sample) >= 5 * len(facts.kinds) else 0.75
        return Recognised("label", certain, rival="choice_letter" if letters else None)
    prose = facts.prose()
    parts = _breakdown(facts, rules, prose)
    best = max(shares, key=lambda name: shares[name], default="")
    rule = next((r for r in rules if r.format == best), None)
    if rule is not None and shares[best] >= MIXED:
        against = [entry for entry in known if not rule.accepts(entry[1])]
        share = round(1 - len(against) / len(known), 4)
        others = tuple((name, part) for name, part in parts if name != best and part >= 0.01)
        return Recognised(rule.format, share, tuple(against[:5]), True, facts.index_base()[0], others, share=share)
    strict = [(name, part) for name, part in parts if name not in ("latex_math", prose)]
    if sum(part for _, part in strict) >= 0.5:
        rest = 1 - sum(part for _, part in strict)
        return Recognised("free_text", round(max(rest, 0.0), 4), (), True, None, tuple(parts), share=1.0)
    return Recognised(prose, facts.prose_certainty(), rival=facts.prose_rival())


def _breakdown(facts: Facts, rules: Sequence[Rule], prose: Format) -> list[tuple[str, float]]:
    """Each answer counted for the first form it has, the largest share first."""
    found = Counter(next((r.format for r in rules if r.accepts(v)), prose) for v in facts.sample)
    return [(name, round(times / len(facts.sample), 3)) for name, times in found.most_common(5)]


def has_inline_options(prompts: Sequence[str]) -> bool:
    """Most prompts list lettered options themselves."""
    return bool(prompts) and sum(_INLINE.search(p[-6000:]) is not None for p in prompts) >= 0.5 * len(prompts)
