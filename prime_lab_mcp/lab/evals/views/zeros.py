"""The view `zeros` of read_eval: rollouts that earned nothing, by class, with advice and a next call for each class.

The view keeps counts and a few example rows of each class, so its memory does not grow with the number of rollouts.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.evals.plan import run_eval_arguments
from prime_lab_mcp.lab.evals.views.columns import FinishedEvaluation, ViewResult
from prime_lab_mcp.lab.evals.zeros.advice import (
    AGAIN,
    EARLY_ADVICE,
    RUNAWAY_ADVICE,
    advice_for_zero,
    known_arguments,
)
from prime_lab_mcp.lab.evals.zeros.classify import UNRIGHT, classify_zero, form_is_paid, has_asked_form
from prime_lab_mcp.lab.evals.zeros.paid_parts import LackedParts, PaidParts, lack_of
from prime_lab_mcp.lab.evals.zeros.reply_lengths import ReplyLengths
from prime_lab_mcp.lab.evals.zeros.turns import ZEROS, Cause, Classified, Zero, longest_reply
from prime_lab_mcp.lab.rollouts.components import earned_for_answer
from prime_lab_mcp.lab.rollouts.conversation import conversation, last_reply, task_name
from prime_lab_mcp.lab.rollouts.rollout import Rollout

ROWS = 2
"""Default number of example rows for each class."""
_MOST_ROWS = 10
"""Most rows of all classes together by default. Every class still has one."""
_TAIL = 90
_EVIDENCE = 140
_SLOWER = 8
"""Largest concurrency that is advised if tools or rollouts ran out of time."""


@dataclass(slots=True)
class _ZeroCounts:
    """The counts of the view, from one pass over the rollouts."""

    rollouts: int = 0
    kinds: Counter[tuple[Zero, Cause]] = field(default_factory=Counter)
    setup: int = 0
    """Rollouts that earned nothing because of the setup, not the model."""
    unknown: int = 0
    """Rollouts of which nothing says whether the answer is wrong or its form is not read."""
    sums: dict[Zero, tuple[float, int]] = field(default_factory=dict)
    """Sum and number of the rewards by class."""
    complete: tuple[float, int] = (0.0, 0)
    """Sum and number of the rewards of rollouts that were not truncated."""
    cut: tuple[float, int] = (0.0, 0)
    """Sum and number of the rewards of truncated rollouts."""
    rewarded_though_cut: int = 0
    form_paid: int = 0
    """Rollouts whose form was found in order."""
    asked_form: int = 0
    """Rollouts of the class `unparsed` whose reply has the form that the prompt asks for."""
    outside_asked_form: int = 0
    """Those of `outside_form` whose prompt asks for the form that is paid."""
    outside_form: int = 0
    """Rollouts that answer with the reference answer in another form than the one that the reward is known to read."""
    lacked: LackedParts = field(default_factory=lambda: LackedParts(PaidParts()))
    """The parts of paid texts that answers without reward lack."""
    lengths: ReplyLengths = field(default_factory=ReplyLengths)
    rows: dict[tuple[Zero, Cause], list[dict[str, Any]]] = field(default_factory=dict)
    """Example rows by class and cause."""

    def of(self, kind: Zero) -> int:
        return sum(n for (k, _), n in self.kinds.items() if k == kind)


def zeros_view(
    evaluated: FinishedEvaluation, *, rows: int = ROWS, paid_form: str = "", paid: PaidParts | None = None
) -> ViewResult:
    """Return the classes of rollouts that earned nothing, with up to `rows` example rows of each class.

    `paid_form` is the form of the answer that `test_reward` found paid, such as `<answer>…</answer>`; empty if unknown.
    `paid` has the parts of the right replies that it found paid.
    """
    opening = _opening(paid_form)
    cap = evaluated.spec.max_tokens
    long = _long(evaluated)
    counts = _ZeroCounts(lacked=LackedParts(_needed_parts(evaluated, paid or PaidParts())))
    for rollout in evaluated.rollouts():
        classified = classify_zero(rollout, cap=cap, weights=evaluated.spec.weights, long=long)
        if classified is not None and classified.kind == "wrong":
            classified = _lacking(counts.lacked, rollout, classified)
        _count(counts, rollout, classified)
        if classified is None:
            continue
        is_gold = (classified.kind, classified.cause) == ("wrong", "gold")
        outside = bool(is_gold and opening and opening not in rollout.completion_text)
        counts.outside_form += outside
        counts.outside_asked_form += outside and any(
            opening in m.text for m in conversation(rollout) if m.role != "assistant"
        )
        if len(shown := counts.rows.setdefault((classified.kind, classified.cause), [])) < rows:
            shown.append(_row(rollout, classified))
    if counts.asked_form and not counts.form_paid:
        # Some replies may have the asked form in part only; where no reply of all is in form, the reward reads another.
        counts.kinds["unparsed", ""] -= counts.asked_form
        counts.kinds["unparsed", "asked"] = counts.asked_form
        counts.kinds, counts.setup = +counts.kinds, counts.setup + counts.asked_form
    zeros = counts.kinds.total()
    if zeros == counts.rollouts:
        _leave_open(counts)
    unread_form = paid_form if counts.outside_form and counts.outside_form == counts.kinds["wrong", "gold"] else ""
    advice = _advice(evaluated, counts, unread_form)
    data = {
        "id": evaluated.id,
        "rollouts": counts.rollouts,
        "zeros": {kind: counts.of(kind) for kind in ZEROS},
        "zero_shares": {kind: _share(counts.of(kind), counts.rollouts) for kind in ZEROS if counts.of(kind)},
        "mean_reward_of": _means(counts),
        "whose": {
            "model": zeros - counts.setup - counts.unknown,
            "setup": counts.setup,
            **({"unknown": counts.unknown} if counts.unknown else {}),
        },
        "truncated_but_rewarded": counts.rewarded_though_cut,
        "budget": counts.lengths.as_json(cap),
        "advice": advice,
        "examples": _examples(counts, rows),
    }
    if lacking := counts.lacked.summary():
        data["lacking"] = lacking
    return ViewResult(_summary(counts, zeros, unread_form), data, next=_next(advice))


def _needed_parts(evaluated: FinishedEvaluation, paid: PaidParts) -> PaidParts:
    """Return the parts of the paid texts that all paid rollouts of the evaluation have as well."""
    if not paid.parts:
        return paid
    weights = evaluated.spec.weights
    return paid.also_of(last_reply(one) for one in _scored(evaluated.rollouts()) if earned_for_answer(one, weights))


def _lacking(lacked: LackedParts, rollout: Rollout, wrong: Classified) -> Classified:
    """Return the class of a wrong answer that may lack what the reward reads. An answer that is the reference answer
    stays in its class."""
    parts = lacked.add(last_reply(rollout))
    if not parts or wrong.cause or wrong.evidence != UNRIGHT:
        return wrong
    return Classified("unparsed", f"it lacks {lack_of(parts, lacked.paid)}", "lacks")


def _opening(form: str) -> str:
    """Return what stands before the answer in a form such as `<answer>…</answer>`; empty for the answer alone."""
    before = form.rpartition("\N{HORIZONTAL ELLIPSIS}")[0]
    return before.rstrip().rpartition("\n")[2].strip()


def _leave_open(counts: _ZeroCounts) -> None:
    """Call it unknown whose the wrong answers are: where no answer of all is paid, they may be right ones in a form
    that the reward does not read."""
    counts.unknown = counts.kinds["unparsed", "lacks"]
    if ("wrong", "") not in counts.kinds:
        return
    counts.kinds["wrong", "unpaid"] = counts.kinds.pop(("wrong", ""))
    counts.unknown += counts.kinds["wrong", "unpaid"]
    for row in counts.rows.get(("wrong", ""), ()):
        if row["why"] == UNRIGHT[:_EVIDENCE]:
            row["why"] = "an answer that was not paid, in an evaluation that paid none"


def _count(counts: _ZeroCounts, rollout: Rollout, classified: Classified | None) -> None:
    counts.rollouts += 1
    counts.form_paid += form_is_paid(rollout)
    tokens, exact = longest_reply(rollout)
    cut = rollout.truncated or (
        classified is not None and classified.kind == "truncated" and classified.cause != "turns"
    )
    if rollout.error is None:
        counts.lengths.add(tokens, cut=cut, exact=exact)
    if classified is not None:
        counts.asked_form += (classified.kind, classified.cause) == ("unparsed", "") and has_asked_form(rollout)
        counts.kinds[classified.kind, classified.cause] += 1
        counts.setup += classified.at_fault == "setup"
    if rollout.reward is None:
        return
    if cut:
        counts.cut = _add_reward(counts.cut, rollout.reward)
        counts.rewarded_though_cut += classified is None
    else:
        counts.complete = _add_reward(counts.complete, rollout.reward)
    if classified is not None:
        counts.sums[classified.kind] = _add_reward(counts.sums.get(classified.kind, (0.0, 0)), rollout.reward)


def _add_reward(so_far: tuple[float, int], reward: float) -> tuple[float, int]:
    return so_far[0] + reward, so_far[1] + 1


def _means(counts: _ZeroCounts) -> dict[str, float]:
    """Return the mean rewards of rollouts that were not truncated (`complete`), of truncated ones (`cut`), and of each
    class."""
    sums: dict[str, tuple[float, int]] = {"complete": counts.complete, "cut": counts.cut}
    for kind in ZEROS:
        sums[kind] = counts.sums.get(kind, (0.0, 0))
    return {name: round(total / number, 4) for name, (total, number) in sums.items() if number}


def _row(rollout: Rollout, classified: Classified) -> dict[str, Any]:
    row: dict[str, Any] = {**task_name(rollout), "why": classified.evidence[:_EVIDENCE]}
    if rollout.id:
        row["id"] = rollout.id[:32]
    if rollout.reward:
        row["reward"] = round(rollout.reward, 4)
    if rollout.completion_text.strip() and classified.kind != "infrastructure":
        row["tail"] = quote(rollout.completion_text[-_TAIL:], _TAIL)
    return row


def _examples(counts: _ZeroCounts, rows: int) -> dict[str, list[dict[str, Any]]]:
    """Return the example rows by class. Right answers that were not paid come first: they show what is at fault."""
    by_kind: dict[Zero, list[dict[str, Any]]] = {}
    for kind, cause in sorted(counts.rows, key=lambda entry: entry != ("wrong", "gold")):
        by_kind.setdefault(kind, []).extend(counts.rows[kind, cause])
    each = rows if rows > ROWS else max(1, min(rows, _MOST_ROWS // max(1, len(by_kind))))
    return {kind: by_kind[kind][:each] for kind in ZEROS if kind in by_kind}


def _advice(evaluated: FinishedEvaluation, counts: _ZeroCounts, unread_form: str) -> list[dict[str, Any]]:
    """Return one entry for each class and cause, most frequent first.

    `unread_form` is the form that the reward reads, if no unpaid right answer has it.
    """
    spec = evaluated.spec
    arguments = {
        "environment": spec.environment,
        "model": spec.model,
        "max_tokens": counts.lengths.advised(spec.max_tokens) or (2 * spec.max_tokens if spec.max_tokens else None),
        "eval": evaluated.id,
        "view": "rollouts",
        "concurrency": min(_SLOWER, max(1, spec.concurrency // 2)),
    }
    rows = []
    for (kind, cause), number in counts.kinds.most_common():
        advice = advice_for_zero(kind, cause)
        if (kind, cause) == ("truncated", "tokens"):
            if counts.lengths.early(spec.max_tokens):
                advice = EARLY_ADVICE
            elif counts.lengths.runaway(spec.max_tokens):
                advice = RUNAWAY_ADVICE
        if (kind, cause) == ("wrong", "gold") and unread_form:
            text = _other_form_advice(unread_form, counts)
            advice = dataclasses.replace(advice, text=text, tool="read_environment")
        if cause in ("lacks", "gold", "unpaid") and not unread_form and (lacking := counts.lacked.summary()):
            text = f"These replies lack what every paid reply of test_reward has: {lacking}. {advice.text}"
            advice = dataclasses.replace(advice, text=text)
        whose = "unknown" if cause == "lacks" and counts.unknown else Classified(kind, "", cause).at_fault
        row: dict[str, Any] = {"class": kind, "rollouts": number, "whose": whose}
        row |= {"cause": cause} if cause else {}
        which = {"where": "truncated" if kind == "truncated" else "zero"}
        given = known_arguments(advice, arguments | which)
        if set(AGAIN) <= set(advice.arguments):  # the same evaluation again: same tasks, endpoint and size
            given = {**run_eval_arguments(spec), **given}
        row |= {"advice": advice.text, "tool": advice.tool, "arguments": given}
        rows.append(row)
    return rows


def _other_form_advice(form: str, counts: _ZeroCounts) -> str:
    if counts.outside_asked_form == counts.outside_form:
        return (
            f"The replies answer with the reference answer, and none of them has the form {quote(form, 120)} that the "
            "reward reads (test_reward) and that the prompts ask for. Show a whole reply in that form in the prompt, "
            "or evaluate a model that follows it."
        )
    return (
        f"The replies answer with the reference answer, and none of them has the form that the reward reads, which is "
        f"{quote(form, 120)} (test_reward). Ask for that form in the prompt, or read the form that the prompt asks for."
    )


def _next(advice: list[dict[str, Any]]) -> tuple[Next, ...]:
    """Return the next call: for a reward that misses right answers if there are any, else for the largest class."""
    chosen = [row for row in advice if row.get("cause") == "gold"][:1] or advice[:1]
    return tuple(Next(row["tool"], f"{row['class']}: {row['advice']}", row["arguments"]) for row in chosen)


def _summary(counts: _ZeroCounts, zeros: int, unread_form: str) -> str:
    if not zeros:
        return f"All {count(counts.rollouts, 'rollout')} earned something for their answers."
    model = zeros - counts.setup - counts.unknown
    open_ones = ""
    if counts.unknown:
        why = "nothing is known of the answers" if not counts.kinds["wrong", "gold"] else "nothing is known of the rest"
        open_ones = (
            f"; no answer was paid at all, so {why}: {counts.unknown:,} may be wrong, or in a form that is not read"
        )
    if lacking := counts.lacked.summary():
        open_ones += f"; what every paid reply of test_reward has and these lack: {lacking}"
    by_model = f"{model:,} by what the model can do, " if model or not counts.unknown else ""
    limited = counts.setup - counts.kinds["wrong", "gold"] - counts.kinds["unparsed", "asked"]
    return (
        f"{zeros:,} of {count(counts.rollouts, 'rollout')} earned nothing for an answer: {by_model}{limited:,} by "
        f"limits, endpoint, server or environment{_unread(counts, unread_form)}{open_ones}{_cut_off(counts)}."
    )


def _unread(counts: _ZeroCounts, form: str) -> str:
    """Return the part of the summary about replies that give the reference answer and earned nothing. `form` is the one
    that the reward reads, if none of them has it."""
    unread, asked = counts.kinds["wrong", "gold"], counts.kinds["unparsed", "asked"]
    why = f": it reads {quote(form, 80)}, which none of them has" if form else ""
    if form and counts.outside_asked_form == counts.outside_form:
        why += ", although the prompts ask for it"
    text = f"; {unread:,} answer with the reference answer, which the reward does not pay{why}" if unread else ""
    if asked:
        text += f"; {asked:,} more are in the form that the prompt asks for, and the reward reads no form in any reply"
    return text


def _cut_off(counts: _ZeroCounts) -> str:
    """Return the part of the summary about truncated rollouts. Only those that earned nothing for an answer are
    zeros."""
    cut, zeros = counts.lengths.cut, counts.of("truncated")
    if cut <= zeros:
        return ""
    return f"; {cut:,} were cut off ({_share(cut, counts.rollouts):.0%}), and {zeros:,} of the zeros because of that"


def _share(part: int, complete: int) -> float:
    return round(part / complete, 4) if complete else 0.0


def _long(evaluated: FinishedEvaluation) -> int | None:
    """Return the length in characters that only the longest 1 % of the replies reach.

    None for layouts that store how a reply ended, because they do not need the length.
    """
    rollouts = evaluated.rollouts()
    first = next(rollouts, None)
    if first is None or not _hides_ending(first):
        return None
    lengths: Counter[int] = Counter([len(first.completion_text)])
    lengths.update(len(r.completion_text) for r in _scored(rollouts))
    remaining = lengths.total() // 100
    for length in sorted(lengths, reverse=True):
        remaining -= lengths[length]
        if remaining < 0:
            return length + 1
    return None


def _scored(rollouts: Iterator[Rollout]) -> Iterator[Rollout]:
    return (r for r in rollouts if r.error is None)


def _hides_ending(rollout: Rollout) -> bool:
    return not any(key in rollout.record for key in ("nodes", "is_truncated", "truncated", "finish_reason"))
