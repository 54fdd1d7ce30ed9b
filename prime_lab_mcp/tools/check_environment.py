"""`check_environment`: checks a package's files, source code, wheel and loaded environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.errors import InterpreterError
from prime_lab_mcp.lab.base.findings import capped, merged, worst_first
from prime_lab_mcp.lab.base.report import Finding, Next, Verdict, verdict_of
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.environment import load_check, loaded_checks, package, static_checks
from prime_lab_mcp.lab.environment.package import EnvironmentPackage
from prime_lab_mcp.lab.state.arguments import check_args
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.worker.description import Arg
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
_UNDECIDED: frozenset[Code] = frozenset({"data-unreachable"})
"""Blockers that prove nothing about the environment. Where they are all, the verdict is open."""
_SHOWN_ARGS = 12


class Args(Arguments):
    environment: EnvironmentName


async def run(call: Call, args: Args) -> Outcome:
    """Run the static checks, then build and load the environment unless these checks show that loading fails."""
    snapshot = call.environment
    seen = await anyio.to_thread.run_sync(package.read_package, snapshot, call.lab.settings.allow_env)
    findings = await anyio.to_thread.run_sync(static_checks.static_findings, seen)
    data: dict[str, Any] = {
        "api": seen.generation.api,
        "trainable": seen.generation.api == "v1",
        "why_api": list(seen.generation.reasons),
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
        facts, more = await _load(call, seen, data, any(f.severity == "blocker" for f in findings))
        said = {f.code for f in findings}
        findings += [f for f in more if f.code != "judge-needs-key" or f.code not in said]
    return _outcome(snapshot.relative, findings, data, facts)


async def _load(
    call: Call, seen: EnvironmentPackage, data: dict[str, Any], flawed: bool
) -> tuple[Facts, list[Finding]]:
    snapshot = call.environment
    given = check_args(snapshot.manifest)

    async def say(message: str) -> None:
        await call.progress(0.3, 1.0, message)

    try:
        found = await load_check.check_loading(call.lab, seen, with_wheel=not flawed, progress=say)
    except LoadFailed as error:
        return Facts(env_args=given), [loaded_checks.load_failed_finding(error)]
    except InterpreterError as error:
        if error.code not in _UNINSTALLABLE:
            raise
        return Facts(env_args=given), [error.as_finding()]
    data.update(_data(found))
    findings = [
        *([loaded_checks.needs_key_finding()] if found.opened.variables else ()),
        *found.wheel.findings,
        *loaded_checks.loaded_findings(found.observed),
        *loaded_checks.described_in_readme(seen, found.observed),
    ]
    kept = {"shapes": dict(found.observed.traits.shapes)}
    return Facts(env_args=given, toolchain=found.opened.toolchain, kept=kept), findings


def _data(found: load_check.LoadCheck) -> dict[str, Any]:
    loaded, traits = found.observed.loaded, found.observed.traits
    shown: dict[str, Any] = {
        "api": loaded.api,
        "trainable": loaded.api == "v1",
        "loads": True,
        "interpreter": str(found.opened.interpreter.python),
        "verifiers_version": loaded.verifiers_version,
        "tasks": loaded.tasks,
        "infinite": loaded.infinite,
        "tasks_looked_at": len(found.observed.rows),
        "rewards": [{"name": r.name, "weight": r.weight} for r in loaded.rewards if r.kind != "metric"],
        "args": [_arg(a) for a in traits.args[:_SHOWN_ARGS]],
        "held_out": found.held_out,
        "wheel": found.wheel.state,
    }
    if traits.roles:
        shown["roles"] = [{"name": r.name, "harness": r.harness, "runtime": r.runtime} for r in traits.roles[:6]]
    if found.opened.env_args:
        shown["env_args"] = dict(found.opened.env_args)
    return shown


def _arg(arg: Arg) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": arg.name, "type": arg.type}
    shown |= {"required": True} if arg.required else {"default": _short(arg.default)}
    return shown | ({"choices": [_short(c) for c in arg.choices[:10]]} if arg.choices else {})


def _short(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else quote(value, 120)[1:-1]


def _outcome(environment: str, findings: Sequence[Finding], data: dict[str, Any], facts: Facts) -> Outcome:
    found = tuple(worst_first(capped(merged(findings, _ONCE), _EACH)))
    blockers = [f for f in found if f.severity == "blocker"]
    undecided = bool(blockers) and all(f.code in _UNDECIDED for f in blockers)
    status: Verdict = "inconclusive" if undecided else verdict_of(found)
    what = f"{environment} ({data['api'] or 'unknown API'})"
    if status == "inconclusive":
        summary = f"{what} could not be loaded here, which says nothing about it: {blockers[0].code}."
        next = Next("check_environment", "once the data can be reached", {"environment": environment})
    elif status == "failed":
        summary = f"{what} has {count(len(blockers), 'blocker')}: {', '.join(dict.fromkeys(f.code for f in blockers))}."
        next = Next("check_environment", "after mending them", {"environment": environment})
    else:
        number = "endless tasks" if data.get("infinite") else count(data["tasks"] or 0, "task")
        summary = f"{what} loads with {number} and {count(len(data['rewards']), 'reward')}; nothing blocks."
        next = Next("test_reward", "shows whether the reward pays for the right thing", {"environment": environment})
    return Outcome(status, summary, found, data, (next,), facts=facts)


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
    snapshot=True,
    records="environment",
)
