"""A law over an inventory is one test, calls every member, and lists all that break the law."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from tests.support.laws import every


def failure(test: object) -> str:
    with pytest.raises(pytest.fail.Exception) as failed:
        test()  # type: ignore[operator]
    return str(failed.value)


def test_every_offender_is_listed_with_its_reason_and_the_sound_are_not() -> None:
    @every("number", [1, 2, 3, 4], ids=lambda number: f"number-{number}")
    def odd(number: int) -> None:
        assert number % 2 == 1

    lines = failure(odd).splitlines()
    assert lines[0] == "2 of 4 break the law"
    assert [line.split(": ")[0] for line in lines if line.startswith("number-")] == ["number-2", "number-4"]
    assert "AssertionError: assert (2 % 2) == 1" in "\n".join(lines)


def test_a_member_that_raises_skips_or_fails_is_an_offender() -> None:
    def skip() -> None:
        pytest.skip("not here")

    def refuse() -> None:
        pytest.fail("no")

    @every(("name", "do"), [("raises", lambda: {}["gone"]), ("skips", skip), ("fails", refuse), ("sound", dict)])
    def law(name: str, do: object) -> None:
        do()  # type: ignore[operator]

    shown = failure(law)
    assert shown.startswith("3 of 4 break the law")
    assert "KeyError: 'gone'" in shown
    assert "not here" in shown
    assert "Failed: no" in shown


def test_an_empty_inventory_is_refused() -> None:
    with pytest.raises(ValueError, match="empty inventory"):
        every("name", [])


def test_every_member_is_called_with_the_fixtures_of_the_law(tmp_path: Path) -> None:
    called: list[str] = []

    @every("name", ["first", "second"])
    def law(name: str, tmp_path: Path) -> None:
        assert tmp_path.is_dir()
        called.append(name)

    assert list(inspect.signature(law).parameters) == ["tmp_path"]
    law(tmp_path=tmp_path)
    assert called == ["first", "second"]
