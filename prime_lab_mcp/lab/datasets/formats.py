"""In which form the answers of a dataset are, by rules in order (facts/validation 1.3).

Most rules look at one value; a few need the whole column. A form is accepted when 95 % of the answers that are there
have it; between 60 and 95 % the column is mixed, and no one parser can be right for it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prime_lab_mcp.lab.datasets import golds

Format = Literal[
    "gsm8k_hash", "boxed", "latex_math", "numeric", "boolean", "choice_letter", "choice_index", "class_id", "label",
    "multi_answer", "short_text", "json", "code_tests", "tool_call", "instruction_constraints", "chat_messages",
    "free_text", "procedural",
]  # fmt: skip
ACCEPT = 0.95
"""Share of the non-empty answers that must have a form (facts/validation 1.3)."""
MIXED = 0.60
NUMERIC: frozenset[str] = frozenset({"gsm8k_hash", "numeric"})
CLASSES: frozenset[str] = frozenset({"boolean", "choice_letter", "choice_index", "class_id", "label"})

_LETTER = re.compile(r"\(?[A-Ja-j][).]?")
_BOOLEANS = frozenset({"yes", "no", "true", "false"})
_ASSERT = re.compile(r"\s*(?:assert\b|def check\()")
_LATEX = re.compile(r"\\[A-Za-z]+|[\^_]\{|\^[0-9]|[0-9A-Za-z)]\^")
_PLAIN_MATH = re.compile(r"[-+*/=<>≤≥.,:;()\[\]{}|!^_\s0-9A-Za-zπ∞√]{1,200}")
_WORD = re.compile(r"[A-Za-z]{3,}")
_CLASS_NAME = re.compile(r"(?i)label|class|category|target|sentiment|intent|topic|stars|rating")
_INLINE = re.compile(r"(?:^|\s)[(]?[A-D][).:]\s*\S.*?(?:^|\s)[(]?[B-E][).:]\s*\S", re.S)


@dataclass(frozen=True, slots=True)
class Context:
    """What stands beside an answer column and decides between forms."""

    column: str = "answer"
    class_names: tuple[str, ...] | None = None
    """Names of a ClassLabel column; None when it is none."""
    options: tuple[int, ...] = ()
    """Number of options of each row, where rows have any."""
    inline_options: bool = False


@dataclass(frozen=True, slots=True)
class Recognised:
    """`format` holds for the share `confidence` of the non-empty answers; `counterexamples` are row and value."""

    format: Format
    confidence: float
    counterexamples: tuple[tuple[int, Any], ...] = ()
    mixed: bool = False
    index_base: int | None = None
    also: tuple[tuple[str, float], ...] = ()
    """Other forms seen and their shares, when mixed."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One form; `applies` says whether the column could have it at all, `accepts` whether one value has it."""

    format: Format
    accepts: Callable[[Any], bool]
    applies: Callable[[Sequence[Any], Context], bool] = lambda values, context: True


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return True
    if not (isinstance(value, str) and value.lstrip()[:1] in ("{", "[")):
        return False
    try:
        return isinstance(json.loads(value), dict | list)
    except (ValueError, RecursionError):
        return False


def _is_tool_call(value: Any) -> bool:
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.lstrip()[:1] in ("{", "[") else None
        except (ValueError, RecursionError):
            return False
    items = value if isinstance(value, list) else [value]
    return bool(items) and all(
        isinstance(i, dict)
        and (
            {"name", "arguments"} <= set(i)
            or (
                len(i) == 1
                and all(isinstance(v, dict) and all(isinstance(a, list) for a in v.values()) for v in i.values())
            )
        )
        for i in items
    )


def _is_tests(value: Any) -> bool:
    items = value if isinstance(value, list) else [value]
    if isinstance(value, dict):
        return {"inputs", "outputs"} <= set(value)
    return bool(items) and all(isinstance(i, str) and _ASSERT.match(i) is not None for i in items)


def is_chat(value: Any) -> bool:
    """True for a list of messages with role and content."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(m, Mapping) and {"role", "content"} <= set(m) for m in value)
    )


def _is_multi(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = next((value[k] for k in ("text", "spans", "aliases") if isinstance(value.get(k), list)), None)
    return isinstance(value, list) and bool(value) and all(isinstance(v, str | int | float) for v in value)


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and value.strip().lower() in _BOOLEANS) or _bit(value)


def _bit(value: Any) -> bool:
    return not isinstance(value, bool) and str(value).strip() in ("0", "1")


def _could_be_boolean(values: Sequence[Any], context: Context) -> bool:
    bits = {str(v).strip() for v in values if _bit(v)}
    if not bits:
        return True
    if context.options:
        return False  # two options counted from 0
    return context.class_names is None and bits == {"0", "1"} and not _CLASS_NAME.search(context.column)


def _small_int(value: Any) -> bool:
    return not isinstance(value, bool) and re.fullmatch(r"-?[0-9]{1,3}", str(value).strip()) is not None


def _has_options(values: Sequence[Any], context: Context) -> bool:
    return bool(context.options) or context.inline_options


def _could_be_index(values: Sequence[Any], context: Context) -> bool:
    found = [int(str(v)) for v in values if _small_int(v)]
    return bool(context.options and found) and min(found) >= 0 and max(found) <= max(context.options)


def _could_be_class(values: Sequence[Any], context: Context) -> bool:
    if context.class_names is not None:
        return True
    kinds = {int(str(v)) for v in values if _small_int(v)}
    if len(kinds) > 50 or len(values) < 2 * len(kinds):
        return False
    named = _CLASS_NAME.search(context.column) is not None
    return named or (
        len(values) >= 200 and len(kinds) <= 10 and kinds <= set(range(-1, 11)) and len(kinds) < 0.02 * len(values)
    )


def _is_latex(value: Any) -> bool:
    if not isinstance(value, str) or not value.strip() or len(value) > 400:
        return False
    text = value.strip()
    if _LATEX.search(text):
        return True
    bare = re.sub(r"\\[A-Za-z]+", " ", text)
    has_math = re.search(r"[0-9π∞√]|^[A-Za-z]$", text) is not None
    return has_math and _PLAIN_MATH.fullmatch(text) is not None and _WORD.search(bare) is None


RULES: tuple[Rule, ...] = (
    Rule("tool_call", _is_tool_call),
    Rule("code_tests", _is_tests),
    Rule("chat_messages", is_chat),
    Rule("multi_answer", _is_multi),
    Rule("gsm8k_hash", lambda v: isinstance(v, str) and golds.number(golds.after_hash(v)) is not None),
    Rule("boxed", lambda v: isinstance(v, str) and golds.boxed(v) is not None),
    Rule("boolean", _is_boolean, _could_be_boolean),
    Rule("choice_letter", lambda v: isinstance(v, str) and _LETTER.fullmatch(v.strip()) is not None, _has_options),
    Rule("choice_index", _small_int, _could_be_index),
    Rule("class_id", _small_int, _could_be_class),
    Rule("numeric", lambda v: golds.number(v) is not None),
    Rule("json", _is_json),
    Rule("latex_math", _is_latex, lambda values, context: any(re.search(r"[0-9\\]", str(v)) for v in values)),
)  # fmt: skip
_ACCEPTS: Mapping[str, Callable[[Any], bool]] = {rule.format: rule.accepts for rule in RULES}


def accepts(format: str, value: Any) -> bool:
    """Whether one answer has a form. Forms that only a whole column has (label, short_text, free_text) take all."""
    test = _ACCEPTS.get(format)
    return True if test is None else test(value)


def recognise(values: Sequence[tuple[int, Any]], context: Context | None = None) -> Recognised | None:
    """The form of a column given as (row, value). None when it holds no answer at all."""
    context = context or Context()
    known = [(row, value) for row, value in values if not golds.is_empty(value)]
    if not known:
        return None
    only = [value for _, value in known]
    shares: list[tuple[Rule, float]] = []
    for rule in RULES:
        if not rule.applies(only, context):
            continue
        share = sum(map(rule.accepts, only)) / len(only)
        if share >= ACCEPT:
            return _recognised(rule, share, known, context)
        shares.append((rule, share))
    best = max(shares, key=lambda entry: entry[1])
    if best[1] >= MIXED and not _label_like(only):
        also = tuple((r.format, round(s, 3)) for r, s in shares if s >= 0.02 and r is not best[0])
        return _recognised(best[0], best[1], known, context, mixed=True, also=also)
    return Recognised(_by_length(only), 1.0 if _label_like(only) else 0.8)


def _recognised(
    rule: Rule,
    share: float,
    known: Sequence[tuple[int, Any]],
    context: Context,
    *,
    mixed: bool = False,
    also: tuple[tuple[str, float], ...] = (),
) -> Recognised:
    against = [(row, value) for row, value in known if not rule.accepts(value)][:5]
    base = _index_base([value for _, value in known], context) if rule.format == "choice_index" else None
    return Recognised(rule.format, round(share, 4), tuple(against), mixed, base, also)


def _index_base(values: Sequence[Any], context: Context) -> int:
    found = {int(str(v)) for v in values if _small_int(v)}
    return 1 if 0 not in found and max(found) == max(context.options) else 0


def _label_like(values: Sequence[Any]) -> bool:
    texts = [golds.as_text(v).strip() for v in values]
    kinds = Counter(texts)
    few = len(kinds) <= 20 or len(kinds) < 0.02 * len(texts)
    return few and len(texts) >= 2 * len(kinds) and all(len(k.split()) <= 4 for k in kinds)


def _by_length(values: Sequence[Any]) -> Format:
    if _label_like(values):
        return "label"
    words = sorted(len(golds.as_text(v).split()) for v in values)
    median, high = words[len(words) // 2], words[int(0.95 * (len(words) - 1))]
    return "short_text" if median <= 5 and high <= 12 else "free_text"


def has_inline_options(prompts: Sequence[str]) -> bool:
    """Most prompts list lettered options themselves."""
    return bool(prompts) and sum(_INLINE.search(p[:4000]) is not None for p in prompts) >= 0.5 * len(prompts)
