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


@dataclass(frozen=True, slots=True)
class Wrong:
    """`near`: close enough to the gold that a tolerance could accept it."""

    name: str
    answer: str
    near: bool = False


def wrong_answers(golds: Golds, gold: Gold, form: int, seed: int = 0) -> list[Wrong]:
    """At most eleven distinct wrong answers for one gold, none of them an accepted way to say it."""
    said = gold.form(form)
    right = {f.strip().lower() for f in gold.forms}
    if isinstance(gold.raw, list):
        right |= {str(r).strip().lower() for r in gold.raw}
    found: dict[str, Wrong] = {}
    for wrong in _wrong(golds, gold, said, form, random.Random(seed + gold.row)):
        if wrong.answer.strip().lower() not in right and not _same_number(wrong.answer, said):
            found.setdefault(wrong.answer, wrong)
    return list(found.values())[:11]


def _wrong(golds: Golds, gold: Gold, said: str, form: int, chance: random.Random) -> Iterator[Wrong]:
    number = as_number(said)
    if number is not None and golds.format in ("gsm8k_hash", "numeric", "boxed", "latex_math", "class_id"):
        yield from _numbers(said, number, gold.raw)
    elif golds.format == "boolean":
        yield Wrong("negation", _like(_OPPOSITE.get(said.strip().lower(), "no"), said))
    elif golds.format in ("choice_letter", "choice_index") and re.fullmatch(r"[A-Za-z]", said.strip()):
        letters = sorted({g.form(form) for g in golds.golds} | {"A", "B", "C", "D"})
        yield from (Wrong("other letter", letter) for letter in letters)
    elif golds.format in ("json", "tool_call"):
        yield from _structures(said)
    elif golds.format in ("short_text", "multi_answer", "label"):
        yield from (Wrong("other label", label) for label in golds.labels)
        yield Wrong("negated", f"not {said}")
    elif golds.format in ("latex_math", "boxed"):
        yield Wrong("changed", f"{said}+1")
    yield from _others(golds, gold, form, chance)


def _numbers(said: str, number: Decimal, raw: Any) -> Iterator[Wrong]:
    near = number != 0 and abs(1 / number) <= NEAR
    yield Wrong("off by one", _plain(number + 1), near)
    yield Wrong("longer number", f"-1{said.lstrip('-−')}" if number < 0 else f"1{said}")
    yield Wrong("ten times", _plain(number * 10))
    if number != 0:
        yield Wrong("sign flipped", _plain(-number))
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


def _structures(said: str) -> Iterator[Wrong]:
    try:
        value = json.loads(said)
    except ValueError:
        return
    part = value[0] if isinstance(value, list) and value else value
    if isinstance(part, dict) and part:
        key = next(iter(part))
        less = {k: v for k, v in part.items() if k != key}
        other = {**part, key: _changed(part[key])}
        wrap = (lambda v: [v, *value[1:]]) if isinstance(value, list) else (lambda v: v)
        yield Wrong("one value changed", json.dumps(wrap(other), ensure_ascii=False))
        yield Wrong("one key missing", json.dumps(wrap(less), ensure_ascii=False))
    elif isinstance(value, list) and value:
        yield Wrong("one item missing", json.dumps(value[1:], ensure_ascii=False))
        yield Wrong("one item changed", json.dumps([_changed(value[0]), *value[1:]], ensure_ascii=False))


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


def equivalents(golds: Golds, said: str) -> list[tuple[str, str]]:
    """(name, answer): other spellings of the same answer (facts: validation 2.3)."""
    number = as_number(said)
    if golds.format in ("gsm8k_hash", "numeric", "boxed") and number is not None:
        found = [("spaces", f" {said} "), ("full stop", f"{said}.")]
        if number == number.to_integral_value():
            found.append(("decimal", f"{int(number)}.0"))
            if abs(number) >= 1000:
                found.append(("thousands comma", f"{int(number):,}"))
        return found
    if golds.format in ("boolean", "label"):
        return [("upper case", said.upper()), ("capital", said.capitalize()), ("full stop", f"{said}.")]
    if golds.format in ("choice_letter", "choice_index") and len(said) == 1:
        return [("lower case", said.lower()), ("parentheses", f"({said})"), ("full stop", f"{said}.")]
    if golds.format in ("short_text", "multi_answer"):
        return [("lower case", said.lower()), ("full stop", f"{said}."), ("spaces", f" {said} ")]
    return []


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
