"""What a training config's packages besides its tasksets must have: environments, harnesses, judges, functions.

A package of verifiers needs nothing. A stranger's on the Hub exists and has its version pinned. Our own is pushed, on
the Hub and on disk as it was pushed, and passed check_environment; that the training evidence was made with it is
required of the source beside which it stands. Anything else is unmet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prime_lab_mcp.lab.base.report import Unmet
from prime_lab_mcp.lab.base.settings import Platform
from prime_lab_mcp.lab.state.gates import Need, Subject, standing
from prime_lab_mcp.lab.state.source_gate import SourceFacts, foreign_standing, push_unmet

CHECKED = Need("check_environment", "content")


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """All facts about one package that a config names."""

    kind: str
    id: str
    where: str
    shipped: bool = False
    """Whether verifiers or prime-rl brings it."""
    within: bool = False
    """Whether it is part of a taskset's package that the config names as a source, which has its own gate."""
    beside: SourceFacts | None = None
    """The source that it plays with; None for code of the whole run."""
    published: SourceFacts | None = None
    """What is known of it on the Hub; None for a name without an owner."""


def package_unmet(facts: PackageFacts, platform: Platform) -> tuple[list[Unmet], list[str]]:
    """Return what a package lacks, and the cautions that a confirmation must name."""
    beside = facts.beside
    trained = beside if beside is not None and beside.ours and beside.trains else None
    if facts.within:
        return [], []
    if facts.kind == "environment" and trained is not None:
        detail = f"{facts.where} names {facts.id}, and no evaluation of {trained.id} here was made through it"
        if facts.shipped:
            return [], [detail]
        return [_leave_out(trained, f"{detail}; export the environment class from the taskset's own package")], []
    if facts.shipped:
        return [], []
    published = facts.published
    if published is None:
        return [_leave_out(beside, _unknown(facts))], []
    if published.hub.exists is None:
        return [
            Unmet("search_hub", "inconclusive", f"the Hub could not be asked about {facts.id}", _query(facts.id))
        ], []
    if not published.ours:
        return foreign_standing(published)
    missing = push_unmet(published)
    push = published.push
    if missing or push is None:
        return missing, []
    subject = Subject(push.environment, push.source, push.content)
    checked = standing(CHECKED, published.history, subject, platform, set(published.waived)).unmet
    caution = published.held.caution
    return [checked] if checked is not None else [], [caution] if caution is not None else []


def conflicting_packages(ids: Iterable[tuple[str, str]]) -> list[Unmet]:
    """Packages that would be imported as one module. `ids` are pairs of an id with an owner and its module."""
    by_module: dict[str, dict[str, None]] = {}
    for id, module in ids:
        by_module.setdefault(module, {})[id] = None
    return [
        Unmet(
            "write_training_config",
            "failed",
            f"{' and '.join(named)} are all imported as the module {module}, so that one runs in place of the other; "
            "name one of them",
            {"environments": [next(iter(named))]},
        )
        for module, named in by_module.items()
        if len(named) > 1
    ]


def own_keys_unmet(facts: SourceFacts, keys: Iterable[str]) -> list[Unmet]:
    """Settings of an own environment class, with which no evaluation and no test of a reward can be made here."""
    named = ", ".join(keys)
    if not facts.ours or not named:
        return []
    detail = f"{named}: nothing here was proven with these settings; make them the package's defaults or taskset keys"
    return [_leave_out(facts, detail)]


def agents_of(facts: SourceFacts) -> frozenset[str]:
    """Names of the agents of a pushed environment, as its last check recorded them."""
    push = facts.push
    for row in facts.history:
        if push is not None and row.tool == "check_environment" and row.content == push.content:
            roles = row.data.get("roles")
            named = [r.get("name") for r in roles if isinstance(r, Mapping)] if isinstance(roles, list) else []
            return frozenset({"agent", *(name for name in named if isinstance(name, str))})
    return frozenset({"agent"})


def override_cautions(facts: SourceFacts, keys: Iterable[str]) -> list[str]:
    """What a confirmation names where agents are set up otherwise than in every evaluation made here."""
    named = ", ".join(keys)
    if not (facts.ours and facts.trains and named):
        return []
    return [f"{facts.id} is trained with {named}, and no evaluation here was made with these settings"]


def _unknown(facts: PackageFacts) -> str:
    how = (
        "a function counts as known in a package that the config names as a source, or in verifiers"
        if facts.kind == "function"
        else "name it as owner/name@version on the Hub, one that verifiers ships, or one in the taskset's own package"
    )
    return f"{facts.where} names {facts.id}, of which nothing is known here: {how}"


def _leave_out(source: SourceFacts | None, detail: str) -> Unmet:
    """The call that writes a config without the package."""
    arguments = {"environments": [source.id]} if source is not None and source.owner is not None else None
    return Unmet("write_training_config", "failed", detail, arguments)


def _query(id: str) -> dict[str, str]:
    return {"kind": "environment", "query": id}
