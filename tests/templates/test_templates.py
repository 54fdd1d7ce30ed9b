"""What every template has in common: it is a whole, clean package that passes the free steps as it lies there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from prime_lab_mcp.lab.authoring.assembly import Template, source_files, template_names
from prime_lab_mcp.lab.authoring.build import template_row_reader
from prime_lab_mcp.lab.authoring.template import SINGLE_TURN, environment_kind
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.conftest import TEMPLATES
from tests.support.assembled import assembled
from tests.templates.loading import modules
from tests.templates.public_shapes import FITTING, NAMED

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
KINDS = template_names(TEMPLATES)
GENERATING = {kind for kind in KINDS if environment_kind(TEMPLATES, kind, "v1").generates}
"""Kinds that make their tasks themselves: no rows, no reading of a dataset."""
READING = [kind for kind in KINDS if kind not in GENERATING]
SHARED = TEMPLATES / "_shared"
OLDER = [kind for kind in KINDS if kind.startswith("v0_")]

UNTYPED = ("--ignore-missing-imports", "--allow-subclassing-any", "--allow-untyped-decorators")
"""verifiers and datasets do not say that they are typed, so what they provide is Any."""


def module(kind: str) -> Path:
    return assembled(kind) / f"{kind}_template"


def like(kind: str, text: str) -> str:
    """A file of `kind` with the names of `numeric` in it."""
    names = Template(TEMPLATES / kind).names
    return text.replace(names.module, "numeric_template").replace(names.prefix, "NumericTemplate")


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_is_named_after_its_kind_and_shows_what_the_hub_shows(kind: str) -> None:
    project = tomllib.loads((TEMPLATES / kind / "pyproject.toml").read_text(encoding="utf-8"))
    readme = (TEMPLATES / kind / "README.md").read_text(encoding="utf-8")
    assert project["project"]["name"] == f"{kind}-template".replace("_", "-")
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [f"{kind}_template"]
    assert [line for line in readme.splitlines() if line.startswith("## ")][:4] == [
        "## Dataset",
        "## Input and output",
        "## Reward",
        "## Usage",
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_the_verifiers_bound_of_a_template_is_read_as_its_generation_by_the_hub(kind: str) -> None:
    project = tomllib.loads((TEMPLATES / kind / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bound = next(Requirement(d) for d in project["dependencies"] if Requirement(d).name == "verifiers")
    admitted = {
        version for version in ("0.1.14", "0.2.1", "0.3.1", "0.4.0", "0.5.0") if bound.specifier.contains(version)
    }
    assert admitted == ({"0.1.14"} if kind in OLDER else {"0.4.0"})


def test_no_file_stands_in_two_templates_and_what_is_shared_is_used_by_two() -> None:
    holders: dict[str, list[str]] = {}
    uses: dict[Path, int] = dict.fromkeys(source_files(SHARED), 0)
    for kind in KINDS:
        for path, source in Template(TEMPLATES / kind).sources.items():
            if source in uses:
                uses[source] += 1
            else:
                holders.setdefault(like(kind, source.read_text(encoding="utf-8")), []).append(f"{kind}/{path}")
    assert [names for text, names in holders.items() if len(names) > 1 and text.strip()] == []
    assert [path.name for path, times in uses.items() if times < 2] == []


def test_every_template_makes_its_tasks_or_has_rows_for_its_free_steps() -> None:
    """`free_text` needs a judge (test_free_text.py), and rows of other kinds go through `v0_single_turn`."""
    with_rows = {kind for kind, _ in FITTING.values()} | set(NAMED)
    assert set(READING) - with_rows == {"free_text", "v0_single_turn"}


def test_assembled_templates_are_clean(tmp_path: Path) -> None:
    for kind in KINDS:
        Template(TEMPLATES / kind).write(tmp_path / kind)
    for command in (["check"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--no-cache", "--config", str(ROOT / "pyproject.toml"), "."]
        ended = subprocess.run(ruff, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 0, ended.stdout[-3000:]


def test_a_package_holds_neither_the_list_nor_the_name_of_what_it_shares() -> None:
    for kind in KINDS:
        template = Template(TEMPLATES / kind)
        assert "shared.txt" not in template.sources
        assert not any("shared_template" in template.text(path) for path in template.sources), kind


@pytest.mark.parametrize("kind", sorted(SINGLE_TURN))
def test_single_turn_kinds_differ_in_how_answers_are_compared_and_in_nothing_else(kind: str) -> None:
    def body(text: str) -> list[str]:
        own = ("INSTRUCTION", "    answer: str", "import asyncio")
        text = text.replace("await asyncio.to_thread(score, ", "score(")  # math may wait for another process
        return [line for line in text.splitlines() if not line.startswith(own)]

    mine = like(kind, (module(kind) / "taskset.py").read_text(encoding="utf-8"))
    assert body(mine) == body((module("numeric") / "taskset.py").read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", READING)
def test_a_template_holds_enough_different_rows_that_its_own_reading_of_a_dataset_leaves_as_they_are(kind: str) -> None:
    counts = {}
    for split in ("train", "eval"):
        lines = (module(kind) / "data" / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        counts[split] = len({row["question"] for row in rows})
        assert counts[split] == len(rows)
    assert counts["train"] >= 64
    assert counts["eval"] >= 10


@pytest.mark.parametrize("kind", sorted(SINGLE_TURN))
def test_the_answer_of_every_sample_row_is_right_by_the_template_s_own_comparison(kind: str) -> None:
    answers = modules(kind, "answers")["answers"]
    unpaid = []
    for file in sorted((module(kind) / "data").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            gold = answers.gold_of(json.loads(line))
            if gold is None or answers.score(answers.reply_with(gold), gold) != 1.0:
                unpaid.append(line)
    assert unpaid == []


@pytest.mark.parametrize("kind", READING)
def test_a_template_reads_rows_without_anything_but_the_standard_library(kind: str) -> None:
    read = template_row_reader(Template(TEMPLATES / kind), {})
    assert read({}) is None
    assert read({"question": None, "answer": None}) is None


@pytest.mark.slow
def test_templates_are_typed() -> None:
    paths = [str(assembled(kind)) for kind in KINDS]
    modules = [part for kind in KINDS for part in ("-p", f"{kind}_template")]
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *UNTYPED, "--config-file", os.devnull, *modules],
        env=os.environ | {"MYPYPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-3000:]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_template_alone_becomes_a_whole_package_of_its_generation(lab: Lab, kind: str) -> None:
    """What it scores is tested on datasets that fit it, in test_instantiated.py."""
    calls = Calls(lab, TOOLS, References())
    created = await calls.execute("create_environment", {"name": "begun", "template": kind, "task": "Mind the gap."})
    assert (created.status, created.data["api"]) == ("passed", "v0" if kind in OLDER else "v1")
    folder = Path(lab.workspace.root) / "environments" / "begun"
    made = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    tasks = {"begun/generator.py"} if kind in GENERATING else {"begun/rows.py", "begun/data/train.jsonl"}
    assert {"README.md", "pyproject.toml", "begun/__init__.py", *tasks} <= made
    assert [f.code for f in created.findings] == ["sample-rows"]
    texts = [p.read_text(encoding="utf-8") for p in folder.rglob("*") if p.suffix in (".py", ".md", ".toml")]
    assert any("Mind the gap." in text for text in texts)
    names = Template(TEMPLATES / kind).names
    assert not any(names.module in text or names.prefix in text for text in texts)
