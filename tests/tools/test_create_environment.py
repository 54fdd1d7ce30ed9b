"""`create_environment` makes whole packages that score as promised, or nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.authoring.build import build_environment
from prime_lab_mcp.lab.authoring.naming import package_names
from prime_lab_mcp.lab.authoring.template import environment_kind
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.datasets.golds import normalised_text
from prime_lab_mcp.lab.datasets.inspection import inspect_table
from prime_lab_mcp.lab.datasets.scan import DatasetRequest, ScannedDataset, ScannedSplit
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.manifest import parse_manifest
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot, collect_files
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


@pytest.mark.slow
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
    pushed, left_out = collect_files(folder)
    manifest = parse_manifest((folder / "pyproject.toml").read_bytes())
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
    assert not {normalised_text(r["question"]) for r in train} & {normalised_text(r["question"]) for r in held}
    (told,) = [f for f in outcome.findings if f.code == "rows-left-out"]
    assert "8 rows" in told.message
    assert "1 whose answer cannot be read as a number, 2 repeating a question, 5 of the training split" in told.message
    assert "Stray 0?" in told.rows[0]["question"]
    assert 'Not read: "about ten" in row 202.' in told.message
    assert told.fix.startswith("Correct these answers where one number is meant")
    assert "left out" not in outcome.summary  # 8 of 222 rows


async def test_rows_that_were_left_out_are_told_by_reason_with_examples_and_what_would_do(lab: Lab) -> None:
    """One whole kind of problem was lost with "passed", "nothing to do" and no row to look at."""
    rows = [
        {
            "question": f"Sasha reads {n + 20} pages a day. How many in {n % 7 + 3} days?",
            "answer": (
                f"Take a day, {n + 20} pages. All of them: {n + 20}, {n % 7 + 3} times, is {(n + 20) * (n % 7 + 3)}"
                if n % 4 == 0
                else f"A day has {n + 20} pages. In all that is {(n + 20) * (n % 7 + 3)} pages."
            ),
        }
        for n in range(200)
    ]
    rows[1]["answer"], rows[2]["question"] = "", " "
    write(lab, "train.jsonl", rows)
    outcome = await created(lab, name="pages", dataset="train.jsonl", template="numeric")
    (told,) = [f for f in outcome.findings if f.code == "rows-left-out"]
    reasons = "1 without a question, 1 without an answer, 50 whose answer cannot be read as a number"
    assert told.message == f"52 rows of the dataset did not go into the environment: {reasons}."
    assert f"52 of 200 rows (26%) were left out: {reasons}." in outcome.summary
    assert [row["row"] for row in told.rows] == [2, 1, 0, 4, 8]
    assert told.rows[2]["question"].startswith('"Sasha reads 20 pages')
    assert told.rows[2]["answer"].endswith('is 60"')
    assert "a column of these numbers alone would do, named as answer_column" in told.fix


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


async def test_columns_that_group_the_tasks_are_told_with_the_arguments_that_select_by_them(lab: Lab) -> None:
    rows = [{"id": f"row{n}", "category": ("easy", "hard")[n % 3 > 0], **row} for n, row in enumerate(gsm8k(90))]
    write(lab, "levels.jsonl", rows)
    made = await created(lab, name="jars", dataset="levels.jsonl")
    assert made.data["select"] == {"env_args": {"where": {"category": ["hard"]}}}
    assert 'env_args={"where": {"category": ["hard"]}} selects tasks' in made.summary
    readme = (lab.workspace.environments / "jars" / "README.md").read_text(encoding="utf-8")
    assert '`where = { "category" = ["hard"] }`' in readme


async def test_blockers_of_the_dataset_refuse_and_leave_nothing(lab: Lab) -> None:
    conflicting = [{"question": gsm8k(1, n)[0]["question"], "answer": "#### 1"} for n in range(20)]
    write(lab, "train.jsonl", [*gsm8k(100), *conflicting])
    outcome = await created(lab, name="crates", dataset="train.jsonl")
    assert outcome.status == "failed"
    assert [f.code for f in outcome.blockers] == ["conflicting-gold"]
    assert list((lab.workspace.root / "environments").iterdir()) == []


async def test_an_answer_format_without_template_is_refused_with_the_way_by_hand(lab: Lab) -> None:
    rows = [{"nums": [n, n + 3, 7], "target": 2 * n + 10} for n in range(100)]
    write(lab, "train.jsonl", rows)
    outcome = await created(lab, name="countdown", dataset="train.jsonl")
    assert outcome.status == "failed"
    assert list((lab.workspace.root / "environments").iterdir()) == []


async def test_a_dataset_whose_answers_nobody_found_is_refused_with_the_question_for_them(lab: Lab) -> None:
    write(lab, "train.jsonl", [{"question": f"What is {n} and {n}?", "answer": None} for n in range(100)])
    outcome = await created(lab, name="sums", dataset="train.jsonl")
    assert [f.code for f in outcome.blockers] == ["empty-gold"]
    assert "answer_column" in outcome.blockers[0].fix


async def test_a_template_that_cannot_read_the_rows_is_refused_with_rows_that_show_it(lab: Lab) -> None:
    write(lab, "train.jsonl", gsm8k(100))
    outcome = await created(lab, name="crates", dataset="train.jsonl", template="boolean")
    (told,) = outcome.blockers
    assert (told.code, len(told.rows)) == ("rows-do-not-fit", 3)
    assert "100 of 100 rows" in told.message
    assert "a column of these numbers alone" in told.fix
    assert list((lab.workspace.root / "environments").iterdir()) == []


async def test_a_refusal_of_rows_leads_to_an_inspection_of_the_same_columns(lab: Lab) -> None:
    write(lab, "train.jsonl", [{"story": f"What is {n} and 1?", "worked": f"Add. It is {n + 1}."} for n in range(100)])
    named = {"dataset": "train.jsonl", "prompt_column": "story", "answer_column": "worked"}
    outcome = await created(lab, name="sums", template="boolean", **named)
    assert outcome.status == "failed"
    assert [(one.tool, one.arguments) for one in outcome.next if one.tool == "inspect_dataset"] == [
        ("inspect_dataset", named)
    ]


async def test_solutions_that_close_with_their_number_are_read_by_the_template_numeric(lab: Lab) -> None:
    rows = [
        {"story": f"What is {n} times 7?", "worked": f"Ten times is {10 * n}. So in the end it is {7 * n}."}
        for n in range(100)
    ]
    write(lab, "train.jsonl", rows)
    outcome = await created(lab, name="sums", dataset="train.jsonl", template="numeric", answer_column="worked")
    assert outcome.status == "passed", outcome.findings


@pytest.mark.parametrize("template", ["math", "short_text"])
@pytest.mark.parametrize(("ending", "fitting"), [(" The answer is {}.", "numeric"), ("", "free_text")])
async def test_answers_that_are_sentences_fit_no_template_that_compares_them_whole(
    lab: Lab, template: str, ending: str, fitting: str
) -> None:
    """They passed each test without a model: only the sentence itself in a box was paid, and no right number."""
    rows = [
        {
            "question": f"A boat goes {9 * n} km in 9 hours. How far does it go in {n + 20} hours?",
            "solution": f"Its speed is {9 * n}/9={n} km/h. In {n + 20} hours it covers {n * (n + 20)} km in all."
            + ending.format(n * (n + 20)),
        }
        for n in range(2, 102)
    ]
    write(lab, "train.jsonl", rows)
    asked = {"dataset": "train.jsonl", "prompt_column": "question", "answer_column": "solution"}
    outcome = await created(lab, name="boats", template=template, **asked)
    (told,) = outcome.blockers
    assert (told.code, told.message[:10]) == ("rows-do-not-fit", "90 of 90 a")
    assert f'template="{fitting}"' in told.fix
    assert outcome.next[0].arguments == {"name": "boats", "template": fitting, **asked}
    assert (await created(lab, name="boats", template=fitting, **asked)).status == "passed"


async def test_short_answers_with_a_few_long_ones_still_fit(lab: Lab) -> None:
    rows = [
        {"question": f"Who led the {n}th expedition?", "answer": {"text": [f"Captain Brook {n}"], "answer_start": [n]}}
        for n in range(100)
    ]
    for row in rows[:20]:
        row["answer"] = {"text": ["the man who had led the one before it, and the one before that too"]}
    write(lab, "train.jsonl", rows)
    assert (await created(lab, name="squad", dataset="train.jsonl", template="short_text")).status == "passed"


async def test_an_environment_with_a_judge_leads_to_its_test_with_a_judge_and_says_why_once(lab: Lab) -> None:
    """The first call after it had no judge: known before to say nothing of the reward, and it ran for 94 seconds."""
    cause = "the river carried silt from the hills while farmers built terraces along both banks in autumn"
    rows = [
        {
            "question": f"Why did the settlement number {n} change?",
            "answer": f"Because {cause[n % 9 :]}, as in region {n}.",
        }
        for n in range(100)
    ]
    write(lab, "train.jsonl", rows)
    outcome = await created(lab, name="essays", dataset="train.jsonl", template="free_text")
    assert outcome.next[0].arguments == {"environment": "essays", "judge": "prime"}
    said = " ".join([outcome.summary, *(f"{f.message} {f.fix}" for f in outcome.findings)])
    assert said.count("judge model") == 1
    assert "judge" not in ((await created(lab, name="sums", template="numeric")).next[-1].arguments or {})


async def test_a_template_alone_is_a_beginning_with_made_up_rows_and_says_so(lab: Lab) -> None:
    outcome = await created(lab, name="start", template="numeric", task="Add up.")
    assert (outcome.status, [f.code for f in outcome.findings]) == ("passed", ["sample-rows"])
    assert [step.tool for step in outcome.next] == ["read_environment", "test_reward"]
    folder = lab.workspace.root / "environments" / "start" / "start"
    assert len(lines(folder / "data" / "train.jsonl")) == outcome.data["rows"]["train"] >= 64
    assert 'INSTRUCTION = "Add up."' in (folder / "taskset.py").read_text(encoding="utf-8")


async def test_a_task_that_asks_for_another_form_of_the_answer_is_refused_with_the_template_that_has_it(
    lab: Lab,
) -> None:
    write(lab, "rows.jsonl", gsm8k(80))
    boxed = {"name": "boxed", "dataset": "rows.jsonl", "task": r"Solve it. End with \boxed{result}."}
    with pytest.raises(BadInput) as refused:
        await created(lab, **boxed)
    assert refused.value.code == "reward-contradicts-prompt"
    assert r"\boxed" in refused.value.message
    assert not (lab.workspace.environments / "boxed").exists()
    assert 'template="math"' in refused.value.fix
    assert (await created(lab, **boxed, template="math")).status == "passed"
    tagged = "Think, and write <answer>NUMBER</answer> at the end."
    assert (await created(lab, name="tagged", dataset="rows.jsonl", task=tagged)).status == "passed"


async def test_the_held_out_tenth_has_every_answer_in_its_share(lab: Lab) -> None:
    rows = [{"text": f"Message {n} about thing {n * 7}", "label": "spam" if n % 5 == 0 else "ham"} for n in range(200)]
    write(lab, "train.jsonl", rows)
    await created(lab, name="mail", dataset="train.jsonl")
    held = lines(lab.workspace.root / "environments" / "mail" / "mail" / "data" / "eval.jsonl")
    assert [sum(r["answer"] == label for r in held) for label in ("ham", "spam")] == [16, 4]


async def test_a_dataset_about_an_environment_that_exists_is_no_dataset(lab: Lab) -> None:
    with pytest.raises(BadInput) as refused:
        await created(lab, name="again", dataset="environment:crates")
    assert refused.value.code == "bad-argument"


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
        ({"template": "no such"}, "unknown-template"),
        ({"template": "multi_turn", "api": "v0"}, "unknown-template"),
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
    main = ScannedSplit("train", rows, 100, True, "f" * 64)
    table = ScannedDataset("me/sums", "hub", "main", "abc123", (("train", 100), ("test", 10)), main, None)
    found = inspect_table(table, DatasetRequest("me/sums"))
    build_environment(
        environment_kind(TEMPLATES, "numeric", "v1"), tmp_path / "sums", package_names("sums"), found, None, ()
    )
    source = (tmp_path / "sums" / "sums" / "rows.py").read_text(encoding="utf-8")
    for constant in ('DATASET = "me/sums"', 'REVISION = "abc123"', 'CONFIG: str | None = "main"', "None = None"):
        assert constant in source
    assert sorted(p.name for p in (tmp_path / "sums" / "sums").iterdir()) == [
        "__init__.py",
        "answers.py",
        "columns.py",
        "numbers.py",
        "rows.py",
        "selection.py",
        "shape.py",
        "tags.py",
        "taskset.py",
    ]
    manifest = parse_manifest((tmp_path / "sums" / "pyproject.toml").read_bytes())
    assert any(r.startswith("datasets") for r in manifest.requirements)
    assert "`abc123`" in (tmp_path / "sums" / "README.md").read_text(encoding="utf-8")


HUB_PROGRAM = """
import json, sys, types
rows = {rows!r}
asked = []
def load_dataset(*args, **kwargs):
    asked.append([args, kwargs])
    return rows[kwargs["split"]]
sys.modules["datasets"] = types.SimpleNamespace(load_dataset=load_dataset)
package = types.ModuleType("sums")
package.__path__ = [{path!r}]
sys.modules["sums"] = package
from sums.rows import rows as read
print(json.dumps({{"train": list(read("train")), "eval": list(read("eval")), "asked": asked[0]}}))
"""


def hub_rows(folder: Path, rows: dict[str, list[dict[str, Any]]], held: str | None) -> dict[str, Any]:
    """What the `rows.py` of a Hub environment yields when the dataset holds `rows`."""
    main = ScannedSplit("train", tuple(enumerate(rows["train"])), len(rows["train"]), True, "f" * 64)
    out = ScannedSplit(held, tuple(enumerate(rows[held])), len(rows[held]), True, "e" * 64) if held else None
    table = ScannedDataset("me/sums", "hub", None, "abc", tuple((s, len(r)) for s, r in rows.items()), main, out)
    found = inspect_table(table, DatasetRequest("me/sums"), answer_column="a.b")
    build_environment(environment_kind(TEMPLATES, "numeric", "v1"), folder, package_names("sums"), found, None, ())
    program = HUB_PROGRAM.format(rows=rows, path=str(folder / "sums"))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    result: dict[str, Any] = json.loads(ended.stdout)
    return result


def sums(number: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"question": f"What is {n} and {n}?", "a": {"b": 2 * n}} for n in range(start, start + number)]


def test_a_hub_environment_without_a_split_to_hold_out_holds_out_by_the_text_of_the_question(tmp_path: Path) -> None:
    found = hub_rows(tmp_path, {"train": sums(300)}, None)
    assert found["asked"] == [["me/sums", None], {"split": "train", "revision": "abc"}]
    both = sorted((r["question"], r["answer"]) for r in found["train"] + found["eval"])
    assert both == sorted((r["question"], str(r["a"]["b"])) for r in sums(300))
    assert 10 <= len(found["eval"]) <= 50


def test_a_hub_environment_yields_no_repetition_contradiction_or_leak(tmp_path: Path) -> None:
    odd = [{"question": "What is 1 and 1?", "a": {"b": 3}}, {"question": " what is 2 AND 2?", "a": {"b": 4}}]
    found = hub_rows(tmp_path, {"train": [*sums(100), *odd], "test": sums(10, 95)}, "test")
    asked = [r["question"] for r in found["train"]]
    assert len(asked) == len(set(asked)) == 100 - 1 - 5
    assert "What is 1 and 1?" not in asked
    assert [r["question"] for r in found["eval"]] == [r["question"] for r in sums(10, 95)]
