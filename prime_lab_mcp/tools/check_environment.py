"""check_environment: a package's files, its code as text, its wheel, and what it does when loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio

from prime_lab_mcp.lab.checks import environment, loading, package, source
from prime_lab_mcp.lab.checks.package import Package
from prime_lab_mcp.lab.errors import InterpreterError
from prime_lab_mcp.lab.opening import check_args
from prime_lab_mcp.lab.report import Facts, Finding, Next, Outcome, verdict_of
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.lab.worker.cases import Arg, LoadFailed
from prime_lab_mcp.tools.tool import Arguments, Call, EnvironmentName, Tool

_STOPPERS = frozenset({
    "pyproject-missing", "pyproject-invalid", "project-name-missing", "no-module", "module-name", "unknown-generation",
    "syntax-error", "migration", "requirement-invalid", "requires-python",
})  # fmt: skip
"""Blockers with which loading could only fail, and would say so less clearly."""
_UNINSTALLABLE = frozenset({"requirements-unsatisfiable", "requirements-failed", "python-missing"})
_SHOWN_ARGS = 12


class Args(Arguments):
    environment: EnvironmentName


async def run(call: Call, args: Args) -> Outcome:
    """Static checks first; then, unless they say it cannot work, the environment is built and loaded."""
    snapshot = call.environment
    seen = await anyio.to_thread.run_sync(package.observe, snapshot, call.lab.settings.allow_env)
    findings = await anyio.to_thread.run_sync(source.examine, seen)
    data: dict[str, Any] = {
        "api": seen.generation.api,
        "trainable": seen.generation.api == "v1",
        "why_api": list(seen.generation.reasons),
        "interpreter": None,
        "verifiers_version": None,
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


async def _load(call: Call, seen: Package, data: dict[str, Any], flawed: bool) -> tuple[Facts, list[Finding]]:
    snapshot = call.environment
    given = check_args(snapshot.manifest)

    async def say(message: str) -> None:
        await call.progress(0.3, 1.0, message)

    try:
        found = await loading.load(call.lab, seen, with_wheel=not flawed, progress=say)
    except LoadFailed as error:
        return Facts(env_args=given), [environment.load_failed(error)]
    except InterpreterError as error:
        if error.code not in _UNINSTALLABLE:
            raise
        return Facts(env_args=given), [error.as_finding()]
    data.update(_data(found))
    findings = [
        *([environment.needs_key()] if found.opened.variables else ()),
        *found.wheel.findings,
        *environment.examine(found.observed),
        *environment.described(seen, found.observed),
    ]
    kept = {"shapes": dict(found.observed.traits.shapes)}
    return Facts(env_args=given, toolchain=found.opened.toolchain, kept=kept), findings


def _data(found: loading.Found) -> dict[str, Any]:
    loaded, traits = found.observed.loaded, found.observed.traits
    shown: dict[str, Any] = {
        "api": loaded.api,
        "trainable": loaded.api == "v1",
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
    order = {"blocker": 0, "warning": 1, "info": 2}
    found = tuple(sorted(_merged(findings), key=lambda f: order[f.severity]))
    status = verdict_of(found)
    blockers = [f for f in found if f.severity == "blocker"]
    what = f"{environment} ({data['api'] or 'unknown API'})"
    if status == "failed":
        summary = f"{what} has {count(len(blockers), 'blocker')}: {', '.join(dict.fromkeys(f.code for f in blockers))}."
        next = Next("check_environment", "after mending them", {"environment": environment})
    else:
        number = "endless tasks" if data.get("infinite") else count(data["tasks"] or 0, "task")
        summary = f"{what} loads with {number} and {count(len(data['rewards']), 'reward')}; nothing blocks."
        next = Next("test_reward", "shows whether the reward pays for the right thing", {"environment": environment})
    return Outcome(status, summary, found, data, (next,), facts=facts)


_ONCE = frozenset({
    "reward-sync", "task-field-excluded", "parser-not-in-rubric", "prompt-columns", "name-shadowed",
    "task-not-self-contained",
})  # fmt: skip
"""Codes that text and loading both find: the one with a line is kept, unless loading found it graver."""
_EACH = 3
"""Findings of one code and severity that are shown; more are counted in the last one."""


def _merged(findings: Sequence[Finding]) -> list[Finding]:
    kept: list[Finding] = []
    for finding in findings:
        same = [f for f in kept if f.code == finding.code]
        if finding.code in _ONCE and same:
            if finding.severity == "blocker" and same[0].severity != "blocker":
                kept[kept.index(same[0])] = finding
            continue
        kept.append(finding)
    shown: list[Finding] = []
    for finding in kept:
        alike = [f for f in kept if (f.code, f.severity) == (finding.code, finding.severity)]
        at = alike.index(finding)
        if at < _EACH - 1 or len(alike) == _EACH:
            shown.append(finding)
        elif at == _EACH - 1:
            places = ", ".join(f.where for f in alike[at + 1 :][:6] if f.where)
            more = f"; {len(alike) - _EACH} more like it" + (f" at {places}" if places else "")
            shown.append(
                Finding(
                    finding.code, finding.severity, finding.message + more, finding.fix, finding.where, finding.rows
                )
            )
    return shown


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
