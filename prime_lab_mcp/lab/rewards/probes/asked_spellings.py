"""Writes a right answer as the prompt demands: with so many decimals, in capitals, as `DD/MM/YYYY`, with Z for UTC.

Only demands that a pattern recognises without doubt are followed, because a reward that does not pay such an answer
contradicts its prompt.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal

from prime_lab_mcp.lab.rewards.probes.asked_dates import asked_date

_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_DECIMALS = re.compile(
    r"(?i)\b(?:with|to|using|exactly|has|have)\s+(?:exactly\s+)?(one|two|three|four|five|six|[1-6])\s+"
    r"(?:decimals?\b|decimal\s+(?:places?|digits?)\b|digits?\s+after\s+the\s+(?:decimal\s+)?point\b)"
)
_REPLY = r"\b(?:answer|reply|respond|write|give|put|word|name|entry|label|code|city|value)\w*\b[^.\n]{0,60}?"
_CAPITALS = re.compile(rf"(?i){_REPLY}\bin\s+(?:all\s+)?(?:capitals|capital\s+letters|upper[\s-]?case)\b")
_LOWER = re.compile(rf"(?i){_REPLY}\bin\s+(?:all\s+)?(?:lower[\s-]?case|small\s+letters)\b")
_COMMAS = re.compile(
    r"(?i)\b(?:with|use|using)\b[^.\n]{0,25}\b(?:thousands?[- ]separators?|commas? (?:as|for|between) (?:the )?"
    r"thousands?|separators? (?:for|between) (?:the )?thousands)\b(?:[^\n]{0,40}?|[^.]{0,90}?:\s+[^\n]{0,40}?)"
    r"\d,\d{3}"
)
"""The demand of thousands separators. An example that has one follows, also on a line of its own behind a colon."""
_DECIMAL_COMMA = re.compile(
    r"(?i)\bdecimal commas?\b|\bdezimalkomma\b|\bcommas? (?:as|for|before|in place of) (?:the |a )?decimals?\b"
)
_ZULU = re.compile(r"\b(?:UTC|GMT)\b[^.\n]{0,40}?\bZ\b|\bZ\b[^.\n]{0,40}?\b(?:UTC|GMT)\b")
_DENIED = re.compile(
    r"(?i)\b(?:not?|never|without|don't|instead|rather|avoid|any|either|ignor\w+|up\s+to|at\s+(?:most|least))\b"
)
_UTC_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?)[+-]00:?00")
_WORDS = re.compile(r"[^\W\d_]+(?:[ ,.'-]+[^\W\d_]+)*")
_DECIMAL = re.compile(r"-?\d+\.\d+")


@dataclass(frozen=True, slots=True)
class AskedSpelling:
    """An answer as the prompt demands it. `name` says what the prompt demands."""

    name: str
    answer: str


JSON_TYPES = "the JSON types that the prompt asks for"
"""The name of an answer whose texts are numbers or booleans where the prompt asks for these."""
_TYPED = (
    r"[\"'`]?{key}[\"'`]?\s*[:(=-]\s*[<(\"']?(?:an?\s+)?(?:json\s+)?(number|integer|int|float|decimal|boolean|bool)\b"
)


def asked_spelling(prompt: str, answer: str) -> AskedSpelling | None:
    """Return the answer as the prompt demands it; None if the answer is written so, or if nothing is demanded.

    `prompt` includes the system message.
    """
    typed = _with_types(prompt, answer)
    if typed:
        return AskedSpelling(JSON_TYPES, typed)
    dated = asked_date(prompt, answer)
    if dated is not None:
        return AskedSpelling(*dated)
    for name, pattern, rewritten in _DEMANDS:
        match = pattern.search(prompt)
        if match is None or _DENIED.search(prompt[max(0, match.start() - 30) : match.end()]):
            continue
        text = rewritten(answer, match)
        if text and text != answer:
            return AskedSpelling(name, text)
    return None


def _with_decimals(answer: str, demand: re.Match[str]) -> str:
    """Return a decimal number with the demanded number of decimals; empty if the rounding is not certain."""
    if not _DECIMAL.fullmatch(answer):
        return ""
    unit = Decimal(1).scaleb(-(_NUMBERS.get(demand[1].lower()) or int(demand[1])))
    up, down = (Decimal(answer).quantize(unit, mode) for mode in (ROUND_HALF_UP, ROUND_HALF_DOWN))
    return str(up) if up == down else ""


def _with_types(prompt: str, answer: str) -> str:
    """Return a JSON object whose texts are numbers or booleans where the prompt asks for these; empty if none is."""
    try:
        value = json.loads(answer) if answer.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return ""
    if not isinstance(value, dict):
        return ""
    typed = {key: _typed(prompt, key, held) for key, held in value.items()}
    return json.dumps(typed, ensure_ascii=False) if typed != value else ""


def _typed(prompt: str, key: str, held: object) -> object:
    demand = re.search(_TYPED.format(key=re.escape(key)), prompt, re.IGNORECASE) if isinstance(held, str) else None
    if demand is None or not isinstance(held, str):
        return held
    kind = demand[1].lower()
    if kind.startswith("bool"):
        return {"true": True, "false": False}.get(held.strip().lower(), held)
    if re.fullmatch(r"-?(?:0|[1-9]\d{0,14})", held.strip()):
        return int(held)
    return float(held) if not kind.startswith("int") and re.fullmatch(r"-?\d{1,12}\.\d{1,6}", held.strip()) else held


def _cased(answer: str, change: Callable[[str], str]) -> str:
    """Return words in another case; empty for an answer with other characters, such as a formula."""
    return change(answer) if _WORDS.fullmatch(answer) else ""


def _with_commas(answer: str, demand: re.Match[str]) -> str:
    """Return a number with commas between the thousands; empty for any other answer."""
    number = re.fullmatch(r"(-?[1-9]\d{3,14})(\.\d{1,6})?", answer)
    return f"{int(number[1]):,}{number[2] or ''}" if number is not None else ""


def _with_decimal_comma(answer: str, demand: re.Match[str]) -> str:
    """Return a number with a comma before its decimals; empty for a number without decimals."""
    return answer.replace(".", ",") if _DECIMAL.fullmatch(answer) else ""


def _with_zulu(answer: str, demand: re.Match[str]) -> str:
    match = _UTC_TIME.fullmatch(answer)
    return f"{match[1]}Z" if match else ""


_DEMANDS: tuple[tuple[str, re.Pattern[str], Callable[[str, re.Match[str]], str]], ...] = (
    ("the decimals that the prompt asks for", _DECIMALS, _with_decimals),
    ("the capitals that the prompt asks for", _CAPITALS, lambda answer, _: _cased(answer, str.upper)),
    ("the small letters that the prompt asks for", _LOWER, lambda answer, _: _cased(answer, str.lower)),
    ("the thousands separators that the prompt asks for", _COMMAS, _with_commas),
    ("the decimal comma that the prompt asks for", _DECIMAL_COMMA, _with_decimal_comma),
    ("the Z that the prompt asks for", _ZULU, _with_zulu),
)
