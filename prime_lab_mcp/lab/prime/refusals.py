"""Classifies failures of `prime` by the text of its output.

prime 0.18.0 exits with 1 for every failure and prints errors on stdout, also with `-o json`. Only the text tells the
failures apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.errors import LabError, PrimeError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.process import CompletedProcess
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.base.versions import OLDEST_PRIME

Effect = Literal["none", "unknown"]

_LOGIN = "Ask the user to run `prime login` in a terminal (on a machine without a browser: `prime login --headless`)"
_NOISE = re.compile(r"^\W*(?:Upload failed|Unexpected error|Error|Aborted)?:? ?\d+\W*$|^\s*$")
"""Lines that only repeat an exit code, because prime's `except Exception` catches `typer.Exit`."""
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_STATUS = re.compile(r"HTTP (\d{3})\b")
_STORAGE = re.compile(r"(?:Client|Server) error '\d{3}\b")
"""The message of a failed file store behind an upload address. Neither the account nor the user's files are the
cause."""
_PROBLEM = re.compile(r"^\s*- (.+)$", re.M)
_COMPILED = re.compile(r"^([A-Za-z_][\w.\[\]-]*: .+)$", re.M)
_UPLOAD = re.compile(r"https?://\S+/\S*(?:upload|X-Amz|Signature|token)\S*", re.I)
"""An upload address, which ends in a secret that grants the right to upload."""


class PrimeRefusal(PrimeError):
    """A command of `prime` failed. `effect` is `unknown` if the request may have had an effect nevertheless."""

    def __init__(
        self, message: str, *, fix: str, code: Code, effect: Effect = "none", problems: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message, fix=fix, code=code)
        self.effect = effect
        self.problems = problems
        """The problems that the platform lists, as it words them."""


def had_no_effect(error: LabError) -> bool:
    """True if a failure of `prime` proves that the request had no effect."""
    return isinstance(error, PrimeRefusal) and error.effect == "none"


def ended_by_force(error: LabError) -> bool:
    """True if `prime` was killed after its time limit, so that its request may still be on its way."""
    return error.code == SLOW.code


@dataclass(frozen=True, slots=True)
class _Kind:
    """One class of failure. The error message is `says`, followed by the quoted message of the platform."""

    code: Code
    says: str
    fix: str
    effect: Effect = "none"


MISSING = _Kind(
    "prime-missing", "prime is not installed", Fix("Run ", NamedCall("preflight", install=True), "; it installs prime.")
)
TOO_OLD = _Kind(
    "prime-too-old",
    f"prime is older than {OLDEST_PRIME}",
    Fix("Run ", NamedCall("preflight", install=True), ", or ask the user to upgrade prime (`uv tool upgrade prime`)."),
)
SLOW = _Kind(
    "platform-slow",
    "prime did not answer in time",
    "Wait a minute and call again; what was sent is looked up first.",
    "unknown",
)
GARBLED = _Kind(
    "prime-failed",
    "prime answered something that could not be read",
    "Call again; if it repeats, ask the user to run the same `prime` command in a terminal.",
    "unknown",
)
_BROKEN = _Kind(
    "platform-failed",
    "the platform had a fault of its own",
    "Wait a minute and call again; what was sent is looked up first.",
    "unknown",
)
_FAILED = _Kind(
    "prime-failed",
    "prime failed",
    "Read what it says; if it is no matter of the files, ask the user to run the same `prime` command in a terminal.",
    "unknown",
)
_UNCHECKED = _Kind(
    "prime-failed",
    "prime could not judge the config before sending it, and sent nothing",
    "Call again; if it repeats, ask the user to upgrade prime (`uv tool upgrade prime`).",
)
_UNREACHABLE = _Kind(
    "platform-unreachable",
    "the platform could not be reached",
    "Check the network connection, then call again.",
    "unknown",
)
_REJECTED = _Kind(
    "platform-rejected",
    "the platform did not accept it",
    "Correct what it names, then call again.",
)
_BY_STATUS = {
    400: _REJECTED,
    401: _Kind(
        "unauthorized",
        "the platform does not accept the API key",
        f"{_LOGIN}, or to replace PRIME_API_KEY where the server gets it from.",
    ),
    402: _Kind(
        "payment-required",
        "the platform asks for payment first",
        "Ask the user to add funds at https://app.primeintellect.ai/dashboard/billing.",
    ),
    403: _Kind(
        "platform-forbidden",
        "the account has no right to this",
        Fix(
            "Use an owner or team of the account (",
            NamedCall("preflight"),
            " shows them), or ask the user for the right.",
        ),
    ),
    404: _Kind(
        "platform-not-found",
        "the platform has no such thing",
        Fix(
            "Check the name or id (",
            NamedCall("search_hub", kind="environment", query=...).bare,
            " lists environments, ",
            NamedCall("watch_run"),
            " lists runs).",
        ),
    ),
    409: _Kind(
        "platform-conflict",
        "the platform says it conflicts with what is there",
        Fix(
            "Look at what is there first (",
            NamedCall("search_hub", kind="environment", query=...).bare,
            " or ",
            NamedCall("watch_run"),
            "), then change the name, version or content.",
        ),
    ),
    422: _REJECTED,
    429: _Kind(
        "platform-busy",
        "the platform asks for fewer requests",
        "Wait a minute, then call again.",
    ),
}
_BY_TEXT: tuple[tuple[str, _Kind], ...] = (
    ("No API key configured", _Kind("not-logged-in", "nobody is logged in to Prime Intellect", f"{_LOGIN}.")),
    ("API key unauthorized", _BY_STATUS[401]),
    ("Payment required", _BY_STATUS[402]),
    ("that is published to the platform", _BY_STATUS[404]),
    ("lack valid identifiers", _BY_STATUS[404]),
    ("Validation failed:", _REJECTED),
    ("Config validation failed:", _REJECTED),
    ("Hosted RL runs need inference GPUs", _REJECTED),
    ("is unsupported for hosted runs", _REJECTED),
    ("is not supported for hosted runs", _REJECTED),
    ("Failed to parse local validation preparation", _UNCHECKED),
    ("schema provenance mismatch", _UNCHECKED),
    ("Local schema worker", _UNCHECKED),
    ("Unsupported local validation contract", _UNCHECKED),
    ("Preparation returned a different", _UNCHECKED),
    ("Preparation schema commit", _UNCHECKED),
    ("Shared LoRA training", _REJECTED),
    ("content hash", _BY_STATUS[409]),
    (
        "Failed to parse pyproject.toml",
        _Kind(
            "push-unbuildable",
            "the package could not be built",
            Fix("Run ", NamedCall("check_environment"), " and mend what it names."),
        ),
    ),
    (
        "Build failed!",
        _Kind(
            "push-unbuildable",
            "the package could not be built",
            Fix("Run ", NamedCall("check_environment"), " and mend what it names."),
        ),
    ),
    (
        "Build tool not found",
        _Kind(
            "uv-missing",
            "prime found no uv to build the package with",
            Fix("Run ", NamedCall("preflight", install=True), "."),
        ),
    ),
    (
        "Enter your desired username",
        _Kind(
            "username-missing",
            "the account has no public user name yet, which publishing needs",
            "Ask the user to run `prime env push` once in a terminal and choose one, or name a team as owner.",
        ),
    ),
    ("No such command", TOO_OLD),
    ("No such option", TOO_OLD),
)


def refusal(completed: CompletedProcess, doing: str) -> PrimeRefusal:
    """Classify a program that ended with an exit code other than 0. `doing` names the attempted action."""
    text = clean_output(f"{completed.stdout}\n{completed.stderr}")
    kind = _classify(text)
    problems = tuple(_PROBLEM.findall(text) or _COMPILED.findall(text.partition("onfig validation failed:")[2]))
    problems = problems if kind is _REJECTED else ()
    return refusal_of_kind(kind, doing, _last_message(text), problems)


def refusal_of_kind(kind: _Kind, doing: str, output: str = "", problems: tuple[str, ...] = ()) -> PrimeRefusal:
    reason = (
        f": {quote(output, limit=600 if problems else 300)}" if output else ", and gave no reason" * (kind is _FAILED)
    )
    return PrimeRefusal(
        f"{doing}: {kind.says}{reason}", fix=kind.fix, code=kind.code, effect=kind.effect, problems=problems[:20]
    )


def clean_output(text: str) -> str:
    """Remove colours, upload addresses and lines that repeat an exit code from prime's output."""
    lines = (line.rstrip() for line in _ANSI.sub("", text).splitlines())
    return _UPLOAD.sub("[upload address]", "\n".join(line for line in lines if not _NOISE.match(line)))


def _classify(text: str) -> _Kind:
    # ConnectError means that the request never reached the platform.
    if "ConnectError" in text:
        return _Kind(_UNREACHABLE.code, _UNREACHABLE.says, _UNREACHABLE.fix, "none")
    if _STORAGE.search(text):
        return _BROKEN
    for marker, kind in _BY_TEXT:
        if marker in text:
            return kind
    if re.search(r"Expecting value|not a dictionary|Unexpected response|validation errors? for", text):
        return GARBLED
    if statuses := _STATUS.findall(text):
        status = int(statuses[-1])
        return _BROKEN if status >= 500 else _BY_STATUS.get(status, _REJECTED)
    if re.search(r"Request (?:failed|timed out)|Connection error|Download failed|Failed to upload|timed out", text):
        return _UNREACHABLE
    return _FAILED


def _last_message(text: str) -> str:
    """The last error message of the output.

    It starts at the line that announces an error. For a traceback it is the last line. Otherwise it is the last lines.
    """
    lines = [line for line in text.splitlines() if not re.match(r"^[\s╭╰│─]*$", line)]
    if not lines:
        return ""
    if any("Traceback (most recent call last)" in line for line in lines):
        return lines[-1]
    starts = [i for i, line in enumerate(lines) if re.search(r"\b(?:[Ee]rror|[Ff]ailed)\b", line)]
    first = next((i for i in starts if "Unexpected error" not in lines[i]), starts[0] if starts else len(lines) - 3)
    message = "\n".join(line for line in lines[max(0, first) :] if not line.startswith(("Tip:", "Alternatively")))
    return re.sub(r"^(?:Unexpected error|Upload failed|API Error|Error): ?", "", message)
