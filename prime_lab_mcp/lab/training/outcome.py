"""Judges the outcome of a training run: whether it worked, why, and the next steps for its checkpoint.

Paired evaluations of the checkpoint decide. Without them, the run's own evaluations on held-out tasks decide. The
report lists the commands that fetch, serve and publish a trained model, in order. No tool runs them; a person fills in
the words in capitals.

The run's metrics contain only means, and two evaluations may use different tasks. Two means therefore count as
independent: a reward within [0, 1] with mean m has a variance of at most m(1-m), and the sample size is the number of
tasks, not of rollouts. The resulting interval is wider than that of a paired comparison (`read_eval` compare).

`prime` 0.18 has no command that serves or publishes a checkpoint, so other programs are named for that.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any, Literal

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.statistics import difference_half_width
from prime_lab_mcp.lab.base.text import clip, signed
from prime_lab_mcp.lab.configs.config import sources_of_table, value_at
from prime_lab_mcp.lab.configs.evidence import arguments_by_id, gather_context
from prime_lab_mcp.lab.configs.own_gpus import LaunchStep
from prime_lab_mcp.lab.evals.views.columns import ViewResult
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.arguments import same_arguments
from prime_lab_mcp.lab.state.pulled import pulled_source
from prime_lab_mcp.lab.training import evaluations
from prime_lab_mcp.lab.training.anomalies import Anomaly
from prime_lab_mcp.lab.training.bound import evaluated_tasks
from prime_lab_mcp.lab.training.evaluations import BeforeAndAfter, before_and_after

HeldOutWord = Literal["rose", "fell", "no difference shown", "not judged"]


@dataclass(frozen=True, slots=True)
class HeldOutChange:
    """The change of the mean reward on one eval source during a run.

    Points are (step, mean). `half_width` is half the width of the difference's 95 % interval; None if it cannot be
    computed.
    """

    source: str
    first: tuple[int, float]
    last: tuple[int, float]
    best: tuple[int, float]
    points: int
    half_width: float | None

    @property
    def difference(self) -> float:
        return self.last[1] - self.first[1]

    @property
    def word(self) -> HeldOutWord:
        if self.half_width is None:
            return "not judged"
        if abs(self.difference) <= self.half_width:
            return "no difference shown"
        return "rose" if self.difference > 0 else "fell"

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "source": self.source,
            "first": _point(self.first),
            "last": _point(self.last),
            "best": _point(self.best),
            "points": self.points,
            "difference": round(self.difference, 4),
            "result": self.word,
        }
        return fields if self.half_width is None else fields | {"half_width": round(self.half_width, 4)}


def held_out_changes(series: Mapping[str, Sequence[tuple[int, float]]], tasks: int | None) -> tuple[HeldOutChange, ...]:
    """The change of every source with at least two evaluations. `tasks` is the number of tasks of one evaluation."""
    changes = []
    for source, means in series.items():
        points = sorted((step, mean) for step, mean in means if math.isfinite(mean))
        if len(points) < 2:
            continue
        best = max(points, key=lambda point: point[1])
        changes.append(HeldOutChange(source, points[0], points[-1], best, len(points), _half_width(points, tasks)))
    return tuple(changes)


def _half_width(points: Sequence[tuple[int, float]], tasks: int | None) -> float | None:
    means = (points[0][1], points[-1][1])
    if tasks is None or tasks < 2 or any(not 0 <= mean <= 1 for mean in means):
        return None
    return difference_half_width(*means, tasks)


def _point(point: tuple[int, float]) -> dict[str, Any]:
    return {"step": point[0], "mean": round(point[1], 4)}


def served_name(run_name: str, step: int | None) -> str:
    """The model name for serving a checkpoint. `before_and_after` recognises evaluations of the checkpoint by it."""
    return run_name if step is None else f"{run_name}-step-{step}"


def checkpoint_steps(id: str, run_name: str, step: int | None, config: Mapping[str, Any]) -> tuple[LaunchStep, ...]:
    """The commands for a checkpoint of a hosted run. `config` is the config's table; `step` is the checkpoint's."""
    name = served_name(run_name, step)
    lora = isinstance(value_at(config, "trainer", "model", "lora"), Mapping)
    volume = config.get("volume")
    if isinstance(volume, str) and volume:
        fetch = LaunchStep(
            "fetch", f"prime volumes get {quote(volume)} runs/{id}/ ./{name}", "the run wrote to this volume"
        )
    else:
        why = "shows storage_url of each checkpoint, to download from; a run with `volume` keeps them on the volume"
        fetch = LaunchStep("fetch", f"prime train checkpoints {id} -o json", why)
    serve = f"vllm serve ./{name} --served-model-name {name}"
    steps = [
        fetch,
        LaunchStep("serve", serve, "on a machine with a GPU; any server that speaks the OpenAI protocol does"),
    ]
    if lora:
        base = quote(str(value_at(config, "model", "name") or "BASE_MODEL"))
        adapter = f"vllm serve {base} --enable-lora --lora-modules {name}=./{name}"
        steps.append(
            LaunchStep("serve", adapter, "instead, where the checkpoint holds an adapter (adapter_config.json)")
        )
    publish = f"hf upload OWNER/{name} ./{name}"
    return (
        *steps,
        LaunchStep("publish", publish, "to Hugging Face; needs HF_TOKEN, and is public unless --private is given"),
    )


_SHELL_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Run names that are safe in a shell command. Runs with other names are served under the platform's id."""

WorkedAnswer = Literal["yes", "no", "not shown", "not held out", "unknown", "doubtful", "ended early"]
"""`not held out`: the checkpoint was compared on tasks that it was trained on, and on no others. `doubtful`: the reward
rose, and an anomaly of the run, or a known hole of the reward, could explain the rise. `ended early`: the run was
stopped, paused or failed, so what is known is about the steps up to there."""
EXPLAINING = frozenset({"suspicious-jump", "proxy-gap", "format-plateau"})
"""Anomalies that could explain a rise of the reward without better answers."""


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The answer whether training worked, the report's `data`, and the next calls."""

    worked: WorkedAnswer
    data: dict[str, Any]
    next: tuple[Next, ...]


async def run_outcome(
    lab: Lab,
    id: str,
    run: Mapping[str, Any],
    checkpoints: Sequence[Mapping[str, Any]],
    series: Mapping[str, Sequence[tuple[int, float]]],
) -> RunOutcome:
    """Judge a run from the platform's description of it and from its held-out rewards.

    `series` has the held-out mean reward by source, as `(step, mean)`.
    """
    config = run.get("run_config")
    config = config if isinstance(config, Mapping) else {}
    model, name = str(run.get("base_model") or ""), str(run.get("name") or "")
    name = name if _SHELL_SAFE.fullmatch(name) else id
    changes = held_out_changes(series, tasks_of_evaluation(lab, config, model))
    step = _step(checkpoints)
    served = served_name(name, step)
    pairs = [before_and_after(lab, source, model, name) for source in evaluations.evaluated_sources(lab, config)]
    views = [(one, await evaluations.compare_before_and_after(lab, one)) for one in pairs]
    worked, because = outcome_verdict(changes, views)
    holes = reward_holes(lab, config)
    if holes and worked == "yes":
        worked, because = "doubtful", f"{because}; {'; '.join(holes)}"
    data: dict[str, Any] = {"worked": worked, "because": because, "held_out": [one.as_json() for one in changes]}
    data |= {"reward_holes": list(holes)} if holes else {}
    calls: list[Next] = []
    for one, view in views:
        if view is not None:
            data.setdefault("comparisons", []).append(_comparison(one, view))
        if step is not None or one.trained is not None:
            calls += evaluations.missing_evaluations(
                one, model, served, rehearsal=lab.settings.rehearsal, max_tokens=evaluations.reply_limit(config)
            )
    if step is not None and not pairs and (pull := evaluations.pull_of_sources(lab, config)) is not None:
        calls.append(pull)
    if step is not None:
        data |= {"checkpoint_step": step, "served_as": served}
        data["ways"] = [choice.as_json() for choice in checkpoint_steps(id, name, step, config)]
    return RunOutcome(worked, data, tuple(calls[:3]))


_HOLES = frozenset({"reward-hackable", "reward-search-hole", "reward-wrong-passes", "reward-constant"})
"""Blockers of a reward test that say that other replies than right ones are paid."""


def reward_holes(lab: Lab, config: Mapping[str, Any]) -> tuple[str, ...]:
    """What the newest reward test of the files that a run trained on says of replies that are paid without being right.

    A rise of such a reward may be the use of the hole. Empty for files that no workspace of this machine has tested, or
    whose newest test has no such finding.
    """
    holes: dict[str, None] = {}
    for source in sources_of_table(config):
        if source.kind != "train" or source.owner is None:
            continue
        push = lab.newest_push(source.owner, source.env_name, source.version)
        pulled = pulled_source(lab.ledger, lab.key, source.owner, source.env_name, source.version)
        files = {push.source if push is not None else "", pulled[1] if pulled is not None else ""} - {""}
        tests = [row for one in sorted(files) for row in lab.ledger.evidence(tool="test_reward", source=one)]
        fitting = [row for row in tests if same_arguments(row.env_args, source.args)] or tests
        newest = max(fitting, key=lambda row: row.at, default=None)
        found = newest.findings if newest is not None else ()
        hole = next((f for f in found if f.get("code") in _HOLES and f.get("severity") == "blocker"), None)
        if hole is not None:
            message = clip(str(hole.get("message") or ""), 200)
            holes[f"test_reward says of {source.env_name}: {hole['code']}, {message}"] = None
    return tuple(holes)


def explaining_codes(anomalies: Sequence[Anomaly]) -> str:
    """The codes of the anomalies that could explain a rise of the reward."""
    return " and ".join(dict.fromkeys(a.code for a in anomalies if a.code in EXPLAINING))


def ended_early(after: RunOutcome, status: str, step: int | None, max_steps: int | None) -> RunOutcome:
    """Return the outcome, or change the answer if the run was stopped or paused or failed before its last step.

    `step` is the newest finished step.
    """
    ended = {"STOPPED": "stopped", "PAUSED": "paused", "FAILED": "ended by a failure"}.get(status)
    if ended is None:
        return after
    at = "before its first step ended" if step is None else f"after {step + 1:,}"
    of = "" if step is None else f" of {max_steps:,} steps" if max_steps else " steps"
    because = f"the run was {ended} {at}{of}; what is known: {after.data['because']}"
    return replace(after, worked="ended early", data={**after.data, "worked": "ended early", "because": because})


def doubted_outcome(after: RunOutcome, anomalies: Sequence[Anomaly]) -> RunOutcome:
    """Return the outcome, or change `yes` to `doubtful` if an anomaly could explain the rise of the reward."""
    names = explaining_codes(anomalies)
    if after.worked != "yes" or not names:
        return after
    because = f"{after.data['because']}; {names} could explain the rise"
    return replace(after, worked="doubtful", data={**after.data, "worked": "doubtful", "because": because})


def outcome_verdict(
    changes: Sequence[HeldOutChange], views: Sequence[tuple[BeforeAndAfter, ViewResult | None]]
) -> tuple[WorkedAnswer, str]:
    """Whether training worked, and the reason.

    Paired evaluations of the checkpoint on held-out tasks take precedence over the run's own evaluations. Pairs on
    tasks that the model was trained on do not answer the question.
    """
    paired = [(one.source.held_out, view.data["difference"]) for one, view in views if view is not None]
    held_out = [difference for apart, difference in paired if apart]
    against = "the checkpoint against the base model, paired by task on"
    if held_out:
        words = [_word(bool(d["shown"]), float(d["value"])) for d in held_out]
        return _joined(words), f"{against} held-out tasks: {_differences(held_out)}"
    if not changes and paired:
        trained = _differences([difference for _, difference in paired])
        return "not held out", f"{against} tasks it was trained on: {trained}, which shows nothing about other tasks"
    if not changes:
        return "unknown", "the run evaluated nothing twice on held-out tasks, and no checkpoint of it was evaluated"
    words = [_word(one.word in ("rose", "fell"), one.difference) for one in changes if one.word != "not judged"]
    summary = "; ".join(
        f"{one.first[1]:.2f} at step {one.first[0]} to {one.last[1]:.2f} at step {one.last[0]}: {one.word}"
        for one in changes
    )
    return _joined(words), f"the run's own evaluations: {summary}"


def _differences(differences: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(f"{signed(d['value'])} ({signed(d['low'])} to {signed(d['high'])})" for d in differences)


def _word(significant: bool, difference: float) -> WorkedAnswer:
    return "not shown" if not significant else "yes" if difference > 0 else "no"


def _joined(words: Sequence[WorkedAnswer]) -> WorkedAnswer:
    if not words:
        return "unknown"
    return "no" if "no" in words else "yes" if "yes" in words else "not shown"


def _comparison(one: BeforeAndAfter, view: ViewResult) -> dict[str, Any]:
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


def tasks_of_evaluation(lab: Lab, config: Mapping[str, Any], model: str) -> int | None:
    """Tasks of one evaluation by the config, and no more than exist in its smallest eval source; None if unknown."""
    number = value_at(config, "orchestrator", "eval", "num_examples")
    asked = number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None
    sources = tuple(sources_of_table(config))
    context = gather_context(lab, sources, model, None)
    trained = arguments_by_id(sources)
    there = [evaluated_tasks(context, source, trained) for source in sources if source.kind == "eval"]
    return min((tasks for tasks in (asked, *there) if tasks is not None), default=None)
