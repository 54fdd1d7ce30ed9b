"""Right replies with reasoning of many lengths, which show from where on a reward pays for length otherwise.

Two rewards that pay differently from a number of words or characters on pay the same for short replies. A comparison of
rewards therefore tries lengths between and on the limits that rewards usually have.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice

from prime_lab_mcp.lab.datasets.task_golds import TaskGold
from prime_lab_mcp.lab.rewards.probes.catalogue import FILLER, AnswerStyle, Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family

TASKS = 2
"""Number of golds that get such replies (our choice): a limit of length is the same for all tasks."""
WORDS = (1, 4, 8, 12, 16, 22, 28, 35, 45, 55, 65, 75, 90, 110, 130, 160, 190, 225, 275, 350, 450, 600, 900, 1200)
"""Words of reasoning: between the limits that rewards usually have."""


def length_probes(style: AnswerStyle, golds: Sequence[TaskGold]) -> list[Probe]:
    """Return right replies to some tasks with reasoning of each length, in the place that the form has for it."""
    words = FILLER.split()
    return [
        Draft(
            Family.LONG_GOLD,
            style.wrapper.reasoned(style.answer_text(gold), " ".join(islice(cycle(words), number))),
            f"{number} words",
        ).probe(f"length/{gold.row}/{number}", gold.row)
        for gold in golds[:TASKS]
        for number in WORDS
    ]
