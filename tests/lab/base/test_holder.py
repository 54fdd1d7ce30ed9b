"""Whether the process behind a claim lives: by number, start and machine, and unknown where none of them says."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from prime_lab_mcp.lab.base import process

PROGRAM = "from prime_lab_mcp.lab.base.process import new_holder; print(new_holder(), flush=True); input()"


@pytest.fixture
def child() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_holder_lives_as_long_as_its_process(child: subprocess.Popen[str]) -> None:
    assert child.stdout is not None
    name = child.stdout.readline().strip()
    assert process.holder_lives(name) is True
    child.kill()
    child.communicate()
    assert process.holder_lives(name) is False


def test_a_number_that_the_system_gave_to_another_process_is_no_living_holder() -> None:
    number, _, rest = process.new_holder().partition("-")
    assert int(number) == os.getpid()
    _, start, machine = rest.split("@")
    assert process.holder_lives(f"1-0a0a0a0a-1@{start}@{machine}") is False
    assert process.holder_lives(f"{os.getpid()}-0a0a0a0a-1@{start}@{machine}") is False


def test_holders_of_another_machine_boot_or_release_are_unknown() -> None:
    _, start, machine = process.new_holder().split("@")
    for name in (f"1-0a0a0a0a-1@{start}@another", f"1-0a0a0a0a-1@{start}@", f"1-0a0a0a0a-1@@{machine}", "1-0a-0b", ""):
        assert process.holder_lives(name) is None, name


def test_two_holders_of_one_process_have_different_names_and_both_live() -> None:
    first, second = process.new_holder(), process.new_holder()
    assert first != second
    assert process.holder_lives(first) is process.holder_lives(second) is True
