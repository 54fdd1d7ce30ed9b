"""Compares the replies in the results of an evaluation with the replies that the relay passed on.

Evaluated code could write results that the model never produced. So the supervisor records every reply in two files
that evaluated code cannot write. One file has a byte for each reply. The other has a line for each reply, with the
fingerprints of the reply and of the messages in its request (relay/replies.py).

A recorded reply belongs to a rollout if its request has only messages of the stored conversation, and if the last
message of the request is the one before the reply in that conversation. Otherwise code could ask the model to repeat a
text and store the reply in another conversation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.relay.replies import NotedReply, calls_fingerprint, message_fingerprint, text_fingerprint
from prime_lab_mcp.lab.rollouts.conversation import conversation, replies
from prime_lab_mcp.lab.rollouts.reading import read_rollouts
from prime_lab_mcp.lab.rollouts.rollout import Rollout

TOLERATED = 0.01
"""Share of rollouts with an unknown reply up to which the evaluation still counts, because programs repair broken
replies."""
_FIX = Fix(
    "Find the code of the environment that writes results, or scores rollouts without "
    "asking the model, mend it, and call ",
    NamedCall("run_eval"),
    " again.",
)


class AnsweredReplies:
    """The recorded replies of all attempts of a job.

    A reply is recorded before the relay passes it on, so the record is complete even if the supervisor is killed.
    """

    def __init__(self, counts: Path, fingerprints: Path) -> None:
        self._counts = counts
        self._fingerprints = fingerprints

    def note_count(self, replies: int) -> None:
        """Record that the relay passes on this many more replies."""
        with suppress(OSError), self._counts.open("ab") as sink:
            sink.write(b"." * replies)

    def note_fingerprints(self, replies: Iterable[NotedReply]) -> None:
        """Record the fingerprints of replies and of the messages in their requests."""
        with suppress(OSError), self._fingerprints.open("a", encoding="ascii") as sink:
            for forms, messages in replies:
                if forms:
                    request = _UNREADABLE if messages is None else " ".join(messages)
                    sink.write(f"{' '.join(forms)} {_FOR} {request}\n")

    @property
    def count(self) -> int:
        """Number of recorded replies."""
        return self._counts.stat().st_size if self._counts.exists() else 0

    def findings(self, results: Path, with_turns: int) -> tuple[Finding, ...]:
        """Return findings if the results hold replies that the endpoint did not give.

        `with_turns` is the number of rollouts that need at least one reply of the model.
        """
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
            # Environments with several turns may shorten or summarise the messages that they send.
            single = compared.single_turns > TOLERATED * compared.rollouts
            findings.append(_unanswered(message, blocks=single))
        return tuple(findings)

    def _compare(self, results: Path) -> _Compared:
        replies_by_form = _NotedLines()
        with suppress(FileNotFoundError), self._fingerprints.open(encoding="ascii") as source:
            for line in source:
                replies_by_form.add(line)
        compared = _Compared()
        # Unreadable results, such as an empty file after a stop, contain no replies. The verdict reports them.
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
_MOST_COMPARED = 64
"""Most recorded replies with the same text and last message whose other messages are compared."""


@dataclass(slots=True)
class _Compared:
    """Numbers of rollouts, by how their last reply compares with the recorded replies."""

    rollouts: int = 0
    """Rollouts with a reply."""
    unknown: int = 0
    """Rollouts whose last reply was not recorded, or was recorded less often than the results contain it."""
    other_questions: int = 0
    """Rollouts whose last reply was recorded only for other messages."""
    single_turns: int = 0
    """Rollouts of `other_questions` in which the model replied only once."""


@dataclass(frozen=True, slots=True)
class _LastTurn:
    """Fingerprints of the last reply of a rollout and of the other messages of its conversation."""

    form: str
    """The last reply."""
    question: str
    """The message before the last reply; empty if there is none."""
    before: frozenset[str]
    """All messages before the last reply."""
    others: frozenset[str]
    """All messages before and after the last reply."""
    single: bool
    """Whether the model replied only once."""


class _NotedLines:
    """The recorded replies, by fingerprint and by the last message of their request. Each can be taken once."""

    def __init__(self) -> None:
        self._requests: list[frozenset[str] | None] = []
        """The messages of each reply's request; None if the request could not be read."""
        self._by_form: defaultdict[str, list[int]] = defaultdict(list)
        self._by_question: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        self._used: set[int] = set()

    def add(self, line: str) -> None:
        """Add one line of the file of fingerprints."""
        forms, separator, request = line.partition(_FOR)
        messages = request.split()
        readable = bool(separator) and messages != [_UNREADABLE]
        number = len(self._requests)
        self._requests.append(frozenset(messages) if readable else None)
        for form in forms.split():
            self._by_form[form].append(number)
            self._by_question[form, messages[-1] if readable and messages else ""].append(number)

    def _fits(self, number: int, turn: _LastTurn) -> bool:
        request = self._requests[number]
        return request is None or request <= turn.others

    def take(self, turn: _LastTurn) -> bool | None:
        """Take a recorded reply that equals the last reply of a rollout.

        Returns True if its request fits the conversation, False if only replies to other requests are left, and None if
        no equal reply is left.
        """
        for key in ((turn.form, turn.question), (turn.form, "")):
            waiting = self._by_question.get(key, [])
            while waiting and waiting[-1] in self._used:
                waiting.pop()
            fitting = [n for n in waiting[-_MOST_COMPARED:] if n not in self._used and self._fits(n, turn)]
            if fitting:
                # Rollouts of one task may have equal replies. The one with the closest request is taken, so that the
                # others are left for their own rollouts.
                number = max(fitting, key=lambda n: (self._requests[n] == turn.before, len(self._requests[n] or ()), n))
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
    """Return the last reply of a rollout that has text or tool calls, or None without such a reply."""
    model_replies = replies(rollout)
    for message in reversed(model_replies):
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
        return _LastTurn(form, question, frozenset(before), frozenset((*before, *after)), len(model_replies) == 1)
    return None


def _unanswered(message: str, *, blocks: bool = True) -> Finding:
    return Finding("eval-unanswered", "blocker" if blocks else "warning", message, _FIX)
