"""Plays the solution of a task with a stated skill: follows the solution's turns, or fails at one of them.

The probability of following the whole solution is the skill. At a turn with tool calls, a failing model skips the
tool and guesses, calls with another argument, makes a call that is no JSON, or gives up. From then on it is lost: it
repeats no step of the solution and gives a wrong answer.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

from prime_lab_mcp.rehearsal.answers import AnswerBook, Gold, normal, wrong
from prime_lab_mcp.rehearsal.model import Conversation, ScriptedReply, SpokenTurn, canonical, spoil_call
from prime_lab_mcp.rehearsal.store import Body

SKIPS, WRONG_CALL, BROKEN_CALL = 0.4, 0.75, 0.88
"""Cumulative shares of the failures at a turn with calls. The rest gives up."""
LUCKY = 0.2
"""Share of the guesses without a tool call that are right, so that an environment that pays for guesses is noticed."""
_GIVES_UP = "I am not certain how to go on, so I leave it here."
_CLOSING = "Done."
OTHER_FIELD = 0.5
"""Share of the wrong answers whose other fields are right, so that a component that pays another field varies."""
_NUMBER_FIELD = re.compile(r"(<([A-Za-z][\w-]*)>)(\s*-?\d+(?:\.\d+)?\s*)(</\2>)")
_TAGGED = re.compile(r"(<([A-Za-z][\w-]*)>)([^<]*)(</\2>)")


def next_turn(talk: Conversation, gold: Gold, able: float, book: AnswerBook, rng: random.Random) -> ScriptedReply:
    """The model's next turn. `able` is the probability of following the whole solution."""
    spoken = talk.turns[gold.before :]
    if len(spoken) > len(gold.turns) or not all(map(_same, spoken, gold.turns)):
        return _lost(gold, book, rng)
    if len(spoken) == len(gold.turns):
        return ScriptedReply(_CLOSING)
    turn = gold.turns[len(spoken)]
    decisive = [number for number in range(len(gold.turns)) if _decisive(gold, number)]
    if len(spoken) not in decisive or rng.random() < able ** (1 / len(decisive)):
        return _played(turn)
    return _failed(turn, gold, book, rng)


def _decisive(gold: Gold, number: int) -> bool:
    """Whether failing at this turn fails the task. A remark after the last call does not count."""
    turn = gold.turns[number]
    called = any(t.get("calls") for t in gold.turns)
    return bool(turn.get("calls")) or not called or _spoiled(turn, gold, None, random.Random(0)) != _text(turn)


def _same(spoken: SpokenTurn, turn: Body) -> bool:
    calls = tuple((str(c["name"]), canonical(c.get("arguments"))) for c in turn.get("calls") or ())
    return spoken.calls == calls and (bool(calls) or normal(spoken.text) == normal(_text(turn)))


def _text(turn: Body) -> str:
    return str(turn.get("text") or "")


def _played(turn: Body) -> ScriptedReply:
    calls = tuple(_call(c) for c in turn.get("calls") or ())
    return ScriptedReply(_text(turn), "tool_calls" if calls else "stop", calls)


def _call(call: Body) -> Body:
    given = call.get("arguments")
    return {"name": call["name"], "raw": given} if isinstance(given, str) else {**call, "arguments": given or {}}


def _failed(turn: Body, gold: Gold, book: AnswerBook, rng: random.Random) -> ScriptedReply:
    calls: Sequence[Body] = turn.get("calls") or ()
    if not calls:
        return ScriptedReply(_spoiled(turn, gold, book, rng))
    fate = rng.random()
    if fate < SKIPS:
        last = gold.turns[-1]
        return ScriptedReply(_text(last) if rng.random() < LUCKY else _spoiled(last, gold, book, rng))
    if fate < WRONG_CALL:
        return ScriptedReply("", "tool_calls", tuple(spoil_call(_parsed(c), book, rng) for c in calls))
    if fate < BROKEN_CALL:
        return ScriptedReply("", "tool_calls", ({"name": calls[0]["name"], "raw": '{"unfinished": '},))
    return ScriptedReply(_GIVES_UP)


def _parsed(call: Body) -> Body:
    return call if isinstance(call.get("arguments"), dict) else {**call, "arguments": {}}


def _lost(gold: Gold, book: AnswerBook, rng: random.Random) -> ScriptedReply:
    return ScriptedReply(_spoiled(gold.turns[-1], gold, book, rng) or _GIVES_UP)


def _other_number(field: re.Match[str], gold: Gold, pool: Sequence[str], rng: random.Random) -> str:
    """A field with a number beside the answer, which is wrong half of the time: who errs in one may be right in the
    other."""
    if gold.answer in field[3] or rng.random() < OTHER_FIELD:
        return field[0]
    return f"{field[1]}{wrong(field[3], pool, rng)}{field[4]}"


def _spoiled(turn: Body, gold: Gold, book: AnswerBook | None, rng: random.Random) -> str:
    """The text of a turn with another answer; the same text where it states none beside calls that do the work."""
    text, pool = _text(turn), book.pool if book is not None else ()
    if gold.answer and gold.answer in text:
        other = _NUMBER_FIELD.sub(lambda field: _other_number(field, gold, pool, rng), text)
        return other.replace(gold.answer, wrong(gold.answer, pool, rng))
    if (tag := _TAGGED.search(text)) is not None:
        return text[: tag.start(3)] + wrong(tag[3], pool, rng) + text[tag.end(3) :]
    if any(t.get("calls") for t in gold.turns):
        return text
    return wrong(text, pool, rng)
