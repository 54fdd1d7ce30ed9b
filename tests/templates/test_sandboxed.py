"""The template sandboxed: its comparison, its setup, and rollouts in a local process in the place of a container."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.assembled import assembled
from tests.templates.loading import modules
from tests.templates.turns import episodes, talking

FOLDER = assembled("sandboxed")
MODULE = FOLDER / "sandboxed_template"


PARTS = modules("sandboxed", "answers", "commands")


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        ("1,204.5", "1204.5", True),
        ("87 kilos", "87", True),
        ("-3", "-3", True),
        ("3", "-3", False),
        ("88", "87", False),
        ("80+7", "87", False),
        ("__import__('os')", "87", False),
        ("North.", "north", True),
        ("North, South", "north", False),
        ("0.3333333", "0.33333333", True),
        ("0.33", "0.33333333", False),
    ],
)
def test_numbers_and_texts_are_compared_and_nothing_is_evaluated(answer: str, gold: str, right: bool) -> None:
    assert PARTS["answers"].right(answer, gold) is right


@pytest.mark.parametrize(
    ("command", "files", "used"),
    [
        ("cat sales_1.csv", ["sales_1.csv"], True),
        ("awk -F, '{print $5}' ./sales_1.csv | sort -n", ["sales_1.csv"], True),
        ("python3 -c 'print(open(\"sales_1.csv\").read())'", ["sales_1.csv"], True),
        ("cat *.csv", ["sales_1.csv"], True),
        ("ls -la", ["sales_1.csv"], False),
        ("cat sales_12.csv", ["sales_1.csv"], False),
        ("echo 7", [], True),
    ],
)
def test_a_command_uses_a_file_that_it_names_or_matches(command: str, files: list[str], used: bool) -> None:
    assert PARTS["commands"].used([command], files) is used


def test_golds_follow_from_the_files_of_their_tasks() -> None:
    checked_rows = 0
    for line in (MODULE / "data" / "train.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        (name, text), *rest = row["files"].items()
        sales = [entry.split(",") for entry in text.splitlines()[1:]]
        assert not rest
        assert name in row["question"]
        if "largest single sale" in row["question"]:
            checked_rows += 1
            assert max(float(s[3]) * float(s[4]) for s in sales) == pytest.approx(float(row["answer"]))
    assert checked_rows >= 15


def local(target: Path, **constants: str) -> Path:
    """A copy of the template whose tasks accept a local process, with constants of taskset.py replaced."""
    shutil.copytree(FOLDER, target, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    path = target / "sandboxed_template" / "taskset.py"
    code = path.read_text(encoding="utf-8")
    replaced = {"image=IMAGE,": "", **constants}
    for old, new in replaced.items():
        assert code.count(old) == 1
        code = code.replace(old, new)
    path.write_text(code, encoding="utf-8")
    return target


@pytest.mark.slow
def test_a_module_that_the_image_lacks_fails_the_rollout_before_the_model_is_asked(tmp_path: Path) -> None:
    folder = local(tmp_path / "sandboxed", **{'("csv", "decimal")': '("csv", "no_such_module_here")'})
    asked: list[Any] = []

    def script(messages: list[dict[str, Any]]) -> str:
        asked.append(messages)
        return "<answer>1</answer>"

    with talking(script) as model:
        (episode,) = episodes(folder, tmp_path / "run", model.url)
    said = json.dumps([episode["errors"], [trace["errors"] for trace in episode["traces"]]])
    assert not episode["ok"]
    assert asked == []
    assert "python:3.11-slim" in said
    assert "No module named 'no_such_module_here'" in said


@pytest.mark.slow
def test_the_tasks_refuse_to_run_outside_of_a_container(tmp_path: Path) -> None:
    with talking(lambda messages: "<answer>1</answer>") as model:
        (episode,) = episodes(FOLDER, tmp_path, model.url)
    assert not episode["ok"]
    assert "requires image 'python:3.11-slim'" in json.dumps(episode)
