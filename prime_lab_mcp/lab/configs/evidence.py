"""What the ledger knows that a config should fit: measurements of evals and checks of the environments it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.checks.secrets import variables_of
from prime_lab_mcp.lab.configs.observed import Measured, Observed
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Models
from prime_lab_mcp.lab.records import Evidence, Push

_EVALS = ("check_reward_distribution", "run_eval")
_COMPARED = re.compile(r"(\w+)=(.+): [\d,]+ tasks compared$")
_TURNS = ("max_turns", "num_turns", "turns")


def pushed(lab: Lab, owner: str, name: str, version: str | None = None) -> Push | None:
    """The newest push from this machine to this platform, of this version where one is named."""
    rows = lab.ledger.pushes(owner=owner, name=name, platform=lab.platform)
    return next((p for p in rows if version in (None, p.version)), None)


def observe(lab: Lab, ids: Sequence[tuple[str, str, str | None]], model: str | None, price: float | None) -> Observed:
    """Measurements for the training environments `(owner, name, version)`."""
    proofs: dict[str, tuple[str, str, str] | None] = {}
    for owner, name, version in dict.fromkeys(ids):
        push = pushed(lab, owner, name, version)
        id = f"{owner}/{name}@{version}" if version else f"{owner}/{name}"
        proofs[id] = (push.workspace, push.environment, push.source) if push else None
    return observe_sources(lab, proofs, model, price)


def observe_sources(
    lab: Lab,
    proofs: Mapping[str, tuple[str, str, str] | None],
    model: str | None,
    price: float | None,
    models: Models | None = None,
) -> Observed:
    """`proofs` maps a taskset id to the workspace, environment and source whose evidence speaks of it."""
    ours = {
        id.partition("@")[0]
        for id in proofs
        if "/" in id and lab.ledger.pushes(owner=id.partition("/")[0], name=id.partition("/")[2].partition("@")[0])
    }
    each = {id: _measured(_history(lab, *proof), model) for id, proof in proofs.items() if proof is not None}
    found = list(each.values())
    complete = bool(found) and len(found) == len(proofs)
    hardest = min((f for f in found if f.usable is not None), key=lambda f: f.usable or 0.0, default=Measured())
    return Observed(
        tasks=sum(f.tasks or 0 for f in found) if complete and all(f.tasks for f in found) else None,
        infinite=any(f.infinite for f in found),
        duplicate_tasks=any(f.duplicates for f in found),
        prompt_tokens=_most(f.prompt_tokens for f in found),
        completion_tokens=_most(f.completion_tokens for f in found),
        longest=_most(f.longest for f in found),
        truncated=max((f.truncated for f in found if f.truncated is not None), default=None),
        temperature=next((f.temperature for f in found if f.temperature is not None), None),
        usable=hardest.usable,
        usable_group=hardest.usable_group,
        mean=hardest.mean,
        learnability=min((f.learnability for f in found if f.learnability is not None), default=None),
        price_per_gpu_hour=price,
        ours=frozenset(ours),
        each=each,
        models=models,
    )


def _history(lab: Lab, workspace: str, environment: str, source: str) -> list[Evidence]:
    rows = lab.ledger.evidence(workspace, environment=environment)
    return [r for r in rows if r.source == source and r.platform in (None, lab.platform)]


def _measured(history: list[Evidence], model: str | None) -> Measured:
    """Of one environment: the newest check, and the newest eval of this model."""
    values: dict[str, Any] = {}
    check = next((r for r in history if r.tool == "check_environment"), None)
    if check is not None:
        values["tasks"] = _whole(check.data.get("tasks"))
        values["infinite"] = bool(check.data.get("infinite"))
        values["duplicates"] = any(f.get("code") == "duplicate-prompt" for f in check.findings)
        values["secrets"] = variables_of(check.findings)
        values["held_out"] = _held_out(check.data.get("held_out"))
        values["turns"] = _turns(check.data.get("args"))
    for row in history:
        if row.tool in _EVALS and (model is None or row.model == model):
            for key, value in _of_eval(row).items():
                if value is not None:
                    values.setdefault(key, value)
    return Measured(**values)


def _of_eval(row: Evidence) -> dict[str, Any]:
    inner = row.data.get("distribution")
    data = {**row.data, **(inner if isinstance(inner, Mapping) else {})}
    groups = data.get("usable_groups")
    pools = data.get("difficulty")
    counts = {name: _whole(n) or 0 for name, n in pools.items()} if isinstance(pools, Mapping) else {}
    id = row.data.get("id") or row.data.get("eval")
    return {
        "evaluation": id if isinstance(id, str) else None,
        "usable": _real(groups.get("share")) if isinstance(groups, Mapping) else None,
        "usable_group": _whole(groups.get("group_size")) if isinstance(groups, Mapping) else None,
        "mean": _real(data.get("mean")),
        "solved": counts.get("easy", 0) + counts.get("always", 0) if counts else None,
        "unsolved": counts.get("hard", 0) + counts.get("never", 0) if counts else None,
        "completion_tokens": _percentile(data.get("completion_tokens"), "p95"),
        "longest": _percentile(data.get("completion_tokens"), "p99"),
        "prompt_tokens": _percentile(data.get("prompt_tokens"), "p99"),
        "truncated": _real(data.get("truncation_rate")),
        "learnability": _real(data.get("learnability")),
        "temperature": _real(row.sampling.get("temperature")),
    }


def _held_out(told: Any) -> dict[str, str] | None:
    """`split=eval: 35 tasks compared` as keys; None for a split that did not load, and for v0, which has no key."""
    found = _COMPARED.match(told) if isinstance(told, str) else None
    return {found[1]: found[2]} if found else None


def _turns(args: Any) -> int | None:
    """The default of an argument that bounds the turns of a rollout."""
    named = {a.get("name"): a.get("default") for a in args if isinstance(a, Mapping)} if isinstance(args, list) else {}
    return next((found for name in _TURNS if (found := _whole(named.get(name))) is not None), None)


def _most(found: Iterable[int | None]) -> int | None:
    return max((n for n in found if n), default=None)


def _percentile(value: Any, name: str) -> int | None:
    return _whole(value.get(name)) if isinstance(value, Mapping) else None


def _whole(value: Any) -> int | None:
    number = _real(value)
    return int(number) if number is not None and number >= 1 else None


def _real(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value else None
