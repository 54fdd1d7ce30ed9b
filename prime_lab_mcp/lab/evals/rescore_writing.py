"""Writes stored rollouts with their present rewards, and records them as a finished evaluation."""

from __future__ import annotations

import secrets
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson

from prime_lab_mcp.lab.evals import rescore_checks as checks
from prime_lab_mcp.lab.evals.attempt import file_sha256
from prime_lab_mcp.lab.evals.program import RUN
from prime_lab_mcp.lab.evals.progress import Tally
from prime_lab_mcp.lab.evals.rescore_changes import Changes
from prime_lab_mcp.lab.evals.rescore_origin import Origin
from prime_lab_mcp.lab.evals.rescore_scoring import Scoring, Survey
from prime_lab_mcp.lab.evals.rescore_stored import records
from prime_lab_mcp.lab.evals.results import parse
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count, quote

Progress = Callable[[float, float | None, str], Awaitable[None]]


async def scored_anew(
    lab: Lab, was: Origin, spec: EvalSpec, scoring: Scoring, seen: Survey, findings: list[Finding], progress: Progress
) -> Job:
    """Score everything into a results file of the same layout, and record it as a finished evaluation."""
    id = f"eval-{secrets.token_hex(4)}"
    files = lab.evals.files(id)
    target = files.output / (
        Path(RUN, "traces.jsonl") if spec.api == "v1" else Path("evals", "rescored", id, "results.jsonl")
    )
    target.parent.mkdir(parents=True, mode=0o700)
    try:
        changes = await _write(target, was, spec.api, scoring, seen, progress)
        for beside in ("metadata.json",):
            if (was.path.parent / beside).is_file():
                shutil.copyfile(was.path.parent / beside, target.parent / beside)
        return lab.ledger.create_job(_job(lab, id, was, spec, target, changes, findings))
    except BaseException:
        shutil.rmtree(files.root, ignore_errors=True)
        raise


async def _write(
    target: Path, was: Origin, api: str, scoring: Scoring, seen: Survey, progress: Progress
) -> Changes:  # fmt: skip
    changes, form, done = Changes(was.job.id), scoring.form, 0
    with target.open("wb") as out:
        async for units, scored in scoring.batches(was.path, api):
            flat = [s for group in scored for s in group]
            checks.reachable(flat)
            checks.stopped(flat)
            for stored, one in zip((s for u in units for s in u), flat, strict=True):
                record = form.renewed(stored.record, one, scoring.places[stored.task].task)
                out.write(orjson.dumps(record, option=orjson.OPT_NON_STR_KEYS) + b"\n")
                changes.add(stored.rollout, next(iter(parse(record, api))))  # type: ignore[arg-type]
            done += len(flat)
            await progress(float(done), float(seen.scorable), f"{done} of {count(seen.scorable, 'rollout')} scored")
        for stored in records(was.path, form, api):
            if scoring.places[stored.task].row is None:
                changes.excluded += 1
            elif not stored.scorable:
                changes.failed_before += 1
                out.write(orjson.dumps(dict(stored.record)) + b"\n")
    return changes


def _job(
    lab: Lab, id: str, was: Origin, spec: EvalSpec, target: Path, changes: Changes, findings: list[Finding]
) -> Job:  # fmt: skip
    tally = Tally(spec)
    tally.follow(target)
    told = changes.as_json()
    if changes.errors:
        why = next((row["error"] for row in told["examples"] if "error" in row), "")
        message = f"the reward fails on {changes.errors} stored rollouts, which have no reward now: {quote(why)}"
        findings = [*findings, Finding("rescore-raises", "warning", message, "Mend the reward for the replies shown.")]
    now = time.time()
    progress: dict[str, Any] = {
        **tally.as_json(), "prompt_tokens": 0, "completion_tokens": 0, "cost": 0.0,
        "results": str(target.relative_to(lab.evals.files(id).root)), "results_sha256": file_sha256(target),
        "rescored": told, "findings": [f.as_json() for f in findings],
    }  # fmt: skip
    if was.job.progress.get("capped"):
        progress["capped"] = was.job.progress["capped"]
    return Job(
        id=id, workspace=lab.key, environment=spec.environment, source=spec.source, content=spec.content,
        intent=spec.intent, state="finished", pid=None, lease=now, deadline=now, platform=was.job.platform,
        spec=spec.as_json(), progress=progress, at=now,
    )  # fmt: skip
