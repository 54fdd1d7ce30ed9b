"""Finds the answer style that an environment's reward pays most.

An answer style is the task's field with the gold (the reference answer), the gold's spelling and its wrapper, such as a
tag or a box.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from prime_lab_mcp.lab.datasets.task_golds import (
    SampleGolds,
    TaskGold,
    gold_candidates,
    joined_golds,
    message_text,
    other_candidates,
    prompt_of,
    reads_field,
    whole_prompt,
)
from prime_lab_mcp.lab.rewards.probes.answer_formats import (
    BARE,
    GOLD_MARK,
    AnswerWrapper,
    all_wrappers,
    requested_wrappers,
    wrapper_from_template,
)
from prime_lab_mcp.lab.rewards.probes.asked_dates import asked_date
from prime_lab_mcp.lab.rewards.probes.asked_forms import AskedForm, asked_form, mentions_form, prompted_keys
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, assistant_message
from prime_lab_mcp.lab.rewards.probes.programs import output_markers
from prime_lab_mcp.lab.rewards.probes.row_fields import (
    GoldRendering,
    composed_golds,
    framed_golds,
    golds_of_replies,
    with_units,
)
from prime_lab_mcp.lab.rewards.probes.wrong_answers import (
    as_number,
    one_item_suffices,
    spread_over_answers,
    wrong_answers,
)
from prime_lab_mcp.lab.rewards.reward_source import rewarded_words
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.rewards.thresholds import HALF_SHARE
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Case, Scored

CALIBRATION_TASKS = 6
"""Number of tasks on which every style is tried."""
_JUDGED_TASKS = 2
"""Number of tasks on which every style is tried if scoring asks a judge."""
_FORMS = 4
"""Largest number of spellings of each gold that are tried."""
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class PromptedForm:
    """The form that the prompt tells the model to use, and the best mean reward of golds in this form.

    `shown` is the form for people: a wrapper, or JSON keys. `scored` are the golds in the best style with this form.
    """

    shown: str
    mean: float
    scored: tuple[tuple[Case, Scored], ...]
    keys: tuple[tuple[str, str], ...] = ()
    """Pairs of a key of the golds and the key that the prompt names instead."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The chosen style and its mean reward, which is None if the reward failed on every completion.

    `requested` is True if the prompt or the code names the wrapper of the style. `tried` is the number of compared
    styles.
    """

    style: AnswerStyle
    mean: float | None
    requested: bool
    tried: int
    scored: tuple[tuple[Case, Scored], ...]
    """The golds in the chosen style with their scores. A report shows them if no style earns anything."""
    prompted: PromptedForm | None = None
    """None if the prompt asks for no wrapper, or if that wrapper was not tried."""
    unmentioned: bool = False
    """No prompt mentions the form of the style, and the bare answer is not paid."""


async def calibrate(
    scorer: Scorer, rows: Sequence[Row], source: str, supplied: GoldRendering | None = None, sparing: bool = False
) -> Calibration | None:
    """Return the answer style with the highest mean reward; None if the tasks have no gold.

    Fields are tried from the likeliest on, and the first field whose values earn any reward is taken. With `supplied`,
    the caller's rendering, only the field and the spelling are searched. `sparing` limits the questions to a judge: the
    wrappers that the prompt and the code name are tried first, and others only if these earn nothing.
    """
    if sparing and supplied is None:
        named = requested_wrappers(instruction_texts(rows), source)[:2] or [BARE]
        first = await _calibrate(scorer, rows, source, named, named)
        if first is None or first.mean is None or first.mean > _EPSILON:
            return first
    if supplied is not None:
        return await _calibrate(scorer, rows, source, [supplied.wrapper], [supplied.wrapper], rendering=supplied)
    texts = instruction_texts(rows)
    tasks = _JUDGED_TASKS if sparing else CALIBRATION_TASKS
    asked = asked_form(*prompts_and_systems(rows))
    of_prompt = asked.wrappers if asked is not None else ()
    requested = list(dict.fromkeys([*requested_wrappers(texts, source), *of_prompt]))
    wrappers = list(dict.fromkeys([*all_wrappers(texts, source), *of_prompt]))
    return await _calibrate(scorer, rows, source, requested, wrappers, tasks)


STATED = "solution"
"""The place of golds that are replies which the tasks state as their solutions."""


async def calibrate_stated(
    scorer: Scorer, rows: Sequence[Row], source: str, replies: Mapping[int, str]
) -> Calibration | None:
    """Return the style of right replies that the tasks state, by the index of their task."""
    wrapper, golds = golds_of_replies(replies)
    return await _calibrate(scorer, rows, source, [wrapper], [wrapper], known=[replace(golds, place=STATED)])


_FEWEST_SHOWN, _MOST_SHOWN = 2, 2
"""Smallest number of right replies that show a form, and largest number of forms that are taken from replies."""


def forms_of_replies(replies: Mapping[int, str], rows: Sequence[Row]) -> list[AnswerWrapper]:
    """Return the forms in which right replies (a text for each task) state the gold of their task, the commonest first.

    A form is what stands before and behind the gold in the last line that has it. The bare gold is no form.
    """
    counts: Counter[AnswerWrapper] = Counter()
    for golds in gold_candidates(rows):
        for gold in golds.golds:
            for text in dict.fromkeys(gold.forms) if gold.row in replies else ():
                found = list(re.finditer(rf"(?<!\w){re.escape(text)}(?!\w)", replies[gold.row])) if text else []
                if found:
                    start, end = found[-1].span()
                    before = replies[gold.row][:start].rpartition("\n")[2]
                    after = replies[gold.row][end:].partition("\n")[0]
                    if GOLD_MARK not in before + after:
                        counts[wrapper_from_template(f"{before}{GOLD_MARK}{after}")] += 1
                    break
    often = [form for form, times in counts.most_common() if times >= _FEWEST_SHOWN and form != BARE]
    return often[:_MOST_SHOWN]


_REPLY_MARGIN = 0.1
"""Share of its reward by which a task's own gold must exceed golds of other tasks, so that the reward compares them."""


async def compares_golds(worker: Worker, rows: Sequence[Row], source: str) -> bool:
    """Return whether the reward pays the stored gold of a task more than the golds of other tasks, in any usual form.

    If not, the field that is taken for the gold is no reply, such as the name of a program's tests, or what the reward
    compares with it is unknown.
    """
    scorer = Scorer(worker)
    calibration = await calibrate(scorer, rows, source)
    if calibration is None or calibration.mean is None or calibration.mean <= _EPSILON:
        return False
    style = calibration.style
    known = {case.row for case, _ in calibration.scored}
    sample = [gold for gold in style.golds.golds if gold.row in known]
    others = [_another(sample, gold) for gold in sample]
    pairs = [(gold, other) for gold, other in zip(sample, others, strict=True) if other is not None]
    cases = [Case(f"swap/{g.row}", g.row, assistant_message(style.render(other))) for g, other in pairs]
    earned = [scored.reward or 0.0 for scored in await scorer.score(cases)] if cases else []
    own = [scored.reward or 0.0 for case, scored in calibration.scored if case.row in {g.row for g, _ in pairs}]
    return not pairs or sum(own) > (1 + _REPLY_MARGIN) * sum(earned) + _EPSILON


def _another(sample: Sequence[TaskGold], gold: TaskGold) -> TaskGold | None:
    """Return a gold of the sample with another answer; None if there is none."""
    return next((other for other in sample if other.forms[0] != gold.forms[0]), None)


def prompts_and_systems(rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Return the prompts and the system messages of the first tasks."""
    few = rows[:20]
    systems = [message_text(m) for row in few for m in row.prompt if m.get("role") == "system"]
    return [prompt_of(row) for row in few], systems


async def _calibrate(
    scorer: Scorer,
    rows: Sequence[Row],
    source: str,
    requested: Sequence[AnswerWrapper],
    wrappers: Sequence[AnswerWrapper],
    tasks: int = CALIBRATION_TASKS,
    rendering: GoldRendering | None = None,
    known: Sequence[SampleGolds] = (),
) -> Calibration | None:
    """Try these wrappers with every possible gold field. `requested` are those that the prompt or the code names.

    `rendering` is that of the caller, which may name other fields of the tasks. `known` replaces the fields.
    """
    marks, listed = output_markers(source), rewarded_words(source)
    asked = asked_form(*prompts_and_systems(rows))
    shown = [whole_prompt(row) for row in rows[:20]]
    best: Calibration | None = None
    composed = rendering.composed if rendering is not None else ""
    for stored in known or ([composed_golds(rows, composed)] if composed else _and_joined(gold_candidates(rows))):
        keyed, keys = with_asked_keys(with_asked_dates(stored, rows), rows)
        for golds in _with_other_fields(keyed, rows, rendering):
            sample = spread_over_answers(golds, tasks, 0)
            styles = [
                AnswerStyle(golds, form, wrapper, marks, listed)
                for wrapper in wrappers
                for form in range(_widest(sample))
            ]
            one = one_item_suffices(golds, instruction_texts(rows))
            candidate = await _best(
                scorer, styles, sample, lambda style: style.wrapper in requested, asked, keys, one, shown
            )
            if candidate is not None and (best is None or (candidate.mean or 0) > (best.mean or 0) + _EPSILON):
                best = candidate
        if best is not None and (best.mean or 0) > _EPSILON:
            break
    if not (known or composed) and (best is None or (best.mean is not None and best.mean <= _EPSILON)):
        hidden = await _hidden_gold(scorer, rows, source, requested, wrappers, marks, listed, tasks)
        best = hidden or best
    return best


def _and_joined(candidates: Sequence[SampleGolds]) -> Iterator[SampleGolds]:
    """Yield each candidate, and behind lists in JSON the same lists as plain text."""
    for golds in candidates:
        yield golds
        joined = joined_golds(golds)
        if joined is not None:
            yield joined


def _with_other_fields(
    golds: SampleGolds, rows: Sequence[Row], rendering: GoldRendering | None
) -> Iterator[SampleGolds]:
    """Yield the golds as they are and with the units that the prompts ask for, or as the caller's rendering frames
    them."""
    if rendering is not None and (rendering.before or rendering.after):
        yield framed_golds(golds, rows, rendering.before, rendering.after)
        return
    yield golds
    united = with_units(golds, rows)
    if united is not None:
        yield united


_HIDDEN_TASKS, _READ_TASKS = 4, 8
"""Numbers of tasks on which a field without the name of an answer is tried: usually, and if the reward's code reads the
field. It may pay the right answers of some tasks only."""


async def _hidden_gold(
    scorer: Scorer,
    rows: Sequence[Row],
    source: str,
    requested: Sequence[AnswerWrapper],
    wrappers: Sequence[AnswerWrapper],
    marks: tuple[str, ...],
    listed: tuple[str, ...],
    tasks: int,
) -> Calibration | None:
    """Look for the gold in fields whose names do not suggest an answer; None if there is no such field.

    A field is the gold if a task's own value earns clearly more than the values of other tasks, and if the best value
    earns most of what the weights declare. A reward with a
    tolerance may also pay the numbers of other tasks. If the reward's code reads the field, it is enough that a task's
    own number earns clearly more than numbers far from all values.
    """
    few = [*dict.fromkeys([*requested, *wrappers[:3]])][:_HIDDEN_TASKS]
    for stored in _and_joined(other_candidates(rows, source)):
        golds, keys = with_asked_keys(stored, rows)
        number = _READ_TASKS if reads_field(source, golds.place) else _HIDDEN_TASKS
        sample = spread_over_answers(golds, number if tasks > _JUDGED_TASKS else tasks, 0)
        if len(sample) < 2 or scorer.gave_up:
            continue
        forms = _different_forms(sample) if golds.format == "multi_answer" or keys else [0]
        styles = [AnswerStyle(golds, form, wrapper, marks, listed) for wrapper in few for form in forms]
        one = one_item_suffices(golds, instruction_texts(rows))
        candidate = await _best(
            scorer, styles, sample, lambda style: style.wrapper in requested, keys=keys, one_item=one
        )
        if candidate is None or _best_share(candidate) < _HIDDEN_SHARE:
            continue
        if golds.format == "json" and not await _is_only_answer(scorer, candidate, sample):
            continue  # It is one of several right answers, such as an example of a plan.
        others = [candidate.style.render(other) for other in (*sample[1:], sample[0])]
        if await _pays_less(scorer, candidate, sample, others):
            return candidate
        if golds.format == "numeric" and reads_field(source, golds.place):
            far = [candidate.style.wrapper.wrap(_far_number(golds, n)) for n in range(len(sample))]
            if await _pays_less(scorer, candidate, sample, far):
                return candidate
    return None


def with_asked_dates(golds: SampleGolds, rows: Sequence[Row]) -> SampleGolds:
    """Add the spelling in the form that the prompt names, if all golds are dates in another form."""
    prompts = {row.index: whole_prompt(row) for row in rows}
    dated = [asked_date(prompts.get(gold.row, ""), gold.forms[0]) for gold in golds.golds]
    if golds.format == "multi_answer" or not all(dated):
        return golds
    spelt = zip(golds.golds, dated, strict=True)
    return replace(golds, golds=tuple(replace(g, forms=(*g.forms, d[1])) for g, d in spelt if d is not None))


def with_asked_keys(golds: SampleGolds, rows: Sequence[Row]) -> tuple[SampleGolds, tuple[tuple[str, str], ...]]:
    """Add the spelling with the keys that the prompt names, if golds are JSON objects with other keys.

    Returns the golds, and pairs of a key of the golds and the key that the prompt names instead. The prompt must name
    at least half of the keys of the golds. Another key is renamed if no text quotes it, and if exactly one key that
    the prompt names, and that golds lack, contains it or is contained in it (or if both are the only ones).
    """
    objects = [_json_object(gold) for gold in golds.golds] if golds.format == "json" else []
    if not objects or any(value is None or set(value) != set(objects[0] or ()) for value in objects):
        return golds, ()
    stored = list(objects[0] or ())
    asked = prompted_keys(*prompts_and_systems(rows))
    text = "\n".join(instruction_texts(rows))
    missing = [key for key in stored if key not in asked]
    if 2 * len(missing) > len(stored) or any(f"{mark}{key}{mark}" in text for key in missing for mark in "\"'`"):
        return golds, ()
    extra = [key for key in asked if key not in stored]
    pairs: list[tuple[str, str]] = []
    for key in missing:
        alike = [other for other in extra if key.lower() in other.lower() or other.lower() in key.lower()]
        alike = alike or (extra if len(missing) == len(extra) == 1 else [])
        if len(alike) == 1:
            pairs.append((key, alike[0]))
    if not pairs or len({new for _, new in pairs}) < len(pairs):
        return golds, ()
    names = dict(pairs)
    renamed = tuple(
        replace(gold, forms=(gold.forms[0], _dumped({names.get(k, k): v for k, v in (value or {}).items()})))
        for gold, value in zip(golds.golds, objects, strict=True)
    )
    return replace(golds, golds=renamed), tuple(pairs)


def _json_object(gold: TaskGold) -> dict[str, object] | None:
    """Return a gold that is a JSON object; None for any other gold."""
    try:
        value = json.loads(gold.forms[0])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and value else None


def _dumped(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


async def _is_only_answer(scorer: Scorer, candidate: Calibration, sample: Sequence[TaskGold]) -> bool:
    """Whether a change of any one value of a JSON object costs reward, so that no other object is as right."""
    style, cases = candidate.style, []
    for gold in sample:
        changed = [w.answer for w in wrong_answers(style.golds, gold, style.form) if w.name == "one value changed"]
        cases += [Case(f"changed/{gold.row}", gold.row, assistant_message(style.wrapper.wrap(t))) for t in changed]
    own = {case.row: scored.reward or 0.0 for case, scored in candidate.scored}
    scored = await scorer.score(cases) if cases else []
    return all((s.reward or 0.0) < own[case.row] - _EPSILON for case, s in zip(cases, scored, strict=True))


async def _pays_less(scorer: Scorer, candidate: Calibration, sample: Sequence[TaskGold], texts: Sequence[str]) -> bool:
    """Whether `texts`, one completion for each task of the sample, earn clearly less than the tasks' own values."""
    cases = [Case(f"swap/{gold.row}", gold.row, assistant_message(t)) for gold, t in zip(sample, texts, strict=True)]
    earned = [s.reward or 0.0 for s in await scorer.score(cases)]
    mean = candidate.mean or 0.0
    return mean > sum(earned) / len(earned) + _HIDDEN_MARGIN * mean


def _far_number(golds: SampleGolds, number: int) -> str:
    """Return a number far from every value of the sample: above all for an odd `number`, below for an even one."""
    sizes = [abs(value) for gold in golds.golds if (value := as_number(gold.forms[0])) is not None]
    far = int(max(sizes, default=Decimal(0))) * 1_000 + 98_765
    return str(far if number % 2 else -far)


_HIDDEN_MARGIN = 0.5
"""Share of the mean reward by which a task's own value must exceed those of other tasks to count as the gold."""
_HIDDEN_SHARE = 0.75
"""Share of the declared weights that the best value must earn. Where a reply is executed, searched or compared in part,
a value that is no reply, such as one of the texts that a pattern must match, earns a little on its own task."""


def _shares(candidate: Calibration) -> list[float]:
    """Return the rewards of the candidate's values, as shares of the weights that scored them."""
    return [
        (scored.reward or 0.0) / weight
        for _, scored in candidate.scored
        if (weight := sum(max(0.0, part.weight) for part in scored.components.values())) > _EPSILON
    ]


def _best_share(candidate: Calibration) -> float:
    """Return the highest reward of the candidate's values, as a share of the weights that scored them."""
    return max(_shares(candidate), default=1.0 if (candidate.mean or 0.0) > _EPSILON else 0.0)


def mean_share(calibration: Calibration) -> float:
    """Return the mean reward of the golds, as a share of the weights that scored them; 0 if no reward is known."""
    shares = _shares(calibration)
    return sum(shares) / len(shares) if shares and calibration.mean is not None else calibration.mean or 0.0


def instruction_texts(rows: Sequence[Row]) -> list[str]:
    """Return system messages and prompts of the first tasks, which may name a wrapper."""
    prompts, systems = prompts_and_systems(rows)
    return [*set(systems), *prompts[:5]]


def _widest(sample: Sequence[TaskGold]) -> int:
    """Return the largest number of spellings that a gold of the sample has, at most `_FORMS`."""
    return min(_FORMS, max((len(g.forms) for g in sample), default=1))


def _different_forms(sample: Sequence[TaskGold]) -> list[int]:
    """Return the spellings that differ from each earlier one for some gold of the sample."""
    texts: dict[tuple[str, ...], int] = {}
    for form in range(_widest(sample)):
        texts.setdefault(tuple(gold.form(form) for gold in sample), form)
    return list(texts.values())


async def _best(
    scorer: Scorer,
    styles: Sequence[AnswerStyle],
    sample: Sequence[TaskGold],
    is_requested: Callable[[AnswerStyle], bool],
    prompted: AskedForm | None = None,
    keys: tuple[tuple[str, str], ...] = (),
    one_item: bool = False,
    shown: Sequence[str] = (),
) -> Calibration | None:
    """Score the sample's golds in every style, and return the style with the highest mean reward.

    With `one_item`, styles that state one item of a list are preferred to others with the same reward.
    If the reward fails on every completion of the first task, the other tasks are not tried.
    """
    first = await _try(scorer, styles, sample[:1])
    broken = [s for _, s in first if s.reward is None]
    if len(broken) == len(first):
        return Calibration(styles[0], None, is_requested(styles[0]), len(styles), tuple(first[:3])) if styles else None
    rest = await _try(scorer, styles, sample[1:])
    means = []
    for number in range(len(styles)):
        paid = [first[number], *rest[number :: len(styles)]]
        means.append(sum(s.reward or 0.0 for _, s in paid) / len(paid))
    top = max(range(len(styles)), key=lambda n: (round(means[n], 9), one_item and _states_one(styles[n]), -n))
    golds = [first[top], *rest[top :: len(styles)]]
    form = None
    renamed = [n for n, style in enumerate(styles) if style.form == 1] if keys else []
    asked = [n for n, style in enumerate(styles) if prompted is not None and _is_asked(style, prompted)]
    unmentioned = bool(shown) and not any(mentions_form(styles[top].wrapper, text) for text in shown)
    if renamed:
        best = max(renamed, key=lambda n: round(means[n], 9))
        form = PromptedForm("", means[best], (first[best], *rest[best :: len(styles)]), keys)
    elif asked and prompted is not None and (unmentioned or not prompted.in_words):
        best = max(asked, key=lambda n: round(means[n], 9))
        form = PromptedForm(prompted.shown, means[best], (first[best], *rest[best :: len(styles)]))
    bare = [means[n] for n, style in enumerate(styles) if not style.wrapper.open]
    unmentioned = unmentioned and bool(bare) and max(bare) < HALF_SHARE * means[top]
    return Calibration(styles[top], means[top], is_requested(styles[top]), len(styles), tuple(golds), form, unmentioned)


def _is_asked(style: AnswerStyle, asked: AskedForm) -> bool:
    """Whether a style has the form that the prompts ask for. Golds that are JSON objects have keys of their own."""
    if style.golds.format in ("json", "tool_call") and any(w.kind == "json" for w in asked.wrappers):
        return False
    return any(style.wrapper.open == wrapper.open for wrapper in asked.wrappers)


def _states_one(style: AnswerStyle) -> bool:
    """Whether the style states only the first item of every list."""
    return all(gold.parts[:1] == (style.answer_text(gold),) for gold in style.golds.golds)


async def _try(scorer: Scorer, styles: Sequence[AnswerStyle], sample: Sequence[TaskGold]) -> list[tuple[Case, Scored]]:
    """Score every gold of the sample in every style: all styles of the first gold, then of the second, and so on."""
    cases = [
        Case(f"try/{gold.row}/{number}", gold.row, assistant_message(style.render(gold)))
        for gold in sample
        for number, style in enumerate(styles)
    ]
    return list(zip(cases, await scorer.score(cases), strict=True)) if cases else []
