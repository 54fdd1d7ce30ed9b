"""A state directory on a full disk, where every call is answered and the server goes on, and one that is read-only."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from tests.endurance.killing import NAME
from tests.endurance.servers import Place, StdioServer
from tests.endurance.tally import Tally
from tests.lab.evals.conftest import write_environment

_SIZE = 24_000_000
_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("workflow_status", {}),
    ("check_environment", {"environment": NAME}),
    ("edit_environment", {"environment": NAME, "path": "NOTES.md", "new": "more"}),
    ("read_reference", {"topic": "guide/workflow"}),
    ("preflight", {}),
    ("submit_training", {"environment": NAME, "model": "Qwen/Qwen3-4B"}),
)


def fill_disks(place: Place, tally: Tally) -> None:
    """Needs the right to mount; elsewhere the tally says that this was not tried."""
    place.state.mkdir(parents=True, exist_ok=True)
    if not _mount("-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(place.state)):
        tally.skipped.append("a full disk and a read-only state: this user may not mount")
        return
    try:
        write_environment(place.workspace)
        _full(place, tally)
        _read_only(place, tally)
    finally:
        subprocess.run(["umount", "--lazy", str(place.state)], check=False, capture_output=True)


def _full(place: Place, tally: Tally) -> None:
    server, filler = StdioServer(place).start(), place.state / "filler"
    _calls(server, tally, "before the disk is full")
    _fill(filler)
    _calls(server, tally, "on a disk that filled up")
    late = StdioServer(place).start()
    _calls(late, tally, "by a server that started on a full disk")
    filler.unlink()
    for one, what in ((server, "the server before"), (late, "the server that started on it")):
        report = one.call("workflow_status", {}, 120)
        if report is None or report.get("status") != "passed":
            tally.flaw("crashes", f"after the full disk had room again, {what} said {report}")
        if (code := one.end()) != 0:
            tally.flaw("crashes", f"{what} (of a full disk) ended with {code}")


def _read_only(place: Place, tally: Tally) -> None:
    """Only a file system on which no file is open for writing can turn read-only, so no server runs meanwhile."""
    if not _mount("-o", "remount,ro", str(place.state)):
        tally.skipped.append("a read-only state: the file system is in use")
        return
    ended = subprocess.run(place.command(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    tally.count("starts on a read-only state, refused with a way on")
    if ended.returncode != 2 or "--state-dir" not in ended.stderr or "Traceback" in ended.stderr:
        tally.flaw("crashes", f"on a read-only state: {ended.returncode}, {ended.stderr[-300:]}")
    _mount("-o", "remount,rw", str(place.state))


def _calls(server: StdioServer, tally: Tally, when: str) -> None:
    for tool, arguments in _CALLS:
        report = server.call(tool, arguments, 120)
        tally.count(f"calls, {when}")
        if report is None:
            tally.flaw("crashes", f"{tool} was not answered ({when})")
        elif '"internal-error"' in str(report).replace("'", '"'):
            tally.flaw("crashes", f"{tool} ({when}): {report.get('summary')} {report.get('findings')}")


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while file.write(b"\0" * size):
                    pass
            except OSError:
                continue


def _mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], check=False, capture_output=True).returncode == 0
