"""Starts the rehearsal platform and directs `prime` and `vf-eval` to it. The server imports this module, so its imports
are light.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from prime_lab_mcp.lab.base.errors import PrimeError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.process import ChildProcess, clean_environment, spawn
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.rehearsal import schema_cache

KEY = "rehearsal-key-0000"
"""Accepted by the rehearsal platform and by nothing else."""
INFERENCE_PATH = "/inference/v1"
_READY_SECONDS = 30.0
_LOG = "platform.log"


def environment(url: str, home: Path) -> dict[str, str]:
    """Return variables with which `prime` and `vf-eval` use only the platform at `url`.

    `home`, created if missing, replaces the user's home folder, so that login and push records stay unchanged. uv uses
    the user's cache, and prime finds its config schema. Add the variables to `process.clean_environment()`.
    """
    home.mkdir(parents=True, exist_ok=True)
    schema_cache.fill(home / ".cache")
    return {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "UV_CACHE_DIR": _uv_cache(),
        "PRIME_API_KEY": KEY,
        "PRIME_API_BASE_URL": url,
        "PRIME_BASE_URL": url,
        "PRIME_FRONTEND_URL": url,
        "PRIME_INFERENCE_URL": inference_url(url),
        "PRIME_TRACES_URL": url,
        "PRIME_TRACES_OPT_OUT": "1",
        # Empty counts as unset: the user's team or context must not reach a rehearsal.
        "PRIME_TEAM_ID": "",
        "PRIME_CONTEXT": "",
        "PRIME_RUNS_MODE": "disabled",
        "PRIME_DISABLE_VERSION_CHECK": "1",
        **_no_proxy(),
    }


def inference_url(url: str) -> str:
    """Base address of the OpenAI-compatible endpoint."""
    return url + INFERENCE_PATH


def _uv_cache() -> str:
    if given := os.environ.get("UV_CACHE_DIR"):
        return given
    base = os.environ.get("XDG_CACHE_HOME")
    return str((Path(base) if base else Path.home() / ".cache") / "uv")


def _no_proxy() -> dict[str, str]:
    """NO_PROXY with the loopback addresses, which must not go through the user's proxy."""
    known = os.environ.get("NO_PROXY") or os.environ.get("no_proxy") or ""
    value = ",".join(filter(None, (known, "127.0.0.1", "localhost")))
    return {"NO_PROXY": value, "no_proxy": value}


async def start(state: Path, *, speed: float = 1.0, port: int = 0) -> tuple[ChildProcess, str]:
    """Start the platform on a state folder, and return its process and address when it answers.

    The process ends with this process. Raises PrimeError (`rehearsal-not-started`) if the platform does not start.
    """
    state.mkdir(parents=True, exist_ok=True)
    argv = [
        sys.executable,
        "-P",
        "-m",
        "prime_lab_mcp.rehearsal",
        "--state",
        str(state),
        "--speed",
        str(speed),
        "--port",
        str(port),
    ]
    with (state / _LOG).open("ab") as log:
        child = await spawn(argv, cwd=state, env=_own_environment(), stderr=log.fileno())
    try:
        return child, await _ready(child, state)
    except BaseException:
        await child.close()
        raise


def _own_environment() -> Mapping[str, str]:
    # The program must find this package even if the package is not installed.
    root = str(Path(__file__).resolve().parents[2])
    return clean_environment({"PYTHONPATH": root})


async def _ready(child: ChildProcess, state: Path) -> str:
    assert child.process.stdout is not None
    stream = BufferedByteReceiveStream(child.process.stdout)
    try:
        with anyio.fail_after(_READY_SECONDS):
            line = await stream.receive_until(b"\n", 4096)
        url: Any = json.loads(line)["url"]
    except (TimeoutError, anyio.IncompleteRead, anyio.DelimiterNotFound, ValueError, KeyError) as e:
        log = (state / _LOG).read_text(encoding="utf-8", errors="replace")
        raise PrimeError(
            f"the rehearsal platform did not start; it wrote: {quote(log[-300:])}",
            fix=Fix(
                "Run ", NamedCall("preflight"), "; if it passes, remove the rehearsal folder in the state directory."
            ),
            code="rehearsal-not-started",
        ) from e
    return str(url)


async def tell(url: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """POST to an admin route of the rehearsal, such as `/rehearsal/answers`. Raises PrimeError if it refuses."""
    import httpx

    headers = {"Authorization": f"Bearer {KEY}"}
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=20.0) as client:
            answer = await client.post(url + path, json=dict(body), headers=headers)
            answer.raise_for_status()
            document: dict[str, Any] = answer.json()
    except httpx.HTTPError as error:
        raise PrimeError(
            f"the rehearsal platform refused {path}: {quote(str(error))}",
            fix="Call again; the platform is started anew when it is gone.",
            code="rehearsal-failed",
        ) from error
    return document
