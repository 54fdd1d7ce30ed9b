"""Plays a reward that asks a judge with a stand-in, which answers with the verdicts that the judge's prompt names.

No judge is needed for this, and nothing is sent. A reward that pays a negative verdict as much as the positive one
reads the verdict wrongly, such as one that looks for "correct", which INCORRECT contains as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE, requested_wrappers
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.probes.wrong_answers import clearly_wrong_answer
from prime_lab_mcp.lab.rewards.thresholds import EPSILON
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Case, Scored

_TASKS = 3
"""Number of tasks on which each verdict is tried."""
_MOST_PAIRS = 6
_FORMS = 3
"""Largest number of forms in which each verdict is given: alone, in a tag, or behind words that the prompt names."""
_SECONDS = 10.0
"""Time limit in seconds for scoring one completion."""
_NEITHER = "zzyzx"
"""A verdict that no prompt names. If it earns as much as the positive verdict, the verdict is not what is paid."""
_NO_ANSWER = "It is what the question says."
_OPPOSITES = {
    "yes": ("no",),
    "right": ("wrong",),
    "correct": ("wrong",),
    "true": ("false",),
    "pass": ("fail",),
    "passed": ("failed",),
    "accept": ("reject",),
    "good": ("bad",),
    "same": ("different",),
}
_PREFIXES = ("in", "un", "im", "ir", "il", "non", "mis", "dis", "not ", "not_", "not-", "no ")
_SHORTEST = 4
"""Length of the shortest word that is looked for behind a prefix."""
_WORD = re.compile(r"[A-Za-z][A-Za-z]*")
_KEY = re.compile(r"[\"'](\w{1,30})[\"']\s*:\s*(?:<|\()?\s*(?:true|false|bool)", re.I)


@dataclass(frozen=True, slots=True)
class MisreadVerdict:
    """A negative verdict that the reward pays like the positive one. `paid` are wrong replies with this verdict."""

    positive: str
    negative: str
    paid: tuple[tuple[Probe, Scored], ...]


def verdict_pairs(question: str) -> Iterator[tuple[str, str]]:
    """Yield pairs (positive, negative) of the verdicts that the prompt of a judge names, as the prompt spells them."""
    words = dict.fromkeys(_WORD.findall(question))
    for word in words:
        for prefix in _PREFIXES if len(word) >= _SHORTEST else ():
            for spelled in dict.fromkeys((prefix, prefix.upper(), prefix.capitalize())):
                rest = word.lower() if spelled == prefix.capitalize() and prefix.strip() == prefix else word
                negative = f"{spelled}{rest}"
                if re.search(rf"(?<!\w){re.escape(negative)}(?!\w)", question):
                    yield word, negative
        for opposite in _OPPOSITES.get(word.lower(), ()):
            cased = opposite.upper() if word.isupper() else opposite.capitalize() if word[0].isupper() else opposite
            if cased in words:
                yield word, cased
    for key in dict.fromkeys(_KEY.findall(question)):
        yield f'{{"{key}": true}}', f'{{"{key}": false}}'


async def find_misread_verdict(worker: Worker, style: AnswerStyle | None, rows: Sequence[Row]) -> MisreadVerdict | None:
    """Return a negative verdict that the reward pays like the positive one; None if there is none.

    The replies are wrong, so that no comparison before the question to the judge pays them.
    """
    probes = _wrong_replies(style, rows)
    try:
        asked = await _scored(worker, probes[:1], _NEITHER)
        questions = [question for scored in asked for question in scored.questions]
        pairs = list(dict.fromkeys(pair for question in questions for pair in verdict_pairs(question)))[:_MOST_PAIRS]
        if not pairs:
            return None
        neither = [_earned(scored) for scored in await _scored(worker, probes, _NEITHER)]
        named = [form for form in requested_wrappers(questions[:1], "") if form.kind in ("tag", "phrase")]
        forms = [BARE, *named][:_FORMS]
        for positive, negative in [(f.wrap(p), f.wrap(n)) for f in forms for p, n in pairs]:
            right = [_earned(scored) for scored in await _scored(worker, probes, positive)]
            if not all(paid > low + EPSILON for paid, low in zip(right, neither, strict=True)):
                continue
            wrong = await _scored(worker, probes, negative)
            if all(_earned(s) >= paid - EPSILON for s, paid in zip(wrong, right, strict=True)):
                return MisreadVerdict(positive, negative, tuple(zip(probes, wrong, strict=True)))
    except LabError:
        return None  # The rules about scoring report a process that breaks.
    return None


def _wrong_replies(style: AnswerStyle | None, rows: Sequence[Row]) -> list[Probe]:
    """Return a wrong reply to each of the first tasks."""
    golds = {gold.row: gold for gold in style.golds.golds} if style is not None else {}
    probes = []
    for row in rows[:_TASKS]:
        text = _NO_ANSWER
        if style is not None and row.index in golds:
            text = style.wrapper.wrap(clearly_wrong_answer(style.golds, golds[row.index], style.form))
        probes.append(Draft(Family.WRONG, text, "with a negative verdict").probe(f"verdict/{row.index}", row.index))
    return probes


def _earned(scored: Scored) -> float:
    return scored.reward if scored.reward is not None and scored.questions else 0.0


async def _scored(worker: Worker, probes: Sequence[Probe], verdict: str) -> list[Scored]:
    cases = [Case(probe.id, probe.row, probe.messages, verdict=verdict) for probe in probes]
    return await worker.score(cases, case_timeout=_SECONDS)
