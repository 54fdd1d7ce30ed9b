"""What is wrong with a dataset's files is told in a report with a code and a fix: never a traceback, never a crash."""

from __future__ import annotations

import gzip
import importlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS

pytestmark = pytest.mark.anyio
GOOD = [{"question": f"What is {n + 20} plus {n}, in one number?", "answer": str(2 * n + 20)} for n in range(80)]


async def inspected(lab: Lab, dataset: str, **more: Any) -> Report:
    return await Calls(lab, TOOLS, References()).execute("inspect_dataset", {"dataset": dataset, **more})


def jsonl(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(columns: dict[str, Any], names: list[str] | None = None) -> bytes:
    pa: Any = importlib.import_module("pyarrow")
    sink = pa.BufferOutputStream()
    table = pa.table(list(columns.values()), names=names or list(columns))
    importlib.import_module("pyarrow.parquet").write_table(table, sink)
    return bytes(sink.getvalue())


def columns(**more: Any) -> dict[str, Any]:
    return {name: [row[name] for row in GOOD] for name in GOOD[0]} | more


REFUSED: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "an empty file": ("x.jsonl", lambda: b"", "no-rows"),
    "an empty list": ("x.json", lambda: b"[]", "no-rows"),
    "a header and no rows": ("x.csv", lambda: b"question,answer\n", "no-rows"),
    "an empty Parquet table": ("x.parquet", lambda: parquet({"question": [], "answer": []}), "no-rows"),
    "duplicate names in CSV": ("x.csv", lambda: b"q,a,a\n1,2,3\n", "duplicate-columns"),
    "duplicate names in JSONL": ("x.jsonl", lambda: b'{"q": 1, "a": 2, "a": 3}\n', "duplicate-columns"),
    "duplicate names in JSON": ("x.json", lambda: b'[{"q": 1, "q": 2}]', "duplicate-columns"),
    "duplicate names in Parquet": (
        "x.parquet",
        lambda: parquet({"a": ["x"], "b": ["y"]}, ["q", "q"]),
        "duplicate-columns",
    ),
    "UTF-16": ("x.csv", lambda: "question,answer\nx,1\n".encode("utf-16"), "not-utf8"),
    "Latin-1 CSV": ("x.csv", lambda: "question,answer\nübel,1\n".encode("latin-1"), "not-utf8"),
    "Latin-1 JSONL": ("x.jsonl", lambda: '{"q": "übel"}\n'.encode("latin-1") * 20, "not-utf8"),
    "Latin-1 JSON": ("x.json", lambda: '[{"q": "übel"}]'.encode("latin-1"), "not-utf8"),
    "a binary file with a text ending": ("x.jsonl", lambda: b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(99), "not-utf8"),
    "an open quote that swallows the file": (
        "x.csv",
        lambda: b'question,answer\n"open,1\n' + b"row,1\n" * 3_000_000,
        "broken-csv",
    ),
    "JSON that is cut off": ("x.json", lambda: json.dumps(GOOD).encode()[:-200], "broken-json"),
    "JSON that is no list": ("x.json", lambda: b'"just a text"', "no-rows"),
    "JSON nested without end": ("x.json", lambda: b'[{"q": ' + b"[" * 200_000, "broken-json"),
    "a truncated Parquet file": ("x.parquet", lambda: parquet(columns())[:-50], "broken-file"),
    "no Parquet file at all": ("x.parquet", lambda: b"question,answer\n", "broken-file"),
    "an empty Arrow file": ("x.arrow", lambda: b"", "broken-file"),
    "gzip that is cut off": ("x.jsonl.gz", lambda: gzip.compress(jsonl(GOOD))[:-30], "broken-file"),
    "no gzip at all": ("x.csv.gz", lambda: b"question,answer\nx,1\n", "broken-file"),
    "no zstd at all": ("x.jsonl.zst", lambda: jsonl(GOOD), "broken-file"),
    "an unknown ending": ("x.xlsx", lambda: b"PK", "unknown-file-type"),
}


@pytest.mark.parametrize("what", REFUSED)
async def test_a_file_that_cannot_be_read_is_refused_with_a_code_and_a_fix(lab: Lab, what: str) -> None:
    name, content, code = REFUSED[what]
    (lab.workspace.root / name).write_bytes(content())
    report = await inspected(lab, name)
    assert report.status == "error"
    assert [f.code for f in report.findings] == [code], report.findings
    assert report.findings[0].fix
    assert "Traceback" not in json.dumps(report.as_json())


def with_more(**more: Any) -> bytes:
    return jsonl([row | {k: v[n] if isinstance(v, list) else v for k, v in more.items()} for n, row in enumerate(GOOD)])


JUDGED: dict[str, tuple[str, Callable[[], bytes], str | None]] = {
    "one row": ("x.jsonl", lambda: jsonl(GOOD[:1]), "small-set"),
    "answers that are all null": ("x.jsonl", lambda: with_more(answer=None), "empty-gold"),
    "answers that are all NaN": (
        "x.jsonl",
        lambda: with_more(answer="@").replace(b'"@"', b"NaN"),
        "empty-gold",
    ),
    "NaN answers in Parquet": ("x.parquet", lambda: parquet(columns(answer=[float("nan")] * 80)), "empty-gold"),
    "mixed types": ("x.jsonl", lambda: with_more(answer=[1, "x", None, [2], {"a": 1}] * 16), None),
    "huge cells": ("x.jsonl", lambda: with_more(note="long text " * 100_000)[:40_000_000], None),
    "a binary column": ("x.parquet", lambda: parquet(columns(blob=[b"\x00\xff" * 50] * 80)), "binary-column"),
    "images": (
        "x.parquet",
        lambda: parquet(columns(image=[{"bytes": b"\x89PNG", "path": "a.png"}] * 80)),
        "binary-column",
    ),
    "gigantic integers": ("x.jsonl", lambda: with_more(n="@").replace(b'"@"', b"9" * 100_000), None),
    "a gigantic integer as answer": ("x.jsonl", lambda: with_more(answer="@").replace(b'"@"', b"9" * 100_000), None),
    "numbers beyond every float": ("x.jsonl", lambda: with_more(n="@").replace(b'"@"', b"1e999"), None),
    "lone surrogates": ("x.jsonl", lambda: with_more(note="\ud800"), None),
    "deep nesting in a few rows": (
        "x.jsonl",
        lambda: jsonl(GOOD) + b'{"question": ' + b"[" * 50_000 + b"\n",
        "broken-rows",
    ),
    "deep values": ("x.jsonl", lambda: with_more(n="@").replace(b'"@"', b"[" * 300 + b"]" * 300), None),
    "a thousand columns": ("x.jsonl", lambda: jsonl([row | {f"c{c}": c for c in range(1000)} for row in GOOD]), None),
    "more columns than are looked at": (
        "x.jsonl",
        lambda: jsonl([row | {f"c{c}": c for c in range(2500)} for row in GOOD]),
        None,
    ),
    "odd names of columns": ("x.jsonl", lambda: jsonl([{"": 1, "\n\u202e": "x", **row} for row in GOOD]), None),
}


@pytest.mark.parametrize("what", JUDGED)
async def test_odd_values_are_judged_and_nothing_breaks(lab: Lab, what: str) -> None:
    name, content, code = JUDGED[what]
    (lab.workspace.root / name).write_bytes(content())
    report = await inspected(lab, name)
    assert report.status in ("passed", "failed"), report.findings
    assert code is None or code in {f.code for f in report.findings}, report.findings
    shown = json.dumps(report.as_json())
    assert "Traceback" not in shown
    assert len(shown) < 20_000


async def test_columns_with_dots_and_spaces_can_be_named(lab: Lab) -> None:
    rows = [{"the question": r["question"], "gold.value": r["answer"], "other": n} for n, r in enumerate(GOOD)]
    (lab.workspace.root / "x.jsonl").write_bytes(jsonl(rows))
    report = await inspected(lab, "x.jsonl", prompt_column="the question", answer_column="gold.value")
    assert report.status == "passed", report.findings
    assert report.data["prompt"]["columns"] == ["the question"]
    assert (report.data["answer"]["path"], report.data["answer"]["format"]) == ("gold.value", "numeric")


@pytest.mark.parametrize(
    ("name", "code"), [("x.jsonl", "line-too-long"), ("x.csv", "line-too-long"), ("x.json", "broken-json")]
)
async def test_a_line_of_two_gigabytes_is_refused_after_its_first_megabytes(lab: Lab, name: str, code: str) -> None:
    path = lab.workspace.root / name
    with path.open("wb") as sink:
        head = b"question,answer\n" if name == "x.csv" else b"[" if name == "x.json" else b""
        sink.write(head + b'{"question": "' + b"long " * 2000)
        sink.truncate(2 * 1024**3)
    before = _peak()
    report = await inspected(lab, name)
    assert [f.code for f in report.findings] == [code], report.findings
    assert path.stat().st_size == 2 * 1024**3
    assert _peak() - before < 300


def _peak() -> float:
    """MiB that this process had at most so far."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    line = next(line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


async def test_a_file_that_may_not_be_read_says_so(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lab.workspace.root / "x.jsonl"
    path.write_bytes(jsonl(GOOD))
    path.chmod(0)
    if os.access(path, os.R_OK):  # run by root
        real = Path.open

        def refuse(self: Path, *args: Any, **more: Any) -> Any:
            if self.name == "x.jsonl":
                raise PermissionError(13, "Permission denied")
            return real(self, *args, **more)

        monkeypatch.setattr(Path, "open", refuse)
    report = await inspected(lab, "x.jsonl")
    assert [f.code for f in report.findings] == ["file-unreadable"]


@pytest.mark.parametrize(
    ("dataset", "more", "code"),
    [
        ("../secret.jsonl", {}, "outside-workspace"),
        ("gone.jsonl", {}, "dataset-not-found"),
        ("environment:nothing", {}, "environment-not-found"),
        ("environment:", {}, None),
        ("environment:../x", {}, "outside-workspace"),
        ("x.jsonl", {"revision": "abc"}, "unknown-revision"),
        ("x.jsonl", {"config": "main"}, "unknown-config"),
        ("x.jsonl", {"split": "dev"}, "unknown-split"),
        ("x.jsonl", {"answer_column": "total"}, "unknown-column"),
        ("\0", {}, None),
        ("a" * 400, {}, None),
        ("environment:" + "a" * 300, {}, None),
        ("x/" * 200, {}, "dataset-not-found"),
    ],
)
async def test_arguments_that_name_nothing_are_refused(
    lab: Lab, dataset: str, more: dict[str, str], code: str | None
) -> None:
    (lab.workspace.root / "x.jsonl").write_bytes(jsonl(GOOD))
    report = await inspected(lab, dataset, **more)
    assert report.status == "error"
    assert len(report.findings) == 1
    assert report.findings[0].code != "internal-error"
    assert code in (None, report.findings[0].code)
