"""Which code may read the README or the metadata of its own distribution by a path outside of its package."""

from __future__ import annotations

import ast

import pytest

from prime_lab_mcp.lab.state.outside_package import outside_line

FOLDER = "it reads a folder outside of its package"
UNNAMED = "it opens a file outside of its package whose name is not literal"
HERE = "from pathlib import Path\nHERE = Path(__file__).parent\n"

OUTSIDE = {
    "unnamed file": ("(HERE.parent / name).read_text()", UNNAMED),
    "named readme": ("(HERE.parent / 'README.md').read_text()", UNNAMED),
    "name with a gap": ("(HERE.parent / f'{name}.md').read_text()", UNNAMED),
    "name of parts": ("(HERE.parent / ('READ' + name)).read_text()", UNNAMED),
    "joined path": ("HERE.parent.joinpath(name)", FOLDER),
    "numbered parent": ("(Path(__file__).parents[1] / name)", UNNAMED),
    "computed parent": ("(Path(__file__).parents[n] / name)", UNNAMED),
    "path in a text": ("open(f'{HERE.parent}/{name}')", FOLDER),
    "climbing path": ("open(HERE / '..' / name)", UNNAMED),
    "climbing join": ("open(os.path.join(HERE, '../x', name))", FOLDER),
    "folder of a folder": ("os.listdir(os.path.dirname(os.path.dirname(__file__)))", FOLDER),
    "whole folder": ("HERE.parent.iterdir()", FOLDER),
    "pattern": ("HERE.parent.glob('*.md')", FOLDER),
    "neighbour": ("HERE.with_name(name)", FOLDER),
    "search path": ("load(sys.path)", FOLDER),
    "working folder": ("load(os.getcwd())", FOLDER),
    "folder of the package": ("importlib.resources.files('sums').parent.iterdir()", FOLDER),
    "list of paths": ("run(['grep', HERE.parent])", FOLDER),
    "named argument": ("run(cwd=HERE.parent)", FOLDER),
}


def nodes_of(code: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(code)))


def found(code: str) -> tuple[int, str] | None:
    return outside_line(nodes_of(HERE + code + "\n"), "sums/taskset.py")


@pytest.mark.parametrize(
    ("code", "reason"),
    [pair for pair in OUTSIDE.values() if pair[1]],
    ids=[name for name in OUTSIDE if OUTSIDE[name][1]],
)
def test_a_path_above_the_package_is_found_with_its_line(code: str, reason: str) -> None:
    assert found(code) == (3, reason)


@pytest.mark.parametrize(
    "code",
    [
        "(HERE.parent / 'data' / 'rows.jsonl').open()",
        "(HERE / name).read_text()",
        "HERE.parent.glob('*.jsonl')",
        "HERE.parent.joinpath('rows.jsonl')",
        "HERE.with_name('rows.jsonl')",
        "HERE.parent.exists()",
        "print(HERE.parent)",
        "Path(__file__).parents[0] / name",
        "open(f'{HERE}/{name}')",
        "importlib.resources.files('sums').joinpath(name)",
        "other.parent.parent / name",
        "open(name)",
        "(f(HERE) / name).read_text()",
        "open(" + " + ".join(["x"] * 60) + ")",
    ],
)
def test_what_lies_in_the_package_or_is_named_as_data_is_not_found(code: str) -> None:
    assert found(code) is None


def test_a_path_is_followed_through_names_and_attributes() -> None:
    method = "class A:\n    def __init__(self):\n        self.root: Path = HERE.parent\n"
    code = f"{method}    def f(self, n):\n        return self.root / n"
    assert found(code) == (7, UNNAMED)
    assert found("if (root := HERE.parent):\n    open(root / name)") == (4, UNNAMED)
    assert found("for folder in [HERE.parent]:\n    pass") is None


def test_a_module_at_the_top_lies_beside_the_readme() -> None:
    code = nodes_of(HERE + "(HERE / name).read_text()\n")
    assert outside_line(code, "taskset.py") == outside_line(code, "src/taskset.py") == (3, UNNAMED)
    assert outside_line(code, "sums/taskset.py") is None
