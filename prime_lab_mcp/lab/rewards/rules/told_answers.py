"""Rules about what the environment tells the model during a rollout: the answer, or what an earlier rollout left.

A gold counts where it stands alone as a word or number, has at least two characters, and neither the prompt nor a
call's arguments hold it. One task shows little, because a table may hold any number: every tried task must show it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule
from prime_lab_mcp.lab.rewards.rules.rollouts import rollout_row
from prime_lab_mcp.lab.rewards.scripts import Delivery, PlayedScript
from prime_lab_mcp.lab.rewards.solutions import Change, last_reply
from prime_lab_mcp.lab.worker.description import Message

_TASKS = 2
"""Fewest tasks, with different golds, that must show what a rule reports."""
_ASKS_WRONGLY = (Change.WRONG_ARGUMENT, Change.OTHER_TEXTS)
_SHORTEST, _LONGEST = 2, 200


def answer_told(trial: Trial) -> Iterator[Finding]:
    """No tool and no reply of the environment may state the answer to a model that asks for something else."""
    tried: dict[str, list[PlayedScript]] = defaultdict(list)
    for change, p in trial.solved.changed:
        if change in _ASKS_WRONGLY:
            tried[p.script.name].append(p)
    for p in trial.rollouts:
        if p.script.part == "wrong" and p.script.delivery is not Delivery.TOOLS_FIRST:
            tried[p.script.name].append(p)
    for name, played in tried.items():
        known = [(p, _golds(trial, p.row)) for p in played if p.result.end != "not-run" and _golds(trial, p.row)]
        if len({golds for _, golds in known}) < _TASKS:
            continue
        if all(_told(p.result.messages, golds) for p, golds in known):
            yield Finding(
                "gold-in-prompt",
                "warning",
                f"the environment states the answer to a model that {name}: after that, copying scores",
                "Let a tool or reply say only what was asked for; keep golds out of what tools and replies can reach.",
                rows=tuple(rollout_row(p, "an environment that does not state the answer") for p, _ in known[:2]),
            )
            return


def state_survives(trial: Trial) -> Iterator[Finding]:
    """A tool that knows the answer only after another rollout has found it keeps state between rollouts."""
    kept = [(before, after, _answer(trial, solved)) for before, solved, after in trial.solved.kept]
    kept = [one for one in kept if one[2]]
    if len({golds for *_, golds in kept}) < _TASKS:
        return
    if all(_told(a.result.messages, golds) and not _told(b.result.messages, golds) for b, a, golds in kept):
        yield Finding(
            "reward-rollout-differs",
            "blocker",
            "a tool states the answer after another rollout of the task has found it, and not before: state survives "
            "between rollouts",
            "Keep what a rollout changes with the rollout: a tool server of its own (Task.toolsets), or state that "
            "setup_task makes anew.",
            rows=tuple(rollout_row(after, "what the tool says before any rollout") for _, after, _ in kept[:2]),
        )


def _golds(trial: Trial, row: int) -> tuple[str, ...]:
    """The spellings of a task's gold that are long enough to be no coincidence."""
    style = trial.style
    gold = next((g for g in style.golds.golds if g.row == row), None) if style is not None else None
    if style is None or gold is None:
        return ()
    forms = dict.fromkeys(form.strip() for form in (*gold.forms, style.answer_text(gold)))
    return tuple(form for form in forms if _SHORTEST <= len(form) <= _LONGEST)


def _answer(trial: Trial, solved: PlayedScript) -> tuple[str, ...]:
    """What the last reply of a solution answers, where it is long enough to be no coincidence."""
    before, _, after = trial.style.wrapper.wrap("\0").partition("\0") if trial.style is not None else ("", "", "")
    answer = last_reply(solved).partition(before)[2] if before else last_reply(solved)
    answer = (answer.partition(after)[0] if after else answer).strip()
    return (answer,) if _SHORTEST <= len(answer) <= _LONGEST else ()


def _told(messages: Sequence[Message], golds: Sequence[str]) -> bool:
    """Whether the environment states a gold between the first and the last turn of the model, which did not."""
    turns = [n for n, m in enumerate(messages) if m.get("role") == "assistant"]
    if len(turns) < 2:
        return False
    before = [str(m.get("content") or "") for m in messages[: turns[0]]]
    asked = [
        str((call.get("function") or call).get("arguments") or "")
        for m in messages
        if m.get("role") == "assistant"
        for call in m.get("tool_calls") or ()
    ]
    between = [m for m in messages[turns[0] : turns[-1]] if m.get("role") != "assistant"]
    unknown = [gold for gold in golds if not _stated(gold, (*before, *asked))]
    return any(_stated(gold, [str(m.get("content") or "")]) for gold in unknown for m in between)


def _stated(gold: str, texts: Iterable[str]) -> bool:
    alone = re.compile(rf"(?<![\w.]){re.escape(gold)}(?!\w|\.\d)", re.IGNORECASE)
    return any(alone.search(text) for text in texts)


TOLD_RULES: tuple[RewardRule, ...] = (answer_told, state_survives)
