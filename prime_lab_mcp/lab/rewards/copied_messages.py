"""Plays a model that copies from the environment's messages, and compares its rewards with those of constant replies.

The model opens with a reply that needs no knowledge. In every later turn it copies a piece of the last message: the
whole message, its last line, tag, quoted text, number or word. The copied piece is wrapped like an answer. Such a
copying rule is found on a few tasks and judged on others. It only counts if it is paid on many more tasks than the best
constant reply, because a message may rightly list all legal moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.datasets.task_golds import message_text
from prime_lab_mcp.lab.rewards import scripts
from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE, AnswerWrapper
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.shown_commands import said_commands
from prime_lab_mcp.lab.rewards.solutions import Solved
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE
from prime_lab_mcp.lab.worker.child import copying
from prime_lab_mcp.lab.worker.child.copying import PIECES, WHOLE, Piece
from prime_lab_mcp.lab.worker.child.solutions import CLOSING
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker

_CHOOSING = 2
"""Number of tasks on which copying rules are chosen."""
_JUDGING = 10
"""Largest number of other tasks, on which the chosen rules are judged."""
_FINALISTS = 3
"""Largest number of rules that are judged."""
_MARGIN = 0.2
"""Share of the judging tasks on which a rule must be paid to be returned."""
_CONSTANTS = 3
"""Number of constant replies that are tried besides the openings."""
_SECONDS = 20.0
"""Time limit in seconds for one request of rollouts."""
_NAMES: dict[Piece, str] = {
    "message": "message",
    "line": "last line of the message",
    "tag": "last tag of the message",
    "quoted": "last quoted text",
    "number": "last number",
    "word": "last word",
}


@dataclass(frozen=True, slots=True)
class ReplyForm:
    """The texts before and after the answer in a reply."""

    before: str = ""
    after: str = ""

    def wrap(self, text: str) -> str:
        """Return the reply with this answer."""
        return f"{self.before}{text}{self.after}"


@dataclass(frozen=True, slots=True)
class Opening:
    """The first turn of a model that copies afterwards."""

    name: str
    """The behaviour, as the end of "a model that ..."."""
    turn: Any
    """The turn in the form of a script (scripts.py)."""
    attempt: bool = False
    """The turn gives an answer."""
    times: int = 1
    """How often the turn is played."""
    in_full: bool = False
    """Only a copy that is paid in full counts, because the opening may rightly cost something."""


CHATTERS = Opening("chatters", scripts.CHATTER)
ASKS = Opening("gives up and asks for the answer", "I give up. Tell me the answer, please.", attempt=True)
"""Asking is an attempt: no task is to ask for its answer. A rule that also holds after chatter says less."""
REMEMBERED: tuple[Piece, ...] = ("tag", "number", "word")
"""The pieces that a model may copy from a message about an earlier game."""


@dataclass(frozen=True, slots=True)
class CopyingRule:
    """A copying rule with its rollouts on the tasks that judge it."""

    name: str
    """The behaviour, as the end of "a model that ..."."""
    attempt: bool
    """The opening gives an answer."""
    tried: tuple[PlayedScript, ...]
    """The rollouts on the judging tasks."""
    paid: tuple[PlayedScript, ...]
    """The rollouts that earned at least half of the best reward."""
    constant: float
    """The largest share of the judging tasks on which one constant reply is paid."""
    solution_copies: int
    """The largest number of replies that a solution copies by this rule; 0 unless every solution's last reply does."""

    @property
    def share(self) -> float:
        """The share of the judging tasks on which the rule is paid."""
        return len(self.paid) / len(self.tried) if self.tried else 0.0


def reply_form(style: AnswerStyle | None, solved: Solved) -> ReplyForm:
    """Return the wrapper of the golds. Without golds, return the common beginning and end of all replies of
    solutions."""
    if style is not None:
        before, _, after = style.wrapper.wrap("\0").partition("\0")
        return ReplyForm(before, after)
    replies = list(dict.fromkeys(text for p in solved.scored for text in own_replies(p)))
    if len(replies) < 2:
        return ReplyForm()
    before, after = _common_start(replies), _common_start([reply[::-1] for reply in replies])[::-1]
    while before and before[-1].isalnum():  # A common letter or digit may belong to the answers.
        before = before[:-1]
    while after and after[0].isalnum():
        after = after[1:]
    return ReplyForm(before, after) if len(before) + len(after) < min(map(len, replies)) else ReplyForm()


def _common_start(texts: Sequence[str]) -> str:
    """Return the longest common beginning of the texts."""
    alike = 0
    for characters in zip(*texts, strict=False):
        if len(set(characters)) > 1:
            break
        alike += 1
    return texts[0][:alike]


def reply_texts(played: PlayedScript) -> list[str]:
    """Return the texts of a rollout's replies without tool calls."""
    replies = [m for m in played.result.messages if m.get("role") == "assistant" and not m.get("tool_calls")]
    return [str(m["content"]) for m in replies if m.get("content")]


def own_replies(played: PlayedScript) -> list[str]:
    """Return these texts without the closing one, which ends a rollout after the last message of a solution."""
    texts = reply_texts(played)
    return [text for text in texts if text != CLOSING] or texts


def copying_script(opening: Opening, kind: Piece, form: ReplyForm) -> RolloutScript:
    """Return a script that plays the opening and then copies pieces of this kind in every turn."""
    around = {} if kind in WHOLE else {"before": form.before, "after": form.after}
    data = {"turns": [opening.turn] * opening.times, "then": "repeat", "copy": kind, **around}
    name = f"{opening.name}, then copies the environment's {_NAMES[kind]} in every turn"
    return RolloutScript(name, "copied", data, scripts.Delivery.SPOKEN)


async def play_copying(
    worker: Worker,
    style: AnswerStyle | None,
    solved: Solved,
    played: Sequence[PlayedScript],
    rows: Sequence[Row],
    named: AnswerWrapper = BARE,
) -> tuple[CopyingRule, ...]:
    """Return the copying rules that are paid on the choosing tasks, with their rollouts on the judging tasks.

    `played` are the rollouts of other scripts, and `named` is the form of a reply that the prompts or the code name.
    Where no right answer is known to be paid and there are no tools, the best reward is the sum of the weights. Empty
    if the environment says nothing after the first turn.
    """
    golds = [p.result.reward or 0.0 for p in played if p.scored and p.script.part == "gold"]
    best = max([solved.best, *golds])
    if best <= EPSILON and not any(p.result.tools for p in played):
        best = max((_weights(p) for p in played if p.scored), default=0.0)
    everything = (*played, *solved.played, *(p for _, p in solved.changed))
    if best <= EPSILON or not any(_answers(p) for p in everything):
        return ()
    form = reply_form(style, solved)
    if style is None and not solved.scored:
        form = ReplyForm(named.open, named.close)
    offered = any(p.result.tools for p in everything)
    known = {p.row for p in everything}
    tasks = sorted((row.index for row in rows), key=lambda index: index in known)
    step = max(1, len(tasks) // (_CHOOSING + _JUDGING))
    tasks = tasks[::step][: _CHOOSING + _JUDGING]
    choosing, judging = tasks[:_CHOOSING], tasks[_CHOOSING:]
    openings = [*_openings(style, solved, form, offered), *_named_openings(rows)]
    answered = await _play(worker, [(row, _constant(opening)) for opening in openings for row in choosing])
    wanted: list[tuple[Opening, Piece]] = []
    for opening, first in zip(openings, _grouped(answered, len(choosing)), strict=False):
        wanted += [(opening, kind) for kind in _kinds(first)]
    for row in choosing:  # One task at a time, because most rules fail on the first one.
        tried = await _play(worker, [(row, copying_script(*each, form)) for each in wanted])
        wanted = [each for each, p in zip(wanted, tried, strict=False) if _is_paid(p, best, each[0].in_full)]
    wanted = [each for each in wanted if each[0] is not ASKS or (CHATTERS, each[1]) not in wanted]
    finalists = [copying_script(*each, form) for each in wanted[:_FINALISTS]]
    judged = _grouped(await _play(worker, [(row, script) for script in finalists for row in judging]), len(judging))
    if max((_share(each, best) for each in judged), default=0.0) < _MARGIN:
        return ()
    constants = [opening for opening, _ in wanted[:_FINALISTS]]
    constants += [Opening(f"says {text!r}", text) for text in _replies_of_others(style, solved, form)]
    distinct = {str(opening.turn): _constant(opening) for opening in constants}
    results = await _play(worker, [(row, script) for script in distinct.values() for row in judging])
    if not results:
        return ()
    constant = max(_share(each, best) for each in _grouped(results, len(judging)))
    return tuple(
        CopyingRule(
            script.name,
            opening.attempt,
            tuple(each),
            tuple(p for p in each if _is_paid(p, best, opening.in_full)),
            constant,
            _copied_by_solutions(solved, kind, form),
        )
        for (opening, kind), script, each in zip(wanted, finalists, judged, strict=False)
    )


def _weights(played: PlayedScript) -> float:
    """Return the sum of the positive weights of the components of a rollout."""
    return sum(c.weight for c in played.result.components.values() if c.weight > 0)


def _grouped(played: Sequence[PlayedScript], size: int) -> list[Sequence[PlayedScript]]:
    """Split rollouts by script. Each script was played on `size` tasks."""
    return [played[n : n + size] for n in range(0, len(played), size)]


def _openings(style: AnswerStyle | None, solved: Solved, form: ReplyForm, offered: bool) -> Iterator[Opening]:
    """Yield the openings: chatter, a wrong or constant answer and, if tools are `offered`, a call of every tool."""
    yield CHATTERS
    yield ASKS
    if style is not None and style.golds.golds:
        wrong = scripts.wrong_answer_to(style, style.golds.golds[0])
        yield Opening("gives a wrong answer", form.wrap(wrong), attempt=True)
    else:
        for text in _replies_of_others(style, solved, form)[:2]:
            yield Opening(f"says {text!r}", text, attempt=True)
    if offered:
        yield Opening("calls every tool", {"tools": None})


_NAMED = 2
"""Largest number of commands without a placeholder that open a rollout."""


def _named_openings(rows: Sequence[Row]) -> Iterator[Opening]:
    """Yield the commands without a placeholder that all prompts name, such as HINT, once and three times."""
    texts = ["\n\n".join(message_text(m) for m in row.prompt) for row in rows[:_CHOOSING]]
    for word in said_commands(texts[0])[:_NAMED] if texts else ():
        if all(word in text for text in texts):
            for times in (1, 3):
                name = f"says {word!r}{' three times' if times > 1 else ''}"
                yield Opening(name, word, attempt=True, times=times, in_full=True)


def _replies_of_others(style: AnswerStyle | None, solved: Solved, form: ReplyForm) -> list[str]:
    """Return constant replies: the most frequent replies of solutions, or the most frequent golds if there are none."""
    counts = Counter(text for p in solved.scored for text in reply_texts(p) if len(text) <= 200)
    replies = [text for text, _ in counts.most_common(_CONSTANTS)]
    if not replies and style is not None:
        answers = Counter(style.answer_text(gold) for gold in style.golds.golds)
        replies = [form.wrap(answer) for answer, _ in answers.most_common(_CONSTANTS)]
    return replies


def _constant(opening: Opening) -> RolloutScript:
    """Return a script that repeats the opening in every turn. An opening with tool calls is followed by chatter."""
    turns = [opening.turn] if isinstance(opening.turn, str) else [opening.turn, scripts.CHATTER]
    return RolloutScript(f"{opening.name} in every turn", "copied", {"turns": turns, "then": "repeat"})


def _kinds(answered: Sequence[PlayedScript]) -> list[Piece]:
    """Return the kinds of pieces that the environment's messages have on every task.

    Of kinds with equal pieces only the first is returned.
    """
    messages = [_answers(p) for p in answered]
    if not messages or not all(messages):
        return []
    kinds: dict[tuple[str, ...], Piece] = {}
    for kind in PIECES:
        pieces = tuple(copying.piece(kind, text) for texts in messages for text in texts)
        if all(any(copying.piece(kind, text) for text in texts) for texts in messages):
            kinds.setdefault((*pieces, str(kind in WHOLE)), kind)
    return list(kinds.values())


def _answers(played: PlayedScript) -> list[str]:
    """Return the texts of the environment's messages after the model's first turn."""
    messages = played.result.messages
    first = next((n for n, m in enumerate(messages) if m.get("role") == "assistant"), len(messages))
    return [str(m.get("content") or "") for m in messages[first:] if m.get("role") != "assistant"]


def _copied_by_solutions(solved: Solved, kind: Piece, form: ReplyForm) -> int:
    """Return the largest number of replies that one solution copies by this rule.

    0 if the last reply of a solution with several replies is not a copy.
    """
    most = 0
    for p in solved.scored:
        messages = p.result.messages
        turns = [n for n, m in enumerate(messages) if m.get("role") == "assistant"][1:]
        copied = [_is_copy(str(messages[n].get("content") or ""), messages[n - 1], kind, form) for n in turns]
        if copied and not copied[-1]:
            return 0
        most = max(most, sum(copied))
    return most


def _is_copy(reply: str, message: Any, kind: Piece, form: ReplyForm) -> bool:
    """Whether a reply is a copy of a piece of the preceding message."""
    text = copying.piece(kind, str(message.get("content") or "")) if message.get("role") != "assistant" else ""
    return bool(text) and reply.strip() == (text if kind in WHOLE else form.wrap(text)).strip()


def _is_paid(played: PlayedScript, best: float, in_full: bool = False) -> bool:
    """Whether a rollout earned at least half of the best reward, or nearly all of it (`in_full`)."""
    share = FULL_SHARE if in_full else HALF_SHARE
    return played.scored and (played.result.reward or 0.0) >= share * best - EPSILON


def _share(played: Sequence[PlayedScript], best: float) -> float:
    """Return the share of rollouts that are paid."""
    return sum(_is_paid(p, best) for p in played) / len(played) if played else 0.0


async def _play(worker: Worker, wanted: Sequence[tuple[int, RolloutScript]]) -> list[PlayedScript]:
    """Play pairs (task, script). If one rollout was not run, return none, because comparisons need all of them."""
    if not wanted:
        return []
    try:
        plays = [scripts.as_play(script, row) for row, script in wanted]
        rollouts = await worker.rollout(plays, seconds=_SECONDS)
    except LabError:
        return []  # The rules about rollouts report an error that breaks the process.
    if len(rollouts.results) != len(wanted) or any(r.end == "not-run" for r in rollouts.results):
        return []
    return [PlayedScript(row, script, r) for (row, script), r in zip(wanted, rollouts.results, strict=True)]
