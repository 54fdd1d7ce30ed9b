"""Recommends the next tool calls after a verdict on a reward distribution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.distribution.sample_size import MOST_ROLLOUTS
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.distribution.verdict import UNCLEAR_CODES

_TASKS_AT_FAULT = frozenset(
    {
        "distribution-too-hard",
        "distribution-too-easy",
        "distribution-no-signal",
        "distribution-all-one",
        "distribution-at-floor",
        "distribution-too-hard-mostly",
        "distribution-too-easy-mostly",
        "distribution-weak-signal",
        "distribution-between-tasks",
    }
)
_REWARD_AT_FAULT = frozenset(
    {
        "distribution-nonfinite",
        "distribution-constant",
        "distribution-narrow-range",
        "distribution-format-dominates",
    }
)
_REWARD_IN_DOUBT = frozenset({"distribution-all-zero", "distribution-format-low"})
"""Rewards that either the model does not earn or the reward does not pay. `test_reward` tells which, for free."""
_ZEROS = frozenset(
    {
        "distribution-all-zero",
        "distribution-dead",
        "distribution-truncated",
        "distribution-format-low",
        "distribution-unparsed",
    }
)


def next_calls(
    facts: Distribution, environment: str, evaluation: str | None, again: Mapping[str, Any] | None = None
) -> tuple[Next, ...]:
    """Return the next calls for a verdict.

    After a pass they push the environment or write a training config. Otherwise they show the rollouts without reward
    or the difficulty of the tasks, test the reward, or run a larger evaluation. `again` has the arguments of `run_eval`
    for the judged evaluation, which a larger evaluation keeps.
    """
    arguments = {"eval": evaluation} if evaluation else {}
    codes = {f.code for f in facts.findings if f.severity != "info"}
    blocked = {f.code for f in facts.findings if f.severity == "blocker"}
    difficulty = Next("read_eval", "which tasks to keep, in which order", {**arguments, "view": "difficulty"})
    calls: list[Next] = []
    if facts.status == "passed":
        why = "the reward distribution can be trained on"
        if "/" in environment and not environment.startswith("environments/"):  # a name on the Hub, which is pushed
            model = {"model": again["model"]} if again and "model" in again else {}
            calls.append(Next("write_training_config", why, {"environments": [environment], **model}))
        elif environment:
            calls.append(Next("push_environment", why, {"environment": environment}))
        if codes & _TASKS_AT_FAULT:
            calls.append(difficulty)
        return tuple(calls)
    if "eval-errors" in blocked or "eval-all-errors" in blocked:
        why = "see what the failed rollouts say"
        calls.append(Next("read_eval", why, {**arguments, "view": "rollouts", "where": "error"}))
    unpaid = facts.paid_nothing and "eval-all-errors" not in blocked
    if blocked & _ZEROS or unpaid:
        calls.append(Next("read_eval", "see which rollouts got no reward and why", {**arguments, "view": "zeros"}))
    if (unpaid or blocked & (_REWARD_AT_FAULT | _REWARD_IN_DOUBT)) and environment:
        calls.append(Next("test_reward", "see what right and wrong answers earn", {"environment": environment}))
    if codes & _TASKS_AT_FAULT and not (blocked & UNCLEAR_CODES):
        calls.append(difficulty)
    # A larger evaluation of rollouts that earn nothing costs more and earns nothing: their cause is mended first.
    if blocked & UNCLEAR_CODES and "eval-all-errors" not in blocked and not (unpaid or blocked & _ZEROS):
        calls += _larger_evaluation(facts, environment, again or {})
    return tuple(calls) or (
        Next("read_eval", "see which rollouts got no reward and why", {**arguments, "view": "zeros"}),
    )


def _larger_evaluation(facts: Distribution, environment: str, again: Mapping[str, Any]) -> Iterator[Next]:
    """Yield the evaluation that would decide: more tasks, or more rollouts if the environment has no more tasks."""
    sizes = [row for f in facts.findings if f.code in UNCLEAR_CODES and f.severity == "blocker" for row in f.rows]
    if not environment:
        return
    if not sizes:
        why = "no sample of these tasks would decide: add tasks, or change them"
        yield Next("read_environment", why, {"environment": environment})
        return
    tasks = max(max(row["num_examples"] for row in sizes), int(again.get("num_examples") or 0))
    rollouts = max(max(row["rollouts"] for row in sizes), int(again.get("rollouts") or 0))
    more = facts.available is not None and tasks >= facts.available == facts.tasks
    why = "more rollouts: there are no more tasks" if more else "as many tasks and rollouts as would decide"
    given = {"environment": environment, **again, "num_examples": min(tasks, facts.available or tasks)}
    yield Next("run_eval", why, {**given, "rollouts": min(rollouts, MOST_ROLLOUTS)})
