"""Starts a broker of containers, and gives confined code access to it."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

from prime_lab_mcp.lab.base import process
from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.sandbox.containers.commands import PODMAN
from prime_lab_mcp.lab.sandbox.policy import LIBRARIES

CONTAINER_VARIABLES = (
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
    "CONTAINERS_CONF",
    "CONTAINERS_CONF_OVERRIDE",
    "CONTAINERS_REGISTRIES_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINER_HOST",
    "CONTAINER_CONNECTION",
    "CONTAINER_SSHKEY",
    *process.PROXY_VARIABLES,
)
"""Variables of the user with which Podman finds its service, its images and the way to a registry."""
_ACCESS = "PRIME_LAB_CONTAINERS"
"""The variable in which the client (site/podman_client.py) finds the broker's port and secret."""
_CLIENT = LIBRARIES / "podman_client.py"
_START_SECONDS = 90.0
_END_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ContainerAccess:
    """A running broker. `variables` give a process access to it."""

    port: int
    token: str

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of confined code that may use the broker."""
        return {_ACCESS: f"{self.port} {self.token}"}


def podman_is_installed() -> bool:
    """Whether the program `podman` is on this machine. Whether it works, only the start of a broker shows."""
    return process.which(PODMAN) is not None


def read_report(file: Path) -> dict[str, Any]:
    """Return the report of a broker: containers `started`, and counts of `refused` and `failed`. Empty without one."""
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return report if isinstance(report, dict) else {}


@asynccontextmanager
async def container_broker(
    label: str, report_file: Path | None = None, *, most: int, seconds: float
) -> AsyncIterator[ContainerAccess]:
    """Run a broker whose containers carry `label`. At the end, all containers with this label are removed.

    `most` is the largest number of containers at the same time, and `seconds` how long each may exist. Raises LabError
    (`eval-needs-sandbox`) if Podman does not work.
    """
    report = str(report_file) if report_file is not None else None
    settings = {"label": label, "most": most, "seconds": int(seconds), "report": report}
    environment = process.clean_environment(allow=CONTAINER_VARIABLES)
    command = process.own_module_command("sandbox.containers.broker", json.dumps(settings))
    broker = await process.open_helper(command, cwd=Path("/"), env=environment)
    try:
        answer = await _first_line(broker)
        if "port" not in answer:
            raise _podman_broken(answer.get("error") or "its broker did not start")
        yield ContainerAccess(int(answer["port"]), str(answer["token"]))
    finally:
        with anyio.CancelScope(shield=True):
            assert broker.stdin is not None
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await broker.stdin.aclose()
            with anyio.move_on_after(_END_SECONDS):
                await broker.wait()
            if broker.returncode is None:
                broker.kill()
            await broker.aclose()


def _podman_broken(why: str) -> LabError:
    return LabError(
        f"Podman does not work on this machine: {quote(why, 400)}",
        fix=Fix(
            "Ask the user to run `podman run --rm docker.io/library/python:3.11-slim true` in a shell and to mend what "
            "it says, then call ",
            NamedCall("run_eval"),
            " again.",
        ),
        code="eval-needs-sandbox",
    )


async def _first_line(broker: Process) -> Mapping[str, Any]:
    assert broker.stdout is not None
    received = b""
    with anyio.move_on_after(_START_SECONDS), suppress(anyio.EndOfStream):
        while not received.endswith(b"\n"):
            received += await broker.stdout.receive()
    try:
        answer = json.loads(received)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def write_client(folder: Path, python: Path) -> None:
    """Write the program `podman` into a folder, for the PATH of confined code. `python` runs it."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / PODMAN
    command = shlex.join([str(python), "-I", "-S", str(_CLIENT)])
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    os.chmod(program, 0o755)
