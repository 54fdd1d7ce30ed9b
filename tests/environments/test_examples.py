"""The example environments load and score as their READMEs say, in a process of their own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.findings import row_findings
from prime_lab_mcp.lab.datasets.tasks import TaskRow
from prime_lab_mcp.lab.state.manifest import parse_manifest
from prime_lab_mcp.lab.state.snapshot import collect_files

EXAMPLES = Path(__file__).parents[2] / "environments"
GSM8K = EXAMPLES / "gsm8k"


def scored(folder: Path, id: str, args: dict[str, Any], replies: list[str]) -> subprocess.CompletedProcess[str]:
    asked = {"folder": str(folder), "id": id, "args": args, "replies": replies}
    return subprocess.run(
        [sys.executable, "-B", str(Path(__file__).with_name("score_replies.py"))],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def sample() -> list[dict[str, str]]:
    lines = (GSM8K / "gsm8k" / "data" / "sample.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def gsm8k() -> dict[str, Any]:
    replies = [
        "I get <answer>GOLD</answer>",
        "<answer>$GOLD.00 dollars</answer>. Done",
        "<think><answer>WRONG</answer></think><answer>GOLD</answer>",
        "<answer>WRONG</answer>",
        "<think><answer>GOLD</answer></think><answer>WRONG</answer>",
        "<answer>GOLD</answer> no, <answer>WRONG</answer>",
        "<answer>WRONG</answer> no, <answer>GOLD</answer>",
        "<answer>GOLD+0</answer>",
        "<answer>GOLD",
        "GOLD",
        "",
    ]
    check_args = parse_manifest((GSM8K / "pyproject.toml").read_bytes()).table["tool"]["prime-lab"]["check_args"]
    ended = scored(GSM8K, "gsm8k", check_args, replies)
    assert ended.returncode == 0, ended.stderr[-2000:]
    result: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return result


@pytest.mark.slow
def test_gsm8k_loads_without_a_network_under_the_arguments_it_declares_for_checks(gsm8k: dict[str, Any]) -> None:
    assert gsm8k["tasks"] == 72
    assert (gsm8k["harness"], gsm8k["runtime"]) == ("null", "subprocess")


@pytest.mark.slow
def test_every_gold_of_gsm8k_gets_the_full_reward(gsm8k: dict[str, Any]) -> None:
    assert gsm8k["all_gold"] == pytest.approx([1.1] * 72)


def test_gsm8k_pays_right_answers_however_they_are_written(gsm8k: dict[str, Any]) -> None:
    right = list(gsm8k["rewards"].values())[:3]
    assert [min(r) for r in right] == pytest.approx([1.1] * 3)


def test_gsm8k_pays_nothing_else_more_than_the_format_is_worth(gsm8k: dict[str, Any]) -> None:
    wrong = list(gsm8k["rewards"].values())[3:]
    assert max(max(r) for r in wrong) == pytest.approx(0.1)
    assert [max(r) for r in wrong[2:]] == pytest.approx([0.0] * 6)


@pytest.mark.slow
def test_gsm8k_reads_a_file_of_the_same_shape(tmp_path: Path) -> None:
    rows = [
        {"question": f"What is {n} + {n}?", "answer": f"{n}+{n}=<<{n}+{n}={2 * n}>>\n#### {2 * n}"} for n in range(8)
    ]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    ended = scored(GSM8K, "gsm8k", {"data_file": str(tmp_path / "mine.jsonl"), "split": "test"}, [])
    assert json.loads(ended.stdout.splitlines()[-1])["golds"] == ["6", "14"]


@pytest.mark.slow
def test_gsm8k_never_falls_back_to_the_sample() -> None:
    asked = {"folder": str(GSM8K), "id": "gsm8k", "args": {}, "replies": []}
    ended = subprocess.run(
        [sys.executable, "-B", str(Path(__file__).with_name("score_replies.py"))],
        input=json.dumps(asked),
        env={"PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1", "HF_HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode != 0
    assert '"tasks"' not in ended.stdout
    assert "Couldn't reach 'openai/gsm8k'" in ended.stderr


def test_the_sample_has_the_shape_of_gsm8k_and_correct_annotations() -> None:
    for row in sample():
        assert set(row) == {"question", "answer"}
        steps = re.findall(r"<<([0-9+*/-]+)=([0-9]+)>>([0-9]+)", row["answer"])
        assert len(steps) >= 2
        for expression, value, shown in steps:
            assert value == shown
            assert eval(expression) == int(value)
        assert golds.gold_number(row["answer"], "gsm8k_hash") == int(steps[-1][1])


def test_the_training_part_of_the_sample_has_no_finding() -> None:
    kept = [TaskRow(r["question"], r["answer"], i) for i, r in enumerate(sample()) if i % 4 != 3]
    held = [TaskRow(r["question"], r["answer"], i) for i, r in enumerate(sample()) if i % 4 == 3]
    assert row_findings(kept, format="gsm8k_hash", eval_rows=held) == []


@pytest.mark.parametrize("example", sorted(p.name for p in EXAMPLES.iterdir() if p.is_dir()))
def test_examples_push_every_file_and_show_the_sections_the_hub_needs(example: str) -> None:
    pushed, left_out = collect_files(EXAMPLES / example)
    readme = (EXAMPLES / example / "README.md").read_text(encoding="utf-8")
    assert not left_out
    assert {"README.md", "pyproject.toml"} <= set(pushed)
    for section in ("## Dataset", "## Input and output", "## Reward", "## Usage"):
        assert section in readme
