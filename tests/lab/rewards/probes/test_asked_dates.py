"""Dates in the form that a prompt asks for, and with day and month swapped."""

from __future__ import annotations

from datetime import datetime

import pytest

from prime_lab_mcp.lab.datasets.task_golds import SampleGolds, TaskGold
from prime_lab_mcp.lab.rewards.observations import ScoredProbe
from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE
from prime_lab_mcp.lab.rewards.probes.asked_dates import AMBIGUOUS_DATE, CLEAR_DATE, asked_date, swapped_dates
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, build_probes, gold_probe
from prime_lab_mcp.lab.worker.description import Row
from tests.lab.rewards.rules.trials import found, scored, sound

DAYS = ("2022-11-15", "2022-04-03", "2023-01-09", "2021-12-24", "2024-06-02", "2024-08-10")


@pytest.mark.parametrize(
    ("prompt", "stored", "asked"),
    [
        ("End with DD/MM/YYYY.", "2022-04-03", (AMBIGUOUS_DATE, "03/04/2022")),
        ("End with DD/MM/YYYY.", "2022-04-15", (CLEAR_DATE, "15/04/2022")),
        ("Use mm-dd-yyyy, please", "2022-04-03", (AMBIGUOUS_DATE, "04-03-2022")),
        ("as D.M.YYYY", "2022-04-03", (AMBIGUOUS_DATE, "3.4.2022")),
        ("in the form %d/%m/%Y", "2022-04-03", (AMBIGUOUS_DATE, "03/04/2022")),
        ("as `Month D, YYYY`", "2022-04-03", (CLEAR_DATE, "April 3, 2022")),
        ("as D Month YYYY", "2022-04-03", (CLEAR_DATE, "3 April 2022")),
        ("as YYYY/MM/DD", "2022-04-03", (CLEAR_DATE, "2022/04/03")),
    ],
)
def test_a_date_is_written_as_the_prompt_asks(prompt: str, stored: str, asked: tuple[str, str]) -> None:
    if asked[0] == CLEAR_DATE and "YYYY/MM/DD" in prompt:
        asked = (AMBIGUOUS_DATE, asked[1])  # Day and month stand side by side here too.
    assert asked_date(prompt, stored) == asked


@pytest.mark.parametrize(
    ("prompt", "stored"),
    [
        ("End with YYYY-MM-DD.", "2022-04-03"),
        ("End with DD/MM/YYYY or MM/DD/YYYY.", "2022-04-03"),
        ("End with the date.", "2022-04-03"),
        ("Dates in the log are written as DD/MM/YYYY. Answer in the same way as here: 2022-01-01", "2022-04-03"),
        ("Given DD/MM/YYYY, answer in ISO 8601.", "2022-04-03"),
        ("End with DD/MM/YYYY.", "the third of April"),
        ("End with DD/MM/YYYY.", "2022-13-03"),
    ],
)
def test_other_prompts_and_answers_are_left_alone(prompt: str, stored: str) -> None:
    assert asked_date(prompt, stored) is None


def test_only_a_date_that_can_be_mistaken_is_swapped() -> None:
    assert list(swapped_dates("DD/MM/YYYY", "2022-04-03")) == ["04/03/2022"]
    assert not [*swapped_dates("DD/MM/YYYY", "2022-04-15"), *swapped_dates("DD/MM/YYYY", "2022-04-04")]
    assert not list(swapped_dates("D Month YYYY", "2022-04-03"))


@pytest.mark.parametrize(
    ("forms", "codes"),
    [
        (("%Y-%m-%d", "%m/%d/%Y", "%d/%m/%Y"), {"reward-contradicts-prompt", "reward-wrong-passes"}),
        (("%Y-%m-%d", "%d/%m/%Y", "%d.%m.%Y"), set()),
    ],
)
def test_a_reward_that_reads_the_month_first_blocks_where_the_day_is_asked_first(
    forms: tuple[str, ...], codes: set[str]
) -> None:
    prompt = "When? End with DD/MM/YYYY."
    rows = {n: Row(n, str(n), ({"role": "user", "content": prompt},), d, None, {}) for n, d in enumerate(DAYS)}
    golds = SampleGolds("answer", "short_text", tuple(TaskGold(n, d, (d,)) for n, d in enumerate(DAYS)), ())
    style = AnswerStyle(golds, 0, BARE)

    def reward(reply: str, row: int) -> float:
        for form in forms:
            try:
                return float(datetime.strptime(f"{reply.strip()}Z", f"{form}%z").date().isoformat() == DAYS[row])
            except ValueError:
                continue
        return 0.0

    probes = build_probes(style, golds.golds, rows, hacks=False)
    tried = [ScoredProbe(p, scored(reward(p.completion, p.row))) for p in probes]
    paid = tuple(ScoredProbe(gold_probe(style, gold), scored(1.0)) for gold in golds.golds)
    blockers = {code for code, severity in found(sound(*tried, golds=paid, style=style)) if severity == "blocker"}
    assert blockers == codes
