"""Compares the results of an evaluation with the replies that its relay passed on.

Two files of a job hold what the relay saw, where no evaluated code writes: one byte for each reply, and the
fingerprints of each reply and of the messages it was given for (relay/replies.py), one reply on a line.

A reply belongs to a rollout if the model was told nothing that the stored conversation does not hold, and was asked
last what stands before the reply there. Code could otherwise have the model repeat a text.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.relay.replies import NotedReply, calls_fingerprint, message_fingerprint, text_fingerprint
from prime_lab_mcp.lab.rollouts.conversation import conversation, replies
from prime_lab_mcp.lab.rollouts.reading import read_rollouts
from prime_lab_mcp.lab.rollouts.rollout import Rollout

TOLERATED = 0.01
"""Share of rollouts with an unknown text up to which the evaluation still counts: programs mend a broken reply."""
_FIX = (
    "Find the code of the environment that writes results, or scores rollouts without asking the model, "
    "mend it, and call run_eval again."
)


class AnsweredReplies:
    """The replies of all attempts of a job. Notes are written before a reply is passed on, and survive a kill."""

    def __init__(self, counts: Path, fingerprints: Path) -> None:
        self._counts = counts
        self._fingerprints = fingerprints

    def note_count(self, replies: int) -> None:
        with suppress(OSError), self._counts.open("ab") as sink:
            sink.write(b"." * replies)

    def note_fingerprints(self, replies: Iterable[NotedReply]) -> None:
        with suppress(OSError), self._fingerprints.open("a", encoding="ascii") as sink:
            for forms, asked in replies:
                if forms:
                    request = _UNREADABLE if asked is None else " ".join(asked)
                    sink.write(f"{' '.join(forms)} {_FOR} {request}\n")

    @property
    def count(self) -> int:
        return self._counts.stat().st_size if self._counts.exists() else 0

    def findings(self, results: Path, with_turns: int) -> tuple[Finding, ...]:
        """Findings where the results claim more than the endpoint replied. `with_turns` is the number of rollouts that
        state a model's turns."""
        if with_turns > self.count:
            return (
                _unanswered(
                    f"{count(with_turns, 'rollout')} in the results were scored, while the endpoint gave "
                    f"{count(self.count, 'reply', 'replies')}"
                ),
            )
        compared = self._compare(results)
        findings = []
        if compared.unknown:
            message = f"{compared.unknown} of {count(compared.rollouts, 'rollout')} end with a text or tool call that "
            message += "no reply of the endpoint holds, or more often than the endpoint gave that reply"
            findings.append(_unanswered(message, blocks=compared.unknown > TOLERATED * compared.rollouts))
        if compared.other_questions:
            message = f"{compared.other_questions} of {count(compared.rollouts, 'rollout')} end with a reply that the "
            message += "endpoint gave to other messages than the results hold"
            # Environments of several turns may shorten or sum up what they send.
            single = compared.single_turns > TOLERATED * compared.rollouts
            findings.append(_unanswered(message, blocks=single))
        return tuple(findings)

    def _compare(self, results: Path) -> _Compared:
        replies_by_form = _NotedLines()
        with suppress(FileNotFoundError), self._fingerprints.open(encoding="ascii") as source:
            for line in source:
                replies_by_form.add(line)
        compared = _Compared()
        # Results that cannot be read, such as an empty file after a stop, claim nothing: whoever judges them says so.
        with suppress(EvalError):
            for rollout in read_rollouts(results):
                turn = None if rollout.error is not None else _last_turn(rollout)
                if turn is None:
                    continue
                compared.rollouts += 1
                answered = replies_by_form.take(turn)
                compared.unknown += answered is None
                compared.other_questions += answered is False
                compared.single_turns += answered is False and turn.single
        return compared


_FOR = "|"
_UNREADABLE = "?"
_LOOKED_AT = 64
"""Most replies of one text to one question whose other messages are compared."""


@dataclass(slots=True)
class _Compared:
    """Numbers of rollouts: those with a last turn, those whose last turn no reply holds that is left, and those whose
    reply was given to other messages. `single_turns` counts the last where the model replied once."""

    rollouts: int = 0
    unknown: int = 0
    other_questions: int = 0
    single_turns: int = 0


@dataclass(frozen=True, slots=True)
class _LastTurn:
    """The last reply of a rollout, the messages `before` it, the last of which is the `question`, and all others."""

    form: str
    question: str
    before: frozenset[str]
    told: frozenset[str]
    single: bool


class _NotedLines:
    """Replies by form and by the last message of their request. Each is taken once."""

    def __init__(self) -> None:
        self._asked: list[frozenset[str] | None] = []
        self._by_form: defaultdict[str, list[int]] = defaultdict(list)
        self._by_question: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self._used: set[int] = set()

    def add(self, line: str) -> None:
        forms, compares, asked = line.partition(_FOR)
        texts = asked.split()
        known = bool(compares) and texts != [_UNREADABLE]
        number = len(self._asked)
        self._asked.append(frozenset(texts) if known else None)
        for form in forms.split():
            self._by_form[form].append(number)
            self._by_question[form, texts[-1] if known and texts else ""].append(number)

    def _fits(self, number: int, turn: _LastTurn) -> bool:
        asked = self._asked[number]
        return asked is None or asked <= turn.told

    def take(self, turn: _LastTurn) -> bool | None:
        """Take a reply with this form: True if it fits the messages, False if none that is left does, None if none
        is left."""
        for key in ((turn.form, turn.question), (turn.form, "")):
            waiting = self._by_question.get(key, [])
            while waiting and waiting[-1] in self._used:
                waiting.pop()
            fitting = [n for n in waiting[-_LOOKED_AT:] if n not in self._used and self._fits(n, turn)]
            if fitting:
                # Rollouts of a task may share replies: one that takes the request of another leaves the other without.
                number = max(fitting, key=lambda n: (self._asked[n] == turn.before, len(self._asked[n] or ()), n))
                waiting.remove(number)
                self._used.add(number)
                return True
        others = self._by_form.get(turn.form, [])
        while others and others[-1] in self._used:
            others.pop()
        if not others:
            return None
        self._used.add(others.pop())
        return False


def _last_turn(rollout: Rollout) -> _LastTurn | None:
    """The last reply in a rollout that has a text or tool calls; None without such a reply."""
    written = replies(rollout)
    for message in reversed(written):
        if message.text.strip():
            form = text_fingerprint(message.text)
        elif message.calls:
            form = calls_fingerprint((call.name, call.arguments) for call in message.calls)
        else:
            continue
        messages = conversation(rollout)
        place = len(messages) - 1 - messages[::-1].index(message)
        before = [message_fingerprint(m.text) for m in messages[:place] if m.text.strip()]
        after = [message_fingerprint(m.text) for m in messages[place + 1 :] if m.text.strip()]
        question = before[-1] if before else ""
        return _LastTurn(form, question, frozenset(before), frozenset((*before, *after)), len(written) == 1)
    return None


def _unanswered(message: str, *, blocks: bool = True) -> Finding:
    return Finding("eval-unanswered", "blocker" if blocks else "warning", message, _FIX)
