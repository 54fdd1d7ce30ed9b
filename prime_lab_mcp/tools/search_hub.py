"""`search_hub`: environments on the Hub (told apart from datasets on Hugging Face), models and GPUs with prices."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab import hub
from prime_lab_mcp.lab.hub import Entry
from prime_lab_mcp.lab.models.measured import measured
from prime_lab_mcp.lab.prime.answers import Models, number
from prime_lab_mcp.lab.report import Finding, Next, Outcome
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.lab.workspace import HUB_NAME
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

SHOWN = 25
_NOT_TRAINABLE = "it is a v0 environment: it can be tested, evaluated and pushed, but the platform trains only v1"


class Args(Arguments):
    kind: Annotated[Literal["environment", "model", "gpu"], Field(description="What to look for.")]
    query: Annotated[str, Field(max_length=200, description="owner/name[@version], or words; empty lists all.")] = ""


async def run(call: Call, args: Args) -> Outcome:
    if args.kind == "model":
        return await _models(call, args.query.strip())
    if args.kind == "gpu":
        return await _gpus(call, args.query.strip())
    named = HUB_NAME.match(args.query.strip())
    if named:
        return await _named(call, named["owner"], named["name"], named["version"])
    return await _search(call, args.query.strip())


async def _named(call: Call, owner: str, name: str, version: str | None) -> Outcome:
    entries: list[Entry] = []
    datasets: list[bool | None] = []

    async def ask_hub() -> None:
        entries.append(await hub.look_up(call.lab.prime, owner, name, versions=True))

    async def ask_hugging_face() -> None:
        datasets.append(await hub.is_dataset(call.lab.settings, f"{owner}/{name}"))

    async with anyio.create_task_group() as asking:
        asking.start_soon(ask_hub)
        asking.start_soon(ask_hugging_face)
    entry, dataset = entries[0], datasets[0]
    kind = _kind(entry.exists, dataset)
    findings = _doubts(call, entry, dataset, kind)
    data: dict[str, Any] = {"kind": kind, "name": entry.ref, "on_hub": entry.exists, "on_huggingface": dataset}
    if entry.exists:
        data |= await _facts(call, entry, version)
        if version is not None and not entry.holds(version):
            findings.append(_no_version(entry, version))
    elif kind == "neither":
        data["similar"] = await _similar(call, name)
    status = _status(findings)
    return Outcome(status, _said(entry, kind, data), tuple(findings), data, _next(entry, kind, data))


def _kind(on_hub: bool | None, on_hugging_face: bool | None) -> str:
    if on_hub and on_hugging_face:
        return "both"
    if on_hub:
        return "environment"
    if on_hub is None or on_hugging_face is None:
        return "unknown"
    return "dataset" if on_hugging_face else "neither"


def _doubts(call: Call, entry: Entry, dataset: bool | None, kind: str) -> list[Finding]:
    findings: list[Finding] = []
    if entry.problem is not None and entry.exists is None:
        findings.append(entry.problem.as_finding())
    if dataset is None:
        why = "in a rehearsal nobody outside is asked" if call.lab.settings.rehearsal else "it could not be reached"
        findings.append(
            Finding(
                "huggingface-not-asked",
                "blocker" if kind == "unknown" and entry.exists is False else "info",
                f"whether Hugging Face has a dataset {entry.ref} is unknown: {why}",
                "Ask again with a network connection, or try inspect_dataset with the name.",
            )
        )
    if kind == "neither":
        findings.append(
            Finding(
                "nothing-found",
                "blocker",
                f"neither the Environments Hub nor Hugging Face has {entry.ref} (a private one of others is invisible)",
                "Check the spelling, or search with words instead of a name.",
            )
        )
    return findings


async def _facts(call: Call, entry: Entry, version: str | None) -> dict[str, Any]:
    runtime = entry.runtime or await hub.runtime_from_source(call.lab.prime, entry.ref, version)
    trainable, why = {
        "v1": (True, "it is a verifiers v1 environment"),
        "v0": (False, _NOT_TRAINABLE),
        None: (None, "the Hub does not say which verifiers generation it is; pull it and run check_environment"),
    }[runtime]
    ours = call.lab.ledger.pushes(owner=entry.owner, name=entry.name, platform=call.lab.platform)
    return {
        "versions": list(entry.versions)[:SHOWN] or ([entry.version] if entry.version else []),
        "version": version or entry.version,
        "content_hash": entry.hash_of(version),
        "visibility": entry.visibility,
        "runtime": runtime,
        "trainable": trainable,
        "why": why,
        "description": quote(entry.description) if entry.description else None,
        "pushed_from_here": [p.version for p in ours][:5],
    }


async def _similar(call: Call, name: str) -> list[str]:
    found = await call.lab.prime.env_list(name, 5)
    return [str(e.get("environment")) for e in found]


def _no_version(entry: Entry, version: str) -> Finding:
    known = ", ".join(list(entry.versions)[:8]) or entry.version or "none"
    return Finding(
        "version-not-found",
        "blocker",
        f"{entry.ref} has no version {quote(version, 60)}; it has {known}",
        "Name one of these versions.",
    )


def _status(findings: list[Finding]) -> Literal["passed", "failed", "inconclusive"]:
    blockers = [f.code for f in findings if f.severity == "blocker"]
    if not blockers:
        return "passed"
    return "failed" if {"nothing-found", "version-not-found"} & set(blockers) else "inconclusive"


def _said(entry: Entry, kind: str, data: dict[str, Any]) -> str:
    if kind in ("environment", "both"):
        also = ", and a dataset of that name is on Hugging Face" if kind == "both" else ""
        fit = {True: "trainable", False: "not trainable", None: "of unknown generation"}[data["trainable"]]
        return f"{entry.ref} is an environment on the Hub ({fit}){also}."
    return {
        "dataset": f"{entry.ref} is a dataset on Hugging Face, not an environment.",
        "neither": f"{entry.ref} is neither on the Environments Hub nor on Hugging Face.",
    }.get(kind, f"What {entry.ref} is could not be settled.")


def _next(entry: Entry, kind: str, data: dict[str, Any]) -> tuple[Next, ...]:
    pinned = f"{entry.ref}@{data.get('version')}" if data.get("version") else entry.ref
    calls: list[Next] = []
    if kind in ("environment", "both"):
        if data.get("trainable"):
            calls.append(Next("write_training_config", "train on it as it is", {"environments": [pinned]}))
        calls.append(Next("create_environment", "pull it to read or change it", {"name": entry.name, "hub": pinned}))
    if kind in ("dataset", "both"):
        calls.append(Next("inspect_dataset", "see whether it makes an environment", {"dataset": entry.ref}))
    return tuple(calls) or (Next("search_hub", "search with words", {"kind": "environment", "query": entry.name}),)


async def _search(call: Call, query: str) -> Outcome:
    found = await call.lab.prime.env_list(query, SHOWN)
    rows = [
        {
            "name": e.get("environment"),
            "version": e.get("version"),
            "visibility": e.get("visibility"),
            "description": quote(e["description"], 160) if e.get("description") else None,
        }
        for e in found
    ]
    if not rows:
        return _nothing("environment", query)
    first = str(rows[0]["name"])
    return Outcome(
        "passed",
        f"{count(len(rows), 'environment')} on the Hub match.",
        data={"matches": rows},
        next=(Next("search_hub", "versions and trainability of one", {"kind": "environment", "query": first}),),
    )


async def _models(call: Call, query: str) -> Outcome:
    prime = call.lab.prime
    served = await prime.inference_models()
    offered = await prime.models()
    trainable = {name.lower(): gpus for name, gpus in offered.trainable.items()}
    evals = measured(
        row
        for tool in ("check_reward_distribution", "run_eval")
        for row in call.lab.ledger.evidence(call.lab.key, tool=tool)
    )
    known = {str(m.get("id")): m for m in served}
    names = list(known) + [name for name in offered.trainable if name not in known]
    rows = [_model(name, known.get(name, {}), trainable, evals) for name in names if query.lower() in name.lower()]
    rows.sort(key=lambda row: not row["trainable"])
    if not rows:
        return _nothing("model", query)
    return Outcome(
        "passed",
        f"{count(len(rows), 'model')} match, {sum(r['trainable'] for r in rows)} of them trainable here.",
        data={"models": rows[:SHOWN], "total": len(rows), "price_unit": "US dollars per million tokens"},
        next=(Next("run_eval", "measure one on your environment before paying for training"),),
    )


def _model(
    name: str, served: dict[str, Any], trainable: dict[str, tuple[str, ...]], evals: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    pricing = served.get("pricing") if isinstance(served.get("pricing"), dict) else {}
    specs = served.get("specs") if isinstance(served.get("specs"), dict) else {}
    shown = {
        "id": name,
        "trainable": name.lower() in trainable,
        "train_gpus": list(trainable.get(name.lower(), ())) or None,
        "input": number((pricing or {}).get("input_usd_per_mtok")),
        "output": number((pricing or {}).get("output_usd_per_mtok")),
        "served": served.get("serving"),
        "context": (specs or {}).get("context_window"),
        "note": None,
        "your_evals": evals.get(name.lower(), [])[:3] or None,
    }
    return {key: value for key, value in shown.items() if value is not None}


async def _gpus(call: Call, query: str) -> Outcome:
    models = await call.lab.prime.models()
    rows = [
        {
            "gpu_type": o.gpu_type,
            "price_per_gpu_hour": o.price_per_gpu_hour,
            "available_now": o.available_now,
            "beta": o.beta,
        }
        for o in models.offers
        if query.lower() in o.gpu_type.lower()
    ]
    reserved = _reserved(models, query, {str(r["gpu_type"]) for r in rows})
    if not rows and not reserved:
        return _nothing("GPU type", query)
    priced = [r["price_per_gpu_hour"] for r in rows if isinstance(r["price_per_gpu_hour"], float)]
    cheapest = f", from ${min(priced):.2f} per GPU-hour" if priced else ""
    return Outcome(
        "passed",
        f"{count(len(rows) + len(reserved), 'GPU type')} can be trained on{cheapest}.",
        data={"gpus": rows + reserved, "price_unit": "US dollars per GPU-hour"},
        next=(Next("write_training_config", "a config for one of them"),),
    )


def _reserved(models: Models, query: str, listed: set[str]) -> list[dict[str, Any]]:
    """GPU types of clusters that are not rented by the hour: no price is known."""
    types = sorted({g for gpus in models.trainable.values() for g in gpus} - listed)
    return [{"gpu_type": g, "price_per_gpu_hour": None} for g in types if query.lower() in g.lower()]


def _nothing(what: str, query: str) -> Outcome:
    finding = Finding(
        "nothing-found",
        "blocker",
        f"no {what} matches {quote(query, 120)}",
        "Use other or fewer words; an empty query lists everything.",
    )
    return Outcome("failed", f"No {what} matches.", (finding,))


TOOL = Tool(
    name="search_hub",
    title="Search the Hub",
    description="Find environments on the Hub (an exact owner/name is told apart from a Hugging Face dataset, with "
    "versions and trainability), or list models and GPUs with live prices.",
    args=Args,
    run=run,
    effect="reads",
    open_world=True,
)
