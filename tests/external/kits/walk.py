"""What every kit does with the server, and how its program says what came of it: one JSON line for each step.

Programs of kits run in the kit's own interpreter, which has neither this repository nor its packages. They are started
as `PYTHON KIT.py COMMAND STATE`, with the server's command as JSON, and import this module from their own folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import json
import os
import re
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

COMMAND: list[str] = json.loads(sys.argv[1])
STATE = Path(sys.argv[2])
NEW = {"name": "sums", "template": "numeric"}
"""Arguments of a `create_environment` that succeeds."""
UNPROVEN = {"environment": "sums"}
"""Arguments of a `push_environment` that is refused."""
GUIDE = "lab://guide/workflow"
PROMPT, TASK = "build_environment", "add numbers that a farmer wrote down"
MARKER = STATE / "hang.pid"
SPENT = STATE / "spent"
faulthandler.dump_traceback_later(400)  # a kit that hangs says where
STARTING = 120.0


def say(step: str, **facts: Any) -> None:
    """Print what came of a step."""
    print(json.dumps({"step": step, **facts}), flush=True)


def text_of(answer: Any) -> str:
    """All the text of an answer of any shape."""
    if isinstance(answer, str):
        return answer
    for dump in ("model_dump_json", "json"):
        if hasattr(answer, dump):
            return str(getattr(answer, dump)())
    return json.dumps(answer, default=str)


def token_in(text: str) -> str:
    """The token that a call which asks nobody returns, wherever it stands in the text that the model reads."""
    found = re.search(r"confirm\W+([\w-]{8,})", text)
    return found[1] if found else ""


async def cancelled(call: Callable[[], Awaitable[Any]], patience: float = 20.0) -> bool:
    """Start a call of `hang`, cancel it once its process runs, and return whether that process ends in time."""
    MARKER.unlink(missing_ok=True)
    running = asyncio.ensure_future(call())
    until = time.monotonic() + STARTING
    while not (MARKER.exists() and MARKER.read_text().strip()):
        if running.done() or time.monotonic() > until:
            return False
        await asyncio.sleep(0.05)
    pid = int(MARKER.read_text())
    await asyncio.sleep(0.3)
    running.cancel()
    with contextlib.suppress(BaseException):  # each kit raises its own
        await running
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if not alive(pid):
            return True
        await asyncio.sleep(0.05)
    return False


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
