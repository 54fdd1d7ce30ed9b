"""Plausible wrong answers for each answer format: what a model that is nearly right, or that games a matcher, says."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from prime_lab_mcp.lab.datasets import golds as values
from prime_lab_mcp.lab.rewards.gold import Gold, Golds

NEAR = Decimal("0.02")
"""A relative difference below which a reward with a stated tolerance may rightly pay."""
_OPPOSITE = {"yes": "no", "no": "yes", "true": "false", "false": "true"}

_ANY = re.compile(r"(?i)\b(any|either|one of|an? example|name an?|at least one)\b")
"""Words of a prompt that asks for one of several right answers."""

OTHER_UNIT = "other unit"
UNITLESS = "no unit"
_OTHER_UNIT = {"kg": "g", "km": "m", "m": "km", "g": "mg", "h": "s"}
_QUANTITY = re.compile(r"([-+]?[0-9][0-9,]*(?:\.[0-9]+)?) ?([A-Za-z\u00b5\u00b0%]{1,12}(?:/[A-Za-z]{1,6})?)")


@dataclass(frozen=True, slots=True)
class Wrong:
    """`near`: close enough to the gold that a tolerance could accept it."""

    name: str
    answer: str
    near: bool = False


MOST = 13
"""Wrong answers per gold."""


def wrong_answers(golds: Golds, gold: Gold, form: int, seed: int = 0, options: Sequence[str] = ()) -> list[Wrong]:
    """At most `MOST` distinct wrong answers for one gold, none of them an accepted way to say it.

    `options` are the texts that the task offers, if any.
    """
    said = gold.form(form)
    right = {f.strip().lower() for f in gold.forms}
    if isinstance(gold.raw, list):
        right |= {str(r).strip().lower() for r in gold.raw}
    found: dict[str, Wrong] = {}
    for wrong in _wrong(golds, gold, said, form, random.Random(seed + gold.row), options):
        if wrong.answer.strip().lower() not in right and not _same_number(wrong.answer, said):
            found.setdefault(wrong.answer, wrong)
    return list(found.values())[:MOST]


def _wrong(
    golds: Golds, gold: Gold, said: str, form: int, chance: random.Random, options: Sequence[str]
) -> Iterator[Wrong]:
    number = as_number(said)
    others = list(_others(golds, gold, form, chance))
    if number is not None and golds.format in ("gsm8k_hash", "numeric", "boxed", "latex_math", "class_id"):
        yield from _numbers(said, number, gold.raw)
    elif golds.format == "boolean":
        yield Wrong("negation", _like(_OPPOSITE.get(said.strip().lower(), "no"), said))
        yield Wrong("denied", f"not {said}")
    elif golds.format in ("choice_letter", "choice_index") and re.fullmatch(r"[A-Za-z]", said.strip()):
        letters = sorted({g.form(form) for g in golds.golds} | set("ABCD" if said.isupper() else "abcd"))
        yield from (Wrong("other letter", letter) for letter in letters)
        other = next(letter for letter in letters if letter.lower() != said.lower())
        yield Wrong("two letters", f"{said}{other}")
        yield Wrong("two letters", f"{other}{said}")
    elif golds.format in ("choice_letter", "choice_index"):
        yield from (Wrong("other option", option) for option in options)
    elif golds.format in ("json", "tool_call"):
        yield from _structures(said, [other.answer for other in others] if golds.format == "tool_call" else [])
    elif golds.format in ("short_text", "multi_answer", "label"):
        yield from _texts(golds, said, chance)
    elif golds.format in ("latex_math", "boxed"):
        yield from _maths(said)
    yield from others


def _texts(golds: Golds, said: str, chance: random.Random) -> Iterator[Wrong]:
    yield Wrong("negated", f"not {said}")
    if said.isascii() and said[-1:].isalpha():
        yield Wrong("longer word", f"{said}son")
    if golds.format == "label":
        if len(said) >= 6:
            yield Wrong("shortened label", said[:-2])
        labels = list(golds.labels)
        # Those that begin alike are the ones a careless comparison mixes up.
        alike = [label for label in labels if label.startswith(said[:3]) or said.startswith(label[:3])]
        rest = [label for label in labels if label not in alike]
        yield from (Wrong("other label", label) for label in [*alike, *chance.sample(rest, len(rest))])


def _maths(said: str) -> Iterator[Wrong]:
    yield Wrong("changed", f"{said}+1")
    if re.search(r"[,;=]|\\\{|\\pm", said):
        return  # a list, a set, an equation: its negative may be the same
    yield Wrong("sign flipped", said[1:] if said.startswith("-") else f"-({said})")
    yield Wrong("inverse", f"\\frac{{1}}{{{said}}}")


def _numbers(said: str, number: Decimal, raw: Any) -> Iterator[Wrong]:
    near = number != 0 and abs(1 / number) <= NEAR
    yield Wrong("off by one", _plain(number + 1), near)
    yield Wrong("longer number", f"-1{said.lstrip('-−')}" if number < 0 else f"1{said}")
    yield Wrong("ten times", _plain(number * 10))
    if number == number.to_integral_value() and abs(number) >= 10:
        yield Wrong("a tenth more", _plain((number * Decimal("1.1")).to_integral_value()))
    if number != 0:
        yield Wrong("sign flipped", _plain(-number))
    if number == number.to_integral_value() and abs(number) < 10**9:
        part = Decimal("0.75") if number >= 0 else Decimal("-0.75")
        yield Wrong("with a fraction", _plain(number + part), number != 0 and abs(part / number) <= NEAR)
    digits = re.sub(r"\D", "", said)
    if len(digits) >= 2 and number == number.to_integral_value():
        yield Wrong("part of the number", said.rstrip(said[-1]) or digits[0])
        swapped = digits[::-1]
        if swapped != digits:
            yield Wrong("digits swapped", swapped)
    yield Wrong("off by one", _plain(number - 1), near)
    if isinstance(raw, str):
        inside = [n for n in re.findall(r"\d+", raw.split("####")[0]) if n != digits]
        yield from (Wrong("number of the working", n) for n in inside[-1:])


def _structures(said: str, others: Sequence[str]) -> Iterator[Wrong]:
    """`others`: tool calls of other tasks."""
    try:
        value = json.loads(said)
    except (ValueError, RecursionError):
        return
    part = value[0] if isinstance(value, list) and value else value
    wrap = (lambda v: [v, *value[1:]]) if isinstance(value, list) else (lambda v: v)
    if isinstance(part, dict) and part:
        if _called(part) is not None:
            yield from (Wrong(w.name, _dumped(wrap(json.loads(w.answer)))) for w in _calls(part))
        for key in list(part)[:3]:
            yield Wrong("one value changed", _dumped(wrap({**part, key: _changed(part[key])})))
        key = next(iter(part))
        yield Wrong("one key missing", _dumped(wrap({k: v for k, v in part.items() if k != key})))
        yield Wrong("empty object", _dumped(wrap({})))
    elif isinstance(value, list) and value:
        yield Wrong("one item missing", _dumped(value[1:]))
        yield Wrong("one item changed", _dumped([_changed(value[0]), *value[1:]]))
    if isinstance(value, list) and len(value) > 1 and _called(part) is not None:
        yield Wrong("one call missing", _dumped(value[:-1]))
    for other in others[:1]:
        more = _loaded(other)
        calls = [*(value if isinstance(value, list) else [value]), *(more if isinstance(more, list) else [more])]
        yield Wrong("one call too many", _dumped(calls))


def _called(call: Any) -> tuple[str, str] | None:
    """The keys under which a tool call holds its name and its arguments."""
    if not isinstance(call, dict):
        return None
    name = next((k for k in ("name", "tool", "tool_name", "function") if isinstance(call.get(k), str)), None)
    arguments = next((k for k in ("arguments", "args", "parameters") if isinstance(call.get(k), dict)), None)
    return (name, arguments) if name and arguments else None


def _calls(call: dict[str, Any]) -> Iterator[Wrong]:
    keys = _called(call)
    if keys is None:
        return
    name, held = keys
    arguments = call[held]
    yield Wrong("other function", _dumped({**call, name: f"not_{call[name]}"}))
    for key in list(arguments)[:3]:
        yield Wrong("wrong argument", _dumped({**call, held: {**arguments, key: _changed(arguments[key])}}))
    for key in list(arguments)[:1]:
        yield Wrong("argument missing", _dumped({**call, held: {k: v for k, v in arguments.items() if k != key}}))


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"not {value}"
    return {"changed": True} if isinstance(value, Mapping) else ["changed"]


def _others(golds: Golds, gold: Gold, form: int, chance: random.Random) -> Iterator[Wrong]:
    others = sorted({g.form(form) for g in golds.golds} - set(gold.forms))
    if not others:
        yield Wrong("nothing to do with it", "999999" if as_number(gold.form(form)) is not None else "zzyzx quux")
    yield from (Wrong("gold of another task", other) for other in chance.sample(others, min(2, len(others))))


def as_number(text: str) -> Decimal | None:
    """The number that a text is; None for anything else."""
    return values.number(text)


def _same_number(left: str, right: str) -> bool:
    number = as_number(left)
    return number is not None and number == as_number(right)


def _plain(number: Decimal) -> str:
    return f"{number.normalize():f}" if number == number.to_integral_value() else f"{number:f}"


def _like(word: str, model: str) -> str:
    """`word` in the case of `model`."""
    if model.isupper():
        return word.upper()
    return word.capitalize() if model[:1].isupper() else word


def half_right(golds: Golds, gold: Gold, form: int, prompt: str = "") -> list[Wrong]:
    """Answers that hold the right one beside another, or a part of it: partial credit may pay them, never in full."""
    said = gold.form(form)
    others = sorted({g.form(form) for g in golds.golds} - set(gold.forms))
    found: list[Wrong] = []
    if golds.format in ("short_text", "label") and others:
        found = [
            Wrong("right and wrong", f"{said} and {others[0]}"),
            Wrong("right or wrong", f"{others[-1]} or {said}"),
        ]
    parts = gold.parts
    if golds.format == "multi_answer" and len(parts) > 1 and said != parts[0]:
        stranger = next((p for g in golds.golds for p in g.parts if p not in parts), "zzyzx")
        changed = {"one item left out": parts[:-1], "one item too many": (*parts, stranger)}
        if _ANY.search(prompt):
            del changed["one item left out"]
        for name, items in changed.items():
            joined = {", ".join(parts): ", ", "\n".join(parts): "\n"}.get(said)
            found.append(Wrong(name, joined.join(items) if joined else _dumped(list(items))))
    return [*found, *_units(golds, gold, said)]


def _units(golds: Golds, gold: Gold, said: str) -> Iterator[Wrong]:
    """The number with the unit of another task; where all have the same, with one that none has."""
    measured = quantity(values.as_text(gold.raw))
    if measured is None:
        return
    number, unit = measured
    others = sorted({q[1] for g in golds.golds if (q := quantity(values.as_text(g.raw))) is not None} - {unit})
    for other in others[:2]:
        yield Wrong("unit of another task", f"{number} {other}")
    if not others and quantity(said) is not None:
        yield Wrong(OTHER_UNIT, f"{number} {_OTHER_UNIT.get(unit, 'kg')}")


def quantity(said: str) -> tuple[str, str] | None:
    """Number and unit of an answer such as `1.5 kg`."""
    found = _QUANTITY.fullmatch(said.strip())
    return (found[1], found[2]) if found else None


def cross(golds: Golds, form: int, pairs: int, seed: int = 0) -> list[tuple[Gold, str]]:
    """(gold, answer of another task) for as many pairs of tasks whose answers have nothing in common."""
    chance = random.Random(seed)
    found: list[tuple[Gold, str]] = []
    for _ in range(4 * pairs if len(golds.golds) > 1 else 0):
        one, other = chance.sample(golds.golds, 2)
        if len(found) < pairs and not _alike(one, other):
            found.append((one, other.form(form)))
    return found


def _alike(one: Gold, other: Gold) -> bool:
    mine, theirs = ({f.strip().lower() for f in (*g.forms, *g.parts)} for g in (one, other))
    return any(m in t or t in m for m in mine for t in theirs) or _same_number(one.form(0), other.form(0))


def spread(golds: Golds, wanted: int, form: int, seed: int = 0) -> Sequence[Gold]:
    """A seeded sample that covers every answer class before it repeats one."""
    shuffled = list(golds.golds)
    random.Random(seed).shuffle(shuffled)
    classes: dict[str, list[Gold]] = {}
    for gold in shuffled:
        classes.setdefault(gold.form(form).strip().lower(), []).append(gold)
    picked: list[Gold] = []
    while len(picked) < min(wanted, len(shuffled)):
        for members in classes.values():
            if members and len(picked) < wanted:
                picked.append(members.pop())
    return picked
