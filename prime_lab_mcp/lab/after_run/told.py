"""What a report says of a run that has ended: did it work, on what that rests, and what to do with the checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prime_lab_mcp.lab.after_run import evaluated
from prime_lab_mcp.lab.after_run.evaluated import Before, before_and_after
from prime_lab_mcp.lab.after_run.held_out import HeldOut, held_out
from prime_lab_mcp.lab.after_run.ways import served_name, ways
from prime_lab_mcp.lab.evals.views.viewed import Viewed
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.report import Next

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""A run's name that can stand in a command; the platform's own id does where it is another."""

Worked = Literal["yes", "no", "not shown", "unknown"]


@dataclass(frozen=True, slots=True)
class After:
    """`data` for the report and the next calls; no checkpoint, no ways."""

    worked: Worked
    data: dict[str, Any]
    next: tuple[Next, ...]


async def after(
    lab: Lab,
    id: str,
    run: Mapping[str, Any],
    checkpoints: Sequence[Mapping[str, Any]],
    series: Mapping[str, Sequence[tuple[int, float]]],
) -> After:
    """`run` as the platform describes it; `series`: held-out mean reward by source, as `(step, mean)`."""
    config = run.get("run_config")
    config = config if isinstance(config, Mapping) else {}
    model, name = str(run.get("base_model") or ""), str(run.get("name") or "")
    name = name if _PLAIN.fullmatch(name) else id
    shown = held_out(series, _tasks(config))
    step = _step(checkpoints)
    served = served_name(name, step)
    found = [before_and_after(lab, source, model, name) for source in evaluated.sources(lab, config)]
    views = [(one, await evaluated.compared(lab, one)) for one in found]
    worked, because = verdict(shown, views)
    data: dict[str, Any] = {"worked": worked, "because": because, "held_out": [one.as_json() for one in shown]}
    calls: list[Next] = []
    for one, view in views:
        if view is not None:
            data.setdefault("comparisons", []).append(_comparison(one, view))
        if step is not None or one.trained is not None:
            calls += evaluated.missing(one, model, served, rehearsal=lab.settings.rehearsal)
    if step is not None:
        data |= {"checkpoint_step": step, "served_as": served}
        data["ways"] = [way.as_json() for way in ways(id, name, step, config)]
    return After(worked, data, tuple(calls[:3]))


def verdict(shown: Sequence[HeldOut], views: Sequence[tuple[Before, Viewed | None]]) -> tuple[Worked, str]:
    """A paired evaluation of the checkpoint decides; else the run's own evaluations on held-out tasks do."""
    paired = [(one, view.data["difference"]) for one, view in views if view is not None]
    if paired:
        words = [_word(bool(d["shown"]), float(d["value"])) for _, d in paired]
        tasks = "held-out tasks" if all(one.source.held_out for one, _ in paired) else "tasks it was trained on"
        said = "; ".join(f"{d['value']:+.2f} ({d['low']:+.2f} to {d['high']:+.2f})" for _, d in paired)
        return _joined(words), f"the checkpoint against the base model, paired by task on {tasks}: {said}"
    if not shown:
        return "unknown", "the run evaluated nothing twice on held-out tasks, and no checkpoint of it was evaluated"
    words = [_word(one.word in ("rose", "fell"), one.difference) for one in shown if one.word != "not judged"]
    said = "; ".join(
        f"{one.first[1]:.2f} at step {one.first[0]} to {one.last[1]:.2f} at step {one.last[0]}: {one.word}"
        for one in shown
    )
    return _joined(words), f"the run's own evaluations: {said}"


def _word(is_shown: bool, difference: float) -> Worked:
    return "not shown" if not is_shown else "yes" if difference > 0 else "no"


def _joined(words: Sequence[Worked]) -> Worked:
    if not words:
        return "unknown"
    return "no" if "no" in words else "yes" if "yes" in words else "not shown"


def _comparison(one: Before, view: Viewed) -> dict[str, Any]:
    return {
        "environment": one.source.environment,
        "held_out": one.source.held_out,
        "base": view.data["other"],
        "trained": view.data["id"],
        "difference": view.data["difference"],
        "tasks": view.data["tasks"]["shared"],
    }


def _step(checkpoints: Sequence[Mapping[str, Any]]) -> int | None:
    steps = [c.get("step") for c in checkpoints if str(c.get("status", "READY")).upper() == "READY"]
    return max((step for step in steps if isinstance(step, int)), default=None)


def _tasks(config: Mapping[str, Any]) -> int | None:
    """Tasks of one evaluation as the config says; -1 (all of them) is not known here."""
    table: Any = config
    for part in ("orchestrator", "eval", "num_examples"):
        table = table.get(part) if isinstance(table, Mapping) else None
    return table if isinstance(table, int) and not isinstance(table, bool) and table > 0 else None
