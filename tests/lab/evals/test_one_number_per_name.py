"""A number of one evaluation has one value under one name in every report."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.outcomes import finished_outcome
from prime_lab_mcp.lab.evals.runner.attempt import ResultsCounter
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.lab.evals.conftest import write_environment
from tests.lab.evals.finished import episode, finished

pytestmark = pytest.mark.anyio
ID, OTHER = "eval-00000001", "eval-00000002"
WEIGHTS = {"correct": 1.0, "format_reward": 0.5}
SAME = ("mean_reward", "mean_of_attainable", "attainable", "error_rate", "truncation_rate", "errors", "perfect_rate")
"""Numbers of the whole evaluation."""
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("read_eval", {"eval": ID, "view": "summary"}),
    ("read_eval", {"eval": ID, "view": "zeros"}),
    ("read_eval", {"eval": ID, "view": "compare", "other": OTHER}),
    ("check_reward_distribution", {"results": ID}),
    ("watch_run", {"id": ID}),
)


def uneven() -> list[dict[str, Any]]:
    """Forty tasks with 3 or 5 rollouts, an attainable reward of 1.5, four failed rollouts and some that are cut off."""
    episodes = []
    for task in range(40):
        for number in range(5 if task % 3 else 3):
            if (task, number) in {(3, 1), (17, 2), (35, 0), (36, 1)}:
                episodes.append(episode(task, None))
                continue
            solved = task >= 30 or (task >= 10 and number % 2 == 1)
            scores = {"correct": float(solved), "format_reward": float(number > 0)}
            rewards = {name: {"score": score, "weight": WEIGHTS[name]} for name, score in scores.items()}
            ending = "length" if (task * 7 + number) % 11 == 0 else "stop"
            said = f"so <answer>{'four' if solved else 'five'}</answer>"
            episodes.append(episode(task, 0.0, said, rewards=rewards, calls=[{"finish_reason": ending}]))
    return episodes


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, str, float]]:
    """Every number of the whole evaluation in a report, with its name and place."""
    if not isinstance(value, dict):
        return
    for name, inner in value.items():
        place = f"{path}.{name}"
        if name in SAME:
            stated = inner.get("value", inner.get("share")) if isinstance(inner, dict) else inner
            yield name, place, stated
        elif name not in ("components", "answer", "form", "there", "estimate"):
            yield from numbers(inner, place)


async def reports(lab: Lab) -> dict[str, Report]:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    changes = {"source": snapshot.source, "content": snapshot.content, "weights": WEIGHTS, "rollouts": 5}
    job = finished(lab, uneven(), ID, **changes)
    finished(lab, uneven(), OTHER, model="other", **changes)
    spec = EvaluationJobs(lab).spec(job)
    counter = ResultsCounter(spec)
    counter.count(EvaluationJobs(lab).files(ID).results())
    ended = finished_outcome(lab, job, verdict.judge_job(lab, job))
    calls = Calls(lab, TOOLS, References())
    found = {f"{tool} {given.get('view', '')}": await calls.execute(tool, given) for tool, given in CALLS}
    found["run_eval"] = Report("passed", ended.summary, ended.findings, ended.data)
    found["progress"] = Report("running", "", (), counter.as_json())
    return found


async def test_a_number_has_one_value_under_one_name(lab: Lab) -> None:
    values: dict[str, dict[float, list[str]]] = defaultdict(lambda: defaultdict(list))
    for report, found in (await reports(lab)).items():
        assert found.status != "error", found.findings
        for name, place, value in numbers(json.loads(json.dumps(dict(found.data)))):
            values[name][round(value, 4)].append(report + place)
    assert set(values) == set(SAME)
    assert values["mean_reward"].keys() != values["mean_of_attainable"].keys()
    assert {name: dict(places) for name, places in values.items() if len(places) > 1} == {}


async def test_sentences_call_the_raw_mean_and_the_mean_of_attainable_so(lab: Lab) -> None:
    found = await reports(lab)
    raw = found["run_eval"].data["mean_reward"]
    texts = [text for report in found.values() for text in (report.summary, *(f.message for f in report.findings))]
    stated = [float(value) for text in texts for value in re.findall(r"mean reward (\d+\.\d+)", text)]
    assert stated
    assert [value for value in stated if abs(value - raw) > 0.006] == []


async def test_the_zeros_say_how_many_were_cut_off_beside_those_that_are_zeros_for_it(lab: Lab) -> None:
    found = await reports(lab)
    [warning] = [f for f in found["run_eval"].findings if f.code == "distribution-truncated"]
    share = warning.message.split()[0]
    zeros = found["read_eval zeros"]
    assert f"were cut off ({share})" in zeros.summary
    assert f"{zeros.data['zeros']['truncated']} of the zeros because of that" in zeros.summary
