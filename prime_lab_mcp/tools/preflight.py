"""`preflight`: reports what this machine and account can do, with a fix for everything that is missing."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from prime_lab_mcp.lab import preflight
from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.versions import PYTHONS, SUPPORTED
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.preflight import Capability
from prime_lab_mcp.lab.prime.client import KEEP_SECONDS
from prime_lab_mcp.lab.relay.endpoints import presets_without_key
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.tools.first_calls import calls_from_files, calls_without_files
from prime_lab_mcp.tools.tool import Arguments, Call, Tool


class Args(Arguments):
    install: Annotated[bool, Field(description="Install verifiers, datasets and prime where missing.")] = False


async def run(call: Call, args: Args) -> Outcome:
    installed: list[Finding] = []
    if args.install:
        installed.append(await _install(call))
    local, account, training = await _look(call)
    versions = await call.lab.toolchain.versions() | {"python": local.facts["python"]}
    if "prime" in account.facts:
        versions["prime"] = account.facts["prime"]
    elsewhere = tuple(_softened(f) for f in (*account.findings, *training.findings))
    findings = (*installed, *local.findings, *dict.fromkeys(elsewhere))
    broken = [f for f in findings if f.severity == "blocker"]
    data: dict[str, Any] = {
        "platform": call.lab.platform,
        "capabilities": {
            "local": _capability_data(local),
            "endpoint": _endpoint(call, account),
            "account": _capability_data(account),
            "training": _capability_data(training),
        },
        "versions": versions,
        "supported": {"python": PYTHONS, **SUPPORTED},
    }
    facts = Facts(toolchain=versions, touches_platform=True)
    return Outcome(
        "failed" if broken else "passed",
        _summary(broken, account, training),
        findings,
        data,
        _next(call, broken, args.install),
        facts=facts,
    )


async def _install(call: Call) -> Finding:
    async def say(message: str) -> None:
        await call.progress(0.0, None, message)

    try:
        built = await call.lab.toolchain.install(say)
    except LabError as error:
        return error.as_finding()
    return Finding(
        "toolchain-installed",
        "info",
        f"a toolchain environment with verifiers {built.verifiers} is in the state directory",
        "Go on; the tools find it by themselves.",
    )


async def _look(call: Call) -> tuple[Capability, Capability, Capability]:
    await call.progress(0.0, 3.0, "looking at this machine")
    local = await preflight.local_capability(call.lab)
    await call.progress(1.0, 3.0, "asking the platform who is logged in")
    memory = call.lab.memory(FlawlessAccount)
    remembered = await memory.recall(call.lab)
    if remembered is None:
        async with call.lab.prime.account_asked_ahead():
            account, training = await _ask(call)
        await memory.remember(call.lab, account, training)
    else:
        account, training = remembered
    await call.progress(3.0, 3.0, "done")
    return local, account, training


async def _ask(call: Call) -> tuple[Capability, Capability]:
    account = await preflight.account_capability(call.lab)
    await call.progress(2.0, 3.0, "asking what can be trained")
    if account.state == "ok":
        return account, await preflight.training_capability(call.lab, account)
    return account, Capability("missing", (), {"why": "needs the account first"})


class FlawlessAccount:
    """What the platform said within the last minute, where nothing was wrong and the login has not changed since.

    Whoever was told of a flaw may have mended it, so the next call asks again.
    """

    def __init__(self) -> None:
        self._known: tuple[float, object, tuple[Capability, Capability]] | None = None

    async def recall(self, lab: Lab) -> tuple[Capability, Capability] | None:
        if self._known is None or time.monotonic() - self._known[0] >= KEEP_SECONDS:
            return None
        return self._known[2] if self._known[1] == await lab.prime.login_stamp() else None

    async def remember(self, lab: Lab, account: Capability, training: Capability) -> None:
        flawless = account.state == training.state == "ok" and not (account.findings or training.findings)
        stamp = await lab.prime.login_stamp() if flawless else None  # whoami writes the configuration file
        self._known = (time.monotonic(), stamp, (account, training)) if flawless else None


def _softened(finding: Finding) -> Finding:
    """Turn a blocker of the account into a warning, because most of the work needs no account."""
    return replace(finding, severity="warning") if finding.severity == "blocker" else finding


def _capability_data(capability: Capability) -> dict[str, Any]:
    lacks = [f.code for f in capability.findings if f.severity != "info"]
    return {"state": capability.state, **capability.facts, **({"lacks": lacks} if lacks else {})}


def _endpoint(call: Call, account: Capability) -> dict[str, Any]:
    prime = "ok" if account.state == "ok" else "needs the account"
    named = {endpoint.name: endpoint.url for endpoint in call.lab.settings.endpoints}
    return {
        "state": "ok",
        "own": f"an endpoint of your own ({presets_without_key()}, any OpenAI-compatible URL) needs no account; "
        "run_eval tries it",
        "prime": prime,
        **({"named": named} if named else {}),
    }


def _summary(broken: list[Finding], account: Capability, training: Capability) -> str:
    if broken:
        return f"Work on this machine is not possible yet: {broken[0].message}."
    if account.state != "ok":
        return "Ready for everything on this machine; publishing and training still need the account."
    if training.state != "ok":
        return f"Ready here and logged in as {account.facts.get('user')}; training is not available yet."
    team = f", team {account.facts['team']}" if account.facts.get("team") else ""
    return f"Ready: logged in as {account.facts.get('user')}{team}, training available."


def _next(call: Call, broken: list[Finding], tried: bool) -> tuple[Next, ...]:
    if broken and not tried:
        return (Next("preflight", "installs what is missing", {"install": True}),)
    if broken:
        return (Next("preflight", "once the user mended what the findings name"),)
    workspace, status = call.lab.workspace, Next("workflow_status", "shows where the environments stand")
    if workspace.list_environments():
        return (status,)
    return calls_from_files(workspace) or (*calls_without_files(), status)


TOOL = Tool(
    name="preflight",
    title="Preflight",
    description="Check what works, per capability (local, endpoint, account, training), with a fix per failure. "
    "install=true adds missing verifiers, datasets and prime.",
    args=Args,
    run=run,
    effect="writes",
    records="preflight",
    open_world=True,
)
