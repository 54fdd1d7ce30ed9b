"""Programs are limited, killed as a group, and never outlive the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base import process
from prime_lab_mcp.lab.base.errors import ProcessError

pytestmark = pytest.mark.anyio
PYTHON = sys.executable


async def run(code: str, cwd: Path, timeout: float = 20, **options: object) -> process.CompletedProcess:
    env = process.clean_environment()
    return await process.run([PYTHON, "-c", code], cwd=cwd, env=env, timeout=timeout, **options)  # type: ignore[arg-type]


async def gone(pid: int) -> bool:
    with anyio.move_on_after(10):
        while process.is_alive(pid):
            await anyio.sleep(0.01)
        return True
    return False


async def test_output_and_exit_code_are_returned(tmp_path: Path) -> None:
    done = await run("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")


async def test_standard_input_is_empty(tmp_path: Path) -> None:
    done = await run("import sys; print(repr(sys.stdin.read()))", tmp_path)
    assert done.stdout == "''\n"


async def test_lines_are_seen_as_they_come(tmp_path: Path) -> None:
    lines: list[str] = []
    await run("for i in range(3): print(i, flush=True)", tmp_path, on_line=lines.append)
    assert lines == ["0", "1", "2"]


async def test_a_program_that_does_not_end_is_stopped_with_its_last_words(tmp_path: Path) -> None:
    code = "import time, signal; signal.signal(15, signal.SIG_IGN); print('last words', flush=True); time.sleep(600)"
    started = time.monotonic()
    with pytest.raises(ProcessError, match="last words") as raised:
        await run(code, tmp_path, timeout=1)
    assert raised.value.code == "process-timeout"
    assert time.monotonic() - started < 8


async def test_a_flood_is_stopped_as_process_error(tmp_path: Path) -> None:
    with pytest.raises(ProcessError) as raised:
        await run("while True: print('x' * 65536)", tmp_path, output_limit=1000)
    assert raised.value.code == "process-flood"


async def test_only_the_newest_output_is_kept(tmp_path: Path) -> None:
    done = await run("print('a' * 5000 + 'end')", tmp_path, output_limit=100)
    assert len(done.stdout) == 100
    assert done.stdout.endswith("end\n")


async def test_what_a_program_leaves_in_its_group_ends_with_it(tmp_path: Path) -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '600']).pid)"
    done = await run(code, tmp_path)
    assert await gone(int(done.stdout))


async def test_a_daemon_that_keeps_the_pipes_open_does_not_keep_us(tmp_path: Path) -> None:
    code = "import subprocess; print(subprocess.Popen(['sleep', '30'], start_new_session=True).pid)"
    started = time.monotonic()
    done = await run(code, tmp_path)
    assert time.monotonic() - started < 10
    os.kill(int(done.stdout), signal.SIGKILL)


async def test_cancelling_kills_the_group(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    code = f"""
import os, subprocess, time
child = subprocess.Popen(['sleep', '600'])
open({str(note)!r} + '.part', 'w').write(f'{{os.getpid()}} {{child.pid}}')
os.rename({str(note)!r} + '.part', {str(note)!r})
time.sleep(600)
"""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, code, tmp_path, 60)
        with anyio.fail_after(20):
            while not note.exists():
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    for pid in note.read_text(encoding="utf-8").split():
        assert await gone(int(pid))


@pytest.mark.parametrize("descriptors", [0, 40])
def test_a_child_dies_with_a_killed_server(descriptors: int) -> None:
    server = f"""
import anyio, os, sys
from pathlib import Path
from typing import Any
from prime_lab_mcp.lab.base import process
held = [os.open('/dev/null', os.O_RDONLY) for _ in range({descriptors})]
async def main():
    child = await process.spawn(['sleep', '600'], cwd=Path('/'), env=process.clean_environment())
    print(child.process.pid, flush=True)
    await anyio.sleep(600)
anyio.run(main)
"""
    running = subprocess.Popen([PYTHON, "-c", server], stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    pid = int(running.stdout.readline())
    assert process.is_alive(pid)
    running.kill()
    running.wait()
    assert anyio.run(gone, pid)


async def test_closing_a_child_twice_is_safe_and_asks_before_it_kills(tmp_path: Path) -> None:
    code = (
        "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(5)); print('up', flush=True); time.sleep(600)"
    )
    child = await process.spawn([PYTHON, "-c", code], cwd=tmp_path, env=process.clean_environment())
    assert child.process.stdout is not None
    assert await child.process.stdout.receive() == b"up\n"
    await child.close(grace=10)
    await child.close()
    assert child.returncode == 5


async def test_a_missing_program_and_a_missing_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="no-such-program-here") as raised:
        await process.spawn(["no-such-program-here"], cwd=tmp_path, env=process.clean_environment())
    assert raised.value.code == "program-missing"
    with pytest.raises(ProcessError, match="folder"):
        await process.spawn([PYTHON], cwd=tmp_path / "gone", env=process.clean_environment())


async def test_environment_of_untrusted_code_has_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIME_API_KEY", "x" * 20)
    monkeypatch.setenv("HF_TOKEN", "y" * 20)
    monkeypatch.setenv("UV_INDEX_URL", "https://example.org/simple")
    kept = process.clean_environment(allow=("HF_TOKEN",))
    assert "PRIME_API_KEY" not in kept
    assert kept["HF_TOKEN"] == "y" * 20
    assert "UV_INDEX_URL" not in kept
    assert process.installer_environment()["UV_INDEX_URL"] == "https://example.org/simple"
    assert process.installer_environment()["UV_PYTHON_DOWNLOADS"] == "never"


async def test_a_supervisor_outlives_the_call_and_is_seen_to_end(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "job.log"
    argv = [PYTHON, "-c", "print('worked')"]
    pid = process.spawn_detached(argv, cwd=tmp_path, env=process.clean_environment(), log=log)
    assert await gone(pid)
    assert log.read_text(encoding="utf-8") == "worked\n"


async def test_a_program_whose_arguments_are_too_long_is_not_started_and_says_so(tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match="could not be started: Argument list too long"):
        await run(f"'{'x' * 3_000_000}'", tmp_path)


def test_a_process_that_has_ended_has_no_arguments_and_no_start() -> None:
    assert process.command_line(999_999_999) == ()
    assert process._start_of(999_999_999) is None


async def test_a_start_that_is_cancelled_leaves_no_descriptor_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_: Any, **__: Any) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(anyio, "open_process", never)
    before = set(os.listdir("/dev/fd"))
    with anyio.move_on_after(0.01) as scope:
        await process.spawn([sys.executable, "-c", ""], cwd=tmp_path, env={})
    assert scope.cancelled_caught
    assert set(os.listdir("/dev/fd")) == before
