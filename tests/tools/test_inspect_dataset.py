"""`inspect_dataset` on local data in the shape of well-known datasets, in every file format."""

from __future__ import annotations

import csv
import importlib
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.datasets import text_files
from prime_lab_mcp.lab.datasets.reading import inspect_source
from prime_lab_mcp.lab.datasets.scan import DatasetRequest
from prime_lab_mcp.lab.hub.lookup import HubEntry
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.tools import inspect_dataset
from prime_lab_mcp.tools.tool import Call
from tests.conftest import EXAMPLES

pytestmark = pytest.mark.anyio
Row = Mapping[str, Any]


def call(lab: Lab) -> Call:
    async def progress(done: float, total: float | None, message: str) -> None: ...

    async def prove(tool: str, snapshot: Snapshot) -> Report:
        raise AssertionError(tool)

    return Call(lab, None, progress, None, prove)  # type: ignore[arg-type]


async def inspected(lab: Lab, dataset: str, **more: Any) -> Outcome:
    return await inspect_dataset.run(call(lab), inspect_dataset.Args(dataset=dataset, **more))


def gsm8k(number: int = 120, start: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "question": f"Bo{n} packs {n + 2} crates with 31 jars each. How many jars are packed?",
            "answer": f"He packs {n + 2}*31=<<{n + 2}*31={(n + 2) * 31}>>{(n + 2) * 31} jars.\n#### {(n + 2) * 31:,}",
        }
        for n in range(start, start + number)
    ]


def write(lab: Lab, name: str, rows: list[Any]) -> Path:
    path = lab.workspace.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix in (".gz", ".zst"):
        plain = write(lab, path.stem, rows)
        pa: Any = importlib.import_module("pyarrow")
        codec = "gzip" if path.suffix == ".gz" else "zstd"
        path.write_bytes(pa.compress(plain.read_bytes(), codec, asbytes=True))
        plain.unlink()
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    elif path.suffix in (".csv", ".tsv"):
        with path.open("w", encoding="utf-8", newline="") as sink:
            table = csv.DictWriter(sink, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            table.writeheader()
            table.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_arrow(lab: Lab, name: str, rows: list[Row]) -> None:
    pa: Any = importlib.import_module("pyarrow")
    table = pa.Table.from_pylist(rows)
    path = str(lab.workspace.root / name)
    if name.endswith(".parquet"):
        importlib.import_module("pyarrow.parquet").write_table(table, path)
    else:
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)


@pytest.mark.parametrize(
    "name", ["g.jsonl", "g.json", "g.csv", "g.tsv", "g.parquet", "g.arrow", "g.jsonl.gz", "g.csv.gz", "g.jsonl.zst"]
)
async def test_gsm8k_is_recognised_in_every_file_format(lab: Lab, name: str) -> None:
    if name.endswith((".parquet", ".arrow")):
        write_arrow(lab, name, gsm8k())
    else:
        write(lab, name, gsm8k())
    outcome = await inspected(lab, name)
    assert outcome.status == "passed", outcome.findings
    assert outcome.data["rows_scanned"] == 120
    assert outcome.data["prompt"]["columns"] == ["question"]
    assert outcome.data["answer"]["format"] == "gsm8k_hash"
    assert outcome.data["recommended_reward"]["kind"] == "numeric"


async def test_the_fingerprint_is_of_the_rows_not_of_the_file(lab: Lab) -> None:
    write(lab, "a.jsonl", gsm8k())
    write(lab, "b.json", gsm8k())
    write(lab, "c.jsonl", gsm8k(121))
    prints = [(await inspected(lab, name)).data["fingerprint"] for name in ("a.jsonl", "b.json", "c.jsonl")]
    assert prints[0] == prints[1] != prints[2]


async def test_a_folder_with_split_names_is_a_dataset_with_those_splits(lab: Lab) -> None:
    write(lab, "set/train.jsonl", gsm8k(100))
    write(lab, "set/test.csv", gsm8k(20, 500))
    outcome = await inspected(lab, "set")
    assert {"name": "test", "rows": 20} in outcome.data["splits"]
    assert outcome.data["dataset"]["split"] == "train"


async def test_a_leak_between_the_splits_of_a_folder_fails(lab: Lab) -> None:
    write(lab, "set/train.jsonl", gsm8k(100))
    write(lab, "set/test.jsonl", gsm8k(20, 90))
    outcome = await inspected(lab, "set")
    assert outcome.status == "failed"
    assert [f.code for f in outcome.blockers] == ["leak-exact"]


async def test_a_passage_belongs_to_the_prompt_and_nested_answers_are_found(lab: Lab) -> None:
    rows = [
        {
            "context": f"Town {n} lies at the river R{n} in the hills.",
            "question": f"At which river is town {n}?",
            "answers": {"text": [f"R{n}", f"the R{n}"], "answer_start": [3, 4]},
        }
        for n in range(80)
    ]
    outcome = await inspected(lab, str(write(lab, "squad.jsonl", rows).name))
    assert outcome.data["prompt"]["columns"] == ["context", "question"]
    assert (outcome.data["answer"]["path"], outcome.data["answer"]["format"]) == ("answers.text", "multi_answer")


async def test_a_short_answer_goes_before_a_long_solution(lab: Lab) -> None:
    golds = [rf"\frac{{{n}}}{{9}}" for n in range(80)]
    rows = [{"problem": f"Find value {g} of f", "solution": rf"\boxed{{{g}}}", "answer": g} for g in golds]
    outcome = await inspected(lab, str(write(lab, "math.jsonl", rows).name))
    assert (outcome.data["answer"]["path"], outcome.data["answer"]["format"]) == ("answer", "latex_math")


async def test_the_caller_overrules_the_guesses(lab: Lab) -> None:
    rows = [
        {
            "note": f"What is {n} and {n}, in words and figures?",
            "question": f"Title of the page {n} here",
            "answer": "x" * (n % 7 + 1),
            "sum": n * 2 + 1000,
        }
        for n in range(80)
    ]
    write(lab, "odd.jsonl", rows)
    outcome = await inspected(lab, "odd.jsonl", prompt_column="note", answer_column="sum")
    assert outcome.data["prompt"] == {"columns": ["note"], "confidence": 1.0, "why": "you named it"}
    assert (outcome.data["answer"]["path"], outcome.data["answer"]["format"]) == ("sum", "numeric")
    with pytest.raises(BadInput, match="no column"):
        await inspected(lab, "odd.jsonl", answer_column="total")


async def test_answers_that_are_all_empty_fail_and_are_no_booleans(lab: Lab) -> None:
    write(lab, "e.jsonl", [{"question": f"What is item {n} of the list?", "answer": ""} for n in range(80)])
    outcome = await inspected(lab, "e.jsonl")
    assert [f.code for f in outcome.blockers] == ["empty-gold"]
    assert outcome.data["answer"] is None


async def test_broken_lines_are_counted_and_named(lab: Lab) -> None:
    path = write(lab, "b.jsonl", gsm8k())
    path.write_text(path.read_text(encoding="utf-8") + '{"question": \n[1, 2]\n', encoding="utf-8")
    outcome = await inspected(lab, "b.jsonl")
    assert [(f.code, f.severity) for f in outcome.findings] == [("broken-rows", "blocker")]
    assert [row["line"] for row in outcome.findings[0].rows] == [121, 122]


async def test_an_endless_line_is_refused_without_reading_it(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "LONGEST_LINE", 10_000)
    for name in ("long.jsonl", "long.csv"):
        (lab.workspace.root / name).write_text("question,answer\n" + "x" * 30_000, encoding="utf-8")
        with pytest.raises(BadInput) as refused:
            await inspected(lab, name)
        assert refused.value.code == "line-too-long"


async def test_only_a_sample_of_many_rows_is_judged_and_it_is_not_the_head(lab: Lab) -> None:
    rows = [{"text": f"The film number {n} was shown", "label": int(n >= 500)} for n in range(1000)]
    write(lab, "imdb.jsonl", rows)
    outcome = await inspected(lab, "imdb.jsonl", max_rows=100)
    assert (outcome.data["rows_scanned"], outcome.data["rows_judged"]) == (1000, 100)
    assert outcome.data["answer"]["format"] == "class_id"
    assert next(c["distinct"] for c in outcome.data["columns"] if c["name"] == "label") == 2


@pytest.mark.parametrize(
    ("dataset", "code"),
    [
        ("../secret.jsonl", "outside-workspace"),
        ("gone.jsonl", "dataset-not-found"),
        ("environment:gsm8k", "environment-not-found"),
    ],
)
async def test_what_is_no_dataset_is_refused(lab: Lab, dataset: str, code: str) -> None:
    with pytest.raises(BadInput) as refused:
        await inspected(lab, dataset)
    assert refused.value.code == code


async def test_the_hub_out_of_reach_is_a_failure_of_machinery_with_a_way_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(LabError) as failed:
        await inspected(lab, "openai/gsm8k")
    assert failed.value.code == "hub-unreachable"
    assert "workspace" in failed.value.fix


async def test_foreign_text_is_quoted_and_the_result_stays_short(lab: Lab) -> None:
    rows = [{f"c{c}": f"value {n} \u202e" + "long " * 500 for c in range(30)} | gsm8k(1, n)[0] for n in range(70)]
    write(lab, "wide.jsonl", rows)
    outcome = await inspected(lab, "wide.jsonl")
    text = json.dumps(outcome.data)
    assert "\\\\u202e" in text
    assert len(text) < 8_000


async def test_the_rows_of_an_environment_are_judged_without_running_its_code_here(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    shutil.copytree(EXAMPLES / "gsm8k", lab.workspace.environments / "gsm8k")
    outcome = await inspected(lab, "environment:gsm8k")
    assert outcome.status == "passed", outcome.findings
    assert outcome.data["prompt"]["columns"] == ["prompt"]
    assert outcome.data["answer"]["path"] == "answer"
    assert outcome.data["rows_judged"] == outcome.data["rows_scanned"] > 50
    assert [n.tool for n in outcome.next] == ["test_reward"]
    assert "gsm8k" not in sys.modules


async def test_a_revision_of_an_environment_is_refused(lab: Lab) -> None:
    with pytest.raises(BadInput, match="no config"):
        await inspected(lab, "environment:gsm8k", revision="main")


def on_the_hub(monkeypatch: pytest.MonkeyPatch, exists: bool | None, seconds: float = 0.0) -> list[str]:
    """What the Environments Hub answers; the names it was asked."""
    asked: list[str] = []

    async def look_up(prime: object, owner: str, name: str) -> HubEntry:
        asked.append(f"{owner}/{name}")
        await anyio.sleep(seconds)
        return HubEntry(owner, name, exists)

    monkeypatch.setattr(inspect_dataset.lookup, "look_up_environment", look_up)
    return asked


def hub_serves(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hub dataset is judged elsewhere (test_hub.py); here its place is taken by a file."""
    write(lab, "set.jsonl", gsm8k())
    real = inspect_source

    async def inspect(lab: Lab, request: DatasetRequest, **more: Any) -> Any:
        return await real(lab, replace(request, dataset="set.jsonl"), **more)

    monkeypatch.setattr(inspect_dataset, "inspect_source", inspect)


async def test_an_environment_of_the_same_name_is_said_first(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    hub_serves(lab, monkeypatch)
    on_the_hub(monkeypatch, True)
    outcome = await inspected(lab, "primeintellect/gsm8k")
    assert outcome.status == "passed"
    assert outcome.findings[0].code == "also-an-environment"
    assert {"kind": "environment", "query": "primeintellect/gsm8k"} in [n.arguments for n in outcome.next]


async def test_a_name_that_is_an_environment_only_says_so_beside_the_failure(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def inspect(*given: Any, **more: Any) -> Any:
        raise LabError("the Hub has no such dataset", fix="Check it.", code="hub-not-found")

    monkeypatch.setattr(inspect_dataset, "inspect_source", inspect)
    on_the_hub(monkeypatch, True)
    outcome = await inspected(lab, "primeintellect/wordle")
    assert [f.code for f in outcome.findings] == ["also-an-environment", "hub-not-found"]
    assert [n.tool for n in outcome.next] == ["search_hub"]


@pytest.mark.parametrize("exists", [False, None])
async def test_a_hub_without_the_name_or_out_of_reach_changes_nothing(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, exists: bool | None
) -> None:
    hub_serves(lab, monkeypatch)
    asked = on_the_hub(monkeypatch, exists)
    outcome = await inspected(lab, "openai/gsm8k")
    assert asked == ["openai/gsm8k"]
    assert (outcome.status, outcome.findings) == ("passed", ())


async def test_a_hub_that_does_not_answer_delays_an_inspection_by_seconds_at_most(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub_serves(lab, monkeypatch)
    monkeypatch.setattr(inspect_dataset, "LOOKED_UP", 0.2)
    on_the_hub(monkeypatch, True, seconds=60)
    started = anyio.current_time()
    outcome = await inspected(lab, "openai/gsm8k")
    assert (outcome.status, outcome.findings) == ("passed", ())
    assert anyio.current_time() - started < 20


async def test_a_file_of_the_workspace_is_not_looked_up_on_the_hub(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    write(lab, "data/train.jsonl", gsm8k())
    asked = on_the_hub(monkeypatch, True)
    assert (await inspected(lab, "data/train.jsonl")).findings == ()
    assert asked == []


@pytest.mark.parametrize(
    ("path", "name"),
    [("store/data/train.jsonl", "store"), ("Math-Set.jsonl", "math_set"), ("train.jsonl", "my_env")],
)
async def test_the_environment_that_is_proposed_is_called_after_the_dataset_not_its_split(
    lab: Lab, path: str, name: str
) -> None:
    write(lab, path, gsm8k())
    outcome = await inspected(lab, path)
    assert outcome.next[0].arguments == {"name": name, "dataset": path}


async def test_flaws_that_creating_an_environment_leaves_out_lead_there_and_others_do_not(lab: Lab) -> None:
    write(lab, "leaky/train.jsonl", gsm8k())
    write(lab, "leaky/test.jsonl", gsm8k(10, 115))
    leaky = await inspected(lab, "leaky")
    assert (leaky.status, leaky.next[0].tool) == ("failed", "create_environment")
    write(lab, "torn.jsonl", [*gsm8k(), *({**row, "answer": "#### 1"} for row in gsm8k(20))])
    torn = await inspected(lab, "torn.jsonl")
    assert (torn.status, torn.next[0].tool) == ("failed", "inspect_dataset")


async def test_a_database_is_handed_to_the_templates_whose_tools_read_it_and_is_no_error(lab: Lab) -> None:
    (lab.workspace.root / "orders.sqlite").write_bytes(b"SQLite format 3\x00")
    outcome = await inspected(lab, "orders.sqlite")
    (finding,) = outcome.findings
    fix = str(finding.fix)
    assert (outcome.status, finding.code) == ("inconclusive", "unknown-file-type")
    assert fix.index('template="tool_use"') < fix.index("also to change it") < fix.index('template="stateful_tools"')


def pens(*sentences: str, columns: tuple[str, str] = ("problem", "worked")) -> list[dict[str, str]]:
    """Solutions that end in their number in sentences which nothing reads as golds."""
    return [
        {
            columns[0]: f"Ana has {n + 20} pens. She buys {n % 9 + 2} packs of 7 pens. How many has she now?",
            columns[1]: sentences[n % len(sentences)].format(
                n % 9 + 2, (n % 9 + 2) * 7, n + 20, n + 20 + (n % 9 + 2) * 7
            ),
        }
        for n in range(120)
    ]


async def test_the_one_other_column_is_the_answer_column_of_the_next_call(lab: Lab) -> None:
    write(lab, "pens.jsonl", pens("{0} packs of 7 are {1}.\nWith {2} more that is {3}"))
    found = await inspected(lab, "pens.jsonl")
    (blocker,) = found.blockers
    assert blocker.code == "empty-gold"
    assert 'in "worked", 120 of 120 answers end in a number (34,' in blocker.message
    assert "a column of these numbers alone would do" in blocker.fix
    assert [(one.tool, one.arguments) for one in found.next] == [
        ("inspect_dataset", {"dataset": "pens.jsonl", "answer_column": "worked"})
    ]
    named = await inspected(lab, "pens.jsonl", answer_column="worked")
    assert named.status == "passed"


async def test_of_several_columns_the_one_of_solutions_is_proposed_and_none_where_nothing_tells(lab: Lab) -> None:
    rows = pens("{0} packs of 7 are {1}.\nWith {2} more that is {3}")
    remarks = [
        {
            name: f"Reader {n} {name} that this was hard to work out without paper and a good pen"
            for name in ("told", "heard")
        }
        for n in range(len(rows))
    ]
    write(lab, "pens.jsonl", [row | remark for row, remark in zip(rows, remarks, strict=True)])
    assert (await inspected(lab, "pens.jsonl")).next[0].arguments == {
        "dataset": "pens.jsonl",
        "answer_column": "worked",
    }
    plain = [{"problem": row["problem"], **remark} for row, remark in zip(rows, remarks, strict=True)]
    write(lab, "plain.jsonl", plain)
    (blocker,) = (await inspected(lab, "plain.jsonl")).blockers
    assert 'It may be one of "told", "heard".' in blocker.fix


async def test_texts_that_end_in_their_number_are_for_a_column_of_numbers_before_a_judge(lab: Lab) -> None:
    write(lab, "pens.jsonl", pens("{0} packs of 7 are {1}.\n{1} plus {2} gives {3}", columns=("question", "answer")))
    found = await inspected(lab, "pens.jsonl")
    assert found.data["answer"]["format"] == "free_text"
    (told,) = [f for f in found.findings if f.code == "no-checkable-answer"]
    assert "120 of 120 answers end in a number" in told.message
    assert told.fix.index("a column of these numbers alone would do") < told.fix.index("judge")
    assert [one.tool for one in found.next] == ["inspect_dataset", "create_environment"]
    assert "answer_column" in found.next[0].why


async def test_answers_in_two_forms_that_end_in_their_number_get_one_remedy(lab: Lab) -> None:
    write(lab, "pens.jsonl", pens("{1} new pens.\nAnswer: {3}", "{1} new pens and {2} gives {3}"))
    found = await inspected(lab, "pens.jsonl", answer_column="worked")
    (blocker,) = found.blockers
    assert blocker.code == "mixed-format"
    assert "120 of 120 answers end in a number" in blocker.message
    assert "a column of these numbers alone would do" in blocker.fix
    assert "no-checkable-answer" not in [f.code for f in found.findings]


async def test_texts_that_end_in_words_are_still_for_a_judge_alone(lab: Lab) -> None:
    rows = [
        {
            "question": f"What is said of harbour {n}?",
            "answer": f"In {1900 + n} it was said that boats {n} lie there for long.",
        }
        for n in range(120)
    ]
    write(lab, "harbours.jsonl", rows)
    found = await inspected(lab, "harbours.jsonl")
    (told,) = [f for f in found.findings if f.code == "no-checkable-answer"]
    assert "end in a number" not in told.message
    assert [one.tool for one in found.next] == ["create_environment"]
