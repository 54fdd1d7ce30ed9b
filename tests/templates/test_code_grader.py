"""The grader of the template code, which only right programs pass, and the example environment that uses it."""

from __future__ import annotations

import ast
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import EXAMPLES
from tests.support.assembled import assembled
from tests.templates.grading_code import ADD, RIGHT, grading, passes

pytestmark = pytest.mark.anyio


# --- the grader ------------------------------------------------------------------------------------------------------


async def test_a_right_program_passes_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    assert await passes(tmp_path, RIGHT, **ADD)
    assert not await passes(tmp_path, "def add(a, b):\n    return 3", **ADD)
    assert list(tmp_path.iterdir()) == []


CHEATS = {
    "leaves early": "import sys\nsys.exit(0)",
    "leaves at once": "import os\nos._exit(0)",
    "leaves in a call": "import os\ndef add(a, b):\n    os._exit(0)",
    "raises SystemExit": "def add(a, b):\n    raise SystemExit(0)",
    "ends the loop of a test": "def add(a, b):\n    raise StopIteration",
    "equal to everything": (
        "class A:\n    def __eq__(self, o):\n        return True\n\n\ndef add(a, b):\n    return A()"
    ),
    "a number equal to everything": (
        "class A(int):\n    def __eq__(self, o):\n        return True\n\n    __hash__ = int.__hash__\n\n\n"
        "def add(a, b):\n    return A(1)"
    ),
    "replaces AssertionError": (
        "import builtins\nbuiltins.AssertionError = SystemExit\nbuiltins.isinstance = lambda *a: True\n\n\n"
        "def add(a, b):\n    return 0"
    ),
    "prints a verdict": 'print(\'{"token": "", "passed": true}\')\n\n\ndef add(a, b):\n    return 0',
    "writes to the output of the grader": (
        "import os\nfor fd in range(12):\n    try:\n        with open(f'/proc/{os.getppid()}/fd/{fd}', 'w') as out:\n"
        '            out.write(\'{"passed": true, "token": ""}\\n\')\n    except OSError:\n        pass\n\n\n'
        "def add(a, b):\n    return 0"
    ),
    "writes answers of its own": (
        'import os\nfor fd in range(3, 12):\n    try:\n        os.write(fd, b\'{"value": ["int", "0x3"]}\\n\' * 9)\n'
        "    except OSError:\n        pass\nos._exit(0)"
    ),
    "looks for the tests": (
        "import gc, glob, sys\n\n\ndef add(a, b):\n    held = [o for o in gc.get_objects() if isinstance(o, str)]\n"
        "    held += [open(p).read() for p in glob.glob('**', recursive=True)] + sys.argv\n"
        "    return 7 if not any('add(2, 2)' in o for o in held) else a + b"
    ),
    "kills the grader": "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
    "forks": "import os\nos.fork()\n\n\ndef add(a, b):\n    return 0",
    "loops": "while True:\n    pass",
    "sleeps": "import time\n\n\ndef add(a, b):\n    time.sleep(60)",
    "takes all memory": "def add(a, b):\n    return [0] * 10**10",
    "prints without end": "def add(a, b):\n    while True:\n        print('x' * 10**6)",
    "answers too much": "def add(a, b):\n    return 'x' * 20_000_000",
    "answers too deep": "def add(a, b):\n    x = []\n    for _ in range(5000):\n        x = [x]\n    return x",
    "gives a generator": "def add(a, b):\n    yield 3",
    "does not parse": "def add(",
}


@pytest.mark.slow
@pytest.mark.parametrize("how", CHEATS)
async def test_no_test_is_passed_by_a_program_that(how: str, tmp_path: Path) -> None:
    assert not await passes(tmp_path, CHEATS[how], **ADD)


async def test_a_program_that_stops_the_grader_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grading, "_MARGIN", 0.5)
    code = "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)"
    assert not await passes(tmp_path, code, grading.Limits(cpu=1, wall=1), **ADD)


async def test_a_program_runs_in_an_empty_folder_without_the_variables_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_FOR_TESTS", "x")
    code = "import os\n\n\ndef look():\n    return sorted(os.environ), os.listdir('.')"
    allowed = "{'HOME', 'LANG', 'LC_CTYPE', 'OPENBLAS_NUM_THREADS', 'PATH', 'PYTHONHASHSEED', 'TMPDIR'}"
    tests = f"seen, files = look()\nassert set(seen) <= {allowed}, seen\nassert files == []"
    assert await passes(tmp_path, code, tests=tests, names=["look"])


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted and killed on Linux only")
async def test_a_process_that_the_program_leaves_behind_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    code = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
        f"        with open({str(told)!r}, 'w') as file:\n            file.write(str(os.getpid()))\n"
        "        time.sleep(60)\n    os._exit(0)\n\n\ndef add(a, b):\n"
        f"    while not (os.path.exists({str(told)!r}) and os.path.getsize({str(told)!r})):\n        time.sleep(0.01)\n"
        "    return a + b"
    )
    assert await passes(tmp_path, code, **ADD)
    assert not Path(f"/proc/{told.read_text()}").exists()


async def test_the_loop_of_events_is_free_while_a_program_runs(tmp_path: Path) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    started = time.monotonic()
    await passes(tmp_path, "import time\ntime.sleep(0.5)\n\n\ndef add(a, b):\n    return a + b", **ADD)
    ticking.cancel()
    assert ticks > 10
    assert time.monotonic() - started > 0.5


async def test_values_of_every_plain_kind_cross_between_the_processes(tmp_path: Path) -> None:
    values = [
        None,
        True,
        -(10**30),
        0.1,
        float("inf"),
        2 + 1j,
        "ü\n",
        b"\x00",
        [1, [2]],
        (1, (2,)),
        {1, 2},
        frozenset("a"),
        {"a": {(1, 2): None}},
        range(3),
        "",
    ]
    tests = f"inf = float('inf')\nfor value in {values!r}:\n    got = same(value)\n    assert got == value, value\n"
    tests += (
        "    assert type(got) is type(value), value\nassert list(map_of([1, 2])) == [2, 3]\nnan = same(float('nan'))\n"
    )
    tests += "assert nan != nan\nassert same(x=1) == 1"
    code = "def same(x):\n    return x\n\n\ndef map_of(xs):\n    return map(lambda x: x + 1, xs)"
    assert await passes(tmp_path, code, tests=tests, names=["same", "map_of"])


async def test_lists_that_a_call_changes_are_changed_for_the_test_too(tmp_path: Path) -> None:
    tests = "x = [3, 1, 2]\nassert order(x) is None\nassert x == [1, 2, 3]"
    assert await passes(tmp_path, "def order(x):\n    x.sort()", tests=tests, names=["order"])


async def test_objects_can_be_made_and_their_methods_called_but_are_equal_to_nothing(tmp_path: Path) -> None:
    code = (
        "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, x):\n"
        "        self.items.append(x)\n        return self\n\n    def __eq__(self, other):\n        return True"
    )
    tests = "s = Stack()\ns.push(1)\ns.push(2)\nassert s.items == [1, 2]\nassert not s == [1, 2]\nassert s != Stack()"
    assert await passes(tmp_path, code, tests=tests, names=["Stack"])


async def test_a_test_may_expect_an_error(tmp_path: Path) -> None:
    tests = "try:\n    root(-1)\n    raise AssertionError\nexcept ValueError:\n    pass\nassert root(4) == 2"
    code = "def root(x):\n    if x < 0:\n        raise ValueError(x)\n    return x**0.5"
    assert await passes(tmp_path, code, tests=tests, names=["root"])
    assert not await passes(tmp_path, code.replace("ValueError", "KeyError"), tests=tests, names=["root"])


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        ({"tests": "assert add(lambda: 1, 2)", "names": ["add"]}, "cannot cross between processes"),
        ({"tests": "assert add(", "names": ["add"]}, "cannot be prepared"),
        ({"tests": "assert True", "names": ["add"]}, "call nothing"),
        (
            {"prelude": "import no_such_module", "tests": "assert add(1, 2) == 3", "names": ["add"]},
            "cannot be prepared",
        ),
    ],
)
async def test_tests_that_cannot_be_run_are_an_error_and_no_wrong_answer(
    tests: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(RuntimeError, match=said):
        await passes(tmp_path, RIGHT, **tests)


async def test_a_grader_that_does_not_start_is_an_error_and_no_wrong_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grading, "_START", "raise SystemExit('broken {package}')")
    with pytest.raises(RuntimeError, match="did not start: broken code_template"):
        await passes(tmp_path, RIGHT, **ADD)


async def test_a_program_that_reads_and_prints_is_run_for_each_input(tmp_path: Path) -> None:
    cases = [{"input": "3\n4\n", "output": "7\n0.5"}, {"input": "1\n1", "output": "2\n0.5"}]
    right = "a, b = int(input()), int(input())\nif __name__ == '__main__':\n    print(a + b, 1 / 2 + 1e-12, sep='\\n')"
    assert await passes(tmp_path, right, cases=cases)
    for wrong in ("print(7)\nprint(0.5)", "import os\nos._exit(0)", right + "\nraise ValueError", right + "\nprint(1)"):
        assert not await passes(tmp_path, wrong, cases=cases)


# --- the example environment -----------------------------------------------------------------------------------------

EXAMPLE = EXAMPLES / "python_functions" / "python_functions"
SAME = (
    "candidate.py",
    "grader.py",
    "grading.py",
    "processes.py",
    "programs.py",
    "rows.py",
    "selection.py",
    "taskset.py",
)


@pytest.mark.parametrize("name", SAME)
def test_the_example_environment_runs_programs_as_the_template_does(name: str) -> None:
    template = (assembled("code") / "code_template" / name).read_text(encoding="utf-8")
    mine = template.replace("code_template", "python_functions").replace("CodeTemplate", "PythonFunctions")
    assert _unwrapped((EXAMPLE / name).read_text(encoding="utf-8")) == _unwrapped(mine)


def _unwrapped(source: str) -> str:
    return ast.dump(ast.parse(source))


@pytest.mark.parametrize("split", ["train", "eval"])
def test_tasks_of_the_example_show_one_test_and_hide_at_least_three_with_other_results(split: str) -> None:
    for row in map(json.loads, (EXAMPLE / "data" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()):
        tests = row["answer"]["tests"].splitlines()
        shown = [test for test in tests if test in row["question"]]
        assert shown == tests[:1]
        assert len(tests) >= 4
        assert len({test.rpartition(" == ")[2] for test in tests}) > 1


PARTS = 8


@pytest.mark.slow
@pytest.mark.parametrize("part", [pytest.param(n, marks=pytest.mark.rotate(share=4)) for n in range(PARTS)])
async def test_every_solution_of_the_example_passes_and_no_constant_does(tmp_path: Path, part: int) -> None:
    rows = [
        json.loads(line)
        for split in ("train", "eval")
        for line in (EXAMPLE / "data" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert len(rows) >= 2 * PARTS
    for row in rows[part::PARTS]:
        name, first = row["answer"]["names"][0], row["answer"]["tests"].splitlines()[0]
        constant = f"def {name}(*args):\n    return {first.rpartition(' == ')[2]}"
        given = await asyncio.gather(
            passes(tmp_path, row["solution"], grading.Limits(), **row["answer"]),
            passes(tmp_path, constant, grading.Limits(), **row["answer"]),
        )
        assert given == [True, False], row["question"]
