"""What makes scoring stored rollouts honest: the same tasks, the same answers of the environment, the same rewards.

A number that the run would not have given is worse than none, so whatever cannot be reproduced is refused.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.errors import EvalError, LabError
from prime_lab_mcp.lab.evals.conversation import Message, conversation, offered_tools
from prime_lab_mcp.lab.evals.rescore_stored import Form, Stored, told
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.observed import JUDGE_FAILED, same
from prime_lab_mcp.lab.rewards.scripts import replay
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.lab.worker import rolled
from prime_lab_mcp.lab.worker.cases import Scored
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.kept import Located

SHARE = 0.05
"""Tasks that may differ from those of the evaluation; beyond, its rollouts stand for other tasks than the present."""
SAMPLE = 64
"""Stored rollouts that are scored with the source that the evaluation ran."""
REPLAYED = 6
"""Stored conversations that are played through the present environment."""
_REPLAY_SECONDS = 40.0
_WHY = {
    "": "none",
    "prompt": "their prompts or system prompts changed",
    "data": "their data changed, which tools and turns may use",
    "ambiguous": "several present tasks ask the same",
}
AGAIN = "Run run_eval without rescore."


class RescoreError(EvalError):
    """Stored rollouts cannot be scored as a run would score them."""

    default_code = "rescore-needs-state"


def reachable(found: Iterable[Scored]) -> None:
    """Raise where a reward asked for what is not stored, or for a model."""
    for scored in found:
        parts = (scored, *scored.members)
        problems = {p for s in parts for p in s.problems}
        missing = sorted(p.partition(":")[2] for p in problems if p.startswith("unstored:"))
        if missing:
            raise RescoreError(
                f"a reward reads {quote(', '.join(missing), 120)}, which is not stored with a rollout", fix=AGAIN
            )
        judged = any(s.judges for s in parts) or problems & JUDGE_FAILED
        if judged or any(p.startswith("opened-network") for p in problems):
            raise RescoreError(
                "a reward asks a model or another host, and stored rollouts are scored without a network",
                fix=AGAIN + " The judge is asked through the same endpoint there.",
                code="rescore-needs-judge",
            )


def stopped(found: Sequence[Scored]) -> None:
    """Raise when the reward hung or ended its process so often that scoring was given up."""
    given_up = [s for s in found if "not-run" in s.problems]
    if given_up:
        why = next((s for s in found if s.broken and "not-run" not in s.problems), given_up[0])
        said = why.errors[0].message if why.errors else ", ".join(why.problems)
        raise RescoreError(
            f"the reward hung or ended its process again and again: {quote(said)}",
            fix="Mend the reward (test_reward shows the completion), then call again.",
            code="rescore-unfinished",
        )


def repeatable(first: Sequence[Scored], again: Sequence[Scored]) -> None:
    """Raise when the same stored rollouts earn something else in a second scoring."""
    pairs = [(a, b) for one, two in zip(first, again, strict=True) for a, b in zip(_each(one), _each(two), strict=True)]
    differing = [(a, b) for a, b in pairs if not same(a.reward, b.reward)]
    if differing:
        a, b = differing[0]
        raise RescoreError(
            f"{len(differing)} of {count(len(pairs), 'stored rollout')} earned something else when scored twice "
            f"({_number(a.reward)}, then {_number(b.reward)})",
            fix="Make the reward a function of the rollout (test_reward shows where it is not), or run run_eval anew.",
            code="rescore-not-reproducible",
        )


def reproduces(kept: Sequence[Stored], found: Sequence[Scored]) -> None:
    """Raise when the source that the evaluation ran does not give its stored rewards again."""
    differing = [(k, s) for k, s in zip(kept, found, strict=True) if not _as_stored(k, s)]
    if differing:
        one, scored = differing[0]
        raise RescoreError(
            f"{len(differing)} of {count(len(kept), 'stored rollout')} do not earn what they earned when the "
            f"evaluation ran, although its own source scored them ({_number(one.rollout.reward)} then, "
            f"{_number(scored.reward)} now)",
            fix="The reward depends on chance, time or state that is not stored. " + AGAIN,
            code="rescore-not-reproducible",
        )


def _as_stored(kept: Stored, scored: Scored) -> bool:
    rollout = kept.rollout
    if rollout.error is not None:
        return bool(told(scored))
    if rollout.nonfinite:
        return scored.reward is None
    parts = [
        same(score, scored.components[n].score)
        for n, (score, _) in rollout.components.items()
        if n in scored.components
    ]
    return all((same(rollout.reward, scored.reward), *parts))


def _each(scored: Scored) -> Sequence[Scored]:
    return scored.members or (scored,)


def _number(value: float | None) -> str:
    return "no reward" if value is None else f"{value:.3g}"


def moved(before: Sequence[str], now: Sequence[str]) -> tuple[float, float]:
    """The shares of the former tasks that are gone or ask otherwise, and of the present ones that are new."""
    then, present = Counter(before), Counter(now)
    gone, new = (then - present).total(), (present - then).total()
    return gone / max(1, len(before)), new / max(1, len(now))


def tasks_changed(
    excluded: int, rollouts: int, gone: float, new: float, before: int | None, now: int | None
) -> list[Finding]:
    """Findings on tasks that are not those of the evaluation any more."""
    share = excluded / max(1, rollouts)
    counts = ""
    if before is not None and now is not None and before != now:
        counts = f"; there were {before:,} tasks and are {now:,} now"
    worst = max(share, gone, new)
    if worst <= 0:
        return []
    message = (
        f"{excluded} of {count(rollouts, 'stored rollout')} belong to tasks that ask otherwise now or are gone, and "
        f"are left out; of all tasks {gone:.0%} changed or went, {new:.0%} came{counts}"
    )
    if worst > SHARE:
        fix = f"Stored rollouts stand for the present tasks only where at most {SHARE:.0%} differ. {AGAIN}"
        return [Finding("rescore-prompts-changed", "blocker", message, fix)]
    return [Finding("rescore-excluded", "info", message, "Nothing, or run run_eval for all of the present tasks.")]


def nothing_left(located: Located, kept: Mapping[str, int]) -> None:
    """Raise when no stored rollout belongs to a present task."""
    if located.unfit:
        raise RescoreError(f"{located.unfit}", fix=AGAIN)
    if not kept:
        reasons = Counter(p.why for p in located.places)
        said = _WHY[reasons.most_common(1)[0][0]] if reasons else "there is none"
        raise RescoreError(
            f"no stored rollout belongs to a present task ({said})", fix=AGAIN, code="rescore-prompts-changed"
        )


async def answers_alike(worker: Worker, form: Form, kept: Sequence[tuple[int, Stored]]) -> None:
    """Play stored conversations through the present environment: it must offer and answer what it did then.

    Scoring covers the reward; what tools, turns and set-up say is part of the rollout, and an edit of them makes
    another rollout. Raises RescoreError.
    """
    chosen = [(row, k, said) for row, k in kept if (said := form.said(k.record)) and _short(said)][:REPLAYED]
    if not chosen:
        raise _untried("no stored conversation is short and unbranched")
    plays = [
        rolled.Play(row, replay("stored", [_plain(m) for m in _messages(k, said)]).data) for row, k, said in chosen
    ]
    try:
        found = await worker.rollout(plays, seconds=_REPLAY_SECONDS)
    except LabError as error:
        raise _untried(error.message) from error
    if found.unavailable:
        raise _untried(found.unavailable)
    tried = 0
    for (_, one, said), now in zip(chosen, found.rolled, strict=False):
        if now.end in ("not-run", "slow", "cut", "endless"):
            continue
        tried += 1
        _compare(one, said, now)
    if not tried:
        raise _untried("none of those that were played came to an end")


def _compare(one: Stored, said: Sequence[Mapping[str, Any]], now: rolled.Rolled) -> None:
    then_offered = {n: dict(s) for n, s in offered_tools(one.rollout).items()}
    now_offered = {t.name: dict(t.parameters) for t in now.tools}
    if set(then_offered) != set(now_offered) or any(
        _shape(then_offered[n]) != _shape(now_offered[n]) for n in then_offered
    ):
        raise _other("its tools are not those that the model was offered then")
    then = [m.text for m in _messages(one, said) if m.role != "assistant"]
    later = [str(m.get("content") or "") for m in now.messages if m.get("role") != "assistant"]
    if one.rollout.truncated:
        later = later[: len(then)]
    if list(map(_told, then)) != list(map(_told, later)):
        pairs = enumerate(zip(then, later, strict=False))
        at = next((n for n, (a, b) in pairs if _told(a) != _told(b)), min(len(then), len(later)))
        a, b = (quote(side[at], 80) if at < len(side) else "nothing" for side in (then, later))
        raise _other(f"a stored conversation goes another way now: it answered {a} then and {b} now")


def _shape(schema: Mapping[str, Any]) -> Any:
    fields = schema.get("properties")
    return sorted(fields) if isinstance(fields, Mapping) else [], sorted(schema.get("required") or ())


def _short(said: Sequence[Any]) -> bool:
    return bool(sum(m.get("role") == "assistant" for m in said) <= rolled.TURNS)


def _messages(one: Stored, said: Sequence[Mapping[str, Any]]) -> list[Message]:
    return conversation(dataclasses.replace(one.rollout, record={"completion": list(said)}))


def _plain(message: Message) -> dict[str, Any]:
    calls = [{"name": c.name, "arguments": c.arguments} for c in message.calls]
    return {"role": message.role, "content": message.text, "tool_calls": calls}


def _told(text: str) -> str:
    """Without white space: parts of a message are joined in more than one way. A worker cuts texts at 4,000."""
    return "".join(text[:3_900].split())


def _untried(why: str) -> RescoreError:
    return RescoreError(
        "whether its tools and turns still answer as they did could not be tried here: " + quote(why), fix=AGAIN
    )


def _other(why: str) -> RescoreError:
    return RescoreError(
        why,
        fix="Undo the change of tools or turns, or run run_eval without rescore.",
        code="rescore-environment-changed",
    )
