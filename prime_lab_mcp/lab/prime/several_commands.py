"""Runs several commands of `prime` in one process. The Python of `prime` runs this program, given as text.

Importing prime's modules takes most of a command's time. This program imports them once and forks for each command, so
that no command sees the state of another one. It prints one JSON list with exit code, output and errors of each
command. `whoami` runs first and alone, because it writes prime's configuration file, which the others read. Only the
standard library and prime are imported here.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from typing import IO, Any


def main(commands: list[list[str]]) -> None:
    """Run the commands, and print their results in the same order."""
    import prime_cli.main  # noqa: F401 - the forks find it imported

    first = [command for command in commands if "whoami" in command]
    answers = {tuple(command): _ended(_started(command)) for command in first}
    running = {tuple(command): _started(command) for command in commands if command not in first}
    answers |= {command: _ended(started) for command, started in running.items()}
    sys.stdout.write(json.dumps([answers[tuple(command)] for command in commands]))


def _started(command: list[str]) -> tuple[int, IO[bytes], IO[bytes]]:
    out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _ended
    err: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
    child = os.fork()
    if child:
        return child, out, err
    code = 1
    try:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        code = _run(command)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _run(command: list[str]) -> int:
    from prime_cli.main import run

    sys.argv = ["prime", *command]
    try:
        run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _ended(started: tuple[int, IO[bytes], IO[bytes]]) -> dict[str, Any]:
    child, out, err = started
    _, status = os.waitpid(child, 0)
    texts = []
    for stream in (out, err):
        stream.seek(0)
        texts.append(stream.read().decode("utf-8", "replace"))
        stream.close()
    return {"code": os.waitstatus_to_exitcode(status), "out": texts[0], "err": texts[1]}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
