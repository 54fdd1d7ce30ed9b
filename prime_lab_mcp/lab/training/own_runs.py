"""Reads a self-managed run of prime-rl from its output folder: metrics, rollouts, checkpoints, logs, config.

The layout is that of prime-rl 559b4477 (monitors/file.py, utils/pathing.py, entrypoints/rl.py): `metrics.jsonl` with
one row for each upload, `rollouts/step_N/train/effective/traces.jsonl`, `checkpoints/step_N`, `logs/attempt_N` and
`configs/rl.json`. Steps are counted from 1. The files do not show whether a process is running. A run that ended before
its last step therefore looks like a run without progress, and the anomaly `stall` reports it.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.base.untrusted_files import open_below
from prime_lab_mcp.lab.configs.config import value_at
from prime_lab_mcp.lab.prime.answers import finite_number
from prime_lab_mcp.lab.rollouts.conversation import conversation, task_row
from prime_lab_mcp.lab.rollouts.reading import decode_line, parse_record
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.lab.state.workspace import Workspace
from prime_lab_mcp.lab.training import anomalies
from prime_lab_mcp.lab.training.metrics import merge_rows, step_seconds
from prime_lab_mcp.lab.training.watch import LOG_LINES, SAMPLED_ROLLOUTS, RunReading

OUTPUTS = "outputs"
"""Folder of the workspace where prime-rl writes its runs by default."""
METRICS = "metrics.jsonl"
_MOST_BYTES = 256 * 2**20
"""Bytes that are read of one file. The rows of a run of 10,000 steps take about 100 MB."""
_LOG_BYTES = 2**20
_STEP = re.compile(r"step_(\d{1,9})")
_ATTEMPT = re.compile(r"attempt_(\d{1,6})")
_BINS = 20


def own_run_folder(workspace: Workspace, named: str) -> Path | None:
    """Return the folder of a self-managed run: a path in the workspace, or a name under `outputs/`.

    None if neither folder has a metrics file. Raises BadInput for a path that leads outside the workspace.
    """
    for path in dict.fromkeys((named, f"{OUTPUTS}/{named}")):
        folder = workspace.resolve(path)
        if (folder / METRICS).is_file():
            return folder
    return None


def list_own_runs(workspace: Workspace, most: int) -> list[dict[str, Any]]:
    """The self-managed runs under `outputs/`, newest first, as rows of a list of runs."""
    files = [path for path in (workspace.root / OUTPUTS).glob(f"*/{METRICS}") if path.is_file()]
    newest = sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)[:most]
    return [{"id": f"{OUTPUTS}/{path.parent.name}", "kind": "self-managed", "from_here": True} for path in newest]


def require_own_run(workspace: Workspace, named: str) -> Path:
    """Return the folder of a self-managed run. Raises BadInput (`run-not-found`) if there is none."""
    folder = own_run_folder(workspace, named)
    if folder is None:
        raise BadInput(
            f"{quote(named, 120)} holds no {METRICS} of a prime-rl run",
            fix=f"Name the run's folder, as {OUTPUTS}/RUN_NAME; prime-rl makes {METRICS} there with its first step.",
            code="run-not-found",
            next=(Next("watch_run", "lists the runs that there are"),),
        )
    return folder


def read_own_run(folder: Path, step: int | None = None) -> RunReading:
    """Read all files of a run, and the rollouts of one step (by default the newest step with rollouts).

    Raises PlantedPath if a link or a special file is in the place of one of the run's files.
    """
    rows = merge_rows(row for row in _json_lines(folder, METRICS) if isinstance(row, dict))
    config = own_run_config(folder)
    steps = _step_folders(folder / "rollouts")
    at = step if step is not None else max(steps, default=None)
    samples = list(_samples(folder, at)) if at is not None else []
    logs = {name: text for name in ("orchestrator", "trainer") if (text := _log(folder, name))}
    reading = RunReading(
        run=config,
        rows=rows,
        usage={},
        checkpoints=[
            {"step": n, "id": f"checkpoints/step_{n}", "status": "READY"}
            for n in sorted(_step_folders(folder / "checkpoints"))
        ],
        progress=_progress(rows),
        distribution={"step": at, "bins": _bins(samples)} if samples else {},
        anomalies=(),
        missing={},
        rollouts={"samples": samples, "total": len(samples)} if samples else {},
        logs=logs,
    )
    done = reading.step is not None and reading.max_steps is not None and reading.step >= reading.max_steps
    reading = replace(reading, run={**config, "status": "COMPLETED" if done else "RUNNING"})
    return replace(reading, anomalies=tuple(_anomalies(reading)))


def _anomalies(reading: RunReading) -> list[anomalies.Anomaly]:
    listed = anomalies.find_anomalies(reading.rows)
    if reading.idle is not None:
        stalled = anomalies.stall(reading.step or 0, reading.idle, step_seconds(reading.rows))
        listed += [stalled] if stalled else []
    empty = anomalies.empty_batches(reading.logs.get("orchestrator", ""), reading.step or 0)
    listed += [empty] if empty and all(a.code != empty.code for a in listed) else []
    return anomalies.rank_anomalies(listed)


def _progress(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The time of the newest row, in the form of the platform's answer."""
    written = max((t for row in rows if (t := finite_number(row.get("time"))) is not None), default=None)
    if written is None or not 0 < written < 1e11:
        return {}
    return {"last_updated_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(written))}


def own_run_config(folder: Path) -> dict[str, Any]:
    """The fields of the resolved config that a report shows, as the platform names them. Without one, only the name."""
    run: dict[str, Any] = {"name": folder.name}
    try:
        with open_below(folder, "configs/rl.json") as source:
            config = json.loads(source.read(_LOG_BYTES))
    except (FileNotFoundError, ValueError, RecursionError):
        return run
    if not isinstance(config, dict):
        return run
    sources = value_at(config, "orchestrator", "train", "source")
    ids = [value_at(one, "env", "taskset", "id") for one in sources] if isinstance(sources, list) else []
    run |= {"max_steps": config.get("max_steps"), "base_model": value_at(config, "model", "name")}
    run["base_model"] = run["base_model"] or value_at(config, "orchestrator", "model", "name")
    run["environments"] = [{"id": one} for one in ids if isinstance(one, str)]
    return {name: value for name, value in run.items() if value}


def _step_folders(folder: Path) -> set[int]:
    """The steps that have a folder `step_N`."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return set()
    return {int(match[1]) for name in names if (match := _STEP.fullmatch(name))}


def _samples(folder: Path, step: int) -> Iterator[dict[str, Any]]:
    """Rollouts of a step in the form of the platform's answer: those used for training, or all if none are recorded."""
    for subset in ("effective", "all"):
        records = _json_lines(folder, f"rollouts/step_{step}/train/{subset}/traces.jsonl")
        rollouts = [r for record in islice(records, SAMPLED_ROLLOUTS) for r in _parsed(record)]
        if rollouts:
            yield from (_sample(step, rollout) for rollout in rollouts[:SAMPLED_ROLLOUTS])
            return


def _parsed(record: Any) -> list[Rollout]:
    if not isinstance(record, dict):
        return []
    try:
        return list(parse_record(record, "v1"))
    except LabError:
        return []


def _sample(step: int, rollout: Rollout) -> dict[str, Any]:
    row = task_row(rollout)
    return {
        "step": step,
        "reward": rollout.reward,
        "env_name": rollout.origin.environment or None,
        "num_output_tokens": rollout.completion_tokens,
        "completion": rollout.completion_text,
        "task": rollout.task[:16] if row is None else f"row {row}",
        "asked": next((m.text for m in conversation(rollout) if m.role == "user"), ""),
    }


def _bins(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A histogram of the rewards in bins of equal width, as the platform's answer has it."""
    rewards = [r for one in samples if (r := finite_number(one.get("reward"))) is not None]
    if not rewards:
        return []
    low, high = min(rewards), max(rewards)
    width = (high - low) / _BINS or 1.0
    counts = Counter(min(_BINS - 1, int((r - low) / width)) for r in rewards)
    return [
        {"min": round(low + n * width, 4), "max": round(low + (n + 1) * width, 4), "count": counts[n]}
        for n in sorted(counts)
    ]


def _log(folder: Path, component: str) -> str:
    """The newest lines of a log of the newest attempt."""
    try:
        names = [entry.name for entry in (folder / "logs").iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return ""
    attempts = [int(match[1]) for name in names if (match := _ATTEMPT.fullmatch(name))]
    if not attempts:
        return ""
    try:
        with open_below(folder, f"logs/attempt_{max(attempts)}/{component}.log") as source:
            size = source.seek(0, 2)
            source.seek(max(0, size - _LOG_BYTES))
            text = source.read(_LOG_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-LOG_LINES:])


def _json_lines(folder: Path, path: str) -> Iterator[Any]:
    """Yield the decoded lines of a file. A broken line is skipped, because the run may still be writing it."""
    try:
        source = open_below(folder, path)
    except FileNotFoundError:
        return
    with source:
        taken = 0
        for line in source:
            taken += len(line)
            if taken > _MOST_BYTES:
                return
            if line.strip() and (decoded := decode_line(line)) is not None:
                yield decoded
