"""Real servers of one rehearsal workspace over stdio and HTTP, for clients that misbehave."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.server.test_stdio import HELLO

SUPERVISED = re.compile(r"/evals/eval-|evals\.runner|evals\.hosted")
"""Processes of evaluations, which outlive the server on purpose until they end."""
_NAMES = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


@dataclass(frozen=True, slots=True)
class Place:
    """The workspace and the state directory that servers share."""

    root: Path

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def state(self) -> Path:
        return self.root / "state"

    def command(self, *more: str) -> list[str]:
        places = ["--workspace", str(self.workspace), "--state-dir", str(self.state)]
        return [sys.executable, "-m", "prime_lab_mcp", "serve", "--rehearsal", "--max-spend", "900000", *places, *more]

    def complaints(self) -> list[str]:
        """Lines of tracebacks and failed calls in what the servers wrote."""
        return [
            f"{file.name}: {line}"
            for file in sorted(self.root.glob("stderr-*"))
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines()
            if "Traceback" in line or re.search(r"call [0-9a-f]{8} of .* failed", line)
        ]

    def processes(self) -> list[str]:
        """Command lines of live processes of this place, without evaluations."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                if re.search(re.escape(str(self.state)) + r"(/|\s|$)", line) and not SUPERVISED.search(line):
                    found.append(line[:300])
        return found


class Usage:
    """Memory, descriptors and threads of a process."""

    def __init__(self, pid: int) -> None:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        self.kilobytes = int(fields["VmRSS"].split()[0])
        self.threads = int(fields["Threads"])
        self.descriptors = len(os.listdir(f"/proc/{pid}/fd"))

    def __str__(self) -> str:
        return f"{self.kilobytes // 1024} MiB, {self.descriptors} descriptors, {self.threads} threads"


class StdioServer:
    """A server over stdio. A thread reads the answers, so that nothing that is sent can block on them."""

    _numbers = itertools.count(1)

    def __init__(self, place: Place) -> None:
        place.workspace.mkdir(parents=True, exist_ok=True)
        self._stderr = place.root / f"stderr-{next(StdioServer._numbers)}"
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                place.command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env={**os.environ, **_NAMES},
            )
        self.answers: dict[Any, Mapping[str, Any]] = {}
        self.garbage: list[bytes] = []
        self._changed = threading.Condition()
        self._ids = itertools.count(
            101
        )  # threads that share a server take ids from it; `+= 1` gave two of them the same
        self._closing = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with suppress(ValueError, OSError), self.process.stdout:
            for line in self.process.stdout:
                if self._closing:
                    return
                try:
                    message = json.loads(line)
                except ValueError:
                    self.garbage.append(line[:200])
                    continue
                if isinstance(message, dict) and "id" in message and "method" not in message:
                    with self._changed:
                        self.answers[json.dumps(message["id"])] = message
                        self._changed.notify_all()

    def stop_reading(self) -> None:
        """Close the pipe of the answers, with the next one."""
        self._closing = True
        self.ask("ping")
        self._reader.join(5)

    def send(self, line: bytes) -> bool:
        """Write bytes. False: the server is gone."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
        except (OSError, ValueError):
            return False
        return True

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> int:
        """Send a request and return its id without waiting."""
        id = next(self._ids)
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        self.send(json.dumps(message | ({"params": params} if params is not None else {})).encode() + b"\n")
        return id

    def answer(self, id: Any, seconds: float = 60.0) -> Mapping[str, Any] | None:
        """Wait for the answer to a request; None if none came."""
        key, until = json.dumps(id), time.monotonic() + seconds
        with self._changed:
            while key not in self.answers:
                left = until - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    return self.answers.pop(key, None)
                self._changed.wait(min(left, 0.2))
            return self.answers.pop(key)

    def start(self) -> StdioServer:
        self.send(json.dumps(HELLO).encode() + b"\n")
        if self.answer(1, 180) is None:
            wrote = self._stderr.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise AssertionError(f"no answer to initialize; exit code {self.process.poll()}, stderr: {wrote}")
        self.send(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        return self

    def call(self, tool: str, arguments: Mapping[str, Any], seconds: float = 60.0) -> Mapping[str, Any] | None:
        """The report of a call, `refused` where the protocol has an error; None if no answer came."""
        answer = self.answer(self.ask("tools/call", {"name": tool, "arguments": arguments}), seconds)
        return None if answer is None else report(answer) or {"status": "refused", "data": {}}

    def kill(self) -> None:
        self.process.kill()
        self._over()

    def ends_within(self, seconds: float) -> bool:
        """Whether the process ends in time. `poll` says nothing while another thread waits for a killed process."""
        until = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        return self.process.poll() is not None

    def end(self, seconds: float = 30.0) -> int | None:
        """Close stdin and return the exit code; None if the server did not end."""
        with suppress(OSError, ValueError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None
        self._over()
        return code

    def _over(self) -> None:
        self.process.wait()
        self._reader.join(5)
        with suppress(OSError, ValueError):
            assert self.process.stdin is not None
            self.process.stdin.close()


class HttpServer:
    """A server over HTTP on a free port, with the address and the token that it printed."""

    def __init__(self, place: Place) -> None:
        place.workspace.mkdir(parents=True, exist_ok=True)
        log = place.root / "stderr-http"
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                place.command("--http", "127.0.0.1:0"),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={**os.environ, **_NAMES},
            )
        until = time.monotonic() + 60
        while len(lines := log.read_text(encoding="utf-8").splitlines()) < 2:
            if self.process.poll() is not None or time.monotonic() > until:
                raise AssertionError(f"the server over HTTP did not start: {lines}")
            time.sleep(0.05)
        self.url, self.token = lines[0].split()[-1], lines[1].split()[-1]

    def end(self) -> int | None:
        self.process.terminate()
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None


def report(answer: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The report in the answer to a call."""
    content = answer.get("result", {}).get("structuredContent") if answer is not None else None
    return content if isinstance(content, dict) else None


def wait_until_gone(place: Place, seconds: float = 20.0) -> Iterable[str]:
    """The processes of a place that are still there after so long, although no server is."""
    until = time.monotonic() + seconds
    while (left := place.processes()) and time.monotonic() < until:
        time.sleep(0.1)
    return left
