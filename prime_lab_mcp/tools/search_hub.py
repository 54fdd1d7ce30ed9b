"""`search_hub`: finds environments on the Hub (and tells them from datasets on Hugging Face), models and GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.hub import lookup
from prime_lab_mcp.lab.hub.lookup import HubEntry
from prime_lab_mcp.lab.hub.ownership import TrainingCandidate, training_candidate
from prime_lab_mcp.lab.models import listing
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.workspace import HUB_NAME
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

LISTED = 25
_WORDS = 4
"""Most words of a query that are searched for one by one."""


class Args(Arguments):
    kind: Annotated[Literal["environment", "model", "gpu"], Field(description="What to look for.")]
    query: Annotated[str, Field(max_length=200, description="owner/name[@version], or words; empty lists all.")] = ""


async def run(call: Call, args: Args) -> Outcome:
    if args.kind == "model":
        return await listing.search_models(call.lab, args.query.strip())
    if args.kind == "gpu":
        return await listing.search_gpus(call.lab, args.query.strip())
    named = HUB_NAME.match(args.query.strip())
    if named:
        return await _named(call, named["owner"], named["name"], named["version"])
    return await _search(call, args.query.strip())


async def _named(call: Call, owner: str, name: str, version: str | None) -> Outcome:
    entries: list[HubEntry] = []
    datasets: list[bool | None] = []

    async def ask_hub() -> None:
        entries.append(await lookup.look_up_environment(call.lab.prime, owner, name, versions=True))

    async def ask_hugging_face() -> None:
        datasets.append(await lookup.is_dataset(call.lab.settings, f"{owner}/{name}"))

    async with anyio.create_task_group() as asking:
        asking.start_soon(ask_hub)
        asking.start_soon(ask_hugging_face)
    entry, dataset = entries[0], datasets[0]
    kind = _kind(entry.exists, dataset)
    findings = _warnings(call, entry, dataset, kind)
    data: dict[str, Any] = {"kind": kind, "name": entry.ref, "on_hub": entry.exists, "on_huggingface": dataset}
    candidate: TrainingCandidate | None = None
    if entry.exists and version is not None and not entry.holds(version):
        findings.append(_no_version(entry, version))
        data["versions"] = list(entry.versions)[:LISTED]
    elif entry.exists:
        candidate = await training_candidate(call.lab, entry, version)
        data |= _facts(candidate)
    elif kind == "neither":
        data["similar"] = await _similar(call, name)
    return Outcome(
        _status(findings), _summary(entry, kind, candidate), tuple(findings), data, _next(entry, kind, candidate)
    )


def _kind(on_hub: bool | None, on_hugging_face: bool | None) -> str:
    if on_hub and on_hugging_face:
        return "both"
    if on_hub:
        return "environment"
    if on_hub is None or on_hugging_face is None:
        return "unknown"
    return "dataset" if on_hugging_face else "neither"


def _warnings(call: Call, entry: HubEntry, dataset: bool | None, kind: str) -> list[Finding]:
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
                Fix("Ask again with a network connection, or try ", NamedCall("inspect_dataset"), " with the name."),
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


def _facts(candidate: TrainingCandidate) -> dict[str, Any]:
    entry = candidate.entry
    return {
        "versions": list(entry.versions)[:LISTED] or ([entry.version] if entry.version else []),
        "version": candidate.version,
        "content_hash": entry.hash_of(candidate.version),
        "visibility": entry.visibility,
        "description": quote(entry.description) if entry.description else None,
        **candidate.as_json(),
    }


async def _similar(call: Call, name: str) -> list[str]:
    listed = await call.lab.prime.env_list(name, 5)
    return [str(e.get("environment")) for e in listed]


def _no_version(entry: HubEntry, version: str) -> Finding:
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


def _summary(entry: HubEntry, kind: str, candidate: TrainingCandidate | None) -> str:
    if kind in ("environment", "both"):
        also = ", and a dataset of that name is on Hugging Face" if kind == "both" else ""
        if candidate is None:
            return f"{entry.ref} is an environment on the Hub, without that version{also}."
        fit = {True: "trainable", False: "not trainable", None: "of unknown generation"}[candidate.trainable]
        whose = ", published from files of this machine: its gates stay" if candidate.ours else ""
        fast = ", and can be trained as it is" if candidate.fast else ""
        return f"{entry.ref} is an environment on the Hub ({fit}{whose}){fast}{also}."
    return {
        "dataset": f"{entry.ref} is a dataset on Hugging Face, not an environment.",
        "neither": f"{entry.ref} is neither on the Environments Hub nor on Hugging Face.",
    }.get(kind, f"What {entry.ref} is could not be settled.")


def _next(entry: HubEntry, kind: str, candidate: TrainingCandidate | None) -> tuple[Next, ...]:
    calls = list(candidate.next()) if candidate else []
    if kind in ("dataset", "both"):
        calls.append(Next("inspect_dataset", "see whether it makes an environment", {"dataset": entry.ref}))
    if not calls and entry.exists is None and entry.problem is not None:
        # The next look would fail for the same reason.
        arguments = {"install": True} if entry.problem.code in ("prime-missing", "prime-too-old") else {}
        return (Next("preflight", "find out why the Hub could not be asked", arguments),)
    query = entry.ref if entry.exists else entry.name
    return tuple(calls) or (Next("search_hub", "look again", {"kind": "environment", "query": query}),)


async def _matching(call: Call, query: str) -> list[dict[str, Any]]:
    """The environments that the platform finds for the whole query, or else for its words, most words first."""
    listed = await call.lab.prime.env_list(query, LISTED)
    words = listing.query_words(query)[:_WORDS]
    if listed or len(words) < 2:
        return listed
    by_name: dict[str, dict[str, Any]] = {}

    async def ask(word: str) -> None:
        for entry in await call.lab.prime.env_list(word, LISTED):
            by_name[str(entry.get("environment"))] = entry

    async with anyio.create_task_group() as asking:
        for word in words:
            asking.start_soon(ask, word)
    texts = {name: f"{name} {by_name[name].get('description') or ''}" for name in sorted(by_name)}
    return [by_name[name] for name in listing.best_matches(texts, query)][:LISTED]


_ASKED = 4
"""Number of matches of which the generation is looked up, because each takes a start of `prime`."""


async def _add_generation(call: Call, row: dict[str, Any]) -> None:
    """Add to a match its generation of verifiers and whether it can be trained; nothing where the Hub does not say."""
    owner, _, name = str(row["name"]).partition("/")
    runtime = (await lookup.look_up_environment(call.lab.prime, owner, name)).runtime
    if runtime is not None:
        row |= {"runtime": runtime, "trainable": runtime == "v1"}


async def _search(call: Call, query: str) -> Outcome:
    listed = await _matching(call, query)
    rows: list[dict[str, Any]] = [
        {
            "name": e.get("environment"),
            "version": e.get("version"),
            "visibility": e.get("visibility"),
            "description": quote(e["description"], 160) if e.get("description") else None,
        }
        for e in listed
    ]
    if not rows:
        return listing.nothing_found("environment", query)
    if len(rows) == 1 and (only := HUB_NAME.match(str(rows[0]["name"]))):
        return await _only_match(call, only["owner"], only["name"], rows[0])
    rows.sort(key=lambda row: listing.name_rank(str(row["name"]), query))
    async with anyio.create_task_group() as asking:
        for row in rows[:_ASKED]:
            asking.start_soon(_add_generation, call, row)
    # The name that was asked for, names that begin with it, then others. Of each, those that can be trained come first.
    ranks = {True: 0, None: 1, False: 2}
    rows.sort(key=lambda row: (listing.name_rank(str(row["name"]), query), ranks[row.get("trainable")]))
    first = str(rows[0]["name"])
    return Outcome(
        "passed",
        f"{count(len(rows), 'environment')} on the Hub match.",
        data={"matches": rows},
        next=(Next("search_hub", "versions and trainability of one", {"kind": "environment", "query": first}),),
    )


async def _only_match(call: Call, owner: str, name: str, row: dict[str, Any]) -> Outcome:
    """Return what a search for the name of the only match says, so that no second search is needed for it."""
    named = await _named(call, owner, name, None)
    row |= {key: named.data[key] for key in ("runtime", "trainable") if named.data.get(key) is not None}
    summary = f"1 environment on the Hub matches. {named.summary}"
    return replace(named, summary=summary, data={**named.data, "matches": [row]})


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
