"""`preflight`: reports what this machine and account can do, with a fix for everything that is missing."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from prime_lab_mcp.lab import preflight
from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.versions import PYTHONS, SUPPORTED
from prime_lab_mcp.lab.preflight import Capability
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
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
        _next(broken, args.install),
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
    account = await preflight.account_capability(call.lab)
    await call.progress(2.0, 3.0, "asking what can be trained")
    if account.state == "ok":
        training = await preflight.training_capability(call.lab, account)
    else:
        training = Capability("missing", (), {"why": "needs the account first"})
    await call.progress(3.0, 3.0, "done")
    return local, account, training


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
        "own": "an endpoint of your own (vllm, ollama, any OpenAI-compatible URL) needs no account; run_eval tries it",
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


def _next(broken: list[Finding], tried: bool) -> tuple[Next, ...]:
    if broken and not tried:
        return (Next("preflight", "installs what is missing", {"install": True}),)
    if broken:
        return (Next("preflight", "once the user mended what the findings name"),)
    return (Next("workflow_status", "shows where the environments stand"),)


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
