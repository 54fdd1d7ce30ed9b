"""What must be proven before a tool may run: one table, and pure functions over the ledger's rows.

Evidence counts for exactly the fingerprint it was made on. An edit makes it stale, undoing the edit makes it good
again, and a restart or a second client changes nothing, because nothing but the rows and the files is consulted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prime_lab_mcp.lab.records import Evidence, Push
from prime_lab_mcp.lab.report import Unmet, Why
from prime_lab_mcp.lab.settings import Platform

By = Literal["content", "source", "config"]


@dataclass(frozen=True, slots=True)
class Need:
    """Evidence of `tool`, for the same content, source or config file."""

    tool: str
    by: By


NEEDS: Mapping[str, tuple[Need, ...]] = {
    "test_reward": (Need("check_environment", "content"),),
    "run_eval": (Need("check_environment", "content"), Need("test_reward", "source")),
    "run_eval, hosted": (Need("push_environment", "source"),),
    "push_environment": (
        Need("check_environment", "content"),
        Need("test_reward", "source"),
        Need("check_reward_distribution", "source"),
    ),
    "submit_training": (Need("check_training_config", "config"),),
}
"""DESIGN section 3. `submit_training` needs the whole chain of every source besides: `source_unmet`. A hosted
evaluation of ours needs besides that the Hub's latest version is what was pushed (evals/hosted/subject.py)."""

FREE = ("check_environment", "check_training_config")
"""Run by the call path itself when missing or stale: they cost nothing."""

CAPABILITIES: Mapping[str, Literal["account", "training"]] = {
    "run_eval, hosted": "account",
    "push_environment": "account",
    "submit_training": "training",
}
"""What preflight must find for a tool; the others need none, or say themselves what is missing."""

CHAIN = (Need("test_reward", "source"), Need("check_reward_distribution", "source"))
"""What stands behind every push."""

LINE = (
    Need("check_environment", "content"),
    Need("test_reward", "source"),
    Need("check_reward_distribution", "source"),
    Need("push_environment", "source"),
)
"""What one environment of ours has to prove before it is trained, in order."""

COULD_NOT_ASK = "config-validation-unavailable"
"""The one inconclusive blocker of a config that a confirmation naming it may replace."""

NOT_VALIDATED = "the platform could not be asked whether it accepts this config"
"""How that confirmation says so."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a call is about. Empty fields: the call is not about such a thing."""

    environment: str | None = None
    source: str | None = None
    content: str | None = None
    config_sha256: str | None = None
    verifiers: str | None = None
    """Version that would run the environment now, where that is known without building anything."""

    def fingerprint(self, by: By) -> str | None:
        return {"content": self.content, "source": self.source, "config": self.config_sha256}[by]


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a need stands: `why` is None when it is met by `row`."""

    need: Need
    why: Why | None
    detail: str
    row: Evidence | None = None

    @property
    def unmet(self) -> Unmet | None:
        return Unmet(self.need.tool, self.why, self.detail) if self.why else None


def standing(
    need: Need,
    history: Sequence[Evidence],
    subject: Subject,
    platform: Platform,
    waived: set[tuple[str, str]],
    model: str | None = None,
) -> Standing:
    """Judge one need. `history` holds this workspace's verdicts of `need.tool`, newest first.

    With `model`, the latest verdict for that model decides where there is one; else the latest of all.
    """
    wanted = subject.fingerprint(need.by)
    mine = [row for row in history if row.tool == need.tool and wanted and _fingerprint(row, need.by) == wanted]
    counting = [row for row in mine if row.platform in (None, platform)]
    for_model = [row for row in counting if row.model == model] if model else []
    if for_model or counting:
        latest = (for_model or counting)[0]
        return _outdated(need, latest, subject) or _judged(need, latest, wanted or "", waived)
    if mine:
        other = "rehearsal" if platform == "prime" else "the real platform"
        return Standing(need, "rehearsal", f"{need.tool} passed only against {other}; run it here", mine[0])
    earlier = [row for row in history if row.tool == need.tool and _same_thing(row, subject, need.by)]
    if earlier:
        return Standing(need, "stale", f"the files changed since {need.tool} last ran", earlier[0])
    return Standing(need, "never-run", f"{need.tool} has not run on this {_noun(need.by)}")


def _outdated(need: Need, row: Evidence, subject: Subject) -> Standing | None:
    """Stale when verifiers changed by a minor version or more since (facts/validation 5.2)."""
    then, now = row.toolchain.get("verifiers"), subject.verifiers
    if not then or not now or str(then).split(".")[:2] == now.split(".")[:2]:
        return None
    return Standing(need, "stale", f"{need.tool} ran on verifiers {then}, and {now} is installed now", row)


def _judged(need: Need, row: Evidence, fingerprint: str, waived: set[tuple[str, str]]) -> Standing:
    if row.status == "passed":
        return Standing(need, None, f"{need.tool} passed", row)
    open_codes = [code for code in row.blockers if (fingerprint, code) not in waived]
    if row.blockers and not open_codes:
        return Standing(need, None, f"{need.tool}: a person waived {', '.join(row.blockers)}", row)
    codes = ", ".join(open_codes[:4]) or "no blocker named"
    why: Why = "inconclusive" if row.status == "inconclusive" else "failed"
    return Standing(need, why, f"{need.tool} was {row.status} here: {codes}", row)


@dataclass(frozen=True, slots=True)
class HubFact:
    """What the Hub says of one `owner/name@version`; `exists` None: it could not be asked."""

    exists: bool | None
    version: str | None = None
    content_hash: str | None = None
    runtime: Literal["v0", "v1"] | None = None


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Everything known about one training or eval source of a config."""

    id: str
    owner: str | None
    name: str
    version: str | None
    args: Mapping[str, Any]
    ours: bool
    push: Push | None
    """The push of exactly this owner, name and version, from any workspace of this machine."""
    history: Sequence[Evidence]
    """Verdicts of the workspace that pushed it."""
    on_disk: tuple[str, ...]
    """Source fingerprints of the folders that hold this project there today."""
    hub: HubFact
    waived: frozenset[tuple[str, str]] = frozenset()
    trains: bool = True
    """False for an eval source, whose held-out tasks need not be those that were evaluated."""
    group_size: int | None = None
    """Rollouts per task that the config trains with."""


def source_unmet(facts: SourceFacts, platform: Platform, model: str | None) -> tuple[list[Unmet], list[str]]:
    """(what is missing, what a confirmation must name) for one source of a training config."""
    if facts.owner is None:
        return [_push_first(facts, f"{facts.name} is a local name; hosted training takes owner/name@version")], []
    if facts.hub.exists is None:
        return [Unmet("search_hub", "inconclusive", f"the Hub could not be asked about {facts.id}")], []
    if facts.ours:
        return _ours_unmet(facts, platform, model)
    return _foreign_unmet(facts), []


def _ours_unmet(facts: SourceFacts, platform: Platform, model: str | None) -> tuple[list[Unmet], list[str]]:
    push = facts.push
    if push is None:
        at = f"@{facts.version}" if facts.version else " (no version pinned)"
        return [_push_first(facts, f"{facts.owner}/{facts.name}{at} was not pushed through this server")], []
    if not facts.hub.exists:
        return [_push_first(facts, f"the Hub does not hold {facts.id}")], []
    if facts.hub.content_hash and facts.hub.content_hash != push.cli_hash:
        return [_push_first(facts, f"the Hub holds other content under {facts.id} than was pushed")], []
    if facts.on_disk and push.source not in facts.on_disk:
        detail = f"{push.environment} was edited since {facts.id} was pushed"
        return [Unmet("push_environment", "stale", detail)], []
    subject = Subject(push.environment, push.source, push.content)
    missing: list[Unmet] = []
    cautions: list[str] = []
    for need in CHAIN:
        wanted_model = model if need.tool == "check_reward_distribution" else None
        found = standing(need, facts.history, subject, platform, set(facts.waived), wanted_model)
        if found.unmet:
            missing.append(found.unmet)
        elif found.row is not None and need.tool == "check_reward_distribution":
            problems = _evaluation_fits(found.row, facts, model, cautions)
            missing.extend(problems)
    return missing, cautions


def _evaluation_fits(row: Evidence, facts: SourceFacts, model: str | None, cautions: list[str]) -> list[Unmet]:
    if facts.trains and dict(row.env_args) != dict(facts.args):
        detail = f"{facts.id} was evaluated with other environment arguments than the config gives it"
        return [Unmet("run_eval", "stale", detail)]
    judged_for = _group_size(row)
    if facts.trains and facts.group_size and judged_for and judged_for > facts.group_size:
        detail = (
            f"{facts.id} was judged for groups of {judged_for}, and smaller ones have less signal; "
            f"judge it with group_size={facts.group_size}"
        )
        return [Unmet("check_reward_distribution", "stale", detail)]
    if model and row.model and row.model != model:
        cautions.append(
            f"{facts.id} was evaluated with {row.model}, not with {model} that is to be trained: "
            "that shows a ceiling, not whether this model can learn it"
        )
    return []


def _group_size(row: Evidence) -> int | None:
    groups = row.data.get("usable_groups")
    size = groups.get("group_size") if isinstance(groups, Mapping) else None
    return size if isinstance(size, int) else None


def _foreign_unmet(facts: SourceFacts) -> list[Unmet]:
    if not facts.hub.exists:
        return [Unmet("search_hub", "failed", f"the Hub does not hold {facts.id}")]
    if facts.hub.runtime == "v0":
        return [Unmet("search_hub", "failed", f"{facts.id} is a v0 environment, which cannot be trained")]
    if not facts.version:
        latest = f"@{facts.hub.version}" if facts.hub.version else "@VERSION"
        detail = f"{facts.id} pins no version; name {facts.owner}/{facts.name}{latest}"
        return [Unmet("write_training_config", "failed", detail)]
    return []


def _push_first(facts: SourceFacts, detail: str) -> Unmet:
    return Unmet("push_environment", "never-run", detail)


def _fingerprint(row: Evidence, by: By) -> str | None:
    return {"content": row.content, "source": row.source, "config": row.config_sha256}[by]


def _same_thing(row: Evidence, subject: Subject, by: By) -> bool:
    if by == "config":
        return row.config_sha256 is not None
    return row.environment is not None and row.environment == subject.environment


def _noun(by: By) -> str:
    return "config file" if by == "config" else "environment"
