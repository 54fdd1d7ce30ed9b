"""Scans text for prompt injections, credentials, and characters that look like others.

All scans take time linear in the length of the text. A scan first searches for literals, and then applies a pattern to
at most `_TRIES` occurrences, each in a window of limited length.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from prime_lab_mcp.lab.base import credentials

Span = tuple[int, int]
InjectionKind = Literal["instruction", "grading", "chat marker", "role header", "invisible character", "answer tag"]

_TRIES = 50
SCANNED_CHARACTERS = 200_000
"""Most characters of a value that are scanned: half from its start and half from its end."""


def scanned_window(text: str) -> str:
    """Return the part of a value that is scanned: all of it, or its start and end if it is long."""
    return (
        text
        if len(text) <= SCANNED_CHARACTERS
        else f"{text[: SCANNED_CHARACTERS // 2]}\n{text[-SCANNED_CHARACTERS // 2 :]}"
    )


def _has_any(text: str, literals: tuple[str, ...]) -> bool:
    return True in [literal in text for literal in literals]  # Faster than any() with a generator.


def _places(text: str, *literals: str) -> Iterator[int]:
    for literal in literals:
        if literal not in text:
            continue
        place = text.find(literal)
        for _ in range(_TRIES):
            if place < 0:
                break
            yield place
            place = text.find(literal, place + len(literal))


class MayHold(NamedTuple):
    """What some texts may hold. False is certain: none of the texts holds a text of that kind."""

    injection: bool
    personal: bool
    """Credentials or e-mail addresses."""
    mojibake: bool


def may_hold(texts: Iterable[str]) -> MayHold:
    """Search many texts as one, which is much faster than one by one.

    Each is searched within its `scanned_window`. What one text holds is in the joined text too.
    """
    texts = list(texts)
    joined = "\n".join(texts)
    if len(joined) > SCANNED_CHARACTERS:
        joined = "\n".join(map(scanned_window, texts))
    plain = joined.isascii()
    return MayHold(
        injection=not plain or _may_be_injected(joined),
        personal="@" in joined or credentials.may_hold(joined),
        mojibake=not plain,
    )


# --- injection -------------------------------------------------------------------------------------------------------

_INSTRUCTION = re.compile(
    r"\b(?:ignore|disregard|forget|override)\s{1,3}(?:(?:all|any|of|the|your|my|these|those)\s{1,3}){0,4}"
    r"(?:previous|prior|above|earlier|preceding|system)\s{1,3}(?:instructions?|prompts?|rules|guidelines|messages)\b",
    re.I,
)
_GRADING = re.compile(
    r"\b(?:award|assign|grant|give|return|output)\s{1,3}(?:[a-z]{1,12}\s{1,3}){0,4}(?:full|maximum|max|perfect|highest)"
    r"\s{1,3}(?:possible\s{1,3})?(?:marks?|score|reward|points|credit|grade)\b"
    r"|\b(?:note|message|instructions?|dear|attention)[\s:,]{1,3}(?:to\s{1,3}|for\s{1,3})?(?:the\s{1,3})?"
    r"(?:grader|evaluator|judge model|reward model)\b",
    re.I,
)
_CHAT = re.compile(
    r"<\|(?:im_(?:start|end|sep)|eot_id|(?:start|end)_header_id|endoftext|begin_of_text|system|user|assistant)\|>"
    r"|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>"
)
_TAG = re.compile(r"</?(?:answer|think|tool_call)>", re.I)
_ROLE = re.compile(r"^[ \t#*]{0,8}system[ \t*]{0,4}:", re.I)
_SENTENCES: tuple[tuple[InjectionKind, re.Pattern[str], tuple[str, ...], tuple[str, ...]], ...] = (
    (
        "instruction",
        _INSTRUCTION,
        ("ignore", "disregard", "forget", "override"),
        ("instruction", "prompts", "prompt ", "rules", "guideline", "messages"),
    ),
    (
        "grading",
        _GRADING,
        (),
        ("grader", "evaluator", "judge model", "reward model", "full ", "maximum", " max ", "perfect ", "highest "),
    ),
)
"""Patterns of injected sentences, each with its rarer words, one of which every match in ASCII has, and its literals.
Every match of a pattern contains one of the literals."""
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0001-\U000e007f]")
_MARKS = frozenset("\u200e\u200f")
_JOINERS = frozenset("\u200b\u200c\u200d")


_SQUEEZED_AWAY = b" \t\n\r*aeiuAEIU0123456789.,;'\"()$+-=/"
_LOWER = bytes(range(256)).lower()
_VERBS = (b"gnor", b"dsrgrd", b"forgt", b"ovrrd")
_GRADERS = (b"grdr", b"vltor", b"modl")
_DEGREES = (b"fll", b"mx", b"prfct", b"hghst")
_GRADES = (b"mrk", b"scor", b"rwrd", b"pont", b"crdt", b"grd")
_TAGS, _TAGS_WITH_UNDERSCORE = (b"nswr>", b"thnk>", b"sys>>"), (b"tool_cll>", b"_of_trn>")


def _may_be_injected(text: str) -> bool:
    """Return whether `injected_text` may find something in an ASCII text.

    Most texts have nothing of the kind. The words of the patterns are searched without the letters a, e, i and u, in a
    text without them, which is half as long.
    """
    squeezed = text.encode("ascii").translate(_LOWER, _SQUEEZED_AWAY)
    if any(mark in squeezed for mark in (*_VERBS, *_GRADERS)):
        return True
    if any(mark in squeezed for mark in _DEGREES) and any(grade in squeezed for grade in _GRADES):
        return True
    # One character is found many times as fast as a word.
    if b">" in squeezed and (
        any(tag in squeezed for tag in _TAGS)
        or (b"_" in squeezed and any(tag in squeezed for tag in _TAGS_WITH_UNDERSCORE))
    ):
        return True
    return (
        (b"|" in squeezed and b"<|" in squeezed)
        or (b"]" in squeezed and b"nst]" in squeezed)
        or (b":" in squeezed and b"systm:" in squeezed)
    )


def injected_text(text: str, *, tags: bool = True) -> tuple[InjectionKind, Span] | None:
    """Return the kind and position of the first text that tries to influence its reader; None if there is none.

    `tags` says whether tags such as <answer> and <think> count.
    """
    return None if text.isascii() and not _may_be_injected(text) else _searched_injection(text, tags)


def _searched_injection(text: str, tags: bool) -> tuple[InjectionKind, Span] | None:
    lower = text.lower()
    if len(lower) != len(text):  # Lower case is longer for a few characters, so positions would not fit the text.
        lower = text
    for kind, pattern, rare, literals in _SENTENCES:
        if rare and not _has_any(lower, rare) and lower.isascii():  # `ı` matches `i` when case is ignored.
            continue
        for place in _places(lower, *literals) if _has_any(lower, literals) else ():
            if match := pattern.search(text, max(0, place - 120), place + 40):
                return kind, match.span()
    if ("|" in text or "]" in text or "_" in text or "sys>>" in lower) and ("<" in text or "[" in text):
        for place in _places(lower, "<|", "inst]", "<<sys>>", "<</sys>>", "_of_turn>"):
            if match := _CHAT.search(text, max(0, place - 12), place + 24):
                return "chat marker", match.span()
    for place in _places(lower, "system") if ":" in text and "system" in lower else ():
        start = text.rfind("\n", max(0, place - 16), place) + 1
        if (start or place < 16) and (match := _ROLE.match(text[start : place + 16])):
            return "role header", (start, start + match.end())
    if not text.isascii() and (span := invisible_character(text)):
        return "invisible character", span
    if tags and ">" in text:
        for place in _places(lower, "answer>", "think>", "tool_call>"):
            if match := _TAG.search(text, max(0, place - 2), place + 12):
                return "answer tag", match.span()
    return None


def invisible_character(text: str) -> Span | None:
    """Return the position of the first invisible character that its script or emoji does not need; None otherwise."""
    for tries, match in enumerate(_INVISIBLE.finditer(text)):
        if tries >= 20 * _TRIES:
            return None
        place, char = match.start(), match[0]
        if char == "\ufeff" and place == 0:
            continue
        around = text[max(0, place - 2) : place] + text[place + 1 : place + 3]
        if (char in _JOINERS and any(ord(c) > 0x2FF for c in around)) or (char in _MARKS and _is_right_to_left(text)):
            continue
        if char >= "\U000e0001" and "\U0001f3f4" in text[max(0, place - 8) : place]:
            continue  # The flags of England, Scotland and Wales consist of such characters.
        return match.span()
    return None


def _is_right_to_left(text: str) -> bool:
    return any("\u0590" <= c <= "\u08ff" for c in text[:4000])


# --- secrets ---------------------------------------------------------------------------------------------------------

_LOCAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}\Z")
_DOMAIN = re.compile(r"[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){0,4}\.[A-Za-z]{2,24}(?![A-Za-z0-9_(-])")
_RESERVED = re.compile(
    r"(?i)(?:^|\.)(?:example\.(?:com|org|net)|example|test|invalid|localhost|domain\.com|email\.com)$"
)


def credential(text: str) -> str | None:
    """Return the first key or private key in a text, masked; None if there is none. Placeholders do not count."""
    secret = credentials.first(text)
    if secret is None:
        return None
    return f"{secret.mark.strip()}… ({secret.end - secret.start} characters, masked)"


def email_address(text: str) -> str | None:
    """Return the first e-mail address in a text, masked; None if there is none. Example domains do not count."""
    for place in _places(text, "@"):
        domain = _DOMAIN.match(text, place + 1)
        local = _LOCAL.search(text[max(0, place - 64) : place]) if domain else None
        if domain and local and not _RESERVED.search(domain[0]):
            return f"{local[0][0]}…@{domain[0]}"
    return None


# --- characters that look like others --------------------------------------------------------------------------------

_MOJIBAKE = ("â€", "ï»¿", "\ufffd")
_LED = ("Ã", "Â")
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")


def mojibake(text: str) -> bool:
    """Return whether a text was decoded wrongly: UTF-8 read as Latin-1 or Windows-1252, or lost characters."""
    if text.isascii():
        return False
    return any(mark in text for mark in _MOJIBAKE) or any(
        "\x80" <= text[place + 1 : place + 2] <= "\xbf" and text[place + 1] != "\xa0" for place in _places(text, *_LED)
    )


def misleading_answer(text: str) -> str | None:
    """Return why comparing an answer as text may fail because of invisible differences; None if it cannot."""
    if text.isascii():
        return None
    if mojibake(text):
        return "mojibake"
    if _SPACES.search(text):
        return "a space that is not U+0020"
    if _INVISIBLE.search(text) and invisible_character(text):
        return "an invisible character"
    if not unicodedata.is_normalized("NFC", text):
        return "combining marks (not NFC)"
    return "compatibility characters (NFKC differs)" if not unicodedata.is_normalized("NFKC", text) else None
