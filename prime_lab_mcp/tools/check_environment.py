"""`check_environment`: checks a package's files, source code, wheel and loaded environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio

from prime_lab_mcp.lab.authoring.row_removal import leak_removal
from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.errors import UNDECIDED, InterpreterError, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next, Verdict, capped, merged, verdict_of, worst_first
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.distributions import local_distributions
from prime_lab_mcp.lab.environment import load_check, loaded_checks, package, static_checks
from prime_lab_mcp.lab.environment.build_code import BUILD_RUNS_CODE, may_build
from prime_lab_mcp.lab.environment.easy_tasks import easiest_arguments
from prime_lab_mcp.lab.environment.loaded_checks import LoadedObservations
from prime_lab_mcp.lab.environment.package import EnvironmentPackage
from prime_lab_mcp.lab.environment.requirements import local_distribution_findings
from prime_lab_mcp.lab.interpreter import interpreter_requirements
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.rewards.calibration import compares_golds, instruction_texts
from prime_lab_mcp.lab.rewards.judged_scoring import asks_judge
from prime_lab_mcp.lab.rewards.probes.answer_formats import requested_wrappers
from prime_lab_mcp.lab.rewards.solutions import solutions_copy_prompts
from prime_lab_mcp.lab.rewards.trial import GOLD_TASKS
from prime_lab_mcp.lab.sandbox.containers.access import podman_is_installed
from prime_lab_mcp.lab.state import source_code
from prime_lab_mcp.lab.state.arguments import check_args
from prime_lab_mcp.lab.state.open_warnings import due_comparison
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.worker.description import Arg, Row
from prime_lab_mcp.lab.worker.faults import LoadFailed
from prime_lab_mcp.tools.tool import Arguments, Call, EnvironmentName, Tool

_STOPPERS = frozenset(
    {
        "pyproject-missing",
        "pyproject-invalid",
        "project-name-missing",
        "no-module",
        "module-name",
        "unknown-generation",
        "syntax-error",
        "migration",
        "requirement-invalid",
        "requires-python",
    }
)
"""Blockers that make loading fail with a less clear message, so that loading is skipped."""
_UNINSTALLABLE = frozenset({"requirements-unsatisfiable", "requirements-failed", "python-missing"})
_MOST_ARGUMENTS = 12
_UNBUILT = Finding(
    "wheel-not-checked",
    "blocker",
    "the wheel was not built, because its build runs code that no person has waived",
    Fix("Mend build-runs-code, or have the user waive it, and call ", NamedCall("check_environment"), " again."),
    "pyproject.toml",
)


class Args(Arguments):
    environment: EnvironmentName


async def run(call: Call, args: Args) -> Outcome:
    """Run the static checks, then build and load the environment unless these checks show that loading fails."""
    snapshot = call.environment
    package_files = await anyio.to_thread.run_sync(package.read_package, snapshot, call.lab.settings.allow_env)
    findings = await anyio.to_thread.run_sync(static_checks.static_findings, package_files)
    data: dict[str, Any] = {
        "api": package_files.generation.api,
        "trainable": package_files.generation.api == "v1",
        "why_api": list(package_files.generation.reasons),
        "interpreter": None,
        "verifiers_version": None,
        "loads": False,
        "tasks": None,
        "rewards": [],
        "content": snapshot.content,
        "source": snapshot.source,
    }
    facts = Facts()
    if not any(f.code in _STOPPERS and f.severity == "blocker" for f in findings):
        flawed = any(f.severity == "blocker" and f.code != BUILD_RUNS_CODE for f in findings)
        buildable = may_build(snapshot, call.lab.ledger.overrides(call.lab.key))
        facts, more, shipped = await _load(call, package_files, data, with_wheel=buildable and not flawed)
        if shipped and shipped != {f.path for f in package_files.code.files}:
            # Only what the wheel holds is the package's code, and all of it is.
            package_files = await anyio.to_thread.run_sync(
                package.read_package, snapshot, call.lab.settings.allow_env, shipped
            )
            findings = await anyio.to_thread.run_sync(static_checks.static_findings, package_files)
        if not buildable:
            findings.append(_UNBUILT)
        codes = {f.code for f in findings}
        findings += [f for f in more if f.code != "judge-needs-key" or f.code not in codes]
    port = {"name": call.lab.workspace.free_port_name(snapshot.relative), "port": snapshot.relative}
    outcome = _outcome(snapshot.relative, findings, data, facts, port)
    ledger, root = call.lab.ledger, call.lab.workspace.root
    comparison = due_comparison(ledger, call.lab.key, snapshot.name, snapshot.source, root)
    if outcome.status != "passed" or comparison is None:
        return outcome
    return replace(outcome, next=(comparison, *(one for one in outcome.next if one.tool != "test_reward")))


async def _load(
    call: Call, package_files: EnvironmentPackage, data: dict[str, Any], *, with_wheel: bool
) -> tuple[Facts, list[Finding], frozenset[str] | None]:
    """Load the environment; the third value is the Python files of the package, where its wheel tells them."""
    snapshot = call.environment
    given = check_args(snapshot.manifest)

    async def say(message: str) -> None:
        await call.progress(0.3, 1.0, message)

    written = await anyio.to_thread.run_sync(source_code.read_source, snapshot)

    def forms(rows: Sequence[Row]) -> list[load_check.Wrap]:
        return [wrapper.wrap for wrapper in requested_wrappers(instruction_texts(rows), written.text)]

    try:
        loaded = await load_check.check_loading(
            call.lab, package_files, with_wheel=with_wheel, progress=say, forms=forms
        )
    except LoadFailed as error:
        return Facts(env_args=given), [loaded_checks.load_failed_finding(error)], None
    except InterpreterError as error:
        if error.code not in _UNINSTALLABLE:
            raise
        return Facts(env_args=given), [error.as_finding()], None
    data.update(_data(loaded))
    wanted = interpreter_requirements(snapshot.manifest.table, loaded.opened.api)
    local = await anyio.to_thread.run_sync(local_distributions, loaded.opened.interpreter.python, wanted)
    findings = [
        *local_distribution_findings(local),
        *([loaded_checks.needs_key_finding()] if loaded.opened.variables else ()),
        *loaded.wheel.findings,
        *loaded_checks.loaded_findings(loaded.observed),
        *loaded_checks.rewards_in_readme(package_files, loaded.observed),
    ]
    findings = await _about_replies(call, loaded, findings, written.text)
    findings = await anyio.to_thread.run_sync(_with_removal, snapshot, loaded.observed, findings)
    recorded = {"shapes": dict(loaded.observed.traits.shapes)}
    return Facts(env_args=given, toolchain=loaded.opened.toolchain, unreported=recorded), findings, loaded.wheel.shipped


_OF_REPLIES: frozenset[Code] = frozenset(
    {
        "conflicting-gold",
        "empty-gold",
        "gold-in-prompt",
        "gold-unparseable",
        "majority-floor",
        "mixed-format",
        "position-bias",
    }
)
"""Codes of findings on stored answers that say nothing about training unless the reward compares replies with them."""


async def _about_replies(
    call: Call, checked: load_check.LoadCheck, findings: list[Finding], source: str
) -> list[Finding]:
    """Turn blockers about stored answers into warnings if the reward does not pay these answers as replies.

    A field called `answer` may be the name of a program's tests, a seed or the state of a game. Its place in the prompt
    then gives nothing away. A reward that asks a judge is not asked.
    """
    blocking = [f for f in findings if f.code in _OF_REPLIES and f.severity == "blocker"]
    loaded = checked.observed.loaded
    if not blocking:
        return findings
    # With solutions, a prompt may name the state to reach, so that only a paid gold shows that copying it scores.
    unknown = [_may_be_the_task(f) if loaded.turns and loaded.solutions else f for f in findings]
    if asks_judge(loaded):
        return unknown
    try:
        async with open_environment(call.lab, call.environment) as environment:
            rows = await environment.worker.rows(limit=GOLD_TASKS)
            if await compares_golds(environment.worker, rows.rows, source):
                return findings
            stated = any(f.code == "gold-in-prompt" for f in blocking) and loaded.turns and loaded.solutions
            copied = stated and await solutions_copy_prompts(environment.worker, rows.rows)
    except LabError:
        return unknown
    kept = [f for f in blocking if not (copied and f.code == "gold-in-prompt")]
    return [_not_replies(f) if f in kept else _after_calls(f) if f in blocking else f for f in findings]


def _with_removal(snapshot: Snapshot, observed: LoadedObservations, findings: list[Finding]) -> list[Finding]:
    """Give `leak-exact` the call that removes the rows, where they are lines of one file."""
    if observed.held_out is None or not any(f.code == "leak-exact" for f in findings):
        return findings
    removal = leak_removal(snapshot.relative, snapshot, observed.rows, observed.held_out.rows)
    return findings if removal is None else [replace(f, fix=removal) if f.code == "leak-exact" else f for f in findings]


_COPYING = ", so copying scores"


def _may_be_the_task(finding: Finding) -> Finding:
    """Return a finding about golds in prompts as a warning that does not say what a copy earns."""
    if finding.code != "gold-in-prompt" or finding.severity != "blocker":
        return finding
    return replace(finding, severity="warning", message=finding.message.replace(_COPYING, ""))


def _after_calls(finding: Finding) -> Finding:
    message = finding.message.rstrip(".").removesuffix(_COPYING)
    return replace(finding, message=f"{message}, and solutions end with this answer: after their calls, a copy scores")


def _not_replies(finding: Finding) -> Finding:
    message = f"{finding.message.rstrip('.').removesuffix(_COPYING)}; but the reward pays no stored answer as a reply"
    return replace(finding, severity="warning", message=message)


def _data(checked: load_check.LoadCheck) -> dict[str, Any]:
    loaded, traits = checked.observed.loaded, checked.observed.traits
    data: dict[str, Any] = {
        "api": loaded.api,
        "trainable": loaded.api == "v1",
        "loads": True,
        "interpreter": str(checked.opened.interpreter.python),
        "verifiers_version": loaded.verifiers_version,
        "tasks": checked.observed.tasks,
        "infinite": loaded.infinite,
        "tasks_looked_at": len(checked.observed.rows),
        "rewards": [{"name": r.name, "weight": r.weight} for r in loaded.rewards if r.kind != "metric"],
        "args": [_arg(a) for a in traits.args[:_MOST_ARGUMENTS]],
        "held_out": checked.held_out,
        "wheel": checked.wheel.state,
    }
    if traits.roles:
        data["roles"] = [{"name": r.name, "harness": r.harness, "runtime": r.runtime} for r in traits.roles[:6]]
    easiest = easiest_arguments(traits.args, (row.fields for row in checked.observed.rows))
    if easiest is not None:
        data["easiest"] = easiest
    if loaded.container:
        data["container"] = True
    if checked.opened.env_args:
        data["env_args"] = dict(checked.opened.env_args)
    return data


def _arg(arg: Arg) -> dict[str, Any]:
    argument: dict[str, Any] = {"name": arg.name, "type": arg.type}
    argument |= {"required": True} if arg.required else {"default": _short(arg.default)}
    return argument | ({"choices": [_short(c) for c in arg.choices[:10]]} if arg.choices else {})


def _short(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else quote(value, 120)[1:-1]


_OLD_API: frozenset[Code] = frozenset({"v0-not-trainable", "uncapped-verifiers", "runtime-misread"})
"""Codes that say that a v0 environment is old or cannot be trained, so that the report offers its port."""


def _outcome(
    environment: str, findings: Sequence[Finding], data: dict[str, Any], facts: Facts, port: Mapping[str, Any]
) -> Outcome:
    listed = tuple(worst_first(capped(merged(findings, _ONCE), _EACH)))
    blockers = [f for f in listed if f.severity == "blocker"]
    undecided = bool(blockers) and all(f.code in UNDECIDED for f in blockers)
    status: Verdict = "inconclusive" if undecided else verdict_of(listed)
    what = f"{environment} ({data['api'] or 'unknown API'})"
    if status == "inconclusive" and {f.code for f in blockers} == {"wheel-not-checked"}:
        summary = f"{what} loads, but whether its wheel is complete is not known, so it cannot be published yet."
        next = Next("check_environment", "once the wheel can be built", {"environment": environment})
    elif status == "inconclusive":
        summary = f"{what} could not be loaded here, which says nothing about it: {blockers[0].code}."
        next = Next("check_environment", "once this machine has what is missing", {"environment": environment})
    elif status == "failed":
        summary = f"{what} has {count(len(blockers), 'blocker')}: {', '.join(dict.fromkeys(f.code for f in blockers))}."
        next = Next("check_environment", "after mending them", {"environment": environment})
    else:
        number = "endless tasks" if data.get("infinite") else count(data["tasks"] or 0, "task")
        if data["tasks"] is None and not data.get("infinite"):
            number = f"at least {count(data['tasks_looked_at'], 'task')}"
        summary = f"{what} loads with {number} and {count(len(data['rewards']), 'reward')}; nothing blocks."
        if ": not " in data["held_out"]:
            summary += f" The held-out split was not looked at ({data['held_out']}): whether it leaks is not known."
        why = "shows whether the reward pays for the right thing"
        if data.get("container") and podman_is_installed():
            why += "; its rollouts in containers take minutes"
        next = Next("test_reward", why, {"environment": environment})
    ports = Next("create_environment", "makes a v1 port beside it, because the platform trains v1 only", port)
    offered = (ports,) if data["api"] == "v0" and any(f.code in _OLD_API for f in listed) else ()
    return Outcome(status, summary, listed, data, (next, *offered), facts=facts)


_ONCE: frozenset[Code] = frozenset(
    {
        "reward-sync",
        "task-field-excluded",
        "parser-not-in-rubric",
        "prompt-columns",
        "name-shadowed",
        "task-not-self-contained",
    }
)
"""Codes that static checks and loading both report. The finding with a line is kept, unless the other one blocks."""
_EACH = 3
"""Number of findings shown per code and severity. The last one counts the rest."""


TOOL = Tool(
    name="check_environment",
    title="Check environment",
    description=(
        "Check an environment package: files, metadata, README, requirement bounds, old APIs, secrets, what the push "
        "leaves out; build its wheel, load it in its own interpreter and check its rewards, tasks and rows. Free; "
        "fails with blockers."
    ),
    args=Args,
    run=run,
    effect="executes",
    page=True,
    runs_environment_code=True,
    snapshot=True,
    records="environment",
)
