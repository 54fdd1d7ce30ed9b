"""Reads, builds and stores cases: completions with an expected reward.

The caller supplies cases, and the preset `gsm8k` has five. After a trial, test_reward stores three files for the
environment in the state directory: a table of all completions with their rewards (JSON Lines), the cases that the
caller supplied, and the failing completions that test_reward wrote itself. `cases_file="last"` gives the caller's cases
again, and scores the failing completions again as what they are: probes, which the rules of the present trial judge.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.text import escape, quote, redact
from prime_lab_mcp.lab.datasets import golds as gold_answers
from prime_lab_mcp.lab.rewards.observations import Expected, ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, Probe, assistant_message
from prime_lab_mcp.lab.rewards.probes.families import NEEDS_ANSWER, Family, label_of
from prime_lab_mcp.lab.rewards.probes.wrong_answers import as_number, number_and_unit
from prime_lab_mcp.lab.rewards.rules.amounts import CaseRow
from prime_lab_mcp.lab.rewards.rules.known_answers import meets_expectation
from prime_lab_mcp.lab.worker.description import Row

MAX_CASES = 500
_FIX = (
    'Give a JSON list of {"name", "completion", "answer"?, "task"?, "expected"}; expected: a number, "high" or "low".'
)


@dataclass(frozen=True, slots=True)
class SuppliedCase:
    """A case from the caller. `completion` is a text or a list of messages.

    `task` (an index) selects the task; without an index, `answer` selects the task with this reference answer.
    """

    name: str
    completion: str | tuple[Mapping[str, Any], ...]
    expected: Expected
    answer: str | None = None
    task: int | None = None

    @property
    def messages(self) -> tuple[Mapping[str, Any], ...]:
        """The completion as messages; a text becomes one assistant message."""
        return assistant_message(self.completion) if isinstance(self.completion, str) else self.completion


def read_cases(path: Path) -> list[Any]:
    """Read the JSON list of a cases file. Raises BadInput if the file cannot be read or does not contain a list."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{quote(path.name)} is no JSON file of cases: {quote(error)}", fix=_FIX, code="bad-cases"
        ) from error
    if not isinstance(document, list):
        raise BadInput(f"{quote(path.name)} holds no list", fix=_FIX, code="bad-cases")
    return document


def parse_cases(raw: Sequence[Any]) -> list[SuppliedCase]:
    """Parse cases. The key `expected_reward` is an alias of `expected`.

    Raises BadInput for more than `MAX_CASES` cases and for an entry that is not a case.
    """
    if len(raw) > MAX_CASES:
        raise BadInput(f"{len(raw):,} cases are too many (at most {MAX_CASES})", fix="Give fewer.", code="bad-cases")
    return [_parse(entry, number) for number, entry in enumerate(raw)]


def _parse(entry: Any, number: int) -> SuppliedCase:
    """Parse one entry of the list; `number` is its position from 0. Raises BadInput."""
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
    return SuppliedCase(
        str(entry.get("name") or f"case {number + 1}")[:120],
        completion,
        expected,
        None if answer is None else gold_answers.gold_text(answer),
        task,
    )


def _bad(number: int, why: str) -> BadInput:
    return BadInput(f"case {number + 1} {why}", fix=_FIX, code="bad-cases")


def place_cases(
    wanted: Sequence[SuppliedCase], rows: Sequence[Row], style: AnswerStyle | None
) -> tuple[list[tuple[Probe, Expected]], list[str]]:
    """Turn cases into probes of their tasks.

    Returns pairs (probe, expected reward), and the names of the cases whose answer no task has. A case with neither
    `task` nor `answer` belongs to the first task.
    """
    by_answer: dict[str, list[tuple[str, int]]] = {}
    for row in rows:
        if row.answer is not None:
            text = gold_answers.gold_text(row.answer)
            by_answer.setdefault(_answer_key(text), []).append((_unit(text), row.index))
    for gold in style.golds.golds if style is not None else ():
        text = gold_answers.gold_text(gold.raw)
        by_answer.setdefault(_answer_key(text), []).append((_unit(text), gold.row))
    placed: list[tuple[Probe, Expected]] = []
    unmatched: list[str] = []
    for number, case in enumerate(wanted):
        task = case.task
        if task is None and case.answer is not None:
            unit, among = _unit(case.answer), by_answer.get(_answer_key(case.answer), [])
            task = next((row for other, row in among if other == unit), None)
            if task is None:  # an answer without a unit is that of a task with one, never that of another unit
                task = next((row for other, row in among if not (other and unit)), None)
        elif task is None and rows:
            task = rows[0].index
        if task is None:
            unmatched.append(case.name)
            continue
        label = label_of(Family.SUPPLIED, case.name)
        placed.append((Probe(f"case/{number}", Family.SUPPLIED, label, task, case.messages), case.expected))
    return placed, unmatched


def _unit(answer: str) -> str:
    quantity = number_and_unit(answer)
    return quantity[1] if quantity is not None else ""


def _answer_key(answer: str) -> str:
    """Return the final answer in a form for comparison: a canonical number, or normalised text."""
    text = gold_answers.final_answer(answer)
    number = gold_answers.number_in(text)
    return gold_answers.canonical_number(number) if number is not None else gold_answers.normalised_text(text)


def gsm8k_cases(style: AnswerStyle | None) -> list[SuppliedCase]:
    """Return the five cases of the preset: a right answer, a wrong one, no tags, a thousands comma, trailing text.

    The case with the comma needs a task whose answer is 1,000 or more; without such a task there are four cases. Raises
    BadInput if no gold is a number.
    """
    numeric = [(g, n) for g in style.golds.golds if (n := as_number(style.answer_text(g))) is not None] if style else []
    if not numeric:
        raise BadInput(
            "the preset gsm8k needs numeric golds; this environment has none",
            fix=Fix(
                "Call ",
                NamedCall("test_reward").without("preset").shown("test_reward without the preset"),
                ", or supply cases.",
            ),
            code="preset-does-not-fit",
        )
    gold, number = random.Random(0).choice(numeric)
    final = gold_answers.canonical_number(number)
    thousand = next(((g, n) for g, n in numeric if abs(n) >= 1000 and n == n.to_integral_value()), None)
    cases = [
        SuppliedCase("correct answer in tags", f"Step by step.\n<answer>{final}</answer>", 1.0, task=gold.row),
        SuppliedCase(
            "wrong answer in tags",
            f"Step by step.\n<answer>{gold_answers.canonical_number(number + 1)}</answer>",
            0.0,
            task=gold.row,
        ),
        SuppliedCase("correct answer, no tags", f"The answer is {final}", 0.0, task=gold.row),
    ]
    if thousand is not None:
        cases.append(
            SuppliedCase("thousands comma", f"<answer>{int(thousand[1]):,}</answer>", 1.0, task=thousand[0].row)
        )
    cases.append(
        SuppliedCase("trailing text after the tag", f"<answer>{final}</answer> That is all.", 1.0, task=gold.row)
    )
    return cases


LAST_TRIAL = "last"
"""The value of `cases_file` that selects the cases that the caller supplied last, and the probes that failed last."""
AGAIN = "last/"
"""The beginning of the id of a probe that an earlier trial has shown and that is scored again."""
INLINE_CASES = 400
"""Longest completion that a report shows in full, in characters of JSON. Longer ones are only in the file."""
_UNMET = "unmet.json"
_SUBJECTS = 8
"""Number of sets of files and arguments whose unmet cases are kept."""
_RIGHT = frozenset({"gold", "verbose", "equivalent", "trailing"})


@dataclass(frozen=True, slots=True)
class KnownFailure:
    """A probe that a finding of an earlier trial shows, with the gold that its task had."""

    probe: Probe
    gold: str

    def as_json(self) -> dict[str, Any]:
        probe = self.probe
        return {
            "family": probe.family.value,
            "name": probe.label,
            "task": probe.row,
            "messages": [dict(m) for m in probe.messages[probe.given :]],
            "variant": probe.variant,
            "near": probe.near,
            "bare": probe.bare,
            "knowing": probe.knowing,
            "gold": self.gold,
        }

    @classmethod
    def read(cls, entry: Any) -> KnownFailure | None:
        """Return the stored probe; None for an entry that an older version of this server has written."""
        try:
            probe = Probe(
                f"{AGAIN}{entry['family']}/{entry['task']}/{entry['name']}",
                Family(entry["family"]),
                str(entry["name"]),
                int(entry["task"]),
                tuple(entry["messages"]),
                near=bool(entry["near"]),
                variant=str(entry["variant"]),
                bare=bool(entry["bare"]),
                knowing=bool(entry["knowing"]),
            )
            return cls(probe, str(entry["gold"]))
        except (KeyError, TypeError, ValueError):
            return None


def probes_of_failures(failures: Sequence[KnownFailure], rows: Sequence[Row]) -> list[Probe]:
    """Return the known failures that a trial scores again.

    Completions that hold the right answer are left out: the trial writes them anew, in the form that the prompt asks
    for today. So are those of a task whose gold is another one today: nobody knows what they would have to earn.
    """
    golds = {row.index: _gold_key(row.answer) for row in rows}
    return [
        failure.probe
        for failure in failures
        if not (failure.probe.knowing or failure.probe.family in NEEDS_ANSWER | {Family.CUT, Family.SUPPLIED})
        and golds.get(failure.probe.row) == failure.gold
    ]


def _gold_key(answer: Any) -> str:
    return json.dumps(answer, sort_keys=True, default=str)


def _stored_list(path: Path) -> list[Any]:
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return recorded if isinstance(recorded, list) else []


class TrialFolder:
    """The folder with the stored completions and cases of one environment. The first write creates it."""

    def __init__(self, state: Path, workspace: Path, environment: str) -> None:
        digest = hashlib.sha256(f"{workspace}\0{environment}".encode()).hexdigest()
        self.folder = state / "rewards" / digest[:16]
        self.environment = environment

    @property
    def table(self) -> Path:
        return self.folder / "completions.jsonl"

    @property
    def failing(self) -> Path:
        return self.folder / "failing.json"

    @property
    def supplied(self) -> Path:
        return self.folder / "supplied.json"

    def last(self) -> tuple[list[Any], list[KnownFailure]]:
        """Return the cases that the caller supplied last, and the probes that failed last. Raises BadInput if there are
        neither."""
        supplied = _stored_list(self.supplied)
        failures = [known for entry in _stored_list(self.failing) if (known := KnownFailure.read(entry)) is not None]
        if not supplied and not failures:
            raise BadInput(
                "no cases of the caller and no failing completions are kept of this environment",
                fix=Fix("Call ", NamedCall("test_reward").without("cases_file"), " first."),
                code="bad-cases",
                next=(Next("test_reward", "finds failing cases", {"environment": self.environment}),),
            )
        return supplied, failures

    def kept_cases(self, subject: str, given: Sequence[Any]) -> list[Any]:
        """Return the caller's cases that `subject` (the files and arguments) has not met, without those that `given`
        names again: with another expectation, a case is taken back."""
        named = {_identity(entry) for entry in given}
        kept = [entry for entry in self._unmet().get(subject, []) if _identity(entry) not in named]
        return kept[: max(0, MAX_CASES - len(given))]

    def write_unmet(self, subject: str, cases: Sequence[Any]) -> None:
        """Keep the caller's cases that `subject` has not met, in place of those that were kept of it."""
        unmet = self._unmet()
        before = unmet.pop(subject, [])
        if cases or before:
            kept = dict(list({**unmet, **({subject: list(cases)} if cases else {})}.items())[-_SUBJECTS:])
            self._write(self.folder / _UNMET, json.dumps(kept, indent=1))

    def _unmet(self) -> dict[str, list[Any]]:
        try:
            recorded = json.loads((self.folder / _UNMET).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return recorded if isinstance(recorded, dict) else {}

    def write_table(self, trial: Trial) -> None:
        lines = (json.dumps(_line(scored_probe)) for scored_probe in trial.everything)
        self._write(self.table, "".join(f"{line}\n" for line in lines))

    def write_failing(self, scored_probes: Iterable[ScoredProbe], rows: Sequence[Row]) -> None:
        answers = {row.index: row.answer for row in rows}
        failures = [KnownFailure(s.probe, _gold_key(answers.get(s.probe.row))) for s in scored_probes]
        self._write(self.failing, json.dumps([failure.as_json() for failure in failures], indent=1))

    def write_supplied(self, cases: Sequence[Any]) -> None:
        self._write(self.supplied, json.dumps(list(cases), indent=1))

    def _write(self, path: Path, text: str) -> None:
        """Replace a file atomically, because another server may read the file at the same time."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)


def _identity(entry: Any) -> str:
    """Return what makes a case the same one: its task and completion, whatever its name and expectation."""
    if not isinstance(entry, Mapping):
        return ""
    completion = entry.get("completion", entry.get("messages"))
    return json.dumps([completion, entry.get("task"), entry.get("answer")], sort_keys=True, default=str)


def unmet_cases(trial: Trial, raw: Sequence[Any]) -> list[Any]:
    """Return the entries of `raw`, the caller's cases, that were scored and earned something else than expected."""
    numbers = {f"case/{number}": entry for number, entry in enumerate(raw)}
    return [
        numbers[case.scored_probe.probe.id]
        for case in trial.supplied
        if case.scored_probe.probe.id in numbers
        and case.scored_probe.reward is not None
        and not meets_expectation(case, trial)
    ]


def case_of(scored_probe: ScoredProbe, expected: Expected | None = None) -> dict[str, Any]:
    """Return a scored completion as a case for test_reward.

    Without `expected`, the case expects `high` for a right completion and `low` for any other.
    """
    if expected is None:
        expected = "high" if scored_probe.probe.kind in _RIGHT else "low"
    return {
        "name": scored_probe.probe.label,
        "task": scored_probe.probe.row,
        "completion": _completion(scored_probe),
        "expected": expected,
    }


def fits_in_report(case: Mapping[str, Any]) -> bool:
    """Whether a report may show a case in full: it is short and has no control characters and no credentials."""
    text = json.dumps(case["completion"], ensure_ascii=False)
    return len(text) <= INLINE_CASES and escape(text) == text and redact(text) == text


def cases_behind(findings: Iterable[Finding], trial: Trial) -> list[tuple[Mapping[str, Any], dict[str, Any]]]:
    """Return pairs (row, case) for the distinct rows of findings that show a scored completion, in order."""
    expected = {id(s.scored_probe.probe): s.expected for s in trial.supplied}
    rows = [row for finding in findings for row in finding.rows if isinstance(row, CaseRow)]
    first: dict[tuple[Any, ...], CaseRow] = {}
    for row in rows:
        first.setdefault((row["case"], row["task"], row["completion"]), row)
    return [(row, case_of(row.scored_probe, expected.get(id(row.scored_probe.probe)))) for row in first.values()]


def probes_behind(findings: Iterable[Finding], trial: Trial) -> list[ScoredProbe]:
    """Return the probes that findings show, each with the same probe of the other tasks, whether that failed or not.

    Rules compare the share of tasks on which a probe is paid with chance, so that all of these tasks belong to it.
    """
    rows = [row for finding in findings for row in finding.rows if isinstance(row, CaseRow)]
    failing = {id(s): s for row in rows if (s := row.scored_probe).probe.family is not Family.SUPPLIED}
    policies = {(s.probe.family, s.probe.variant, s.probe.bare) for s in failing.values()}
    beside = {id(s): s for s in trial.scored_probes if (s.probe.family, s.probe.variant, s.probe.bare) in policies}
    return list({**failing, **beside}.values())


def _completion(scored_probe: ScoredProbe) -> Any:
    """Return the completion as text, or as a list of messages if it is more than one assistant text."""
    messages = scored_probe.probe.messages
    text = scored_probe.probe.completion
    return text if messages == assistant_message(text) else [dict(m) for m in messages]


def _line(scored_probe: ScoredProbe) -> dict[str, Any]:
    """Return one line of the stored table: the case with its kind, reward, component scores and problems."""
    line = {**case_of(scored_probe), "kind": scored_probe.probe.kind, "reward": scored_probe.reward}
    line["components"] = {name: part.score for name, part in scored_probe.scored.components.items()}
    if scored_probe.scored.problems:
        line["problems"] = [str(problem) for problem in scored_probe.scored.problems]
    return line
