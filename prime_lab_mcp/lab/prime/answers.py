"""Dataclasses for the platform's answers, and parsers for commands of `prime` that print only text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

KeySource = Literal["PRIME_API_KEY", "prime login", "rehearsal"]
Runtime = Literal["v0", "v1"]

_VERSION = re.compile(r"\b(\d+(?:\.\d+)+\S*)")
_ROW = re.compile(r"^(Type|Team ID|Team Name|Role|User ID|Username|Name|Email)\s{2,}(.+?)\s*$", re.M)
_SCOPE = re.compile(r"^([a-z][\w-]*)\s{2,}([✓✗-])\s{2,}([✓✗-])\s*$", re.M)
_HASH = re.compile(r"\b[0-9a-f]{64}\b")


@dataclass(frozen=True, slots=True)
class Account:
    """The owner of the API key. `user` is the public user name; None if the user has not chosen one."""

    user: str | None
    user_id: str
    name: str | None
    team: str | None
    """Name of the team that is billed for pushes and runs; None for the personal account."""
    team_id: str | None
    key_source: KeySource
    rights: Mapping[str, tuple[bool, bool]] = field(default_factory=dict)
    """(may read, may write) for each scope that the platform lists."""


@dataclass(frozen=True, slots=True)
class Team:
    id: str
    slug: str
    name: str
    role: str


@dataclass(frozen=True, slots=True)
class Wallet:
    """The wallet of the account. `currency` is always USD so far."""

    balance: float
    currency: str


@dataclass(frozen=True, slots=True)
class Pushed:
    """The record that `prime env push` writes after a success."""

    owner: str
    name: str
    version: str | None
    wheel_sha256: str | None
    environment_id: str | None
    url: str | None


@dataclass(frozen=True, slots=True)
class ValidateAnswer:
    """The answer of `prime train validate`.

    `not-offered`: the platform has no validation. `unavailable`: the platform could not be asked, and `problems` says
    why.
    """

    outcome: Literal["valid", "invalid", "not-offered", "unavailable"]
    problems: tuple[str, ...] = ()
    schema_commit: str | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """A created run. Prices are in US dollars; None if the platform states none (reserved clusters)."""

    id: str
    price_per_gpu_hour: float | None
    estimated_cost_per_hour: float | None
    gpu_type: str | None = None


@dataclass(frozen=True, slots=True)
class HostedGpuOffer:
    """A GPU type that can be rented by the hour for a run."""

    gpu_type: str
    price_per_gpu_hour: float | None
    available_now: bool | None
    beta: bool


@dataclass(frozen=True, slots=True)
class PlatformModels:
    """The models that can be trained, each with the GPU types of its clusters, and the GPUs for rent on demand."""

    trainable: Mapping[str, tuple[str, ...]]
    offers: tuple[HostedGpuOffer, ...]

    def price(self, gpu_type: str | None) -> float | None:
        """US dollars per GPU-hour of this type; without a type, the highest price of any type."""
        prices = [
            o.price_per_gpu_hour
            for o in self.offers
            if o.price_per_gpu_hour is not None and gpu_type in (None, o.gpu_type)
        ]
        return max(prices, default=None)


def version_of(text: str) -> str | None:
    """Parse the version from `Prime CLI version: 0.18.0`."""
    match = _VERSION.search(text)
    return match[1] if match else None


def account_of(text: str, key_source: KeySource) -> Account | None:
    """Parse the plain table of `prime whoami`; None if it contains no user."""
    rows = {key: value for key, value in _ROW.findall(text) if value not in ("Unknown", "Not set")}
    if "User ID" not in rows:
        return None
    rights = {scope: (read == "✓", write == "✓") for scope, read, write in _SCOPE.findall(text)}
    return Account(
        user=rows.get("Username"),
        user_id=rows["User ID"],
        name=rows.get("Name"),
        team=rows.get("Team Name") or rows.get("Team ID"),
        team_id=rows.get("Team ID"),
        key_source=key_source,
        rights=rights,
    )


def hashes_of(text: str) -> dict[str, str]:
    """Parse `prime env version list --full-hashes` to content hashes by version, newest first.

    The hash is "" for a version without one.
    """
    hashes: dict[str, str] = {}
    lines = iter(text.splitlines())
    if any(re.match(r"\s*Version\s{2,}Created\b", line) for line in lines):
        for line in lines:
            version = line.split()[0] if line.strip() else ""
            if not version or line.startswith("Latest version"):
                break
            digest = _HASH.search(line)
            hashes.setdefault(version, digest[0] if digest else "")
    return hashes


@dataclass(frozen=True, slots=True)
class WheelPlace:
    """The location of a published wheel: `url`, or `name` and `version` in the package index at `url`."""

    url: str
    name: str | None = None
    version: str | None = None


_INSTALL = re.compile(r"\$ uv pip install (\S+)(?: --extra-index-url (\S+))?")


def wheel_place_of(text: str) -> WheelPlace | None:
    """Parse the install command of `prime env info`; None if there is none, as for a private environment."""
    match = _INSTALL.search(text)
    if match is None or match[1].startswith("-"):
        return None
    if match[2] is None:
        return WheelPlace(match[1]) if match[1].startswith(("http://", "https://")) else None
    name, _, version = match[1].partition("==")
    return WheelPlace(match[2], name, version or None)


def runtime_of(entry: Mapping[str, Any]) -> Runtime | None:
    """Return the Hub's label of the verifiers generation. The label is in the entry or in its latest version."""
    latest = entry.get("latest_version")
    labelled = [entry, *([latest] if isinstance(latest, Mapping) else [])]
    for row in labelled:
        label = str(row.get("runtime") or row.get("runtime_hint") or "").upper()
        if label.endswith("V1"):
            return "v1"
        if label.endswith("V0"):
            return "v0"
    return None


def models_of(answer: Mapping[str, Any]) -> PlatformModels:
    trainable = {
        str(m.get("name")): tuple(
            sorted({str(c.get("gpu_type")) for c in m.get("clusters") or () if c.get("gpu_type")})
        )
        for m in answer.get("available_fft_models") or ()
        if m.get("name")
    }
    offers = tuple(
        HostedGpuOffer(
            str(o.get("gpu_type")),
            finite_number(o.get("price_per_gpu_hour")),
            o.get("available_now") if isinstance(o.get("available_now"), bool) else None,
            bool(o.get("is_beta")),
        )
        for o in answer.get("on_demand") or ()
    )
    return PlatformModels(trainable, offers)


_NOT_THE_CONFIG = re.compile(
    r"Could not build local schema environment|schema cache lock|requires uv on PATH|schema worker|"
    r"Unsupported local validation contract|Preparation |HTTP 5\d\d|HTTP 429|Request failed|Request timed out|"
    r"No API key|API key unauthorized|Payment required|HTTP 40[123]|No such file|not a dictionary|"
    r"schema provenance mismatch|Failed to parse local validation|No module named|cannot import name|Expecting value"
)
"""Output of `train validate` that blames the platform, the network or this machine instead of the config."""


def validation_of(output: str) -> ValidateAnswer:
    """Parse the text of `train validate`, which shows whether the config, the platform or this machine is at fault."""
    if re.search(r"HTTP 40[45]", output):
        return ValidateAnswer("not-offered", (output.strip()[:300],))
    lines = tuple(line.strip(" -") for line in output.splitlines() if line.strip())
    if _NOT_THE_CONFIG.search(output):
        return ValidateAnswer("unavailable", lines[:5])
    if lines and lines[0].rstrip(":") in ("Config validation failed", "Validation failed"):
        lines = lines[1:]
    return ValidateAnswer("invalid", lines[:30] or ("the platform gave no reason",))


def submitted_of(answer: Mapping[str, Any]) -> Submitted | None:
    run = answer.get("run")
    if not isinstance(run, Mapping) or not run.get("runId"):
        return None
    return Submitted(
        str(run["runId"]),
        finite_number(run.get("pricePerGpuHour")),
        finite_number(run.get("estimatedCostPerHour")),
        str(run["gpuType"]) if run.get("gpuType") else None,
    )


def finite_number(value: Any) -> float | None:
    """Convert a number from the platform, which may be text; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
