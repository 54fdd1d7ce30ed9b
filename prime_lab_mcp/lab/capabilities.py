"""What this machine and account can do: local work, the account, training. Each with a fix per failure.

`preflight` shows all of them; a gate asks for the one its tool needs.
"""

from __future__ import annotations

import platform
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from weakref import WeakKeyDictionary

import anyio

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Models, Wallet
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

Name = Literal["local", "account", "training"]

SUPPORTED = {"verifiers": "0.4.0", "prime": "0.18.0"}
"""What the product was made for and tested with; others may work."""
OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
LEAST_DISK = 2 * 10**9
"""Bytes below which an environment of verifiers and datasets (about 1.5 GB) cannot be built."""
GOOD_SECONDS = 60.0
_GOOD: WeakKeyDictionary[Lab, dict[Name, float]] = WeakKeyDictionary()
_WRITES = {"account": "environments", "training": "rft"}


@dataclass(frozen=True, slots=True)
class Capability:
    """`findings` are blockers where it is not available; warnings say what will hurt later."""

    state: Literal["ok", "missing", "broken"]
    findings: tuple[Finding, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


async def capability(lab: Lab, name: Name) -> tuple[Finding, ...]:
    """Blockers that keep a tool from working; empty when it may go on.

    A good answer holds for a minute: a gate is looked at twice in a call that asks its user.
    """
    good = _GOOD.setdefault(lab, {})
    if time.monotonic() - good.get(name, -GOOD_SECONDS) < GOOD_SECONDS:
        return ()
    if name == "local":
        found = await local(lab)
    else:
        found = await account(lab, fresh=False)
        if name == "training" and not _blockers(found):
            found = await training(lab, found)
    if not _blockers(found):
        good[name] = time.monotonic()
    return _blockers(found)


async def local(lab: Lab) -> Capability:
    """Python, verifiers, datasets, uv and disk: all that building, testing and evaluating on this machine needs."""
    findings: list[Finding] = []
    version = sys.version_info[:2]
    if not OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        findings.append(_python_unsupported())
    if sys.platform == "win32":
        findings.append(_windows())
    versions = await lab.toolchain.versions()
    for package in ("verifiers", "datasets"):
        if versions.get(package) is None:
            findings.append(_package_missing(package))
    findings += _drift(versions)
    if not lab.toolchain.programs("uv"):
        findings.append(
            Finding(
                "uv-missing",
                "blocker",
                "the uv program is missing, so no Python environment can be built",
                "Install the package uv beside prime-lab-mcp (`pip install uv`), then call preflight again.",
            )
        )
    state = lab.settings.state_dir
    state.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(state).free
    if free < LEAST_DISK:
        findings.append(_disk_low(free))
    facts = {
        "python": platform.python_version(),
        **{name: version for name, version in versions.items() if name != "prime"},
        "uv": bool(lab.toolchain.programs("uv")),
        "free_gb": round(free / 10**9, 1),
    }
    missing = any(f.severity == "blocker" for f in findings)
    return Capability("missing" if missing else "ok", tuple(findings), facts)


async def account(lab: Lab, *, fresh: bool = True) -> Capability:
    """prime, new enough, and a key that the platform accepts: right now, or within the last minute."""
    prime = lab.prime
    facts: dict[str, Any] = {}
    try:
        facts["prime"] = await prime.version()
        found = await (prime.whoami() if fresh else prime.account())
    except LabError as error:
        missing = error.code in ("prime-missing", "prime-too-old", "not-logged-in")
        return Capability("missing" if missing else "broken", (error.as_finding(),), facts)
    facts |= {"user": found.user, "team": found.team, "key_source": found.key_source}
    findings: list[Finding] = []
    if found.user is None and found.team is None:
        findings.append(
            Finding(
                "username-missing",
                "warning",
                "the account has no public user name yet, which publishing under it needs",
                "Ask the user to run `prime env push` once in a terminal and choose one, or push to a team.",
            )
        )
    for name, scope in _WRITES.items():
        if found.rights and scope in found.rights and not found.rights[scope][1]:
            findings.append(_no_right(scope, "publish" if name == "account" else "start training runs"))
    return Capability("ok", tuple(findings), facts)


async def training(lab: Lab, of: Capability) -> Capability:
    """A wallet that can be read and a list of what can be trained, for an account that works."""
    facts: dict[str, Any] = {}
    findings = [f for f in of.findings if "training" in f.message]
    try:
        wallet, models = await _money_and_models(lab)
    except LabError as error:
        return Capability("broken", (error.as_finding(),), facts)
    facts["balance"] = {"amount": wallet.balance, "currency": wallet.currency}
    facts["trainable_models"] = len(models.trainable)
    facts["gpu_types"] = [o.gpu_type for o in models.offers]
    if wallet.balance <= 0:
        findings.append(
            Finding(
                "wallet-empty",
                "warning",
                f"the wallet holds {wallet.balance:.2f} {wallet.currency}",
                "Ask the user to add funds at https://app.primeintellect.ai/dashboard/billing before submitting.",
            )
        )
    if not models.trainable and not models.offers:
        findings.append(
            Finding(
                "training-not-offered",
                "blocker",
                "the platform offers this account nothing to train on",
                "Ask the user to request access with `prime train request` in a terminal.",
            )
        )
    missing = any(f.severity == "blocker" for f in findings)
    return Capability("missing" if missing else "ok", tuple(findings), facts)


async def _money_and_models(lab: Lab) -> tuple[Wallet, Models]:
    """Both at once: each is a second of waiting. Raises the first LabError as it is, not in a group."""
    wallets: list[Wallet] = []
    models: list[Models] = []
    problems: list[LabError] = []

    async def ask(into: list[Any], question: Callable[[], Awaitable[Any]]) -> None:
        try:
            into.append(await question())
        except LabError as error:
            problems.append(error)

    async with anyio.create_task_group() as asking:
        asking.start_soon(ask, wallets, lab.prime.wallet)
        asking.start_soon(ask, models, lab.prime.models)
    if problems:
        raise problems[0]
    return wallets[0], models[0]


def _blockers(found: Capability) -> tuple[Finding, ...]:
    return tuple(f for f in found.findings if f.severity == "blocker")


def _drift(versions: Mapping[str, str | None]) -> list[Finding]:
    findings = []
    for package, supported in SUPPORTED.items():
        installed = versions.get(package)
        if installed is not None and installed.split(".")[:2] != supported.split(".")[:2]:
            findings.append(
                Finding(
                    "version-drift",
                    "warning",
                    f"{package} {quote(installed, 40)} is installed; prime-lab-mcp was tested with {supported}",
                    "Go on and mind surprises, or install the extra prime-lab-mcp[lab].",
                )
            )
    return findings


def _package_missing(package: str) -> Finding:
    return Finding(
        f"{package}-missing",
        "blocker",
        f"{package} is not installed",
        "Run preflight(install=true); it builds a toolchain environment with uv.",
    )


def _python_unsupported() -> Finding:
    return Finding(
        "python-unsupported",
        "blocker",
        f"the server runs on Python {platform.python_version()}; 3.11 to 3.13 are supported",
        "Ask the user to reinstall prime-lab-mcp with such a Python (`uv tool install -p 3.12 prime-lab-mcp`).",
    )


def _windows() -> Finding:
    return Finding(
        "windows-unsupported",
        "blocker",
        "environment code cannot be isolated on Windows",
        "Ask the user to run prime-lab-mcp on Linux, macOS or in WSL.",
    )


def _disk_low(free: int) -> Finding:
    return Finding(
        "disk-low",
        "warning",
        f"only {free / 10**9:.1f} GB are free where the state directory is",
        "Free some space, or start the server with --state-dir on another disk.",
    )


def _no_right(scope: str, what: str) -> Finding:
    note = "training" if scope == "rft" else "publishing"
    return Finding(
        "key-lacks-right",
        "warning",
        f"the API key may not {what} ({note}: scope {scope} is read-only)",
        "Ask the user for a key with that right (https://app.primeintellect.ai/dashboard/tokens).",
    )
