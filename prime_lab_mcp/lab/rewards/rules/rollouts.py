"""Rules about whole rollouts with a scripted model: errors, rollouts that do not end, and the rewards of rollouts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Severity
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule
from prime_lab_mcp.lab.rewards.scripts import PlayedScript
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE, same_reward
from prime_lab_mcp.lab.worker.scoring import ENDLESS, ROLLOUT_SECONDS, SCORING

_MOST_CHARACTERS = 300
_OF_MACHINE = ("SandboxError", "InterceptionError", "TunnelError", "ProviderError", "ModelError")
"""Beginnings of the types of errors that come from running a rollout and not from the environment's code."""
_NO_PROGRAM = re.compile(r"(?i)\b(?:executable|command)\b.{0,20}\bnot found\b")
"""Matches an error about a program that this machine does not have, or that the sandbox does not permit."""
_TOOL_SHARE = 0.2
"""Largest share of the maximum that tool calls may add, as for the form of an answer (docs/validation.md, Reward
tests)."""

_RIGHT = ("gold", "taken-back", "late")
"""Script parts in which the model gives the right answer at some point."""


def rollout_fails(trial: Trial) -> Iterator[Finding]:
    """A rollout must not end in an error: v1 records the rollout as failed, and v0 may end the whole run.

    Three cases are only warnings. In v1, the environment raises on purpose for a script without the right answer:
    training leaves this rollout out, so that nothing is learned from it. In v0, only the scoring of such a script
    raises: the rubric then pays 0. And a faulty tool call ends in an error.
    """
    if trial.rollouts_broke:
        yield Finding(
            "reward-rollout-fails",
            "blocker",
            f"whole rollouts broke the process: {trial.rollouts_broke}",
            Fix("Let no tool, env_response or hook end its process; then call ", NamedCall("test_reward"), "."),
        )
    failed = [p for p in trial.rollouts if p.failed]
    sensible = [p for p in failed if p.script.part != "faulty" and not _of_machine(p)]
    refused = [p for p in sensible if p.script.part not in _RIGHT and _on_purpose(p, trial)]
    unscored = [p for p in sensible if trial.api == "v0" and p.script.part not in _RIGHT and _only_unscored(p)]
    sensible = [p for p in sensible if p not in refused and p not in unscored]
    known = {_error(p) for p in (*sensible, *refused, *unscored)}
    faulty = [p for p in failed if p.script.part == "faulty" and not _of_machine(p) and _error(p) not in known]
    if sensible:
        yield _failed(
            "blocker",
            sensible,
            "ended in an error of the environment",
            ("Mend what raises. Whatever a model may say, env_response, tools and hooks must answer with a message."),
        )
    elif refused:
        yield _failed(
            "warning",
            refused,
            "ended where the environment raises on purpose, so they are left out of training",
            "Let such a rollout end with a reward of 0, so that a model learns not to do that.",
        )
    if unscored and not sensible:
        yield _failed(
            "warning",
            unscored,
            "could not be scored, which earns 0",
            "Let the reward return 0 for what it cannot read: a message without text, or without tool calls.",
        )
    if faulty:
        yield _failed(
            "warning",
            faulty,
            "ended in an error, not in an answer to the model",
            ("Answer a call that names no tool, or whose arguments are no JSON, with a tool message that says so."),
        )


def _on_purpose(performed: PlayedScript, trial: Trial) -> bool:
    """Whether the rollout's error comes from a `raise` statement of the environment."""
    place = performed.result.errors[0].where.rpartition(", ")[2]
    return bool(place) and any(own.endswith(place) or place.endswith(own) for own in trial.own_raises)


def _only_unscored(performed: PlayedScript) -> bool:
    """Whether all errors of a rollout come from its scoring."""
    return all(error.where.startswith(SCORING) for error in performed.result.errors)


def _error(performed: PlayedScript) -> tuple[str, str]:
    error = performed.result.errors[0]
    return error.type, error.where


def _of_machine(performed: PlayedScript) -> bool:
    """Whether a rollout failed because of this machine or the scripted model, and not because of the environment."""
    error = performed.result.errors[0]
    # An environment may call the model client in its state directly, which a scripted client does not support.
    return (
        error.type.startswith(_OF_MACHINE)
        or "ScriptedClient" in error.message
        or bool(_NO_PROGRAM.search(error.message))
    )


def _failed(severity: Severity, failed: Sequence[PlayedScript], how: str, fix: str) -> Finding:
    """Return the finding about failed rollouts. `how` is the part of the message that says how they ended."""
    first = failed[0]
    error = first.result.errors[0]
    place = f" in {quote(error.where, 120)}" if error.where else ""
    return Finding(
        "reward-rollout-fails",
        severity,
        f"{count(len(failed), 'rollout')} {how}: the model {first.script.name}, and after "
        f"{count(first.result.turns, 'turn')}{place}: {quote(f'{error.type}: {error.message}', 200)}",
        fix,
        where=error.where or None,
        rows=tuple(rollout_row(p, "no error") for p in failed[:3]),
    )


def rollout_endless(trial: Trial) -> Iterator[Finding]:
    """A rollout must end by itself. Otherwise every rollout of a run continues until the context is full."""
    endless = [p for p in trial.rollouts if p.result.end == "endless"]
    if endless:
        first = endless[0]
        yield Finding(
            "reward-rollout-endless",
            "blocker",
            f"{count(len(endless), 'rollout')} had no end after {ENDLESS} turns (the model {first.script.name})",
            "Set max_turns (v0: of the environment; v1: of its agent, or a bounded loop in Env.run), or a stop "
            "condition that such a model meets.",
            rows=tuple(rollout_row(p, "an end") for p in endless[:2]),
        )


def rollout_untried(trial: Trial) -> Iterator[Finding]:
    """Report rollouts that could not be run or did not end in time."""
    slow = [p for p in trial.rollouts if p.result.end == "slow"]
    machine = [p for p in trial.rollouts if p.failed and _of_machine(p)]
    why = trial.no_rollouts and quote(trial.no_rollouts, 300)
    if not why and machine:
        error = machine[0].result.errors[0]
        why = quote(f"{error.type}: {error.message}", 300)
    if not why and slow:
        why = f"{count(len(slow), 'rollout')} had not ended after {ROLLOUT_SECONDS:g} seconds or less"
    if why:
        yield Finding(
            "reward-partly-tested",
            "info" if trial.no_rollouts_by_design else "warning",
            f"its turns and tools were not tried in full: {why}",
            _untried_fix(trial),
        )


def _untried_fix(trial: Trial) -> str:
    """Return the fix for rollouts that could not be tried, with the arguments of the next call."""
    look = Fix(
        "Call ",
        NamedCall("run_eval").changed(num_examples=5, rollouts=4),
        ", and read its messages before training.",
    )
    if trial.no_rollouts_by_design:
        return look
    if trial.solved.lacks_container:
        return Fix(
            "Ask the user to run `podman pull` with a task's image in a shell and to mend what it says, then call ",
            NamedCall("test_reward"),
            " again. Or: ",
            look,
        )
    return Fix(
        "Call ",
        NamedCall("test_reward"),
        " with env_args that make rollouts short (fewer turns, an easy level), and with cases "
        'whose "completion" is a list of messages. Or: ',
        look,
    )


def rollout_differs(trial: Trial) -> Iterator[Finding]:
    """A rollout must earn the same reward whenever it is scored.

    A warning if only the reward without the rollout's state differs: then the reward reads more than messages.
    """
    done = [p for p in trial.rollouts if p.scored]
    unsteady = [p for p in done if p.result.again is not None and not same_reward(p.result.again, p.result.reward)]
    if unsteady:
        first = unsteady[0]
        yield Finding(
            "reward-rollout-differs",
            "blocker",
            f"{count(len(unsteady), 'rollout')} of {len(done)} earned something else when the same rollout was scored "
            f"again after the others ({first.result.reward:g}, then {first.result.again:g})",
            "Keep what a rollout needs in its own state, never on the environment, a tool or a module.",
            rows=tuple(rollout_row(p, f"{p.result.again:g}, as when scored again") for p in unsteady[:3]),
        )
        return
    other = [p for p in done if p.result.alone is None or not same_reward(p.result.alone, p.result.reward)]
    if other:
        keys = sorted({key for p in other for key in p.result.state})
        what = f" (it leaves {quote(', '.join(keys[:6]), 200)})" if keys else ""
        first = other[0]
        alone = "nothing computable" if first.result.alone is None else f"{first.result.alone:g}"
        judged = "right and wrong were judged by rollouts" if trial.by_rollouts else "completions were scored alone"
        yield Finding(
            "reward-rollout-differs",
            "warning",
            f"the reward reads more than messages{what}: the messages of {count(len(other), 'rollout')} earn {alone} "
            f"when scored alone, {first.result.reward:g} in the rollout; {judged}",
            'Give test_reward cases as whole conversations ("completion": a list of messages): their assistant turns '
            "are played through the environment.",
            rows=tuple(rollout_row(p, f"{alone} when scored alone") for p in other[:2]),
        )


def wrong_rollout_passes(trial: Trial) -> Iterator[Finding]:
    """A rollout without the right answer must earn less than one with the right answer. Otherwise a blocker."""
    passes: list[PlayedScript] = []
    for row in dict.fromkeys(p.row for p in trial.rollouts):
        here = [p for p in trial.rollouts if p.row == row and p.scored]
        right = max((p.result.reward or 0.0 for p in here if p.script.part == "gold"), default=0.0)
        right = max(right, trial.solved.best)
        if right > EPSILON and right >= HALF_SHARE * trial.max_reward:
            passes += [p for p in here if p.script.part not in _RIGHT and (p.result.reward or 0.0) >= right - EPSILON]
    if passes:
        yield Finding(
            "reward-wrong-passes",
            "blocker",
            f"{count(len(passes), 'rollout')} without the right answer earned as much as the right one: the model "
            f"{passes[0].script.name}, and earned {passes[0].result.reward:g}",
            "Pay for the right result at the end of the rollout, not for taking part in it.",
            rows=tuple(rollout_row(p, "less than the right answer") for p in passes[:3]),
        )


def any_attempt(trial: Trial) -> Iterator[Finding]:
    """A right answer before a wrong one and one after a wrong one must not both earn the maximum.

    If any attempt counts, a model can guess several times. A blocker if there are so few possible answers that a model
    can try all of them. Otherwise a warning: games allow several attempts on purpose, and the model must still know the
    answer.
    """
    labels = len(trial.style.golds.labels) if trial.style is not None else 0
    for row in dict.fromkeys(p.row for p in trial.rollouts):
        # A game that ends with the right answer leaves no second turn to take it back.
        here = {p.script.part: p for p in trial.rollouts if p.row == row and p.scored and p.result.turns > 1}
        earned = [here[part].result.reward or 0.0 for part in ("taken-back", "late") if part in here]
        wrong = [
            p.result.reward or 0.0 for p in trial.rollouts if p.row == row and p.script.part == "wrong" and p.scored
        ]
        best = FULL_SHARE * trial.max_reward
        if len(earned) == 2 and best > EPSILON and min(earned) >= best - EPSILON and wrong and max(wrong) < best:
            yield Finding(
                "reward-hackable",
                "blocker" if 2 <= labels <= ENDLESS else "warning",
                f"any attempt of a rollout counts, in any order: right then wrong earned {earned[0]:g}, and wrong then "
                f"right {earned[1]:g}",
                "Pay for the last answer only, end the rollout with the first, or let every attempt cost something.",
                rows=tuple(
                    rollout_row(here[part], "less for one of the two orders") for part in ("taken-back", "late")
                ),
            )
            return


def tool_use(trial: Trial) -> Iterator[Finding]:
    """Tool calls must not raise the reward of a wrong answer by much, because they need no knowledge.

    A blocker from half of the maximum on, and a warning above `_TOOL_SHARE`.
    """
    best = max((p.result.reward or 0.0 for p in trial.rollouts if p.scored and p.script.part == "gold"), default=0.0)
    best = max(best, trial.max_reward)
    paid: list[tuple[float, PlayedScript]] = []
    for p in trial.rollouts:
        ordinary = [
            q.result.reward or 0.0
            for q in trial.rollouts
            if q.row == p.row and q.script.part == "wrong" and not q.script.tools and q.scored
        ]
        if p.script.part == "wrong" and p.script.tools and p.scored and ordinary and best > EPSILON:
            share = ((p.result.reward or 0.0) - max(ordinary)) / best
            if share > _TOOL_SHARE:
                paid.append((share, p))
    if paid:
        share, first = max(paid, key=lambda pair: pair[0])
        yield Finding(
            "reward-hackable",
            "blocker" if share >= HALF_SHARE - EPSILON else "warning",
            f"calling tools for the sake of it is paid: with a wrong answer it adds {share:.0%} of the maximum",
            "Make the use of tools a metric (weight 0), and pay only for the result.",
            rows=(rollout_row(first, "no more than without tools"),),
        )


def rollout_row(performed: PlayedScript, expected: str) -> dict[str, Any]:
    """Return a row of a finding with the last messages of a rollout, its reward and the expected reward."""
    result = performed.result
    conversation = "\n".join(_line(m) for m in result.messages[-6:])
    return {
        "case": f"rollout: {performed.script.name}",
        "task": performed.row,
        "completion": quote(conversation, _MOST_CHARACTERS) if conversation else "(nothing was said)",
        "expected": expected,
        "reward": None if result.reward is None else round(result.reward, 6),
        "stop": quote(result.stop, 60) if result.stop else result.end,
    }


def _line(message: Any) -> str:
    """Return a message of a rollout as one line: its role, and its text or tool calls."""
    calls = [
        f"{c.get('function', {}).get('name')}({c.get('function', {}).get('arguments')})"
        for c in message.get("tool_calls") or ()
        if isinstance(c, dict)
    ]
    return f"{message.get('role')}: {message.get('content') or ' '.join(calls)}"


def _as_played(performed: PlayedScript) -> str:
    """What the model of a rollout did: of two turns only the first, if the rollout ended after it."""
    first, then, _ = performed.script.name.partition(", then ")
    return f"{first}, after which the rollout ended" if then and performed.result.turns == 1 else performed.script.name


def rollout_lines(trial: Trial) -> list[dict[str, Any]]:
    """Return the rollouts of a trial as entries of the report."""
    return [
        {
            "task": p.row,
            "script": _as_played(p),
            "turns": p.result.turns,
            "reward": None if p.result.reward is None else round(p.result.reward, 6),
            "stop": quote(p.result.stop, 60) if p.result.stop else p.result.end,
            "ok": p.result.ok,
        }
        for p in trial.rollouts
    ]


ROLLOUT_RULES: tuple[RewardRule, ...] = (
    rollout_fails,
    rollout_endless,
    rollout_untried,
    rollout_differs,
    wrong_rollout_passes,
    any_attempt,
    tool_use,
)
