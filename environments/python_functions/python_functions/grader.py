"""The process that runs the tests, apart from the code of the reply, which runs in another one (candidate.py).

It is sent with its job as one zip file (grading.py), takes the file away before any of the reply's code runs, and tells
its verdict in a line with a token that only the asker knows. A test is passed when nothing is raised. The functions
that it calls stand for those of the reply and give back plain values, so what a test compares is compared here.
"""

from __future__ import annotations

import builtins
import json
import math
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn

from python_functions.processes import Job, shield, start, sweep

MOST_ANSWERED = 8_000_000
"""Bytes of the answer to one call."""
_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]+(?:e[-+]?[0-9]+)?", re.I)
_SWALLOWED = frozenset({"StopIteration", "StopAsyncIteration", "GeneratorExit"})
"""Errors that would end a loop of a test instead of failing it."""


class Over(BaseException):
    """The reply's process is gone, stuck or talks nonsense: no test can pass any more."""


class Unfair(BaseException):
    """The tests ask for something that cannot be asked of another process."""


class Remote:
    """An object in the reply's process: a function, a class, an instance. Equal to itself only."""

    def __init__(self, line: Line, at: Mapping[str, Any]) -> None:
        self._remote_line, self._remote_at = line, dict(at)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._remote_line.call(self._remote_at, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "of" not in self._remote_at:
            raise AttributeError(name)
        return self._remote_line.ask({"do": "get", **self._remote_at, "name": name})


class Line:
    """The connection to the reply's process."""

    def __init__(self, candidate: ModuleType, source: str, job: Job, folder: str) -> None:
        self.encode, self.decode = candidate.encode, candidate.decode
        self.deadline = time.monotonic() + job["limits"]["wall"]
        self.calls, self.over = 0, False
        self.unfair: str | None = None
        theirs, self.ours = os.pipe()
        self.answers, back = os.pipe()
        start(source, "calls", job, folder, (theirs, back))
        os.close(theirs)
        os.close(back)
        self.waiting = b""

    def call(self, at: Mapping[str, Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        self.calls += 1
        told = self._exchange(
            {
                "do": "call",
                **at,
                "args": [self._encoded(a) for a in args],
                "kwargs": {name: self._encoded(a) for name, a in kwargs.items()},
            }
        )
        for mine, changed in zip(args, told.get("args") or (), strict=False):
            self._change(mine, changed)
        return self._decoded(told["value"])

    def ask(self, question: Mapping[str, Any]) -> Any:
        return self._decoded(self._exchange(question)["value"])

    def _change(self, mine: Any, changed: Any) -> None:
        """What the call did to a list, dict or set that it was given."""
        if type(mine) in (list, dict, set) and isinstance(changed, list) and changed[:1] == [type(mine).__name__]:
            found = self._decoded(changed)
            mine.clear()
            mine.extend(found) if isinstance(mine, list) else mine.update(found)

    def _encoded(self, value: Any) -> Any:
        def keep(kept: Any) -> int:
            if isinstance(kept, Remote) and "of" in kept._remote_at:
                return int(kept._remote_at["of"])
            self.unfair = f"a test gives the code a {type(kept).__name__}, which cannot cross between processes"
            raise Unfair

        return self.encode(value, keep)

    def _decoded(self, told: Any) -> Any:
        try:
            return self.decode(told, lambda number: Remote(self, {"of": number}))
        except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError) as error:
            self._end(error)

    def _exchange(self, question: Mapping[str, Any]) -> Any:
        if self.over:
            raise Over
        try:
            os.write(self.ours, json.dumps(question).encode() + b"\n")
            told = json.loads(self._line())
        except (OSError, ValueError, RecursionError) as error:
            self._end(error)
        if not isinstance(told, dict) or not ("value" in told or "raised" in told):
            self._end(ValueError("nonsense"))
        if "raised" in told:
            raise _error(str(told["raised"]), str(told.get("message")))
        return told

    def _line(self) -> bytes:
        while b"\n" not in self.waiting:
            ready, _, _ = select.select([self.answers], [], [], max(0.0, self.deadline - time.monotonic()))
            part = os.read(self.answers, 1 << 16) if ready else b""
            if not part or len(self.waiting) > MOST_ANSWERED:
                raise OSError("no answer")
            self.waiting += part
        line, _, self.waiting = self.waiting.partition(b"\n")
        return line

    def _end(self, error: Exception) -> NoReturn:
        self.over = True
        raise Over from error


def _error(name: str, message: str) -> Exception:
    """The error that a call raised, for tests that expect one; only ordinary errors of Python keep their kind."""
    kind = getattr(builtins, name, None)
    ordinary = isinstance(kind, type) and issubclass(kind, Exception) and name not in _SWALLOWED
    try:
        return kind(message) if ordinary and isinstance(kind, type) else RuntimeError(f"{name}: {message}")
    except TypeError:
        return RuntimeError(f"{name}: {message}")


def run_tests(candidate: ModuleType, source: str, job: Job, folder: str) -> tuple[bool, str | None]:
    """(passed, what is wrong with the tests themselves)."""
    space: dict[str, Any] = {"__name__": "tests"}
    try:
        exec(compile(job["prelude"], "prelude.py", "exec"), space)
        tests = compile(job["tests"], "tests.py", "exec")
    except Exception as error:
        return False, f"the tests cannot be prepared: {type(error).__name__}: {error}"
    line = Line(candidate, source, job, folder)
    space.update({name: Remote(line, {"name": name}) for name in job["names"]})
    try:
        line.ask({"do": "load", "code": job["code"]})
        exec(tests, space)
    except BaseException:
        return False, line.unfair
    return line.calls > 0 and not line.over, line.unfair if line.calls else "the tests call nothing of the code"


def run_cases(source: str, job: Job, folder: str) -> bool:
    """Every input gives the output that is wanted."""
    return all(_right(_output(source, job, folder, case["input"]), case["output"]) for case in job["cases"])


def _output(source: str, job: Job, folder: str, given: str) -> str | None:
    """What the code prints for an input; None when it fails."""
    code, ours = os.pipe()
    with tempfile.TemporaryFile(dir=folder) as stdin, tempfile.TemporaryFile(dir=folder) as stdout:
        stdin.write(given.encode())
        stdin.seek(0)
        process = start(source, "program", job, folder, (code,), stdin=stdin, stdout=stdout)
        os.close(code)
        try:
            with os.fdopen(ours, "w", encoding="utf-8") as pipe:
                pipe.write(job["code"])
            ended = process.wait(job["limits"]["wall"])
        except (OSError, subprocess.TimeoutExpired):
            return None
        finally:
            sweep()
        stdout.seek(0)
        return stdout.read(job["limits"]["output"] + 1).decode(errors="replace") if ended == 0 else None


def _right(printed: str | None, wanted: str) -> bool:
    """The same lines of the same words; numbers with a point may differ by a millionth."""
    if printed is None:
        return False
    ours, theirs = ([line.split() for line in text.strip().splitlines()] for text in (printed, wanted))
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(map(_same_word, a, b)) for a, b in zip(ours, theirs, strict=True)
    )


def _same_word(ours: str, theirs: str) -> bool:
    if ours == theirs:
        return True
    if not (_DECIMAL.fullmatch(theirs) and len(ours) < 50 and re.fullmatch(r"-?[0-9.]+(?:e[-+]?[0-9]+)?", ours, re.I)):
        return False
    try:
        return math.isclose(float(ours), float(theirs), rel_tol=1e-6, abs_tol=1e-9)
    except ValueError:
        return False


def main(candidate: ModuleType) -> None:
    """Grade the job in the zip file that this program is, and tell the verdict."""
    with zipfile.ZipFile(sys.argv[0]) as bundle:
        job = json.loads(bundle.read("job.json"))
        source = bundle.read(f"{__package__}/candidate.py").decode()
    os.unlink(sys.argv[0])
    told = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    shield()
    os.write(told, json.dumps({"token": job["token"], "ready": True}).encode() + b"\n")
    verdict = _graded(candidate, source, job)
    os.write(told, json.dumps({"token": job["token"], **verdict}).encode() + b"\n")
    os._exit(0)


def _graded(candidate: ModuleType, source: str, job: Job) -> dict[str, Any]:
    late: list[int] = []

    def alarm(number: int, frame: object) -> NoReturn:
        late.append(number)
        raise Over

    signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, job["limits"]["wall"], 1.0)
    folder = tempfile.mkdtemp(prefix="grade-")
    passed, unfair = False, None
    try:
        if job["cases"]:
            passed = run_cases(source, job, folder)
        else:
            passed, unfair = run_tests(candidate, source, job, folder)
    except Over:
        passed = False
    except Exception as error:  # of this program itself; the reply is not to blame
        unfair = f"the grader failed: {type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sweep()
        shutil.rmtree(folder, ignore_errors=True)
    return {"passed": passed and not late, "unfair": None if late else unfair}
