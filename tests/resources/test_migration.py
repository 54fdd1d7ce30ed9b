"""guide/migration: its worked example runs in both generations, and its tables miss nothing that the seeds name."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.worker.scoring import Case
from tests.conftest import TEMPLATES
from tests.lab.rewards.packages import codes, try_reward
from tests.resources.fenced import files, page
from tests.support.interpreters import share

GUIDE = page("guide/migration")
FRUIT = ("apples", "pears", "plums", "figs", "quinces")
REPLIES = {
    "<answer>{gold}</answer>": 1.2,
    "I add both.\n<answer>{gold}</answer>": 1.16,
    "<answer>{gold}</answer> That is my answer.": 1.16,
    "First <answer>{gold}</answer>, no, <answer>77777</answer> after all.": 1.12,
    "First <answer>77777</answer>, no, <answer>{gold}</answer> after all.": 0.12,
    "<answer>about {gold} in all</answer>": 1.2,
    "<answer>77777</answer>": 0.2,
    "<answer>{gold}": 0.08,
    "The answer is {gold}.": 0.04,
    "": 0.04,
}
"""What the usual v0 rubric pays; the format function is no yes or no."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    root = tmp_path_factory.mktemp("migration")
    (root / "workspace" / "environments").mkdir(parents=True)
    settings = Settings(workspace=root / "workspace", state_dir=root / "state", templates=TEMPLATES)
    share(settings)
    lab = Lab(settings)
    _write(root / "workspace", files(GUIDE))
    for package in ("harvest", "harvest_v0"):
        data = root / "workspace" / "environments" / package / package / "data"
        data.mkdir()
        for split, first in (("train", 0), ("eval", 90)):
            rows = [json.dumps(_row(n)) for n in range(first, first + 70 - first // 2)]
            (data / f"{split}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    yield lab
    await lab.close()


def _row(n: int) -> dict[str, str]:
    left, right, fruit = 7 * n + 3, 31 * n + 940, FRUIT[n % 5]
    question = f"A farm picks {left} {fruit} before noon and {right} {fruit} after it. How many {fruit} on day {n}?"
    return {"question": question, "answer": f"{left}+{right}={left + right}\n#### {left + right:,}"}


def _write(root: Path, found: dict[str, str]) -> None:
    for path, code in found.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(code, encoding="utf-8")


async def _rewards(lab: Lab, name: str) -> tuple[str, list[float | None]]:
    async with open_environment(lab, await lab.snapshot(name)) as found:
        rows = (await found.worker.rows(limit=70)).rows
        row = next(r for r in rows if " day 9?" in str(r.prompt))
        gold = str(row.answer).split("#### ")[-1]
        cases = [
            Case(str(n), row.index, [{"role": "assistant", "content": text.replace("{gold}", gold)}])
            for n, text in enumerate(REPLIES)
        ]
        cases.append(Case("silent", row.index, []))
        return found.loaded.verifiers_version, [s.reward for s in await found.worker.score(cases)]


@pytest.mark.anyio
@pytest.mark.rotate(share=3, group="the migration page")
@pytest.mark.slow
async def test_the_worked_example_pays_the_same_in_both_generations(lab: Lab) -> None:
    old, v0 = await _rewards(lab, "harvest_v0")
    new, v1 = await _rewards(lab, "harvest")
    assert (old, new) == ("0.1.14", "0.4.0")
    assert v0 == pytest.approx([*REPLIES.values(), 0.0])
    assert v1 == pytest.approx(v0)


async def _against_v0(lab: Lab) -> Outcome:
    return await try_reward(lab, "harvest", same_as="harvest_v0", examples=3)


@pytest.mark.anyio
@pytest.mark.rotate(share=3, group="the migration page")
@pytest.mark.slow
async def test_same_as_calls_the_port_equal_and_its_flaws_flaws(lab: Lab) -> None:
    outcome = await _against_v0(lab)
    compared = outcome.data["same_as"]
    assert "reward-differs" not in codes(outcome)
    assert (compared["differ"], compared["unmatched_tasks"]) == (0, 0)
    assert compared["completions"] > 150
    assert outcome.status == "passed"
    assert {"reward-hackable", "reward-too-strict"} <= codes(outcome, "warning")


@pytest.mark.anyio
@pytest.mark.rotate(share=3, group="the migration page")
@pytest.mark.slow
async def test_the_mended_example_passes_and_same_as_shows_what_was_changed(lab: Lab) -> None:
    root = lab.workspace.root
    _write(root, files(GUIDE, "mended"))
    taskset = root / "environments/harvest/harvest/taskset.py"
    taskset.write_text(taskset.read_text(encoding="utf-8").replace("weight=0.2", "weight=0.1"), encoding="utf-8")
    alone = await try_reward(lab, "harvest")
    assert (alone.status, codes(alone), codes(alone, "warning")) == ("passed", set(), set())
    both = await _against_v0(lab)
    assert (both.status, codes(both)) == ("failed", {"reward-differs"})
    assert not both.facts.proves
    assert any("<answer>" in case["replay"]["completion"] for case in both.data["failing_cases"])
