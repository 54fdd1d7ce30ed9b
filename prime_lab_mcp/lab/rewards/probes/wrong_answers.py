"""Makes wrong and half-right answers that resemble the gold, by answer format.

Wrong answers are those of a model that is nearly right, or that exploits a loose comparison. `spellings` makes answers
that mean the same as the gold.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from prime_lab_mcp.lab.datasets import golds as gold_answers
from prime_lab_mcp.lab.datasets.formats import AnswerFormat
from prime_lab_mcp.lab.datasets.task_golds import SampleGolds, TaskGold
from prime_lab_mcp.lab.rewards.probes.mixed_numbers import misread_mixed_number
from prime_lab_mcp.lab.rewards.probes.row_fields import filled

_DEMANDS_ORDER = re.compile(
    r"(?i)\b(?:sort(?:ed)?|rank(?:ed|ing)?|arrange|ordered by|order by|(?:ascending|descending|alphabetical|"
    r"chronological|increasing|decreasing|right|correct) order|(?:\w+est|by \w+) first|from (?:the )?\w+est to|"
    r"from A to Z)\b"
)
_QUERY = re.compile(r"(?is)\s*(?:select|with)\b.*\bfrom\b")
_ORDER_BY = re.compile(r"(?is)\border by\b(?!.*\blimit\b)(?!.*\bover\b)(?!.*\))")
_CLOCK = re.compile(r"([01]?\d|2[0-3])(:[0-5]\d(?::[0-5]\d)?)")
OTHER_ORDER = "in another order"
"""Name of the answer that has the right items or rows in an order that the prompt does not ask for."""
NEAR_LABEL = Decimal("0.02")
"""Relative difference up to which a reward with a tolerance may rightly accept a number."""
_OPPOSITE = {"yes": "no", "no": "yes", "true": "false", "false": "true"}

_ANY = re.compile(
    r"(?i)\b(any|either|one of|an? example|name an?|at least one|(?:one|a single one) (?:is enough|suffices|will do))\b"
)
"""Words of a prompt that asks for only one of several right answers."""
_ALL = re.compile(r"(?i)\b(all|every|each|both|list|complete)\b")
"""Words of a prompt that may ask for all of several right answers."""


def one_item_suffices(golds: SampleGolds, texts: Sequence[str]) -> bool:
    """Whether the items of list golds are alternatives: the texts ask for one of them, or most golds have one item.

    `texts` are the system messages and some prompts. A text that may ask for all items decides against alternatives.
    """
    if golds.format != "multi_answer":
        return False
    if any(_ANY.search(text) for text in texts):
        return True
    single = sum(len(gold.parts) == 1 for gold in golds.golds)
    return 2 * single >= len(golds.golds) and not any(_ALL.search(text) for text in texts)


_OTHER_UNIT = {"kg": "g", "km": "m", "m": "km", "g": "mg", "h": "s"}
QUANTITY = re.compile(r"([-+]?[0-9][0-9,]*(?:\.[0-9]+)?) ?([A-Za-z\u00b5\u00b0%]{1,12}(?:/[A-Za-z]{1,6})?)")


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A wrong or half-right answer. `name` says how it differs from the right answer."""

    name: str
    answer: str
    near: bool = False
    """A reward with a tolerance may rightly accept the answer."""
    unit: bool = False
    """The answer is the right number with another unit."""
    knowing: bool = False
    """The text contains the right answer, so that only a model that knows the right answer can write it."""


MOST_WRONG_ANSWERS = 14
"""Largest number of wrong answers for one gold."""


def wrong_answers(
    golds: SampleGolds, gold: TaskGold, form: int, seed: int = 0, options: Sequence[str] = ()
) -> list[WrongAnswer]:
    """Return at most `MOST_WRONG_ANSWERS` different wrong answers to one task. None of them equals a form of the gold.

    `form` is the index of the gold's spelling, `seed` chooses among other tasks' answers, and `options` are the answers
    that the task offers, if any.
    """
    if golds.bare is not None and form < len(gold.forms) // 2:
        lead, tail = gold.frame
        bare = replace(gold, forms=gold.forms[len(gold.forms) // 2 :], frame=("", ""))
        wrong_numbers = wrong_answers(golds.bare, bare, form, seed, options)
        return [replace(wrong, answer=f"{lead}{wrong.answer}{tail}") for wrong in wrong_numbers]
    if golds.fields:
        return _composed_wrongs(golds, gold, seed)
    answer = gold.form(form)
    right = {f.strip().lower() for f in gold.forms}
    if isinstance(gold.raw, list):
        right |= {str(r).strip().lower() for r in gold.raw}
    wrongs: dict[str, WrongAnswer] = {}
    for wrong in _wrong(golds, gold, answer, form, random.Random(seed + gold.row), options):
        if wrong.answer.strip().lower() not in right and not _same_number(wrong.answer, answer):
            near = wrong.near or _within_tolerance(golds, answer, wrong.answer)
            wrongs.setdefault(wrong.answer, replace(wrong, near=near))
    return list(wrongs.values())[:MOST_WRONG_ANSWERS]


FIELD_OF_ANOTHER = "another task's "
"""Beginning of the name of a reply that is right but for one of the fields of which it is made."""


def _composed_wrongs(golds: SampleGolds, gold: TaskGold, seed: int) -> list[WrongAnswer]:
    """Return wrong answers for a gold that is made of several fields: every field is wrong, or is of another task."""
    of_fields = []
    for field in golds.fields:
        own = next(g for g in field.golds if g.row == gold.row)
        clear = [w for w in wrong_answers(field, own, 0, seed) if not (w.near or w.knowing)]
        of_fields.append([w.answer for w in clear] or ["zzyzx quux"])
    wrongs = [
        WrongAnswer(
            "every field wrong",
            filled(
                golds.template,
                {f.place: texts[n % len(texts)] for f, texts in zip(golds.fields, of_fields, strict=True)},
            ),
        )
        for n in range(max(map(len, of_fields)))
    ]
    chance = random.Random(seed + gold.row)
    others = sorted({g.forms[0] for g in golds.golds if not _share_field(golds, gold, g)})
    wrongs += [WrongAnswer("gold of another task", o) for o in chance.sample(others, min(2, len(others)))]
    distinct = {wrong.answer: wrong for wrong in wrongs if wrong.answer not in gold.forms}
    return list(distinct.values())[:MOST_WRONG_ANSWERS]


def field_values(golds: SampleGolds, gold: TaskGold) -> dict[str, str]:
    """Map the places of the fields of which golds are made to their texts in one gold."""
    return {field.place: next(g.forms[0] for g in field.golds if g.row == gold.row) for field in golds.fields}


def _share_field(golds: SampleGolds, gold: TaskGold, other: TaskGold) -> bool:
    """Whether two golds have the same value in one of the fields of which they are made."""
    values = [{g.row: g.forms[0].casefold() for g in field.golds} for field in golds.fields]
    return any(of_field[gold.row] == of_field[other.row] for of_field in values)


def _other_fields(golds: SampleGolds, gold: TaskGold) -> Iterator[WrongAnswer]:
    """Yield the gold with one of its fields from another task, for each field that differs between tasks."""
    own = field_values(golds, gold)
    for field in golds.fields:
        texts = sorted({g.forms[0] for g in field.golds if not _close_numbers(own[field.place], g.forms[0])})
        other = next((t for t in texts if t.casefold() != own[field.place].casefold()), None)
        if other is not None:
            answer = filled(golds.template, {**own, field.place: other})
            yield WrongAnswer(f"{FIELD_OF_ANOTHER}{field.place}", answer, knowing=True)


def _within_tolerance(golds: SampleGolds, answer: str, other: str) -> bool:
    """Whether a reward may rightly accept another number for the answer.

    The prompts may allow an error. Without that, a number with a fraction is a measurement, which has a tolerance.
    """
    number, given = as_number(answer), as_number(other)
    if number is None or given is None or number == 0 or golds.format not in _NUMBERS:
        return False
    own = NEAR_MEASUREMENT if number != number.to_integral_value() else NEAR_LABEL
    return abs(given - number) <= max(own, golds.tolerance) * abs(number)


_NUMBERS: frozenset[AnswerFormat] = frozenset({"gsm8k_hash", "numeric", "boxed", "latex_math"})
NEAR_MEASUREMENT = Decimal("0.05")
"""The same as `NEAR_LABEL` for numbers with a fraction (our choice)."""


def clearly_wrong_answer(golds: SampleGolds, gold: TaskGold, form: int) -> str:
    """Return a wrong answer that no tolerance accepts and that does not contain the right one.

    If there is none, the result is the meaningless text `zzyzx quux`.
    """
    clear = [w for w in wrong_answers(golds, gold, form) if not w.near and not w.knowing]
    return clear[0].answer if clear else "zzyzx quux"


def _wrong(
    golds: SampleGolds, gold: TaskGold, answer: str, form: int, chance: random.Random, options: Sequence[str]
) -> Iterator[WrongAnswer]:
    """Yield wrong answers by answer format, then golds of other tasks. Some of them may equal the right answer."""
    number = as_number(answer)
    others = list(_others(golds, gold, form, chance))
    if number is not None and golds.format in ("gsm8k_hash", "numeric", "boxed", "latex_math", "class_id"):
        yield from _numbers(answer, number, gold.raw, signed=_has_negative(golds, form))
    elif golds.format == "boolean":
        yield WrongAnswer("negation", _like(_OPPOSITE.get(answer.strip().lower(), "no"), answer))
        yield WrongAnswer("denied", f"not {answer}", knowing=True)
    elif golds.format in ("choice_letter", "choice_index") and re.fullmatch(r"[A-Za-z]", answer.strip()):
        letters = sorted({g.form(form) for g in golds.golds} | set("ABCD" if answer.isupper() else "abcd"))
        yield from (WrongAnswer("other letter", letter) for letter in letters)
        other = next(letter for letter in letters if letter.lower() != answer.lower())
        yield WrongAnswer("two letters", f"{answer}{other}", knowing=True)
        yield WrongAnswer("two letters", f"{other}{answer}", knowing=True)
    elif golds.format in ("choice_letter", "choice_index"):
        yield from (WrongAnswer("other option", option) for option in options)
    elif golds.format in ("json", "tool_call"):
        yield from _structures(answer, [other.answer for other in others] if golds.format == "tool_call" else [])
    elif golds.format in ("short_text", "multi_answer", "label"):
        yield from (WrongAnswer(name, other) for name, other in misread_mixed_number(answer))
        yield from _texts(golds, answer, chance)
    elif golds.format in ("latex_math", "boxed"):
        yield from (WrongAnswer(name, other) for name, other in misread_mixed_number(answer))
        yield from _maths(answer)
    yield from _clock(golds, answer, form)
    if _QUERY.match(answer):
        # Queries of two tasks may have the same result. How often they do is judged on pairs of tasks.
        yield WrongAnswer("nothing to do with it", "SELECT 'zzyzx quux'")
        return
    yield from others


def _clock(golds: SampleGolds, answer: str, form: int) -> Iterator[WrongAnswer]:
    """Yield the time twelve hours away, if the golds are times on the clock of 24 hours."""
    time = _CLOCK.fullmatch(answer.strip())
    others = [_CLOCK.fullmatch(gold.form(form).strip()) for gold in golds.golds]
    if time is not None and all(others) and any(int(other[1]) > 12 for other in others if other is not None):
        yield WrongAnswer("twelve hours away", f"{(int(time[1]) + 12) % 24:0{len(time[1])}}{time[2]}")


def _texts(golds: SampleGolds, answer: str, chance: random.Random) -> Iterator[WrongAnswer]:
    """Yield wrong answers for a text or a label."""
    yield WrongAnswer("negated", f"not {answer}", knowing=True)
    if answer.isascii() and answer[-1:].isalpha():
        yield WrongAnswer("longer word", f"{answer}son", knowing=True)
    yield from _other_letters(golds, answer)
    yield from _other_digits(golds, answer)
    if golds.format == "label":
        if len(answer) >= 6:
            yield WrongAnswer("shortened label", answer[:-2])
        labels = list(golds.labels)
        # A careless comparison confuses labels with a common beginning.
        alike = [label for label in labels if label.startswith(answer[:3]) or answer.startswith(label[:3])]
        rest = [label for label in labels if label not in alike]
        yield from (WrongAnswer("other label", label) for label in [*alike, *chance.sample(rest, len(rest))])


def _other_letters(golds: SampleGolds, answer: str) -> Iterator[WrongAnswer]:
    """Yield the letters of a word from A to Z, which is another word or none."""
    letters = "".join(sorted(answer))
    known = {form.lower() for gold in golds.golds for form in gold.forms}
    if answer.isalpha() and len(answer) >= _FEWEST_LETTERS and letters.lower() not in known:
        yield WrongAnswer("its letters from A to Z", letters)


_FEWEST_LETTERS = 4
_LONGEST_NAME = 40
"""Longest text, in characters, in which every number counts (our choice)."""


def _other_digits(golds: SampleGolds, answer: str) -> Iterator[WrongAnswer]:
    """Yield a short text, such as a date, a time or a code, with one of its numbers larger by one.

    A reward with a tolerance may rightly accept a number that is larger by little.
    """
    for number in list(re.finditer(r"\d{1,6}", answer))[:3] if len(answer) <= _LONGEST_NAME else ():
        larger = str(int(number[0]) + 1).zfill(len(number[0]))
        near = _CLOCK.fullmatch(answer.strip()) is not None or int(number[0]) > _LARGE or golds.tolerance > 0
        yield WrongAnswer(
            "one number larger by one", f"{answer[: number.start()]}{larger}{answer[number.end() :]}", near
        )


_LARGE = 31
"""Number above which one more may be within a tolerance. Days and months are not above it."""


def _maths(answer: str) -> Iterator[WrongAnswer]:
    yield WrongAnswer("changed", f"{answer}+1")
    if re.search(r"[,;=]|\\\{|\\pm", answer):
        return  # The negative of a list, a set or an equation may be equivalent.
    yield WrongAnswer("sign flipped", answer[1:] if answer.startswith("-") else f"-({answer})")
    yield WrongAnswer("inverse", f"\\frac{{1}}{{{answer}}}")


def _has_negative(golds: SampleGolds, form: int) -> bool:
    """Whether any gold is a negative number, so that a sign is part of the answers."""
    return any((number := as_number(gold.form(form))) is not None and number < 0 for gold in golds.golds)


def _numbers(answer: str, number: Decimal, raw: Any, *, signed: bool) -> Iterator[WrongAnswer]:
    """Yield wrong answers for a number. `raw` is the stored gold, whose working may contain other numbers.

    If no gold is negative (`signed` is False), a minus sign in front of the right number is a mark that means nothing,
    such as the dash of a list, and the text contains the right answer.
    """
    near = number != 0 and abs(1 / number) <= NEAR_LABEL
    yield WrongAnswer("off by one", _decimal_text(number + 1), near)
    yield WrongAnswer("another number", _decimal_text(2 * number + 3))
    yield WrongAnswer("longer number", f"-1{answer.lstrip('-−')}" if number < 0 else f"1{answer}")
    yield WrongAnswer("ten times", _decimal_text(number * 10))
    if number == number.to_integral_value() and abs(number) >= 10:
        yield WrongAnswer("a tenth more", _decimal_text((number * Decimal("1.1")).to_integral_value()))
    if number != 0:
        flipped = _decimal_text(-number) if signed else f"-{answer}"
        yield WrongAnswer("sign flipped", flipped, knowing=not signed)
    if number == number.to_integral_value() and abs(number) < 10**9:
        part = Decimal("0.75") if number >= 0 else Decimal("-0.75")
        yield WrongAnswer(
            "with a fraction", _decimal_text(number + part), number != 0 and abs(part / number) <= NEAR_LABEL
        )
    digits = re.sub(r"\D", "", answer)
    if len(digits) >= 2 and number == number.to_integral_value():
        yield WrongAnswer("part of the number", answer.rstrip(answer[-1]) or digits[0])
        swapped = digits[::-1]
        if swapped != digits:
            yield WrongAnswer("digits swapped", swapped)
    yield WrongAnswer("off by one", _decimal_text(number - 1), near)
    if isinstance(raw, str):
        inside = [n for n in re.findall(r"\d+", raw.split("####")[0]) if n != digits]
        yield from (WrongAnswer("number of the working", n) for n in inside[-1:])


def _structures(answer: str, others: Sequence[str]) -> Iterator[WrongAnswer]:
    """Yield wrong answers for a JSON answer. `others` are tool calls of other tasks, which are added to a call."""
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return
    part = value[0] if isinstance(value, list) and value else value
    wrap = (lambda v: [v, *value[1:]]) if isinstance(value, list) else (lambda v: v)
    if isinstance(part, dict) and part:
        if _called(part) is not None:
            yield from (WrongAnswer(w.name, _dumped(wrap(json.loads(w.answer)))) for w in _calls(part))
        for key in list(part)[:3]:
            yield WrongAnswer("one value changed", _dumped(wrap({**part, key: _changed(part[key])})))
        key = next(iter(part))
        yield WrongAnswer("one key missing", _dumped(wrap({k: v for k, v in part.items() if k != key})))
        yield WrongAnswer("empty object", _dumped(wrap({})))
    elif isinstance(value, list) and value:
        yield WrongAnswer("one item missing", _dumped(value[1:]))
        yield WrongAnswer("one item changed", _dumped([_changed(value[0]), *value[1:]]))
    if isinstance(value, list) and len(value) > 1 and _called(part) is not None:
        yield WrongAnswer("one call missing", _dumped(value[:-1]))
    for other in others[:1]:
        more = _loaded(other)
        calls = [*(value if isinstance(value, list) else [value]), *(more if isinstance(more, list) else [more])]
        yield WrongAnswer("one call too many", _dumped(calls))


def _called(call: Any) -> tuple[str, str] | None:
    """Return the keys under which a tool call has its name and its arguments; None for any other value."""
    if not isinstance(call, dict):
        return None
    name = next((k for k in ("name", "tool", "tool_name", "function") if isinstance(call.get(k), str)), None)
    arguments = next((k for k in ("arguments", "args", "parameters") if isinstance(call.get(k), dict)), None)
    return (name, arguments) if name and arguments else None


def _calls(call: dict[str, Any]) -> Iterator[WrongAnswer]:
    """Yield wrong tool calls: another function, a wrong argument, a missing argument."""
    keys = _called(call)
    if keys is None:
        return
    name, held = keys
    arguments = call[held]
    yield WrongAnswer("other function", _dumped({**call, name: f"not_{call[name]}"}))
    for key in list(arguments)[:3]:
        yield WrongAnswer("wrong argument", _dumped({**call, held: {**arguments, key: _changed(arguments[key])}}))
    for key in list(arguments)[:1]:
        yield WrongAnswer("argument missing", _dumped({**call, held: {k: v for k, v in arguments.items() if k != key}}))


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _changed(value: Any) -> Any:
    """Return another JSON value of the same type; a list or object becomes a fixed one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"not {value}"
    return {"changed": True} if isinstance(value, Mapping) else ["changed"]


def _others(golds: SampleGolds, gold: TaskGold, form: int, chance: random.Random) -> Iterator[WrongAnswer]:
    others = sorted({g.form(form) for g in golds.golds} - set(gold.forms))
    if not others:
        yield WrongAnswer("nothing to do with it", "999999" if as_number(gold.form(form)) is not None else "zzyzx quux")
    yield from (WrongAnswer("gold of another task", other) for other in chance.sample(others, min(2, len(others))))


def as_number(text: str) -> Decimal | None:
    """Return the number that a text states; None if the text is not a number."""
    return gold_answers.number_in(text)


def _same_number(left: str, right: str) -> bool:
    number = as_number(left)
    return number is not None and number == as_number(right)


def _decimal_text(number: Decimal) -> str:
    return f"{number.normalize():f}" if number == number.to_integral_value() else f"{number:f}"


def _like(word: str, model: str) -> str:
    """Return `word` in upper case if `model` is, capitalised if `model` begins with a capital, else unchanged."""
    if model.isupper():
        return word.upper()
    return word.capitalize() if model[:1].isupper() else word


def half_right_answers(
    golds: SampleGolds, gold: TaskGold, form: int, prompt: str = "", instructions: str = ""
) -> list[WrongAnswer]:
    """Return answers that are partly right: part of the gold, the gold beside a wrong answer, or another unit.

    They may rightly earn part of the reward. `instructions` are the texts beside the prompt, which may demand an order.
    """
    if golds.fields:
        return list(_other_fields(golds, gold))
    answer = gold.form(form)
    others = sorted({g.form(form) for g in golds.golds} - set(gold.forms))
    halves: list[WrongAnswer] = []
    if golds.format in ("short_text", "label") and others:
        halves = [
            WrongAnswer("right and wrong", f"{answer} and {others[0]}", knowing=True),
            WrongAnswer("right or wrong", f"{others[-1]} or {answer}", knowing=True),
        ]
    parts = gold.parts
    if golds.format == "multi_answer" and len(parts) > 1 and answer != parts[0]:
        extra = next((p for g in golds.golds for p in g.parts if p not in parts), "zzyzx")
        changed = {"one item left out": parts[:-1], "one item too many": (*parts, extra)}
        if _ANY.search(prompt):
            del changed["one item left out"]
        for name, items in changed.items():
            joined = {", ".join(parts): ", ", "\n".join(parts): "\n"}.get(answer)
            halves.append(WrongAnswer(name, joined.join(items) if joined else _dumped(list(items))))
    if _DEMANDS_ORDER.search(f"{instructions}\n{prompt}"):
        halves += _other_order(golds, answer, parts, prompt)
    return [*halves, *_units(golds, gold, answer)]


def _other_order(golds: SampleGolds, answer: str, parts: Sequence[str], prompt: str) -> Iterator[WrongAnswer]:
    """Yield the right items, or the query for the right rows, in the other order.

    If the prompt holds all items, their order is all that is asked: `knowing` is then False.
    """
    if golds.format == "multi_answer" and len(set(parts)) > 1:
        joined = {", ".join(parts): ", ", "\n".join(parts): "\n"}.get(answer)
        backwards = list(parts[::-1])
        given = all(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", prompt, re.I) for part in parts)
        yield WrongAnswer(OTHER_ORDER, joined.join(backwards) if joined else _dumped(backwards), knowing=not given)
    elif _QUERY.match(answer) and (ordered := _ORDER_BY.search(answer)) is not None:
        keys = [_turned_key(key.strip()) for key in answer[ordered.end() :].strip().rstrip(";").split(",")]
        yield WrongAnswer(OTHER_ORDER, f"{answer[: ordered.end()]} {', '.join(keys)}", knowing=True)


def _turned_key(key: str) -> str:
    """Return a sort key of a query in the other direction."""
    plain = re.sub(r"(?i)\s+(?:asc|desc)\b", "", key)
    return plain if re.search(r"(?i)\bdesc\b", key) else f"{plain} DESC"


def _units(golds: SampleGolds, gold: TaskGold, answer: str) -> Iterator[WrongAnswer]:
    """Yield the right number with units of other tasks, or with another unit if all tasks have the same one."""

    def text(one: TaskGold) -> str:
        return gold_answers.gold_text(one.raw) if golds.bare is None else one.forms[0]

    measured = number_and_unit(text(gold))
    if measured is None:
        return
    number, unit = measured
    others = sorted({q[1] for g in golds.golds if (q := number_and_unit(text(g))) is not None} - {unit})
    for other in others[:2]:
        yield WrongAnswer("unit of another task", f"{number} {other}", unit=True)
    if not others:
        yield WrongAnswer("other unit", f"{number} {_OTHER_UNIT.get(unit, 'kg')}", unit=True)


def number_and_unit(answer: str) -> tuple[str, str] | None:
    """Return the number and the unit of an answer such as `1.5 kg`; None for any other text."""
    quantity = QUANTITY.fullmatch(answer.strip())
    return (quantity[1], quantity[2]) if quantity else None


def crossed_answers(golds: SampleGolds, form: int, pairs: int, seed: int = 0) -> list[tuple[TaskGold, str]]:
    """Return at most `pairs` random pairs (gold, answer of another task) whose answers are unrelated."""
    chance = random.Random(seed)
    crossed: list[tuple[TaskGold, str]] = []
    for _ in range(4 * pairs if len(golds.golds) > 1 else 0):
        one, other = chance.sample(golds.golds, 2)
        if len(crossed) < pairs and not _alike(one, other) and not _share_field(golds, one, other):
            crossed.append((one, other.form(form)))
    return crossed


def _alike(one: TaskGold, other: TaskGold) -> bool:
    """Whether one gold contains the other, or both are nearly the same number."""
    mine, theirs = ({f.strip().lower() for f in (*g.forms, *g.parts)} for g in (one, other))
    close = _close_numbers(one.form(0), other.form(0))
    return any(m in t or t in m for m in mine for t in theirs) or close


def _close_numbers(left: str, right: str) -> bool:
    """Whether two texts are numbers that differ by less than any usual tolerance."""
    one, other = as_number(left), as_number(right)
    return one is not None and other is not None and abs(one - other) <= NEAR_MEASUREMENT * abs(one)


def spread_over_answers(golds: SampleGolds, wanted: int, form: int, seed: int = 0) -> Sequence[TaskGold]:
    """Return a random sample of `wanted` golds, in which no answer occurs again before all other answers have
    occurred."""
    shuffled = list(golds.golds)
    random.Random(seed).shuffle(shuffled)
    classes: dict[str, list[TaskGold]] = {}
    for gold in shuffled:
        classes.setdefault(gold.form(form).strip().lower(), []).append(gold)
    picked: list[TaskGold] = []
    while len(picked) < min(wanted, len(shuffled)):
        for members in classes.values():
            if members and len(picked) < wanted:
                picked.append(members.pop())
    return picked
