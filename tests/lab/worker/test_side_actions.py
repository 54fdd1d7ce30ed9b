"""What a reward does while it scores is seen, and its number stands."""

from __future__ import annotations

import re
import time
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

from prime_lab_mcp.lab.rewards.probes.programs import CANARY_EXPRESSION, CANARY_PROGRAM
from prime_lab_mcp.lab.worker.child.protocol import CANARY
from prime_lab_mcp.lab.worker.child.side_effects import REFUSED
from prime_lab_mcp.lab.worker.scoring import Scored
from tests.support.interpreters import older
from tests.support.scoring import problems

from .conftest import Opened, Write, running, said

pytestmark = pytest.mark.anyio

LISTENER = """
listener = __import__("socket").create_server(("127.0.0.1", 0))
"""


async def scored(write: Write, opened: Opened, reward: str, text: str = "2", top: str = "") -> Scored:
    async with opened(write(reward=reward, top=top)) as worker:
        return (await worker.score([said(1, text)]))[0]


@pytest.mark.parametrize(
    ("reward", "text"),
    [
        ("eval(trace.last_reply)", CANARY_EXPRESSION),
        ("exec(trace.last_reply, {})", CANARY_PROGRAM),
        ("await asyncio.to_thread(eval, trace.last_reply)", CANARY_EXPRESSION),
        ("eval(compile(f'int({trace.last_reply})', '', 'eval'))", CANARY_EXPRESSION),
    ],
)
async def test_text_that_is_run_in_the_process_is_seen(write: Write, opened: Opened, reward: str, text: str) -> None:
    guarded = f"try: {reward}\nexcept Exception: pass"
    assert problems(await scored(write, opened, guarded, text)) == ("evaluated-output",)


async def test_an_evaluation_without_builtins_is_seen_although_it_fails(write: Write, opened: Opened) -> None:
    reward = "try: eval(trace.last_reply, {'__builtins__': {}})\nexcept Exception: pass"
    assert problems(await scored(write, opened, reward, CANARY_EXPRESSION)) == ("evaluated-output",)


@pytest.mark.parametrize(
    "reward",
    [
        "subprocess.run([sys.executable, '-c', trace.last_reply], timeout=20)",
        "__import__('ast').parse(trace.last_reply)",
        "compile(trace.last_reply, '', 'exec')",
        "eval(f'{trace.last_reply!r} == {self.data.answer!r}')",
        "pid = os.fork()\nif pid == 0:\n    exec(trace.last_reply)\n    os._exit(0)\nos.waitpid(pid, 0)",
    ],
)
async def test_a_program_run_elsewhere_or_only_read_is_none(write: Write, opened: Opened, reward: str) -> None:
    assert (await scored(write, opened, reward, CANARY_PROGRAM)).problems == ()


async def test_nothing_is_seen_while_the_environment_loads(write: Write, opened: Opened, tmp_path: Path) -> None:
    load = f"sys.audit({CANARY!r}); open('kept.txt', 'w').close()"
    async with opened(write(load=load)) as worker:
        assert (await worker.score([said(1, "2")]))[0].problems == ()


@pytest.mark.parametrize(
    "reach",
    [
        "__import__('urllib.request').request.urlopen('http://verdict.example/', timeout=2)",
        "__import__('socket').create_connection(('192.0.2.1', 80), timeout=2)",
        "await asyncio.open_connection('verdict.example', 443)",
    ],
)
async def test_connections_are_refused_and_named_and_the_number_stands(
    write: Write, opened: Opened, reach: str
) -> None:
    found = await scored(write, opened, f"try: {reach}\nexcept OSError as error: assert {REFUSED!r} in str(error)")
    assert found.reward == 2.0
    assert len(found.problems) == 1
    assert re.fullmatch(r"opened-network:(verdict\.example|192\.0\.2\.1)", problems(found)[0])


async def test_a_refused_connection_that_is_not_caught_says_why(write: Write, opened: Opened) -> None:
    found = await scored(write, opened, "__import__('socket').getaddrinfo('verdict.example', 80)")
    assert found.reward is None
    assert REFUSED in found.errors[0].message


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_connections_to_this_machine_are_let_through(write: Write, opened: Opened, host: str) -> None:
    reward = f"__import__('socket').create_connection(({host!r}, listener.getsockname()[1]), timeout=5).close()"
    found = await scored(write, opened, reward, top=LISTENER)
    assert (found.reward, found.problems) == (2.0, ())


async def test_a_proxy_on_this_machine_is_the_network(write: Write, opened: Opened) -> None:
    top = LISTENER + "os.environ['HTTPS_PROXY'] = f'http://127.0.0.1:{listener.getsockname()[1]}'"
    reward = "try: __import__('socket').create_connection(listener.getsockname(), timeout=5)\nexcept OSError: pass"
    assert problems(await scored(write, opened, reward, top=top)) == ("opened-network:127.0.0.1",)


@pytest.mark.parametrize(
    "write_it",
    [
        "open(PATH, 'a').close()",
        "os.close(os.open(PATH, os.O_CREAT | os.O_WRONLY))",
        "os.mkdir(PATH)",
        "open('own', 'w').close(); os.replace('own', PATH)",
        "os.symlink('own', PATH)",
        "__import__('sqlite3').connect(PATH).close()",
    ],
)
async def test_files_elsewhere_are_named(write: Write, opened: Opened, write_it: str) -> None:
    """Whether or not the kernel lets them be written."""
    path = f"/var/tmp/audit-{uuid4().hex}"
    remove = f"os.rmdir({path!r}) if os.path.isdir({path!r}) else os.remove({path!r})"
    reward = f"try:\n    {write_it.replace('PATH', repr(path))}\n    {remove}\nexcept Exception: pass"
    found = await scored(write, opened, reward)
    assert (found.reward, problems(found)) == (2.0, (f"wrote-files:{path}",))


async def test_a_file_of_the_package_is_named_relative_to_it(write: Write, opened: Opened) -> None:
    reward = "try: open(os.path.join(os.path.dirname(__file__), 'scores.tsv'), 'w').close()\nexcept OSError: pass"
    assert problems(await scored(write, opened, reward)) == ("wrote-files:scores.tsv",)


@pytest.mark.parametrize(
    "harmless",
    [
        "with __import__('tempfile').TemporaryDirectory() as d: open(d + '/a.py', 'w').close()",
        "open(os.devnull, 'w').close(); open(__file__).close()",
        "__import__('tempfile').TemporaryFile().close()",
        "os.makedirs('.cache/some', exist_ok=True); open('.cache/some/file', 'w').close()",
        "os.makedirs('out', exist_ok=True); open(f'out/{abs(hash(trace.last_reply))}', 'w').close()",
    ],
)
async def test_temporary_files_of_ones_own_are_none(write: Write, opened: Opened, harmless: str) -> None:
    async with opened(write(reward=harmless)) as worker:
        found = await worker.score([said(1, "2"), said(1, "2"), said(2, "3")])
    assert [problems(s) for s in found] == [(), (), ()]


async def test_one_file_for_different_completions_is_named(write: Write, opened: Opened) -> None:
    async with opened(write(reward="open('program.py', 'w').close()")) as worker:
        found = await worker.score([said(1, "2"), said(1, "2"), said(1, "3")])
    assert [problems(s) for s in found] == [(), (), ("reused-file:program.py",)]


LEFT = """
subprocess.Popen(["sleep", "30"], env={{"MARK": "{mark}", "PATH": os.environ["PATH"]}}, start_new_session={session})
"""
DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    os.execvpe("sleep", ["sleep", "30"], {{"MARK": "{mark}", "PATH": os.environ["PATH"]}})
os.wait()
"""


@pytest.mark.parametrize("start", [LEFT, LEFT.replace("{session}", "True"), DAEMON])
async def test_a_process_left_running_is_told_and_gone_when_the_worker_is(
    write: Write, opened: Opened, start: str
) -> None:
    mark = f"left-{uuid4().hex}"
    reward = f"if trace.last_reply == '4':\n{textindent(start.format(mark=mark, session=False))}"
    async with opened(write(reward=reward)) as worker:
        found = await worker.score([said(1, "2"), said(2, "4"), said(1, "2")])
        assert [problems(s) for s in found] == [(), ("left-processes",), ()]
        assert [s.reward for s in found] == [2.0, 2.0, 2.0]
        assert len(running(f"MARK={mark}")) == 1
        await worker.close()
    with anyio.fail_after(10):
        while running(f"MARK={mark}"):
            await anyio.sleep(0.02)


def textindent(code: str) -> str:
    return "".join(f"    {line}\n" for line in code.strip().splitlines())


@pytest.mark.parametrize(
    "ended",
    ["subprocess.run(['true'])", "p = subprocess.Popen(['sleep', '30'])\np.kill()", "os.system('true')"],
)
async def test_a_process_that_ended_is_none(write: Write, opened: Opened, ended: str) -> None:
    assert (await scored(write, opened, ended)).problems == ()


async def test_scratch_files_are_gone_when_the_worker_is(write: Write, opened: Opened) -> None:
    async with opened(write(reward="open('left.txt', 'w').close()")) as worker:
        await worker.score([said(1, "2")])
        assert worker._child is not None
        scratch = worker._child.scratch
        assert (scratch / "left.txt").exists()
        await worker.close()
    assert not scratch.exists()


async def test_a_score_that_comes_too_late_is_a_timeout(write: Write, opened: Opened) -> None:
    async with opened(write(reward="time.sleep(1.5 if trace.last_reply == 'slow' else 0)")) as worker:
        found = await worker.score([said(1, "2"), said(1, "slow"), said(1, "2")], case_timeout=1.0)
    assert [problems(s) for s in found] == [(), ("timeout",), ()]
    assert [s.reward for s in found] == [2.0, None, 2.0]


async def test_after_three_late_scores_the_rest_is_not_run(write: Write, opened: Opened) -> None:
    started = time.perf_counter()
    async with opened(write(reward="time.sleep(0.4)")) as worker:
        found = await worker.score([said(1, "2")] * 40, case_timeout=0.2)
    assert [problems(s) for s in found[1:4]] == [("timeout",)] * 3
    assert {problems(s) for s in found[4:]} == {("not-run",)}
    assert time.perf_counter() - started < 20


V0 = f"""
import os, socket, subprocess, time
import verifiers as vf
from datasets import Dataset

def correct(completion, answer) -> float:
    text = completion[-1]["content"]
    if text == "EVAL": eval({CANARY_EXPRESSION!r})
    if text == "FILE":
        try: open("/var/tmp/audit-v0", "w").close()
        except OSError: pass
    if text == "NET":
        try: socket.create_connection(("192.0.2.1", 80), timeout=2)
        except OSError: pass
    if text == "LEFT": subprocess.Popen(["sleep", "30"])
    if text == "LATE": time.sleep(1.2)
    return float(text == answer)

def load_environment():
    rows = [{{"question": "q", "answer": "a"}}]
    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[correct]))
"""


@pytest.mark.slow
async def test_v0_rewards_are_watched_too(write: Write, opened: Opened) -> None:
    interpreter = await older()
    tree = write(V0)
    texts = ["a", "EVAL", "FILE", "NET", "LEFT", "LATE", "a"]
    async with opened(tree, interpreter=interpreter, api="v0") as worker:
        found = await worker.score([said(0, text) for text in texts], case_timeout=1)
    assert [problems(s) for s in found] == [
        (),
        ("evaluated-output",),
        ("wrote-files:/var/tmp/audit-v0",),
        ("opened-network:192.0.2.1",),
        ("left-processes",),
        ("timeout",),
        (),
    ]
    assert [s.reward for s in found] == [1.0, 0.0, 0.0, 0.0, 0.0, None, 1.0]
