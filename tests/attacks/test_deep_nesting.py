"""Code that Python runs and that no reading could follow to its end blocks; what is read is read by every reading."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from prime_lab_mcp.lab.environment.file_texts import file_texts
from prime_lab_mcp.lab.rewards.smells.hints import find_smells
from prime_lab_mcp.lab.rewards.surroundings import find_surroundings
from prime_lab_mcp.lab.rewards.surroundings_report import surroundings_phrases
from prime_lab_mcp.lab.state.fingerprint import own_files_reader
from prime_lab_mcp.lab.state.manifest import parse_manifest
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import SourceCode, functions_of, read_source

TOP = "import os\nimport verifiers.v1 as vf\n\n\nclass Deep(vf.Taskset):\n    pass\n\n\n"
SHAPES: dict[str, Callable[[int], str]] = {
    "attributes": lambda n: f"X = vf{'.a' * n}\n",
    "calls": lambda n: f"X = vf.f{'()' * n}\n",
    "chained calls": lambda n: f"def f(a):\n    return a{'.b(a)' * (n // 2)}\n",
    "chained calls at import": lambda n: f"X = vf{'.b(1)' * (n // 2)}\n",
    "sums": lambda n: f"X = {'+'.join(['1'] * n)}\n",
    "texts": lambda n: f"X = ''{' % ()' * n}\n",
    "negations": lambda n: f"X = {'not ' * n}1\n",
    "powers": lambda n: f"X = {'**'.join(['1'] * n)}\n",
    "indices": lambda n: f"X = vf{'[0]' * n}\n",
    "conditions": lambda n: f"X = {'1 if 0 else ' * n}1\n",
    "functions": lambda n: f"X = {'lambda: ' * n}1\n",
    "branches": lambda n: "if 0:\n    pass\n" + "elif 1:\n    pass\n" * n,
    "a formatted text": lambda n: f'X = f"{{{"+".join(["1"] * n)}}}"\n',
}


def package(folder: Path, code: str) -> Snapshot:
    manifest = b'[project]\nname = "deep"\nversion = "0.1.0"\ndependencies = ["verifiers>=0.4.0"]\n'
    (folder / "deep.py").write_text(TOP + code, encoding="utf-8")
    (folder / "pyproject.toml").write_bytes(manifest)
    files = {"deep.py": "", "pyproject.toml": ""}
    return Snapshot("deep", "environments/deep", folder, "s", "c", "h", files, (), parse_manifest(manifest))


def below(frames: int, work: Callable[[], object]) -> object:
    """Call `work` below so many calls, as many as a server and its tool may have."""
    return work() if frames == 0 else below(frames - 1, work)


def read_by_all(code: SourceCode, snapshot: Snapshot) -> None:
    list(code.imports())
    [list(function.nodes()) for file in code.files for function in functions_of(file)]
    find_surroundings(code, "deep", "deep")
    find_smells(code)
    contents = {path: (snapshot.tree / path).read_bytes() for path in snapshot.files}
    own_files_reader(contents, snapshot.manifest, str(hash(code.text)))
    [list(file_texts(path, data)) for path, data in contents.items()]


def test_code_that_nests_too_deeply_for_the_readings_is_not_read_and_says_so(tmp_path: Path) -> None:
    unsaid = []
    for name, shape in SHAPES.items():
        for levels in (450, 5000):
            (file,) = read_source(package(tmp_path, shape(levels))).files
            if file.tree is not None or "nest" not in (file.problem or ""):
                unsaid.append(f"{name} {levels}: {file.problem}")
    assert unsaid == []


def test_no_reading_ends_before_the_deepest_code_that_is_read(tmp_path: Path) -> None:
    ended = []
    for name, shape in SHAPES.items():
        snapshot = package(tmp_path, shape(190))
        source = read_source(snapshot)
        assert source.files[0].problem is None, name
        try:
            below(120, lambda: read_by_all(source, snapshot))  # noqa: B023
        except RecursionError as error:
            ended.append(f"{name}: {error}")
    assert sys.getrecursionlimit() == 1000
    assert ended == []


@pytest.mark.parametrize("levels", [10, 400, 3000])
def test_an_annotation_that_no_reading_follows_is_named_as_text_that_is_run(tmp_path: Path, levels: int) -> None:
    """pydantic evaluates it."""
    code = f'class Data(vf.TaskData):\n    seen: "os.getcwd{"()" * levels}"\n'
    reads = find_surroundings(read_source(package(tmp_path, code)), "deep", "deep")
    assert ("eval" if levels > 200 else "getcwd") in str(surroundings_phrases(reads))
