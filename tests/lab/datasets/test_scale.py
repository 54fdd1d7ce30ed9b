"""Many rows: exact counts beside a sample, progress, cancellation, and memory that does not grow with the file."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from benchmarks import dataset_scan
from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.datasets import dataset_program, reading
from prime_lab_mcp.lab.datasets.inspection import Inspection
from prime_lab_mcp.lab.datasets.reading import inspect_source
from prime_lab_mcp.lab.datasets.scan import DatasetRequest
from prime_lab_mcp.lab.lab import Lab

pytestmark = pytest.mark.anyio


def gsm8k(start: int, end: int, add: int = 0) -> list[dict[str, str]]:
    return [
        {
            "question": f"Bo{n} packs {n + 2} crates with 31 jars each. How many jars are packed?",
            "answer": f"He packs {(n + 2) * 31} jars.\n#### {(n + 2) * 31 + add:,}",
        }
        for n in range(start, end)
    ]


def write(lab: Lab, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
    path = lab.workspace.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_parquet(lab: Lab, name: str, rows: list[dict[str, Any]]) -> None:
    pa: Any = importlib.import_module("pyarrow")
    table = pa.Table.from_pylist(rows)
    importlib.import_module("pyarrow.parquet").write_table(table, lab.workspace.root / name, row_group_size=5000)


def message(found: Inspection, code: str) -> str:
    return next(f.message for f in found.findings if f.code == code)


async def test_the_program_judges_as_this_process_does(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    write(lab, "set/train.jsonl", [*gsm8k(0, 300), *gsm8k(0, 9, add=1), {"question": "Q?", "answer": None}])
    write(lab, "set/test.jsonl", gsm8k(290, 320))
    here = await inspect_source(lab, DatasetRequest("set"))
    monkeypatch.setattr(reading, "IN_PROCESS", 0)
    there = await inspect_source(lab, DatasetRequest("set"))
    assert there.table.main.rows == ()
    assert there.as_json() == here.as_json()
    assert there.findings == here.findings
    assert {"conflicting-gold", "leak-exact"} <= {f.code for f in there.findings}


async def test_a_choice_of_columns_is_refused_by_the_program_as_by_this_process(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "IN_PROCESS", 0)
    write(lab, "x.jsonl", gsm8k(0, 80))
    with pytest.raises(LabError) as refused:
        await inspect_source(lab, DatasetRequest("x.jsonl"), answer_column="total")
    assert refused.value.code == "unknown-column"


def test_the_program_needs_none_of_the_servers_packages() -> None:
    code = """
import runpy, sys
program = runpy.run_path(sys.argv[1])
program["make_importable"](sys.argv[2])
import importlib
for name in ("datasets.file_scans", "datasets.hub_dataset"):
    importlib.import_module("prime_lab_mcp.lab." + name)
ours = {"pydantic", "anyio", "mcp", "tomlkit", "platformdirs", "orjson", "httpx", "packaging"}
print(sorted(ours & sys.modules.keys()))
"""
    package = Path(dataset_program.__file__).parents[2]
    command = [sys.executable, "-I", "-S", "-c", code, dataset_program.__file__, str(package)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


async def test_rows_to_be_copied_come_back_whole_and_only_some_are_judged(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = gsm8k(0, 300)
    rows[7]["question"] = "x" * 50_000
    write_parquet(lab, "x.parquet", rows)
    found = await inspect_source(lab, DatasetRequest("x.parquet", max_rows=200_000, whole=True))
    assert [row for _, row in found.table.main.rows] == rows
    assert found.as_json()["rows_judged"] == 300


async def test_repetitions_outside_of_the_sample_are_counted(lab: Lab) -> None:
    write_parquet(lab, "x.parquet", [*gsm8k(0, 30_000), *gsm8k(0, 600), *gsm8k(600, 900, add=2)])
    found = await inspect_source(lab, DatasetRequest("x.parquet", max_rows=500))
    assert found.as_json()["rows_judged"] == 500
    assert message(found, "duplicate-prompt").startswith("900 of 30,900 rows")
    assert message(found, "conflicting-gold").startswith("300 of 30,900 rows")
    assert message(found, "rows-sampled").startswith("500 of 30,900 rows were judged")


async def test_leaks_outside_of_the_sample_are_counted_and_shown(lab: Lab) -> None:
    write(lab, "set/train.jsonl", gsm8k(0, 10_000))
    write(lab, "set/test.jsonl", gsm8k(9_990, 10_400))
    found = await inspect_source(lab, DatasetRequest("set", max_rows=200))
    leak = next(f for f in found.findings if f.code == "leak-exact")
    assert leak.message.startswith("10 of 410 rows")
    assert all(row["train_row"] == 9_990 + row["row"] for row in leak.rows)


async def test_games_outside_of_the_sample_leak_only_with_their_secrets(lab: Lab) -> None:
    def games(first: int, secret: int) -> list[dict[str, str]]:
        return [
            {"question": f"Game {n}: guess", "answer": f"#### {secret + 31 * n}"} for n in range(first, first + 2_000)
        ]

    write(lab, "honest/train.jsonl", games(0, 100))
    write(lab, "honest/test.jsonl", games(0, 900_001))
    write(lab, "copied/train.jsonl", games(0, 100))
    write(lab, "copied/test.jsonl", games(0, 100))
    honest = await inspect_source(lab, DatasetRequest("honest", max_rows=200))
    assert "leak-exact" not in {f.code for f in honest.findings}
    copied = await inspect_source(lab, DatasetRequest("copied", max_rows=200))
    assert message(copied, "leak-exact").startswith("2,000 of 2,000 rows")


async def test_progress_tells_rows_as_they_are_read(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_POLL_SECONDS", 0.02)
    write_parquet(lab, "x.parquet", gsm8k(0, 80_000))
    told: list[tuple[float, str]] = []

    async def progress(done: float, total: float | None, said: str) -> None:
        told.append((done, said))

    await inspect_source(lab, DatasetRequest("x.parquet", max_rows=200), progress=progress)
    assert told
    assert [n for n, _ in told] == sorted({n for n, _ in told})
    assert all(re.fullmatch(r'read [\d,]+ rows of "train"', said) for _, said in told)


async def test_cancelling_ends_the_program_and_leaves_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_POLL_SECONDS", 0.02)
    write_parquet(lab, "x.parquet", gsm8k(0, 150_000))
    ended = False
    with anyio.CancelScope() as scope:

        async def progress(done: float, total: float | None, said: str) -> None:
            scope.cancel()

        await inspect_source(lab, DatasetRequest("x.parquet"), progress=progress)
        ended = True
    assert not ended
    assert list(lab.settings.state_dir.glob("dataset-*")) == []
    assert _running(str(lab.settings.state_dir)) == []


def _running(text: str) -> list[str]:
    """Processes whose command line holds the text (Linux; elsewhere none can be listed)."""
    found = []
    for entry in (process / "cmdline" for process in Path("/proc").glob("[0-9]*")):
        try:
            line = entry.read_bytes().decode("utf-8", "replace")
        except OSError:
            continue
        if text in line:
            found.append(line)
    return found


@pytest.mark.slow
@pytest.mark.rotate(share=4, group="large sizes")
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peaks = []
    for rows in (21_000, 80_000):
        monkeypatch.setattr(dataset_scan, "ROWS", rows)
        folder = tmp_path / str(rows)
        folder.mkdir()
        for file in dataset_scan.write(folder).values():
            _, peak, found = dataset_scan.ours(file, folder)
            assert found["table"]["main"]["scanned"] == rows
            peaks.append(peak)
    assert max(peaks) < 400
    assert peaks[2] - peaks[0] < 60, "Parquet"
    assert peaks[3] - peaks[1] < 60, "JSONL"
