"""Plays the reference solutions of tasks, and changed copies of them, in whole rollouts with the environment's tools.

A reference solution is the list of messages with which a model solves a task. The environment states it
(worker/child/solutions.py), or the caller supplies a case with tool calls. The rules about the rewards of solutions are
in rules/solutions.py.

If a reward reads only messages, all other completions of a task are scored after the solution's tool calls and their
results (`calls_before_answer`). A reward that requires a tool call before the answer is thus tested with the same
right, wrong and hacking answers as a reward without tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.datasets.task_golds import gold_candidates, prompt_of, whole_prompt
from prime_lab_mcp.lab.rewards import scripts
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.thresholds import EPSILON
from prime_lab_mcp.lab.worker.child.protocol import CONTAINER_ERROR
from prime_lab_mcp.lab.worker.description import Loaded, Message, Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Case, RolloutResult, StatedSolutionTurn

SOLVED_TASKS = 12
"""Largest number of tasks whose solution is played (docs/validation.md, Reward tests, asks for 8)."""
CHANGED_TASKS = 2
"""Number of tasks on which changed copies of the solution are played."""
STATE_TASKS, FEW_STATE_TASKS = 3, 2
"""Numbers of tasks on which incomplete solutions are played before and after the solution: usually, and where a rollout
takes long."""
_STATE_SCRIPTS, _FEW_STATE_SCRIPTS = 5, 3
"""Largest numbers of incomplete solutions of a task, likewise."""
_LONG_MS = 1500.0
"""Median duration of a solution's rollout in milliseconds above which few are played: each starts a tool server."""
_STATE_SECONDS = 60.0
"""Time limit in seconds for the rollouts before and after solutions."""
SOLVING_SECONDS = 25.0
"""Time limit in seconds for one request of rollouts."""
_READ_TASKS, _BEFORE = 8, 5
"""Number of tasks whose solution is read without being played, and of characters before a gold that are compared."""
_LONG_REPLY = 60
"""Length in characters above which all last replies count as equally long."""


class Change(StrEnum):
    """How a changed copy differs from the solution."""

    NOOP = "noop"
    """The model says nothing, so the task stays untouched."""
    BARE_ANSWER = "bare-answer"
    """The model gives the solution's last reply at once, without a tool call."""
    WRONG_ARGUMENT = "wrong-argument"
    """The tool calls have other arguments."""
    OTHER_TEXTS = "other-texts"
    """The tool calls have other texts as arguments; other arguments stay."""
    TOOL_ERROR = "tool-error"
    """A faulty tool call precedes the solution."""
    ONE_CALL_MORE = "one-call-more"
    """One more tool call is made."""
    ANSWER_FIRST = "answer-first"
    """The model gives the solution's last reply before the result of the first call."""
    PASTED_OUTPUT = "pasted-output"
    """The model repeats the last result of a tool instead of giving the last reply."""
    NO_ANSWER = "other-answer"
    """The model says that it does not know instead of giving the last reply."""


_LABELS = {
    Change.NOOP: "says nothing",
    Change.BARE_ANSWER: "gives the solution's last reply at once, without a tool call",
    Change.WRONG_ARGUMENT: "calls tools with other arguments, then gives the solution's last reply",
    Change.OTHER_TEXTS: "calls tools with other texts, then gives the solution's last reply",
    Change.TOOL_ERROR: "makes a faulty call, then solves the task",
    Change.ONE_CALL_MORE: "solves the task with one call more",
    Change.ANSWER_FIRST: "gives the solution's last reply before the result of the first call",
    Change.PASTED_OUTPUT: "makes the calls, then repeats the last result of a tool",
    Change.NO_ANSWER: f"makes the calls, then says {scripts.IGNORANCE!r}",
}
_OTHER_TOOLS = "calls the tools that the solution leaves out"
_WITHOUT_CALLS = (Change.NOOP, Change.BARE_ANSWER)


@dataclass(frozen=True, slots=True)
class SuppliedSolution:
    """The solution of the task `row`, from a supplied case with tool calls that is expected to earn much."""

    row: int
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Solved:
    """The rollouts of solutions and of their changed copies."""

    played: tuple[PlayedScript, ...] = ()
    """Rollouts of unchanged solutions."""
    changed: tuple[tuple[Change, PlayedScript], ...] = ()
    """Rollouts of changed copies."""
    state_checks: tuple[tuple[PlayedScript, PlayedScript, PlayedScript], ...] = ()
    """Three rollouts for each incomplete solution of some fresh tasks: the incomplete solution, the solution, and the
    incomplete solution again. Different results of the first and the last show state that survives a rollout."""
    supplied: bool = False
    """The solutions come from supplied cases."""
    unplayable: tuple[str, ...] = ()
    """Messages about solutions that could not be played."""
    broke: str = ""
    """The error that ended the worker's process; empty without such an error."""
    unavailable: str = ""
    """The reason why no rollout could be run on this machine; empty if they could."""
    unread: bool = False
    """The environment states solutions, and its rollouts are one reply, so that there is nothing to play."""
    by_design: bool = False
    """Whether `unavailable` is no flaw: the environment needs what this process does not offer."""

    @property
    def scored(self) -> list[PlayedScript]:
        """The rollouts of unchanged solutions that have a reward."""
        return [p for p in self.played if p.scored]

    @property
    def best(self) -> float:
        """The highest reward of a solution; 0 if no solution has a reward."""
        return max((p.result.reward or 0.0 for p in self.scored), default=0.0)

    @property
    def calls_tools(self) -> bool:
        """Whether a solution calls tools."""
        return any(m.get("tool_calls") for p in self.scored for m in p.result.messages)

    @property
    def replies_differ(self) -> bool:
        """Whether the last replies of solutions can state answers: they differ, or only one task was solved.

        Where every solution ends with the same words, such as "Done.", the calls are what is paid.
        """
        return len(self.scored) < 2 or len({last_reply(p) for p in self.scored}) > 1

    @property
    def lacks_container(self) -> bool:
        """Whether no solution could be played because Podman could not prepare a container on this machine."""
        return CONTAINER_ERROR.search(self.unavailable) is not None

    @property
    def too_slow(self) -> bool:
        """Whether at least one solution began, and the time limit ended all that did."""
        ends = {p.result.end for p in self.played}
        return "slow" in ends and ends <= {"slow", "not-run"}

    @property
    def not_played(self) -> str:
        """The reason why no solution could be played to its end on this machine; empty if one was, or if the solutions
        are at fault."""
        if self.unavailable or not self.too_slow:
            return self.unavailable
        return f"none of {count(len(self.played), 'rollout')} had ended after {SOLVING_SECONDS:g} seconds or less"

    def rewards_of(self, change: Change) -> list[float]:
        """Return the rewards of the copies with this change."""
        return [p.result.reward or 0.0 for c, p in self.changed if c is change and p.scored]

    def paid(self, row: int) -> float | None:
        """Return the reward of a task's solution; None if the solution was not scored."""
        return next((p.result.reward for p in self.scored if p.row == row), None)


async def play_solutions(
    worker: Worker, loaded: Loaded, rows: Sequence[Row], supplied: Sequence[SuppliedSolution] = ()
) -> Solved:
    """Play the solutions of some tasks, then changed copies for a few of them.

    The `supplied` solutions are played if the environment states none.
    """
    if loaded.solutions and not loaded.turns:
        return Solved(unread=True)
    if not loaded.turns or not rows or not (loaded.solutions or supplied):
        return Solved()
    if loaded.solutions:
        step = max(1, len(rows) // SOLVED_TASKS)
        wanted = [(row.index, solution_script(True)) for row in rows[::step][:SOLVED_TASKS]]
    else:
        wanted = [(s.row, solution_script([dict(m) for m in s.messages])) for s in supplied[:SOLVED_TASKS]]
    rollouts = await _play(worker, wanted)
    if rollouts.too_slow:  # A machine that stood still for a while; without solutions nothing else can be tested.
        rollouts = await _play(worker, wanted)
    solved = replace(rollouts, supplied=not loaded.solutions)
    if loaded.solutions and (solved.by_design or solved.lacks_container) and solved.unavailable:
        return replace(solved, played=await _scored_unplayed(worker, [row for row, _ in wanted]))
    paid = [p for p in solved.scored if (p.result.reward or 0.0) > EPSILON]
    # Long answers come first: a tool result that contains a long answer does not contain it by chance.
    chosen = sorted(paid, key=lambda p: -min(len(last_reply(p)), _LONG_REPLY))[:CHANGED_TASKS]
    changes = _changes(solved)
    prompts = {row.index: whole_prompt(row) for row in rows}
    if not all(_told_by_tools(p, prompts.get(p.row, ""), solved) for p in chosen):
        changes = [change for change in changes if change is not Change.NO_ANSWER]
    copies = [(change, p.row, changed_script(change, p)) for p in chosen for change in changes]
    rollouts = await _play(worker, [(row, script) for _, row, script in copies])
    changed = tuple(zip([change for change, _, _ in copies], rollouts.played, strict=False))
    solved = replace(solved, changed=changed, broke=solved.broke or rollouts.broke)
    if not loaded.solutions or solved.broke or not paid:
        return solved
    known = {row for row, _ in wanted}
    return replace(
        solved, state_checks=await _state_checks(worker, solved, [r.index for r in rows if r.index not in known])
    )


async def stated_replies(worker: Worker, rows: Sequence[Row]) -> dict[int, str]:
    """Return the replies that tasks state as their solutions, by row index, where rollouts are one reply.

    Empty if they cannot be read, and without solutions of one message without calls.
    """
    try:
        stated = await worker.solutions([row.index for row in rows], seconds=SOLVING_SECONDS)
    except LabError:
        return {}
    return {
        row: turns[0].text
        for row, turns in stated.turns.items()
        if len(turns) == 1 and not turns[0].calls and turns[0].text and turns[0].text.strip()
    }


async def _scored_unplayed(worker: Worker, rows: Sequence[int]) -> tuple[PlayedScript, ...]:
    """Score the messages of stated solutions whose rollouts cannot run here, with empty results of their calls.

    A reward that reads only what the model says and calls pays them all. Otherwise nothing is known, and nothing is
    returned.
    """
    try:
        stated = await worker.solutions(rows, seconds=SOLVING_SECONDS)
        cases = [Case(f"stated/{row}", row, _stated_messages(turns)) for row, turns in stated.turns.items()]
        scored = await worker.score(cases)
    except LabError:
        return ()
    if not scored or min(s.reward or 0.0 for s in scored) <= EPSILON:
        return ()
    return tuple(
        PlayedScript(
            case.row,
            solution_script(True),
            RolloutResult(tuple(case.messages), s.reward, "ended", True, s.components, alone=s.reward, again=s.reward),
        )
        for case, s in zip(cases, scored, strict=True)
    )


def _stated_messages(turns: Sequence[StatedSolutionTurn]) -> list[dict[str, Any]]:
    """Return the turns of a solution as messages, with an empty result behind each call."""
    messages: list[dict[str, Any]] = []
    for number, turn in enumerate(turns):
        calls = [
            {"id": f"call_{number}_{n}", "type": "function", "function": {"name": name, "arguments": _as_text(given)}}
            for n, (name, given) in enumerate(turn.calls)
        ]
        messages.append({"role": "assistant", "content": turn.text, **({"tool_calls": calls} if calls else {})})
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": ""} for call in calls]
    return messages


def _as_text(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


async def _state_checks(
    worker: Worker, solved: Solved, fresh: Sequence[int]
) -> tuple[tuple[PlayedScript, PlayedScript, PlayedScript], ...]:
    """Play incomplete solutions of tasks that nobody has solved, then the solutions, then the incomplete ones again.

    All rollouts begin with the same state of every random generator, so that chance explains no difference.
    """
    durations = sorted(p.result.ms for p in solved.scored)
    few = durations[len(durations) // 2] > _LONG_MS
    incomplete = list(_incomplete_scripts(solved))[: _FEW_STATE_SCRIPTS if few else _STATE_SCRIPTS]
    tasks = fresh[: FEW_STATE_TASKS if few else STATE_TASKS]
    if not incomplete:
        return ()
    around = (*incomplete, solution_script(True), *incomplete)
    plays = [(row, script) for row in tasks for script in around]
    tried = (await _play(worker, plays, in_order=True, held=True, seconds=_STATE_SECONDS)).played
    checks: list[tuple[PlayedScript, PlayedScript, PlayedScript]] = []
    for start in range(0, len(tried) - len(around) + 1, len(around)):
        of_task, middle = tried[start : start + len(around)], len(incomplete)
        checks += [(of_task[n], of_task[middle], of_task[middle + 1 + n]) for n in range(middle)]
    return tuple(checks)


def _incomplete_scripts(solved: Solved) -> Iterator[RolloutScript]:
    """Yield scripts that play a part of a task's solution, or other calls in place of its calls."""
    if solved.calls_tools:
        yield _incomplete("gives the solution's replies without its calls", "calls-left-out")
        if _leaves_tools_out(solved):
            yield _incomplete(_OTHER_TOOLS, "other-tools")
        change = Change.OTHER_TEXTS if _mixes_arguments(solved) else Change.WRONG_ARGUMENT
        yield _incomplete(_LABELS[change], str(change))
    turns = min((sum(m.get("role") == "assistant" for m in p.result.messages) for p in solved.scored), default=0)
    for step in range(max(0, turns - 1) if turns > 2 else 0):
        yield _incomplete(f"leaves out step {step + 1} of the solution", "step-left-out", str(step))


def _incomplete(name: str, change: str, text: str = "") -> RolloutScript:
    return RolloutScript(name, "faulty", {"solution": True, "change": change, "text": text})


def _changes(solved: Solved) -> Sequence[Change]:
    """Return the changes that apply to these solutions."""
    if not solved.calls_tools:
        return _WITHOUT_CALLS
    return [change for change in Change if change is not Change.OTHER_TEXTS or _mixes_arguments(solved)]


_NAMED = re.compile(r"(?<=[^.!?:\s] )[A-Z]\w{2,}|\b\w*\d\w*")
"""A number, or a word with a capital inside of a sentence: what an answer names."""


def _told_by_tools(solution: PlayedScript, prompt: str, solved: Solved) -> bool:
    """Whether the last reply names what only the result of a tool has said: no call, no prompt and no other reply.

    Where a call names the answer as well, such as one that hands it in, the call may be what is paid.
    """
    others = [last_reply(p) for p in solved.scored if p.row != solution.row]
    calls = [str(m.get("tool_calls")) for m in solution.result.messages if m.get("tool_calls")]
    known = "\n".join([prompt, *others, *calls])
    told = "\n".join(str(m.get("content")) for m in solution.result.messages if m.get("role") == "tool")
    new = {word for word in _NAMED.findall(last_reply(solution)) if word not in known}
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", told) for word in new)


def _calls(solved: Solved) -> Iterator[tuple[str, Any]]:
    """Yield (name, arguments) of the tool calls in solutions. Calls whose arguments are not JSON are left out."""
    for p in solved.scored:
        for message in p.result.messages:
            for call in message.get("tool_calls") or ():
                function = call.get("function") or call
                try:
                    yield str(function.get("name")), json.loads(function.get("arguments") or "{}")
                except ValueError:
                    continue


def _mixes_arguments(solved: Solved) -> bool:
    """Whether a call has both texts and other arguments, so that OTHER_TEXTS differs from WRONG_ARGUMENT."""
    given = [list(a.values()) for _, a in _calls(solved) if isinstance(a, dict)]
    return any(len({isinstance(value, str) for value in values}) == 2 for values in given)


def _leaves_tools_out(solved: Solved) -> bool:
    """Whether the solutions call some, but not all of the offered tools."""
    called = {name for name, _ in _calls(solved)}
    return bool(called) and any(tool.name not in called for p in solved.scored for tool in p.result.tools)


async def _play(
    worker: Worker,
    wanted: Sequence[tuple[int, RolloutScript]],
    *,
    in_order: bool = False,
    held: bool = False,
    seconds: float = SOLVING_SECONDS,
) -> Solved:
    """Play pairs (task, script), with `in_order` one after the other, with `held` from the same random state."""
    if not wanted:
        return Solved()
    plays = [scripts.as_play(script, row) for row, script in wanted]
    try:
        rollouts = await scripts.play_started(worker, plays, seconds=seconds, in_order=in_order, held=held)
    except LabError as error:
        if error.code == "worker-timeout":
            return Solved(unavailable=error.message)
        return Solved(broke=error.message)
    played = [
        PlayedScript(row, script, result) for (row, script), result in zip(wanted, rollouts.results, strict=False)
    ]
    unplayable = tuple(dict.fromkeys(p.result.unplayable for p in played if p.result.unplayable))
    return Solved(tuple(played), unplayable=unplayable, unavailable=rollouts.unavailable, by_design=rollouts.by_design)


async def solutions_copy_prompts(worker: Worker, rows: Sequence[Row]) -> bool:
    """Return whether solutions end with the stored gold, and all prompts state it behind the same characters.

    After the calls of such a solution, a copy of this place is paid. A gold that a call names may be the state to
    reach, and says nothing. Solutions that are functions are not read.
    """
    step = max(1, len(rows) // _READ_TASKS)
    read = rows[::step][:_READ_TASKS]
    try:
        stated = await worker.solutions([row.index for row in read], seconds=SOLVING_SECONDS)
    except LabError:
        return False
    prompts = {row.index: prompt_of(row) for row in read}
    return any(
        len({gold.forms[0] for gold in sample.golds}) >= CHANGED_TASKS
        and all(gold.row in stated.turns and _answers_with(gold.forms, stated.turns[gold.row]) for gold in sample.golds)
        and set.intersection(*(_before(gold.forms, prompts[gold.row]) for gold in sample.golds))
        for sample in gold_candidates(read)
    )


def _answers_with(forms: Sequence[str], turns: Sequence[StatedSolutionTurn]) -> bool:
    """Whether the last turn states the gold, and no call names it."""
    calls = "\n".join(_as_text(given) for turn in turns for _, given in turn.calls)
    return any(_places_of(form, turns[-1].text or "") and not _places_of(form, calls) for form in forms)


def _before(forms: Sequence[str], prompt: str) -> set[str]:
    """Return the characters before each place of a gold in a prompt."""
    return {prompt[max(0, place - _BEFORE) : place] for form in forms for place in _places_of(form, prompt)}


def _places_of(gold: str, text: str) -> list[int]:
    """Return where a text states a gold as a word of its own."""
    return [found.start() for found in re.finditer(rf"(?<!\w){re.escape(gold)}(?!\w)", text)] if gold else []


def solution_script(solution: bool | list[dict[str, Any]]) -> RolloutScript:
    """Return a script that plays a solution: the given messages, or the environment's solution if the value is True."""
    return RolloutScript("solves the task", "gold", {"solution": solution})


def changed_script(change: Change, solved: PlayedScript) -> RolloutScript:
    """Return a script that plays a changed copy of a solution. `solved` is the rollout of the unchanged solution."""
    if change is Change.NOOP:
        return scripts.silent_script()
    last = last_reply(solved)
    if change is Change.BARE_ANSWER:
        return RolloutScript(_LABELS[change], "taken-back", {"turns": [last], "then": "repeat"})
    text = scripts.IGNORANCE if change is Change.NO_ANSWER else last
    data = {**solved.script.data, "change": str(change), "text": text}
    return RolloutScript(_LABELS[change], "taken-back", data)


def last_reply(solved: PlayedScript) -> str:
    """Return the text of the last assistant message with text; empty without one."""
    replies = [m for m in solved.result.messages if m.get("role") == "assistant" and m.get("content")]
    return str(replies[-1]["content"]) if replies else ""


def calls_before_answer(solved: Solved) -> Mapping[int, tuple[Message, ...]]:
    """Map tasks to the messages of their solution's rollout before the last reply.

    Only tasks are included whose solution earns the same when its messages are scored without a rollout. Other last
    replies can then be scored after these messages. Empty if the last replies state no answers: after the calls of a
    solution, any reply would earn the same.
    """
    calls: dict[int, tuple[Message, ...]] = {}
    if not solved.replies_differ:
        return calls
    for p in solved.scored:
        messages, alone = p.result.messages, p.result.alone
        same = alone is not None and abs(alone - (p.result.reward or 0.0)) < EPSILON
        last = messages[-1] if messages else {}
        if same and last.get("role") == "assistant" and not last.get("tool_calls") and len(messages) > 1:
            calls[p.row] = tuple(messages[:-1])
    return calls
