"""Checks the capabilities of this machine and account: local work, the account, training. Each failure states its fix.

The `preflight` tool reports all capabilities; a gate requires the one that its tool needs.
"""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.base.versions import NEWEST_PYTHON, OLDEST_PYTHON, SUPPORTED
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import PlatformModels, Wallet
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.sandbox.containers.access import podman_is_installed
from prime_lab_mcp.lab.sandbox.kernel_support import present_support, unconfined_finding

CapabilityName = Literal["local", "account", "training"]

LEAST_DISK = 2 * 10**9
"""Bytes of free disk below which an environment of verifiers and datasets (about 1.5 GB) cannot be built."""
_PUBLISHING, _TRAINING = "environments", "rft"
_WRITES = {_PUBLISHING: ("publish", "publishing"), _TRAINING: ("start training runs", "training")}
"""For each of the platform's write scopes, the action and the purpose as words for a finding."""


@dataclass(frozen=True, slots=True)
class Capability:
    """The state of a capability. Blockers state why it is missing; warnings state later problems."""

    state: Literal["ok", "missing", "broken"]
    findings: tuple[Finding, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    read_only: frozenset[str] = frozenset()
    """The platform's scopes that the key may read but not write."""


async def missing_capability(
    lab: Lab, name: CapabilityName, platform: PlatformReader | None = None
) -> tuple[Finding, ...]:
    """Return the blockers that keep a tool from working; empty if it may continue.

    `platform` caches answers for the current call. For training, the wallet and the models are read instead of the
    account, because they need the same key.
    """
    if name == "local":
        return _blockers(await local_capability(lab))
    capability = await (account_capability(lab, platform, fresh=False) if name == "account" else _usable(lab))
    if name == "training" and not _blockers(capability):
        capability = await training_capability(lab, capability, platform)
    return _blockers(capability)


async def _usable(lab: Lab) -> Capability:
    """Whether `prime` is present and new enough."""
    try:
        return Capability("ok", (), {"prime": await lab.prime.version()})
    except LabError as error:
        return Capability("missing", (error.as_finding(),))


async def local_capability(lab: Lab) -> Capability:
    """Check everything that local building, testing and evaluating needs: Python, verifiers, datasets, uv, disk."""
    findings: list[Finding] = []
    version = sys.version_info[:2]
    if not OLDEST_PYTHON <= version <= NEWEST_PYTHON:
        findings.append(_python_unsupported())
    if sys.platform == "win32":
        findings.append(_windows())
    versions = await lab.toolchain.versions()
    packages: tuple[Literal["verifiers", "datasets"], ...] = ("verifiers", "datasets")
    for package in packages:
        if versions.get(package) is None:
            findings.append(_package_missing(package))
    findings += _drift(versions)
    if not lab.toolchain.programs("uv"):
        findings.append(
            Finding(
                "uv-missing",
                "blocker",
                "the uv program is missing, so no Python environment can be built",
                Fix(
                    "Install the package uv beside prime-lab-mcp (`pip install uv`), then call ",
                    NamedCall("preflight"),
                    " again.",
                ),
            )
        )
    state = lab.settings.state_dir
    state.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(state).free
    if free < LEAST_DISK:
        findings.append(_disk_low(free))
    support = present_support()
    unconfined = unconfined_finding(support)
    findings += [unconfined] if unconfined is not None else []
    facts = {
        "python": platform.python_version(),
        **{name: version for name, version in versions.items() if name != "prime"},
        "uv": bool(lab.toolchain.programs("uv")),
        "podman": podman_is_installed(),
        "free_gb": round(free / 10**9, 1),
        "confinement": {
            "files": support.files,
            "processes": support.processes,
            "network": support.network,
            "still_open": list(support.remains),
        },
    }
    missing = any(f.severity == "blocker" for f in findings)
    return Capability("missing" if missing else "ok", tuple(findings), facts)


async def account_capability(lab: Lab, platform: PlatformReader | None = None, *, fresh: bool = True) -> Capability:
    """Check for a new enough `prime` and a key that the platform accepts now (`fresh`), or accepted in the last
    minute."""
    prime = lab.prime
    facts: dict[str, Any] = {}
    try:
        facts["prime"] = await prime.version()
        account = await (prime.whoami() if fresh else (platform or prime).account())
    except LabError as error:
        missing = error.code in ("prime-missing", "prime-too-old", "not-logged-in")
        return Capability("missing" if missing else "broken", (error.as_finding(),), facts)
    facts |= {"user": account.user, "team": account.team, "key_source": account.key_source}
    findings: list[Finding] = []
    if account.user is None and account.team is None:
        findings.append(
            Finding(
                "username-missing",
                "warning",
                "the account has no public user name yet, which publishing under it needs",
                "Ask the user to run `prime env push` once in a terminal and choose one, or push to a team.",
            )
        )
    read_only = frozenset(
        scope for scope in _WRITES if scope in (account.rights or {}) and not account.rights[scope][1]
    )
    findings += [_no_right(scope) for scope in _WRITES if scope in read_only]
    findings += await _unasked_teams(lab) if fresh else []
    return Capability("ok", tuple(findings), facts, read_only)


async def _unasked_teams(lab: Lab) -> list[Finding]:
    """Say that the teams cannot be asked: then nothing on the Hub counts as another owner's."""
    try:
        await lab.prime.teams()
    except LabError as error:
        message = (
            f"the teams of the account could not be asked ({error.message}): an environment on the Hub that is not "
            "known to be the user's can be neither trained nor evaluated by the platform meanwhile"
        )
        fix = "Call again; a key that may not list the teams has to be replaced by the user with `prime login`."
        return [Finding(error.code, "warning", message, fix)]
    return []


async def training_capability(lab: Lab, of: Capability, platform: PlatformReader | None = None) -> Capability:
    """Check the wallet and the list of trainable models of a working account, whose capability is `of`."""
    facts: dict[str, Any] = {}
    findings = [_no_right(_TRAINING)] if _TRAINING in of.read_only else []
    try:
        wallet, models = await _money_and_models(platform or lab.prime)
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


async def _money_and_models(platform: PlatformReader) -> tuple[Wallet, PlatformModels]:
    """Read both concurrently, because each takes a second. Raises the first LabError itself, not a group."""
    wallets: list[Wallet] = []
    models: list[PlatformModels] = []
    problems: list[LabError] = []

    async def ask(into: list[Any], question: Callable[[], Awaitable[Any]]) -> None:
        try:
            into.append(await question())
        except LabError as error:
            problems.append(error)

    async with anyio.create_task_group() as asking:
        asking.start_soon(ask, wallets, platform.wallet)
        asking.start_soon(ask, models, platform.models)
    if problems:
        raise problems[0]
    return wallets[0], models[0]


def _blockers(capability: Capability) -> tuple[Finding, ...]:
    return tuple(f for f in capability.findings if f.severity == "blocker")


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


def _package_missing(package: Literal["verifiers", "datasets"]) -> Finding:
    return Finding(
        "verifiers-missing" if package == "verifiers" else "datasets-missing",
        "blocker",
        f"{package} is not installed",
        Fix("Run ", NamedCall("preflight", install=True), "; it builds a toolchain environment with uv."),
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


def _no_right(scope: str) -> Finding:
    what, note = _WRITES[scope]
    return Finding(
        "key-lacks-right",
        "warning",
        f"the API key may not {what} ({note}: scope {scope} is read-only)",
        "Ask the user for a key with that right (https://app.primeintellect.ai/dashboard/tokens).",
    )
