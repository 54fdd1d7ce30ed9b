"""Functions are cut out of old files with what they need, and what has no counterpart is refused with its line."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.authoring.naming import package_names
from prime_lab_mcp.lab.authoring.port.description import CodePlace, decode_description
from prime_lab_mcp.lab.authoring.port.package import OldPort, PortedEnvironment, build_port, left_findings
from prime_lab_mcp.lab.authoring.port.rows import port_rows
from prime_lab_mcp.lab.authoring.port.source import NotPortable, OldPackage, written_module
from prime_lab_mcp.lab.base.errors import WorkerError
from prime_lab_mcp.lab.base.syntax import parse_python
from prime_lab_mcp.lab.state.source_code import SourceCode, SourceFile
from prime_lab_mcp.lab.worker.description import Row
from tests.conftest import TEMPLATES

OFFERED = frozenset({"XMLParser", "Messages"})


def source(**files: str) -> SourceCode:
    """Files by name; `__` stands for a slash."""
    texts = {f"{name.replace('__', '/')}.py": textwrap.dedent(text) for name, text in files.items()}
    parsed = tuple(SourceFile(path, text, parse_python(text)) for path, text in texts.items())
    return SourceCode(parsed, frozenset({path.split("/")[0].removesuffix(".py") for path in texts}))


def cut(name: str, **files: str) -> str:
    package = OldPackage(source(**files), "old.py", OFFERED)
    package.take("old.py", name)
    imports, body = written_module(package, "old.py", "new", {"old.py": "functions", "tools.py": "old_tools"})
    return "\n".join([*imports, body])


def test_a_function_comes_with_its_helpers_constants_and_comments_and_with_nothing_else() -> None:
    text = cut(
        "score",
        old="""
            import json, re
            import os
            from math import (
                floor, ceil as up
            )

            OTHER = os.getcwd()
            # A word of digits.
            DIGITS = re.compile(r"\\d+")

            def found(text):
                return DIGITS.findall(text)

            def score(completion):
                return up(len(found(completion)))
        """,
    )
    assert "import re\nfrom math import ceil as up\n# A word of digits.\nDIGITS" in text
    assert "def found" in text
    assert not {"os", "json", "OTHER", "floor"} & set(text.replace("(", " ").replace(".", " ").split())


def test_verifiers_becomes_the_module_of_the_new_package() -> None:
    text = cut("PARSER", old='import verifiers as vf\nPARSER = vf.XMLParser(["answer"])\n')
    assert text == 'from new import v0 as vf\nPARSER = vf.XMLParser(["answer"])'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import verifiers as vf\ndef f(x):\n    return vf.load_example_dataset('gsm8k')\n", "vf.load_example_dataset"),
        ("from verifiers.envs import SandboxEnv\ndef f(x):\n    return SandboxEnv\n", "SandboxEnv"),
        ("def f(x):\n    return open(__file__).read()\n", "files beside"),
        ("def f(x):\n    import verifiers\n    return 1\n", "inside of a function"),
    ],
)
def test_what_has_no_counterpart_is_refused_and_nothing_of_it_is_cut(text: str, why: str) -> None:
    package = OldPackage(source(old=text), "old.py", OFFERED)
    with pytest.raises(NotPortable, match=why) as refused:
        package.take("old.py", "f")
    assert refused.value.place.path == "old.py"
    assert not any(m.statements or m.imported for m in package.cut.values())


def test_other_modules_of_the_package_are_followed() -> None:
    files = {
        "old": "from tools import tidy\nimport tools as t\ndef f(x):\n    return tidy(x) + t.SIZE\n",
        "tools": "SIZE = 3\nUNUSED = 4\ndef tidy(x):\n    return x\n",
    }
    text = cut("f", **files)
    assert "from new.old_tools import tidy" in text
    assert "from new import old_tools as t" in text
    package = OldPackage(source(**files), "old.py", OFFERED)
    package.take("old.py", "f")
    assert sorted(package.cut["tools.py"].statements) == [0, 2]


def function(name: str, line: int, **free: Any) -> dict[str, Any]:
    return {"name": name, "file": "/x/old.py", "line": line, "bound": False, "free": free}


def ported(text: str, *rewards: dict[str, Any], arguments: Sequence[str] = (), **more: Any) -> PortedEnvironment:
    files = source(old=text)
    reply = {"base": "SingleTurnEnv", "own": None, "max_turns": 1, "tools": [], "parser": None, "objects": [], **more}
    described = decode_description({**reply, "rewards": list(rewards)}, ["old.py"])
    prompt = ({"role": "user", "content": "1 + 1?"},)
    rows = port_rows({"train": [Row(0, "k", prompt, "2", None, {"answer": "2"})]}, {"train": 1})
    port = OldPort("old", described, files, "old.py", ["verifiers>=0.1.14,<0.2"], arguments)
    return build_port(TEMPLATES, package_names("new"), port, rows)


def reward(name: str, line: int, weight: float | None = 1.0, **free: Any) -> dict[str, Any]:
    return {
        "name": name,
        "weight": weight,
        "library": "",
        "rubric": "Rubric",
        "group": False,
        "function": function(name, line, **free),
        "parser": None,
        "seconds": None,
    }


def test_description_and_tags_are_carried_over_and_the_defaults_of_evaluations_are_left() -> None:
    described = decode_description(
        {
            "base": "SingleTurnEnv",
            "own": None,
            "max_turns": 1,
            "tools": [],
            "parser": None,
            "objects": [],
            "rewards": [],
        },
        ["old.py"],
    )
    rows = port_rows({"train": [Row(0, "k", ({"role": "user", "content": "1?"},), "2", None, {})]}, {"train": 1})
    project = {"description": "Unit conversions.", "tags": ["math", "train", "single-turn"]}
    text = "def load_environment():\n    return 1\n"
    port = OldPort("old", described, source(old=text), "old.py", [], (), project, {"num_examples": 5})
    made = build_port(TEMPLATES, package_names("new"), port, rows)
    table = tomllib.loads(made.files["pyproject.toml"])["project"]
    assert table["description"] == "Unit conversions."
    assert table["tags"] == ["single-turn", "train", "eval", "math"]
    [left] = [part for part in made.left_parts if part.part == "[tool.verifiers.eval]"]
    assert "num_examples = 5" in left.as_json()["lines"]
    assert not left.by_hand


NESTED = """def load_environment(limit=3):
    def short(completion):
        return float(len(completion) < limit)

    return short
"""


@pytest.mark.parametrize(
    ("signature", "arguments", "warned"),
    [
        ("near: float = 0.5, *, seed: int = 3", ["near", "seed"], False),
        ("near, seed=3", ["near", "seed"], True),
        ("split='train'", ["split"], True),
    ],
    ids=["defaults", "no default", "rows of another split"],
)
def test_arguments_whose_defaults_are_carried_over_are_listed_and_need_no_edit(
    signature: str, arguments: list[str], warned: bool
) -> None:
    made = ported(f"def load_environment({signature}):\n    return 1\n", arguments=arguments)
    assert [part.part for part in made.left_parts] == ["arguments of load_environment"]
    assert [f.code for f in left_findings(made)] == (["port-left"] if warned else [])


def test_variables_of_the_function_around_become_constants() -> None:
    new = ported(NESTED, reward("short", 2, limit={"constant": 3}))
    text = new.files["new/functions.py"]
    assert "limit = 3\n" in text
    assert "\ndef short(completion):\n    return float(len(completion) < limit)\n" in text
    assert "functions.short" in new.files["new/taskset.py"]


def test_a_variable_that_is_no_constant_leaves_the_reward_with_its_lines() -> None:
    (left,) = ported(NESTED, reward("short", 2, limit={"other": "Dataset"})).left_parts
    shown = left.as_json()
    assert (shown["part"], shown["file"], shown["line"]) == ("reward short (weight 1)", "old.py", 2)
    assert "def short" in shown["lines"]


DESK = """import random

import verifiers as vf


def lend(book, loans):
    return f"{book} is lent"


class DeskEnv(vf.StatefulToolEnv):
    def __init__(self, **kwargs):
        super().__init__(tools=[], **kwargs)
        self.add_tool(lend, args_to_skip=["loans"])

    async def setup_state(self, state):
        state["loans"] = []

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "loans": state["loans"]}

    @vf.cleanup
    async def close(self, state):
        state["loans"].clear()


def load_environment(seed=3):
    return DeskEnv(
        dataset=random.Random(seed),
        max_turns=12,
    )
"""
DESK_ENV: dict[str, Any] = {
    "base": "StatefulToolEnv",
    "own": {"name": "DeskEnv", "file": "/x/old.py", "line": 12, "own_bases": [], "held": {}},
    "max_turns": 12,
    "tools": [function("lend", 6)],
}


def test_every_part_of_an_interaction_that_is_not_carried_over_is_named_with_its_line() -> None:
    """The finding named `import random` in line 1, and neither tools nor methods."""
    made = ported(DESK, arguments=["seed"], **DESK_ENV)
    left = {part.part: (part.place.line if part.place else 0, part.by_hand) for part in made.left_parts}
    assert left == {
        "the class DeskEnv": (10, True),
        "method setup_state": (15, True),
        "method update_tool_args": (18, True),
        "method close": (22, True),
        "the turn limit": (29, True),
        "tool lend": (6, True),
        "arguments of load_environment": (26, False),
    }
    assert made.left_parts[0].as_json()["lines"] == '"class DeskEnv(vf.StatefulToolEnv):"'
    assert made.left_parts[3].why == "it cleans up after each rollout"
    (finding,) = left_findings(made)
    assert finding.where == "old.py:10"
    assert (
        "and 5 other parts: method setup_state; method update_tool_args; method close; the turn limit; tool lend"
        in (finding.message)
    )
    assert "; 6 of 7 parts in data.left have to be written by hand." in made.left_sentence
    assert [part.as_json()["by_hand"] for part in made.left_parts] == [True] * 6 + [False]


def test_a_port_without_its_tools_does_not_say_that_the_older_environment_had_none() -> None:
    made = ported(DESK, **DESK_ENV)
    text = made.files["new/taskset.py"]
    assert "no tools" not in text
    assert text.startswith(
        '"""Tasks and rewards, ported from a v0 environment. Its tools or turns are not carried over'
    )
    assert "have to be written by hand" in text
    assert "with one reply" not in made.files["README.md"]
    plain = ported(NESTED, reward("short", 2, limit={"constant": 3}))
    assert "one question, one reply." in plain.files["new/taskset.py"]


def test_what_a_hostile_environment_says_about_itself_never_becomes_code() -> None:
    evil = "x:\n    import os  #"
    names = (
        reward(evil, 2, limit={"constant": 3}),
        reward("short", 2, **{evil: {"constant": 1}, "limit": {"constant": 3}}),
    )
    new = ported(NESTED, *names, objects=[evil], base=evil)
    for path, text in new.files.items():
        if path.endswith(".py"):
            parse_python(text)
            assert "import os" not in text
    assert "import os" not in new.files["pyproject.toml"]
    with pytest.raises(WorkerError):
        decode_description({"base": "SingleTurnEnv"}, [])


def test_a_place_outside_of_the_package_is_no_place() -> None:
    described = decode_description(
        {
            "base": "SingleTurnEnv",
            "own": None,
            "max_turns": None,
            "tools": [],
            "parser": None,
            "objects": [],
            "rewards": [{**reward("f", 1), "function": {**function("f", 1), "file": "/etc/passwd"}}],
        },
        ["old.py"],
    )
    assert described.rewards[0].function.place == CodePlace("", 1)


def test_every_package_that_is_written_is_valid_python_without_placeholders(tmp_path: Path) -> None:
    new = ported(NESTED, reward("short", 2, 0.0, limit={"constant": 3}))
    assert "@vf.metric" in new.files["new/taskset.py"]
    for path, text in new.files.items():
        assert "ported_template" not in text, path
        assert "PortedTemplate" not in text, path
        if path.endswith(".py"):
            parse_python(text)
