"""The scripted model. It solves a prompt with a probability given by its skill, and replies in the requested format.

The n-th call with the same messages always gets the same reply, so groups have mixed outcomes and every rehearsal is
reproducible.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from prime_lab_mcp.rehearsal.answers import AnswerBook, Gold, solve, text_of, wrong
from prime_lab_mcp.rehearsal.skill import chance, quantile, skill_of
from prime_lab_mcp.rehearsal.store import Body

Finish = Literal["stop", "length", "tool_calls"]
MALFORMED_SHARE = 0.12
"""Share of the incorrect replies that lack the requested format."""
CUT_SHARE = 0.06
"""Share of the incorrect replies that are cut by the token limit."""
_TAG = re.compile(r"<([A-Za-z][\w-]*)>")
_THINKING = frozenset({"think", "thinking", "reasoning", "scratchpad", "thought"})
_NOT_REPLY = frozenset({"tag", "tags", "question", "tool_call", "br", "code"})
_IN_QUESTION = frozenset(
    {
        "answer",
        "final_answer",
        "final",
        "solution",
        "result",
        "output",
        "label",
        "response",
        "reversed_text",
    }
)
"""Tags that a question may request. Other tags in a question are data, such as HTML."""
_FENCE = re.compile(r"```(\w*)")
_JSON_KEY = re.compile(r'\{\s*"(\w+)"\s*:')
_LINE = re.compile(
    r"\b(?i:end|finish|conclude|line|form|format|write|reply|respond|give|state|as)\b[^\n.]{0,60}?[\s\"'`]"
    r"([A-Z][A-Za-z]*(?: [A-Za-z]+){0,3}(?::| =))[ ]?"
    r"(?:[A-Z]{2,}|[NXY]|<[^<>\n]{1,30}>|\[[^\[\]\n]{1,30}\]|\.\.\.|\u2026)(?=[\"'`.,;\s]|$)"
)
"""A line with a placeholder that an instruction asks for, such as `Total: NUMBER` or `Result = <value>`."""
_FILLER = (
    "Let me work through this step by step.",
    "First I note what is given.",
    "Then I combine the quantities.",
    "Checking the result once more.",
    "That leaves the final value.",
    "I keep the units consistent throughout.",
)


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    text: str
    finish: Finish = "stop"
    calls: tuple[Body, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class SpokenTurn:
    """One earlier message of the model. `calls` are names, and arguments as canonical JSON."""

    text: str
    calls: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """The parts of a request that the model uses."""

    instructions: str
    questions: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    """Previous tool calls: names, and arguments as canonical JSON."""
    characters: int
    turns: tuple[SpokenTurn, ...] = ()
    """The model's own messages so far."""

    @property
    def question(self) -> str:
        return self.questions[-1] if self.questions else ""

    @classmethod
    def of(cls, messages: Sequence[Body]) -> Conversation:
        system = [text_of(m) for m in messages if m.get("role") in ("system", "developer")]
        users = [text_of(m) for m in messages if m.get("role") == "user"]
        return cls(
            "\n".join(system),
            tuple(users),
            tuple(_calls_in(messages)),
            sum(len(text_of(m)) for m in messages),
            tuple(SpokenTurn(text_of(m), tuple(_calls_in([m]))) for m in messages if m.get("role") == "assistant"),
        )


def _calls_in(messages: Sequence[Body]) -> Iterator[tuple[str, str]]:
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            yield str(function.get("name")), canonical(function.get("arguments"))


def canonical(arguments: object) -> str:
    """The arguments of a call as canonical JSON. Text that is no JSON is `null`."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except ValueError:
            arguments = None
    return json.dumps(arguments, sort_keys=True)


def tokens(characters: int) -> int:
    """Estimate tokens: about four characters each."""
    return max(1, math.ceil(characters / 4))


def answer(
    model: str,
    talk: Conversation,
    book: AnswerBook,
    *,
    nth: int,
    limit: int | None = None,
    tools: bool = False,
    skill: float | None = None,
) -> ScriptedReply:
    """Return the reply to the `nth` call (from 0) with these messages.

    `limit`: maximum of completion tokens. `skill`: the skill of a model whose name does not state it.
    """
    first = talk.questions[0] if talk.questions else ""
    gold = book.find(talk.questions[::-1] or ("",)) or solve(talk.instructions, talk.question)
    able = chance(skill_of(model) if skill is None else skill, quantile(talk.instructions, first))
    if gold is not None and gold.turns:
        from prime_lab_mcp.rehearsal.solving import next_turn

        # Each turn has draws of its own: the same questions are asked before all of them.
        seed = [model, talk.instructions, *talk.questions, str(len(talk.turns)), str(nth)]
        reply = next_turn(talk, gold, able, book, random.Random("\0".join(seed)))
    else:
        rng = random.Random("\0".join([model, talk.instructions, *talk.questions, str(nth)]))
        reply = _compose(talk, gold, rng.random() < able, book, rng, tools=tools)
    prompt, length = tokens(talk.characters), tokens(len(reply.text) + 40 * len(reply.calls))
    if limit is not None and length > limit:
        cut = reply.text[: 4 * limit]
        return ScriptedReply(cut, "length", (), prompt, limit)
    return replace(reply, prompt_tokens=prompt, completion_tokens=length)


def _compose(
    talk: Conversation,
    gold: Gold | None,
    solved: bool,
    book: AnswerBook,
    rng: random.Random,
    *,
    tools: bool,
) -> ScriptedReply:
    if gold is None:
        # The answer is not registered, so the reply is a guess at any skill.
        gold, solved = Gold(str(rng.randint(2, 99))), True
        return ScriptedReply(form(talk, gold.answer, rng))
    if talk.calls and gold.calls:
        # The earlier tool calls decide: after a wrong call the answer is wrong, after a right one it is right.
        wanted = [(c["name"], json.dumps(c.get("arguments") or {}, sort_keys=True)) for c in gold.calls]
        solved = list(talk.calls) == wanted
    elif tools and gold.calls:
        calls = gold.calls if solved else tuple(spoil_call(c, book, rng) for c in gold.calls)
        return ScriptedReply("", "tool_calls", calls)
    if solved:
        return ScriptedReply(gold.reply if gold.reply is not None else form(talk, gold.answer, rng))
    if gold.reply is not None:
        return ScriptedReply(_spoil_reply(gold, book, rng))
    answer = wrong(gold.answer, book.pool, rng)
    fate = rng.random()
    if fate < MALFORMED_SHARE:
        return ScriptedReply(f"{_working(rng)}\nI believe it comes to {answer} or so, I am not certain")
    text = form(talk, answer, rng)
    if fate < MALFORMED_SHARE + CUT_SHARE:
        return ScriptedReply(f"{_working(rng)} {_working(rng)} {text}"[: rng.randint(20, 60)], "length")
    return ScriptedReply(text)


def form(talk: Conversation, answer: str, rng: random.Random) -> str:
    """Put an answer into the format that the instructions request."""
    asked = f"{talk.instructions}\n{talk.question}"
    thinking, tag = _tags(talk)
    before = f"<{thinking}>{_working(rng)}</{thinking}>\n" if thinking else ""
    if tag is not None:
        return f"{before}<{tag}>{answer}</{tag}>"
    if "\\boxed" in asked:
        return f"{before}{_working(rng)} \\boxed{{{answer}}}"
    if "####" in asked:
        return f"{before}{_working(rng)}\n#### {answer}"
    if line := _LINE.search(asked):
        return f"{before}{_working(rng)}\n{line.group(1)} {answer}"
    if "json" in asked.lower() and (key := _JSON_KEY.search(asked)):
        return answer if answer.startswith(("{", "[")) else json.dumps({key.group(1): answer})
    if fence := _FENCE.search(asked):
        return f"{before}```{fence.group(1)}\n{answer}\n```"
    if re.search(r"\banswer:", asked, re.I):
        return f"{before}{_working(rng)}\nAnswer: {answer}"
    return f"{before}{answer}"


def _tags(talk: Conversation) -> tuple[str | None, str | None]:
    """The requested tags for reasoning and for the answer, if any."""
    names = [n for n in _TAG.findall(talk.instructions) if n.lower() not in _NOT_REPLY]
    names += [n for n in _TAG.findall(talk.question) if n.lower() in _IN_QUESTION | _THINKING]
    asked = f"{talk.instructions}\n{talk.question}"
    thinking = next((n for n in names if n.lower() in _THINKING), None)
    replies = [n for n in names if n.lower() not in _THINKING and _closes(n, asked)]
    return thinking, "answer" if "answer" in names else next(iter(replies), None)


def _closes(name: str, asked: str) -> bool:
    """Whether a text shows the closing tag of a name, or calls it a tag: `in <queue> tags`."""
    return f"</{name}>" in asked or re.search(rf"<{re.escape(name)}>[\"'`]? tags?\b", asked) is not None


def _working(rng: random.Random) -> str:
    return " ".join(rng.sample(_FILLER, rng.randint(1, 4)))


def spoil_call(call: Body, book: AnswerBook, rng: random.Random) -> Body:
    """Return a tool call with one argument changed."""
    arguments = dict(call.get("arguments") or {})
    if not arguments:
        return {**call, "name": f"{call.get('name', 'tool')}_old"}
    name = sorted(arguments)[0]
    arguments[name] = wrong(str(arguments[name]), book.pool, rng)
    return {**call, "arguments": arguments}


def _spoil_reply(gold: Gold, book: AnswerBook, rng: random.Random) -> str:
    answer = wrong(gold.answer, book.pool, rng)
    reply = gold.reply or ""
    return reply.replace(gold.answer, answer) if gold.answer and gold.answer in reply else answer
