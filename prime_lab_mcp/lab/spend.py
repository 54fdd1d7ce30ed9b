"""Lists the costs of evaluations, training runs and judges from the ledger: the reserved bounds and the actual costs.

Amounts are US dollars. The platform is not asked: a training run's actual cost is known once `watch_run` has read it.
Items without a price are listed as entries of their own, so that a total is not mistaken for the whole cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prime_lab_mcp.lab.base.text import amount_text, as_mapping, count, finite_or_none, text_or_none
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay.endpoints import Endpoint
from prime_lab_mcp.lab.state.ledger.rows import Job, Run, SpendRow

SpendKind = Literal["evaluation", "hosted evaluation", "training run", "judge", "request"]
"""The purpose of the money. `request` is a sent request whose outcome was never recorded."""


@dataclass(frozen=True, slots=True)
class SpendEntry:
    """The cost of one evaluation, run or judge.

    `counted` is the amount that counts against the spending cap: the actual cost once known, before that the bound.
    `bound` is None if no upper bound is known, `actual` is None until the cost is known, and `unpriced` states why
    there is no price.
    """

    kind: SpendKind
    id: str
    what: str
    at: float
    environments: tuple[str, ...] = ()
    model: str | None = None
    bound: float | None = None
    actual: float | None = None
    counted: float = 0.0
    state: str | None = None
    unpriced: str | None = None
    workspace: str | None = None
    """The folder of the workspace; None if the ledger does not record it."""

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "kind": self.kind,
            "id": self.id,
            "environments": list(self.environments),
            "bound": _cents(self.bound),
            "actual": _cents(self.actual),
            "counted": _cents(self.counted),
            "at": self.at,
        }
        optional = {"model": self.model, "state": self.state, "unpriced": self.unpriced}
        return fields | {name: value for name, value in optional.items() if value is not None}


@dataclass(frozen=True, slots=True)
class SpendTotal:
    """The sums over a list of entries. `unpriced` is the number of entries without a price, which are in no sum."""

    entries: int
    bound: float
    actual: float
    counted: float
    unpriced: int

    def as_json(self) -> dict[str, Any]:
        return {
            "entries": self.entries,
            "bound": _cents(self.bound),
            "actual": _cents(self.actual),
            "counted": _cents(self.counted),
            "unpriced": self.unpriced,
        }


@dataclass(frozen=True, slots=True)
class SpendOverview:
    """Everything that was spent or reserved from one state directory on one platform, newest first."""

    workspace: str
    platform: str
    cap: float | None
    entries: tuple[SpendEntry, ...]

    @property
    def total(self) -> SpendTotal:
        return spend_total(self.entries)

    @property
    def environments(self) -> dict[str, SpendTotal]:
        """The sums by environment, the most expensive first. A run of several environments counts for them jointly."""
        groups: dict[str, list[SpendEntry]] = {}
        for entry in self.entries:
            groups.setdefault(" + ".join(entry.environments) or "not known", []).append(entry)
        totals = {name: spend_total(entries) for name, entries in groups.items()}
        return dict(sorted(totals.items(), key=lambda item: (-item[1].counted, item[0])))

    def as_json(self, most: int | None = None) -> dict[str, Any]:
        """The overview as JSON. `most` limits the entries, and `left_out` is the number of omitted ones."""
        listed = self.entries[:most]
        data: dict[str, Any] = {
            "platform": self.platform,
            "cap": self.cap,
            "total": self.total.as_json(),
            "environments": [{"name": name, **total.as_json()} for name, total in self.environments.items()][:most],
            "entries": [
                entry.as_json() | ({"elsewhere": True} if entry.workspace not in (None, self.workspace) else {})
                for entry in listed
            ],
        }
        if len(listed) < len(self.entries):
            data["left_out"] = len(self.entries) - len(listed)
        return data

    def sentence(self) -> str:
        """The total in one sentence."""
        total = self.total
        cap = f" of the cap of ${self.cap:.2f}" if self.cap is not None else ""
        unpriced = f" {count(total.unpriced, 'entry', 'entries')} without a price in it." if total.unpriced else ""
        reserved = amount_text(total.counted - total.actual)
        return (
            f"{amount_text(total.counted)}{cap} committed for {count(total.entries, 'entry', 'entries')}: "
            f"{amount_text(total.actual)} known to be spent, {reserved} reserved.{unpriced}"
        )


def spend_total(entries: Iterable[SpendEntry]) -> SpendTotal:
    """Add up entries. A missing bound counts as 0; `unpriced` counts the entries without a price."""
    listed = list(entries)
    return SpendTotal(
        len(listed),
        sum(entry.bound or 0.0 for entry in listed),
        sum(entry.actual or 0.0 for entry in listed),
        sum(entry.counted for entry in listed),
        sum(entry.unpriced is not None for entry in listed),
    )


def spend_overview(lab: Lab) -> SpendOverview:
    """Read what was reserved and spent on the lab's platform, in all workspaces of the state directory.

    The cap counts the whole state directory, so entries of other workspaces are listed too.
    """
    rows = lab.ledger.spend(lab.platform)
    jobs = [job for job in lab.ledger.jobs() if job.platform in (None, lab.platform)]
    runs = lab.ledger.runs(platform=lab.platform)
    run_ids = {row.intent: id for row in rows if (id := _result_id(lab, row))}
    return SpendOverview(lab.key, lab.platform, lab.limits.max_spend, tuple(spend_entries(rows, jobs, runs, run_ids)))


def _result_id(lab: Lab, row: SpendRow) -> str | None:
    """The id of the run that an intent led to. Needed for a restart, which has no row of its own."""
    intent = lab.ledger.intent(row.intent, lab.platform)
    return None if intent is None else text_or_none(intent.result.get("id"))


def spend_entries(
    rows: Sequence[SpendRow], jobs: Sequence[Job], runs: Sequence[Run], run_ids: Mapping[str, str]
) -> list[SpendEntry]:
    """Make one entry for each amount in the ledger, and for each evaluation and run without an amount, newest first.

    `run_ids` maps an intent to the id of the run that it led to.
    """
    by_intent = {row.intent: row for row in rows}
    hosted = {str(run.data.get("job")): run for run in runs if run.kind == "hosted-eval"}
    entries: list[SpendEntry] = []
    explained: set[str] = set()
    for job in jobs:
        run = hosted.get(job.id)
        row = by_intent.get(job.id if run is None else run.intent)
        explained.update(one.intent for one in (row, run) if one is not None)
        entries.append(_evaluation_entry(job, run, row))
    of_jobs = {job.id for job in jobs}
    for run in runs:
        if run.kind == "training" or str(run.data.get("job")) not in of_jobs:
            explained.add(run.intent)
            entries.append(_run_entry(run, by_intent.get(run.intent)))
    by_id = {run.id: run for run in runs}
    entries += [
        _other_entry(row, by_id.get(run_ids.get(row.intent, ""))) for row in rows if row.intent not in explained
    ]
    return sorted(entries, key=lambda entry: entry.at, reverse=True)


def _evaluation_entry(job: Job, run: Run | None, row: SpendRow | None) -> SpendEntry:
    spec = as_mapping(job.spec)
    bound, actual = _amounts(row, finite_or_none(spec.get("max_cost")))
    if actual is None:
        actual = finite_or_none(job.progress.get("cost"))
    own = bound is None and not actual and _own_server(spec)
    return SpendEntry(
        kind="evaluation" if not spec.get("hosted") else "hosted evaluation",
        id=job.id,
        what=f"evaluation of {job.environment}",
        at=job.at,
        environments=(job.environment,),
        model=text_or_none(spec.get("model")),
        bound=0.0 if own or spec.get("rescored") else bound,
        actual=0.0 if own or spec.get("rescored") else actual,
        counted=row.amount if row is not None else 0.0,
        state=job.state,
        unpriced=None if own or spec.get("rescored") or bound is not None else "the endpoint lists no price",
        workspace=job.workspace,
    )


def _own_server(spec: Mapping[str, Any]) -> bool:
    """Whether an evaluation used a server on this machine that takes no key and lists no price."""
    try:
        endpoint = Endpoint(**spec["endpoint"])
    except (KeyError, TypeError):
        return False
    return not spec.get("price") and endpoint.on_loopback and endpoint.key_variable is None


def _run_entry(run: Run, row: SpendRow | None) -> SpendEntry:
    bound, actual = _amounts(row, run.max_cost)
    config = as_mapping(run.data.get("card")).get("environments")
    listed = (
        [as_mapping(one).get("id") for one in config] if isinstance(config, list) else [run.data.get("environment")]
    )
    return SpendEntry(
        kind="training run" if run.kind == "training" else "hosted evaluation",
        id=run.id,
        what=run.name,
        at=run.at,
        environments=tuple(dict.fromkeys(_folder_name(name) for name in listed if isinstance(name, str) and name)),
        model=text_or_none(run.data.get("model")),
        bound=bound,
        actual=actual,
        counted=row.amount if row is not None else 0.0,
        unpriced=None if bound is not None else "no upper bound was known when it was sent",
        workspace=run.workspace,
    )


def _other_entry(row: SpendRow, run: Run | None) -> SpendEntry:
    """An amount that belongs to no job: a judge, a restart, or a request whose outcome was never recorded."""
    bound, actual = _amounts(row, None)
    known = _run_entry(run, None) if run is not None else None
    return SpendEntry(
        kind=known.kind if known is not None else "judge" if row.environment else "request",
        id=known.id if known is not None else row.intent[:8],
        what=row.what,
        at=row.at,
        environments=known.environments if known is not None else (row.environment,) if row.environment else (),
        bound=bound,
        actual=actual,
        counted=row.amount,
        unpriced=None if bound is not None or actual is not None else "the endpoint lists no price",
        workspace=known.workspace if known is not None else row.workspace,
    )


def _amounts(row: SpendRow | None, agreed: float | None) -> tuple[float | None, float | None]:
    """The bound and the actual cost of a row.

    Rows of older ledgers have neither. Their amount is the actual cost if it differs from the `agreed` bound.
    """
    if row is None:
        return agreed, None
    if row.bound is not None or row.actual is not None:
        return (agreed if row.bound is None else row.bound), row.actual
    if agreed is None:
        return (row.amount or None), None
    return agreed, (row.amount if abs(row.amount - agreed) > 1e-9 else None)


def _folder_name(id: str) -> str:
    """The name of an environment's folder for `owner/name@version`."""
    return id.rpartition("/")[2].partition("@")[0].replace("-", "_")


def _cents(amount: float | None) -> float | None:
    """Round US dollars to a hundredth of a cent, because an evaluation may cost less than a cent."""
    return None if amount is None else round(amount, 4)
