"""Code that hangs, dies, floods, lies or leaves processes behind: told in bounded time, and the next call works."""

from __future__ import annotations

import time
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import WorkerError
from prime_lab_mcp.lab.sandbox.kernel_support import present_support
from prime_lab_mcp.lab.worker.faults import LoadFailed
from prime_lab_mcp.lab.worker.pool import Workers
from tests.support.scoring import problems

from .conftest import Opened, Write, own_interpreter, running, said

pytestmark = pytest.mark.anyio

GARBAGE = "for fd in range(3, 64):\n  try: os.write(fd, b'garbage\\n')\n  except OSError: pass"


async def works(write: Write, opened: Opened) -> bool:
    async with opened(write()) as worker:
        return (await worker.score([said(1, "2")]))[0].reward == 2.0


@pytest.mark.rotate(share=2)
@pytest.mark.parametrize(
    ("top", "code", "words"),
    [
        ("time.sleep(600)", "worker-timeout", "loading"),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass", "worker-timeout", "loading"),
        ("print('the last words', flush=True)\nos._exit(7)", "worker-exited", "exit code 7.*the last words"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "worker-exited", "signal 11"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "worker-memory", "memory"),
        ("x = 'x' * 65536\nwhile True: print(x)", "worker-flood", "output"),
        ("x = b'x' * 65536\nwhile True: os.write(2, x)", "worker-flood", "output"),
        ("os.closerange(3, 4096)", "worker-exited", "exit code 73"),
        (GARBAGE, "worker-nonsense", "garbage"),
        ("for fd in range(3, 64):\n  try: os.write(fd, b'[1]\\n')\n  except OSError: pass", "worker-nonsense", "1"),
        (
            'for fd in range(3, 64):\n  try: os.write(fd, b\'{"id": 1, "result": {"kind": 3}}\\n\')\n'
            "  except OSError: pass",
            "worker-nonsense",
            "kind",
        ),
        ("big = bytearray(8 << 30)", "worker-memory", "memory"),
        (
            "os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(600)",
            *(
                ("confined", "signal")
                if present_support().processes == "confined"
                else ("worker-exited", "no exit code")
            ),
        ),
    ],
)
async def test_hostile_code_at_import_is_told_and_the_next_call_works(
    write: Write, opened: Opened, top: str, code: str, words: str
) -> None:
    assert await works(write, opened)
    started = time.perf_counter()
    with pytest.raises(WorkerError, match=words) as raised:
        async with opened(write(top=top)) as worker:
            await worker.load(timeout=4)
    assert raised.value.code == code
    assert raised.value.fix
    assert time.perf_counter() - started < 20
    assert await works(write, opened)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("exec('while True: pass')", "timeout"),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)", "timeout"),
        ("os._exit(9)", "exited"),
        ("os.kill(os.getpid(), signal.SIGABRT)", "exited"),
        ("os.write(1, b'x' * (80 << 20))", "flood"),
        (f"exec({GARBAGE!r})", "nonsense"),
        ("threading.Thread(target=time.sleep, args=(600,)).start(); os._exit(0)", "exited"),
        ("import ctypes; ctypes.string_at(0)", "exited"),
    ],
)
async def test_a_reward_that_breaks_its_process_costs_one_case(
    write: Write, opened: Opened, bad: str, problem: str
) -> None:
    reward = f"if trace.last_reply == 'BAD': {bad}"
    cases = [said(1, "2", "a"), said(1, "BAD", "b"), said(1, "2", "c"), said(2, "4", "d")]
    async with opened(write(reward=reward)) as worker:
        scored = await worker.score(cases, case_timeout=1.0)
    assert [s.id for s in scored] == ["a", "b", "c", "d"]
    assert [s.reward for s in scored] == [2.0, None, 2.0, 2.0]
    assert problems(scored[1]) == (problem,)
    assert scored[1].errors[0].type.startswith("worker-")


async def test_a_reward_that_always_hangs_ends_early(write: Write, opened: Opened) -> None:
    started = time.perf_counter()
    async with opened(write(reward="time.sleep(600)")) as worker:
        scored = await worker.score([said(1, "2")] * 30, case_timeout=0.2)
    assert len(scored) == 30
    assert problems(scored[-1]) == ("not-run",)
    assert {s.reward for s in scored} == {None}
    assert time.perf_counter() - started < 90


async def test_all_cases_together_have_a_limit_too(write: Write, opened: Opened) -> None:
    async with opened(write(reward="await asyncio.sleep(0.4)")) as worker:
        await worker.load()
        with pytest.raises(WorkerError, match="scoring all cases") as raised:
            await worker.score([said(1, "2")] * 50, timeout=2)
        assert raised.value.code == "worker-timeout"
        assert (await worker.score([said(1, "2")]))[0].reward == 2.0


async def test_a_taskset_that_hangs_while_it_yields_is_told(write: Write, opened: Opened) -> None:
    with pytest.raises(WorkerError, match="loading"):
        async with opened(write(load="time.sleep(600)")) as worker:
            await worker.load(timeout=1)


async def test_a_taskset_that_raises_while_it_yields_is_a_flaw(write: Write, opened: Opened) -> None:
    with pytest.raises(LoadFailed, match="no data") as raised:
        async with opened(write(load="raise FileNotFoundError('no data')")) as worker:
            await worker.load()
    assert raised.value.where is not None
    assert raised.value.where.startswith("sample.py:")


async def test_rows_too_large_to_pass_on_are_told(write: Write, opened: Opened) -> None:
    tree = write()
    code = (tree / "sample.py").read_text(encoding="utf-8").replace("answer=str(2 * i)", "answer='x' * 199_000")
    (tree / "sample.py").write_text(code, encoding="utf-8")
    async with opened(tree, env_args={"count": 400}) as worker:
        assert (await worker.load()).tasks == 400
        with pytest.raises(LoadFailed, match="can be passed on"):
            await worker.rows(limit=400)
        assert len((await worker.rows(limit=5)).rows) == 5


FORKS = """
mark = "{mark}"
def sleeper():
    os.execvpe("sleep", ["sleep", "600"], {{"MARK": mark, "PATH": os.environ["PATH"]}})
for kind in range(3):
    if os.fork() == 0:
        if kind == 1:
            os.setsid()
        if kind == 2:
            os.setsid()
            if os.fork():
                os._exit(0)
        for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)
        sleeper()
"""


@pytest.mark.parametrize("end", ["time.sleep(600)", "os._exit(1)", "raise RuntimeError", "os.kill(os.getppid(), 9)"])
async def test_processes_that_escape_their_group_are_killed_too(write: Write, opened: Opened, end: str) -> None:
    mark = f"escaped-{uuid4().hex}"
    started = f"while int(os.popen('grep -l {mark} /proc/[0-9]*/environ 2>/dev/null | wc -l').read()) < 3: pass\n"
    with pytest.raises((WorkerError, LoadFailed)):
        async with opened(write(top=FORKS.format(mark=mark) + started + end + "\ntime.sleep(600)")) as worker:
            await worker.load(timeout=8)
    with anyio.fail_after(10):
        while running(f"MARK={mark}"):
            await anyio.sleep(0.02)
    assert await works(write, opened)


async def test_a_burst_of_forks_ends_with_the_call(write: Write, opened: Opened) -> None:
    mark = f"burst-{uuid4().hex}"
    top = f"""
    os.environ["MARK"] = "{mark}"
    for _ in range(40):
        if os.fork() == 0:
            os.execvp("sleep", ["sleep", "600"])
    time.sleep(600)
    """
    with pytest.raises(WorkerError):
        async with opened(write(top=top)) as worker:
            await worker.load(timeout=3)
    assert running(f"MARK={mark}") == []


async def test_cancelling_a_call_kills_the_child_that_was_running_code(write: Write, opened: Opened) -> None:
    mark = f"cancelled-{uuid4().hex}"
    top = f'os.execvpe("sleep", ["sleep", "600"], {{"MARK": "{mark}", "PATH": os.environ["PATH"]}})'
    async with anyio.create_task_group() as tasks:

        async def load() -> None:
            async with opened(write(top=top)) as worker:
                await worker.load()

        tasks.start_soon(load)
        with anyio.fail_after(20):
            while not running(f"MARK={mark}"):
                await anyio.sleep(0.02)
        tasks.cancel_scope.cancel()
    assert running(f"MARK={mark}") == []
    assert await works(write, opened)


async def test_closing_the_pool_ends_warm_and_busy_children(write: Write, tmp_path: Path, workers: Workers) -> None:
    pool = Workers(workers._settings)
    mark = f"busy-{uuid4().hex}"
    tree = write(top=f'os.execvpe("sleep", ["sleep", "600"], {{"MARK": "{mark}", "PATH": os.environ["PATH"]}})')
    codes: list[str] = []
    async with anyio.create_task_group() as tasks:

        async def load() -> None:
            try:
                async with pool.open(tree, "busy", own_interpreter(), api="v1", module="sample") as worker:
                    await worker.load()
            except WorkerError as error:
                codes.append(error.code)

        tasks.start_soon(load)
        with anyio.fail_after(30):
            while not running(f"MARK={mark}"):
                await anyio.sleep(0.02)
        await pool.close()
    assert codes
    assert running(f"MARK={mark}") == []


async def test_a_zygote_that_was_killed_is_started_again(write: Write, opened: Opened, workers: Workers) -> None:
    assert await works(write, opened)
    (zygote,) = workers._zygotes.values()
    assert zygote._child is not None
    zygote._child.kill()
    assert await works(write, opened)


async def test_concurrent_calls_on_one_snapshot_each_get_a_child(write: Write, opened: Opened) -> None:
    tree = write(reward="await asyncio.sleep(0.3)")
    results: list[float | None] = []

    async def call() -> None:
        async with opened(tree) as worker:
            results.append((await worker.score([said(1, "2")]))[0].reward)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(call)
    assert results == [2.0] * 4
