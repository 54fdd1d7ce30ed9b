"""The view `compare` of read_eval: two evaluations of the same tasks, paired by task.

The view reports the difference of the means with its interval, the tasks that only one evaluation solved, and how many
tasks are needed to show a difference of this size. Memory grows with the number of tasks, not of rollouts.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.statistics import LARGEST_ADVISED_SAMPLE, Interval, student_975
from prime_lab_mcp.lab.base.text import count, quote, rounded
from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.distribution.sample import PASS_THRESHOLD, attainable_reward
from prime_lab_mcp.lab.distribution.sample_size import MOST_ROLLOUTS
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.evals.plan import run_eval_arguments
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.verdict import EvaluationVerdict
from prime_lab_mcp.lab.evals.views.chosen_model import Candidate, choose_model
from prime_lab_mcp.lab.evals.views.columns import FinishedEvaluation, ViewResult
from prime_lab_mcp.lab.rollouts.components import earned_for_answer
from prime_lab_mcp.lab.rollouts.conversation import task_names


@dataclass(slots=True)
class TaskSums:
    """Sums over the scored rollouts of one task."""

    n: int = 0
    """Number of scored rollouts."""
    total: float = 0.0
    """Sum of their rewards."""
    rewards: array[float] = field(default_factory=lambda: array("d"))
    """Their rewards, only while the results are read. Minus infinity for a rollout that earned nothing for its
    answer."""
    parts: dict[str, list[float]] = field(default_factory=dict)
    """`[rollouts, sum of scores]` by component."""
    solved: float = 0.0
    """Share of the rollouts that earned at least half of the attainable reward."""

    @property
    def mean(self) -> float:
        """Mean reward of the scored rollouts."""
        return self.total / self.n


@dataclass(slots=True)
class ComparedSide:
    """One of the two evaluations, summed up by task. Failed rollouts only count in `errors` and `rollouts`."""

    best: float = 1.0
    """The attainable reward."""
    tasks: dict[str, TaskSums] = field(default_factory=dict)
    rollouts: int = 0
    errors: int = 0
    truncated: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None

    @classmethod
    def read(cls, evaluated: FinishedEvaluation) -> ComparedSide:
        """Read the results of an evaluation and return its sums by task."""
        side = cls()
        weights = evaluated.spec.weights
        declared, highest = math.fsum(w for w in weights.values() if w > 0), 0.0
        for rollout in evaluated.rollouts():
            side.rollouts += 1
            side.truncated += rollout.truncated
            side.prompt_tokens += rollout.prompt_tokens
            side.completion_tokens += rollout.completion_tokens
            if rollout.error is not None or rollout.reward is None or rollout.nonfinite:
                side.errors += 1
                continue
            sums = side.tasks.setdefault(rollout.task, TaskSums())
            sums.n += 1
            sums.total += rollout.reward
            sums.rewards.append(rollout.reward if earned_for_answer(rollout, weights) else -math.inf)
            highest = max(highest, rollout.reward)
            declared = max(declared, math.fsum(max(0.0, w or 0.0) for _, w in rollout.components.values()))
            for name, (score, _) in rollout.components.items():
                part = sums.parts.setdefault(name, [0.0, 0.0])
                part[0] += 1
                part[1] += score
        side.best = attainable_reward(declared, highest) or 1.0
        for sums in side.tasks.values():
            sums.solved = sum(r >= PASS_THRESHOLD * side.best for r in sums.rewards) / sums.n
            sums.rewards = array("d")
        price = evaluated.spec.price
        side.cost = price.of(side.prompt_tokens, side.completion_tokens) if price else None
        return side

    def as_json(self) -> dict[str, Any]:
        """Return the numbers of this side for the data of the view."""
        scored = max(self.rollouts - self.errors, 1)
        means = [s.mean / self.best for s in self.tasks.values()]
        fields: dict[str, Any] = {
            "mean_of_attainable": rounded(math.fsum(means) / len(means)) if means else None,
            "attainable": rounded(self.best),
            "pass_rate": rounded(math.fsum(s.solved * s.n for s in self.tasks.values()) / scored),
            "tasks": len(self.tasks),
            "rollouts": self.rollouts,
            "errors": self.errors,
            "truncated": self.truncated,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "tokens_a_rollout": round(self.completion_tokens / max(self.rollouts, 1), 1),
        }
        return fields | ({"cost": round(self.cost, 4)} if self.cost is not None else {})


def component_differences(
    side: ComparedSide, other_side: ComparedSide, shared: Sequence[str]
) -> dict[str, list[float]]:
    """Return, for each component, the difference of its mean score for every task in which both sides have it.

    `shared` are the keys of the tasks that both sides have.
    """
    differences: dict[str, list[float]] = {}
    for key in shared:
        parts, other_parts = side.tasks[key].parts, other_side.tasks[key].parts
        for name in parts.keys() & other_parts.keys():
            differences.setdefault(name, []).append(
                parts[name][1] / parts[name][0] - other_parts[name][1] / other_parts[name][0]
            )
    return differences


SOLVED_RULE = (
    "a rollout is solved if it earns at least half of the attainable reward, and something for its answer; a task is "
    "solved by one side only if that side solved at least half of its rollouts and the other side none"
)
"""The rule of `solved_here_only`, `solved_other_only` and `pass_rate`; that of a rollout holds in all views."""


def flipped_tasks(side: ComparedSide, other_side: ComparedSide, shared: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the tasks that only the first side solved, and those that only the other side solved.

    A side solved a task if at least half of its rollouts earned at least half of the attainable reward. None of the
    other side's rollouts may have earned that much.
    """
    only_here = [k for k in shared if side.tasks[k].solved >= PASS_THRESHOLD and other_side.tasks[k].solved == 0]
    only_there = [k for k in shared if other_side.tasks[k].solved >= PASS_THRESHOLD and side.tasks[k].solved == 0]
    return only_here, only_there


def setting_differences(spec: EvalSpec, other_spec: EvalSpec) -> Mapping[str, Any]:
    """Return the settings in which two evaluations differ: `[value here, value in the other]` by name."""
    settings = {
        "model": (spec.model, other_spec.model),
        "environment": (spec.environment, other_spec.environment),
        "source": (spec.source[:12], other_spec.source[:12]),
        "temperature": (spec.temperature, other_spec.temperature),
        "max_tokens": (spec.max_tokens, other_spec.max_tokens),
        "env_args": (dict(spec.env_args), dict(other_spec.env_args)),
        "harness": (spec.harness_name, other_spec.harness_name),
        "verifiers": (spec.verifiers, other_spec.verifiers),
        "rollouts": (spec.rollouts, other_spec.rollouts),
    }
    return {name: list(pair) for name, pair in settings.items() if pair[0] != pair[1]}


_POWER = (1.96 + 0.84) ** 2
"""Factor in the number of tasks for a two-sided test at 5 % with a power of 80 % (docs/validation.md, Reward
distributions)."""
_EXAMPLES = 5
_MOST_FACTOR = 8
"""Most rollouts per task that are advised, as a multiple of those of the evaluation."""


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean of the differences over tasks, with its 95 % interval by Student's t and the standard deviation."""

    interval: Interval
    deviation: float
    tasks: int

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval.low > 0 or self.interval.high < 0

    def tasks_to_show(self) -> int | None:
        """Return the number of tasks that a significant difference of this size needs.

        None if no such number exists or it exceeds `LARGEST_ADVISED_SAMPLE`.
        """
        if abs(self.interval.value) < 1e-9 or self.deviation <= 0:
            return None
        needed = max(math.ceil(_POWER * self.deviation**2 / self.interval.value**2), self.tasks + 1)
        return needed if needed <= LARGEST_ADVISED_SAMPLE else None

    def as_json(self) -> dict[str, Any]:
        """Return the difference with its interval for the data of the view."""
        i = self.interval
        return {"value": rounded(i.value), "low": rounded(i.low), "high": rounded(i.high), "shown": self.is_significant}


def _on_the_same_tasks(spec: EvalSpec, other: EvalSpec) -> Next:
    """Return the next call for two evaluations without shared tasks: an evaluation that the other can be compared
    with."""
    if spec.model == other.model:
        return Next("watch_run", "lists the evaluations; compare those of the same tasks")
    return Next(
        "run_eval", "the model on the tasks of the other one", {**run_eval_arguments(other), "model": spec.model}
    )


def compare_view(
    evaluated: FinishedEvaluation,
    other: FinishedEvaluation,
    *,
    candidates: Collection[str] = (),
    verdicts: tuple[EvaluationVerdict, EvaluationVerdict] | None = None,
) -> ViewResult:
    """Return the comparison of two evaluations; differences are `evaluated` minus `other`.

    `candidates` are those of the two models that could be trained. Of two, the view says which one to train; of one,
    how much room it has up to the other. `verdicts` are those that the gates use; without them, the rewards alone are
    judged. Raises EvalError (`compare-no-shared-tasks`).
    """
    side, other_side = ComparedSide.read(evaluated), ComparedSide.read(other)
    shared = [key for key in side.tasks if key in other_side.tasks]
    if not shared:
        raise EvalError(
            f"evaluations {evaluated.id} and {other.id} have no scored task in common",
            fix=Fix(
                "Compare evaluations of the same tasks: ",
                NamedCall("run_eval"),
                " both with the same environment and env_args.",
            ),
            code="compare-no-shared-tasks",
            next=(_on_the_same_tasks(evaluated.spec, other.spec),),
        )
    difference = paired_difference(
        [side.tasks[k].mean / side.best - other_side.tasks[k].mean / other_side.best for k in shared]
    )
    components = {
        name[:60]: paired_difference(by_task).as_json()
        for name, by_task in sorted(component_differences(side, other_side, shared).items())
    }
    only_here, only_there = flipped_tasks(side, other_side, shared)
    judged, other_judged = (
        judge_rollouts(e.rollouts(), weights=e.spec.weights, available=e.spec.available) for e in (evaluated, other)
    )
    usable, other_usable = judged.usable_groups, other_judged.usable_groups
    settings = setting_differences(evaluated.spec, other.spec)
    needed = difference.tasks_to_show() if not difference.is_significant else None
    available = evaluated.spec.available
    data: dict[str, Any] = {
        "id": evaluated.id,
        "other": other.id,
        "tasks": {
            "shared": len(shared),
            "only_here": len(side.tasks) - len(shared),
            "only_other": len(other_side.tasks) - len(shared),
        },
        "difference": difference.as_json(),
        "tasks_to_show": needed if needed is None or available is None or needed <= available else None,
        "components": components,
        "flipped": {
            "solved_here_only": len(only_here),
            "solved_other_only": len(only_there),
            "rule": SOLVED_RULE,
            "examples": _examples(evaluated, side, other_side, [*only_here[:_EXAMPLES], *only_there[:_EXAMPLES]]),
        },
        "here": side.as_json() | {"usable_groups": usable.as_json()},
        "there": other_side.as_json() | {"usable_groups": other_usable.as_json()},
        "settings": settings,
    }
    for name, one in zip(("here", "there"), verdicts or (), strict=False):
        data[name]["verdict"] = one.brief
    findings = (
        *_setting_findings(evaluated, other, settings),
        *_no_difference_findings(difference, needed, evaluated.spec),
        *_few_shared_findings(data),
    )
    summary, calls = _sentence(evaluated, other, difference, data), _next(evaluated, other, data, needed)
    models = {evaluated.spec.model: difference.interval.value, other.spec.model: -difference.interval.value}
    if len(models) == 2 and len(set(candidates) & set(models)) == 1:
        (candidate,) = set(candidates) & set(models)
        (ceiling,) = set(models) - {candidate}
        room = max(0.0, -models[candidate])
        data["room"] = {"model": candidate, "up_to": ceiling, "of_attainable": rounded(room)}
        summary = (
            f"{summary} {quote(ceiling, 80)[1:-1]} cannot be trained here: it only shows the room that "
            f"{quote(candidate, 80)[1:-1]} has, {room:.2f} of attainable."
        )
    elif len(models) == 2 and set(models) <= set(candidates):
        first, second = verdicts or (None, None)
        chosen = choose_model(_candidate(evaluated, judged, first), _candidate(other, other_judged, second))
        data["to_train"] = {"model": chosen.model, "why": chosen.why}
        summary = f"{summary} {chosen.sentence()}"
        calls = (*calls, chosen.call())
    return ViewResult(summary, data, findings, calls)


def _candidate(evaluated: FinishedEvaluation, judged: Distribution, verdict: EvaluationVerdict | None) -> Candidate:
    status, findings = (judged.status, judged.findings) if verdict is None else (verdict.status, verdict.findings)
    blockers = tuple(dict.fromkeys(f.code for f in findings if f.severity == "blocker"))
    return Candidate(evaluated.spec, judged, status, blockers)


def paired_difference(differences: Sequence[float]) -> PairedDifference:
    """Return the mean of the differences over tasks with its interval.

    If all differences are equal, the interval extends by 3 / tasks to both sides, because a task that was not evaluated
    may differ. 3 / n is the upper 95 % limit of a probability after n trials without a success.
    """
    n = len(differences)
    middle = math.fsum(differences) / n
    deviation = math.sqrt(math.fsum((v - middle) ** 2 for v in differences) / (n - 1)) if n > 1 else 0.0
    half = student_975(n - 1) * deviation / math.sqrt(n) if deviation > 1e-12 else min(1.0, 3 / n)
    return PairedDifference(Interval(middle, middle - half, middle + half), deviation, n)


def _examples(
    evaluated: FinishedEvaluation, side: ComparedSide, other_side: ComparedSide, keys: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the rows of flipped tasks. The results are read again for their names, which are not kept in memory."""
    names = task_names(evaluated.rollouts(), keys)
    return [{**names[key], "here": side.tasks[key].solved, "there": other_side.tasks[key].solved} for key in keys]


def _sentence(
    evaluated: FinishedEvaluation, other: FinishedEvaluation, difference: PairedDifference, data: Mapping[str, Any]
) -> str:
    first, second = (data[side]["mean_of_attainable"] for side in ("here", "there"))
    shared_tasks = count(data["tasks"]["shared"], "task")
    names = f"{_name(evaluated, other)} {first:.2f}, {_name(other, evaluated)} {second:.2f}"
    if not difference.is_significant:
        needed = data["tasks_to_show"]
        more = f"; {needed:,} tasks would show one of this size" if needed else ""
        return f"{names} of attainable over {shared_tasks} of both: no difference shown ({_range(difference)}){more}."
    flips = data["flipped"]
    return (
        f"{names} of attainable over {shared_tasks} of both: difference {difference.interval.value:+.2f} "
        f"({_range(difference)}); {flips['solved_here_only']} solved only by the first, "
        f"{flips['solved_other_only']} only by the second{_usable_sentence(data)}."
    )


def _usable_sentence(data: Mapping[str, Any]) -> str:
    """Return the shares of usable groups of two models, which say what can be trained. Empty for one model."""
    first, second = (data[side]["usable_groups"] for side in ("here", "there"))
    if "model" not in data["settings"] or None in (first["share"], second["share"]):
        return ""
    told = " and ".join(f"{one['share']:.0%} ({one['low']:.0%} to {one['high']:.0%})" for one in (first, second))
    overlap = first["low"] <= second["high"] and second["low"] <= first["high"]
    return f"; usable groups of {first['group_size']}: {told}, whose intervals " + (
        "overlap" if overlap else "do not overlap"
    )


def _name(evaluated: FinishedEvaluation, other: FinishedEvaluation) -> str:
    return quote(evaluated.spec.model, 60).strip('"') if evaluated.spec.model != other.spec.model else evaluated.id


def _setting_findings(
    evaluated: FinishedEvaluation, other: FinishedEvaluation, settings: Mapping[str, Any]
) -> list[Finding]:
    findings = []
    setting = [name for name in settings if name not in ("model", "source", "rollouts")]
    if setting:
        findings.append(
            Finding(
                "compare-settings-differ",
                "warning",
                f"the two differ in {', '.join(setting)}: not the same experiment, so a difference may come from that",
                "Run run_eval again with the same settings for both, then compare.",
            )
        )
    if "model" in settings and "source" in settings and evaluated.spec.environment == other.spec.environment:
        findings.append(
            Finding(
                "compare-two-changes",
                "warning",
                "both the model and the files of the environment differ: what made the difference cannot be told",
                "Change one of them at a time: run_eval the other model on the present files.",
            )
        )
    if "source" in settings and "v0" in (evaluated.spec.api, other.spec.api):
        findings.append(
            Finding(
                "compare-by-position",
                "warning",
                "v0 results name a task by its position only, and the files differ: pairs may not be the same tasks",
                "Check that the data and its order did not change, or port the environment to v1.",
            )
        )
    return findings


def _deciding_size(needed: int | None, spec: EvalSpec) -> dict[str, int] | None:
    """Return the size of the evaluations that would show a difference of this size; None if none is within reach.

    More rollouts take the place of tasks that do not exist. They only reduce the variance inside tasks, so at most
    `_MOST_FACTOR` times as many are advised.
    """
    if not needed:
        return None
    if spec.available is None or needed <= spec.available:
        return {"num_examples": needed}
    rollouts = math.ceil(spec.rollouts * needed / spec.available)
    if rollouts > min(MOST_ROLLOUTS, _MOST_FACTOR * spec.rollouts):
        return None
    return {"num_examples": spec.available, "rollouts": rollouts}


def _no_difference_findings(difference: PairedDifference, needed: int | None, spec: EvalSpec) -> list[Finding]:
    if difference.is_significant:
        return []
    size = _deciding_size(needed, spec)
    fix = "Treat them as equal: no sample within reach would tell them apart."
    if size is not None:
        words = " and ".join(f"{name}={number}" for name, number in size.items())
        end = " (there are no more tasks)" if "rollouts" in size else ""
        fix = f"Run run_eval for both with {words}{end}, or treat them as equal."
    return [Finding("compare-no-difference", "info", f"no difference is shown: {_range(difference)} holds 0", fix)]


def _few_shared_findings(data: Mapping[str, Any]) -> list[Finding]:
    tasks = data["tasks"]
    apart = tasks["only_here"] + tasks["only_other"]
    if apart <= tasks["shared"]:
        return []
    return [
        Finding(
            "compare-few-shared",
            "warning",
            f"{count(apart, 'task')} of the two are in one of them only and were left out; "
            f"{count(tasks['shared'], 'task')} were compared",
            "Run run_eval for both with the same num_examples, seed and env_args on the same data.",
        )
    ]


def _next(
    evaluated: FinishedEvaluation, other: FinishedEvaluation, data: Mapping[str, Any], needed: int | None
) -> tuple[Next, ...]:
    examples = data["flipped"]["examples"]
    size = _deciding_size(needed, evaluated.spec)
    if size is not None:
        why = "as many tasks as would show a difference of this size; compare both again"
        return tuple(Next("run_eval", why, {**run_eval_arguments(e.spec), **size}) for e in (evaluated, other))
    if not examples:
        return (Next("read_eval", "which tasks can be trained on", {"eval": evaluated.id, "view": "difficulty"}),)
    where = {"view": "rollouts", "where": f"task={examples[0]['task']}"}
    return (
        Next("read_eval", "a task that flipped, here", {"eval": evaluated.id, **where}),
        Next("read_eval", "and there", {"eval": other.id, **where}),
    )


def _range(difference: PairedDifference) -> str:
    return f"95% {difference.interval.low:+.3f} to {difference.interval.high:+.3f}"
