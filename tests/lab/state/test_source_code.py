"""What the Python files of an environment define and import, read without running them."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.state.manifest import parse_manifest
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import (
    SourceCode,
    SourceFile,
    SourceFunction,
    detect_generation,
    dotted_name,
    functions_of,
    imported_files,
    imported_modules,
    is_text_of,
    read_source,
)


def source(text: str, path: str = "sums/taskset.py") -> SourceFile:
    return SourceFile(path, text, ast.parse(text))


def function(text: str) -> SourceFunction:
    return next(functions_of(source(text)))


def snapshot(folder: Path, requires: str = "verifiers", **files: str) -> Snapshot:
    texts = {f"{name}.py": text for name, text in files.items()}
    for path, text in texts.items():
        (folder / path).write_text(text, encoding="utf-8")
    manifest = parse_manifest(f'[project]\nname = "sums"\ndependencies = ["{requires}"]\n'.encode())
    return Snapshot("sums", "environments/sums", folder, "s", "c", "h", dict.fromkeys(texts, ""), (), manifest)


# Files


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("x = (\n", "line 1: '(' was never closed"),
        ("x = '\0'\n", "source code string cannot contain null bytes"),
        (f"x = {'-' * 7000}1\n", "the code is nested too deeply to be parsed"),
    ],
    ids=["syntax", "nul", "depth"],
)
def test_a_file_that_cannot_be_parsed_says_why_and_stops_no_other(tmp_path: Path, text: str, problem: str) -> None:
    broken, sound = read_source(snapshot(tmp_path, broken=text, sound="import math\n")).files
    assert (broken.tree, broken.problem) == (None, problem)
    assert [list(broken.imports()), list(broken.strings()), list(broken.calls())] == [[], [], []]
    assert [one.module for one in sound.imports()] == ["math"]


def test_a_file_that_is_too_long_to_be_read_to_its_end_is_not_parsed(tmp_path: Path) -> None:
    padding = "# no more\n" * 200_000
    (long,) = read_source(snapshot(tmp_path, long=f"{padding}import sys\n")).files
    assert long.tree is None
    assert long.problem is not None
    assert "more than 2,000,000 bytes" in long.problem


def test_the_texts_and_calls_of_a_file_have_their_lines() -> None:
    file = source("'Says what it is.'\nprint('a', f(1))\na.b.c('d')\n")
    assert sorted(file.strings()) == [("Says what it is.", 1), ("a", 2), ("d", 3)]
    assert sorted(name for name, _ in file.calls()) == ["a.b.c", "f", "print"]
    assert SourceCode((file, file)).text == f"{file.text}\n{file.text}"


def test_a_name_of_many_parts_is_read_to_its_end() -> None:
    parts = ["a", *("b" for _ in range(2000))]
    node: ast.expr = ast.Name("a")
    for part in parts[1:]:
        node = ast.Attribute(node, part)
    assert dotted_name(node) == ".".join(parts)
    assert dotted_name(ast.parse("f().a", mode="eval").body) is None


# Imports


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("import sums.rules", "sums.rules"),
        ("from sums import rules", "sums"),
        ("from . import rules", "sums"),
        ("from .rules import strict", "sums.rules"),
        ("from .. import other", ""),
        ("import_module('.rules', __package__)", "sums.rules"),
        ("importlib.import_module('sums.rules')", "sums.rules"),
        ("load('sums.rules')", "sums.rules"),
        ("resolve_name('sums.rules:strict')", "sums.rules"),
    ],
)
def test_an_import_is_named_absolutely(text: str, module: str) -> None:
    assert {found for found, _, _ in imported_modules(source(text))} == {module}


@pytest.mark.parametrize("text", ["load('rules')", "load('a b.c')", "f()('sums.rules')", "load(name)", "load()"])
def test_a_text_that_names_no_module_is_no_import(text: str) -> None:
    assert list(imported_modules(source(text))) == []


def test_the_files_of_a_module_are_those_that_it_imports_too() -> None:
    files = {
        "sums/__init__.py": "from sums.taskset import rows\n",
        "sums/taskset.py": "from . import rules\nopen('sums/free.py')\n",
        "sums/rules.py": "",
        "sums/free.py": "",
        "sums/other.py": "",
    }
    code = SourceCode(tuple(source(text, path) for path, text in files.items()))
    found = {file.path for file in imported_files(code, "sums")}
    assert {"sums/__init__.py", "sums/taskset.py", "sums/rules.py"} <= found
    assert "sums/other.py" not in found


def test_imports_that_may_fail_are_told_from_those_that_must_not() -> None:
    file = source(
        "import a.b\nfrom c import d as e\nfrom . import f\n"
        "try:\n    import g\nexcept ImportError:\n    pass\nif TYPE_CHECKING:\n    import h\n"
    )
    found = [(one.module, one.name, one.guarded) for one in file.imports()]
    assert found == [("a.b", None, False), ("c", "d", False), ("g", None, True), ("h", None, True)]


# Functions


def test_every_function_of_a_file_is_found_at_any_depth() -> None:
    file = source("def f():\n    def g(): ...\nclass A:\n    async def h(self): ...\n")
    assert sorted(found.name for found in functions_of(file)) == ["f", "g", "h"]


def test_a_function_knows_its_signature_and_its_own_names() -> None:
    found = function("@tool\n@vf.reward(weight=1)\nasync def f(a, /, b, *, c) -> int:\n    def g(): d\n    return e\n")
    assert (found.name, found.line, found.is_async) == ("f", 3, True)
    assert (found.parameters, list(found.decorators())) == (("a", "b", "c"), ["tool", "vf.reward"])
    assert ast.unparse(found.returns) == "int"
    assert [found.mentions(name) for name in ("e", "d", "a")] == [True, False, False]
    assert ast.unparse(function("def f(): ...\n").returns) == "None"


def test_names_that_hold_the_same_text_are_followed() -> None:
    lines = ("low = text.lower()", "a, b = low.strip(), 3", "c = len(text)", "text2 = a")
    body = "; ".join((*lines, "self.low = text", "g, h = 1, 2, text"))
    found = function(f"def f(self, text):\n    {body}\n")
    assert found.derived(frozenset({"text", "self.text"})) == {"text", "self.text", "low", "a", "text2"}


@pytest.mark.parametrize(
    ("expression", "same"),
    [
        ("text", True),
        ("state.text[0]", True),
        ("text or other", True),
        ("str(text)", True),
        ("text.strip().lower()", True),
        ("str()", False),
        ("len(text)", False),
        ("text + other", False),
    ],
)
def test_an_expression_is_the_same_text_while_it_changes_its_case_or_size_alone(expression: str, same: bool) -> None:
    assert is_text_of(ast.parse(expression, mode="eval").body, frozenset({"text", "state.text"})) is same


@pytest.mark.parametrize(
    ("body", "unchecked"),
    [
        ("x = re.match(a, b)\n    return x[1]", True),
        ("x = re.match(a, b)\n    return x[1] if x else None", False),
        ("x = re.match(a, b)\n    if not x: return\n    return x[1]", False),
        ("x = re.match(a, b)\n    return (x or y)[1]", False),
        ("x = re.match(a, b)\n    assert x is not None", False),
        ("x = re.match(a, b)\n    assert x < 3", True),
        ("x = re.match(a, b)\n    assert isinstance(x, re.Match)", False),
        ("x = other(a, b)\n    return x[1]", False),
        ("return x[1]", False),
    ],
)
def test_a_result_that_may_be_empty_is_unchecked_without_a_test_of_its_name(body: str, unchecked: bool) -> None:
    assert function(f"def f(a, b):\n    {body}\n").comes_unchecked("x", "match") is unchecked


# Generation

V0 = "def load_environment(): ...\n"
NAMED = "from verifiers.v1 import Taskset as T\nfrom other import Taskset\n\nclass Sums(T): ...\n"
V1 = "import verifiers.v1 as vf\n\nclass Sums(vf.Taskset[Row]): ...\n"


@pytest.mark.parametrize(
    ("files", "requires", "api", "reasons"),
    [
        ({"a": V1}, "verifiers", "v1", ["a.py:3 subclasses a v1 Taskset or Task"]),
        ({"a": NAMED}, "verifiers", "v1", ["a.py:4 subclasses a v1 Taskset or Task"]),
        ({"a": V0}, "verifiers", "v0", ["a.py:1 defines load_environment"]),
        (
            {"a": V1, "b": V0},
            "verifiers",
            "v1",
            ["a.py:3 subclasses a v1 Taskset or Task", "b.py:1 defines load_environment, which v1 does not use"],
        ),
        ({"a": "class A(f()): ...\n"}, "verifiers>=0.4", "v1", ["pyproject.toml requires verifiers>=0.4"]),
        ({}, "verifiers<0.2", "v0", ["pyproject.toml requires verifiers<0.2"]),
        ({}, "verifiers", None, None),
        ({}, "datasets", None, None),
    ],
    ids=["v1", "v1 by name", "v0", "both", "requires v1", "requires v0", "unknown", "requires neither"],
)
def test_the_generation_is_that_of_the_code_or_else_of_the_requirement(
    tmp_path: Path, files: dict[str, str], requires: str, api: Any, reasons: list[str] | None
) -> None:
    found = detect_generation(snapshot(tmp_path, requires, **files))
    assert found.api == api
    if reasons is not None:
        assert list(found.reasons) == reasons
