"""Finds credentials that only their context reveals: a variable's name, an HTTP header, an address or a known file
format.

Such a credential has no prefix of its own. A value therefore counts only if it looks random: task data may mention
passwords and keys without containing any.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Iterator

from prime_lab_mcp.lab.base.credentials import CASE_CHANGES, Credential, is_placeholder, lower_same_length

_NAME = re.compile(
    r"(?:api[_-]?key|secret[_-]?key|access[_-]?key|client[_-]?secret|(?:auth|access|api|bot|session|refresh)[_-]?token"
    r"|private[_-]?key|[_-]token|[_-]secret|[_-]api|license[_-]?key|encryption[_-]?key|signing[_-]?key)$"
)
_STEMS = ("key", "token", "secret", "_api", "-api")
"""Last parts of the names in `_NAME`. A search for them with `str.find` is faster than a search with the pattern."""
_VALUE = re.compile(
    r"s?[\"'\]\\]{0,4}[ \t]{0,4}(?:=>|:=|[=:,])[ \t]{0,4}[\"'\\]{0,4}([A-Za-z0-9_+/=-]{16,400})"
    r"(?![A-Za-z0-9_+/=(.\[-])",
    re.I,
)
_HEADER = re.compile(r"(bearer|basic|ssws|apikey)[ \t]{1,3}([a-z0-9._~+/=-]{20,2000})", re.I)
_QUERY = re.compile(
    r"(?i)[?&](api_?key|access_token|auth_token|token|key|sig|signature|secret)=([^\s&\"'\\<>]{20,400})"
)
_USER = re.compile(r"(://)([A-Za-z0-9_-]{20,100})@(?![a-z0-9.]*sentry)[A-Za-z0-9]")
_NETRC = re.compile(r"(?i)(login\s{1,4}\S{1,100}\s{1,4}password)\s{1,4}([^\s\"']{12,200})")
_OTHERS = (
    (":aa", 11, re.compile(r"(?<![0-9A-Za-z])(\d{8,10}:AA)([A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])")),  # Telegram
    ("-us", 33, re.compile(r"(?<![0-9A-Za-z])()([0-9a-f]{32}-us\d{1,2})(?![0-9A-Za-z])")),  # Mailchimp
    ("secret_", 0, re.compile(r"(secret_)([a-z0-9_-]{1,60}_[0-9a-f]{32}\.[A-Za-z0-9]{32})(?![\w.-])")),  # Lambda
)
"""(part of the credential in lower case, largest distance of this part from the credential's start, pattern)."""
_BESIDE = (
    ("username", re.compile(r"(\"key\"\s{0,4}:\s{0,4}\")([0-9a-f]{32})\"")),  # kaggle.json
    ("auths", re.compile(r"(\"auth\"\s{0,4}:\s{0,4}\")([A-Za-z0-9+/=]{16,400})\"")),  # Docker
    ("kty", re.compile(r"(\"d\"\s{0,4}:\s{0,4}\")([A-Za-z0-9_-]{40,1400})\"")),  # JSON web key
    ("PuTTY-User-Key-File", re.compile(r"(Private-Lines:\s{0,4}\d{1,3}\s{1,4})([A-Za-z0-9+/=]{40,80})")),
)
"""(word, pattern): in a text that contains the word, the second group of the pattern is a credential."""


def find_named(text: str) -> Iterator[Credential]:
    """Yield the random-looking values that the text around them names as a credential."""
    lower = lower_same_length(text)
    yield from _assigned(text, lower)
    for match in _near(text, lower, ("bearer", "basic", "ssws", "apikey"), _HEADER, 0):
        if match[1].lower() == "basic" and not _is_basic(match[2]):
            continue
        if _is_random(match[2]):
            yield _credential("key in a header", match)
    for match in _near(text, lower, ("?", "&"), _QUERY, 0):
        if _is_random(match[2]):
            yield _credential("key in an address", match)
    for mark, pattern, kind in (("://", _USER, "key in an address"), ("login", _NETRC, "password of a login")):
        for match in _near(text, lower, (mark,), pattern, 0):
            if _is_random(match[2]):
                yield _credential(kind, match)
    for mark, back, pattern in _OTHERS:
        for match in _near(text, lower, (mark,), pattern, back):
            if _is_random(match[2]):
                yield _credential("key", match)
    for word, pattern in _BESIDE:
        if word in text:
            yield from (_credential("key of a program", match) for match in pattern.finditer(text))


def _assigned(text: str, lower: str) -> Iterator[Credential]:
    """Yield the random-looking values of variables and fields whose name matches `_NAME`."""
    for stem in _STEMS:
        place = lower.find(stem)
        while place >= 0:
            end = place + len(stem)
            value = _VALUE.match(text, end) if _NAME.search(lower, max(0, end - 16), end) else None
            if value is not None and _is_random(value[1]):
                yield Credential("a value with the name of a key", text[place:end], value.start(1), value.end(1))
            place = lower.find(stem, end)


def _near(
    text: str, lower: str, marks: tuple[str, ...], pattern: re.Pattern[str], back: int
) -> Iterator[re.Match[str]]:
    """Yield the matches of `pattern` that begin at most `back` characters before one of `marks`."""
    for mark in marks:
        place = lower.find(mark)
        while place >= 0:
            if (
                match := pattern.match(text, place)
                if not back
                else pattern.search(text, max(0, place - back), place + 200)
            ):
                yield match
            place = lower.find(mark, place + 1)


def _credential(kind: str, match: re.Match[str]) -> Credential:
    """Return the credential in the match's second group. Its mark is the first group or the first four characters."""
    return Credential(kind, match[1][:24] or match[2][:4], match.start(2), match.end(2))


def _is_random(value: str) -> bool:
    """Whether a value is too irregular for a word, a path or an identifier.

    The limits on length and on entropy were chosen by us.
    """
    body = value.removeprefix("0x")
    letters, digits = sum(c.isalpha() for c in body), sum(c.isdigit() for c in body)
    if is_placeholder(body):
        return False
    if len(body) >= 32 and len(CASE_CHANGES.findall(body)) >= 8 and _bits(body) >= 4.0:
        return True
    if letters < 3 or digits < 3:
        return False
    if re.fullmatch(r"[0-9a-fA-F-]+", body):
        return len(body) >= 32 and _bits(body.lower()) >= 3.0
    words = re.split(r"[_/=+-]", body)
    if all(re.fullmatch(r"[A-Za-z]*|\d{1,4}|[a-z]{2,}\d{1,3}|[A-Z]{2,}\d{1,3}", word) for word in words):
        return False
    return len(body) >= 16 and _bits(body) >= 3.5


def _bits(text: str) -> float:
    """Return the Shannon entropy of a text in bits per character."""
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values())


def _is_basic(value: str) -> bool:
    """Whether a value is the Base64 form of `user:password`, as the HTTP scheme Basic requires."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (binascii.Error, ValueError):
        return False
    return b":" in decoded and decoded.isascii()
