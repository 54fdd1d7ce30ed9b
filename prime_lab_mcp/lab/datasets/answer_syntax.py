"""Predicates that recognise the format of a single answer by its syntax. There is one predicate for each format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from prime_lab_mcp.lab.datasets import golds

BOOLEANS = frozenset({"yes", "no", "true", "false"})
GOLD_LIST_FIELDS = ("text", "spans", "aliases", "value", "answers", "normalized_aliases")
"""Field names under which an object has a list of golds (SQuAD, DROP, TriviaQA)."""
_LETTER = re.compile(r"[\[(]?[A-Ja-j][\]).:]?")
_INT = re.compile(r"-?[0-9]{1,3}")
_TESTS = re.compile(r"(?m)^[ \t]*(?:assert\b|(?:async )?def (?:check|test)\w*\s*\(|class Test\w*\b|self\.assert\w+\()")
_IN_OUT = re.compile(r'"inputs?"\s*:.*"(?:expected_)?outputs?"\s*:|"fn_name"\s*:', re.S)
_LATEX = re.compile(r"\\[A-Za-z]+|\\[%${},;!]|[\^_]\{|\^[0-9]|[0-9A-Za-z)]\^")
_PLAIN_MATH = re.compile(r"[-+*/=<>≤≥.,:;()\[\]{}|!^_'%$\s0-9A-Za-zπ∞√°∪×·]{1,200}")
_OPERATION = re.compile(
    r"[0-9A-Za-z)\]]\s*[-+*/=<>^|]\s*[0-9A-Za-z(\[]|[(\[].*,.*[)\]]|[π∞√∪]|^-?[0-9.]+\s?[a-z]$"
    r"|^-?[0-9.]+(?:,\s*-?[0-9.]+)+$|^[0-9]+_[0-9]+$"  # several numbers; a number in another base
)
_WORD = re.compile(r"[A-Za-z]{3,}")
_CODE_NAME = re.compile(r"[A-Z]{1,3}-?[0-9]+[A-Za-z]?|[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}|[0-9]{1,2}:[0-9]{2}")
"""Matches identifiers (`U2`, `Q42`), dates and times. They contain digits but are not mathematics."""
_MOST_PARSED = 50_000


def parsed_json(text: str) -> Any:
    """Parse a JSON text of an object or list; None for any other text."""
    start = text.lstrip()[:1]
    if start not in ("{", "[") or len(text) > _MOST_PARSED:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def is_json(value: Any) -> bool:
    """Return whether a value is an object, a list, or the JSON text of one."""
    if isinstance(value, str):
        # The scan removes the middle of a long text, so only the ends of such a text can be checked.
        if len(value) > 12_000 and "… " in value[7_990:8_010]:
            return (value.lstrip()[:1], value.rstrip()[-1:]) in (("{", "}"), ("[", "]"))
        return parsed_json(value) is not None
    return isinstance(value, dict | list)


def is_tool_call(value: Any) -> bool:
    """Return whether a value is a tool call or a list of tool calls.

    Known layouts are `{name, arguments}`, OpenAI's `{function: {name, arguments}}`, and BFCL's `{f: {arg: [ok]}}`.
    """
    if isinstance(value, str):
        value = parsed_json(value)
    items = value if isinstance(value, list) else [value]
    return bool(items) and all(isinstance(item, Mapping) and _is_call(item) for item in items)


def _is_call(item: Mapping[str, Any]) -> bool:
    if isinstance(item.get("function"), Mapping):
        item = item["function"]
    if isinstance(item.get("name"), str):
        arguments = item.get("arguments", item.get("parameters"))
        return isinstance(arguments, Mapping) or (
            isinstance(arguments, str) and isinstance(parsed_json(arguments or "{}"), dict)
        )
    return len(item) == 1 and all(
        isinstance(v, Mapping) and all(isinstance(accepted, list) for accepted in v.values()) for v in item.values()
    )


def is_tests(value: Any) -> bool:
    """Return whether a value contains tests of code.

    Tests are assertions, `def check(candidate)`, or inputs with outputs (APPS, LiveCodeBench, Codeforces).
    """
    if isinstance(value, str):
        if _TESTS.search(value[:20_000]) is not None:
            return True
        return value.lstrip()[:1] in ("{", "[") and _IN_OUT.search(value[:20_000]) is not None and is_json(value)
    if isinstance(value, list):
        return bool(value) and all(_is_case(v) if isinstance(v, Mapping) else is_assert(v) for v in value)
    if isinstance(value, Mapping):
        return _is_pairs(value) or any(_is_pairs(v) or is_tests_list(v) for v in value.values())
    return False


def is_assert(value: Any) -> bool:
    """Return whether a value is a text with an assertion or a test function."""
    return isinstance(value, str) and _TESTS.search(value[:20_000]) is not None


def is_tests_list(value: Any) -> bool:
    """Return whether a value is a list of cases with input and expected output."""
    return isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) and _is_case(v) for v in value)


def _is_case(value: Mapping[str, Any]) -> bool:
    return "input" in value and bool({"output", "expected_output", "expected"} & set(value))


def _is_pairs(value: Any) -> bool:
    return isinstance(value, Mapping) and any(
        isinstance(value.get(i), list) and isinstance(value.get(o), list)
        for i, o in (("inputs", "outputs"), ("input", "output"))
    )


def several_golds(value: Any) -> list[Any] | None:
    """Return the golds of an answer with several golds; None for any other answer.

    Such an answer is a list of texts, or an object with such a list (`text`, `aliases`).
    """
    if isinstance(value, Mapping):
        value = next((value[k] for k in GOLD_LIST_FIELDS if isinstance(value.get(k), list)), None)
    if not isinstance(value, list) or not value:
        return None
    scalars = all(isinstance(v, str | int | float) for v in value)
    return value if scalars and any(isinstance(v, str) for v in value) else None


def is_multi(value: Any) -> bool:
    """Return whether an answer has several golds."""
    return several_golds(value) is not None


def is_bit(value: Any) -> bool:
    """Return whether a value is 0 or 1, as a number or as text."""
    return not isinstance(value, bool) and isinstance(value, int | str) and str(value).strip() in ("0", "1")


def is_boolean(value: Any) -> bool:
    """Return whether a value is a boolean, or the text or number yes, no, true, false, 0 or 1."""
    if isinstance(value, bool):
        return True
    return (isinstance(value, str) and value.strip().lower() in BOOLEANS) or is_bit(value)


def is_letter(value: Any) -> bool:
    """Return whether a value is one letter from A to J, with or without brackets."""
    return isinstance(value, str) and _LETTER.fullmatch(value.strip()) is not None


def is_small_int(value: Any) -> bool:
    """Return whether a value is an integer of at most three digits, as a number or as text."""
    if isinstance(value, str):
        return _INT.fullmatch(value.strip()) is not None
    return isinstance(value, int) and not isinstance(value, bool) and -1000 < value < 1000


def is_hash(value: Any) -> bool:
    """Return whether a value is a worked solution that ends in a number: after `####`, as in GSM8K, or as the answer
    that the last sentence states."""
    return isinstance(value, str) and golds.number_text(golds.worked_answer(value)) is not None


def closes_with_number(value: Any) -> bool:
    """Return whether a value is a worked solution as in `is_hash`, or one whose last sentence holds one number."""
    return isinstance(value, str) and golds.number_text(golds.closing_number(value)) is not None


def is_boxed(value: Any) -> bool:
    r"""Return whether a value is a text with a \boxed{...} whose braces balance."""
    return isinstance(value, str) and golds.boxed_content(value) is not None


def is_numeric(value: Any) -> bool:
    """Return whether an answer states exactly one number."""
    return golds.number_in(value) is not None


def is_latex(value: Any) -> bool:
    """Return whether a value is mathematics: LaTeX, or a short text of digits, letters and operators without words."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return True
    if not isinstance(value, str) or not value.strip() or len(value) > 400:
        return False
    text = value.strip()
    if _LATEX.search(text):
        return True
    if golds.number_in(text) is not None:
        return True
    if _CODE_NAME.fullmatch(text) or _PLAIN_MATH.fullmatch(text) is None or _WORD.search(text) is not None:
        return False
    return len(text) == 1 or _OPERATION.search(text) is not None


def is_plainly_latex(value: Any) -> bool:
    """Return whether a value is mathematics and not just a number or a single letter."""
    return isinstance(value, str) and is_latex(value) and golds.number_in(value) is None and len(value.strip()) > 1


def fits_procedure(value: Any) -> bool:
    """Return whether a value has a target number and the numbers from which to compute it (Countdown)."""
    return isinstance(value, Mapping) and "target" in value and bool({"nums", "numbers"} & set(value))
