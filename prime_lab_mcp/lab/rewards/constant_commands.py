"""Plays one command, the same on every task, as the first reply of a rollout.

A prompt of a game or a negotiation lists its commands, such as `OFFER <euros>` and `LEAVE`, or shows one in a sentence,
such as `GUESS: <animal>` or `MOVE <up|down> <steps>`. A reward may take what such a command states without asking
whether it was allowed, or pay for taking part. The model here fills the commands with extreme numbers and knows nothing
of the task; where it earns all on every task, there is nothing to learn. It also plays sequences of a command that are
alike whatever happens, such as one word of a list after the other: an opponent that always replies alike loses to one.
Where solutions are known, their turns are commands too, as they stand and with other numbers: an opponent may lose by
a move that it has to refuse. So are the environment's own sentences: a reward that looks for the verdict of the
environment in the whole conversation also finds it where the model says it.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets.task_golds import message_text, prompt_of
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.shortcuts import play_pairs
from prime_lab_mcp.lab.rewards.shown_commands import PLACE, SHOWN, choices, commands_in, word_list
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker

_TASKS, _FEWEST = 8, 5
"""Number of different tasks that a command is played on, and the smallest number that shows something."""
_FIRST = 2
"""Number of tasks on which a command must earn all before it is played on the others."""
_FEWEST_WORDS, _MOST_WORDS = 4, 16
_FEW = 8
"""Largest number of commands where rollouts are slow."""
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_NAMED = re.compile(r"([`\"'])([A-Z]{3,}:?) ([a-z]{1,20})\1")
"""A command whose place is a plain word, such as `GUESS colour`. The last one of a prompt is what counts."""
_LETTERS = re.compile(r"(?i)\b(?:one|a|single|each|next) letters?\b|\bletter\b")
_LETTER_COMMAND = re.compile(r"(?P<verb>\b[A-Z]{3,}:?) (?:<[^<>\n]{1,20}>|\[[^\[\]\n]{1,20}\]|[a-zA-Z](?![\w']))")
"""A command that takes a letter. All letters at once must not be read as so many guesses."""
_SEQUENCES, _LENGTH = 6, 12
"""Number of random sequences, and length of a sequence of replies."""
_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?![\w.]*\d)")
_FORMS, _LONGEST = 2, 300
"""Number of turns of solutions, in their most frequent forms, and of characters of a turn."""
_NUMBERS = ("0", "1", "2", "99", "-1")
"""Numbers in the place of a turn's own: small ones, and some that a game has to refuse (our choice)."""


@dataclass(frozen=True, slots=True)
class ConstantCommand:
    """A command that was played as the first reply on tasks with different prompts, with its rollouts."""

    text: str
    tried: tuple[PlayedScript, ...]
    all_earned: bool = True
    """The command earned all on every task; otherwise more than half of all."""


async def play_commands(
    worker: Worker,
    rows: Sequence[Row],
    words: Sequence[str] = (),
    said: Sequence[str] = (),
    verdicts: Sequence[str] = (),
    *,
    few: bool = False,
) -> tuple[ConstantCommand, ...]:
    """Play the commands that all prompts list, the words that the environment's code lists (`words`), turns of
    solutions (`said`) and the environment's own sentences (`verdicts`). The latter two count only if they earn all.

    With `few`, as where tool servers make rollouts slow, only the first commands are played, and no sequences. Return
    the first that earned all of the weights on all tasks, else the first that earned more than half.
    """
    different = list({prompt_of(row): row for row in rows}.values())[:_TASKS]
    if len(different) == 1:  # Games may differ in what is hidden.
        different = list({repr((row.answer, row.info, row.fields)): row for row in rows}.values())[:_TASKS]
    if len(different) < _FEWEST:
        return ()
    prompts = ["\n\n".join(message_text(m) for m in row.prompt) for row in different]
    stated = [commands_in(prompt) for prompt in prompts]
    texts = [text for text in stated[0] if all(text in others for others in stated)][: _FEW if few else None]
    scripts = [_script(t) for t in [*texts, *([", ".join(words)] if words else [])]]
    listed = [word for word in word_list(prompts[0]) if all(word in word_list(prompt) for prompt in prompts)]
    shown = [m for m in SHOWN.finditer(prompts[0]) if all(m[0] in prompt for prompt in prompts)]
    if not shown and len(listed) >= _FEWEST_WORDS:
        shown = list(SHOWN.finditer(_NAMED.sub(r"\1\2 <\3>\1", prompts[0])))[-1:]
    if shown and not few:
        scripts += _sequences(shown[0], listed[:_MOST_WORDS] if len(listed) >= _FEWEST_WORDS else [])
    if all(_LETTERS.search(prompt) for prompt in prompts):
        asked = [m for m in _LETTER_COMMAND.finditer(prompts[0]) if all(m[0] in prompt for prompt in prompts)]
        scripts += [_script(f"{verb} {_ALPHABET}") for verb in dict.fromkeys(m["verb"] for m in asked)]
    turns = [] if few else [_script(text, "in every turn of every task") for text in turns_of_solutions(said)]
    turns += [_script(text, "like the environment, to every task") for text in verdicts[: _FEW if few else None]]
    first = await play_pairs(
        worker, [(row.index, script) for script in [*scripts, *turns] for row in different[:_FIRST]]
    )
    return tuple([c async for c in _paid(worker, scripts, turns, first, different)])


def winning_messages(played: Sequence[PlayedScript]) -> list[str]:
    """Return what environments said last in the rollouts that earned most, the most frequent texts first."""
    best = max((p.result.reward or 0.0 for p in played if p.scored), default=0.0)
    won = [p for p in played if best > EPSILON and p.scored and (p.result.reward or 0.0) >= FULL_SHARE * best - EPSILON]
    last = [[str(m.get("content") or "") for m in p.result.messages if m.get("role") == "user"][-1:] for p in won]
    texts = Counter(text for one in last for text in one if 0 < len(text) <= _LONGEST)
    return [text for text, _ in texts.most_common(_FORMS)]


def turns_of_solutions(said: Sequence[str]) -> list[str]:
    """Return the most frequent turns of solutions, and those of the most frequent forms with other numbers.

    Empty if all turns are alike: then the task is to say this.
    """
    short = [text for text in said if text.strip() and len(text) <= _LONGEST]
    if len(set(said)) < 2:
        return []
    forms = Counter(_NUMBER.sub("0", text) for text in short if _NUMBER.search(text))
    texts = [text for text, _ in Counter(short).most_common(_FORMS)]
    for form, _ in forms.most_common(_FORMS):
        texts += [_NUMBER.sub(number, form) for number in _NUMBERS]
    return list(dict.fromkeys(texts))


async def _paid(
    worker: Worker,
    scripts: Sequence[RolloutScript],
    turns: Sequence[RolloutScript],
    first: Sequence[PlayedScript],
    rows: Sequence[Row],
) -> AsyncIterator[ConstantCommand]:
    """Yield the first command that earned all on every task, else the first that earned more than half on every one.

    Turns of solutions may be worth a part of the reward, so only those that earned all count.
    """
    for wanted, whole in ((earned_all, True), (earned_half, False)):
        for script in [*scripts, *turns] if whole else scripts:
            tried = [p for p in first if p.script == script]
            if len(tried) < _FIRST or not all(map(wanted, tried)):
                continue
            tried += await play_pairs(worker, [(row.index, script) for row in rows[_FIRST:]])
            if len(tried) >= _FEWEST and all(map(wanted, tried)):
                yield ConstantCommand(script.name, tuple(tried), whole)
                return


def _sequences(command: re.Match[str], words: Sequence[str]) -> Iterator[RolloutScript]:
    """Yield sequences of replies that are alike whatever happens: in the order of words or numbers, and at random."""
    values = list(words) or [str(n) for n in range(1, 10)]
    name = f"replies {quote(command[0], 60)} with {'one word of the list' if words else 'one number'} after the other"
    yield _sequence(name, [_filled(command, value) for value in values])
    for seed in range(_SEQUENCES):
        chance = random.Random(seed)
        turns = [_filled(command, None, chance, values) for _ in range(_LENGTH)]
        yield _sequence(f"replies {quote(turns[0], 60)}, {quote(turns[1], 60)} and so on, whatever happens", turns)


def _filled(
    command: re.Match[str], value: str | None, chance: random.Random | None = None, values: Sequence[str] = ()
) -> str:
    """Return a command with this value in its places, or with a random one; words that a place names come first."""

    def piece(place: re.Match[str]) -> str:
        named = choices(place[0])
        if chance is None:
            return named[0] or value or ""
        return chance.choice(named) or chance.choice(values)

    return re.sub(PLACE, piece, command[0])


def _sequence(name: str, turns: Sequence[str]) -> RolloutScript:
    return RolloutScript(name, "copied", {"turns": list(turns), "then": "repeat"})


def _script(text: str, when: str = "to every task") -> RolloutScript:
    return RolloutScript(f"replies {quote(text, 60)} {when}", "copied", {"turns": [text], "then": "repeat"})


def earned_half(played: PlayedScript) -> bool:
    """Whether a rollout earned more than half of the sum of the positive weights of its components."""
    whole = sum(c.weight for c in played.result.components.values() if c.weight > 0)
    return played.scored and whole > 0 and (played.result.reward or 0.0) > HALF_SHARE * whole + EPSILON


def earned_all(played: PlayedScript) -> bool:
    """Whether a rollout earned the sum of the positive weights of its components, and not more."""
    whole = sum(c.weight for c in played.result.components.values() if c.weight > 0)
    reward = played.result.reward or 0.0
    return played.scored and whole > 0 and FULL_SHARE * whole - EPSILON <= reward <= whole / FULL_SHARE + EPSILON
