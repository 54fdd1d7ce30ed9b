"""check_environment: a package's files, its code as text, and what it does when loaded in its own interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio

from prime_lab_mcp.lab.checks import environment, source, static
from prime_lab_mcp.lab.errors import InterpreterError
from prime_lab_mcp.lab.opening import Opened, check_args, opened
from prime_lab_mcp.lab.report import Facts, Finding, Next, Outcome, verdict_of
from prime_lab_mcp.lab.text import count
from prime_lab_mcp.lab.worker.cases import LoadFailed, Rows
from prime_lab_mcp.tools.tool import Arguments, Call, EnvironmentName, Tool

SAMPLE = 2000
"""Tasks looked at; of a larger set a seeded sample."""
_STOPPERS = frozenset({
    "pyproject-missing", "pyproject-invalid", "project-name-missing", "no-module", "module-name", "unknown-generation",
    "syntax-error", "migration", "requirement-invalid",
})  # fmt: skip
"""Blockers with which loading could only fail, and would say so less clearly."""
_UNINSTALLABLE = frozenset({"requirements-unsatisfiable", "requirements-failed", "python-missing"})


class Args(Arguments):
    environment: EnvironmentName


async def run(call: Call, args: Args) -> Outcome:
    """Static checks first; then, unless they say it cannot work, the environment is loaded."""
    snapshot = call.environment
    package = await anyio.to_thread.run_sync(static.observe, snapshot, call.lab.settings.allow_env)
    findings = await anyio.to_thread.run_sync(source.examine, package)
    data: dict[str, Any] = {
        "api": package.generation.api,
        "trainable": package.generation.api == "v1",
        "why_api": list(package.generation.reasons),
        "interpreter": None,
        "verifiers_version": None,
        "tasks": None,
        "rewards": [],
        "content": snapshot.content,
        "source": snapshot.source,
    }
    facts = Facts()
    if not any(f.code in _STOPPERS and f.severity == "blocker" for f in findings):
        facts, more = await _load(call, data)
        findings += more
    return _outcome(snapshot.relative, findings, data, facts)


async def _load(call: Call, data: dict[str, Any]) -> tuple[Facts, list[Finding]]:
    snapshot = call.environment
    given = check_args(snapshot.manifest)

    async def say(message: str) -> None:
        await call.progress(0.3, 1.0, message)

    try:
        async with opened(call.lab, snapshot, progress=say) as found:
            sample = await found.worker.rows(limit=SAMPLE)
            data.update(_data(found, sample))
            seen = environment.Observed(found.loaded, sample)
            return Facts(env_args=given, toolchain=found.toolchain), environment.examine(seen)
    except LoadFailed as error:
        return Facts(env_args=given), [environment.load_failed(error)]
    except InterpreterError as error:
        if error.code not in _UNINSTALLABLE:
            raise
        return Facts(env_args=given), [error.as_finding()]


def _data(found: Opened, sample: Rows) -> dict[str, Any]:
    loaded = found.loaded
    shown: dict[str, Any] = {
        "api": loaded.api,
        "trainable": loaded.api == "v1",
        "interpreter": str(found.interpreter.python),
        "verifiers_version": loaded.verifiers_version,
        "tasks": loaded.tasks,
        "infinite": loaded.infinite,
        "tasks_looked_at": len(sample.rows),
        "rewards": [{"name": r.name, "weight": r.weight} for r in loaded.rewards if r.kind != "metric"],
    }
    if found.env_args:
        shown["env_args"] = dict(found.env_args)
    return shown


def _outcome(environment: str, findings: Sequence[Finding], data: dict[str, Any], facts: Facts) -> Outcome:
    order = {"blocker": 0, "warning": 1, "info": 2}
    found = tuple(sorted(findings, key=lambda f: order[f.severity]))
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


TOOL = Tool(
    name="check_environment",
    title="Check environment",
    description=(
        "Check an environment package: files, metadata, README, requirement bounds, secrets, what the push leaves out; "
        "then load it in its own interpreter and check its rewards and rows. Free; fails with blockers."
    ),
    args=Args,
    run=run,
    effect="executes",
    snapshot=True,
    records="environment",
)
