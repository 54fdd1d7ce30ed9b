"""Compares the results of an evaluation with the replies that its relay passed on.

Two files of a job hold what the relay saw, where no evaluated code writes: one byte for each reply, and the
fingerprints of each reply (relay/replies.py), one reply on a line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.relay.replies import calls_fingerprint, text_fingerprint
from prime_lab_mcp.lab.rollouts.conversation import replies
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

    def __init__(self, counted: Path, fingerprints: Path) -> None:
        self._counted = counted
        self._fingerprints = fingerprints

    def note_count(self, replies: int) -> None:
        with suppress(OSError), self._counted.open("ab") as sink:
            sink.write(b"." * replies)

    def note_fingerprints(self, replies: Iterable[Sequence[str]]) -> None:
        with suppress(OSError), self._fingerprints.open("a", encoding="ascii") as sink:
            sink.writelines(f"{' '.join(forms)}\n" for forms in replies if forms)

    @property
    def count(self) -> int:
        return self._counted.stat().st_size if self._counted.exists() else 0

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
        compared, unknown = self._compare(results)
        if not unknown:
            return ()
        message = f"{unknown} of {count(compared, 'rollout')} end with a text or tool call that no reply of the "
        message += "endpoint holds, or more often than the endpoint gave that reply"
        return (_unanswered(message, blocks=unknown > TOLERATED * compared),)

    def _compare(self, results: Path) -> tuple[int, int]:
        """The number of rollouts with a last turn, and of those whose last turn no reply holds that is left."""
        lines: defaultdict[str, list[int]] = defaultdict(list)
        with suppress(FileNotFoundError), self._fingerprints.open(encoding="ascii") as source:
            for number, line in enumerate(source):
                for form in line.split():
                    lines[form].append(number)
        used: set[int] = set()
        compared = unknown = 0
        # Results that cannot be read, such as an empty file after a stop, claim nothing: whoever judges them says so.
        with suppress(EvalError):
            for rollout in read_rollouts(results):
                turn = None if rollout.error is not None else _last_turn(rollout)
                if turn is None:
                    continue
                compared += 1
                waiting = lines.get(turn, [])
                while waiting and waiting[-1] in used:
                    waiting.pop()
                if waiting:
                    used.add(waiting.pop())
                else:
                    unknown += 1
        return compared, unknown


def _last_turn(rollout: Rollout) -> str | None:
    """The fingerprint of the last reply in a rollout that has a text or tool calls; None without such a reply."""
    for message in reversed(replies(rollout)):
        if message.text.strip():
            return text_fingerprint(message.text)
        if message.calls:
            return calls_fingerprint((call.name, call.arguments) for call in message.calls)
    return None


def _unanswered(message: str, *, blocks: bool = True) -> Finding:
    return Finding("eval-unanswered", "blocker" if blocks else "warning", message, _FIX)
