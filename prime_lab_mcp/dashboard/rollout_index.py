"""An index of one results file: where each rollout stands and what it earned, so that a page reads only its own lines.

The file is read once, with the fast reader of scores, and again only from where the last reading ended, so that a
running evaluation stays cheap. An index takes about 30 bytes a rollout.
"""

from __future__ import annotations

import json
import os
import threading
from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from prime_lab_mcp.lab.base.untrusted_files import bounded_lines, open_results
from prime_lab_mcp.lab.evals.views.columns import FAILED_ROLLOUT, TRUNCATED_ROLLOUT, ZERO_ROLLOUT, Columns
from prime_lab_mcp.lab.rollouts.reading import Layout, decode_line, layout_of, parse_record, parse_score_line
from prime_lab_mcp.lab.rollouts.rollout import Reading, Rollout

Outcome = Literal["all", "passed", "zero", "error", "truncated"]
Order = Literal["position", "reward", "-reward", "tokens", "-tokens"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)
ORDERS: tuple[str, ...] = get_args(Order)
_FLAGS: Mapping[str, int] = {"zero": ZERO_ROLLOUT, "error": FAILED_ROLLOUT, "truncated": TRUNCATED_ROLLOUT}
_MOST_SEARCHES = 16
_MOST_INDEXES = 6


@dataclass(frozen=True, slots=True)
class RolloutQuery:
    """Which rollouts, in which order. `task` is the number of a task, `text` occurs anywhere in a record."""

    outcome: Outcome = "all"
    order: Order = "position"
    task: int | None = None
    text: str = ""


class RolloutIndex:
    """The rollouts of one results file by position, in the order of the file. Safe between threads."""

    def __init__(self, path: Path, weights: Mapping[str, float]) -> None:
        """`weights` are those of the environment's rewards, which older results do not state."""
        self.path = path
        self._weights = weights
        self._lock = threading.RLock()
        self._reset()

    def _reset(self) -> None:
        self.columns = Columns(self._weights)
        self._reading = Reading()
        self._starts = array("Q")
        self._parts = array("H")
        self._end = 0
        self._inode = 0
        self._layout: Layout | None = None
        self._found: OrderedDict[RolloutQuery, array[int]] = OrderedDict()
        self.picture: dict[str, Any] | None = None
        """What the page computed from all rollouts; None after the file grew."""

    def __len__(self) -> int:
        return len(self._starts)

    def update(self) -> None:
        """Read what was appended since the last call; everything again if the file was replaced. Raises EvalError."""
        with self._lock, closing(open_results(self.path)) as source:
            status = os.fstat(source.fileno())
            if status.st_ino != self._inode or status.st_size < self._end:
                self._reset()
                self._inode = status.st_ino
            if status.st_size == self._end:
                return
            self._found.clear()
            self.picture = None
            source.seek(self._end)
            for line in bounded_lines(source, self.path.name):
                if not self._add(line) and not line.endswith(b"\n"):
                    return  # its writer has not finished this line
                self._end += len(line)

    def _add(self, line: bytes) -> bool:
        """Add the rollouts of one line. Returns False for a line that is no record."""
        if self._layout is None:
            record = decode_line(line)
            if not isinstance(record, dict):
                return False
            self._layout = layout_of(record)
        rollouts = parse_score_line(line, self._layout) if line.strip() else None
        for part, rollout in enumerate(rollouts or ()):
            if self._reading.admit(rollout):
                self.columns.add(rollout)
                self._starts.append(self._end)
                self._parts.append(min(part, 65_535))
        return rollouts is not None

    def find(self, query: RolloutQuery) -> Sequence[int]:
        """The positions that a query selects, in its order. The last few answers are remembered."""
        with self._lock:
            if query in self._found:
                self._found.move_to_end(query)
                return self._found[query]
            chosen: Iterable[int] = range(len(self)) if not query.text else self._containing(query.text)
            if query.task is not None:
                chosen = [i for i in chosen if self.columns.task[i] == query.task]
            if query.outcome == "passed":
                best = self.columns.best
                chosen = [i for i in chosen if self.columns.passed(i, best)]
            elif query.outcome != "all":
                bit = _FLAGS[query.outcome]
                chosen = [i for i in chosen if self.columns.flags[i] & bit]
            self._found[query] = found = array("I", self._ordered(chosen, query.order))
            if len(self._found) > _MOST_SEARCHES:
                self._found.popitem(last=False)
            return found

    def _ordered(self, chosen: Iterable[int], order: Order) -> Iterable[int]:
        columns = self.columns
        if order == "position":
            return chosen
        sign = -1.0 if order.startswith("-") else 1.0
        if order.endswith("tokens"):
            return sorted(chosen, key=lambda i: (sign * columns.length[i], i))
        # Failed rollouts have no reward and come last either way.
        return sorted(
            chosen, key=lambda i: (not columns.scored(i), sign * columns.reward[i] if columns.scored(i) else 0, i)
        )

    def _containing(self, text: str) -> Iterator[int]:
        """Positions whose record contains a text, without regard to the case of ASCII letters."""
        needles = {json.dumps(text, ensure_ascii=ascii)[1:-1].encode().lower() for ascii in (False, True)}
        with closing(open_results(self.path)) as source:
            position, place = 0, 0
            for line in bounded_lines(source, self.path.name):
                if place >= self._end:
                    return
                first = position
                while position < len(self) and self._starts[position] == place:
                    position += 1
                if position > first and any(needle in line.lower() for needle in needles):
                    yield from range(first, position)
                place += len(line)

    def rollouts(self, positions: Iterable[int]) -> list[tuple[int, Rollout]]:
        """Read whole rollouts, each by one seek. Positions that do not exist are left out."""
        with self._lock, closing(open_results(self.path)) as source:
            read: list[tuple[int, Rollout]] = []
            for position in positions:
                if self._layout is None or not 0 <= position < len(self):
                    continue
                source.seek(self._starts[position])
                record = decode_line(source.readline())
                parts = list(parse_record(record, self._layout)) if isinstance(record, dict) else []
                if self._parts[position] < len(parts):
                    read.append((position, parts[self._parts[position]]))
            return read


class RolloutIndexes:
    """The indexes that one page used last, by file."""

    def __init__(self) -> None:
        self._indexes: OrderedDict[Path, RolloutIndex] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, path: Path, weights: Mapping[str, float]) -> RolloutIndex:
        """The index of a results file, up to date. Raises EvalError."""
        with self._lock:
            index = self._indexes.pop(path, None) or RolloutIndex(path, weights)
            self._indexes[path] = index
            while len(self._indexes) > _MOST_INDEXES:
                self._indexes.popitem(last=False)
        index.update()
        return index
