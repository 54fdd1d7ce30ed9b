"""Plays rollouts one after the other and then in turns, to find out whether rollouts at once share state.

An environment that keeps its game on the environment object, a module or a class works as long as rollouts follow each
other. In training many run at once, and the one that begins last overwrites the state of the others. No answer is
needed to see this: the same blind replies on a few tasks must be answered and paid the same, whether the rollouts
follow each other or take turns (worker/child/turn_taking.py).

Randomness and the clock differ from play to play as well. A difference therefore counts only if all plays one after
the other agree in every message, also of a slow model, and if all plays in turns differ from them by the same message
or reward.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.datasets.task_golds import whole_prompt
from prime_lab_mcp.lab.rewards import scripts
from prime_lab_mcp.lab.rewards.chained_calls import QUOTED
from prime_lab_mcp.lab.rewards.probes.answer_formats import AnswerWrapper
from prime_lab_mcp.lab.rewards.probes.pattern_examples import code_patterns, pattern_example
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.thresholds import same_reward
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import OBSERVED_TURNS, Observed, RolloutResult

_TASKS = 4
"""Largest number of tasks with blind replies."""
_RECORDED = 3
"""Largest number of recorded rollouts whose replies are played as well."""
_FEWEST, _MOST = 4, 12
"""Smallest and largest number of rollouts of one play."""
_PLAY_MS = 3_000.0
"""Time for one play. Slow environments play fewer rollouts."""
_SLOW_MS = 2_000.0
"""Mean duration of a rollout above which nothing is played, so that this does not take longer than the probes."""
_SECONDS = 15.0
"""Time limit in seconds for one play."""
_NUMBERS = ("1", "2", "5", "3", "50", "10", "4", "7")
_LETTERS = ("A", "e", "B", "s")
_WORDS = ("crane", "yes", "look", "north")
_WORD = re.compile(r"[A-Za-z][A-Za-z-]{2,11}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")
"""Addresses of objects, which are equal by chance where rollouts follow each other."""


@dataclass(frozen=True, slots=True)
class MixedRollouts:
    """Two rollouts with the same replies on the same task: one after the other, and in turns with other rollouts."""

    alone: PlayedScript
    in_turns: PlayedScript
    others: int
    """Number of rollouts that it took turns with."""

    @property
    def messages(self) -> tuple[str, str]:
        """The first messages that differ, alone and in turns; empty texts if only the rewards differ."""
        number = _first_difference(self.alone.result, self.in_turns.result)
        alone, in_turns = _texts(self.alone.result), _texts(self.in_turns.result)
        if number is None:
            return "", ""
        first, second = alone[number : number + 1], in_turns[number : number + 1]
        return (first[0][1] if first else "no message"), (second[0][1] if second else "no message")


async def find_mixed_rollouts(
    worker: Worker, rows: Sequence[Row], form: AnswerWrapper, source: str, recorded: Sequence[PlayedScript]
) -> MixedRollouts | None:
    """Return the first rollout that is answered or paid otherwise when it takes turns with others; None without one.

    `form` is the form of a reply that the prompts or the code name. `recorded` are rollouts that were played before.
    """
    wanted = _plays(rows, form, source, recorded)
    if len({row for row, _ in wanted}) < 2:
        return None
    alone = await _play(worker, wanted, "in-order")
    if not alone:
        return None
    in_turns = await _play(worker, wanted, "in-turns")
    number = next((n for n, (a, b) in enumerate(zip(alone, in_turns, strict=False)) if not _same(a, b)), None)
    if number is None:
        return None
    slowly = await _play(worker, wanted[number : number + 1], "slowly")
    if not slowly or not _same(alone[number], slowly[0]):
        return None
    first = _difference(alone[number], in_turns[number])
    for _ in range(2):
        again = await _play(worker, wanted, "in-order")
        if len(again) != len(alone) or not all(map(_same, alone, again)):
            return None
        once_more = await _play(worker, wanted, "in-turns")
        if not once_more or _difference(alone[number], once_more[number]) != first:
            return None
    row, script = wanted[number]
    pair = (PlayedScript(row, script, alone[number]), PlayedScript(row, script, in_turns[number]))
    return MixedRollouts(*pair, others=len(wanted) - 1)


def _plays(
    rows: Sequence[Row], form: AnswerWrapper, source: str, recorded: Sequence[PlayedScript]
) -> list[tuple[int, RolloutScript]]:
    """Return pairs (task, script) to play; none if rollouts of this environment are slow or unknown.

    Tasks with different prompts come first, because equal tasks may have equal states.
    """
    known = [p for p in recorded if p.result.end in ("ended", "cut", "endless")]
    each = sum(p.result.ms for p in known) / len(known) if known else 0.0
    if not known or each > _SLOW_MS:
        return []
    most = max(_FEWEST, min(_MOST, int(_PLAY_MS / max(1.0, each))))
    prompts = {row.index: whole_prompt(row) for row in rows}
    distinct = {prompts[row.index]: row for row in reversed(rows)}
    tasks = [*reversed(distinct.values()), *(row for row in rows if row not in distinct.values())][:_TASKS]
    blind = [_blind_scripts(prompts[row.index], form, source) for row in tasks]
    tools = any(p.result.tools for p in known)
    plays: list[tuple[int, RolloutScript]] = []
    if tools:
        plays += [(row.index, _tools_script(prompts[row.index])) for row in tasks[:3]]
    plays += [(row.index, texts[n]) for n in range(2) for row, texts in zip(tasks, blind, strict=True)]
    spoken = [p for p in known if p.script.part in ("gold", "wrong") and p.result.messages][:_RECORDED]
    replies = [(p.row, scripts.replay_script(p.script.name, p.result.messages)) for p in spoken]
    return [*replies, *plays][:most]


def _blind_scripts(prompt: str, form: AnswerWrapper, source: str) -> list[RolloutScript]:
    """Return two scripts of blind replies: small numbers, and what the prompt shows or the code reads."""
    examples = [text for text in map(pattern_example, code_patterns(source)) if text.strip()]
    words = [word for word in _WORD.findall(prompt)[-6:] if word not in _WORDS]
    numbers = [form.wrap(value) for value in _NUMBERS]
    texts = [*map(form.wrap, islice(dict.fromkeys(form.shown_in(prompt)), 2)), *examples[:2]]
    quoted = [text.strip() for text in QUOTED.findall(prompt)]
    values = _alternating(_WORDS, _LETTERS, words, [text for text in quoted if text][:3])
    texts += [form.wrap(value) for value in values]
    return [_script(numbers, "a number"), _script(texts, "a word of the prompt, a letter")]


def _alternating(*lists: Sequence[str]) -> Iterator[str]:
    """Yield the first items of all lists, then the second ones, and so on."""
    for number in range(max(map(len, lists))):
        yield from (texts[number] for texts in lists if number < len(texts))


def _script(texts: Sequence[str], what: str) -> RolloutScript:
    turns = list(islice(cycle(dict.fromkeys(texts)), OBSERVED_TURNS))
    return RolloutScript(f"says {what} or the like in every turn", "blind", {"turns": turns, "then": "repeat"})


def _tools_script(prompt: str) -> RolloutScript:
    """Return a script that calls every tool, with fitting arguments and then with a number or name of the prompt."""
    told = re.findall(r"(?<![\w.])\w*\d\w*(?![\w.])", prompt)[:1] or _WORD.findall(prompt)[-1:] or ["1"]
    turns = [{"tools": None}, {"tools": told[0]}, scripts.CHATTER]
    return RolloutScript("calls every tool, then chatters", "blind", {"turns": turns, "then": "repeat"})


async def _play(
    worker: Worker, wanted: Sequence[tuple[int, RolloutScript]], observed: Observed
) -> tuple[RolloutResult, ...]:
    """Play scripts, and return the results; none if one of the rollouts was slow or not run."""
    try:
        plays = [scripts.as_play(script, row) for row, script in wanted]
        rollouts = await worker.rollout(plays, seconds=_SECONDS, observed=observed)
    except LabError:
        return ()  # The rules about rollouts report an error that breaks the process.
    if len(rollouts.results) != len(wanted) or any(r.end in ("slow", "not-run") for r in rollouts.results):
        return ()
    return rollouts.results


def _same(one: RolloutResult, other: RolloutResult) -> bool:
    """Whether two rollouts have the same reward and the same messages."""
    return same_reward(one.reward, other.reward) and _texts(one) == _texts(other)


def _first_difference(one: RolloutResult, other: RolloutResult) -> int | None:
    """Return the number of the first message that differs; None if the messages are equal."""
    first, second = _texts(one), _texts(other)
    if first == second:
        return None
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(first), len(second)))


def _difference(alone: RolloutResult, in_turns: RolloutResult) -> tuple[int | None, tuple[str, str] | None, bool]:
    """Return the number and the text of the first message that differs, and whether the rewards are the same."""
    number = _first_difference(alone, in_turns)
    message = next(iter(_texts(in_turns)[number : number + 1]), None) if number is not None else None
    return number, message, same_reward(alone.reward, in_turns.reward)


def _texts(result: RolloutResult) -> list[tuple[str, str]]:
    """Return role and text of every message of a rollout, without addresses of objects."""
    return [(str(m.get("role")), _ADDRESS.sub("0x", str(m.get("content") or ""))) for m in result.messages]
