"""The gates: a table of the evidence that each tool requires, and pure functions that compare the table with the
ledger.

Evidence counts only for the fingerprint of the files that it is about. An edit makes the evidence stale, and undoing
the edit makes it valid again. A restart or a second client changes nothing, because the functions read only ledger rows
and files. `gate_standings` gives the state of one environment at every gate from check to push.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Next, Unmet, Why
from prime_lab_mcp.lab.base.settings import Platform
from prime_lab_mcp.lab.base.versions import V0_RELEASES
from prime_lab_mcp.lab.state.arguments import (
    arguments_summary,
    check_args,
    differ_in_order_alone,
    known_defaults,
    same_arguments,
)
from prime_lab_mcp.lab.state.dependency_drift import dependency_drift
from prime_lab_mcp.lab.state.evaluation_evidence import TrainedModel, choose_evaluation
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.workspace import Workspace

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
    """True if the requirement is met once the environment loads, even if the check has other blockers."""


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
"""The evidence that each gated tool requires. Two more requirements are in code: `submit_training` requires the
evidence of every source (config_gate.py), and a hosted evaluation of the user's own environment requires that the Hub's
latest version is the pushed one (evals/hosted/subject.py)."""

FREE = ("check_environment", "check_training_config")
"""Free tools, which the call path runs by itself if their evidence is missing or stale."""

CAPABILITIES: Mapping[str, Literal["account", "training"]] = {
    "run_eval, hosted": "account",
    "push_environment": "account",
    "submit_training": "training",
}
"""The capability that preflight must confirm for a tool. Other tools need none, or report a missing one themselves."""


TRAINING_NEEDS = (
    Need("check_environment", "content"),
    Need("test_reward", "source", "named"),
    Need("check_reward_distribution", "source", "named"),
    Need("push_environment", "source"),
)
"""The evidence that an environment of the user needs before training, in the order of the workflow."""

COULD_NOT_ASK = "config-validation-unavailable"
"""The only blocker of an inconclusive config check that a confirmation can override. The confirmation must name it."""

NOT_VALIDATED = "the platform could not be asked whether it accepts this config"
"""The text with which a confirmation names this blocker."""


LATEST_MODEL = TrainedModel()
"""The model at a push, where none is chosen yet: the latest model whose evaluation opens the gate counts."""

EVALUATED = ("check_reward_distribution",)
"""Tools whose verdicts are about an evaluation."""

DEPENDENT = ("push_environment", "submit_training")
"""Tools whose evidence must have been reached with the distributions that are installed now."""

ARGUMENT_DEPENDENT = ("test_reward", "run_eval", "check_reward_distribution")
"""Tools whose verdicts depend on the arguments of the environment."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The environment or config that a call is about, as fingerprints. None: the call is not about one."""

    environment: str | None = None
    source: str | None = None
    content: str | None = None
    config_sha256: str | None = None
    verifiers: str | None = None
    """Version of verifiers that would run the environment now; None if unknown without building an interpreter."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """The arguments that a push or a config names. Empty: the defaults."""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults that a caller may give or omit without any difference (`arguments.known_defaults`)."""
    check_args: Mapping[str, Any] = field(default_factory=dict)
    """The arguments with which `test_reward` loads the environment if its call names none."""
    distributions: Mapping[str, str] | None = None
    """Fingerprints of the distributions that would run the environment now. None: distributions are not compared."""

    def fingerprint(self, by: By) -> str | None:
        return {"content": self.content, "source": self.source, "config": self.config_sha256}[by]

    def required_arguments(self, need: Need) -> Mapping[str, Any] | None:
        """The arguments that evidence for `need` must have; None: any."""
        return {"any": None, "default": {}, "named": self.arguments}[need.arguments]

    def call_arguments(self, need: Need) -> dict[str, Any] | None:
        """Arguments of the call that produces the evidence; None for a config."""
        if need.by == "config" or self.environment is None:
            return None
        required = self.required_arguments(need)
        by_itself = self.check_args if need.tool == "test_reward" else {}
        if (
            required is None
            or need.tool not in ARGUMENT_DEPENDENT
            or same_arguments(required, by_itself, self.defaults)
        ):
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
    """Arguments of the call that produces the evidence."""

    @property
    def unmet(self) -> Unmet | None:
        if self.why is None:
            return None
        instead = _larger_evaluation(self.row, self.detail) if self.why == "inconclusive" else None
        if self.why == "failed" and self.need.tool == "test_reward" and self.row is not None:
            # The same test of the same files fails again.
            why = f"{self.detail}; mend it with edit_environment, then call test_reward"
            instead = Next("read_environment", why, {"environment": self.row.environment})
        if self.why == "failed" and self.need.tool == "check_reward_distribution" and self.row is not None:
            instead = _rollouts_of(self.row, self.detail)
        return Unmet(self.need.tool, self.why, self.detail, self.arguments, instead)


_SAMPLE_SIZE_CODES = frozenset({"distribution-too-small", "distribution-unclear"})
_DEFAULT_TASKS = 50
"""Default number of tasks of `run_eval`."""


_UNSOLVED_CODES = frozenset({"distribution-all-zero", "distribution-dead", "distribution-format-low"})


def _rollouts_of(row: Evidence, detail: str) -> Next | None:
    """Return the call that shows the evaluation behind a failed distribution; None if its id is not known.

    Another judgement of the same rollouts has the same result.
    """
    evaluation = row.data.get("id") or row.arguments.get("id")
    if not isinstance(evaluation, str) or not evaluation:
        return None
    unsolved = bool(_UNSOLVED_CODES.intersection(row.blockers))
    shown = "which rollouts got no reward, and why" if unsolved else "which tasks teach nothing"
    why = f"{detail}; {shown}: mend that, then call run_eval"
    return Next("read_eval", why, {"eval": evaluation, "view": "zeros" if unsolved else "difficulty"})


def _larger_evaluation(row: Evidence | None, detail: str) -> Next | None:
    """Return the call of a larger evaluation if the distribution was unclear only because the last one was too small.

    In every other case the result is None.
    """
    if row is None or row.tool != "check_reward_distribution" or not row.blockers or row.environment is None:
        return None
    if not _SAMPLE_SIZE_CODES.issuperset(row.blockers):
        return None
    tasks = row.data.get("tasks")
    given: dict[str, Any] = {"environment": row.environment, **({"model": row.model} if row.model else {})}
    # Below the default number of tasks, the default is large enough: the call names no number.
    if isinstance(tasks, int) and tasks >= _DEFAULT_TASKS:
        given["num_examples"] = 2 * tasks
    if row.env_args:
        given["env_args"] = dict(row.env_args)
    return Next("run_eval", detail, given)


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
    result = _standing(need, history, subject, platform, waived, trained)
    return replace(result, arguments=subject.call_arguments(need))


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
            chosen = choose_evaluation(
                counting,
                trained,
                lambda row: _decides(row, fingerprint or "", waived),
                lambda row: _judged(need, row, fingerprint or "", waived).why is None,
            )
        else:
            chosen = counting[0]
        if chosen is None:
            return Standing(
                need, "never-run", "only checkpoints of training runs were evaluated, not the model to train"
            )
        judged = _outdated(need, chosen, subject) or _judged(need, chosen, fingerprint or "", waived)
        return (_drifted(need, chosen, subject) if judged.why is None else None) or judged
    if matching:
        other = "rehearsal" if platform == "prime" else "the real platform"
        return Standing(need, "rehearsal", f"{need.tool} passed only against {other}; run it here", matching[0])
    if of_files and required is not None:
        detail = f"{need.tool} has run on this {_noun(need.by)}, but not with {arguments_summary(required)}"
        if any(differ_in_order_alone(row.env_args, required) for row in of_files):
            detail += (
                " (it has with the same values, but the keys of a table were in another order, which code can read)"
            )
        return Standing(need, "never-run", detail)
    earlier = [row for row in history if row.tool == need.tool and _same_subject(row, subject, need.by)]
    if earlier:
        if need.by == "source" and any(row.content == subject.content for row in earlier):
            detail = f"{need.tool} ran under an older definition of what counts as source; run it again"
            return Standing(need, "stale", detail, earlier[0])
        return Standing(need, "stale", f"the files changed since the last {need.tool} that counts", earlier[0])
    return Standing(need, "never-run", f"{need.tool} has not run on this {_noun(need.by)}")


def _decides(row: Evidence, fingerprint: str, waived: set[tuple[str, str]]) -> bool:
    """Whether a verdict on an evaluation is conclusive, or a person waived what made it inconclusive."""
    if row.status != "inconclusive":
        return True
    return bool(row.blockers) and all((fingerprint, code) in waived for code in row.blockers)


def _outdated(need: Need, row: Evidence, subject: Subject) -> Standing | None:
    """Return a stale standing if verifiers changed by a minor version or more (docs/validation.md, Staleness).

    A package of the v0 API never runs on the server's verifiers, even if its requirement has no upper bound.
    """
    then, now = row.toolchain.get("verifiers"), subject.verifiers
    if not then or not now or str(then).split(".")[:2] == now.split(".")[:2] or str(then) in V0_RELEASES:
        return None
    return Standing(need, "stale", f"{need.tool} ran on verifiers {then}, and {now} is installed now", row)


def _drifted(need: Need, row: Evidence, subject: Subject) -> Standing | None:
    """Return a stale standing if a verdict that opens the gate was reached with other dependencies."""
    drift = dependency_drift(row, subject.distributions)
    return Standing(need, "stale", f"{need.tool} ran with {drift}", row) if drift is not None else None


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
    """Return the subject with the arguments that a push names.

    A push that names no arguments means the default arguments. If `test_reward` has shown that the environment does not
    load with its defaults, the push means `check_args` of the package.
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
    installed, required = installed_verifiers(), snapshot.manifest.verifiers
    return installed if installed and required is not None and required.specifier.contains(installed) else None


def installed_verifiers() -> str | None:
    """The version of verifiers in the server's own interpreter; None if it has none."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        installed = distribution("verifiers")
    except PackageNotFoundError:
        return None
    # `installed.version` parses the whole file as an e-mail, which took most of the time of a status.
    version = _METADATA_VERSION.search(installed.read_text("METADATA") or "")
    return version[1] if version is not None else installed.version


_METADATA_VERSION = re.compile(r"^Version: *(\S+) *$", re.MULTILINE)


def gate_standings(
    ledger: Ledger,
    workspace: str,
    platform: Platform,
    snapshot: Snapshot,
    needs: tuple[Need, ...] = TRAINING_NEEDS,
    arguments: Mapping[str, Any] | None = None,
    distributions: Mapping[str, str] | None = None,
) -> list[Standing]:
    """Return one standing per requirement. Evidence counts for the same files, even if their folder was renamed since.

    `arguments` are those that a push would name; `distributions` is as in `Subject`.
    """
    subject = replace(subject_of(snapshot), distributions=distributions)
    rows = subject_history(ledger, workspace, subject, needs)
    subject = with_arguments(subject, arguments, rows)
    waived = ledger.overrides(workspace)
    return [standing(need, rows, subject, platform, waived) for need in needs]


def tried_arguments(ledger: Ledger, workspace: str, snapshot: Snapshot) -> list[Mapping[str, Any]]:
    """Each distinct set of arguments with which `test_reward` ran on these files, latest first."""
    tried: list[Mapping[str, Any]] = []
    for row in ledger.decisive(workspace, "test_reward", source=snapshot.source):
        if not any(same_arguments(row.env_args, other) for other in tried):
            tried.append(row.env_args)
    return tried


def subject_history(ledger: Ledger, workspace: str, subject: Subject, needs: Iterable[Need]) -> list[Evidence]:
    """The verdicts that can decide about a subject, newest first: all on its files, and the last on other files."""
    rows: dict[int, Evidence] = {}
    for tool, by in dict.fromkeys((need.tool, need.by) for need in (*needs, *_ARGUMENT_NEEDS)):
        fingerprint = subject.fingerprint(by)
        verdicts: list[Evidence] = []
        if fingerprint:
            column = {"content": "content", "source": "source", "config": "config_sha256"}[by]
            verdicts = ledger.decisive(workspace, tool, of_evaluations=tool in EVALUATED, **{column: fingerprint})
        if by == "config":
            verdicts += ledger.evidence(workspace, tool=tool, limit=1)
        elif subject.environment is not None:
            verdicts += ledger.evidence(workspace, tool=tool, environment=subject.environment, limit=1)
            if subject.content and by == "source":
                verdicts += ledger.evidence(
                    workspace, tool=tool, environment=subject.environment, content=subject.content, limit=1
                )
        rows.update((row.id, row) for row in verdicts)
    return [rows[id] for id in sorted(rows, reverse=True)]


_ARGUMENT_NEEDS = (Need("test_reward", "source"),)
"""The verdicts that show `with_arguments` whether the environment loads with its default arguments."""


def proven_tools(ledger: Ledger, workspace: str, platform: Platform, snapshot: Snapshot) -> tuple[str, ...]:
    """The tools whose evidence is valid for these files, in the order of `TRAINING_NEEDS`."""
    return tuple(
        result.need.tool for result in gate_standings(ledger, workspace, platform, snapshot) if result.why is None
    )


def upcoming_call(
    environment: str,
    api: str | None,
    standings: Sequence[Standing],
    env_args: Mapping[str, Any] | None = None,
    *,
    workspace: Workspace,
) -> Next:
    """Return the call that produces the first missing evidence. If none is missing, return the step after a push.

    `env_args` are the arguments for which the standings were computed. The returned call repeats them. In `workspace`
    the name of a port is chosen.
    """
    missing = [standing for standing in standings if standing.why]
    step = missing[0] if missing else None
    if [one.need.tool for one in missing[:2]] == ["check_environment", "test_reward"] and missing[0].why != "failed":
        step = missing[1]  # test_reward runs the check first
    here: dict[str, Any] = {"environment": environment}
    named = {**here, "env_args": dict(env_args)} if env_args else here
    if step is None and api == "v0":
        port = {"name": workspace.free_port_name(environment), "port": environment}
        return Next("create_environment", "a v0 environment cannot be trained; makes a v1 port beside it", port)
    if step is None:
        given: dict[str, Any] = {"environments": [environment]}
        given |= {"env_args": dict(env_args)} if env_args else {}
        return Next("write_training_config", "everything is proven and pushed", given)
    tool, failed = step.need.tool, step.why in ("failed", "inconclusive")
    if step.unmet is not None and step.unmet.instead is not None:
        return step.unmet.instead
    if tool == "check_reward_distribution":
        return Next("read_eval", step.detail, {"view": "zeros"}) if failed else Next("run_eval", step.detail, named)
    if failed and tool == "check_environment":
        return Next(tool, f"{step.detail}; shows where, to mend it with edit_environment", here)
    if step.why == "inconclusive" and step.row is not None and set(step.row.blockers) == {"rollouts-too-slow"}:
        return Next(tool, f"{step.detail}; again, when this machine has less to do", named)
    if failed and tool != "push_environment":
        return Next("read_environment", f"{step.detail}; mend it with edit_environment", here)
    return Next(tool, step.detail, here if tool == "check_environment" else named)
