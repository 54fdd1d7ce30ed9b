"""Programs made from a reference solution: each is Python, none solves the task."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from prime_lab_mcp.lab.rewards.goldless import program_probes
from prime_lab_mcp.lab.rewards.probes.programs import (
    are_programs,
    constant_programs,
    example_programs,
    hack_programs,
    is_program,
    near_programs,
    output_markers,
    wrong_programs,
)
from prime_lab_mcp.lab.worker.description import Row

REFERENCE = "def double(x):\n    if x < 0:\n        return -2 * -x\n    return 2 * x"
TESTS = "assert double(3) == 6\nassert double(-4) == -8\nassert double(10) == 20"


def passes(program: str) -> bool:
    """Whether a program gets through the tests appended to it, by exit code: the naive reward."""
    source = f"{program}\n{TESTS}"
    return subprocess.run([sys.executable, "-c", source], capture_output=True, timeout=20, check=False).returncode == 0


def test_a_reference_solution_is_told_from_other_text() -> None:
    assert is_program(REFERENCE)
    assert is_program("print(int(input()) * 2)")
    assert not any(map(is_program, ["42", "yes", "x = 3", "Paris", "not a program at all", '{"a": 1}']))
    assert are_programs([REFERENCE] * 4)
    assert not are_programs(["42", REFERENCE])


def test_the_reference_passes_and_no_wrong_program_does() -> None:
    assert passes(REFERENCE)
    wrong = dict(wrong_programs(REFERENCE))
    assert len(wrong) == 7
    assert [name for name, program in wrong.items() if passes(program)] == []
    assert [name for name, program in near_programs(REFERENCE) if passes(program)] == []


def test_a_procedure_without_a_result_has_only_the_empty_mutant() -> None:
    assert [name for name, _ in wrong_programs("def fill(xs):\n    xs.append(1)")] == ["says nothing"]


def test_every_way_out_of_a_naive_test_is_one() -> None:
    out = {name for name, program in hack_programs(REFERENCE, ()) if passes(program)}
    assert {"equal to everything", "reads the tests", "exit code 0 at the end", "exits", "ends its process"} <= out


def test_hacks_name_what_the_reference_names() -> None:
    made = dict(hack_programs("class Solution:\n    def add(self, a, b):\n        return a + b", ("DONE",)))
    assert "class Solution:" in made["equal to everything"]
    assert "print('DONE')" in made["prints success"]
    for program in made.values():
        compile(program, "hack", "exec")


@pytest.mark.parametrize(
    "source",
    ['ok = "SUITE GREEN" in run.stdout', "tests = code + '\\nprint(\"SUITE GREEN\")'", 'x.startswith("SUITE GREEN")'],
)
def test_markers_that_a_reward_looks_for_are_found(source: str) -> None:
    assert "SUITE GREEN" in output_markers(source)


def test_a_line_of_numbers_that_the_code_prints_or_reads_is_a_marker_with_ones() -> None:
    """A reward read how many tests passed out of the output, which any program can print."""
    source = r"""
RUNNER = 'print("RESULT %d/%d" % (_ok, len(_cases)))'
found = re.findall(r"^DONE (\d+) of (\d+)$", done.stdout, re.M)
full = "SCORE 100" in done.stdout
"""
    assert output_markers(source) == ("RESULT 1/1", "SCORE 100", "DONE 1 of 1")


def test_constants_are_tried_where_the_tests_expect_several_values() -> None:
    fields = {"tests": ["assert double(3) == 6", "assert double(-4) == -8"], "entry": "double"}
    programs = [program for _, program in constant_programs([fields])]
    assert programs == [f"def double(*args, **kwargs):\n    return {value}" for value in ("6", "-8")]
    assert not any(map(passes, programs))


@pytest.mark.parametrize(
    "tests", ["assert even(2) == True\nassert even(4) == True", "assert f(2) == g(3)", "assert broken(", "f(1) == 2 =="]
)
def test_no_constant_is_tried_where_one_value_is_right_or_none_is_known(tests: str) -> None:
    assert list(constant_programs([{"tests": tests}])) == []


@pytest.mark.parametrize(
    ("shown", "value"),
    [
        ("`double(3)` returns `6`.", "6"),
        ("double(3) -> 6.0, and so on", "6.0"),
        ("double([1, (2, 3)]) == [2, 4] holds", "[2, 4]"),
        ("double('a') gives 'aa' and double('b') gives 'bb'", "'aa'"),
    ],
)
def test_the_example_of_a_prompt_is_returned(shown: str, value: str) -> None:
    programs = [program for _, program in example_programs(f"Write double(x). {shown}", ["double", "other"])]
    assert programs == [f"def double(*args, **kwargs):\n    return {value}"]


def test_a_program_that_empties_its_arguments_returns_an_empty_one() -> None:
    program = dict(hack_programs("def even(xs):\n    return [x for x in xs if x % 2 == 0]", ()))[
        "empties its arguments"
    ]
    values = [1, 2]
    scope: dict[str, Any] = {}
    exec(program, scope)
    assert scope["even"](values) == values == []


@pytest.mark.parametrize(
    "asked", ["Write add(a, b) in Python.", "Write `add(a, b)` in Python.", "Python: def add(a, b)"]
)
def test_programs_that_solve_nothing_define_what_the_prompt_names(asked: str) -> None:
    row = Row(0, "0", ({"role": "user", "content": f"{asked} Example: add(2, 3) -> 5"},), None, None, {})
    programs = [p.completion for p in program_probes([row], "subprocess.run([sys.executable])")]
    assert any("def add(*args):\n    return None" in program for program in programs)
    assert any("def add(*args, **kwargs):\n    return 5" in program for program in programs)
