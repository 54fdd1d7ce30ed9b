"""The fingerprint of an environment with 10,000 files: all of them read, hashed and compared with the push's rules."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.claims import claim
from prime_lab_mcp.lab.state.snapshot import take_snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder

FILES = int(os.environ.get("BENCH_FILES", "10000"))
SECONDS = 1.0
"""The claim: seconds of the processor for 10,000 files of a kilobyte, from a warm disk cache."""
ROUNDS = 3


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        examples = Path(__file__).parents[1] / "environments"
        example = next(p for p in sorted(examples.iterdir()) if (p / "pyproject.toml").is_file())
        folder = Path(scratch, "example")
        shutil.copytree(example, folder)
        for number in range(FILES):
            file = folder / "data" / f"{number % 100:02d}" / f"{number}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"row {number}\n" * 80, encoding="ascii")
        times = []
        for _ in range(ROUNDS):
            started = time.process_time()
            taken = take_snapshot(EnvironmentFolder("example", folder, "environments/example"), None)
            times.append(time.process_time() - started)
    what = f"fingerprint of an environment with {len(taken.files):,} files"
    return claim("many_files", what, min(times), SECONDS, "s of processor")
