"""The branches of an environment's code that a scoring takes, on whichever Python runs the tests."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.worker.child import branches, environment

_CODE = """\
import json

def graded(text):
    if text.startswith("a"):
        if "b" in text:
            return 2
        return 1
    return len(json.dumps([text])) * 0
"""


@pytest.fixture
def graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], int]]:
    """A function of an environment's folder."""
    file = tmp_path / "some_environment.py"
    file.write_text(_CODE, encoding="utf-8")
    monkeypatch.setattr(environment, "_tree", [str(tmp_path)])
    spec = importlib.util.spec_from_file_location("some_environment", file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    before = sys.gettrace()
    yield module.graded
    assert sys.gettrace() is before


def taken(graded: Callable[[str], int], text: str, search: int | None) -> list[str]:
    with branches.following(search) as new:
        graded(text)
    return new


def test_a_completion_names_the_branches_that_no_earlier_one_took(graded: Callable[[str], int]) -> None:
    first = taken(graded, "x", 901)
    assert first
    assert all(branch.startswith("some_environment.py:") for branch in first)
    assert taken(graded, "y", 901) == []
    assert taken(graded, "a", 901)
    assert taken(graded, "ab", 901)
    assert taken(graded, "abc", 901) == []


def test_another_search_begins_anew_and_without_a_search_nothing_is_followed(graded: Callable[[str], int]) -> None:
    assert taken(graded, "x", 902)
    assert taken(graded, "x", 903)
    assert taken(graded, "ab", None) == []
    assert taken(graded, "ab", 903)


def test_what_was_not_followed_is_still_new_later(graded: Callable[[str], int]) -> None:
    taken(graded, "x", 904)
    graded("ab")
    assert taken(graded, "ab", 904)
