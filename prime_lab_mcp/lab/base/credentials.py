"""Finds and removes credentials in text. The push check, the dataset scan and reports use the same table of formats.

A format is a literal mark, such as `hf_`, and the characters that follow the mark. Marks are searched with `str.find`
and every run of characters is consumed once, whether or not the run is a credential, so that a scan takes time linear
in the length of any text.

Sources of the formats: the issuers' documentation, gitleaks (github.com/gitleaks/gitleaks, config/gitleaks.toml) and
GitHub's secret scanning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

REDACTED = "[redacted]"
"""The text that `redacted` writes in the place of a credential."""

_WORD = re.compile(r"[A-Za-z0-9]*")
_WORD_LINE = re.compile(r"[A-Za-z0-9_]*")
_WORD_DASH = re.compile(r"[A-Za-z0-9-]*")
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]*")
_DOTTED = re.compile(r"[A-Za-z0-9_.-]*")
_BASE64 = re.compile(r"[A-Za-z0-9+/=]*")
_BEARER = re.compile(r"[A-Za-z0-9._~+/=-]*")
_PATH = re.compile(r"[A-Za-z0-9/_-]*")
_HEX = re.compile(r"[0-9a-f]+")
_MIXED = re.compile(r"(?=.*[A-Z])(?=.*[a-z])(?=.*\d).+")
_QUERY = re.compile(r"[^\s&\"'\\]*")

_PLACEHOLDER = re.compile(r"example|placeholder|your|redacted|dummy|\.\.\.|x{4,}|\*{4,}|0{8,}|1234567|abcdefgh", re.I)
CASE_CHANGES = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]")
"""Matches a change between lower and upper case, which random text has more often than identifiers."""


class Credential(NamedTuple):
    """One credential in a text: its kind, the mark that it begins with, and its position."""

    kind: str
    mark: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Format:
    """A credential format: one of `marks` (literal prefixes), followed by `least` to `most` characters that match
    `run`."""

    kind: str
    marks: tuple[str, ...]
    run: re.Pattern[str]
    least: int
    most: int = 1_000
    shape: re.Pattern[str] | None = None
    """Pattern that the whole run must match, for formats whose length alone is not distinctive."""
    partial: int | None = None
    """The shortest run that `redacted` removes: programs print shortened keys. None means `least`."""
    letters: bool = False
    """True if valid credentials may consist of letters of one case without digits."""

    def is_complete(self, body: str) -> bool:
        """True if `body`, the text after the mark, may be a real credential; False for placeholders and words."""
        return self._fits(body, self.least) and (self.letters or _looks_random(body)) and not is_placeholder(body)

    def is_redacted(self, body: str) -> bool:
        """True if a report must not show `body`, the text after the mark. Shortened and invented keys count too."""
        return self._fits(body, self.least if self.partial is None else self.partial) and (
            self.letters or _looks_random(body)
        )

    def _fits(self, body: str, least: int) -> bool:
        if self.shape is not None and not self.shape.fullmatch(body):
            return False
        return least <= len(body) <= self.most


def _looks_random(body: str) -> bool:
    """True if the text has a digit or at least four changes of case, unlike a word or an identifier."""
    return any(c.isdigit() for c in body) or len(CASE_CHANGES.findall(body)) >= 4


def is_placeholder(body: str) -> bool:
    """True if a text only stands for a credential, such as `your-key-here`, `xxxxxxxx` or a single repeated letter."""
    return len(set(body)) < 2 or _PLACEHOLDER.search(body) is not None


FORMATS: tuple[Format, ...] = (
    Format("Prime Intellect key", ("pit_",), _URL_SAFE, 16, partial=8),
    Format("OpenAI, Anthropic or similar key", ("sk-",), _URL_SAFE, 20, partial=8),
    Format("Hugging Face token", ("hf_", "api_org_"), _WORD, 20, partial=12, letters=True),
    Format("GitHub token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _WORD_LINE, 30, partial=16),
    Format("GitHub token", ("github_pat_",), _WORD_LINE, 36, partial=20),
    Format(
        "GitLab token",
        ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-"),
        _DOTTED,
        20,
        partial=16,
    ),
    Format("Google key", ("AIza",), _URL_SAFE, 35, 35),
    Format("Google secret", ("GOCSPX-",), _URL_SAFE, 28, 28),
    Format("Google token", ("ya29.",), _URL_SAFE, 40),
    Format("AWS key", ("AKIA", "ASIA", "ABIA", "ACCA"), _WORD, 16, 16, re.compile(r"[A-Z0-9]+"), letters=True),
    Format(
        "Slack token",
        ("xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
        _WORD_DASH,
        20,
    ),
    Format("Slack webhook", ("hooks.slack.com/services/",), _PATH, 40),
    Format("Stripe key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_", "whsec_"), _WORD, 16),
    Format("Twilio key", ("SK",), _WORD, 32, 32, re.compile(r"[0-9a-f]+")),
    Format("SendGrid key", ("SG.",), _DOTTED, 60, 80, re.compile(r"[\w-]{16,24}\.[\w-]{40,50}")),
    Format("npm token", ("npm_",), _WORD, 36, 40),
    Format("PyPI token", ("pypi-",), _URL_SAFE, 50),
    Format("Weights & Biases key", ("wandb_v1_",), _URL_SAFE, 30),
    Format("Groq key", ("gsk_",), _WORD, 40),
    Format("xAI key", ("xai-",), _WORD, 60),
    Format("Perplexity key", ("pplx-",), _WORD, 40),
    Format("Together key", ("tgp_v1_",), _URL_SAFE, 40),
    Format("Cerebras key", ("csk-",), _WORD, 40),
    Format("NVIDIA key", ("nvapi-",), _URL_SAFE, 60),
    Format("Replicate token", ("r8_",), _WORD, 37, 40),
    Format("Tavily key", ("tvly-",), _URL_SAFE, 30),
    Format("Pinecone key", ("pcsk_",), _WORD_LINE, 50),
    Format("LangSmith key", ("lsv2_pt_", "lsv2_sk_"), _WORD_LINE, 40),
    Format("Supabase token", ("sbp_",), _WORD, 40, 40, re.compile(r"[0-9a-f]+")),
    Format("DigitalOcean token", ("dop_v1_", "doo_v1_", "dor_v1_"), _WORD, 64, 64, re.compile(r"[0-9a-f]+")),
    Format("Databricks token", ("dapi",), _WORD_DASH, 32, 34, re.compile(r"[0-9a-f]{32}(?:-\d)?")),
    Format("Docker token", ("dckr_pat_",), _URL_SAFE, 27),
    Format("Vault token", ("hvs.", "hvb."), _URL_SAFE, 90),
    Format("Grafana token", ("glsa_", "glc_"), re.compile(r"[A-Za-z0-9+/=_]*"), 32),
    Format("Shopify token", ("shpat_", "shpca_", "shppa_", "shpss_"), _WORD, 32, 32, re.compile(r"[0-9a-fA-F]+")),
    Format("Linear key", ("lin_api_",), _WORD, 40, 40),
    Format("Notion token", ("ntn_",), _WORD, 40),
    Format("age key", ("AGE-SECRET-KEY-1",), _WORD, 58, 58),
    Format("Fireworks key", ("fw_",), _WORD, 22, 30),
    Format("ElevenLabs key", ("sk_",), _WORD, 48, 48, _HEX),
    Format("RunPod key", ("rpa_",), _WORD, 40, 60),
    Format("Modal key", ("ak-", "as-"), _WORD, 22, 22, _MIXED),
    Format("Postman key", ("PMAK-",), _WORD_DASH, 50, 70),
    Format("Atlassian token", ("ATATT3",), re.compile(r"[A-Za-z0-9_=-]*"), 150),
    Format("Bitbucket token", ("ATBB",), _WORD, 28, 40),
    Format("Figma token", ("figd_",), _URL_SAFE, 38),
    Format("Airtable token", ("pat",), _DOTTED, 79, 79, re.compile(r"[A-Za-z0-9]{14}\.[0-9a-f]{64}")),
    Format("HubSpot token", ("pat-na1-", "pat-eu1-"), _WORD_DASH, 36, 36),
    Format("Doppler token", ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa."), _DOTTED, 40),
    Format("PlanetScale token", ("pscale_tkn_", "pscale_oauth_", "pscale_pw_"), _URL_SAFE, 32),
    Format("New Relic key", ("NRAK-",), _WORD, 27, 27),
    Format("Square token", ("sq0atp-", "sq0csp-"), _URL_SAFE, 22),
    Format("E2B key", ("e2b_",), _WORD, 40, 40, _HEX),
    Format("Daytona key", ("dtn_",), _WORD, 64, 64, _HEX),
    Format("Jina key", ("jina_",), _URL_SAFE, 40),
    Format("Voyage key", ("pa-",), _URL_SAFE, 43, 43, _MIXED),
    Format("Firecrawl key", ("fc-",), _WORD, 32, 32, _HEX),
    Format("Mailgun key", ("key-",), _WORD, 32, 32, _HEX),
    Format("Fly token", ("fm2_", "fm1r_"), re.compile(r"[A-Za-z0-9+/=_-]*"), 40),
    Format("Anyscale key", ("esecret_",), _WORD, 24),
    Format("Discord webhook", ("discord.com/api/webhooks/", "discordapp.com/api/webhooks/"), _PATH, 70),
    Format("JSON web token", ("eyJ",), _DOTTED, 40, 20_000, re.compile(r"[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{20,}")),
)
"""Credential formats that can be recognised by the credential's own text."""


class _Assigned(NamedTuple):
    """A credential format that can be recognised only by the name of the variable that the credential is assigned
    to."""

    kind: str
    names: tuple[str, ...]
    run: re.Pattern[str]
    least: int
    most: int
    shape: re.Pattern[str] | None = None


_ASSIGNED: tuple[_Assigned, ...] = (
    _Assigned(
        "Weights & Biases key",
        ("wandb_api_key", "wandb.login(key", "wandb_key"),
        _WORD,
        40,
        40,
        re.compile(r"[0-9a-f]+"),
    ),
    _Assigned("AWS secret key", ("aws_secret_access_key", "secretaccesskey"), _BASE64, 40, 40),
    _Assigned("Twilio token", ("twilio_auth_token",), _WORD, 32, 32, re.compile(r"[0-9a-f]+")),
    _Assigned("Azure key", ("accountkey",), _BASE64, 86, 90),
)
_ASSIGNS = re.compile(r"[\"'\]\\]{0,4}\s{0,4}[=:]\s{0,4}[\"'\\]{0,4}")
_PROTOCOL = "://"
_USERINFO = re.compile(r"[^\s/:@\"'<>{}$\\]{0,100}:([^\s/@\"'<>{}$\\]{3,200})@[A-Za-z0-9]")
_DEFAULT_PASSWORDS = frozenset(
    {"password", "passwd", "pass", "secret", "token", "changeme", "postgres", "root", "admin", "guest"}
)
_KEY_BLOCK = re.compile(r"-----BEGIN (?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=:,.\s\"'\\-]*")
_LONGEST_KEY = 20_000
_BLOCK = "-----BEGIN "
_DASHES = "-----"
_LINE_BREAK_OR_BODY = re.compile(r"(\\+[nrt]?)|[A-Za-z0-9+/=]{1,}")
_BEARERS = re.compile(r"bearer\s{1,3}", re.I)
_KEY_IN_QUERY = re.compile(r"api_?key=", re.I)


def _marks_by_character() -> tuple[tuple[str, tuple[tuple[str, Format], ...]], ...]:
    """Group the marks by a character that they contain. A text without this character needs no search for the group."""
    groups: dict[str, list[tuple[str, Format]]] = {"_": [], "-": [], ".": [], "": []}
    for format in FORMATS:
        for mark in format.marks:
            groups[next((c for c in "_-." if c in mark), "")].append((mark, format))
    return tuple((char, tuple(marks)) for char, marks in groups.items())


_MARKS_BY_CHARACTER = _marks_by_character()


def find(text: str) -> Iterator[Credential]:
    """Yield every credential that may be in use: complete ones that are neither placeholders nor default passwords."""
    yield from _marked(text, Format.is_complete)
    yield from _assigned(text)
    for start, end in _password_spans(text):
        body = text[start:end]
        if (
            len(body) >= 8
            and _looks_random(body)
            and not is_placeholder(body)
            and body.lower() not in _DEFAULT_PASSWORDS
        ):
            yield Credential("password in an address", _PROTOCOL, start, end)
    for start, head, end in _key_block_spans(text):
        if sum(c.isalnum() for c in text[head : min(end, head + 200)]) >= 40:
            yield Credential("private key", _BLOCK, start, end)


def first(text: str) -> Credential | None:
    """Return the first credential that may be in use, or None if there is none."""
    return next(find(text), None) if may_hold(text) else None


def key_blocks(text: str) -> Iterator[Credential]:
    """Yield the header line of every private key, even where no key follows the header."""
    for start, head, _ in _key_block_spans(text):
        yield Credential("private key", _BLOCK, start, head)


def redacted(text: str) -> str:
    """Return the text with `REDACTED` for every credential. Valid JSON stays valid: no quote or escape is replaced."""
    spans = [(c.start, c.end) for c in _marked(text, Format.is_redacted)]
    spans += [(c.start, c.end) for c in _assigned(text)]
    spans += _password_spans(text)
    spans += _spans_after(text, _BEARERS, "earer", _BEARER, 6)
    spans += _spans_after(text, _KEY_IN_QUERY, "key=", _QUERY, 4)
    for _, head, end in _key_block_spans(text):
        spans += [
            (head + m.start(), head + m.end()) for m in _LINE_BREAK_OR_BODY.finditer(text[head:end]) if m[1] is None
        ]
    if not spans:
        return text
    parts: list[str] = []
    at = 0
    for start, end in sorted(spans):
        if start >= at:
            parts += (text[at:start], REDACTED)
        at = max(at, end)
    return "".join((*parts, text[at:]))


def _table(more: str) -> bytes:
    """Return a table for `bytes.translate` that makes an `x` of every ASCII letter, digit and character of `more`."""
    return bytes(ord("x" if chr(c).isascii() and (chr(c).isalnum() or chr(c) in more) else " ") for c in range(256))


BODY_RUNS: tuple[tuple[str, int], ...] = (("_.-", 16), ("_.-+/=", 32))
"""Pairs of the characters beside letters and digits, and the length: the body of every format is such a run. Sums and
addresses have `+`, `/` and `=` too, so their run is longer."""
_RUNS = tuple((_table(more), b"x" * length) for more, length in BODY_RUNS)


def may_hold(text: str) -> bool:
    """True if `find` may find something: the text has a run of characters as long as a key, an address or a key block.

    Most rows of a dataset have none of them, and this test is several times as fast as the search for all marks.
    """
    raw = text.encode("utf-8", "surrogatepass")
    (narrow, short), (wide, long) = _RUNS
    runs = raw.translate(wide)
    # Each character of the narrow class is in the wide class.
    if short in runs and (long in runs or short in raw.translate(narrow)):
        return True
    return _PROTOCOL in text or _BLOCK in text


def _marked(text: str, accepted: Callable[[Format, str], bool]) -> Iterator[Credential]:
    """Yield the credentials of `FORMATS` in a text that `accepted(format, text after the mark)` allows."""
    for char, marks in _MARKS_BY_CHARACTER:
        if char not in text:
            continue
        for mark, format in marks:
            place = text.find(mark)
            while place >= 0:
                after = place + len(mark)
                if not (place and text[place - 1].isalnum()):
                    run = format.run.match(text, after)
                    body = run[0].rstrip(".") if run else ""
                    if accepted(format, body):
                        yield Credential(format.kind, mark, place, after + len(body))
                    after += len(body)
                place = text.find(mark, after)


def lower_same_length(text: str) -> str:
    """Return the text in lower case, with every character at its old position.

    `str.lower` makes some letters longer. Then only the ASCII letters are changed.
    """
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if c.isascii() else c for c in text)


def _assigned(text: str) -> Iterator[Credential]:
    """Yield the values that follow one of the variable names of `_ASSIGNED`."""
    if "=" not in text and ":" not in text:
        return
    lower = lower_same_length(text)
    for kind, names, run, least, most, shape in _ASSIGNED:
        for name in names:
            place = lower.find(name)
            while place >= 0:
                after = place + len(name)
                if sign := _ASSIGNS.match(text, after):
                    value = run.match(text, sign.end())
                    body = value[0] if value else ""
                    if (
                        least <= len(body) <= most
                        and (shape is None or shape.fullmatch(body))
                        and not is_placeholder(body)
                    ):
                        yield Credential(kind, name, sign.end(), sign.end() + len(body))
                    after = sign.end() + len(body)
                place = lower.find(name, after)


def _password_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of every password in an address `scheme://user:password@host`."""
    spans: list[tuple[int, int]] = []
    place = text.find(_PROTOCOL)
    while place >= 0:
        after = place + len(_PROTOCOL)
        if match := _USERINFO.match(text, after):
            spans.append(match.span(1))
            after = match.end()
        place = text.find(_PROTOCOL, after)
    return spans


def _key_block_spans(text: str) -> Iterator[tuple[int, int, int]]:
    """Yield (start of the header, end of the header, end of the body) of every private key."""
    place = text.find(_BLOCK)
    while place >= 0:
        after = place + len(_BLOCK)
        if header := _KEY_BLOCK.match(text, place):
            stop = text.find(_DASHES, header.end(), header.end() + _LONGEST_KEY)
            body = _KEY_BODY.match(text, header.end(), stop if stop >= 0 else header.end() + _LONGEST_KEY)
            after = body.end() if body else header.end()
            yield place, header.end(), after
        place = text.find(_BLOCK, after)


def _spans_after(
    text: str, mark: re.Pattern[str], literal: str, run: re.Pattern[str], least: int
) -> list[tuple[int, int]]:
    """Return the start and end of every credential that follows a word such as `Bearer`."""
    if literal not in text and literal not in text.lower():
        return []
    spans: list[tuple[int, int]] = []
    at = 0
    while match := mark.search(text, at):
        value = run.match(text, match.end())
        at = value.end() if value else match.end()
        if value and len(value[0]) >= least and (literal == "key=" or len(value[0]) >= 20 or _looks_random(value[0])):
            spans.append(value.span())
    return spans
