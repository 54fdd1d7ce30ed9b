"""The gates: which evidence a tool requires, in one table, and pure functions that compare it with the ledger.

Evidence counts for exactly the fingerprint of the files that it is about. An edit makes the evidence stale, and undoing
the edit makes it valid again. A restart or a second client changes nothing, because the functions read only ledger
rows and files. `gate_standings` gives the state of one environment at every gate from check to push.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Unmet, Why
from prime_lab_mcp.lab.base.settings import Platform
from prime_lab_mcp.lab.state.arguments import arguments_summary, check_args, known_defaults, same_arguments
from prime_lab_mcp.lab.state.evaluation_evidence import TrainedModel, choose_evaluation, judged_group_size
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.lab.state.snapshot import Snapshot

By = Literal["content", "source", "config"]
ArgumentsOf = Literal["any", "default", "named"]
"""Which arguments the evidence must have been made with: any, none at all, or those of the subject."""


@dataclass(frozen=True, slots=True)
class Need:
    """A requirement: a passed verdict of `tool` on the same content, source or config file."""

    tool: str
    by: By
    arguments: ArgumentsOf = "any"
    loads: bool = False
    """True if it is enough that the environment loads, whatever else the check of the environment finds."""


NEEDS: Mapping[str, tuple[Need, ...]] = {
    "test_reward": (Need("check_environment", "content", loads=True),),
    "run_eval": (Need("check_environment", "content", loads=True),),
    "run_eval, hosted": (Need("push_environment", "source"),),
    "push_environment": (
        Need("check_environment", "content"),
        Need("test_reward", "source", "default"),
        Need("test_reward", "source", "named"),
        Need("check_reward_distribution", "source", "named"),
    ),
    "submit_training": (Need("check_training_config", "config"),),
}
"""Further requirements in code: `submit_training` requires the evidence of every source (`source_unmet`), and a hosted
evaluation of our own environment requires that the Hub's latest version is the pushed one (evals/hosted/subject.py)."""

FREE = ("check_environment", "check_training_config")
"""Free tools, which the call path runs by itself if their evidence is missing or stale."""

CAPABILITIES: Mapping[str, Literal["account", "training"]] = {
    "run_eval, hosted": "account",
    "push_environment": "account",
    "submit_training": "training",
}
"""The capability that preflight must confirm for a tool. Other tools need none, or report themselves what is
missing."""

TRAINING = (Need("test_reward", "source", "named"), Need("check_reward_distribution", "source", "named"))
"""Evidence that a pushed environment needs for the arguments that a training source gives it."""

EVALUATION = (Need("test_reward", "source", "named"),)
"""Evidence that a pushed environment needs for the arguments that an eval source gives it."""

LINE = (
    Need("check_environment", "content"),
    Need("test_reward", "source", "named"),
    Need("check_reward_distribution", "source", "named"),
    Need("push_environment", "source"),
)
"""Evidence that one of the user's environments needs before training, in order."""

COULD_NOT_ASK = "config-validation-unavailable"
"""The only inconclusive blocker of a config that a confirmation may replace, if the confirmation names it."""

NOT_VALIDATED = "the platform could not be asked whether it accepts this config"
"""The words of that confirmation."""


LATEST_MODEL = TrainedModel()
"""At a push, no model to be trained is known: the latest evaluation that decides counts."""

EVALUATED = ("check_reward_distribution",)
"""Tools whose verdicts are about an evaluation."""

ARGUED = ("test_reward", "run_eval", "check_reward_distribution")
"""Tools whose verdicts depend on the arguments of the environment."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The environment or config that a call is about, by fingerprints. None: the call has no such subject."""

    environment: str | None = None
    source: str | None = None
    content: str | None = None
    config_sha256: str | None = None
    verifiers: str | None = None
    """Version of verifiers that would run the environment now; None if unknown without building an interpreter."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The arguments that a push or a config names. Empty: the defaults."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults that may be given as well as left out (`arguments.known_defaults`)."""
    check_args: Mapping[str, Any] = field(default_factory=dict)
    """The arguments with which `test_reward` loads the environment if its call names none."""

    def fingerprint(self, by: By) -> str | None:
        return {"content": self.content, "source": self.source, "config": self.config_sha256}[by]

    def required_arguments(self, need: Need) -> Mapping[str, Any] | None:
        """The arguments that evidence for `need` must have; None: any."""
        return {"any": None, "default": {}, "named": self.arguments}[need.arguments]

    def call_arguments(self, need: Need) -> dict[str, Any] | None:
        """Arguments of the call that gives the evidence; None for a config."""
        if need.by == "config" or self.environment is None:
            return None
        required = self.required_arguments(need)
        by_itself = self.check_args if need.tool == "test_reward" else {}
        if required is None or need.tool not in ARGUED or same_arguments(required, by_itself, self.defaults):
            return {"environment": self.environment}
        return {"environment": self.environment, "env_args": dict(required)}


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of one requirement. `why` is None if the verdict `row` meets the requirement."""

    need: Need
    why: Why | None
    detail: str
    row: Evidence | None = None
    arguments: Mapping[str, Any] | None = None
    """Arguments of the call that gives the evidence."""

    @property
    def unmet(self) -> Unmet | None:
        return Unmet(self.need.tool, self.why, self.detail, self.arguments) if self.why else None


def standing(
    need: Need,
    history: Sequence[Evidence],
    subject: Subject,
    platform: Platform,
    waived: set[tuple[str, str]],
    trained: TrainedModel = LATEST_MODEL,
) -> Standing:
    """Compare one requirement with the verdicts of `need.tool` in this workspace, newest first.

    The newest verdict for the required arguments decides. Of verdicts on evaluations, the one that fits `trained`
    decides (evaluation_evidence.py).
    """
    found = _standing(need, history, subject, platform, waived, trained)
    return replace(found, arguments=subject.call_arguments(need))


def _standing(
    need: Need,
    history: Sequence[Evidence],
    subject: Subject,
    platform: Platform,
    waived: set[tuple[str, str]],
    trained: TrainedModel,
) -> Standing:
    fingerprint = subject.fingerprint(need.by)
    required = subject.required_arguments(need)
    of_files = [
        row for row in history if row.tool == need.tool and fingerprint and _fingerprint(row, need.by) == fingerprint
    ]
    matching = [row for row in of_files if required is None or same_arguments(row.env_args, required, subject.defaults)]
    counting = [row for row in matching if row.platform in (None, platform)]
    if counting:
        if need.tool in EVALUATED:
            chosen = choose_evaluation(counting, trained, lambda row: _decides(row, fingerprint or "", waived))
        else:
            chosen = counting[0]
        if chosen is None:
            return Standing(
                need, "never-run", "only checkpoints of training runs were evaluated, not the model to train"
            )
        return _outdated(need, chosen, subject) or _judged(need, chosen, fingerprint or "", waived)
    if matching:
        other = "rehearsal" if platform == "prime" else "the real platform"
        return Standing(need, "rehearsal", f"{need.tool} passed only against {other}; run it here", matching[0])
    if of_files and required is not None:
        detail = f"{need.tool} has run on this {_noun(need.by)}, but not with {arguments_summary(required)}"
        return Standing(need, "never-run", detail)
    earlier = [row for row in history if row.tool == need.tool and _same_subject(row, subject, need.by)]
    if earlier:
        if need.by == "source" and any(row.content == subject.content for row in earlier):
            detail = f"{need.tool} ran under an older definition of what counts as source; run it again"
            return Standing(need, "stale", detail, earlier[0])
        return Standing(need, "stale", f"the files changed since {need.tool} last ran", earlier[0])
    return Standing(need, "never-run", f"{need.tool} has not run on this {_noun(need.by)}")


def _decides(row: Evidence, fingerprint: str, waived: set[tuple[str, str]]) -> bool:
    """Whether a verdict on an evaluation is conclusive, or a person waived what made it inconclusive."""
    if row.status != "inconclusive":
        return True
    return bool(row.blockers) and all((fingerprint, code) in waived for code in row.blockers)


def _outdated(need: Need, row: Evidence, subject: Subject) -> Standing | None:
    """Return a stale standing if verifiers changed by a minor version or more (docs/validation.md, Staleness)."""
    then, now = row.toolchain.get("verifiers"), subject.verifiers
    if not then or not now or str(then).split(".")[:2] == now.split(".")[:2]:
        return None
    return Standing(need, "stale", f"{need.tool} ran on verifiers {then}, and {now} is installed now", row)


def _judged(need: Need, row: Evidence, fingerprint: str, waived: set[tuple[str, str]]) -> Standing:
    if row.status == "passed":
        return Standing(need, None, f"{need.tool} passed", row)
    if need.loads and row.data.get("loads") is True:
        return Standing(need, None, "the environment loads", row)
    if need.arguments == "default" and row.data.get("loads") is False:
        return Standing(need, None, "the environment does not load with its default arguments", row)
    open_codes = [code for code in row.blockers if (fingerprint, code) not in waived]
    if row.blockers and not open_codes:
        return Standing(need, None, f"{need.tool}: a person waived {', '.join(row.blockers)}", row)
    codes = ", ".join(open_codes[:4]) or "no blocker named"
    why: Why = "inconclusive" if row.status == "inconclusive" else "failed"
    return Standing(need, why, f"{need.tool} was {row.status} here: {codes}", row)


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
    """How the fetched files of a published version compare with what was validated, with a sentence about it.

    `archive-only`: the Hub serves no wheel of it, and this server sent the wheel that was checked. `wheel-unfetched`
    and `wheel-only`: one of the two could not be fetched, and the other is equal.
    """

    outcome: HubOutcome = "not-asked"
    detail: str = ""

    @property
    def caution(self) -> str | None:
        """What a confirmation must name where not everything could be compared."""
        return self.detail if self.outcome in ("wheel-unfetched", "wheel-only", "unfetched") else None


HUB_DIFFERS: Code = "hub-content-differs"
"""The blocker of a push whose version on the Hub holds other files. A person may waive it for that version."""


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
    """False for an eval source. Its held-out tasks need not be the evaluated ones."""
    group_size: int | None = None
    """Rollouts per task in the config."""
    harness: str | None = None
    """The harness that the config names for the single agent; None if it names none."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Known defaults of the pushed files (`Subject.defaults`)."""
    check_args: Mapping[str, Any] = field(default_factory=dict)
    held: HubContent = HubContent()
    """How the files on the Hub compare with the push; for a foreign environment, whether they could be fetched."""
    resumed_run: str | None = None
    """Name of the run that training resumes from."""
    runs: frozenset[str] = frozenset()
    """Names of all training runs that are known."""
    failed: tuple[str, ...] = ()
    """Verdicts of this machine on a foreign environment's files that failed."""


def source_unmet(facts: SourceFacts, platform: Platform, model: str | None) -> tuple[list[Unmet], list[str]]:
    """Return the missing evidence for one source of a config, and the cautions that a confirmation must name."""
    if facts.owner is None:
        return [_push_first(facts, f"{facts.name} is a local name; hosted training takes owner/name@version")], []
    if facts.hub.exists is None:
        return [Unmet("search_hub", "inconclusive", f"the Hub could not be asked about {facts.id}")], []
    if facts.ours:
        return _ours_unmet(facts, platform, model)
    return foreign_standing(facts)


def foreign_standing(facts: SourceFacts) -> tuple[list[Unmet], list[str]]:
    """What a stranger's package on the Hub lacks, and the cautions about it."""
    return _foreign_unmet(facts), _foreign_cautions(facts)


def push_unmet(facts: SourceFacts) -> list[Unmet]:
    """Return what is missing between a package of ours, its push, the Hub and the files on disk."""
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
    if (other_hash or facts.held.outcome == "different") and not waived:
        detail = facts.held.detail or f"the Hub holds other content under {facts.id} than was pushed"
        return [_push_first(facts, detail)]
    if facts.on_disk and push.source not in facts.on_disk:
        detail = f"{push.environment} was edited since {facts.id} was pushed"
        return [Unmet("push_environment", "stale", detail, {"environment": push.environment, "bump": "patch"})]
    return []


def _waived_difference(facts: SourceFacts, push: Push) -> bool:
    """True if a person waived what differs on the Hub, for this version: the content covers it, the source does not."""
    return (push.content, HUB_DIFFERS) in facts.waived


def _ours_unmet(facts: SourceFacts, platform: Platform, model: str | None) -> tuple[list[Unmet], list[str]]:
    push = facts.push
    unpublished = push_unmet(facts)
    if unpublished or push is None:
        return unpublished, []
    missing: list[Unmet] = []
    for need in TRAINING if facts.trains else EVALUATION:
        result = _source_standing(need, facts, push, platform, model)
        if result.unmet:
            missing.append(_to_evaluate(result.unmet, model, facts.harness))
        elif result.row is not None and need.tool in EVALUATED:
            missing.extend(_group_size_unmet(result.row, facts))
    return missing, _held_cautions(facts, push)


def _held_cautions(facts: SourceFacts, push: Push) -> list[str]:
    """What a confirmation must name about the files on the Hub: a difference that a person waived, or no comparison."""
    if _waived_difference(facts, push):
        return [f"a person waived that {facts.held.detail}"] if facts.held.detail else []
    return [facts.held.caution] if facts.held.caution is not None else []


def _source_standing(need: Need, facts: SourceFacts, push: Push, platform: Platform, model: str | None) -> Standing:
    subject = Subject(
        push.environment,
        push.source,
        push.content,
        arguments=facts.args,
        defaults=facts.defaults,
        check_args=facts.check_args,
    )
    return standing(need, _with_harness(facts, need), subject, platform, set(facts.waived), trained_model(facts, model))


def trained_model(facts: SourceFacts, model: str | None) -> TrainedModel:
    """The model for which the evaluation of a source must speak."""
    return TrainedModel(model, facts.resumed_run, facts.runs, facts.group_size)


def source_evaluation(facts: SourceFacts, platform: Platform, model: str | None) -> Evidence | None:
    """The evaluation on which training on a source rests; None for environments of others and for eval sources."""
    if not facts.ours or facts.push is None or not facts.trains:
        return None
    return next(
        (_source_standing(need, facts, facts.push, platform, model).row for need in TRAINING if need.tool in EVALUATED),
        None,
    )


def _with_harness(facts: SourceFacts, need: Need) -> list[Evidence]:
    """The verdicts without those on evaluations by another harness than the config names.

    An evaluation by the platform does not say which harness played it.
    """
    if facts.harness is None or need.tool != "check_reward_distribution":
        return list(facts.history)
    named = plugin_module(facts.harness)
    return [
        row
        for row in facts.history
        if row.tool != need.tool or row.harness is None or plugin_module(row.harness.partition(" (")[0]) == named
    ]


def plugin_module(id: str) -> str:
    """The module that verifiers imports for the id of a harness, judge or environment (`owner/name@version`)."""
    return id.rpartition("/")[2].partition("@")[0].replace("-", "_").lower()


def _to_evaluate(unmet: Unmet, model: str | None, harness: str | None) -> Unmet:
    """The missing distribution, with the model and the harness to evaluate."""
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
        return [Unmet("check_reward_distribution", "stale", detail)]
    return []


def _foreign_cautions(facts: SourceFacts) -> list[str]:
    cautions = [f"{verdict} failed here on the files of {facts.id}" for verdict in facts.failed]
    return cautions + ([facts.held.detail] if facts.held.outcome == "unfetched" else [])


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


def _same_subject(row: Evidence, subject: Subject, by: By) -> bool:
    if by == "config":
        return row.config_sha256 is not None
    return row.environment is not None and row.environment == subject.environment


def _noun(by: By) -> str:
    return "config file" if by == "config" else "environment"


def subject_of(snapshot: Snapshot) -> Subject:
    """The subject with which evidence about a snapshot is compared. Its arguments are the defaults."""
    try:
        checked_with = check_args(snapshot.manifest)
    except LabError:
        checked_with = {}  # check_environment names the flaw
    return Subject(
        snapshot.name,
        snapshot.source,
        snapshot.content,
        verifiers=_verifiers(snapshot),
        defaults=known_defaults(snapshot),
        check_args=checked_with,
    )


def with_arguments(subject: Subject, named: Mapping[str, Any] | None, history: Sequence[Evidence]) -> Subject:
    """The subject with the arguments that a push names.

    A push that names none means the default arguments; where `test_reward` found that the environment does not load
    with these, it means the arguments with which the package says that it is checked.
    """
    if named is not None:
        return replace(subject, arguments=named)
    tried = [
        row
        for row in history
        if row.tool == "test_reward"
        and row.source == subject.source
        and same_arguments(row.env_args, {}, subject.defaults)
    ]
    return replace(subject, arguments=subject.check_args if tried and tried[0].data.get("loads") is False else {})


def _verifiers(snapshot: Snapshot) -> str | None:
    """The server's version of verifiers if this package would run on it; None if the package gets its own
    interpreter."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version("verifiers")
    except PackageNotFoundError:
        return None
    required = snapshot.manifest.verifiers
    return installed if required is not None and required.specifier.contains(installed) else None


def gate_standings(
    ledger: Ledger,
    workspace: str,
    platform: Platform,
    snapshot: Snapshot,
    needs: tuple[Need, ...] = LINE,
    arguments: Mapping[str, Any] | None = None,
) -> list[Standing]:
    """One standing per requirement. Evidence counts for the files, even if their folder had another name then.

    `arguments` are those that a push would name.
    """
    rows = _history(ledger, workspace, snapshot)
    subject = with_arguments(subject_of(snapshot), arguments, rows)
    waived = ledger.overrides(workspace)
    return [standing(need, rows, subject, platform, waived) for need in needs]


def tried_arguments(ledger: Ledger, workspace: str, snapshot: Snapshot) -> list[Mapping[str, Any]]:
    """The different arguments with which `test_reward` ran on these files, latest first."""
    tried: list[Mapping[str, Any]] = []
    for row in _history(ledger, workspace, snapshot):
        known = row.tool != "test_reward" or row.source != snapshot.source
        if not known and not any(same_arguments(row.env_args, other) for other in tried):
            tried.append(row.env_args)
    return tried


def _history(ledger: Ledger, workspace: str, snapshot: Snapshot) -> list[Evidence]:
    rows = ledger.evidence(workspace, environment=snapshot.name) + [
        row for row in ledger.evidence(workspace, source=snapshot.source) if row.environment != snapshot.name
    ]
    return sorted(rows, key=lambda row: (row.at, row.id), reverse=True)


def proven_tools(ledger: Ledger, workspace: str, platform: Platform, snapshot: Snapshot) -> tuple[str, ...]:
    """The tools whose evidence is valid for these files, in the order of `LINE`."""
    return tuple(
        result.need.tool for result in gate_standings(ledger, workspace, platform, snapshot) if result.why is None
    )
