"""Requirements for the sources and packages of a training config. All functions here are pure.

A source is an environment with the arguments that the config gives it. The user's own environment must have been
pushed, must have the same files on the Hub and on disk, and needs evidence for its arguments. Another owner's
environment must be on the Hub, must be written for v1, and must be named with its version.

A package is anything else that the config names: an environment class, a harness, a judge or a function. A package that
comes with verifiers has no requirements. Another owner's package must be on the Hub and be named with its version. The
user's own package must have been pushed, must be unchanged on the Hub and on disk, and must have passed
check_environment. The rules of the source that uses the package require that the training evidence was made with the
package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import Next, Unmet
from prime_lab_mcp.lab.base.settings import Platform
from prime_lab_mcp.lab.base.text import plain_id, quote
from prime_lab_mcp.lab.state.arguments import arguments_summary, differ_in_order_alone, same_arguments
from prime_lab_mcp.lab.state.evaluation_evidence import TrainedModel, judged_group_size
from prime_lab_mcp.lab.state.gates import EVALUATED, Need, Standing, Subject, standing
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.lab.state.proven_arguments import proven_arguments
from prime_lab_mcp.lab.state.workspace import is_plain_id

TRAINING = (Need("test_reward", "source", "named"), Need("check_reward_distribution", "source", "named"))
"""Evidence that a pushed environment needs for the arguments that a training source gives it."""

EVALUATION = (Need("test_reward", "source", "named"),)
"""Evidence that a pushed environment needs for the arguments that an eval source gives it."""


@dataclass(frozen=True, slots=True)
class HubFact:
    """The Hub's answer about one `owner/name@version`. `exists` is None if the Hub could not be asked."""

    exists: bool | None
    version: str | None = None
    content_hash: str | None = None
    runtime: Literal["v0", "v1"] | None = None


HubOutcome = Literal["equal", "different", "archive-only", "wheel-unfetched", "wheel-only", "unfetched", "not-asked"]


@dataclass(frozen=True, slots=True)
class HubContent:
    """The result of comparing the files of a published version with the validated files. `detail` states it in a
    sentence.

    `archive-only`: the archive is equal, and the Hub serves no wheel, but this server sent the wheel that was checked.
    `wheel-unfetched`: the archive is equal, and the wheel could not be compared. `wheel-only`: the wheel is equal, and
    the archive could not be fetched.
    """

    outcome: HubOutcome = "not-asked"
    detail: str = ""

    @property
    def caution(self) -> str | None:
        """The sentence for the confirmation if some files could not be compared; None in all other cases."""
        return self.detail if self.outcome in ("wheel-unfetched", "wheel-only", "unfetched") else None


HUB_DIFFERS: Code = "hub-content-differs"
"""The blocker for a version whose files on the Hub differ from the push. A person may waive it for that version."""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """All facts about one training or eval source of a config."""

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
    """Source fingerprints of the folders in that workspace that hold this project today."""
    hub: HubFact
    waived: frozenset[tuple[str, str]] = frozenset()
    trains: bool = True
    """False for an eval source, whose held-out tasks may differ from the tasks that were evaluated."""
    group_size: int | None = None
    """Rollouts per task in the config."""
    harness: str | None = None
    """The harness that the config names for the single agent; None if it names none."""
    unnamed_harness: bool = False
    """Whether the config has a table of a harness that names none (`ConfigSource.unnamed_harness`)."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Known defaults of the pushed files (`Subject.defaults`)."""
    check_args: Mapping[str, Any] = field(default_factory=dict)
    distributions: Mapping[str, str] | None = None
    """Fingerprints of the distributions that would run the pushed environment now (`Subject.distributions`)."""
    hub_content: HubContent = HubContent()
    """Compares the files on the Hub with the push; for another owner's environment, says whether they could be fetched.
    """
    resumed_run: str | None = None
    """Name of the run that training resumes from."""
    runs: frozenset[str] = frozenset()
    """Names of all training runs that are known."""
    unasked: str = ""
    """Why it is not known whether the package is the user's own, where `ours` is false; empty where that is known."""
    installs: frozenset[str] | None = None
    """The top-level names that an installation of it puts into the library folder; None if they are not known."""
    failed: tuple[str, ...] = ()
    """Descriptions of the verdicts on another owner's environment that failed on this machine."""


def source_unmet(facts: SourceFacts, platform: Platform, model: str | None) -> tuple[list[Unmet], list[str]]:
    """Return the missing evidence for one source of a config, and the cautions that a confirmation must name."""
    if facts.owner is None:
        return [_push_first(facts, f"{facts.name} is a local name; hosted training takes owner/name@version")], []
    if not is_plain_id(facts.id):
        return [_invalid_id_unmet(facts.id)], []
    if facts.hub.exists is None:
        return [Unmet("search_hub", "inconclusive", f"the Hub could not be asked about {facts.id}")], []
    if facts.ours:
        return _own_unmet(facts, platform, model)
    return foreign_standing(facts)


def foreign_standing(facts: SourceFacts) -> tuple[list[Unmet], list[str]]:
    """Return the unmet requirements of another owner's package on the Hub, and the cautions about it.

    A package counts as another owner's only after account and teams were asked.
    """
    if facts.unasked and facts.hub.exists:
        return [Unmet("preflight", "inconclusive", unknown_owner(facts.id, facts.unasked))], []
    return _foreign_unmet(facts), _foreign_cautions(facts)


def unknown_owner(id: str, why: str) -> str:
    """Say that it could not be asked whether a package is the user's own, and what opens its gate."""
    return (
        f"whose {id} is could not be asked: {why}. Call again once that answers; a key that may not list the teams has "
        "to be replaced by the user (prime login)"
    )


def push_unmet(facts: SourceFacts) -> list[Unmet]:
    """Return the unmet requirements of the user's own package: its push, and equal files on the Hub and on disk."""
    push = facts.push
    if push is None:
        version = f"@{facts.version}" if facts.version else " (no version pinned)"
        detail = f"{facts.owner}/{facts.name}{version} was not pushed through this server"
        pull = f"; if it was pushed from elsewhere, pull it (create_environment, hub={facts.id}) and prove it here"
        return [_push_first(facts, detail + (pull if facts.hub.exists and facts.version else ""))]
    if not facts.hub.exists:
        return [_push_first(facts, f"the Hub does not hold {facts.id}")]
    waived = _waived_difference(facts, push)
    other_hash = bool(facts.hub.content_hash) and facts.hub.content_hash != push.cli_hash
    if (other_hash or facts.hub_content.outcome == "different") and not waived:
        detail = facts.hub_content.detail or f"the Hub holds other content under {facts.id} than was pushed"
        return [_push_first(facts, detail)]
    if facts.on_disk and push.source not in facts.on_disk:
        detail = f"{push.environment} was edited since {facts.id} was pushed"
        return [Unmet("push_environment", "stale", detail, {"environment": push.environment, "bump": "patch"})]
    return []


def _waived_difference(facts: SourceFacts, push: Push) -> bool:
    """True if a person waived the difference on the Hub for this version. The waiver names the content fingerprint,
    which covers the version; the source fingerprint does not."""
    return (push.content, HUB_DIFFERS) in facts.waived


def _own_unmet(facts: SourceFacts, platform: Platform, model: str | None) -> tuple[list[Unmet], list[str]]:
    push = facts.push
    unpublished = push_unmet(facts)
    if unpublished or push is None:
        return unpublished, []
    missing: list[Unmet] = []
    for need in TRAINING if facts.trains else EVALUATION:
        result = _source_standing(need, facts, push, platform, model)
        if result.unmet:
            unmet = _with_evaluation_arguments(result.unmet, model, _harness_played(facts))
            if result.why == "never-run" and facts.trains:
                missing += _proven_otherwise(unmet, facts, push, platform)
            missing.append(unmet)
        elif result.row is not None and need.tool in EVALUATED:
            missing.extend(_group_size_unmet(result.row, facts))
    return missing, _content_cautions(facts, push)


def _proven_otherwise(unmet: Unmet, facts: SourceFacts, push: Push, platform: Platform) -> list[Unmet]:
    """The config with the arguments that training is proven with, where the config's own lack their evidence."""
    rows = [row for row in facts.history if row.source == push.source and row.platform in (None, platform)]
    proven = proven_arguments(rows, facts.defaults, facts.runs)
    if not proven or same_arguments(proven, facts.args, facts.defaults) or differ_in_order_alone(proven, facts.args):
        return []  # A config that is written anew may have the keys of its tables in the order of this one again.
    detail = f"{unmet.detail}; training on it is proven with {arguments_summary(proven)}"
    why = f"a config with {arguments_summary(proven)}, with which training on it is proven"
    instead = Next("write_training_config", why, {"environments": [facts.id], "env_args": proven})
    return [Unmet("write_training_config", "failed", detail, None, instead)]


def _content_cautions(facts: SourceFacts, push: Push) -> list[str]:
    """Sentences for the confirmation about the files on the Hub: a waived difference, or an incomplete comparison."""
    if _waived_difference(facts, push):
        return [f"a person waived that {facts.hub_content.detail}"] if facts.hub_content.detail else []
    return [facts.hub_content.caution] if facts.hub_content.caution is not None else []


def _source_standing(need: Need, facts: SourceFacts, push: Push, platform: Platform, model: str | None) -> Standing:
    # The free reward test is asked for exactly the arguments of the config, as check_training_config says: reading the
    # source may miss that code tells a given default from an omitted one.
    tested = need.tool == "test_reward"
    subject = Subject(
        push.environment,
        push.source,
        push.content,
        arguments=facts.args,
        defaults={} if tested else facts.defaults,
        check_args=facts.check_args,
        distributions=facts.distributions,
    )
    return standing(need, _with_harness(facts, need), subject, platform, set(facts.waived), trained_model(facts, model))


def trained_model(facts: SourceFacts, model: str | None) -> TrainedModel:
    """The model that an evaluation of this source must be about."""
    return TrainedModel(model, facts.resumed_run, facts.runs, facts.group_size)


def source_evaluation(facts: SourceFacts, platform: Platform, model: str | None) -> Evidence | None:
    """The evaluation that opened the gate of a source; None for other owners' environments and for eval sources."""
    if not facts.ours or facts.push is None or not facts.trains:
        return None
    return next(
        (_source_standing(need, facts, facts.push, platform, model).row for need in TRAINING if need.tool in EVALUATED),
        None,
    )


def source_proofs(facts: SourceFacts, platform: Platform, model: str | None) -> list[Evidence]:
    """The verdicts that open the gate of the user's own source: those made with the arguments of this source, and of
    its evaluations the one that counts for the model to be trained."""
    if facts.push is None:
        return []
    needs = TRAINING if facts.trains else EVALUATION
    standings = [_source_standing(need, facts, facts.push, platform, model) for need in needs]
    return [result.row for result in standings if result.row is not None and result.unmet is None]


def _with_harness(facts: SourceFacts, need: Need) -> list[Evidence]:
    """Drop the verdicts on evaluations with another harness than the one that plays in training.

    The platform does not report the harness of its evaluations. It runs an environment as it was pushed, so with the
    environment's own harness. Environments of v0 have no harness.
    """
    harness = _harness_played(facts)
    if (
        harness is None
        or (facts.push is not None and facts.push.api == "v0")
        or need.tool != "check_reward_distribution"
    ):
        return list(facts.history)
    named, own = plugin_module(harness), plugin_module(_own_harness(facts) or "")
    return [
        row
        for row in facts.history
        if row.tool != need.tool or (plugin_module(row.harness.partition(" (")[0]) if row.harness else own) == named
    ]


def _harness_played(facts: SourceFacts) -> str | None:
    """The harness of the single agent: the one that the config names, else the default that the check of the pushed
    files recorded (`bash` where the package has none). None for several agents, and where no check recorded any."""
    if facts.harness is not None:
        return facts.harness
    if facts.unnamed_harness and _default_is_own(facts):
        return "bash"
    return _own_harness(facts)


def _own_harness(facts: SourceFacts) -> str | None:
    """The default harness of the single agent as the check of the pushed files recorded it; None where none did."""
    roles = _recorded_roles(facts)
    if len(roles) != 1 or roles[0].get("name") != "agent":
        return None
    harness = roles[0].get("harness")
    return harness if isinstance(harness, str) else None


def _default_is_own(facts: SourceFacts) -> bool:
    """Whether the recorded default is the harness that the package brings, which a table without an id may replace."""
    module = plugin_module(facts.id)
    return any(plugin_module(str(role.get("harness"))) == module for role in _recorded_roles(facts))


def _recorded_roles(facts: SourceFacts) -> list[Mapping[str, Any]]:
    """The agents of a pushed environment, as its last check recorded them."""
    push = facts.push
    for row in facts.history:
        if push is not None and row.tool == "check_environment" and row.content == push.content:
            roles = row.data.get("roles")
            return [r for r in roles if isinstance(r, Mapping)] if isinstance(roles, list) else []
    return []


def plugin_module(id: str) -> str:
    """The module that verifiers imports for the id of a harness, judge or environment (`owner/name@version`)."""
    return id.rpartition("/")[2].partition("@")[0].replace("-", "_").lower()


def _with_evaluation_arguments(unmet: Unmet, model: str | None, harness: str | None) -> Unmet:
    """Add the model and the harness to the call that produces the missing `check_reward_distribution` verdict."""
    if unmet.tool != "check_reward_distribution" or model is None or unmet.arguments is None:
        return unmet
    other = {} if harness is None or plugin_module(harness) == "null" else {"harness": harness}
    return replace(unmet, arguments={**unmet.arguments, "model": model, **other})


def _group_size_unmet(row: Evidence, facts: SourceFacts) -> list[Unmet]:
    judged_size = judged_group_size(row)
    if facts.trains and facts.group_size and judged_size and judged_size > facts.group_size:
        detail = (
            f"{facts.id} was judged for groups of {judged_size}, and smaller ones have less signal; "
            f"judge it with group_size={facts.group_size}"
        )
        evaluation = row.arguments.get("id") or row.data.get("id")
        arguments = {"results": evaluation, "group_size": facts.group_size} if evaluation else None
        return [Unmet("check_reward_distribution", "stale", detail, arguments)]
    return []


def _foreign_cautions(facts: SourceFacts) -> list[str]:
    cautions = [f"{verdict} failed here on the files of {facts.id}" for verdict in facts.failed]
    return cautions + ([facts.hub_content.detail] if facts.hub_content.outcome == "unfetched" else [])


def _foreign_unmet(facts: SourceFacts) -> list[Unmet]:
    on_hub = {"kind": "environment", "query": f"{facts.owner}/{facts.name}"}
    if not facts.hub.exists:
        return [Unmet("search_hub", "failed", f"the Hub does not hold {facts.id}", on_hub)]
    if facts.hub.runtime == "v0":
        return [Unmet("search_hub", "failed", f"{facts.id} is a v0 environment, which cannot be trained", on_hub)]
    if facts.version and facts.hub.runtime is None:
        detail = (
            f"nothing shows that {facts.id} is a v1 environment: neither the Hub's label nor what its pyproject.toml "
            "requires; pull it with create_environment and check it"
        )
        return [Unmet("search_hub", "inconclusive", detail, on_hub)]
    if not facts.version:
        latest = f"{facts.owner}/{facts.name}@{facts.hub.version or 'VERSION'}"
        pinned = {"environments": [latest]} if facts.hub.version else None
        return [Unmet("write_training_config", "failed", f"{facts.id} pins no version; name {latest}", pinned)]
    return []


def _invalid_id_unmet(id: str) -> Unmet:
    detail = f"{quote(id, 120)} is no plain owner/name@version: letters, digits, dots, hyphens and underscores"
    return Unmet("write_training_config", "failed", detail)


def _push_first(facts: SourceFacts, detail: str) -> Unmet:
    return Unmet("push_environment", "never-run", detail)


CHECKED = Need("check_environment", "content")
"""The evidence that every own package needs."""


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """All facts about one package that a config names."""

    kind: str
    id: str
    where: str
    shipped: bool = False
    """Whether the package comes with verifiers or prime-rl."""
    within: bool = False
    """Whether the code lies in the package of the source that uses it. The source has its own gate."""
    beside: SourceFacts | None = None
    """The source that uses the package; None for code that the whole run uses."""
    elsewhere: SourceFacts | None = None
    """The source of the config in whose package the code lies, if that is not the source that uses it."""
    published: SourceFacts | None = None
    """The facts about the package on the Hub; None for a name without an owner."""


def package_unmet(facts: PackageFacts, platform: Platform) -> tuple[list[Unmet], list[str]]:
    """Return the unmet requirements of a package, and the cautions that a confirmation must name."""
    beside = facts.beside
    trained = beside if beside is not None and beside.ours and beside.trains else None
    if facts.within:
        return [], []
    if facts.elsewhere is not None and facts.kind != "environment":
        return _code_of_another_source(facts, facts.elsewhere)
    if facts.kind == "environment" and trained is not None:
        detail = f"{facts.where} names {plain_id(facts.id)}, and no evaluation of {trained.id} here was made through it"
        if facts.shipped:
            return [], [detail]
        return [
            _without_package_unmet(trained, f"{detail}; export the environment class from the taskset's own package")
        ], []
    if facts.shipped:
        return [], []
    published = facts.published
    if published is None:
        return [_without_package_unmet(beside, _unknown_package_message(facts))], []
    if not is_plain_id(facts.id):
        return [_invalid_id_unmet(facts.id)], []
    if published.hub.exists is None:
        return [
            Unmet("search_hub", "inconclusive", f"the Hub could not be asked about {facts.id}", _query(facts.id))
        ], []
    if not published.ours:
        return foreign_standing(published)
    if beside is not None and not beside.ours:
        return [_never_run_with(facts, beside)], []
    missing = push_unmet(published)
    push = published.push
    if missing or push is None:
        return missing, []
    subject = Subject(push.environment, push.source, push.content)
    checked = standing(CHECKED, published.history, subject, platform, set(published.waived)).unmet
    caution = published.hub_content.caution
    return [checked] if checked is not None else [], [caution] if caution is not None else []


def _code_of_another_source(facts: PackageFacts, elsewhere: SourceFacts) -> tuple[list[Unmet], list[str]]:
    """What code needs that lies in the package of another source than the one that uses it.

    The proofs of that other source are about its own tasks. Where the using source is the user's own, its evidence was
    made with the same arguments and the same harness, so with this code.
    """
    beside = facts.beside
    if beside is None:
        detail = f"{facts.where} names {plain_id(facts.id)} of {elsewhere.id}, which no test or evaluation here ran"
        return [], [detail]
    if beside.ours or not elsewhere.ours:
        return [], []
    return [_never_run_with(facts, beside)], []


def _never_run_with(facts: PackageFacts, beside: SourceFacts) -> Unmet:
    """Code of the user's own that another owner's environment would use: nothing is tested or evaluated together."""
    detail = (
        f"{facts.where} names {plain_id(facts.id)}, code of yours that no test or evaluation here ran with "
        f"{beside.id}; pull that environment, put the code into its package, and prove and push it as your own"
    )
    return _without_package_unmet(beside, detail)


def conflicting_packages(ids: Iterable[tuple[str, str]]) -> list[Unmet]:
    """Find packages that share one import name. `ids` are pairs of an id with an owner and the import name."""
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
    """Refuse `keys` that a config sets on the user's own environment class.

    No tool here can load the environment with these keys, so there is no evidence for such settings.
    """
    named = ", ".join(keys)
    if not facts.ours or not named:
        return []
    detail = f"{named}: nothing here was proven with these settings; make them the package's defaults or taskset keys"
    return [_without_package_unmet(facts, detail)]


def agents_of(facts: SourceFacts) -> frozenset[str]:
    """Names of the agents of a pushed environment, as its last check recorded them."""
    named = (role.get("name") for role in _recorded_roles(facts))
    return frozenset({"agent", *(name for name in named if isinstance(name, str))})


def override_cautions(facts: SourceFacts, keys: Iterable[str]) -> list[str]:
    """Cautions for the confirmation about `keys` of agents that were set in no evaluation here.

    Of a stranger's environment nothing was evaluated here, so its agents are named in evaluations too.
    """
    named = ", ".join(keys)
    if not named or (facts.ours and not facts.trains):
        return []
    return [f"{facts.id} is trained with {named}, and no evaluation here was made with these settings"]


def _unknown_package_message(facts: PackageFacts) -> str:
    how = (
        "a function counts as known in a package that the config names as a source, or in verifiers"
        if facts.kind == "function"
        else "name it as owner/name@version on the Hub, one that verifiers ships, or one in the taskset's own package"
    )
    return f"{facts.where} names {plain_id(facts.id)}, of which nothing is known here: {how}"


def _without_package_unmet(source: SourceFacts | None, detail: str) -> Unmet:
    """The unmet requirement whose call writes the config without the package."""
    arguments = {"environments": [source.id]} if source is not None and source.owner is not None else None
    return Unmet("write_training_config", "failed", detail, arguments)


def _query(id: str) -> dict[str, str]:
    return {"kind": "environment", "query": id}
