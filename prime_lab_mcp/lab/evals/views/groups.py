"""The view `groups` of read_eval: rewards grouped by a field of the tasks, a component, a metric or a stop condition.

Without a field, the view lists the fields. `Separation` measures how well a field distinguishes easy from hard tasks:
it is the share of the variance of the task means that lies between the groups.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.statistics import clustered_interval, f_tail
from prime_lab_mcp.lab.base.text import count, quote, rounded
from prime_lab_mcp.lab.evals.views.columns import (
    FAILED_ROLLOUT,
    TRUNCATED_ROLLOUT,
    Columns,
    FinishedEvaluation,
    ViewResult,
)
from prime_lab_mcp.lab.evals.views.fields import (
    MISSING,
    NO_VALUE,
    OTHER_VALUES,
    FieldNames,
    FieldValues,
    flat_fields,
    value_of,
)
from prime_lab_mcp.lab.rollouts.conversation import task_data

SIGNIFICANCE_LEVEL = 0.05
_FEWEST = 2
"""Least number of tasks in a group whose spread can be estimated."""


@dataclass(frozen=True, slots=True)
class Separation:
    """How well a field separates tasks. `share` is eta squared: the variance of the task means between groups, as a
    share of their whole variance.

    `p` is the p-value of an F test, not corrected for the number of fields.
    """

    share: float
    p: float


def separation(means: Sequence[float], codes: Sequence[int]) -> Separation | None:
    """Return how well groups separate task means. `codes` gives the group of each task mean.

    Groups with one task are ignored. None if fewer than two groups remain, or if all means are equal.
    """
    groups: dict[int, list[float]] = {}
    for mean, code in zip(means, codes, strict=True):
        groups.setdefault(code, []).append(mean)
    sizeable = [g for g in groups.values() if len(g) >= _FEWEST]
    n = sum(map(len, sizeable))
    between, within = len(sizeable) - 1, n - len(sizeable)
    if between < 1 or within < 1:
        return None
    grand = math.fsum(x for g in sizeable for x in g) / n
    centres = [math.fsum(g) / len(g) for g in sizeable]
    explained = math.fsum(len(g) * (c - grand) ** 2 for g, c in zip(sizeable, centres, strict=True))
    residual = math.fsum((x - c) ** 2 for g, c in zip(sizeable, centres, strict=True) for x in g)
    if explained + residual < 1e-12:
        return None
    if residual < 1e-12:
        return Separation(1.0, _partition_probability([len(g) for g in sizeable]))
    f = (explained / between) / (residual / within)
    return Separation(explained / (explained + residual), f_tail(f, between, within))


def _partition_probability(sizes: Sequence[int]) -> float:
    """Return the probability that a random partition into groups of these sizes is the observed one."""
    return math.exp(math.fsum(math.lgamma(s + 1) for s in sizes) - math.lgamma(sum(sizes) + 1))


def bonferroni(p: float, fields: int) -> float:
    """Return a p-value with Bonferroni's correction for the number of tested fields."""
    return min(1.0, p * max(fields, 1))


PAGE = 25
"""Groups on one page."""
_LONG_TEXT = 80
_OF_ROLLOUTS = ("stop", "truncated", "error", "tokens")
"""Fields that every rollout has and that can differ between rollouts of one task."""


def groups_view(evaluated: FinishedEvaluation, by: str | None = None, page: int = 1) -> ViewResult:
    """Return the groups of the field `by`, with the lowest mean first, or the list of fields without `by`.

    Raises EvalError (`field-unknown`).
    """
    return _fields(evaluated) if by is None else _groups(evaluated, by.strip(), page)


def _groups(evaluated: FinishedEvaluation, by: str, page: int) -> ViewResult:
    columns, field_values = Columns(evaluated.spec.weights), FieldValues()
    names = FieldNames([by])
    for rollout in evaluated.rollouts():
        columns.add(rollout)
        field_values.add(value_of(rollout, by))
        names.add(rollout)
    names.require_existing("by", evaluated.id)
    codes, labels = field_values.groups()
    rows = _rows(columns, codes, labels)
    rows.sort(
        key=lambda r: (
            r["mean_of_attainable"] is None,
            r["mean_of_attainable"] if r["mean_of_attainable"] is not None else 0.0,
        )
    )
    pages = max(1, -(-len(rows) // PAGE))
    page = min(page, pages)
    separated = _separates(columns, codes)
    data: dict[str, Any] = {
        "id": evaluated.id,
        "by": by,
        "separates": None
        if separated is None
        else {"variance_share": rounded(separated.share), "p": _rounded_p(separated.p)},
        "page": page,
        "pages": pages,
        "groups": rows[(page - 1) * PAGE : page * PAGE],
    }
    return ViewResult(_groups_summary(by, rows, separated), data, next=_next_calls(evaluated, by, rows))


@dataclass(slots=True)
class _Group:
    """Counts and sums of the rollouts with one value of the field."""

    rollouts: int = 0
    failed: int = 0
    cut: int = 0
    passed: int = 0
    sums: dict[int, list[float]] = field(default_factory=dict)
    """`[scored rollouts, sum of reward / attainable]` by task."""

    def row(self, label: str) -> dict[str, Any]:
        scored = self.rollouts - self.failed
        mean, _ = clustered_interval([total / n for n, total in self.sums.values()], scored)
        low, high = max(mean.low, min(mean.value, 0.0)), min(mean.high, max(mean.value, 1.0))
        return {
            "value": label,
            "tasks": len(self.sums),
            "rollouts": self.rollouts,
            "mean_of_attainable": rounded(mean.value) if self.sums else None,
            "interval": [rounded(low), rounded(high)],
            "pass_rate": rounded(self.passed / scored) if scored else None,
            "truncated": rounded(self.cut / self.rollouts),
            "errors": self.failed,
        }


def _rows(columns: Columns, codes: Sequence[int], labels: Sequence[str]) -> list[dict[str, Any]]:
    best = columns.best
    groups: dict[int, _Group] = {}
    for index, code in enumerate(codes):
        group = groups.setdefault(code, _Group())
        flags = columns.flags[index]
        group.rollouts += 1
        group.cut += bool(flags & TRUNCATED_ROLLOUT)
        if flags & FAILED_ROLLOUT:
            group.failed += 1
            continue
        group.passed += columns.passed(index, best)
        entry = group.sums.setdefault(columns.task[index], [0.0, 0.0])
        entry[0] += 1
        entry[1] += columns.reward[index] / best
    return [group.row(labels[code]) for code, group in groups.items()]


def _separates(columns: Columns, codes: Sequence[int]) -> Separation | None:
    """Return how well a field separates tasks. `codes` gives the group of each rollout.

    None if the rollouts of a task are in different groups, because the field then does not group tasks.
    """
    group: dict[int, int] = {}
    for number, code in zip(columns.task, codes, strict=True):
        if group.setdefault(number, code) != code:
            return None
    tallies = columns.tallies()
    scored = [number for number in group if tallies[number].n]
    return separation([tallies[n].mean for n in scored], [group[n] for n in scored])


def _fields(evaluated: FinishedEvaluation) -> ViewResult:
    columns, fields = Columns(evaluated.spec.weights), dict[str, FieldValues]()
    of_rollouts: set[str] = set()
    for rollout in evaluated.rollouts():
        tasks = len(columns.keys)
        if columns.add(rollout) == tasks:
            _add_task_fields(fields, dict(flat_fields(task_data(rollout))), tasks)
        of_rollouts |= {*rollout.components, *rollout.metrics}
    tallies = columns.tallies()
    scored = [number for number, tally in enumerate(tallies) if tally.n]
    means = [tallies[n].mean for n in scored]
    rows = [_field(name, field_values, means, scored, len(tallies)) for name, field_values in sorted(fields.items())]
    tested = sum(row["p"] is not None for row in rows)
    for row in rows:
        row["p"] = None if row["p"] is None else _rounded_p(bonferroni(row["p"], tested))
    rows.sort(key=lambda r: (r["p"] is None, r["p"] or 0.0, -(r["variance_share"] or 0.0)))
    data = {
        "id": evaluated.id,
        "fields": rows[:40],
        "of_rollouts": [*_OF_ROLLOUTS, *(quote(n, 60).strip('"') for n in sorted(of_rollouts)[:40])],
    }
    first = rows[0] if rows and rows[0]["p"] is not None else None
    call = Next("read_eval", "the replies themselves: no field groups them", {"eval": evaluated.id, "view": "rollouts"})
    if first:
        by = {"eval": evaluated.id, "view": "groups", "by": first["field"]}
        call = Next("read_eval", f"rewards by {first['field']}", by)
    calls = (call,)
    return ViewResult(_fields_summary(rows, first, tested), data, next=calls)


def _add_task_fields(fields: dict[str, FieldValues], task_values: dict[str, Any], tasks: int) -> None:
    """Add the values of one more task. A field that the `tasks` earlier tasks lacked has MISSING for each of them."""
    for name in task_values.keys() - fields.keys():
        fields[name] = FieldValues()
        for _ in range(tasks):
            fields[name].add(MISSING)
    for name, column in fields.items():
        column.add(task_values.get(name, MISSING))


def _field(
    name: str, field_values: FieldValues, means: Sequence[float], scored: Sequence[int], tasks: int
) -> dict[str, Any]:
    codes, labels = field_values.groups()
    # A field with about as many texts as tasks does not group them, such as a question, a title or an id.
    unique = not field_values.numeric and 2 * field_values.distinct > tasks
    separated = None if unique else separation(means, array("I", (codes[n] for n in scored)))
    short_labels = [label for label in labels if len(label) <= _LONG_TEXT]
    return {
        "field": quote(name, 80).strip('"'),
        "values": field_values.distinct,
        "examples": short_labels[:3] if unique else short_labels[:6],
        "variance_share": None if separated is None else rounded(separated.share),
        "p": None if separated is None else separated.p,
    }


def _fields_summary(rows: Sequence[dict[str, Any]], first: dict[str, Any] | None, tested: int) -> str:
    if first is None:
        number_of_fields = count(len(rows), "field")
        return f"The tasks have {number_of_fields}, and none of them puts tasks into groups that could be compared."
    share = f"{first['variance_share']:.0%} of what tasks differ by"
    if first["p"] <= SIGNIFICANCE_LEVEL:
        return (
            f"{first['field']} separates rewards most: {share} (p {_p_text(first['p'])}, corrected for "
            f"{count(tested, 'field')})."
        )
    return (
        f"No field separates rewards beyond chance; {first['field']} comes closest with {share} "
        f"(p {_p_text(first['p'])}, corrected for {count(tested, 'field')})."
    )


def _groups_summary(by: str, rows: Sequence[dict[str, Any]], separated: Separation | None) -> str:
    scored = [r for r in rows if r["mean_of_attainable"] is not None]
    name = quote(by, 60)
    if not scored:
        return f"No rollout was scored, so nothing is known by {name}."
    if len(scored) == 1:
        return f"All scored rollouts have one value of {name}."
    low, high = scored[0], scored[-1]
    spread = (
        f"mean of attainable {low['mean_of_attainable']:.2f} ({low['value']}) to "
        f"{high['mean_of_attainable']:.2f} ({high['value']})"
    )
    if separated is None:
        return f"{count(len(rows), 'group')} by {name}: {spread}."
    beyond = "more than chance would" if separated.p <= SIGNIFICANCE_LEVEL else "no more than chance would"
    return (
        f"{count(len(rows), 'group')} by {name}: {spread}; it explains {separated.share:.0%} of what tasks differ by "
        f"(p {_p_text(separated.p)}), {beyond}."
    )


def _next_calls(evaluated: FinishedEvaluation, by: str, rows: Sequence[dict[str, Any]]) -> tuple[Next, ...]:
    arguments = {"eval": evaluated.id, "view": "rollouts"}
    if len(rows) < 2 or rows[0]["value"] in (NO_VALUE, OTHER_VALUES):
        return (Next("read_eval", "the replies themselves: this field does not group them", arguments),)
    value = str(rows[0]["value"]).strip('"')
    where = f"{by}>={value.split(' to ')[0]} and {by}<={value.split(' to ')[1]}" if " to " in value else f"{by}={value}"
    return (Next("read_eval", "rollouts of the worst group", {**arguments, "where": where}),)


def _rounded_p(p: float) -> float:
    return float(f"{p:.3g}") if math.isfinite(p) else 1.0


def _p_text(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"
