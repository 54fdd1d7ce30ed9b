"""Rules about reference solutions: each can be played and earns the maximum, and changed copies earn less.

A copy without the solution's tool calls still gives the solution's last reply, which only a model that knows the answer
can write. If such a copy is paid, the rules only warn.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.rewards.demanded_tools import demanded_use, demands_action, is_action
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.replays import OWN_REPLIES
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule
from prime_lab_mcp.lab.rewards.rules.rollouts import rollout_row
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, turn_of
from prime_lab_mcp.lab.rewards.solutions import Change, Solved
from prime_lab_mcp.lab.rewards.task_maximum import solution_maxima
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE
from prime_lab_mcp.lab.worker.scoring import OfferedTool

_WITHOUT_USE = {
    Change.BARE_ANSWER: "without a tool call",
    Change.WRONG_ARGUMENT: "after calls that ask for something else",
    Change.ANSWER_FIRST: "before the result of the first call",
}

_FEWEST_UNDONE, _UNDONE_SHARE = 2, 0.9
"""Smallest number of tasks on which an action that was not done must be paid, and the share of a solution's reward that
the last reply alone must earn there (our choice)."""
_FEWEST_UNSAID = 2
"""Smallest number of tasks on which the answer must be paid although the model does not give it."""
_GUESSES = (Change.BARE_ANSWER, Change.ANSWER_FIRST)
"""Copies that give the answer before anything was looked up or tried."""


def solution_unplayable(trial: Trial) -> Iterator[Finding]:
    """A stated solution must be playable: a list of messages, or a function that returns the next one, whose rollout
    ends."""
    solved = trial.solved
    if solved.unread and trial.max_reward < trial.declared - EPSILON:
        yield Finding(
            "reward-solution-broken",
            "warning",
            "the solutions that the tasks state were not used: a rollout here is one reply, and they are no single "
            "messages that earn more than the gold in the form that is asked for",
            "State the whole reply that earns the maximum as the solution, or give it as rendering: with the gold and "
            "fields of the task (GOLD {info.unit}), or with fields alone ({info.city}, {info.day}).",
        )
    slow = [p for p in solved.played if p.result.end == "slow"] if solved.scored or solved.not_played else []
    failed = [p for p in solved.played if not p.scored and p.result.end != "not-run" and p not in slow]
    if slow and solved.scored:
        # Other solutions were played to their end, so the machine or the tool servers were slow.
        waiting = [p for p in solved.played if p.result.end == "not-run"]
        begun = f", and {len(waiting)} were not begun" if waiting else ""
        yield Finding(
            "reward-partly-tested",
            "warning",
            f"{count(len(slow), 'solution')} of {len(solved.played)} had not ended in time{begun}; "
            f"{len(solved.scored)} were played to their end",
            "Call test_reward again when the machine is idle. A tool server that all rollouts share starts once.",
        )
    whys = [*solved.unplayable, *([solved.broke] if solved.broke else ())]
    whys += [
        f"its rollout ended with {p.result.errors[0].type}: {p.result.errors[0].message}"
        if p.result.errors
        else f"its rollout did not end ({p.result.end})"
        for p in failed
    ]
    if whys:
        yield Finding(
            "reward-solution-broken",
            "blocker",
            f"the solution of a task cannot be played: {quote(whys[0], 400)}",
            Fix(
                "Return a list of assistant messages with content or tool_calls, or a function that "
                "takes the messages so far and returns the next one; then call ",
                NamedCall("test_reward"),
                ".",
            ),
            rows=tuple(rollout_row(p, "the maximum") for p in failed[:2]),
        )


def solution_needs_more(trial: Trial) -> Iterator[Finding]:
    """Report solutions that cannot be played because the process of the check lacks what the environment needs.

    Rollouts that cannot run for the same reason have their own report.
    """
    why = trial.solved.unavailable
    if why and trial.solved.by_design and why != trial.no_rollouts:
        yield Finding(
            "reward-partly-tested",
            "info",
            f"the solutions were not played: {quote(why, 300)}",
            "Nothing is wrong with the solutions. Call run_eval with num_examples=5 and rollouts=4, and read its "
            "messages before training.",
        )


def solution_fails(trial: Trial) -> Iterator[Finding]:
    """A solution must earn the maximum of its task, and nothing that is no solution may earn more than the best one.

    The maximum is lower where each reply or call costs something, and a supplied solution is judged with the other
    cases (`solution_maxima`). The last reply of a solution, given at once, is a guess that comes true: only a model
    that knows the answer can make it, and it rightly earns more where replies cost something.
    """
    scored = trial.solved.scored
    if not scored:
        return
    best = trial.solved.best
    maxima = solution_maxima(trial.solved)
    failing = [
        p for p in scored if (p.result.reward or 0.0) < FULL_SHARE * maxima.get(p.row, trial.maximum(p.row)) - EPSILON
    ]
    if trial.max_reward <= EPSILON:
        failing = scored
    if failing and any(r.paid_differently and r.first.script.name == OWN_REPLIES for r in trial.replays):
        failing = []  # What failed is what other rollouts had left behind (`remembers_rollouts`).
    if failing:
        yield Finding(
            "reward-gold-fails",
            "blocker",
            (
                f"{len(failing)} of {count(len(scored), 'solution')} did not earn the maximum of {trial.max_reward:g}: "
                f"task {failing[0].row} earned {failing[0].result.reward or 0.0:g}"
            )
            if trial.max_reward > EPSILON
            else f"none of {count(len(scored), 'solution')} earned anything, and no other completion did: task "
            f"{failing[0].row} earned {failing[0].result.reward or 0.0:g}",
            "Compare what the solution does with what the reward reads (the rows show the rollout), and mend either.",
            rows=tuple(rollout_row(p, "the maximum") for p in failing[:3]),
        )
    above = [
        (c, p)
        for c, p in trial.solved.changed
        if p.scored and c not in _GUESSES and (p.result.reward or 0.0) > best + EPSILON
    ]
    if above:
        yield Finding(
            "reward-gold-fails",
            "blocker",
            f"the best solution earned {best:g}, and a model that {above[0][1].script.name} earned "
            f"{above[0][1].result.reward:g}",
            "Let the reward pay a solved task most, or state the solution that earns the maximum.",
            rows=tuple(rollout_row(p, "no more than the solution") for _, p in above[:2]),
        )


def untouched_task_paid(trial: Trial) -> Iterator[Finding]:
    """A model that says nothing must earn at most half of the solution's reward."""
    best = trial.solved.best
    paid = [
        p
        for c, p in trial.solved.changed
        if c is Change.NOOP and p.scored and (p.result.reward or 0.0) > HALF_SHARE * best + EPSILON
    ]
    if best > EPSILON and paid:
        yield Finding(
            "reward-wrong-passes",
            "blocker",
            f"a model that says nothing earned {paid[0].result.reward:g}, and the solution {best:g}",
            "Compare the state after the rollout with the state that solves the task; the beginning must not pass.",
            rows=tuple(rollout_row(p, "less than the solution") for p in paid[:2]),
        )


def _earned_by_messages(played: PlayedScript) -> bool:
    """Whether the messages of a rollout earn the same without the rollout."""
    alone = played.result.alone
    return alone is not None and abs(alone - (played.result.reward or 0.0)) < EPSILON


def _reads_only_messages(solved: Solved) -> bool:
    """Whether the messages of every paid solution earn the same without their rollout."""
    return all(_earned_by_messages(p) for p in solved.scored if (p.result.reward or 0.0) > EPSILON)


def _pays_for_state_alone(solved: Solved) -> bool:
    """Whether the reward reads what the calls have changed, and nothing that is said.

    Then the calls of the solution earn as much with any last reply, and any last reply earns nothing without them.
    """
    noop = max(solved.rewards_of(Change.NOOP), default=0.0)
    said = solved.rewards_of(Change.BARE_ANSWER)
    called = [*solved.rewards_of(Change.ANSWER_FIRST), *solved.rewards_of(Change.PASTED_OUTPUT)]
    return (
        not _reads_only_messages(solved)
        and bool(said and called)
        and max(said) <= noop + EPSILON
        and min(called) >= FULL_SHARE * solved.best - EPSILON
    )


def _last_reply_decides(solved: Solved) -> bool:
    """Whether the last replies of solutions can be what is paid: they differ, and the reward is not one of state."""
    return solved.replies_differ and not _pays_for_state_alone(solved)


def undone_is_paid(trial: Trial) -> Iterator[Finding]:
    """What a task demands to be done with a tool must be done, not only said.

    A blocker if the task's text demands an action with a tool, copies of solutions whose calls ask for something else
    earn as much as the solutions on two tasks or more, and copies without any call earn nine tenths of that: a model
    learns to claim. The second kind shows that the action may be left out, and not only be done otherwise.
    """
    solved = trial.solved
    sentence = _demand(trial)
    if solved.best <= EPSILON or not demands_action(sentence):
        return
    earned = {p.row: p.result.reward or 0.0 for p in solved.scored if any(map(is_action, _called(p)))}
    least = {Change.WRONG_ARGUMENT: FULL_SHARE, Change.BARE_ANSWER: _UNDONE_SHARE}
    claims = [(c, p) for c, p in solved.changed if c in least and p.scored and p.row in earned]
    paid = [p for c, p in claims if (p.result.reward or 0.0) >= least[c] * earned[p.row] - EPSILON]
    otherwise, alone = ({p.row for c, p in claims if c is change} for change in least)
    if len(otherwise & alone) >= _FEWEST_UNDONE and len(paid) == len(claims):
        yield Finding(
            "reward-hackable",
            "blocker",
            f"the task says {quote(sentence, 160)}, and on each of {count(len(otherwise & alone), 'task')} the last "
            "reply of the solution earned as much after calls that ask for something else, and nine tenths of that "
            "without a call: what is said is paid, and not what is done",
            "Compare the state after the rollout, or the calls that worked, with what the task demands.",
            rows=tuple(rollout_row(p, "less than the solution") for p in paid[:2]),
        )


def _called(played: PlayedScript) -> set[str]:
    """Return the names of the tools that a rollout called."""
    messages = (m for m in played.result.messages if m.get("tool_calls"))
    return {name for message in messages for name, _ in turn_of(message)["calls"]}


def paid_without_use(trial: Trial) -> Iterator[Finding]:
    """Warn if the right answer is paid although the tools were not used to find it."""
    solved = trial.solved
    if not solved.scored:
        yield from _tools_not_needed(trial)
    if not solved.calls_tools or solved.best <= EPSILON:
        return
    paid = []
    for change, how in _WITHOUT_USE.items():
        if change is Change.ANSWER_FIRST and not _last_reply_decides(solved):
            continue
        rewards = solved.rewards_of(change)
        if rewards and max(rewards) > _without_knowledge(trial, change is not Change.BARE_ANSWER) + EPSILON:
            paid.append((max(rewards) / solved.best, how, change))
    if paid:
        text = ", ".join(f"{share:.0%} {how}" for share, how, _ in paid)
        chosen = {change for _, _, change in paid}
        but, fix = _demand_and_fix(trial)
        yield Finding(
            "paid-without-tool",
            "warning",
            f"of what the solution earns, the right answer earns {text}: a model that guesses well needs no tool{but}",
            fix,
            rows=tuple(rollout_row(p, "less than the solution") for c, p in solved.changed if c in chosen)[:3],
        )


def _demand_and_fix(trial: Trial) -> tuple[str, str]:
    """Return what the task's text says about its tools, as the end of a message, and the fix that follows."""
    sentence = _demand(trial)
    if sentence:
        fix = "Pay only after a call that the task asks for: read the calls of the trace (lab://guide/rewards)."
        return f"; but the task says {quote(sentence, 160)}", fix
    fix = "If the task is to look something up, pay only after a call that worked; if guesses are rare, leave it so."
    return "", fix


def _demand(trial: Trial) -> str:
    """Return the sentence of the task's text that demands the use of a tool; empty without one."""
    offered = {tool.name for p in (*trial.solved.scored, *trial.rollouts) for tool in p.result.tools}
    return demanded_use(trial.asked, offered)


def _without_knowledge(trial: Trial, calls: bool) -> float:
    """Return the most that silence or a wrong answer earns, such as the pay for the form of a reply.

    `calls` includes wrong answers after tool calls.
    """
    wrong = [p for p in trial.rollouts if p.script.part == "wrong" and p.scored and (calls or not p.script.tools)]
    return max((0.0, *trial.solved.rewards_of(Change.NOOP), *(p.result.reward or 0.0 for p in wrong)))


def _tools_not_needed(trial: Trial) -> Iterator[Finding]:
    """Warn if the right answer earns the maximum without a tool call, for tasks without a stated solution."""
    no_call = [p for p in trial.rollouts if p.result.tools and p.script.part == "gold" and not p.script.tools]
    paid = [p for p in no_call if p.scored and (p.result.reward or 0.0) >= FULL_SHARE * trial.maximum(p.row) - EPSILON]
    if paid and trial.max_reward > EPSILON:
        but, fix = _demand_and_fix(trial)
        yield Finding(
            "paid-without-tool",
            "warning",
            f"the right answer earns {paid[0].result.reward:g} without a call of the offered tools: a model that "
            f"knows or guesses it needs none{but}",
            fix,
            rows=tuple(rollout_row(p, "less than after a call") for p in paid[:2]),
        )


def refuses_detours(trial: Trial) -> Iterator[Finding]:
    """A faulty call before the solution, or one call more, should cost at most half of the reward.

    The rule applies to rewards that read only messages: where a call changes a state, one call more may end in another
    state.
    """
    solved = trial.solved
    refused: list[PlayedScript] = []
    for change, p in solved.changed if _reads_only_messages(solved) else ():
        low = (p.result.reward or 0.0) < HALF_SHARE * solved.best - EPSILON
        if change in (Change.TOOL_ERROR, Change.ONE_CALL_MORE) and p.scored and _earned_by_messages(p) and low:
            refused.append(p)
    if refused:
        yield Finding(
            "reward-too-strict",
            "warning",
            f"a model that {refused[0].script.name} earned {refused[0].result.reward:g}, and the solution alone "
            f"{solved.best:g}",
            "Pay for the result. Where calls cost something, take off a small share.",
            rows=tuple(rollout_row(p, "about as much as the solution") for p in refused[:2]),
        )


def pays_pasted_output(trial: Trial) -> Iterator[Finding]:
    """A model that repeats the last output of a tool should earn less than the solution."""
    solved = trial.solved
    pasted = [
        p
        for c, p in solved.changed
        if c is Change.PASTED_OUTPUT and p.scored and (p.result.reward or 0.0) >= FULL_SHARE * solved.best - EPSILON
    ]
    if pasted and solved.best > EPSILON and _last_reply_decides(solved):
        yield Finding(
            "reward-hackable",
            "warning",
            "repeating the last output of a tool earns as much as the solution",
            "Read the answer from the form that the prompt asks for, and check that no tool states the answer.",
            rows=tuple(rollout_row(p, "less than the solution") for p in pasted[:2]),
        )


def pays_without_answer(trial: Trial) -> Iterator[Finding]:
    """A model that looks up the answer and then says that it does not know must not earn more than half.

    A blocker: the reward reads what tools have said as if the model had said it. It does so if the last reply alone is
    paid as well, which shows that the reward looks for an answer, and not for a state that the calls have changed.
    """
    solved = trial.solved
    unsaid = [p for c, p in solved.changed if c is Change.NO_ANSWER and p.scored]
    said = [p.result.reward or 0.0 for c, p in solved.changed if c is Change.BARE_ANSWER and p.scored]
    least = min((p.result.reward or 0.0 for p in unsaid), default=0.0)
    nothing = max(solved.rewards_of(Change.NOOP), default=0.0)
    if len(unsaid) < _FEWEST_UNSAID or len(said) < len(unsaid) or not (solved.calls_tools and solved.replies_differ):
        return
    if least <= HALF_SHARE * solved.best + EPSILON or min(said) < least - EPSILON or nothing > EPSILON:
        return
    yield Finding(
        "reward-hackable",
        "blocker",
        f"a model that {unsaid[0].script.name} earned {least:g}, and the solution {solved.best:g}: what a tool has "
        "said is paid as if the model had said it",
        "Read the answer from the last reply of the model (trace.last_reply), and not from the results of tools.",
        rows=tuple(rollout_row(p, "less than half of the solution") for p in unsaid[:2]),
    )


SOLUTION_RULES: tuple[RewardRule, ...] = (
    solution_unplayable,
    solution_needs_more,
    solution_fails,
    untouched_task_paid,
    undone_is_paid,
    paid_without_use,
    refuses_detours,
    pays_pasted_output,
    pays_without_answer,
)


def lacks_solution(trial: Trial) -> bool:
    """Whether the reward depends on tools or turns, while no solution is stated.

    It does if nothing that was tried earned the sum of the weights: neither a completion nor a scripted rollout.
    """
    if not trial.interactive or trial.solved.scored:
        return False
    best = [s.reward for s in (*trial.golds, *trial.scored_probes) if s.reward is not None]
    best += [p.result.reward for p in trial.rollouts if p.scored and p.result.reward is not None]
    return max(best, default=0.0) < FULL_SHARE * trial.declared - EPSILON


def solution_lines(trial: Trial) -> dict[str, Any]:
    """Return the rewards of the solutions and of their changed copies, as an entry of the report."""
    solved = trial.solved
    earned = [p.result.reward or 0.0 for p in solved.scored]
    maxima = {p.row: trial.max_reward for p in solved.scored} | dict(solution_maxima(solved))
    full = [p for p in solved.scored if (p.result.reward or 0.0) >= FULL_SHARE * maxima[p.row] - EPSILON]
    of = {change: solved.rewards_of(change) for change in Change}
    return {
        "tasks": len(earned),
        "source": "cases" if solved.supplied else "environment",
        **({"played": False} if solved.unavailable else {}),
        "mean_reward": round(sum(earned) / len(earned), 6) if earned else None,
        "at_maximum": len(full) if trial.max_reward else 0,
        "instead": {str(change): round(sum(r) / len(r), 6) for change, r in of.items() if r},
        "answers_scored_after_its_calls": trial.after_calls,
    }


def solution_skeleton(trial: Trial) -> str:
    """Return Python code that states a solution, with the environment's tools, answer field and class filled in."""
    tools = _tools(trial)
    lines = [_call_line(tool) for tool in tools[:3]]
    answer = trial.style.golds.place if trial.style is not None else ""
    if trial.api == "v1":
        given = "{self.data." + answer.rpartition(".")[2] + "}" if answer else "..."
        head = [f"class {trial.task_class or 'MyTask'}(...):", "    def solution(self) -> list[dict]:"]
    else:
        given, argument = ("{answer}", "answer") if answer in ("", "answer") else ("...", "info")
        head = [
            "# beside load_environment; its arguments are columns of the dataset",
            f"def solution({argument}) -> list[dict]:",
        ]
    reply = trial.style.wrapper.wrap(given) if trial.style is not None else given
    last = f'{{"role": "assistant", "content": f{json.dumps(reply)}}},'
    indent = " " * (8 if trial.api == "v1" else 4)
    body = [f"{indent}return [", *(f"{indent}    {line}" for line in (*lines, last)), f"{indent}]"]
    return "\n".join([*head, *body])


def _tools(trial: Trial) -> Sequence[OfferedTool]:
    return next((p.result.tools for p in trial.rollouts if p.result.tools), ())


def _call_line(tool: OfferedTool) -> str:
    """Return a line of code with an assistant message that calls a tool."""
    known = tool.parameters.get("properties") or {}
    names = ", ".join(f"{json.dumps(str(name))}: ..." for name in list(known)[:6])
    call = f'{{"name": {json.dumps(tool.name)}, "arguments": {{{names}}}}}'
    return f'{{"role": "assistant", "tool_calls": [{call}]}},'
