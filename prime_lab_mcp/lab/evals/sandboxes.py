"""The container programs of this machine, and what a person can do where an evaluation needs one and there is none.

A hosted evaluation needs the environment on the Hub, a push needs a judged evaluation, and a local evaluation has no
key of a rented sandbox. An environment whose tasks run in a container is therefore evaluated on a machine with Podman
or Docker. Nobody can waive this: a person may waive a verdict, but not an evaluation that has never run.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, SameCall
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals.spec import DOCKER, PODMAN
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.snapshot import Snapshot

CONTAINERS = (PODMAN, DOCKER)
"""Runtimes of verifiers that run containers on this machine. Podman comes first, because it needs no service."""
APPTAINER = "apptainer"
"""A runtime of verifiers that is not offered. Apptainer makes a container with a user namespace or with a program that
gets the rights of root. The confinement refuses both to environment code."""
_DOCKER_SOCKETS = ("/var/run/docker.sock", "~/.docker/run/docker.sock")
_INSTALLS = {
    "linux": "Debian and Ubuntu: sudo apt install podman; Fedora: sudo dnf install podman",
    "darwin": "brew install podman, then podman machine init and podman machine start",
}


def installed_containers() -> tuple[str, ...]:
    """Return the runtimes whose program is installed. Docker also needs the socket of its service."""
    return tuple(name for name in CONTAINERS if shutil.which(name) and (name != DOCKER or _docker_serves()))


def _docker_serves() -> bool:
    return bool(os.environ.get("DOCKER_HOST")) or any(Path(path).expanduser().exists() for path in _DOCKER_SOCKETS)


def in_its_container(ledger: Ledger, workspace: str, snapshot: Snapshot, call: Next) -> Next:
    """Return a recommended evaluation with the installed container runtime, if the check of these files found that the
    tasks need one; any other call as it is."""
    given = call.arguments or {}
    if call.tool != "run_eval" or {"runtime", "rescore", "hosted"} & given.keys():
        return call
    checks = ledger.evidence(workspace, tool="check_environment", source=snapshot.source, limit=1)
    if not checks or not checks[0].data.get("container"):
        return call
    runtime = next(iter(installed_containers()), None)
    return call if runtime is None else replace(call, arguments={**given, "runtime": runtime})


def require_installed(runtime: str, installed: Sequence[str]) -> None:
    """Raise BadInput if a container runtime is named and its program is not installed."""
    if runtime in CONTAINERS and runtime not in installed:
        service = " or its service does not run" if runtime == DOCKER else ""
        raise _needs_sandbox(f"{runtime} is not installed on this machine{service}", installed)


def needs_container(why: str, installed: Sequence[str], *, subprocess: bool = False) -> BadInput:
    """Return the error for an evaluation that needs a container and names none.

    `subprocess` says that the programs of the model may also run on this machine without a container.
    """
    return _needs_sandbox(why, installed, subprocess=subprocess)


def _needs_sandbox(why: str, installed: Sequence[str], *, subprocess: bool = False) -> BadInput:
    fix: str = Fix()
    for name in installed:
        fix = fix + Fix(", or " if fix else "Pass ", _with_runtime(name))
    if not installed:
        where = _INSTALLS["darwin" if sys.platform == "darwin" else "linux"]
        fix = (
            f"Ask the user to install Podman here ({where}), then name it as the runtime of this call; or to build and "
            "prove the environment on a machine that has one. A hosted evaluation comes after the push, which needs "
            "this evaluation, and nobody can waive an evaluation that never ran"
        )
    fix = fix + "."
    if subprocess:
        fix = fix + Fix(
            " With ",
            SameCall(runtime="subprocess"),
            ", what the model writes runs on this machine without a container.",
        )
    return BadInput(why, fix=fix, code="eval-needs-sandbox")


def _with_runtime(runtime: str) -> SameCall:
    call = SameCall(runtime=runtime)
    return call.shown(f"{call.text} (the user is asked first)") if runtime == DOCKER else call


def container_message(agent: str, harness: str, runtime: str) -> str:
    """Return the sentence on an agent that is played in a sandbox which a local evaluation does not use unasked."""
    places = {
        DOCKER: "in containers of Docker, whose service can read and change everything on this machine",
        APPTAINER: "in containers of Apptainer, which cannot run confined",
    }
    rented = f"in the rented sandbox {quote(runtime, 40)}, for which a local evaluation has no key"
    place = places.get(runtime, rented)
    return f"its agent {quote(agent, 60)} is played by {quote(harness, 60)} {place}"
