"""Notifies a person outside of the chat through a command or a URL that the user chose.

The command gets one JSON object on stdin and is started without a shell. The URL gets the same object as a POST. A
failure is an exception for the caller to log and has no other effect.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from prime_lab_mcp.lab.base import process
from prime_lab_mcp.lab.base.errors import BadInput, LabError

AlertKind = Literal["anomaly", "ended", "question"]
SECONDS = 15.0
"""Time limit of a command or a request, in seconds."""


class AlertNotDelivered(Exception):
    """An alert could not be delivered. The server logs this error; no tool call sees it."""


@dataclass(frozen=True, slots=True)
class Alert:
    """A message about an event for a person who is not looking at the chat."""

    kind: AlertKind
    subject: str
    """The subject of the event: the id of a run or an evaluation, or the tool that asks a question."""
    text: str
    """One or two sentences for a person."""
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        fields = {"kind": self.kind, "subject": self.subject, "text": self.text}
        return {"from": "prime-lab-mcp", **fields, **self.details, "at": round(time.time())}


@dataclass(frozen=True, slots=True)
class Notifier:
    """The destination of alerts: the `argv` of a command, or a `url`."""

    argv: tuple[str, ...] = ()
    url: str | None = None

    @property
    def name(self) -> str:
        """The command's program or the URL's host. The path is left out because it may hold a secret."""
        return (urlsplit(self.url).hostname or "") if self.url else Path(self.argv[0]).name

    async def send(self, alert: Alert) -> None:
        """Send one alert. Raises AlertNotDelivered."""
        body = json.dumps(alert.as_json(), ensure_ascii=False).encode()
        if self.url is not None:
            await _post(self.url, body, self.name)
        else:
            await _run_command(self.argv, body, self.name)


def notifier_from(text: str) -> Notifier:
    """The notifier that `serve --notify` names: a URL, or a command with its arguments. Raises BadInput."""
    if text.startswith(("http://", "https://")):
        try:
            host = urlsplit(text).hostname
        except ValueError:
            host = None
        if not host:
            raise BadInput("--notify names a URL without a host", fix="Give http://HOST/PATH or https://HOST/PATH.")
        return Notifier(url=text)
    try:
        argv = shlex.split(text)
    except ValueError as error:
        raise BadInput(f"--notify cannot be read as a command: {error}", fix="Close its quotes.") from error
    program = shutil.which(argv[0]) if argv else None
    if program is None:
        raise BadInput(
            "--notify names no program that exists",
            fix="Give a program on PATH with its arguments, or a URL. A shell's own syntax needs: sh -c '...'.",
        )
    return Notifier((program, *argv[1:]))


async def _post(url: str, body: bytes, name: str) -> None:
    import httpx  # late: most servers notify nobody

    headers = {"Content-Type": "application/json"}
    try:
        async with (
            httpx.AsyncClient(timeout=SECONDS, follow_redirects=False) as client,
            client.stream("POST", url, content=body, headers=headers) as answer,
        ):
            delivered, status = answer.is_success, answer.status_code  # the content says nothing
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _failed(name, type(error).__name__) from error
    if not delivered:
        raise _failed(name, f"it answered {status}")


async def _run_command(argv: tuple[str, ...], body: bytes, name: str) -> None:
    with tempfile.TemporaryFile() as message:
        message.write(body + b"\n")
        message.seek(0)
        try:
            # The user's own program gets all of the user's variables.
            ended = await process.run(
                argv, cwd=Path(tempfile.gettempdir()), env=os.environ, timeout=SECONDS, stdin=message.fileno()
            )
        except LabError as error:
            raise _failed(name, error.message) from error
    if ended.returncode != 0:
        raise _failed(name, f"it ended with code {ended.returncode}")


def _failed(name: str, why: str) -> AlertNotDelivered:
    return AlertNotDelivered(f"{name} was not notified: {why}")
