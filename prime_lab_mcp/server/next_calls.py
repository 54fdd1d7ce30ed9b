"""Completes the recommended calls of a report, so that each can be called as it is.

A tool recommends calls without knowing the arguments of the present call and the latest evidence. This module adds the
arguments of the present call, drops calls that repeat a failed call or that no tool would accept, and replaces a
workflow step that is done or not yet possible by the step that is due. If no call remains after a failure, the calls in
the finding's fix are recommended (fix_calls.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.base.errors import PASSING
from prime_lab_mcp.lab.base.report import Finding, Next, Report
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.offered import DEFAULT_MODEL
from prime_lab_mcp.lab.state.arguments import arguments_summary, same_arguments
from prime_lab_mcp.lab.state.gates import NEEDS, Standing, gate_standings, tried_arguments, upcoming_call
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.proven_arguments import held_out_argument
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import detect_generation
from prime_lab_mcp.server import arguments
from prime_lab_mcp.server.fix_calls import calls_of_fix
from prime_lab_mcp.tools.on_demand import ToolsOnDemand
from prime_lab_mcp.tools.tool import AnyTool, Arguments

_WORKFLOW_STEPS = ("check_environment", "test_reward", "run_eval", "push_environment", "write_training_config")
"""The steps of the workflow. The ledger decides which step is due."""
_FOLDER = "environments/"
"""The workspace folder of environments. A path that begins with it and the bare name mean the same environment."""
_ANSWERS = frozenset({"confirm", "yes", "dry_run"})
"""Arguments that belong to one call and are not copied into another."""
_RECENT = 20
"""Number of the newest tests of a reward among which one that passed is looked for (our choice)."""
_FINAL_STATUSES = ("failed", "blocked", "error")
"""Statuses after which a repeated call would have the same result."""


_TAKE_A_NAME = ("check_environment", "test_reward", "run_eval")
"""Tools that need no other argument than the name of an environment, and `run_eval` a model."""
_MOST_EVALUATIONS = 20
"""Number of the newest evaluations that are searched for a model to evaluate."""


@dataclass(frozen=True, slots=True)
class PresentCall:
    """The call that a report answers. `snapshot` is that of the local environment, if the call used one."""

    lab: Lab
    tool: AnyTool
    given: Mapping[str, Any]
    tools: Mapping[str, AnyTool]
    snapshot: Snapshot | None = None

    @property
    def carried(self) -> dict[str, Any]:
        return {name: value for name, value in self.given.items() if name not in _ANSWERS and value is not None}


def with_right_calls(report: Report, present: PresentCall) -> Report:
    """Return the report with recommendations that can be called as they are."""
    calls: list[Next] = []
    for one in report.next:
        completed = _completed(one, report, present)
        if completed is None:
            continue
        if report.status in _FINAL_STATUSES and _repeats(completed, present) and not _passes(report):
            calls += _mending(report, present)
        else:
            due = _due(completed, present) if report.status == "passed" else completed
            calls.append(_as_it_can_go(_tested_as_before(due, present), present))
    if not calls and report.status in (*_FINAL_STATUSES, "inconclusive"):
        calls = _mending(report, present)
    return replace(report, next=_distinct(calls))


def _tested_as_before(one: Next, present: PresentCall) -> Next:
    """A test of a reward with the cases, the rendering and the judge of the last one that passed, or of the last one.

    Cases name tasks by their number, so they belong to tests with the same arguments of the environment.
    """
    given = dict(one.arguments or {})
    if one.tool != "test_reward" or present.tool.name == "test_reward" or not isinstance(given.get("environment"), str):
        return one
    name = given["environment"].removeprefix(_FOLDER)
    rows = present.lab.ledger.evidence(present.lab.key, tool="test_reward", environment=name, limit=_RECENT)
    row = next((row for row in rows if row.status == "passed"), next(iter(rows), None))
    if row is None:
        return one
    kept = {key: row.arguments[key] for key in ("rendering", "judge", "preset") if row.arguments.get(key)}
    if same_arguments(row.env_args or {}, given.get("env_args") or {}):
        kept |= {"cases_file": row.arguments["cases_file"]} if row.arguments.get("cases_file") else {}
        kept |= {"cases_file": "last"} if row.arguments.get("cases") else {}
    return replace(one, arguments={**kept, **given})


def _as_it_can_go(one: Next, present: PresentCall) -> Next:
    """The recommendation; for a push of the present files, the call that is not refused and that somebody wants, and
    for an evaluation of them the container that the tasks need."""
    snapshot = present.snapshot
    of_these = snapshot is not None and (one.arguments or {}).get("environment") in (snapshot.name, snapshot.relative)
    if snapshot is None or not of_these or present.tool.name == one.tool:
        return one
    if one.tool == "run_eval":
        from prime_lab_mcp.lab.evals.sandboxes import in_its_container

        return in_its_container(present.lab.ledger, present.lab.key, snapshot, one)
    if one.tool != "push_environment":
        return one
    from prime_lab_mcp.lab.training.next_step import push_as_it_can_go

    return push_as_it_can_go(present.lab, snapshot, one)


def needs_files(report: Report) -> bool:
    """Whether the recommendations of a report depend on the environment's files as they are after the call."""
    if report.status == "failed":
        return True
    return report.status == "passed" and any(one.tool in _WORKFLOW_STEPS for one in report.next)


def _completed(one: Next, report: Report, present: PresentCall, *, repeated: bool = True) -> Next | None:
    """Return the recommendation with all arguments that its tool needs; None if no tool accepts the call.

    With `repeated`, a recommendation of the present tool without arguments means the present call.
    """
    if one.tool not in present.tools:
        return None
    if _is_complete(one, report, present):
        called = _as_called(one.arguments or {}, present)
        model = {"model": _model(called["environment"], present)} if one.tool == "run_eval" else {}
        return replace(_with_other_models(one, model.get("model"), present), arguments={**called, **model})
    tool = present.tools[one.tool]
    fields = tool.args.model_fields
    given = dict(one.arguments or {})
    if repeated and not given and tool.name == present.tool.name:
        given = present.carried
    for name, field in fields.items():
        if name in given or name not in present.carried:
            continue
        # Evidence belongs to its environment arguments, so other tools get the same. A tool may change its own call.
        passed = report.status == "passed" and name == "env_args"
        carried = passed and tool.name != present.tool.name and _same_environment(given, present)
        if field.is_required() or carried:
            given[name] = present.carried[name]
    judged = report.status in ("inconclusive", "failed") and tool.name == present.tool.name == "run_eval"
    if judged and "budget" in present.carried and not given.get("rescore"):  # what the user allows is still allowed
        given.setdefault("budget", present.carried["budget"])
    if tool.name == "run_eval" and not given.get("model") and not given.get("rescore"):
        given["model"] = _model(given.get("environment"), present)
        one = _with_other_models(one, given["model"], present)
    given = _as_called(given, present)
    one = _with_a_named_sum(one, given, present)
    return replace(one, arguments=given or None) if arguments.can_be_called(tool, given) else None


def _is_complete(one: Next, report: Report, present: PresentCall) -> bool:
    """Whether a tool certainly accepts a recommendation as it is, so that its module need not be imported for that.

    These tools take an environment's name and the arguments that a verdict needs. The name is that of the present call,
    which has proven that it is valid, or one that `workflow_status` found in the workspace. A refused call passes none
    of its other arguments on, and `workflow_status` has none.
    """
    tools, given = present.tools, _as_called(one.arguments or {}, present)
    if not isinstance(tools, ToolsOnDemand) or tools.is_imported(one.tool) or one.tool not in _TAKE_A_NAME:
        return False
    if "env_args" in given and (one.tool == "check_environment" or not isinstance(given["env_args"], dict)):
        return False
    name = given.get("environment")
    known = present.tool.name == "workflow_status" or (
        report.status == "blocked" and name == present.carried.get("environment")
    )
    return known and bool(name) and isinstance(name, str) and given.keys() <= {"environment", "env_args"}


def _same_environment(given: Mapping[str, Any], present: PresentCall) -> bool:
    return bool(given.get("environment", "") == present.carried.get("environment"))


def _model(environment: Any, present: PresentCall) -> str:
    """The model to evaluate if a recommendation names none: the call's, the last evaluated, or the default."""
    named = present.carried.get("model")
    if isinstance(named, str):
        return named
    ledger, key = present.lab.ledger, present.lab.key
    for jobs in (
        ledger.jobs(key, environment=environment) if environment else [],
        ledger.jobs(key, limit=_MOST_EVALUATIONS),
    ):
        for job in jobs[:_MOST_EVALUATIONS]:
            from prime_lab_mcp.lab.evals.results import checkpoint_purpose

            model = job.spec.get("model")
            # A checkpoint is a result of training, not a model to train next.
            if isinstance(model, str) and checkpoint_purpose(present.lab, model) is None:
                return model
    return DEFAULT_MODEL


def _with_other_models(one: Next, model: str | None, present: PresentCall) -> Next:
    """Say that the default model is a choice, because nobody asked for it."""
    if model != DEFAULT_MODEL or "model" in present.carried:
        return one
    return replace(one, why=f"{one.why}; search_hub kind=model lists other models, also smaller ones")


def _with_a_named_sum(one: Next, given: Mapping[str, Any], present: PresentCall) -> Next:
    """Say that a new hosted config takes the sum that the user named, which no report of another tool knows."""
    hosted = given.get("target", "hosted") == "hosted" and "environments" in given
    if one.tool != "write_training_config" or not hosted or "budget" in given or present.tool.name == one.tool:
        return one
    return replace(one, why=f"{one.why}; with budget=USD where the user named a sum")


def _as_called(given: Mapping[str, Any], present: PresentCall) -> dict[str, Any]:
    """Replace the environment's name by the spelling of the present call."""
    named, other = present.carried.get("environment"), given.get("environment")
    if not isinstance(named, str) or not isinstance(other, str):
        return dict(given)
    same = named.removeprefix(_FOLDER) == other.removeprefix(_FOLDER)
    return {**given, "environment": named} if same else dict(given)


def _repeats(one: Next, present: PresentCall) -> bool:
    return one.tool == present.tool.name and dict(one.arguments or {}) == present.carried


def _mending(report: Report, present: PresentCall) -> list[Next]:
    """The calls that help before the present call is repeated.

    These are the calls in the fix of the first blocker, the call that reads the files, and the page about the blocker.
    """
    blocker = next((f for f in report.findings if f.severity == "blocker"), None)
    calls = _fixing(blocker, report, present) if blocker is not None else []
    if calls and report.status != "failed":
        return calls
    if report.status == "failed" and present.snapshot is not None and "read_environment" in present.tools:
        why = "the files; mend them with edit_environment and call again"
        here = _as_called({"environment": present.snapshot.relative}, present)
        calls.append(Next("read_environment", why, here))
    if blocker is not None and "read_reference" in present.tools and present.tool.name != "read_reference":
        topic = {"topic": f"finding/{blocker.code}"}
        calls.append(Next("read_reference", f"what {blocker.code} means and its smallest fix", topic))
    return calls


def _fixing(blocker: Finding, report: Report, present: PresentCall) -> list[Next]:
    """The calls that the fix of a blocker names and that a tool accepts."""
    tools = _ArgumentTypes(present.tools)
    named = [
        _of_the_evaluation(one, present) for one in calls_of_fix(blocker.fix, present.tool.name, present.carried, tools)
    ]
    completed = (_completed(one, report, present, repeated=False) for one in named)
    return [one for one in completed if one is not None and not _repeats(one, present)]


class _ArgumentTypes(Mapping[str, type[Arguments]]):
    """The arguments of each tool by its name. A tool that no fix names is not looked up, and so not imported."""

    def __init__(self, tools: Mapping[str, AnyTool]) -> None:
        self._tools = tools

    def __getitem__(self, name: str) -> type[Arguments]:
        kind: type[Arguments] = self._tools[name].args
        return kind

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


def _of_the_evaluation(one: Next, present: PresentCall) -> Next:
    """Add the environment to a call, if the present call names it only by one of its evaluations."""
    given = dict(one.arguments or {})
    fields = present.tools[one.tool].args.model_fields
    if "environment" in given or "environment" in present.carried or "environment" not in fields:
        return one
    names = (present.carried.get(name) for name in ("eval", "id", "results"))
    id = next((name for name in names if isinstance(name, str) and name.startswith("eval-")), None)
    job = present.lab.ledger.job(id) if id is not None else None
    if job is None or job.workspace != present.lab.key:
        return one
    from prime_lab_mcp.lab.evals.plan import run_eval_arguments
    from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs

    measured = run_eval_arguments(EvaluationJobs(present.lab).spec(job))
    known = measured if one.tool == "run_eval" else {"environment": measured["environment"]}
    return replace(one, arguments={**known, **given})


def _passes(report: Report) -> bool:
    """Whether the cause of the failure is temporary, so that the same call can be repeated."""
    return any(finding.severity == "blocker" and finding.code in PASSING for finding in report.findings)


def _due(one: Next, present: PresentCall) -> Next:
    """Return a workflow step, or the due step if that step is done or not yet possible."""
    snapshot = present.snapshot
    given = dict(one.arguments or {})
    # A tool that recommends itself knows why (a dry run), and a comparison or a rescoring is no step of the line.
    own = one.tool == present.tool.name or given.get("rescore") or given.get("compare_base")
    if snapshot is None or one.tool not in _WORKFLOW_STEPS or own:
        return one
    if given.get("environment", snapshot.name) not in (snapshot.name, snapshot.relative):
        return one
    from prime_lab_mcp.lab.training.next_step import config_waits_for, step_after_the_push

    named = given.get("env_args") or present.given.get("env_args") or None
    lab = present.lab
    if named is not None and config_waits_for(lab, snapshot, named):
        return step_after_the_push(lab, snapshot) or one
    if named is not None and held_out_argument(named) is not None and present.tool.name == "test_reward":
        from prime_lab_mcp.lab.training.evaluations import held_out_evaluation

        comparison = held_out_evaluation(lab, snapshot.name)
        if comparison is not None and (comparison.arguments or {}).get("env_args") == named:
            return comparison  # of a trained checkpoint: its base alone would show no difference
    if named is not None and held_out_argument(named) is not None:
        named = None  # arguments for held-out tasks belong to a config; those of training decide which step is due
    standings = _standings(present, snapshot, named)
    missing = next((standing.need.tool for standing in standings if standing.why), "write_training_config")
    if named is None and missing == "check_reward_distribution" and (push := _push_that_waits(present, snapshot)):
        return push
    if present.tool.name == "test_reward" and missing == "check_reward_distribution":
        judged = next(standing for standing in standings if standing.why)
        if judged.why == "failed" and judged.row is not None:
            return _of_the_failed_evaluation(judged.row)
    if one.tool == "push_environment" == missing and named is not None:
        return _before_the_push(one, present, snapshot)
    due = "run_eval" if missing == "check_reward_distribution" else missing
    if due == one.tool == "test_reward":
        tested = next(standing for standing in standings if standing.why)
        if tested.why in ("failed", "inconclusive"):  # The same test of the same files would say the same.
            return upcoming_call(snapshot.name, _api(present), standings, named, workspace=lab.workspace)
    if due == one.tool or due not in present.tools:
        return one
    # After an evaluation of one model, the config or the run of another one is no step.
    model = present.given.get("model") if present.tool.name == "run_eval" else None
    after = step_after_the_push(lab, snapshot, model) if due == "write_training_config" else None
    step = after or upcoming_call(snapshot.name, _api(present), standings, named, workspace=lab.workspace)
    return _completed(step, Report("passed", ""), present) or one


_UNPAID = ("distribution-dead", "distribution-all-zero", "distribution-format-low", "distribution-unparsed")
"""Blockers of evaluations in which little or nothing was paid."""


def _of_the_failed_evaluation(row: Evidence) -> Next:
    """The view of an evaluation of these very files that failed: another one would end alike."""
    unpaid = bool(set(row.blockers) & set(_UNPAID))
    why = f"the evaluation of these very files failed ({', '.join(row.blockers[:3])}), and another one would end alike"
    given: dict[str, Any] = {"view": "zeros" if unpaid else "difficulty"}
    if isinstance(id := row.arguments.get("id") or row.data.get("id"), str):
        given["eval"] = id
    return Next("read_eval", f"{why}: see {'what was not paid' if unpaid else 'which tasks to change'}", given)


def _standings(present: PresentCall, snapshot: Snapshot, named: Mapping[str, Any] | None) -> list[Standing]:
    lab = present.lab
    return gate_standings(lab.ledger, lab.key, lab.platform, snapshot, arguments=named)


def _lacks_for_push(present: PresentCall, snapshot: Snapshot, named: Mapping[str, Any]) -> list[Standing]:
    lab, needs = present.lab, NEEDS["push_environment"]
    standings = gate_standings(lab.ledger, lab.key, lab.platform, snapshot, needs, arguments=named)
    return [standing for standing in standings if standing.why]


def _before_the_push(one: Next, present: PresentCall, snapshot: Snapshot) -> Next:
    """The push with these arguments, or the test with the default arguments that a push needs as well."""
    lacks = _lacks_for_push(present, snapshot, one.arguments.get("env_args") or {} if one.arguments else {})
    if not lacks or lacks[0].need.tool != "test_reward":
        return one
    why = "a push also needs the reward tested with the default arguments, which everybody else gets; then it can go"
    return Next("test_reward", why, _as_called({"environment": snapshot.name}, present))


def _push_that_waits(present: PresentCall, snapshot: Snapshot) -> Next | None:
    """The push with arguments other than the defaults, if these are proven and nothing of these files was pushed."""
    lab = present.lab
    if lab.ledger.pushes(workspace=lab.key, source=snapshot.source, platform=lab.platform):
        return None
    for named in tried_arguments(lab.ledger, lab.key, snapshot):
        if named and held_out_argument(named) is None and not _lacks_for_push(present, snapshot, named):
            given = {"environment": snapshot.name, "env_args": dict(named)}
            why = f"all that a push needs is proven with {arguments_summary(named)}"
            return Next("push_environment", why, _as_called(given, present))
    return None


def _api(present: PresentCall) -> str | None:
    return detect_generation(present.snapshot).api if present.snapshot is not None else None


def _distinct(calls: Sequence[Next]) -> tuple[Next, ...]:
    """The calls with different tools or arguments, in order."""
    distinct: list[Next] = []
    for one in calls:
        if all((one.tool, one.arguments) != (other.tool, other.arguments) for other in distinct):
            distinct.append(one)
    return tuple(distinct)
