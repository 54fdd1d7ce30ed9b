"""Numbers in steps around golds, which show where a reward with a tolerance stops paying.

Two rewards whose tolerances differ pay the same for right answers and for clearly wrong ones. Only a number between the
two limits tells them apart, so a comparison of rewards tries such numbers in small steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from prime_lab_mcp.lab.datasets.task_golds import TaskGold
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.probes.wrong_answers import as_number, number_and_unit

TASKS = 3
"""Number of golds that get near numbers (our choice): a relative tolerance is the same for all golds."""
_PERCENT = tuple(
    Decimal(text)
    for text in (
        *("0.01", "0.1", "0.25", "0.75", "1", "1.25", "1.75", "2", "2.25", "2.75", "3", "3.5", "4", "4.5", "5", "5.5"),
        *("6", "6.5", "7", "7.5", "8", "8.5", "9", "9.5", "10", "10.5", "12", "16", "22", "30", "45"),
    )
)
"""Relative differences: between and on the tolerances in percent that rewards usually have."""
_ABSOLUTE = tuple(map(Decimal, ("0.000002", "0.00002", "0.0002", "0.002", "0.02", "0.07", "0.2", "0.4", "0.7")))
"""Absolute differences: between the tolerances that rewards usually have."""
_DIGITS = re.compile(r"[0-9][0-9,]*(?:\.[0-9]+)?")


def near_number_probes(style: AnswerStyle, golds: Sequence[TaskGold]) -> list[Probe]:
    """Return completions with numbers near some golds, in their form and with their unit; none without numbers."""
    numeric: dict[Decimal, TaskGold] = {}
    for gold in golds:
        number = _number(style.answer_text(gold))
        if number:
            numeric.setdefault(abs(number), gold)
    sizes = sorted(numeric)
    chosen = sizes if len(sizes) <= TASKS else [sizes[at * (len(sizes) - 1) // (TASKS - 1)] for at in range(TASKS)]
    probes = []
    for gold in (numeric[size] for size in chosen):
        for at, (variant, answer) in enumerate(_near(style.answer_text(gold))):
            draft = Draft(Family.WRONG, style.wrapper.wrap(answer), variant, near=True)
            probes.append(draft.probe(f"near/{gold.row}/{at}", gold.row))
    return probes


def _number(answer: str) -> Decimal | None:
    measured = number_and_unit(answer)
    return as_number(answer if measured is None else measured[0])


def _near(answer: str) -> Iterator[tuple[str, str]]:
    """Yield (what differs, answer) for numbers above and below the gold."""
    number = _number(answer)
    if number is None or len(_DIGITS.findall(answer)) != 1:
        return
    steps = [(f"{percent}% off", abs(number) * percent / 100) for percent in _PERCENT]
    steps += [(f"{difference} off", difference) for difference in _ABSOLUTE]
    for at, (variant, step) in enumerate(steps):
        other = abs(number) + (step if at % 2 else -step)
        if other > 0:
            yield variant, _DIGITS.sub(f"{other.normalize():f}", answer, count=1)
