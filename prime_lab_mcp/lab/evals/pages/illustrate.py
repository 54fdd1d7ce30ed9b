"""Writes the report page and the picture of an evaluation into the job's folder, and adds them to its report.

The picture is described by a figure, a JSON object of bounded size. A child process draws each figure once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from prime_lab_mcp.lab.base import process
from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Finding, Picture
from prime_lab_mcp.lab.base.text import clip, count, escape, quote, redact
from prime_lab_mcp.lab.distribution.rules import MEAN_HIGH, MEAN_LOW
from prime_lab_mcp.lab.distribution.summary import Distribution, DistributionCheck
from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.outcomes import finished_outcome
from prime_lab_mcp.lab.evals.pages.contents import page_of, page_status
from prime_lab_mcp.lab.evals.pages.draw import NO_LIBRARY
from prime_lab_mcp.lab.evals.pages.rendering import PAGE, page_html, page_links, page_markdown
from prime_lab_mcp.lab.evals.pages.survey import STEPS, EvaluationSurvey, cached_survey, replace_file
from prime_lab_mcp.lab.evals.results import as_result
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.verdict import EvaluationVerdict
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.outcome import Outcome

_NAME = 48


def figure(title: str, distribution: Distribution, survey: EvaluationSurvey, *, rehearsal: bool) -> dict[str, Any]:
    """Return the figure that `draw` turns into the picture.

    The histogram counts rollouts by their share of the attainable reward. Tasks are ordered from worst to best.
    """
    return {
        "title": title,
        "rehearsal": rehearsal,
        "histogram": {
            "bars": [{"at": i / STEPS, "count": n} for i, n in enumerate(survey.bars) if n],
            "step": 1 / STEPS,
            "below": survey.below,
            "above": survey.above,
            "failed": survey.failed,
        },
        "mean": distribution.mean,
        "interval": [distribution.mean_low, distribution.mean_high],
        "limits": [MEAN_LOW, MEAN_HIGH],
        "checks": [{"text": _check(c), "passed": c.passed} for c in distribution.checks],
        "tasks": [{"left": left, "width": width, "mean": mean} for left, width, mean in _tasks(survey)],
        "pools": list(_pools(distribution.difficulty)),
        "signal": _signal(distribution),
    }


def figure_title(environment: str, model: str, tasks: int, rollouts: int, status: str) -> str:
    """Return the title of the picture in one line. The names are cut and escaped, because they are not trusted."""
    names = f"{escape(clip(environment, _NAME))} with {escape(clip(model, _NAME))}"
    return f"{names}: {count(tasks, 'task')}, {count(rollouts, 'rollout')}, {status}"


def _check(check: DistributionCheck) -> str:
    value = "n/a" if check.value is None else f"{check.value:,.3f}".rstrip("0").rstrip(".")
    return f"{check.name} {value} ({check.threshold})"


def _tasks(survey: EvaluationSurvey) -> Iterator[tuple[int, int, float]]:
    left = 0
    for bar in survey.tasks:
        yield left, bar.width, round(bar.mean, 4)
        left += bar.width


def _pools(difficulty: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    """Yield each pool as a range of the ordered tasks, from the worst pool to the best."""
    left = 0
    for name, tasks in difficulty.items():
        yield {"name": name, "left": left, "tasks": tasks}
        left += tasks


def _signal(distribution: Distribution) -> str:
    usable = distribution.usable_groups
    if usable.share is None:
        return "too few rollouts per task to tell the share of usable groups"
    between = f" ({usable.low:.0%} to {usable.high:.0%})" if usable.low is not None and usable.high is not None else ""
    return f"{usable.share:.0%}{between} of groups of {usable.group_size} would have a gradient"


_SECONDS = 60.0
_VERSION = 1
"""Part of a picture's file name. Increase it if a change draws the same figure differently."""


async def draw_figure(figure: dict[str, Any], folder: Path, cache: Path, title: str) -> Picture | Finding:
    """Draw a figure unless `folder` has its picture already; return the picture, or a finding if drawing failed.

    `cache` is the folder for matplotlib's list of fonts.
    """
    description = json.dumps(figure, sort_keys=True)
    name = hashlib.sha256(f"{_VERSION} {description}".encode()).hexdigest()[:16]
    source, target = folder / f"picture-{name}.json", folder / f"picture-{name}.png"
    if not target.is_file():
        try:
            replace_file(source, description)
            cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            return _missing_finding(f"its folder cannot be written to ({error.strerror})")
        finding = await _draw(source, target, cache)
        if finding is not None:
            return finding
    return Picture(target, title)


async def _draw(source: Path, target: Path, cache: Path) -> Finding | None:
    env = process.clean_environment({"MPLCONFIGDIR": str(cache), "MPLBACKEND": "Agg"})
    program = process.own_module_command("evals.pages.draw", str(source), str(target))
    try:
        ended = await process.run(program, cwd=source.parent, env=env, timeout=_SECONDS, output_limit=100_000)
    except LabError as error:
        return _missing_finding(error.message)
    if ended.returncode == NO_LIBRARY:
        return _missing_finding("matplotlib is not installed beside the server")
    if ended.returncode != 0 or not target.is_file():
        return _missing_finding(
            f"the program that draws ended with {ended.returncode}: {quote(ended.stderr[-300:], 200)}"
        )
    return None


def _missing_finding(reason: str) -> Finding:
    return Finding(
        "picture-missing",
        "info",
        f"this report has no picture: {reason}",
        "The numbers are complete without it. For pictures, install the extra `prime-lab-mcp[pictures]`, "
        'start the server again, and call read_eval(view="summary").',
    )


if TYPE_CHECKING:
    from prime_lab_mcp.lab.lab import Lab


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """The report page of an evaluation as HTML and as Markdown. `path` is the HTML file.

    If the picture could not be drawn, `findings` says why.
    """

    html: str
    markdown: str
    path: Path
    pictures: tuple[Picture, ...] = ()
    findings: tuple[Finding, ...] = ()


async def illustrate_outcome(lab: Lab, job: Job, eval_verdict: EvaluationVerdict, outcome: Outcome) -> Outcome:
    """Write the report page of a judged evaluation, and add its picture and links to the outcome.

    If the picture cannot be drawn, the outcome has a finding instead of the picture.
    """
    page = await write_page(lab, job, eval_verdict)
    return dataclasses.replace(
        outcome,
        findings=(*outcome.findings, *page.findings),
        links=(*outcome.links, *page_links(job.id)),
        pictures=(*outcome.pictures, *page.pictures),
    )


async def page_of_evaluation(lab: Lab, id: str) -> WrittenPage:
    """Write and return the report page of an evaluation of this workspace, in its present state.

    Raises EvalError (`eval-not-found`).
    """
    job = EvaluationJobs(lab).get(id)
    eval_verdict = await anyio.to_thread.run_sync(verdict.judge_job, lab, job) if job.state == "finished" else None
    return await write_page(lab, job, eval_verdict)


async def write_page(lab: Lab, job: Job, eval_verdict: EvaluationVerdict | None) -> WrittenPage:
    """Write the report page into the job's folder and return it.

    `eval_verdict` is None if the evaluation has not finished.
    """
    spec = EvaluationJobs(lab).spec(job)
    path = EvaluationJobs(lab).files(job.id).root / PAGE
    rehearsal = lab.settings.rehearsal or job.platform == "rehearsal"
    survey = await anyio.to_thread.run_sync(_survey, lab, job, eval_verdict)
    reported = await anyio.to_thread.run_sync(_reported, lab, job, eval_verdict)
    drawing = await _picture(lab, job, eval_verdict, reported, survey, rehearsal=rehearsal)
    picture = drawing if isinstance(drawing, Picture) else None
    distribution = eval_verdict.distribution if eval_verdict is not None else None
    page = page_of(spec, job, reported, distribution, survey, picture, rehearsal=rehearsal, html=path)
    html = redact(page_html(page))
    with suppress(OSError):  # a full disk or a removed folder does not affect the report
        await anyio.to_thread.run_sync(replace_file, path, html)
    return WrittenPage(
        html,
        redact(page_markdown(page)),
        path,
        pictures=() if picture is None else (picture,),
        findings=(drawing,) if isinstance(drawing, Finding) else (),
    )


def _reported(lab: Lab, job: Job, eval_verdict: EvaluationVerdict | None) -> Outcome | None:
    """Return what a call reports on the finished evaluation, so that page and call say the same of it."""
    if eval_verdict is None:
        return None
    return as_result(lab, job, eval_verdict, finished_outcome(lab, job, eval_verdict))


def _survey(lab: Lab, job: Job, eval_verdict: EvaluationVerdict | None) -> EvaluationSurvey | None:
    """Return the survey of the results, or None if there are no judged results."""
    results, sha256 = EvaluationJobs(lab).files(job.id).results(), job.progress.get("results_sha256")
    if eval_verdict is None or eval_verdict.distribution is None or results is None:
        return None
    folder, spec = EvaluationJobs(lab).files(job.id).root, EvaluationJobs(lab).spec(job)
    return cached_survey(results, str(sha256), eval_verdict.distribution.attainable, folder, spec)


async def _picture(
    lab: Lab,
    job: Job,
    eval_verdict: EvaluationVerdict | None,
    reported: Outcome | None,
    survey: EvaluationSurvey | None,
    *,
    rehearsal: bool,
) -> Picture | Finding | None:
    """Return the picture, or a finding if it cannot be drawn. None if no rollout was scored."""
    d = eval_verdict.distribution if eval_verdict is not None else None
    if reported is None or d is None or survey is None or d.mean is None:
        return None
    spec = EvaluationJobs(lab).spec(job)
    title = figure_title(spec.environment, spec.model, d.tasks, d.rollouts, page_status(reported))
    drawing = figure(title, d, survey, rehearsal=rehearsal)
    caption = f"Rewards and difficulty of evaluation {job.id}"
    return await draw_figure(
        drawing, EvaluationJobs(lab).files(job.id).root, lab.settings.state_dir / "matplotlib", caption
    )
