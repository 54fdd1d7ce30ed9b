"""Chooses the evaluation that is the evidence of a gate, and states what a person must know about that evaluation.

The evaluation must be of the model to be trained, and its sample must be large enough to decide. An evaluation of
another model, of a checkpoint, or of too few tasks does not close a gate that a fitting evaluation opened. Alone, it
does not open a gate either.

Evidence is ceiling-only if it comes from another model than the one to be trained, or from an endpoint that nobody
vouches for: neither the platform's, nor a known provider's, nor one that the user named. Whoever chooses the address of
an endpoint can serve any model there under any name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.state.arguments import arguments_summary
from prime_lab_mcp.lab.state.ledger.rows import Evidence

_VOUCHED = frozenset({"platform", "provider", "person"})
"""Values of `endpoint_named_by` for endpoints that somebody vouches for: the platform's, a provider's with the user's
key, and those that the user named. Rows of older versions lack the field; of these, only rows of the platform count."""


JUDGE_NAMED_BY = "judge_named_by"
"""Key of a reward test's data that says who named the endpoint of the judge, with the values of `endpoint_named_by`."""


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """The model to be trained. `name` is None at a push, where the latest model that opens the gate counts."""

    name: str | None = None
    checkpoint_of: str | None = None
    """Name of the run that training resumes from. Evaluations of its checkpoints are preferred to those of `name`."""
    runs: frozenset[str] = frozenset()
    """Names of all known training runs. Evaluations of their checkpoints are results, not evidence."""
    group_size: int | None = None
    """Rollouts per task in training."""


def choose_evaluation(
    rows: Sequence[Evidence],
    trained: TrainedModel,
    decides: Callable[[Evidence], bool],
    opens: Callable[[Evidence], bool],
) -> Evidence | None:
    """Return the verdict that is the evidence of a gate; None if only checkpoints were evaluated.

    `rows` are the verdicts on evaluations of the same files with the same arguments, newest first. For each model, the
    latest verdict that decides counts. If training resumes from a run, a deciding verdict on a checkpoint of that run
    comes first, then a verdict on the model to be trained. If there is none of either, the result is a verdict on
    another model, which is ceiling-only.

    At a push, no model is chosen yet, and the latest model that opens the gate counts. A failing benchmark of another
    model therefore closes nothing. If no model opens the gate, the latest verdict that decides is the result.
    """
    if trained.checkpoint_of is not None:
        resumed = [row for row in rows if is_checkpoint(row, (trained.checkpoint_of,))]
        if any(decides(row) for row in resumed):
            return _latest(resumed, trained, decides)
    if trained.name is not None:
        fitting = [row for row in rows if _same_model(row.model, trained.name)]
        if fitting:
            return _latest(fitting, trained, decides)
    others = [row for row in rows if not is_checkpoint(row, trained.runs)]
    models = dict.fromkeys((row.model or "").casefold() for row in others)
    by_model = [_latest([r for r in others if (r.model or "").casefold() == m], trained, decides) for m in models]
    opening = [row for row in by_model if row is not None and decides(row) and opens(row)]
    return min(opening, key=rows.index) if opening else _latest(others, trained, decides)


def _latest(rows: Sequence[Evidence], trained: TrainedModel, decides: Callable[[Evidence], bool]) -> Evidence | None:
    """The latest verdict that decides, or the latest verdict if none decides.

    Verdicts for groups of at most the training's size are preferred, because larger groups have more signal than
    training.
    """
    size = trained.group_size
    sized = [row for row in rows if size is None or (judged_group_size(row) or 0) <= size] or rows
    return next((row for row in sized if decides(row)), sized[0] if sized else None)


def judged_group_size(row: Evidence) -> int | None:
    """The group size that a distribution was judged for; None if the verdict does not say."""
    groups = row.data.get("usable_groups")
    size = groups.get("group_size") if isinstance(groups, Mapping) else None
    return size if isinstance(size, int) else None


def ceiling_reasons(row: Evidence, trained: TrainedModel) -> tuple[str, ...]:
    """Return why this evidence is ceiling-only, one sentence per reason, for the question to a person.

    Of a reward test, the endpoint of its judge is judged: whoever chooses it can let any reward pass.
    """
    if has_judge(row):
        return () if row.data.get(JUDGE_NAMED_BY) in _VOUCHED else (_unvouched_judge(row),)
    reasons = []
    model, host = quote(row.model or "an unknown model", 120), quote(row.endpoint_host or "an unknown host", 120)
    environment = row.environment or "the environment"
    other = trained.name is not None and not _same_model(row.model, trained.name)
    if other and not (trained.checkpoint_of and is_checkpoint(row, (trained.checkpoint_of,))):
        reasons.append(
            f"{environment} was evaluated with {model} at {host}, not with {quote(trained.name, 120)} that is to be "
            "trained: that shows a ceiling, not whether this model can learn it"
        )
    if row.platform is None and row.data.get("endpoint_named_by") not in _VOUCHED:
        reasons.append(
            f"{environment} was evaluated with {model} at {host}, an endpoint that is neither the platform's nor named "
            "by the user: nothing shows that this model answered there"
        )
    return tuple(reasons)


def is_unvouched(row: Evidence) -> bool:
    """Whether an evaluation was answered by an endpoint of which it is recorded that a call alone named it."""
    named_by = row.data.get("endpoint_named_by")
    return row.platform is None and named_by is not None and named_by not in _VOUCHED


def has_judge(row: Evidence) -> bool:
    """Whether a verdict is a reward test whose scores a judge gave."""
    return row.tool == "test_reward" and JUDGE_NAMED_BY in row.data


def _judge(row: Evidence) -> str:
    model = row.sampling.get("judge")
    return f"{quote(str(model or 'an unknown model'), 120)} at {quote(row.endpoint_host or 'an unknown host', 120)}"


def _unvouched_judge(row: Evidence) -> str:
    return (
        f"the reward of {row.environment or 'the environment'} was tested with the judge {_judge(row)}, an endpoint "
        "that is neither the platform's nor named by the user: nothing shows that this model judged there"
    )


def evaluation_summary(row: Evidence) -> str:
    """Return a sentence with model, host, number of tasks and date of an evaluation, or with the judge of a reward
    test, for the question to a person."""
    if has_judge(row):
        date = datetime.fromtimestamp(row.at, UTC).date().isoformat()
        return f"The reward of {row.environment or 'the environment'} was tested with the judge {_judge(row)}, {date}."
    tasks = row.data.get("tasks") or row.arguments.get("num_examples")
    size = f", {count(tasks, 'task')}" if isinstance(tasks, int) else ""
    chosen = f", made with {arguments_summary(row.env_args)}" if row.env_args else ""
    at = row.data.get("evaluated_at")
    date = datetime.fromtimestamp(at if isinstance(at, int | float) else row.at, UTC).date().isoformat()
    return (
        f"The evidence is the evaluation of {row.environment or 'the environment'} with "
        f"{quote(row.model or 'an unknown model', 120)} at {quote(row.endpoint_host or 'an unknown host', 120)}"
        f"{size}{chosen}{_other_sampling(row)}, {date}."
    )


def _other_sampling(row: Evidence) -> str:
    """The sampling of an evaluation in words, if the temperature is not that of training."""
    temperature, limit = row.sampling.get("temperature"), row.sampling.get("max_tokens")
    if not isinstance(temperature, int | float) or temperature == 1:
        return ""
    tokens = f" and at most {limit:,} tokens a reply" if isinstance(limit, int) else ""
    return f", sampled at temperature {temperature:g}{tokens} (training samples at 1)"


def _same_model(one: str | None, other: str) -> bool:
    return one is not None and one.casefold() == other.casefold()


def is_checkpoint(row: Evidence, runs: Iterable[str]) -> bool:
    """Whether the evaluated model is a checkpoint of one of these runs, served under the run's name."""
    model = row.model or ""
    return not {model, re.sub(r"-step-\d+$", "", model)}.isdisjoint(runs)
