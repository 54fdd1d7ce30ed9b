"""The picture of an evaluation and its page: what they show, and what happens where there can be no picture."""

from __future__ import annotations

import io
import re
import sys
import venv
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from prime_lab_mcp.lab.base.report import Picture
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.outcomes import finished_outcome
from prime_lab_mcp.lab.evals.pages import survey as surveys
from prime_lab_mcp.lab.evals.pages.illustrate import (
    WrittenPage,
    figure,
    illustrate_outcome,
    page_of_evaluation,
    write_page,
)
from prime_lab_mcp.lab.evals.pages.survey import MOST_BARS, STEPS, EvaluationSurvey, survey_rollouts
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.lab.state.outcome import Outcome
from tests.lab.evals.finished import SPEC, episode, finished, mixed

pytestmark = pytest.mark.anyio
BOMB = '<script src="https://evil.example/x.js">alert(1)</script><img src=x onerror=alert(1)> | a | ![x](http://e/x)'


def shown(rollouts: list[Rollout]) -> dict[str, Any]:
    judged = judge_rollouts(rollouts)
    return figure("t", judged, survey_rollouts(rollouts, judged.attainable), rehearsal=False)


async def written(lab: Lab, episodes: list[dict[str, Any]], **changes: Any) -> WrittenPage:
    job = finished(lab, episodes, **changes)
    return await write_page(lab, job, verdict.judge_job(lab, job))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn: for what is said rather than shown."""
    monkeypatch.setattr(sys, "executable", "/bin/false")


# What is drawn


def test_the_histogram_counts_every_scored_rollout_once_and_failures_apart() -> None:
    rewards = [0.0, 0.0, 0.02, 0.24, 0.26, 0.5, 1.0, -0.5, 1.0]
    rollouts = [Rollout(str(i), r) for i, r in enumerate(rewards)] + [Rollout("9", None, error="down")]

    drawn = shown(rollouts)["histogram"]

    assert drawn["bars"] == [
        {"at": 0.0, "count": 3},
        {"at": 0.25, "count": 2},
        {"at": 0.5, "count": 1},
        {"at": 1.0, "count": 2},
    ]
    assert (drawn["below"], drawn["above"], drawn["failed"]) == (1, 0, 1)


def test_a_reward_that_is_no_number_is_a_failure_and_no_bar() -> None:
    found = survey_rollouts([Rollout("a", 1.0), Rollout("b", None, nonfinite=True)], 1.0)

    assert (found.failed, sum(found.bars), len(found.tasks)) == (1, 1, 1)


def test_what_is_above_the_attainable_reward_has_a_bar_of_its_own() -> None:
    found = survey_rollouts([Rollout("a", 2.5), Rollout("a", 2.0)], 2.0)

    assert (found.above, found.bars[STEPS]) == (1, 1)


def test_tasks_stand_from_worst_to_best_in_pools_that_cover_them() -> None:
    rollouts = [Rollout(str(t), float(r < t)) for t in range(9) for r in range(8)]

    drawn = shown(rollouts)

    assert [bar["mean"] for bar in drawn["tasks"]] == [t / 8 for t in range(9)]
    assert [(p["name"], p["left"], p["tasks"]) for p in drawn["pools"]] == [
        ("never", 0, 1),
        ("hard", 1, 2),
        ("normal", 3, 4),
        ("easy", 7, 1),
        ("always", 8, 1),
    ]


@pytest.mark.parametrize("tasks", [1, MOST_BARS, MOST_BARS + 1, 5_000])
def test_many_tasks_share_bars_and_none_is_lost(tasks: int) -> None:
    found = survey_rollouts((Rollout(str(t), t / tasks) for t in range(tasks)), 1.0)

    assert len(found.tasks) <= MOST_BARS
    assert sum(bar.width for bar in found.tasks) == tasks
    whole = sum(bar.width * bar.mean for bar in found.tasks) / tasks
    assert whole == pytest.approx(sum(t / tasks for t in range(tasks)) / tasks)


def test_the_most_telling_rollouts_are_one_of_each_kind() -> None:
    def right(text: str) -> dict[str, Any]:
        said = [{"sampled": True, "message": {"role": "assistant", "content": text}}]
        return {"task": {"data": {"answer": "1234"}}, "nodes": said}

    rollouts = [
        Rollout("win", 1.0, completion_text="a long way to the answer"),
        Rollout("short", 1.0, completion_text="ok"),
        Rollout("cut", 1.0, truncated=True, completion_text="this one was cut off"),
        Rollout("part", 0.0, completion_text="it is 91234", record=right("it is 91234")),
        Rollout("held", 0.0, completion_text="it is **1234**.", record=right("it is **1234**.")),
        Rollout("down", None, error="down"),
    ]

    found = {t.why: t.task for t in survey_rollouts(rollouts, 1.0).telling}

    assert found == {
        "no reward, though it holds the right answer": '"held"',
        "rewarded though cut off": '"cut"',
        "shortest winner": '"short"',
        "first of its class: infrastructure": '"down"',
        "first of its class: wrong": '"part"',
    }


# The file


async def test_the_picture_is_a_small_opaque_png_that_shows_the_data(lab: Lab) -> None:
    [half] = (await written(lab, mixed())).pictures
    [none] = (await written(lab, [episode(t, 0.0) for t in range(40) for _ in range(4)], id="eval-00000002")).pictures

    pictures = [Image.open(io.BytesIO(p.path.read_bytes())) for p in (half, none)]
    for picture in pictures:
        picture.load()
        assert (picture.format, picture.size) == ("PNG", (1000, 420))
        assert picture.convert("RGBA").getextrema()[3] == (255, 255)
    assert max(p.path.stat().st_size for p in (half, none)) < 60_000
    assert [blue(p) for p in pictures] == [True, False], "task bars stand where tasks were solved, and only there"


def blue(picture: Image.Image) -> bool:
    """Whether bars are drawn in the right half, where the tasks are."""
    tasks = picture.convert("RGB").crop((560, 80, 980, 300))
    colors = tasks.getcolors(tasks.width * tasks.height) or []
    return any(n > 500 and b > r + 80 for n, (r, _, b) in colors)  # type: ignore[misc]


async def test_a_picture_is_drawn_once_and_anew_for_another_group_size(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = finished(lab, mixed())
    first = (await write_page(lab, job, verdict.judge_job(lab, job))).pictures
    made = first[0].path.stat().st_mtime_ns
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/nowhere/python")  # nothing can be drawn now, and nothing has to be
        patched.setattr(surveys, "survey_rollouts", None)
        again = await write_page(lab, job, verdict.judge_job(lab, job))
    other = (await write_page(lab, job, verdict.judge_job(lab, job, 32))).pictures

    assert again.pictures == first
    assert again.findings == ()
    assert first[0].path.stat().st_mtime_ns == made
    assert other != first


async def test_without_the_library_a_report_says_so_in_one_line_and_is_the_same_otherwise(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    job = finished(lab, mixed())
    judged = verdict.judge_job(lab, job)
    before = finished_outcome(lab, job, judged)

    found = await illustrate_outcome(lab, job, judged, before)

    assert found.pictures == ()
    [note] = found.findings[len(before.findings) :]
    assert (note.code, note.severity) == ("picture-missing", "info")
    assert "matplotlib is not installed" in note.message
    assert (found.status, found.summary, found.data) == (before.status, before.summary, before.data)
    page = (EvaluationJobs(lab).files(job.id).root / "report.html").read_text(encoding="utf-8")
    assert "<img" not in page
    assert "The five checks" in page


@pytest.mark.usefixtures("undrawn")
async def test_a_program_that_breaks_leaves_the_report_without_a_picture(lab: Lab) -> None:
    job = finished(lab, mixed())
    found = await illustrate_outcome(lab, job, verdict.judge_job(lab, job), Outcome("passed", "said"))

    assert [f.code for f in found.findings] == ["picture-missing"]


async def test_an_evaluation_without_a_scored_rollout_has_a_page_and_no_picture(lab: Lab) -> None:
    found = await written(lab, [episode(t, None) for t in range(5)])

    assert (found.pictures, found.findings) == ((), ())
    assert "eval-all-errors" in found.html


def test_a_survey_that_was_kept_is_the_one_that_was_made(tmp_path: Path) -> None:
    from tests.lab.rollouts.test_reading import written as lines

    results = lines(tmp_path / "traces.jsonl", *mixed(8))
    made = surveys.cached_survey(results, "sha", 1.0, tmp_path, SPEC)
    results.unlink()

    assert surveys.cached_survey(results, "sha", 1.0, tmp_path, SPEC) == made
    assert isinstance(made, EvaluationSurvey)


# The page


class Tags(HTMLParser):
    """Every tag and attribute of a page, as a browser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += attrs


async def test_a_page_loads_nothing_and_runs_nothing_whatever_the_model_said(lab: Lab) -> None:
    found = await written(lab, mixed(said=BOMB), model=f"m{BOMB[:40]}")
    read = Tags(found.html)

    assert "&lt;script src=" in found.html
    assert read.tags.isdisjoint({"script", "link", "iframe", "object", "embed", "base", "form"})
    assert [name for name, _ in read.attributes if name.startswith("on")] == []
    loaded = [value or "" for name, value in read.attributes if name in ("src", "href", "srcset", "action")]
    assert [value[:22] for value in loaded] == ["data:image/png;base64,"]
    assert "url(" not in found.html
    assert "@import" not in found.html
    assert re.search(r"content=\"default-src &#x27;none&#x27;", found.html)


@pytest.mark.usefixtures("undrawn")
async def test_markdown_holds_the_same_with_nothing_of_the_models_as_markup(lab: Lab) -> None:
    found = await written(lab, mixed(said=BOMB))

    assert "script" in found.markdown
    assert re.findall(r"(?<!\\)[<\[]", found.markdown) == []
    rows = [line for line in found.markdown.splitlines() if line.startswith("| ")]
    telling = [line for line in rows if "shortest winner" in line]
    assert len(re.findall(r"(?<!\\)\|", telling[0])) == 8, "seven cells, whatever bars the text holds"
    assert len(found.markdown) < 12_000


@pytest.mark.usefixtures("undrawn")
async def test_a_page_says_what_it_was_and_what_was_found(lab: Lab) -> None:
    found = await written(lab, mixed())

    for page in (found.html, found.markdown.replace("\\", "")):
        for said in (
            "sums_v1 with scripted",
            "127.0.0.1:9",
            "temperature 1.0",
            "shuffled (seed 0)",
            "a" * 16,
            "$0.2500",
            "not-all-zero",
            "groups of 16 with a gradient",
            "always",
            "pass@k",
            "correct",
            "Rollouts that earned nothing for an answer",
            "report.html",
        ):
            assert said in page, said
    assert found.path.read_text(encoding="utf-8") == found.html
    assert "REHEARSAL" not in found.html


async def test_a_rehearsal_is_called_one_on_page_and_picture(settings: Settings) -> None:
    import dataclasses

    lab = Lab(dataclasses.replace(settings, rehearsal=True))
    try:
        found = await written(lab, mixed())
    finally:
        await lab.close()
    [picture] = found.pictures
    drawn = picture.path.with_suffix(".json").read_text(encoding="utf-8")

    assert found.html.index("REHEARSAL") < found.html.index("<h1>")
    assert found.markdown.startswith("> **REHEARSAL")
    assert '"rehearsal": true' in drawn
    assert isinstance(picture, Picture)


async def test_an_evaluation_that_goes_on_has_a_page_without_a_verdict(lab: Lab) -> None:
    job = finished(lab, mixed()[:8])
    with lab.ledger.transaction() as db:
        db.execute("UPDATE jobs SET state = 'stopped' WHERE id = ?", (job.id,))

    found = await page_of_evaluation(lab, job.id)

    assert "stopped" in found.markdown
    assert "Not judged; 8 of 8 rollouts finished" in found.markdown
    assert "The five checks" not in found.markdown


async def test_results_that_were_changed_have_no_numbers_on_the_page(lab: Lab) -> None:
    job = finished(lab, mixed())
    found = EvaluationJobs(lab).files(job.id).results()
    assert found is not None
    found.write_text(found.read_text(encoding="utf-8").replace('"score": 0.0', '"score": 1.0'), encoding="utf-8")

    page = await page_of_evaluation(lab, job.id)

    assert "eval-results-changed" in page.html
    assert page.pictures == ()
    assert "The five checks" not in page.html
