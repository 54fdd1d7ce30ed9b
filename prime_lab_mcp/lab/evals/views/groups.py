"""`groups`: rewards by a field of the tasks, a component, a metric or a stop condition; or which fields there are."""

from __future__ import annotations

import difflib
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.distribution.intervals import clustered
from prime_lab_mcp.lab.errors import EvalError
from prime_lab_mcp.lab.evals.conversation import task_data
from prime_lab_mcp.lab.evals.views.columns import CUT, FAILED, Columns
from prime_lab_mcp.lab.evals.views.fields import MISSING, flat, value_of
from prime_lab_mcp.lab.evals.views.separation import SIGNIFICANT, Separation, corrected, separation
from prime_lab_mcp.lab.evals.views.values import NONE, OTHER, Values
from prime_lab_mcp.lab.evals.views.viewed import Evaluated, Viewed
from prime_lab_mcp.lab.report import Next
from prime_lab_mcp.lab.text import count, quote, rounded

PAGE = 25
_LONG_TEXT = 80
_OF_ROLLOUTS = ("stop", "truncated", "error", "tokens")
"""What groups rollouts rather than tasks, and is always there."""


def groups(evaluated: Evaluated, by: str | None = None, page: int = 1) -> Viewed:
    """Groups of one field, worst first; without `by` the fields. Raises EvalError (`field-unknown`)."""
    return _fields(evaluated) if by is None else _groups(evaluated, by.strip(), page)


def _groups(evaluated: Evaluated, by: str, page: int) -> Viewed:
    columns, values = Columns(evaluated.spec.weights), Values()
    names: set[str] = set()
    seen = False
    for rollout in evaluated.rollouts():
        columns.add(rollout)
        value = value_of(rollout, by)
        seen = seen or value is not MISSING
        values.add(value)
        if not seen:
            names |= {path for path, _ in flat(task_data(rollout))} | {*rollout.components, *rollout.metrics}
    if not seen:
        raise _unknown(by, names)
    codes, labels = values.groups()
    rows = _rows(columns, codes, labels)
    rows.sort(key=lambda r: (r["mean"] is None, r["mean"] if r["mean"] is not None else 0.0))
    pages = max(1, -(-len(rows) // PAGE))
    page = min(page, pages)
    found = _separates(columns, codes)
    data: dict[str, Any] = {
        "id": evaluated.id,
        "by": by,
        "separates": None if found is None else {"variance_share": rounded(found.share), "p": _significant(found.p)},
        "page": page,
        "pages": pages,
        "groups": rows[(page - 1) * PAGE : page * PAGE],
    }
    return Viewed(_compared(by, rows, found), data, next=_following(evaluated, by, rows))


@dataclass(slots=True)
class _Group:
    rollouts: int = 0
    failed: int = 0
    cut: int = 0
    passed: int = 0
    sums: dict[int, list[float]] = field(default_factory=dict)
    """Task to [scored rollouts, sum of reward / attainable]."""

    def row(self, label: str) -> dict[str, Any]:
        scored = self.rollouts - self.failed
        mean, _ = clustered([total / n for n, total in self.sums.values()], scored)
        low, high = max(mean.low, min(mean.value, 0.0)), min(mean.high, max(mean.value, 1.0))
        return {
            "value": label,
            "tasks": len(self.sums),
            "rollouts": self.rollouts,
            "mean": rounded(mean.value) if self.sums else None,
            "interval": [rounded(low), rounded(high)],
            "pass_rate": rounded(self.passed / scored) if scored else None,
            "truncated": rounded(self.cut / self.rollouts),
            "errors": self.failed,
        }


def _rows(columns: Columns, codes: Sequence[int], labels: Sequence[str]) -> list[dict[str, Any]]:
    best = columns.best
    found: dict[int, _Group] = {}
    for index, code in enumerate(codes):
        group = found.setdefault(code, _Group())
        flags = columns.flags[index]
        group.rollouts += 1
        group.cut += bool(flags & CUT)
        if flags & FAILED:
            group.failed += 1
            continue
        group.passed += columns.passed(index, best)
        entry = group.sums.setdefault(columns.task[index], [0.0, 0.0])
        entry[0] += 1
        entry[1] += columns.reward[index] / best
    return [group.row(labels[code]) for code, group in found.items()]


def _separates(columns: Columns, codes: Sequence[int]) -> Separation | None:
    """For a field of tasks; None where rollouts of one task lie in several groups."""
    group: dict[int, int] = {}
    for number, code in zip(columns.task, codes, strict=True):
        if group.setdefault(number, code) != code:
            return None
    tallies = columns.tallies()
    told = [number for number in group if tallies[number].n]
    return separation([tallies[n].mean for n in told], [group[n] for n in told])


def _fields(evaluated: Evaluated) -> Viewed:
    columns, fields = Columns(evaluated.spec.weights), dict[str, Values]()
    of_rollouts: set[str] = set()
    for rollout in evaluated.rollouts():
        tasks = len(columns.keys)
        if columns.add(rollout) == tasks:
            _take(fields, dict(flat(task_data(rollout))), tasks)
        of_rollouts |= {*rollout.components, *rollout.metrics}
    tallies = columns.tallies()
    told = [number for number, tally in enumerate(tallies) if tally.n]
    means = [tallies[n].mean for n in told]
    rows = [_field(name, values, means, told, len(tallies)) for name, values in sorted(fields.items())]
    looked = sum(row["p"] is not None for row in rows)
    for row in rows:
        row["p"] = None if row["p"] is None else _significant(corrected(row["p"], looked))
    rows.sort(key=lambda r: (r["p"] is None, r["p"] or 0.0, -(r["variance_share"] or 0.0)))
    data = {
        "id": evaluated.id,
        "fields": rows[:40],
        "of_rollouts": [*_OF_ROLLOUTS, *(quote(n, 60).strip('"') for n in sorted(of_rollouts)[:40])],
    }
    first = rows[0] if rows and rows[0]["p"] is not None else None
    names = [first["field"]] if first else ["stop"]
    calls = tuple(
        Next("read_eval", f"rewards by {name}", {"eval": evaluated.id, "view": "groups", "by": name}) for name in names
    )
    return Viewed(_told(rows, first, looked), data, next=calls)


def _take(fields: dict[str, Values], values: dict[str, Any], tasks: int) -> None:
    """One more task; a field that earlier tasks did not have gets its gap filled."""
    for name in values.keys() - fields.keys():
        fields[name] = Values()
        for _ in range(tasks):
            fields[name].add(MISSING)
    for name, found in fields.items():
        found.add(values.get(name, MISSING))


def _field(name: str, values: Values, means: Sequence[float], told: Sequence[int], tasks: int) -> dict[str, Any]:
    codes, labels = values.groups()
    # As many texts as tasks are no groups: a question, a title, an id.
    unique = not values.numeric and 2 * values.distinct > tasks
    found = None if unique else separation(means, array("I", (codes[n] for n in told)))
    shown = [label for label in labels if len(label) <= _LONG_TEXT]
    return {
        "field": quote(name, 80).strip('"'),
        "values": values.distinct,
        "examples": shown[:3] if unique else shown[:6],
        "variance_share": None if found is None else rounded(found.share),
        "p": None if found is None else found.p,
    }


def _told(rows: Sequence[dict[str, Any]], first: dict[str, Any] | None, looked: int) -> str:
    if first is None:
        what = count(len(rows), "field")
        return f"The tasks have {what}, and none of them puts tasks into groups that could be compared."
    share = f"{first['variance_share']:.0%} of what tasks differ by"
    if first["p"] <= SIGNIFICANT:
        return (
            f"{first['field']} separates rewards most: {share} (p {_p(first['p'])}, corrected for "
            f"{count(looked, 'field')})."
        )
    return (
        f"No field separates rewards beyond chance; {first['field']} comes closest with {share} "
        f"(p {_p(first['p'])}, corrected for {count(looked, 'field')})."
    )


def _compared(by: str, rows: Sequence[dict[str, Any]], found: Separation | None) -> str:
    scored = [r for r in rows if r["mean"] is not None]
    name = quote(by, 60)
    if not scored:
        return f"No rollout was scored, so nothing is known by {name}."
    if len(scored) == 1:
        return f"All scored rollouts have one value of {name}."
    spread = f"mean {scored[0]['mean']:.2f} ({scored[0]['value']}) to {scored[-1]['mean']:.2f} ({scored[-1]['value']})"
    if found is None:
        return f"{count(len(rows), 'group')} by {name}: {spread}."
    beyond = "more than chance would" if found.p <= SIGNIFICANT else "no more than chance would"
    return (
        f"{count(len(rows), 'group')} by {name}: {spread}; it explains {found.share:.0%} of what tasks differ by "
        f"(p {_p(found.p)}), {beyond}."
    )


def _following(evaluated: Evaluated, by: str, rows: Sequence[dict[str, Any]]) -> tuple[Next, ...]:
    here = {"eval": evaluated.id, "view": "rollouts"}
    if len(rows) < 2 or rows[0]["value"] in (NONE, OTHER):
        return (Next("read_eval", "which fields there are", {"eval": evaluated.id, "view": "groups"}),)
    value = str(rows[0]["value"]).strip('"')
    where = f"{by}>={value.split(' to ')[0]} and {by}<={value.split(' to ')[1]}" if " to " in value else f"{by}={value}"
    return (Next("read_eval", "rollouts of the worst group", {**here, "where": where}),)


def _significant(p: float) -> float:
    return float(f"{p:.3g}") if math.isfinite(p) else 1.0


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


def _unknown(by: str, names: set[str]) -> EvalError:
    known = sorted(names)
    close = difflib.get_close_matches(by, known, 3) or known[:12]
    offered = ", ".join(quote(n, 40) for n in close) or ", ".join(_OF_ROLLOUTS)
    return EvalError(
        f"no rollout has a field {quote(by, 80)}",
        fix=f"Give by one of {offered}, or leave it out to list them.",
        code="field-unknown",
        next=(Next("read_eval", "lists the fields", {"view": "groups"}),),
    )
