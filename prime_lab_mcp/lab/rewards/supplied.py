"""Cases that the caller supplies, and the preset of five that the seed's script had."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.datasets import golds as values
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.rewards.observed import Expected
from prime_lab_mcp.lab.rewards.probes import Probe, Style, assistant
from prime_lab_mcp.lab.rewards.wrong import as_number
from prime_lab_mcp.lab.text import quote
from prime_lab_mcp.lab.worker.cases import Row

MAX_CASES = 500
_FIX = (
    'Give a JSON list of {"name", "completion", "answer"?, "task"?, "expected"}; expected: a number, "high" or "low".'
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """One supplied case: `completion` is a text or a list of messages; `task` or `answer` say which task it is for."""

    name: str
    completion: str | tuple[Mapping[str, Any], ...]
    expected: Expected
    answer: str | None = None
    task: int | None = None

    @property
    def messages(self) -> tuple[Mapping[str, Any], ...]:
        return assistant(self.completion) if isinstance(self.completion, str) else self.completion


def read_file(path: Path) -> list[Any]:
    """The list in a cases file. Raises BadInput."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{quote(path.name)} is no JSON file of cases: {quote(error)}", fix=_FIX, code="bad-cases"
        ) from error
    if not isinstance(found, list):
        raise BadInput(f"{quote(path.name)} holds no list", fix=_FIX, code="bad-cases")
    return found


def parse(raw: Sequence[Any]) -> list[Wanted]:
    """Cases as values. `expected_reward` is taken for `expected`, as the seed's files have it. Raises BadInput."""
    if len(raw) > MAX_CASES:
        raise BadInput(f"{len(raw):,} cases are too many (at most {MAX_CASES})", fix="Give fewer.", code="bad-cases")
    return [_parse(entry, number) for number, entry in enumerate(raw)]


def _parse(entry: Any, number: int) -> Wanted:
    if not isinstance(entry, Mapping):
        raise _bad(number, "is no object")
    expected = entry.get("expected", entry.get("expected_reward"))
    if isinstance(expected, bool):
        expected = float(expected)
    if not (isinstance(expected, int | float) or expected in ("high", "low")):
        raise _bad(number, 'has no "expected" that is a number, "high" or "low"')
    completion = entry.get("completion", entry.get("messages"))
    if isinstance(completion, list) and all(isinstance(m, Mapping) and "role" in m for m in completion):
        completion = tuple(completion)
    elif not isinstance(completion, str):
        raise _bad(number, 'has no "completion" that is a text or a list of messages')
    task = entry.get("task")
    if task is not None and (isinstance(task, bool) or not isinstance(task, int) or task < 0):
        raise _bad(number, 'has a "task" that is no index')
    answer = entry.get("answer")
    return Wanted(
        str(entry.get("name") or f"case {number + 1}")[:120],
        completion,
        expected,
        None if answer is None else values.as_text(answer),
        task,
    )


def _bad(number: int, why: str) -> BadInput:
    return BadInput(f"case {number + 1} {why}", fix=_FIX, code="bad-cases")


def place(
    wanted: Sequence[Wanted], rows: Sequence[Row], style: Style | None
) -> tuple[list[tuple[Probe, Expected]], list[str]]:
    """Each case as a probe for its task, and the names of those whose answer no task has.

    A case that names neither task nor answer is for the first task.
    """
    by_answer: dict[str, int] = {}
    for row in rows:
        if row.answer is not None:
            by_answer.setdefault(_essence(values.as_text(row.answer)), row.index)
    for gold in style.golds.golds if style is not None else ():
        by_answer.setdefault(_essence(values.as_text(gold.raw)), gold.row)
    placed: list[tuple[Probe, Expected]] = []
    unmatched: list[str] = []
    for number, case in enumerate(wanted):
        task = case.task
        if task is None:
            task = (
                by_answer.get(_essence(case.answer)) if case.answer is not None else (rows[0].index if rows else None)
            )
        if task is None:
            unmatched.append(case.name)
            continue
        placed.append((Probe(f"case/{number}", "gold", case.name, task, case.messages), case.expected))
    return placed, unmatched


def _essence(answer: str) -> str:
    text = values.after_hash(answer) or values.boxed(answer) or answer
    number = values.number(text)
    return values.canonical(number) if number is not None else values.normalised(text)


def gsm8k(style: Style | None) -> list[Wanted]:
    """The seed's five cases, on tasks of this environment: right, wrong, no tags, thousands comma, trailing text.

    The comma case needs a task whose answer is 1,000 or more; without one it cannot be asked, and four are left.
    """
    numeric = [(g, n) for g in style.golds.golds if (n := as_number(style.said(g))) is not None] if style else []
    if not numeric:
        raise BadInput(
            "the preset gsm8k needs numeric golds; this environment has none",
            fix="Call test_reward without the preset, or supply cases.",
            code="preset-does-not-fit",
        )
    gold, number = random.Random(0).choice(numeric)
    said = values.canonical(number)
    thousand = next(((g, n) for g, n in numeric if abs(n) >= 1000 and n == n.to_integral_value()), None)
    found = [
        Wanted("correct answer in tags", f"Step by step.\n<answer>{said}</answer>", 1.0, task=gold.row),
        Wanted(
            "wrong answer in tags",
            f"Step by step.\n<answer>{values.canonical(number + 1)}</answer>",
            0.0,
            task=gold.row,
        ),
        Wanted("correct answer, no tags", f"The answer is {said}", 0.0, task=gold.row),
    ]
    if thousand is not None:
        found.append(Wanted("thousands comma", f"<answer>{int(thousand[1]):,}</answer>", 1.0, task=thousand[0].row))
    found.append(Wanted("trailing text after the tag", f"<answer>{said}</answer> That is all.", 1.0, task=gold.row))
    return found
