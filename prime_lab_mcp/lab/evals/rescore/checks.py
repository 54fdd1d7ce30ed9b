"""The conditions for scoring stored rollouts again, and the count of rewards that changed.

New scores of stored rollouts replace a new evaluation only if that evaluation would give the same scores. So the tasks
must be the same, tools and turns must answer as they did, the former source must reproduce the stored rewards, and a
second scoring must agree with the first. Each `require_...` function raises RescoreError if its condition does not
hold.
"""

from __future__ import annotations

import dataclasses
import heapq
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.errors import EvalError, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote, rounded
from prime_lab_mcp.lab.evals.rescore.stored import RecordFormat, StoredRecord, missing_reward_error
from prime_lab_mcp.lab.rewards.scripts import replay_script
from prime_lab_mcp.lab.rewards.thresholds import same_reward
from prime_lab_mcp.lab.rollouts.conversation import Message, conversation, offered_descriptions, offered_tools
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.lab.worker.faults import JUDGE_FAILED, ProblemCode
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import TURNS, LocatedTasks, RequestedRollout, RolloutResult, Scored

_EXAMPLES = 3
"""Number of rollouts that a report shows for each kind of change; those that changed most are shown."""
_TAIL = 200


@dataclass
class RewardChanges:
    """Counts the rollouts whose reward changed, and collects those that changed most."""

    origin: str
    """Id of the evaluation whose rollouts were scored again."""
    up: int = 0
    down: int = 0
    unchanged: int = 0
    errors: int = 0
    """Rollouts for which the present reward raises or is no number."""
    recovered: int = 0
    """Rollouts that have a reward now, and had none because the former reward raised or was no number."""
    failed_before: int = 0
    """Rollouts that never finished because of the endpoint or the harness. They stay as they are."""
    excluded: int = 0
    """Rollouts whose task no longer exists."""
    before: float = 0.0
    """Sum of the former rewards of the rollouts that have a reward before and after."""
    after: float = 0.0
    """Sum of the present rewards of the same rollouts."""
    examples: dict[str, list[tuple[float, int, dict[str, Any]]]] = field(default_factory=dict)
    """By kind of change, a heap of (size of the change, minus the number of the rollout, row of the report)."""
    _number: int = 0

    def add(self, old: Rollout, new: Rollout) -> None:
        """Count one rollout, given as it was stored and with its new scores."""
        if new.reward is None:
            self.errors += 1
            self._show("errors", 1.0, old, new)
        elif old.reward is None:
            self.recovered += 1
            self._show("recovered", new.reward, old, new)
        else:
            self.before += old.reward
            self.after += new.reward
            if same_reward(old.reward, new.reward):
                self.unchanged += 1
            else:
                rises = new.reward > old.reward
                self.up, self.down = self.up + rises, self.down + (not rises)
                self._show("up" if rises else "down", abs(new.reward - old.reward), old, new)

    def _show(self, kind: str, weight: float, old: Rollout, new: Rollout) -> None:
        self._number += 1
        examples = self.examples.setdefault(kind, [])
        rank = (weight, -self._number)
        if len(examples) < _EXAMPLES:
            heapq.heappush(examples, (*rank, _example(old, new)))
        elif rank > examples[0][:2]:
            heapq.heapreplace(examples, (*rank, _example(old, new)))

    @property
    def compared(self) -> int:
        """Number of rollouts that have a reward before and after."""
        return self.up + self.down + self.unchanged

    def as_json(self) -> dict[str, Any]:
        """Return the part `rescored` of a report's data."""
        fields: dict[str, Any] = {
            "from": self.origin,
            "changed": self.up + self.down,
            "up": self.up,
            "down": self.down,
            "unchanged": self.unchanged,
            "errors": self.errors,
            "excluded": self.excluded,
            "mean_before": _mean(self.before, self.compared),
            "mean_after": _mean(self.after, self.compared),
            "examples": [
                row
                for kind in ("up", "down", "recovered", "errors")
                for _, _, row in sorted(self.examples.get(kind, []), reverse=True, key=lambda e: e[:2])
            ],
        }
        return fields | {n: v for n in ("recovered", "failed_before") if (v := getattr(self, n))}


def change_summary(rescored: Mapping[str, Any]) -> str:
    """Return one sentence on how many rewards rose, fell and stayed. `rescored` is the value of
    RewardChanges.as_json."""
    parts = [f"{rescored['up']} earn more", f"{rescored['down']} less", f"{rescored['unchanged']} the same"]
    if rescored.get("recovered"):
        parts.append(f"{rescored['recovered']} have a reward that had none")
    if rescored["errors"]:
        parts.append(f"on {rescored['errors']} the reward fails")
    if rescored["excluded"]:
        parts.append(f"{rescored['excluded']} are left out")
    means = ""
    if rescored["mean_before"] is not None:
        means = f"; mean reward {rescored['mean_before']:.3f} before, {rescored['mean_after']:.3f} now"
    total = sum(rescored[n] for n in ("changed", "unchanged", "errors", "excluded")) + rescored.get("recovered", 0)
    return f"Of {count(total, 'stored rollout')} of {rescored['from']}, {', '.join(parts)}{means}."


def _mean(total: float, number: int) -> float | None:
    return round(total / number, 4) if number else None


def _example(old: Rollout, new: Rollout) -> dict[str, Any]:
    """Return the row of a report about one rollout. Component names and texts are cut, because they are not trusted."""
    names = list(dict.fromkeys((*old.components, *new.components)))[:8]
    parts = {n[:80]: [_score(old, n), _score(new, n)] for n in names if _score(old, n) != _score(new, n)}
    row: dict[str, Any] = {
        "task": new.task[:80],
        "before": rounded(old.reward),
        "after": rounded(new.reward),
        "components": parts,
        "reply": quote(new.completion_text[-_TAIL:], _TAIL),
    }
    return row | ({"error": quote(new.error, 200)} if new.error else {})


def _score(rollout: Rollout, name: str) -> float | None:
    return rounded(rollout.components[name][0]) if name in rollout.components else None


SHARE = 0.05
"""Highest share of tasks that may differ. Beyond it, the stored rollouts do not represent the present tasks."""
SAMPLE = 64
"""Number of stored rollouts that are scored to compare with the stored rewards."""
REPLAYED_ROLLOUTS = 6
"""Number of stored conversations that are replayed through the present environment."""
_REPLAY_SECONDS = 40.0
_DESCRIPTION = 1_000
"""Characters of a tool's description that the worker reports."""
_READ = ("type", "enum", "const", "description")
"""What a model reads of a parameter. Titles and defaults are written in different ways."""
_COMPARED = 99_000
"""Most characters of a message that is compared. The worker cuts whole messages at 100,000."""
_REASONS = {
    "": "none",
    "prompt": "their prompts or system prompts changed",
    "data": "their data changed, which tools and turns may use",
    "ambiguous": "several present tasks ask the same",
}
REPEATED_ROLLOUTS = Fix("Run ", NamedCall("run_eval").without("rescore"), ".")


class RescoreError(EvalError):
    """Scores of the stored rollouts could differ from those of a new evaluation, so none are given."""

    default_code: Code = "rescore-needs-state"


def require_stored_inputs(scores: Iterable[Scored]) -> None:
    """Raise RescoreError if a reward used data that is not stored, a model, or the network."""
    for scored in scores:
        parts = (scored, *scored.members)
        missing = sorted({detail for s in parts for detail in s.details(ProblemCode.UNSTORED)})
        if missing:
            raise RescoreError(
                f"a reward reads {quote(', '.join(missing), 120)}, which is not stored with a rollout",
                fix=REPEATED_ROLLOUTS,
            )
        if any(s.judges or s.has(ProblemCode.OPENED_NETWORK, *JUDGE_FAILED) for s in parts):
            raise RescoreError(
                "a reward asks a model or another host, and stored rollouts are scored without a network",
                fix=REPEATED_ROLLOUTS + " The judge is asked through the same endpoint there.",
                code="rescore-needs-judge",
            )


def require_scoring_finished(scores: Sequence[Scored]) -> None:
    """Raise RescoreError if the reward hung or ended its process so often that the worker stopped scoring."""
    unscored = [s for s in scores if s.has(ProblemCode.NOT_RUN)]
    if unscored:
        cause = next((s for s in scores if s.broken and not s.has(ProblemCode.NOT_RUN)), unscored[0])
        message = cause.errors[0].message if cause.errors else ", ".join(map(str, cause.problems))
        raise RescoreError(
            f"the reward hung or ended its process again and again: {quote(message)}",
            fix=Fix("Mend the reward (", NamedCall("test_reward"), " shows the completion), then call again."),
            code="rescore-unfinished",
        )


def require_repeatable(first: Sequence[Scored], again: Sequence[Scored]) -> None:
    """Raise RescoreError if two scorings of the same stored rollouts differ."""
    pairs = [
        (a, b) for one, two in zip(first, again, strict=True) for a, b in zip(_members(one), _members(two), strict=True)
    ]
    differing = [(a, b) for a, b in pairs if not same_reward(a.reward, b.reward)]
    if differing:
        a, b = differing[0]
        raise RescoreError(
            f"{len(differing)} of {count(len(pairs), 'stored rollout')} earned something else when scored twice "
            f"({_number(a.reward)}, then {_number(b.reward)})",
            fix=Fix(
                "Make the reward a function of the rollout (",
                NamedCall("test_reward"),
                " shows where it is not), or run ",
                NamedCall("run_eval"),
                " anew.",
            ),
            code="rescore-not-reproducible",
        )


def require_reproduced_rewards(stored: Sequence[StoredRecord], scores: Sequence[Scored]) -> None:
    """Raise RescoreError if the source that the evaluation ran does not reproduce its stored rewards."""
    differing = [(k, s) for k, s in zip(stored, scores, strict=True) if not _reproduces(k, s)]
    if differing:
        record, scored = differing[0]
        raise RescoreError(
            f"{len(differing)} of {count(len(stored), 'stored rollout')} do not earn what they earned when the "
            f"evaluation ran, although its own source scored them ({_number(record.rollout.reward)} then, "
            f"{_number(scored.reward)} now)",
            fix="The reward depends on chance, time or state that is not stored. " + REPEATED_ROLLOUTS,
            code="rescore-not-reproducible",
        )


def _reproduces(stored: StoredRecord, scored: Scored) -> bool:
    rollout = stored.rollout
    if rollout.error is not None:
        return bool(missing_reward_error(scored))
    if rollout.nonfinite:
        return scored.reward is None
    parts = [
        same_reward(score, scored.components[n].score)
        for n, (score, _) in rollout.components.items()
        if n in scored.components
    ]
    return all((same_reward(rollout.reward, scored.reward), *parts))


def _members(scored: Scored) -> Sequence[Scored]:
    return scored.members or (scored,)


def _number(value: float | None) -> str:
    return "no reward" if value is None else f"{value:.3g}"


def changed_task_shares(before: Sequence[str], present_prompts: Sequence[str]) -> tuple[float, float]:
    """Return the share of former tasks that no longer exist, and the share of present tasks that are new.

    Tasks are compared by their prompts. A changed task counts in both shares.
    """
    former, present = Counter(before), Counter(present_prompts)
    removed, new = (former - present).total(), (present - former).total()
    return removed / max(1, len(before)), new / max(1, len(present_prompts))


def changed_task_findings(
    excluded: int, rollouts: int, removed: float, new: float, before: int | None, now: int | None
) -> list[Finding]:
    """Return the finding on rollouts whose tasks changed: a blocker if more than `SHARE` of them did.

    `excluded` of `rollouts` have no present task. `removed` and `new` are the values of `changed_task_shares`, `before`
    and `now` the numbers of tasks.
    """
    share = excluded / max(1, rollouts)
    counts = ""
    if before is not None and now is not None and before != now:
        counts = f"; there were {before:,} tasks and are {now:,} now"
    worst = max(share, removed, new)
    if worst <= 0:
        return []
    message = (
        f"{excluded} of {count(rollouts, 'stored rollout')} belong to tasks that ask otherwise now or are gone, and "
        f"are left out; of all tasks {removed:.0%} changed or went, {new:.0%} came{counts}"
    )
    if worst > SHARE:
        fix = f"Stored rollouts stand for the present tasks only where at most {SHARE:.0%} differ. {REPEATED_ROLLOUTS}"
        return [Finding("rescore-prompts-changed", "blocker", message, fix)]
    return [Finding("rescore-excluded", "info", message, "Nothing, or run run_eval for all of the present tasks.")]


def require_some_tasks(located: LocatedTasks, rollouts_by_task: Mapping[str, int]) -> None:
    """Raise RescoreError if no stored rollout belongs to a present task."""
    if located.unfit:
        raise RescoreError(f"{located.unfit}", fix=REPEATED_ROLLOUTS)
    if not rollouts_by_task:
        reasons = Counter(p.why for p in located.places)
        reason = _REASONS[reasons.most_common(1)[0][0]] if reasons else "there is none"
        raise RescoreError(
            f"no stored rollout belongs to a present task ({reason})",
            fix=REPEATED_ROLLOUTS,
            code="rescore-prompts-changed",
        )


async def require_unchanged_environment(
    worker: Worker, form: RecordFormat, rollouts: Sequence[tuple[int, StoredRecord]]
) -> None:
    """Raise RescoreError unless the present tools and turns give the same results as in stored conversations.

    Up to `REPLAYED_ROLLOUTS` stored conversations are replayed through the present environment. The results of tools
    and turns are part of a rollout, so the model might reply otherwise if they changed.
    """
    sampled = [(stored, play) for row, stored in rollouts if (play := stored_replay(row, stored, form)) is not None][
        :REPLAYED_ROLLOUTS
    ]
    if not sampled:
        raise _untried("no stored conversation is short and unbranched")
    try:
        replay = await worker.rollout([play for _, play in sampled], seconds=_REPLAY_SECONDS)
    except LabError as error:
        raise _untried(error.message) from error
    if replay.unavailable:
        raise _untried(replay.unavailable)
    compared = 0
    for (stored, _), replayed in zip(sampled, replay.results, strict=False):
        if replayed.end in ("not-run", "slow", "cut", "endless"):
            continue
        compared += 1
        _require_same_conversation(stored, form.reply_messages(stored.record) or (), replayed)
    if not compared:
        raise _untried("none of those that were played came to an end")


def stored_replay(row: int, stored: StoredRecord, form: RecordFormat) -> RequestedRollout | None:
    """Return the rollout in which a model repeats its replies of a stored conversation; None if that is long or
    branches."""
    replies = form.reply_messages(stored.record)
    if not replies or not _is_short(replies):
        return None
    script = replay_script("stored", [_as_dict(m) for m in _messages(stored, replies)])
    return RequestedRollout(row, {**script.data, "whole": True})


def _require_same_conversation(
    stored: StoredRecord, replies: Sequence[Mapping[str, Any]], replayed: RolloutResult
) -> None:
    descriptions = offered_descriptions(stored.rollout)
    former_tools = {n: _offered(descriptions.get(n, ""), s) for n, s in offered_tools(stored.rollout).items()}
    present_tools = {t.name: _offered(t.description, t.parameters) for t in replayed.tools}
    if former_tools != present_tools:
        raise _changed_environment("its tools are not those that the model was offered then")
    former = [m.text for m in _messages(stored, replies) if m.role != "assistant"]
    present = [str(m.get("content") or "") for m in replayed.messages if m.get("role") != "assistant"]
    if stored.rollout.truncated:
        present = present[: len(former)]
    if any(len(text) > _COMPARED for text in former):
        raise _untried(f"a stored message of a tool or user has more than {_COMPARED:,} characters")
    if list(map(_comparable, former)) != list(map(_comparable, present)):
        pairs = enumerate(zip(former, present, strict=False))
        at = next((n for n, (a, b) in pairs if _comparable(a) != _comparable(b)), min(len(former), len(present)))
        a, b = (quote(side[at], 80) if at < len(side) else "nothing" for side in (former, present))
        raise _changed_environment(f"a stored conversation goes another way now: it answered {a} then and {b} now")


def _offered(description: str, schema: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a model reads of a tool: the description, as far as the worker tells it, and each parameter."""
    fields = schema.get("properties")
    parameters = {
        str(name): tuple((key, json.dumps(field[key], sort_keys=True, default=str)) for key in _READ if key in field)
        for name, field in (fields.items() if isinstance(fields, Mapping) else ())
        if isinstance(field, Mapping)
    }
    return _comparable(description[:_DESCRIPTION]), parameters, tuple(sorted(schema.get("required") or ()))


def _is_short(messages: Sequence[Any]) -> bool:
    return bool(sum(m.get("role") == "assistant" for m in messages) <= TURNS)


def _messages(stored: StoredRecord, replies: Sequence[Mapping[str, Any]]) -> list[Message]:
    return conversation(dataclasses.replace(stored.rollout, record={"completion": list(replies)}))


def _as_dict(message: Message) -> dict[str, Any]:
    calls = [{"name": c.name, "arguments": c.arguments} for c in message.calls]
    return {"role": message.role, "content": message.text, "tool_calls": calls}


def _comparable(text: str) -> str:
    """Return a text without white space, because the parts of a message may be joined in different ways."""
    return "".join(text.split())


def _untried(why: str) -> RescoreError:
    return RescoreError(
        "whether its tools and turns still answer as they did could not be tried here: " + quote(why),
        fix=REPEATED_ROLLOUTS,
    )


def _changed_environment(why: str) -> RescoreError:
    return RescoreError(
        why,
        fix=Fix("Undo the change of tools or turns, or run ", NamedCall("run_eval").without("rescore"), "."),
        code="rescore-environment-changed",
    )
