"""Finds out by behaviour how an environment wants its gold said: the way that its own reward pays best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.rewards.carriers import PLAIN, Carrier, all_carriers, asked
from prime_lab_mcp.lab.rewards.code_probes import markers
from prime_lab_mcp.lab.rewards.gold import Gold, candidates, prompt_of, text_of
from prime_lab_mcp.lab.rewards.probes import Style, assistant
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.rewards.source_words import words
from prime_lab_mcp.lab.rewards.wrong import spread
from prime_lab_mcp.lab.worker.cases import Case, Row, Scored

TASKS = 6
"""Tasks on which renderings are tried."""
_SPARED = 2
"""The same where every try is a question to a judge, and the likeliest renderings earned nothing."""
_FORMS = 4
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Calibration:
    """The chosen style and what it earned. `asked`: the prompt or the code names this carrier."""

    style: Style
    mean: float | None
    asked: bool
    tried: int
    scored: tuple[tuple[Case, Scored], ...]
    """What the likeliest rendering earned, for the report when nothing earns anything."""


async def calibrate(
    scorer: Scorer, rows: Sequence[Row], source: str, given: Carrier | None = None, sparing: bool = False
) -> Calibration | None:
    """The best paid way to say the golds of `rows`; None where the tasks hold no gold.

    Fields are tried in the order of how likely they hold the gold, and the first that earns anything is taken.
    `given` is the caller's way to carry an answer; only how the answer itself is spelt is then found out. `sparing`:
    the ways that prompt and code name come first, and where one of them earns anything no other is tried.
    """
    if sparing and given is None:
        named = asked(_texts(rows), source)[:2] or [PLAIN]
        first = await _calibrate(scorer, rows, source, named, named)
        if first is None or first.mean is None or first.mean > _EPSILON:
            return first
    if given is not None:
        return await _calibrate(scorer, rows, source, [given], [given])
    texts = _texts(rows)
    tasks = _SPARED if sparing else TASKS
    return await _calibrate(scorer, rows, source, asked(texts, source), all_carriers(texts, source), tasks)


async def _calibrate(
    scorer: Scorer,
    rows: Sequence[Row],
    source: str,
    wanted: Sequence[Carrier],
    carriers: Sequence[Carrier],
    tasks: int = TASKS,
) -> Calibration | None:
    marks, listed = markers(source), words(source)
    best: Calibration | None = None
    for golds in candidates(rows):
        sample = spread(golds, tasks, 0)
        styles = [Style(golds, form, carrier, marks, listed) for carrier in carriers for form in range(_widest(sample))]
        found = await _best(scorer, styles, sample, lambda style: style.carrier in wanted)
        if found is not None and (best is None or (found.mean or 0) > (best.mean or 0) + _EPSILON):
            best = found
        if best is not None and (best.mean or 0) > _EPSILON:
            break
    return best


def _texts(rows: Sequence[Row]) -> list[str]:
    systems = {text_of(m) for row in rows[:20] for m in row.prompt if m.get("role") == "system"}
    return [*systems, *(prompt_of(row) for row in rows[:5])]


def _widest(sample: Sequence[Gold]) -> int:
    return min(_FORMS, max((len(g.forms) for g in sample), default=1))


async def _best(
    scorer: Scorer,
    styles: Sequence[Style],
    sample: Sequence[Gold],
    is_asked: Callable[[Style], bool],
) -> Calibration | None:
    """One task first: most renderings earn nothing there, and a reward that hangs or breaks shows at little cost."""
    first = await _try(scorer, styles, sample[:1])
    broken = [s for _, s in first if s.reward is None]
    if len(broken) == len(first):
        return Calibration(styles[0], None, is_asked(styles[0]), len(styles), tuple(first[:3])) if styles else None
    rest = await _try(scorer, styles, sample[1:])
    means = []
    for number in range(len(styles)):
        paid = [first[number], *rest[number :: len(styles)]]
        means.append(sum(s.reward or 0.0 for _, s in paid) / len(paid))
    top = max(range(len(styles)), key=lambda n: (round(means[n], 9), -n))
    shown = [first[top], *rest[top :: len(styles)]]
    return Calibration(styles[top], means[top], is_asked(styles[top]), len(styles), tuple(shown))


async def _try(scorer: Scorer, styles: Sequence[Style], sample: Sequence[Gold]) -> list[tuple[Case, Scored]]:
    cases = [
        Case(f"try/{gold.row}/{number}", gold.row, assistant(style.render(gold)))
        for gold in sample
        for number, style in enumerate(styles)
    ]
    return list(zip(cases, await scorer.score(cases), strict=True)) if cases else []
