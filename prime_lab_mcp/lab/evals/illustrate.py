"""Gives the report of an evaluation its picture and its page, and writes the page into the job's folder."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from prime_lab_mcp.lab.evals import judging
from prime_lab_mcp.lab.evals.judging import Judged
from prime_lab_mcp.lab.evals.pages.contents import page_of
from prime_lab_mcp.lab.evals.pages.html import html
from prime_lab_mcp.lab.evals.pages.links import PAGE, links
from prime_lab_mcp.lab.evals.pages.markdown import markdown
from prime_lab_mcp.lab.evals.pictures.figure import figure, title_of
from prime_lab_mcp.lab.evals.pictures.picture import drawn
from prime_lab_mcp.lab.evals.pictures.survey import Survey, replace, surveyed
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.report import Finding, Outcome, Picture
from prime_lab_mcp.lab.text import redact

if TYPE_CHECKING:
    from prime_lab_mcp.lab.lab import Lab


@dataclass(frozen=True, slots=True)
class Written:
    """The page of an evaluation in both forms, and the picture on it or why there is none."""

    html: str
    markdown: str
    path: Path
    pictures: tuple[Picture, ...] = ()
    findings: tuple[Finding, ...] = ()


async def illustrated(lab: Lab, job: Job, judged: Judged, found: Outcome) -> Outcome:
    """A report on a judged evaluation with its picture, its links, and the page written anew.

    Where there can be no picture the report says so in one line and is the same otherwise.
    """
    written = await write(lab, job, judged)
    return dataclasses.replace(
        found,
        findings=(*found.findings, *written.findings),
        links=(*found.links, *links(job.id)),
        pictures=(*found.pictures, *written.pictures),
    )


async def report_of(lab: Lab, id: str) -> Written:
    """The page of one evaluation of this workspace as it stands. Raises EvalError (`eval-not-found`)."""
    job = lab.evals.get(id)
    judged = await anyio.to_thread.run_sync(judging.judge_job, lab, job) if job.state == "finished" else None
    return await write(lab, job, judged)


async def write(lab: Lab, job: Job, judged: Judged | None) -> Written:
    """Make the page and put it into the job's folder; `judged` is None for one that has not finished."""
    spec = lab.evals.spec(job)
    path = lab.evals.files(job.id).root / PAGE
    rehearsal = lab.settings.rehearsal or job.platform == "rehearsal"
    seen = await anyio.to_thread.run_sync(_survey, lab, job, judged)
    drew = await _picture(lab, job, judged, seen, rehearsal=rehearsal)
    picture = drew if isinstance(drew, Picture) else None
    page = page_of(spec, job, judged, seen, picture, rehearsal=rehearsal, html=path)
    shown = redact(html(page))
    with suppress(OSError):  # a full disk, or a folder that was cleaned away: the report itself is there
        await anyio.to_thread.run_sync(replace, path, shown)
    return Written(
        shown, redact(markdown(page)), path,
        pictures=() if picture is None else (picture,),
        findings=(drew,) if isinstance(drew, Finding) else (),
    )  # fmt: skip


def _survey(lab: Lab, job: Job, judged: Judged | None) -> Survey | None:
    """What a pass over the results shows; None where there are none that count."""
    found, sha256 = lab.evals.files(job.id).results(), job.progress.get("results_sha256")
    if judged is None or judged.distribution is None or found is None:
        return None
    folder, spec = lab.evals.files(job.id).root, lab.evals.spec(job)
    return surveyed(found, str(sha256), judged.distribution.attainable, folder, spec)


async def _picture(
    lab: Lab, job: Job, judged: Judged | None, seen: Survey | None, *, rehearsal: bool
) -> Picture | Finding | None:
    """None where no rollout was scored: there is nothing to draw."""
    d = judged.distribution if judged is not None else None
    if judged is None or d is None or seen is None or d.mean is None:
        return None
    spec = lab.evals.spec(job)
    title = title_of(spec.environment, spec.model, d.tasks, d.rollouts, judged.status)
    shown = figure(title, d, seen, rehearsal=rehearsal)
    about = f"Rewards and difficulty of evaluation {job.id}"
    return await drawn(shown, lab.evals.files(job.id).root, lab.settings.state_dir / "matplotlib", about)
