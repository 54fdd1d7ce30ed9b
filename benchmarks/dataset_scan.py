"""Half a million rows scanned and judged by our program, beside bare scans of the same files that judge nothing.

Every row is counted, fingerprinted and compared with all others; 20,000 are judged in full. The bare scans only touch
the rows. Each runs in a process of its own, start-up included; times are of the processor, and the peak of memory is
what the kernel says of it.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prime_lab_mcp
from benchmarks.claims import claim
from prime_lab_mcp.lab.datasets import dataset_program

ROWS = int(os.environ.get("BENCH_ROWS", "500000"))
MOST = {"pyarrow to_pylist": 2.5, "json.loads per line": 2.0}
"""The claims: at most this many times as long as the bare scan."""
PEAK = 600
"""The claim: MiB of memory at most, whatever the size of the file."""
RUNS = 3
"""So many runs of each program, of which the fastest counts: other programs of the machine only slow a run down."""
_PART = 10_000
_NAMES = ("Natalia", "Weng", "Betty", "Julie", "James", "Mark", "Albert", "Ken")
_ITEMS = ("clips", "apples", "pages", "flowers", "pizzas", "stickers", "cards", "jars")
_BARE = {
    "pyarrow iter_batches": "import pyarrow.parquet as p\nfor b in p.ParquetFile(F).iter_batches(): n += b.num_rows",
    "pyarrow to_pylist": (
        "import pyarrow.parquet as p\nfor b in p.ParquetFile(F).iter_batches(): n += len(b.to_pylist())"
    ),
    "json.loads per line": "import json\nfor line in open(F, 'rb'): n += len(json.loads(line)) > 0",
    "datasets iteration": (
        "import datasets\nfor row in datasets.load_dataset(K, data_files=F, split='train', streaming=True): n += 1"
    ),
}
_FITTING: dict[str, tuple[str, ...]] = {
    "parquet": ("pyarrow to_pylist",),
    "jsonl": ("json.loads per line",),
}
_OTHERS = {"parquet": ("pyarrow iter_batches", "datasets iteration"), "jsonl": ("datasets iteration",)}
"""Scans that are printed with `--full`: nothing is claimed about them."""


def rows() -> Iterator[dict[str, str]]:
    """Rows in the shape of gsm8k, seeded, all different."""
    chance = random.Random(1)
    for number in range(ROWS):
        name, item = chance.choice(_NAMES), chance.choice(_ITEMS)
        each, friends, half = chance.randrange(2, 90), chance.randrange(2, 40), number // 2
        total = each * friends + half
        yield {
            "question": f"{name} sold {each} {item} to each of {friends} friends in April, and then sold half as many "
            f"{item} to the {number} visitors of the spring fair in May. How many {item} did {name} sell altogether "
            "in April and May, if nobody gave any of them back?",
            "answer": f"In April {name} sold {each}*{friends} = <<{each}*{friends}={each * friends}>>{each * friends} "
            f"{item}.\nIn May half as many went to {number} visitors: {number}/2 = <<{number}/2={half}>>{half} {item}."
            f"\nAltogether {name} sold {each * friends}+{half} = <<{each * friends}+{half}={total}>>{total} {item}."
            f"\n#### {total}",
        }


def write(folder: Path) -> dict[str, Path]:
    """The same rows as Parquet and as JSONL."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = {"parquet": folder / "train.parquet", "jsonl": folder / "train.jsonl"}
    schema = pa.schema([("question", pa.string()), ("answer", pa.string())])
    part: list[dict[str, str]] = []
    with pq.ParquetWriter(files["parquet"], schema) as table, files["jsonl"].open("w", encoding="utf-8") as lines:
        for row in rows():
            part.append(row)
            lines.write(json.dumps(row) + "\n")
            if len(part) == _PART:
                table.write_table(pa.Table.from_pylist(part, schema=schema))
                part = []
        if part:
            table.write_table(pa.Table.from_pylist(part, schema=schema))
    return files


def measured(command: list[str], folder: Path) -> tuple[float, float]:
    """Seconds of the processor and MiB at the peak of a program that must succeed."""
    env = os.environ | {"HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    child = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL)
    peak = 0.0
    while child.poll() is None:
        peak = max(peak, _peak_of(child.pid))
        time.sleep(0.02)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if child.returncode != 0:
        raise RuntimeError(f"{command[:3]} ended with {child.returncode}")
    return seconds, peak


def _peak_of(pid: int) -> float:
    """MiB at the peak so far, by the kernel; 0 where it does not say (rusage would count the memory of the parent)."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s*([0-9]+) kB", status)
    return int(found[1]) / 1024 if found else 0.0


def ours(file: Path, folder: Path) -> tuple[float, float, dict[str, Any]]:
    """Our program on one file: seconds, MiB, and the inspection."""
    request, result = folder / "request.json", folder / "result.json"
    asked = {
        "kind": "files",
        "splits": {"train": [str(file)]},
        "main": "train",
        "held": None,
        "config": None,
        "package": str(Path(prime_lab_mcp.__file__).parent),
        "request": {"dataset": file.name},
        "prompt_column": None,
        "answer_column": None,
    }
    request.write_text(json.dumps(asked), encoding="utf-8")
    command = [sys.executable, "-P", dataset_program.__file__, str(request), str(result)]
    seconds, peak = measured(command, folder)
    return seconds, peak, json.loads(result.read_text(encoding="utf-8"))["inspection"]


def bare(name: str, kind: str, file: Path, folder: Path) -> tuple[float, float]:
    """A scan that only touches the rows."""
    loader = "json" if kind == "jsonl" else kind
    code = f"F = {str(file)!r}; K = {loader!r}; n = 0\n{_BARE[name]}\nassert n == {ROWS}, n"
    return measured([sys.executable, "-c", code], folder)


def main() -> int:
    return _measure(_FITTING)


def grown() -> int:
    """How a scan grows with 1 and 10 times the rows, beside scans about which nothing is claimed."""
    global ROWS
    whole = ROWS
    try:
        for share in (10, 1):
            ROWS = whole // share
            _measure({kind: (*names, *_OTHERS[kind]) for kind, names in _FITTING.items()})
    finally:
        ROWS = whole
    return 0


def _measure(scans: dict[str, tuple[str, ...]]) -> int:
    results = []
    most_memory = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for kind, file in write(folder).items():
            runs = [
                (ours(file, folder), {name: bare(name, kind, file, folder) for name in scans[kind]})
                for _ in range(RUNS)
            ]
            seconds, peak, found = min((run for run, _ in runs), key=lambda run: run[0])
            if found["table"]["main"]["scanned"] != ROWS:
                raise RuntimeError(f"{kind}: {found['table']['main']['scanned']} rows were scanned, not {ROWS}")
            size = file.stat().st_size / 2**20
            print(f"scan of {ROWS:,} rows, {kind} ({size:.0f} MiB): {ROWS / seconds:,.0f} rows/s, peak {peak:.0f} MiB")
            for name in scans[kind]:
                other, most = min(others[name] for _, others in runs)
                ratio = seconds / other
                print(
                    f"  {name}: {ROWS / other:,.0f} rows/s, peak {most:.0f} MiB; ours takes {ratio:.2f} times as long"
                )
                if name in MOST:
                    what = f"scan of {ROWS:,} rows of {kind}, beside {name}"
                    results.append(claim("dataset_scan", what, ratio, MOST[name]))
            most_memory = max(most_memory, *(run[1] for run, _ in runs))
    results.append(claim("dataset_scan", "peak of memory of a scan", most_memory, PEAK, "MiB"))
    return max(results)
