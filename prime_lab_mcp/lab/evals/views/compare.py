"""`compare`: two evaluations of the same tasks, paired by task: what differs, what flipped, what would show it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.distribution.intervals import LARGEST_ADVICE, Interval
from prime_lab_mcp.lab.errors import EvalError
from prime_lab_mcp.lab.evals.views.pairs import Side, differences, flipped, settings
from prime_lab_mcp.lab.evals.views.viewed import Evaluated, Viewed
from prime_lab_mcp.lab.report import Finding, Next
from prime_lab_mcp.lab.text import count, quote, rounded

_POWER = (1.96 + 0.84) ** 2
"""Two-sided 5 %, power 80 % (facts/validation 3.3)."""
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """A mean of paired task differences, with its 95 % interval by Student's t."""

    interval: Interval
    deviation: float
    tasks: int

    @property
    def shown(self) -> bool:
        return self.interval.low > 0 or self.interval.high < 0

    def tasks_to_show(self) -> int | None:
        """Tasks that would show a difference of the observed size; None where no number within reach would."""
        if abs(self.interval.value) < 1e-9 or self.deviation <= 0:
            return None
        needed = max(math.ceil(_POWER * self.deviation**2 / self.interval.value**2), self.tasks + 1)
        return needed if needed <= LARGEST_ADVICE else None

    def as_json(self) -> dict[str, Any]:
        i = self.interval
        return {"value": rounded(i.value), "low": rounded(i.low), "high": rounded(i.high), "shown": self.shown}


def compare(evaluated: Evaluated, other: Evaluated) -> Viewed:
    """`evaluated` less `other`. Raises EvalError (`compare-no-shared-tasks`)."""
    mine, theirs = Side.read(evaluated), Side.read(other)
    shared = [key for key in mine.tasks if key in theirs.tasks]
    if not shared:
        raise EvalError(
            f"evaluations {evaluated.id} and {other.id} have no scored task in common",
            fix="Compare evaluations of the same tasks: run_eval both with the same environment and env_args.",
            code="compare-no-shared-tasks",
        )
    found = paired([mine.tasks[k].mean / mine.best - theirs.tasks[k].mean / theirs.best for k in shared])
    components = {
        name[:60]: paired(by_task).as_json() for name, by_task in sorted(differences(mine, theirs, shared).items())
    }
    gained, lost = flipped(mine, theirs, shared)
    differ = settings(evaluated.spec, other.spec)
    data: dict[str, Any] = {
        "id": evaluated.id,
        "other": other.id,
        "tasks": {"shared": len(shared), "only_here": len(mine.tasks) - len(shared),
                  "only_other": len(theirs.tasks) - len(shared)},
        "difference": found.as_json(),
        "tasks_to_show": found.tasks_to_show() if not found.shown else None,
        "components": components,
        "flipped": {
            "solved_here_only": len(gained),
            "solved_other_only": len(lost),
            "examples": _examples(evaluated, mine, theirs, [*gained[:_EXAMPLES], *lost[:_EXAMPLES]]),
        },
        "here": mine.as_json(),
        "there": theirs.as_json(),
        "settings": differ,
    }  # fmt: skip
    findings = (*_not_the_same(evaluated, other, differ), *_unshown(found, data["tasks_to_show"]), *_partly(data))
    return Viewed(_sentence(evaluated, other, found, data), data, findings, _next(evaluated, other, data))


def paired(values: Sequence[float]) -> Difference:
    """Over task differences. Where all are the same, 3 / tasks bounds what was not seen, to both sides."""
    n = len(values)
    middle = math.fsum(values) / n
    deviation = math.sqrt(math.fsum((v - middle) ** 2 for v in values) / (n - 1)) if n > 1 else 0.0
    half = student(n - 1) * deviation / math.sqrt(n) if deviation > 1e-12 else min(1.0, 3 / n)
    return Difference(Interval(middle, middle - half, middle + half), deviation, n)


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t: exact for 1 and 2 degrees of freedom, else to 0.3 % (Abramowitz 26.7.5)."""
    if freedom <= 2:
        return 12.706 if freedom <= 1 else 4.303
    z, v = 1.959963984540054, freedom
    return z + (z**3 + z) / (4 * v) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2) + _third(z) / (384 * v**3)


def _third(z: float) -> float:
    return 3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z


def _examples(evaluated: Evaluated, mine: Side, theirs: Side, keys: Sequence[str]) -> list[dict[str, Any]]:
    """What was asked is read again: prompts of all tasks are not kept."""
    from prime_lab_mcp.lab.evals.conversation import conversation

    asked: dict[str, str] = {}
    for rollout in evaluated.rollouts() if keys else ():
        if rollout.task in keys and rollout.task not in asked:
            said = [m.text for m in conversation(rollout) if m.role == "user"]
            asked[rollout.task] = said[0] if said else ""
            if len(asked) == len(keys):
                break
    return [
        {"task": key[:16], "here": mine.tasks[key].solved, "there": theirs.tasks[key].solved,
         "asked": quote(asked.get(key, ""), 160)}
        for key in keys
    ]  # fmt: skip


def _sentence(evaluated: Evaluated, other: Evaluated, found: Difference, data: Mapping[str, Any]) -> str:
    here, there = data["here"], data["there"]
    both = count(data["tasks"]["shared"], "task")
    names = f"{_name(evaluated, other)} {here['mean']:.2f}, {_name(other, evaluated)} {there['mean']:.2f}"
    if not found.shown:
        needed = data["tasks_to_show"]
        more = f"; {needed:,} tasks would show one of this size" if needed else ""
        return f"{names} of attainable over {both} of both: no difference shown ({_range(found)}){more}."
    flips = data["flipped"]
    return (
        f"{names} of attainable over {both} of both: difference {found.interval.value:+.2f} ({_range(found)}); "
        f"{flips['solved_here_only']} solved only by the first, {flips['solved_other_only']} only by the second."
    )


def _name(of: Evaluated, beside: Evaluated) -> str:
    return quote(of.spec.model, 60).strip('"') if of.spec.model != beside.spec.model else of.id


def _not_the_same(evaluated: Evaluated, other: Evaluated, differ: Mapping[str, Any]) -> list[Finding]:
    found = []
    setting = [name for name in differ if name not in ("model", "source", "rollouts")]
    if setting:
        found.append(
            Finding(
                "compare-settings-differ", "warning",
                f"the two differ in {', '.join(setting)}: not the same experiment, so a difference may come from that",
                "Run run_eval again with the same settings for both, then compare.",
            )
        )  # fmt: skip
    if "model" in differ and "source" in differ and evaluated.spec.environment == other.spec.environment:
        found.append(
            Finding(
                "compare-two-changes", "warning",
                "both the model and the files of the environment differ: what made the difference cannot be told",
                "Change one of them at a time: run_eval the other model on the present files.",
            )
        )  # fmt: skip
    if "source" in differ and "v0" in (evaluated.spec.api, other.spec.api):
        found.append(
            Finding(
                "compare-by-position", "warning",
                "v0 results name a task by its position only, and the files differ: pairs may not be the same tasks",
                "Check that the data and its order did not change, or port the environment to v1.",
            )
        )  # fmt: skip
    return found


def _unshown(found: Difference, needed: int | None) -> list[Finding]:
    if found.shown:
        return []
    fix = (
        f"Run run_eval for both with num_examples={needed}, or treat them as equal."
        if needed
        else "Treat them as equal: no sample within reach would tell them apart."
    )
    return [Finding("compare-no-difference", "info", f"no difference is shown: {_range(found)} holds 0", fix)]


def _partly(data: Mapping[str, Any]) -> list[Finding]:
    tasks = data["tasks"]
    apart = tasks["only_here"] + tasks["only_other"]
    if apart <= tasks["shared"]:
        return []
    return [
        Finding(
            "compare-few-shared", "warning",
            f"{count(apart, 'task')} of the two are in one of them only and were left out; "
            f"{count(tasks['shared'], 'task')} were compared",
            "Run run_eval for both with the same num_examples, seed and env_args on the same data.",
        )
    ]  # fmt: skip


def _next(evaluated: Evaluated, other: Evaluated, data: Mapping[str, Any]) -> tuple[Next, ...]:
    examples = data["flipped"]["examples"]
    if not examples:
        return (Next("read_eval", "which tasks can be trained on", {"eval": evaluated.id, "view": "difficulty"}),)
    where = {"view": "rollouts", "where": f"task={examples[0]['task']}"}
    return (
        Next("read_eval", "a task that flipped, here", {"eval": evaluated.id, **where}),
        Next("read_eval", "and there", {"eval": other.id, **where}),
    )


def _range(found: Difference) -> str:
    return f"95% {found.interval.low:+.3f} to {found.interval.high:+.3f}"
