"""What the ledger knows that a config should fit: measurements of evals and checks of the environments it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Evidence, Push

_EVALS = ("check_reward_distribution", "run_eval")


def pushed(lab: Lab, owner: str, name: str, version: str | None = None) -> Push | None:
    """The newest push from this machine to this platform, of this version where one is named."""
    rows = lab.ledger.pushes(owner=owner, name=name, platform=lab.platform)
    return next((p for p in rows if version in (None, p.version)), None)


def observe(lab: Lab, ids: Sequence[tuple[str, str, str | None]], model: str | None, price: float | None) -> Observed:
    """Measurements for the training environments `(owner, name, version)`; several are judged by the hardest."""
    ours: set[str] = set()
    found: list[Mapping[str, Any]] = []
    for owner, name, version in dict.fromkeys(ids):
        if lab.ledger.pushes(owner=owner, name=name):
            ours.add(f"{owner}/{name}")
        if (push := pushed(lab, owner, name, version)) is not None:
            found.append(_measured(_history(lab, push), model))
    complete = bool(found) and len(found) == len(set(ids))
    return Observed(
        tasks=sum(f["tasks"] for f in found) if complete and all(f.get("tasks") for f in found) else None,
        infinite=any(f.get("infinite") for f in found),
        duplicate_tasks=any(f.get("duplicates") for f in found),
        prompt_tokens=_most(found, "prompt_tokens"),
        completion_tokens=_most(found, "completion_tokens"),
        longest=_most(found, "longest"),
        temperature=next((f["temperature"] for f in found if f.get("temperature") is not None), None),
        usable=min((f["usable"] for f in found if f.get("usable") is not None), default=None),
        usable_group=next((f["usable_group"] for f in found if f.get("usable_group")), None),
        learnability=min((f["learnability"] for f in found if f.get("learnability") is not None), default=None),
        price_per_gpu_hour=price,
        ours=frozenset(ours),
    )


def _history(lab: Lab, push: Push) -> list[Evidence]:
    rows = lab.ledger.evidence(push.workspace, environment=push.environment)
    return [r for r in rows if r.source == push.source and r.platform in (None, lab.platform)]


def _measured(history: list[Evidence], model: str | None) -> dict[str, Any]:
    """Of one environment: the newest check, and the newest eval of this model."""
    values: dict[str, Any] = {}
    check = next((r for r in history if r.tool == "check_environment"), None)
    if check is not None:
        values["tasks"] = _whole(check.data.get("tasks"))
        values["infinite"] = bool(check.data.get("infinite"))
        values["duplicates"] = any(f.get("code") == "duplicate-prompt" for f in check.findings)
    evals = [r for r in history if r.tool in _EVALS and (model is None or r.model == model)]
    for row in evals:
        inner = row.data.get("distribution")
        data = {**row.data, **(inner if isinstance(inner, Mapping) else {})}
        groups = data.get("usable_groups")
        temperature = row.sampling.get("temperature")
        for key, value in (
            ("usable", _real(groups.get("share")) if isinstance(groups, Mapping) else None),
            ("usable_group", _whole(groups.get("group_size")) if isinstance(groups, Mapping) else None),
            ("completion_tokens", _percentile(data.get("completion_tokens"), "p95")),
            ("longest", _percentile(data.get("completion_tokens"), "p99")),
            ("prompt_tokens", _percentile(data.get("prompt_tokens"), "p99")),
            ("learnability", _real(data.get("learnability"))),
            ("temperature", _real(temperature)),
        ):
            if value is not None:
                values.setdefault(key, value)
    return values


def _most(found: list[Mapping[str, Any]], key: str) -> int | None:
    return max((f[key] for f in found if f.get(key)), default=None)


def _percentile(value: Any, name: str) -> int | None:
    return _whole(value.get(name)) if isinstance(value, Mapping) else None


def _whole(value: Any) -> int | None:
    number = _real(value)
    return int(number) if number is not None and number >= 1 else None


def _real(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value else None
