"""Models and GPUs for `search_hub`: the live lists, joined with the registry and with evaluations on this machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Finding, Link, Next
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models import listing
from prime_lab_mcp.lab.models.listing import LiveLists
from prime_lab_mcp.lab.models.memory import gpu_memory
from prime_lab_mcp.lab.models.registry import find_model
from prime_lab_mcp.lab.prime.answers import PlatformModels
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.outcome import Outcome


def evaluations_by_model(history: Iterable[Evidence]) -> dict[str, list[dict[str, Any]]]:
    """Evaluations on this machine by model name in lower case, newest first, one for each environment."""
    found: dict[str, list[dict[str, Any]]] = {}
    seen: set[tuple[str, str | None]] = set()
    for row in history:
        mean = row.data.get("mean_reward", row.data.get("mean"))
        if row.model is None or mean is None or (row.model.lower(), row.environment) in seen:
            continue
        seen.add((row.model.lower(), row.environment))
        entry = {"environment": row.environment, "mean_reward": mean, "status": row.status}
        found.setdefault(row.model.lower(), []).append(entry)
    return found


SHOWN_MODELS = 25
_DOUBTED = 3
"""Number of model rows about which findings are written; the other rows show their doubts in fields."""


async def search_models(lab: Lab, query: str) -> Outcome:
    lists = await listing.fetch_lists(lab)
    if lists.offered is None and lists.served is None:
        raise lists.problems[0]
    evals = evaluations_by_model(
        row for tool in ("check_reward_distribution", "run_eval") for row in lab.ledger.evidence(lab.key, tool=tool)
    )
    wanted = listing.folded_name(query) if query else ""
    names = [n for n in listing.listed_names(lists) if query.lower() in n.lower() or wanted == listing.folded_name(n)]
    rows = [listing.model_row(name, lists, evals) for name in names]
    rows.sort(key=lambda row: not row.get("trainable"))
    findings = [_half(problem) for problem in lists.problems]
    if not rows:
        known = find_model(query)
        if not (known.known or known.closed):
            return nothing_found("model", query)
        rows = [listing.model_row(query, lists, evals)]
        findings.append(_not_offered(query, lists))
    findings += [_not_served(row) for row in rows[:_DOUBTED] if _unserved(row, lists)]
    return Outcome(
        "passed",
        _counted(rows, lists),
        tuple(findings),
        {"models": rows[:SHOWN_MODELS], "total": len(rows), "price_unit": "US dollars per million tokens"},
        next=_measure(rows),
        links=(Link("lab://models", "Models: the registry and the live lists"),),
    )


def _counted(rows: list[dict[str, Any]], lists: LiveLists) -> str:
    trained = f"{sum(bool(r.get('trainable')) for r in rows)} of them trainable here"
    match = f"{count(len(rows), 'model')} {'matches' if len(rows) == 1 else 'match'}"
    return f"{match}, {trained if lists.offered else 'trainable or not could not be asked'}."


def _measure(rows: list[dict[str, Any]]) -> tuple[Next, ...]:
    first = next((r for r in rows if r.get("trainable") and r.get("served")), None)
    given = {"environment": "NAME", "model": first["id"]} if first else None
    return (Next("run_eval", "measure one on your environment before paying for training", given),)


def _unserved(row: dict[str, Any], lists: LiveLists) -> bool:
    return bool(row.get("trainable")) and lists.served is not None and "served" not in row


def _not_served(row: dict[str, Any]) -> Finding:
    return Finding(
        "model-not-served",
        "warning",
        f"the platform trains {quote(row['id'], 100)}, but its inference does not serve it: run_eval cannot measure it "
        "there",
        'Evaluate it through an endpoint of your own (run_eval with endpoint="vllm"), or a sibling that is served.',
    )


def _not_offered(query: str, lists: LiveLists) -> Finding:
    asked = [what for what, had in (("trains", lists.offered), ("serves", lists.served)) if had is not None]
    neither = "neither trains nor serves" if len(asked) == 2 else f"no longer {asked[0]}"
    return Finding(
        "model-not-offered",
        "warning",
        f"the platform {neither} {quote(query, 100)} now; what is shown is the registry's, with its dates",
        "Choose one that an empty query lists, or train and evaluate it on GPUs of your own.",
    )


def _half(problem: LabError) -> Finding:
    """A finding for a list that could not be read; the other list is still shown."""
    return replace(problem.as_finding(), severity="warning")


async def search_gpus(lab: Lab, query: str) -> Outcome:
    offered = await lab.prime.models()
    rows = [
        _gpu(o.gpu_type, o.price_per_gpu_hour, available_now=o.available_now, beta=o.beta, models=offered)
        for o in offered.offers
        if query.lower() in o.gpu_type.lower()
    ]
    reserved = _reserved(offered, query, {str(r["gpu_type"]) for r in rows})
    if not rows and not reserved:
        return nothing_found("GPU type", query)
    priced = [r["price_per_gpu_hour"] for r in rows if isinstance(r["price_per_gpu_hour"], float)]
    cheapest = f", from ${min(priced):.2f} per GPU-hour" if priced else ""
    free = [str(r["gpu_type"]) for r in rows if r["available_now"]]
    now = (
        f"; available now: {', '.join(free[:6])}"
        if free
        else "; none of them is said to be available now"
        if rows
        else ""
    )
    return Outcome(
        "passed",
        f"{count(len(rows) + len(reserved), 'GPU type')} can be trained on{cheapest}{now}.",
        data={"gpus": rows + reserved, "price_unit": "US dollars per GPU-hour", "memory_unit": "GiB per GPU"},
        next=(
            Next(
                "write_training_config",
                "a config for one of them",
                {"gpu_type": (free or [rows[0]["gpu_type"]])[0]} if rows else None,
            ),
        ),
    )


def _gpu(
    type: str, price: float | None, *, available_now: bool | None, beta: bool = False, models: PlatformModels
) -> dict[str, Any]:
    return {
        "gpu_type": type,
        "price_per_gpu_hour": price,
        "available_now": available_now,
        "memory": gpu_memory(type),
        "beta": beta,
        "clusters_train": sorted(name for name, gpus in models.trainable.items() if type in gpus)[:8],
    }


def _reserved(models: PlatformModels, query: str, listed: set[str]) -> list[dict[str, Any]]:
    """GPU types of clusters that are not rented by the hour, so that no price is known."""
    types = sorted({g for gpus in models.trainable.values() for g in gpus} - listed)
    return [_gpu(g, None, available_now=None, models=models) for g in types if query.lower() in g.lower()]


def nothing_found(what: str, query: str) -> Outcome:
    finding = Finding(
        "nothing-found",
        "blocker",
        f"no {what} matches {quote(query, 120)}",
        "Use other or fewer words; an empty query lists everything.",
    )
    return Outcome("failed", f"No {what} matches.", (finding,))
