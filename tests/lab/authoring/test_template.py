"""Templates are whole packages, and become other packages name by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.authoring.assembly import Template
from prime_lab_mcp.lab.authoring.build import build_folder
from prime_lab_mcp.lab.authoring.naming import package_names, rename_code
from prime_lab_mcp.lab.authoring.template import (
    TemplateChanges,
    instantiate_template,
    python_literal,
    set_constants,
    set_section,
)
from prime_lab_mcp.lab.base.errors import BadInput

TEMPLATES = Path(__file__).parents[3] / "prime_lab_mcp" / "resources" / "templates"
OLD = package_names("numeric-template")


def test_an_instance_has_nothing_of_the_templates_name_left(tmp_path: Path) -> None:
    written = instantiate_template(
        Template(TEMPLATES / "numeric"), tmp_path / "x", TemplateChanges(package_names("sums-2"))
    )
    for path in written:
        text = (tmp_path / "x" / path).read_text(encoding="utf-8")
        assert "numeric_template" not in text
        assert "numeric-template" not in text
        assert "NumericTemplate" not in text
    assert "sums_2/taskset.py" in written


def test_names_are_replaced_whole_and_only_as_names() -> None:
    source = 'from numeric_template.x import NumericTemplateA\nnumeric_template_2 = "a numeric_template"\n'
    expected = 'from sums.x import SumsA\nnumeric_template_2 = "a numeric_template"\n'
    assert rename_code(source, OLD, package_names("sums")) == expected
    assert rename_code('B = ["NumericTemplateA"]\n', OLD, package_names("sums")) == 'B = ["SumsA"]\n'


@pytest.mark.parametrize("value", ['a "b" \\ \n {c} \u2028 é 𝄞', None, ("one",), ("a", "b"), 3, True])
def test_a_constant_gets_exactly_the_value_whatever_is_in_it(value: object) -> None:
    space: dict[str, object] = {}
    exec(set_constants('é = "é"; X: object = ("old",\n  "older")\nY = 1\n', {"X": value}), space)  # type: ignore[dict-item]
    assert (space["X"], space["Y"], space["é"]) == (value, 1, "é")


def test_constants_that_a_file_does_not_have_leave_it_alone() -> None:
    assert set_constants("X = 1\n", {"Z": 1}) == "X = 1\n"


def test_an_unknown_section_is_a_bug_not_a_silence() -> None:
    with pytest.raises(KeyError):
        set_section("# t\n\n## A\n\nx\n", "B", "y")


def test_literals_are_python() -> None:
    assert python_literal(("a",)) == '("a",)'
    assert python_literal(None) == "None"


@pytest.mark.parametrize("name", ["json", "harbor", "nemo-gym", "class", "verifiers", "Datasets"])
def test_names_that_would_hide_or_be_hidden_by_a_module_are_refused(name: str) -> None:
    with pytest.raises(BadInput):
        package_names(name)


def test_what_fails_while_building_leaves_nothing(tmp_path: Path) -> None:
    target = tmp_path / "environments" / "x"

    def broken() -> None:
        with build_folder(target) as folder:
            (folder / "half").write_text("", encoding="utf-8")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert list(tmp_path.iterdir()) == []


def test_what_came_into_being_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    target = tmp_path / "environments" / "x"

    def meanwhile() -> None:
        with build_folder(target) as folder:
            (folder / "new").write_text("", encoding="utf-8")
            target.mkdir()

    with pytest.raises(BadInput, match="could not be put in place"):
        meanwhile()
    assert list(target.parent.iterdir()) == [target]
    assert list(target.iterdir()) == []
