"""`create_environment` makes whole packages that score as promised, or nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.authoring import numeric
from prime_lab_mcp.lab.authoring.names import names_for
from prime_lab_mcp.lab.authoring.template import set_constants
from prime_lab_mcp.lab.datasets.golds import normalised
from prime_lab_mcp.lab.datasets.inspection import judge
from prime_lab_mcp.lab.datasets.reading import Request, Scanned, Table
from prime_lab_mcp.lab.datasets.source import HubDataset
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.manifest import parse
from prime_lab_mcp.lab.report import Outcome, Report
from prime_lab_mcp.lab.snapshot import Snapshot, collect
from prime_lab_mcp.tools import create_environment
from prime_lab_mcp.tools.tool import Call

pytestmark = pytest.mark.anyio
TEMPLATES = Path(create_environment.__file__).parents[1] / "resources" / "templates"
SCORE = Path(__file__).parents[1] / "environments" / "score_replies.py"


def call(lab: Lab) -> Call:
    async def progress(done: float, total: float | None, message: str) -> None: ...

    async def prove(tool: str, snapshot: Snapshot) -> Report:
        raise AssertionError(tool)

    return Call(lab, None, progress, None, prove)  # type: ignore[arg-type]


async def created(lab: Lab, **args: Any) -> Outcome:
    return await create_environment.run(call(lab), create_environment.Args(**args))


def gsm8k(number: int, start: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "question": f"Bo{n} packs {n + 2} crates with 31 jars each. How many jars are packed?",
            "answer": f"{n + 2}*31=<<{n + 2}*31={(n + 2) * 31}>>{(n + 2) * 31}\n#### {(n + 2) * 31:,}",
        }
        for n in range(start, start + number)
    ]


def write(lab: Lab, name: str, rows: list[Any]) -> None:
    path = lab.workspace.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def scored(asked: dict[str, Any]) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-B", str(SCORE)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    result: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return result


async def test_an_environment_from_gsm8k_rows_pays_gold_in_full_and_wrong_answers_little(lab: Lab) -> None:
    write(lab, "math/train.jsonl", gsm8k(150))
    outcome = await created(lab, name="crate-count", dataset="math", task='Count the "crates".')
    assert outcome.status == "passed", outcome.findings
    folder = lab.workspace.root / "environments" / "crate_count"
    replies = ["<answer>GOLD</answer>", "<answer>WRONG</answer>", "<answer>GOLD</answer><answer>WRONG</answer>", "GOLD"]
    result = scored({"folder": str(folder), "id": "crate-count", "args": {}, "replies": replies})
    assert result["tasks"] == outcome.data["rows"]["train"] == 135
    assert result["all_gold"] == pytest.approx([1.1] * 135)
    assert [max(r) for r in result["rewards"].values()] == pytest.approx([1.1, 0.1, 0.0, 0.0])
    assert result["system"].startswith('Count the "crates".')
    assert (result["harness"], result["runtime"]) == ("null", "subprocess")


async def test_the_package_holds_every_file_that_is_pushed_and_pins_what_it_needs(lab: Lab) -> None:
    write(lab, "train.jsonl", gsm8k(150))
    outcome = await created(lab, name="Crates", dataset="train.jsonl")
    folder = lab.workspace.root / "environments" / "crates"
    pushed, left_out = collect(folder)
    manifest = parse((folder / "pyproject.toml").read_bytes())
    assert (left_out, sorted(pushed)) == ((), outcome.data["files"])
    assert {"crates/data/train.jsonl", "crates/data/eval.jsonl"} <= set(pushed)
    assert (manifest.module, manifest.requirements) == ("crates", ("verifiers>=0.4.0,<0.5",))
    assert [p.name for p in (lab.workspace.root / "environments").iterdir()] == ["crates"]


async def test_rows_without_number_repetitions_and_leaks_are_left_out_and_counted(lab: Lab) -> None:
    strays = [{"question": f"Stray {n}?", "answer": "about ten"} for n in range(1)]
    write(lab, "set/train.jsonl", [*gsm8k(200), *gsm8k(2), *strays])
    write(lab, "set/test.jsonl", gsm8k(20, 195))
    outcome = await created(lab, name="crates", dataset="set")
    assert outcome.status == "passed", outcome.findings
    data = lab.workspace.root / "environments" / "crates" / "crates" / "data"
    train, held = lines(data / "train.jsonl"), lines(data / "eval.jsonl")
    assert (len(train), len(held)) == (195, 20)
    assert not {normalised(r["question"]) for r in train} & {normalised(r["question"]) for r in held}
    (told,) = [f for f in outcome.findings if f.code == "rows-left-out"]
    assert "8 rows" in told.message
    assert "1 without a readable answer" in told.message


async def test_the_held_out_part_is_the_same_every_time(lab: Lab) -> None:
    write(lab, "train.jsonl", gsm8k(150))
    await created(lab, name="one", dataset="train.jsonl")
    await created(lab, name="two", dataset="train.jsonl")
    root = lab.workspace.root / "environments"
    assert (root / "one/one/data/eval.jsonl").read_bytes() == (root / "two/two/data/eval.jsonl").read_bytes()


async def test_long_questions_are_copied_whole(lab: Lab) -> None:
    rows = [{"question": f"Case {n}: " + f"{n} word " * 5000 + "?", "answer": str(n + 700_000)} for n in range(70)]
    write(lab, "train.jsonl", rows)
    await created(lab, name="long-ones", dataset="train.jsonl")
    data = lab.workspace.root / "environments" / "long_ones" / "long_ones" / "data"
    questions = {r["question"] for split in ("train", "eval") for r in lines(data / f"{split}.jsonl")}
    assert questions == {r["question"].strip() for r in rows}


async def test_blockers_of_the_dataset_refuse_and_leave_nothing(lab: Lab) -> None:
    conflicting = [{"question": gsm8k(1, n)[0]["question"], "answer": "#### 1"} for n in range(20)]
    write(lab, "train.jsonl", [*gsm8k(100), *conflicting])
    outcome = await created(lab, name="crates", dataset="train.jsonl")
    assert outcome.status == "failed"
    assert [f.code for f in outcome.blockers] == ["conflicting-gold"]
    assert list((lab.workspace.root / "environments").iterdir()) == []


async def test_an_answer_format_without_template_is_refused_with_the_way_by_hand(lab: Lab) -> None:
    write(lab, "train.jsonl", [{"text": f"The film number {n} was fine", "label": n % 2} for n in range(100)])
    outcome = await created(lab, name="films", dataset="train.jsonl")
    assert [f.code for f in outcome.blockers] == ["format-without-template"]
    assert "edit_environment" in outcome.blockers[0].fix
    assert list((lab.workspace.root / "environments").iterdir()) == []


async def test_an_existing_environment_is_never_overwritten(lab: Lab) -> None:
    write(lab, "train.jsonl", gsm8k(100))
    mine = lab.workspace.root / "environments" / "crates"
    mine.mkdir()
    (mine / "work.py").write_text("precious", encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        await created(lab, name="crates", dataset="train.jsonl")
    assert refused.value.code == "environment-exists"
    assert [p.name for p in mine.iterdir()] == ["work.py"]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"dataset": "train.jsonl", "api": "v0"}, "v0-not-offered"),
        ({}, "bad-argument"),
        ({"dataset": "train.jsonl", "hub": "a/b"}, "bad-argument"),
        ({"hub": "not a hub name"}, "bad-argument"),
    ],
)
async def test_what_cannot_be_created_is_refused_by_name(lab: Lab, args: dict[str, Any], code: str) -> None:
    with pytest.raises(BadInput) as refused:
        await created(lab, name="crates", **args)
    assert refused.value.code == code


def test_a_hub_dataset_is_loaded_at_its_commit_and_not_copied(tmp_path: Path) -> None:
    rows = tuple((n, row) for n, row in enumerate(gsm8k(100)))
    main = Scanned("train", rows, 100, True, "f" * 64)
    table = Table("me/sums", HubDataset("me/sums"), "main", "abc123", (("train", 100), ("test", 10)), main, None)
    found = judge(table, Request("me/sums"))
    numeric.build(TEMPLATES / "numeric", tmp_path / "sums", names_for("sums"), found, None)
    source = (tmp_path / "sums" / "sums" / "rows.py").read_text(encoding="utf-8")
    for constant in ('DATASET = "me/sums"', 'REVISION = "abc123"', 'CONFIG: str | None = "main"', "None = None"):
        assert constant in source
    assert sorted(p.name for p in (tmp_path / "sums" / "sums").iterdir()) == [
        "__init__.py", "numbers.py", "rows.py", "taskset.py",
    ]  # fmt: skip
    manifest = parse((tmp_path / "sums" / "pyproject.toml").read_bytes())
    assert any(r.startswith("datasets") for r in manifest.requirements)
    assert "`abc123`" in (tmp_path / "sums" / "README.md").read_text(encoding="utf-8")


def test_the_rows_of_a_hub_dataset_come_from_the_pinned_commit() -> None:
    template = TEMPLATES / "numeric" / "numeric_template" / "hub_rows.py"
    source = set_constants(
        template.read_text(encoding="utf-8"),
        {"DATASET": "me/sums", "CONFIG": None, "REVISION": "abc", "EVAL_SPLIT": None, "ANSWER_COLUMN": "a.b"},
    )
    asked: list[Any] = []
    rows = [{"question": f"What is {n}?", "a": {"b": n}} for n in range(300)]
    fake = "import sys, types\nsys.modules['datasets'] = types.SimpleNamespace(load_dataset=load)\n"
    space: dict[str, Any] = {"load": lambda *a, **k: asked.append((a, k)) or rows, "__name__": "hub_rows"}
    before = sys.modules.get("datasets")
    try:
        exec(fake + source.replace("from __future__ import annotations\n", ""), space)
        train, held = list(space["rows"]("train")), list(space["rows"]("eval"))
    finally:
        sys.modules.pop("datasets", None)
        if before is not None:
            sys.modules["datasets"] = before
    assert asked[0] == (("me/sums", None), {"split": "train", "revision": "abc"})
    assert sorted(train + held) == sorted((r["question"], str(r["a"]["b"])) for r in rows)
    assert 10 <= len(held) <= 50
