"""What the page shows of evaluations: the list, one with its statistics, its rollouts page by page, a conversation.

All text of rollouts is foreign: it is cut, freed of credentials and of invisible characters, and sent as JSON values
only; the page inserts it as text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from prime_lab_mcp.dashboard.reading_lab import ReadingLab
from prime_lab_mcp.dashboard.rollout_index import RolloutIndex, RolloutIndexes, RolloutQuery
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import clip, escape_lines, finite_or_none, quote, redact, rounded
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.views.columns import FinishedEvaluation
from prime_lab_mcp.lab.evals.views.compare import compare_view
from prime_lab_mcp.lab.evals.views.zeros import zeros_view
from prime_lab_mcp.lab.rollouts.conversation import conversation, gold, task_data
from prime_lab_mcp.lab.rollouts.reading import read_rollouts
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Job

PAGE_ROLLOUTS = 50
"""Rollouts on one page of the browser."""
EVALS_PAGE = 50
_BINS = 20
_MOST_BARS = 200
"""Bars of the picture of tasks; more tasks share bars."""
_EXCERPT = 240
_MESSAGE = 200_000
"""Characters of one message in a conversation; longer ones are cut and say so."""
_CONVERSATION = 2_000_000
"""Characters of all messages of a conversation."""
LIVE = ("starting", "running")


def foreign(text: object, most: int = _EXCERPT) -> str:
    """Text of a dataset, model or log as the page may show it: without credentials and invisible characters, cut."""
    value = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, default=str)
    return escape_lines(clip(redact(value[: most * 4 + 4096]), most))


def list_evaluations(lab: ReadingLab, page: int, environment: str | None = None) -> dict[str, Any]:
    """One page of the workspace's evaluations, newest first."""
    jobs = lab.ledger.jobs(lab.key, environment=environment)
    verdicts = _verdicts(lab)
    chosen = jobs[(page - 1) * EVALS_PAGE : page * EVALS_PAGE]
    return {
        "total": len(jobs),
        "page": page,
        "pages": max(1, math.ceil(len(jobs) / EVALS_PAGE)),
        "evaluations": [evaluation_row(job, verdicts.get(job.id)) for job in chosen],
    }


def evaluation_row(job: Job, verdict: Evidence | None) -> dict[str, Any]:
    """One evaluation in a list."""
    distribution = verdict.data.get("distribution") if verdict is not None else None
    usable = distribution.get("usable_groups") if isinstance(distribution, Mapping) else None
    return {
        "id": job.id,
        "environment": job.environment,
        "model": foreign(job.spec.get("model") or "", 120),
        "state": job.state,
        "verdict": verdict.status if verdict is not None else None,
        "at": job.at,
        "completed": job.progress.get("completed", 0),
        "planned": job.progress.get("planned"),
        "errors": job.progress.get("errors", 0),
        "mean_reward": rounded(finite_or_none(job.progress.get("mean_reward"))),
        "usable": usable.get("share") if isinstance(usable, Mapping) else None,
        "cost": finite_or_none(job.progress.get("cost")),
        "hosted": bool(job.spec.get("hosted")),
    }


def _verdicts(lab: ReadingLab) -> dict[str, Evidence]:
    """The newest verdict of each evaluation by its id."""
    rows = reversed(lab.ledger.evidence(lab.key, tool="run_eval"))
    return {str(row.data.get("id")): row for row in rows}


def evaluation(lab: ReadingLab, id: str) -> dict[str, Any]:
    """One evaluation: its specification, its verdict as the ledger has it, and pictures of its rewards."""
    job = lab.job(id)
    verdict = _verdicts(lab).get(id)
    spec = job.spec
    data = evaluation_row(job, verdict) | {
        "spec": {
            name: spec.get(name)
            for name in (
                "num_examples",
                "rollouts",
                "temperature",
                "max_tokens",
                "env_args",
                "seed",
                "api",
                "verifiers",
            )
        },
        "endpoint": foreign((spec.get("endpoint") or {}).get("preset") or "", 60),
        "bound": finite_or_none(spec.get("max_cost")),
        "reason": foreign(job.progress["reason"]) if job.progress.get("reason") else None,
        "tokens": {name: job.progress.get(f"{name}_tokens") for name in ("prompt", "completion")},
        "findings": list(verdict.findings) if verdict is not None else [],
        "distribution": verdict.data.get("distribution") if verdict is not None else None,
        "reward_test": _reward_test(lab, job),
        "others": [
            {"id": other.id, "model": foreign(other.spec.get("model") or "", 120), "at": other.at}
            for other in lab.ledger.jobs(lab.key, environment=job.environment, limit=30)
            if other.id != id and other.state == "finished"
        ],
    }
    index = _index(lab, job)
    return data | ({"rewards": _rewards(index)} if index is not None and len(index) else {})


def _reward_test(lab: ReadingLab, job: Job) -> dict[str, Any] | None:
    """What the newest reward test of the same source found."""
    rows = lab.ledger.evidence(lab.key, tool="test_reward", source=job.source, limit=1)
    if not rows:
        return None
    return {"status": rows[0].status, "at": rows[0].at, "findings": list(rows[0].findings)}


def _index(lab: ReadingLab, job: Job) -> RolloutIndex | None:
    """The index of a job's results; None as long as no rollout finished."""
    results = EvaluationJobs(lab).files(job.id).results()
    weights = {str(name): weight for name, weight in (job.spec.get("weights") or {}).items()}
    return None if results is None else lab.memory(RolloutIndexes).open(results, weights)


def _rewards(index: RolloutIndex) -> dict[str, Any]:
    """A histogram of rewards as shares of the attainable reward, and the mean of every task from hard to easy.

    Remembered with the index, until the index grows.
    """
    if index.picture is None:
        index.picture = _picture(index)
    return index.picture


def _picture(index: RolloutIndex) -> dict[str, Any]:
    columns = index.columns
    best = columns.best
    bins, failed, below, above = [0] * (_BINS + 1), 0, 0, 0
    for position in range(len(columns)):
        if not columns.scored(position):
            failed += 1
            continue
        share = columns.reward[position] / best
        if share < -1e-9:
            below += 1
        elif share > 1 + 1e-9:
            above += 1
        else:
            bins[math.floor(share * _BINS + 0.5)] += 1
    tasks = sorted((tally.mean, tally.n) for tally in columns.tallies() if tally.n)
    width = max(1, math.ceil(len(tasks) / _MOST_BARS))
    bars = [tasks[start : start + width] for start in range(0, len(tasks), width)]
    return {
        "attainable": rounded(best),
        "bins": bins,
        "below": below,
        "above": above,
        "failed": failed,
        "rollouts": len(columns),
        "tasks": len(columns.keys),
        "task_means": [rounded(sum(mean for mean, _ in part) / len(part), 3) for part in bars],
        "tasks_per_bar": width,
    }


def rollout_page(lab: ReadingLab, id: str, query: RolloutQuery, page: int) -> dict[str, Any]:
    """One page of an evaluation's rollouts. Only the lines on the page are decoded."""
    index = _index(lab, lab.job(id))
    if index is None:
        return {"total": 0, "matching": 0, "page": 1, "pages": 1, "rows": []}
    found = index.find(query)
    pages = max(1, math.ceil(len(found) / PAGE_ROLLOUTS))
    page = min(page, pages)
    positions = found[(page - 1) * PAGE_ROLLOUTS : page * PAGE_ROLLOUTS]
    return {
        "total": len(index),
        "matching": len(found),
        "page": page,
        "pages": pages,
        "rows": [_row(index, position, rollout) for position, rollout in index.rollouts(positions)],
    }


def _row(index: RolloutIndex, position: int, rollout: Rollout) -> dict[str, Any]:
    columns = index.columns
    task = columns.task[position]
    messages = conversation(rollout)
    question = next((m.text for m in messages if m.role == "user" and m.text), rollout.task)
    scored = columns.scored(position)
    return {
        "position": position,
        "task": task,
        "question": foreign(question, 160),
        "reply": foreign(_end(rollout.completion_text), _EXCERPT),
        "reward": rounded(columns.reward[position]) if scored else None,
        "share": rounded(columns.reward[position] / columns.best, 3) if scored else None,
        "passed": columns.passed(position, columns.best),
        "components": _components(rollout),
        "tokens": rollout.completion_tokens,
        "truncated": rollout.truncated,
        "error": foreign(rollout.error, 160) if rollout.error is not None else None,
    }


def _end(text: str) -> str:
    """The end of a reply, where its answer usually stands."""
    text = text.strip()
    return text if len(text) <= _EXCERPT else f"…{text[-_EXCERPT + 1 :]}"


def _components(rollout: Rollout) -> list[dict[str, Any]]:
    return [
        {"name": foreign(name, 60), "score": rounded(score), "weight": rounded(weight)}
        for name, (score, weight) in list(rollout.components.items())[:12]
    ]


def whole_rollout(lab: ReadingLab, id: str, position: int) -> dict[str, Any]:
    """One rollout with its whole conversation. Raises BadInput (`not-found`)."""
    index = _index(lab, lab.job(id))
    read = index.rollouts([position]) if index is not None else []
    if index is None or not read:
        raise BadInput(
            f"evaluation {quote(id, 80)} has no rollout {position}",
            fix="Choose one of the list.",
            code="not-found",
        )
    rollout = read[0][1]
    row = _row(index, position, rollout)
    same = index.find(RolloutQuery(task=row["task"]))
    return row | {
        "id": rollout.id,
        "task_key": foreign(rollout.task, 80),
        "gold": foreign(gold(rollout), 4000) if gold(rollout) is not None else None,
        "messages": _messages(rollout),
        "metrics": {foreign(name, 60): rounded(value) for name, value in list(rollout.metrics.items())[:40]},
        "fields": {foreign(name, 60): foreign(value, 2000) for name, value in list(task_data(rollout).items())[:40]},
        "prompt_tokens": rollout.prompt_tokens,
        "seconds": rounded(rollout.seconds, 2),
        "stop": foreign(rollout.stop, 60) if rollout.stop else None,
        "error": foreign(rollout.error, 20_000) if rollout.error is not None else None,
        "of_task": [int(other) for other in same[:64]],
        "total": len(index),
    }


def _messages(rollout: Rollout) -> list[dict[str, Any]]:
    left, messages = _CONVERSATION, []
    for message in conversation(rollout):
        most = min(_MESSAGE, max(left, _EXCERPT))
        shown = {
            "role": foreign(message.role, 20),
            "text": foreign(message.text, most),
            "reasoning": foreign(message.reasoning, most) if message.reasoning else None,
            "calls": [
                {"name": foreign(call.name, 80), "arguments": foreign(call.arguments, most)}
                for call in message.calls[:64]
            ],
        }
        left -= len(message.text) + len(message.reasoning) + sum(len(call.arguments) for call in message.calls)
        messages.append(shown)
    return messages


def zero_classes(lab: ReadingLab, id: str) -> dict[str, Any]:
    """The rollouts that earned nothing, by class, with advice."""
    view = zeros_view(_finished(lab, id))
    return {"summary": view.summary, "data": dict(view.data)}


def comparison(lab: ReadingLab, id: str, other: str) -> dict[str, Any]:
    """Two evaluations compared task by task."""
    view = compare_view(_finished(lab, id), _finished(lab, other))
    return {"summary": view.summary, "data": dict(view.data), "findings": [f.as_json() for f in view.findings]}


def _finished(lab: ReadingLab, id: str) -> FinishedEvaluation:
    job = lab.job(id)
    results = EvaluationJobs(lab).files(job.id).results()
    if results is None:
        raise BadInput(
            f"evaluation {quote(id, 80)} has no finished rollout", fix="Wait for it.", code="results-missing"
        )
    return FinishedEvaluation(job.id, EvaluationJobs(lab).spec(job), lambda: read_rollouts(results))
