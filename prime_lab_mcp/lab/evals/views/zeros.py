"""The view `zeros` of read_eval: rollouts that earned nothing, by class, with advice and a next call for each class.

`ReplyLengths` decides from the lengths of finished completions whether the token limit was high enough, and which limit
to use otherwise. The view keeps counts and a few example rows of each class, so its memory does not grow with the
number of rollouts.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.distribution.summary import was_cut_early
from prime_lab_mcp.lab.evals.plan import run_eval_arguments
from prime_lab_mcp.lab.evals.views.columns import FinishedEvaluation, ViewResult
from prime_lab_mcp.lab.evals.zeros.classify import UNRIGHT, classify_zero, form_is_paid, has_asked_form
from prime_lab_mcp.lab.evals.zeros.paid_parts import LackedParts, PaidParts, lack_of
from prime_lab_mcp.lab.evals.zeros.turns import ZEROS, Cause, Classified, Zero, longest_reply
from prime_lab_mcp.lab.rollouts.components import earned_for_answer
from prime_lab_mcp.lab.rollouts.conversation import conversation, last_reply, task_name
from prime_lab_mcp.lab.rollouts.rollout import Rollout


@dataclass(frozen=True, slots=True)
class ZeroAdvice:
    """Advice for one class of rollouts, and the tool to call next."""

    text: str
    tool: str
    arguments: tuple[str, ...] = ()
    """Names of the arguments of that call. The view fills in their values."""


_AGAIN = ("environment", "model")
_RENDERING = (
    "in `rendering` the form in which it wrote right answers, and whether they were paid; where they were not, that is "
    'the form of the prompt, and the code of the reward (read_environment with path="*") shows which one it reads'
)
"""What the field `rendering` of test_reward shows: its calibration takes the form of the prompt where none is paid."""
RUNAWAY_ADVICE = ZeroAdvice(
    "Completions that finish need a small part of the limit, and these run on to its end: read them, they may repeat "
    "themselves; a higher limit would pay for more of the same.",
    "read_eval",
    ("eval", "view", "where"),
)
"""Advice on `truncated` rollouts if the token limit is far above the length of the other completions."""
EARLY_ADVICE = ZeroAdvice(
    "The server says that it cut these off, and they are far shorter than max_tokens: another limit held, such as one "
    "of the server. A higher max_tokens changes nothing; read them.",
    "read_eval",
    ("eval", "view", "where"),
)
"""Advice on `truncated` rollouts if all of them are far below the token limit."""
ADVICE: Mapping[tuple[Zero, Cause], ZeroAdvice] = {
    ("wrong", ""): ZeroAdvice(
        "The answers are wrong and their form is not at fault: what training changes. Read some of them.",
        "read_eval",
        ("eval", "view", "where"),
    ),
    ("wrong", "gold"): ZeroAdvice(
        "The replies answer with the reference answer, and the reward does not pay them. It raises, or compares the "
        "text with the unit or LaTeX of the stored answer, or takes another part of the reply (for instance by the "
        "wrong group of a pattern), or reads a form that the prompt does not ask for. "
        f"test_reward shows what it raises, and {_RENDERING}.",
        "test_reward",
        ("environment",),
    ),
    ("wrong", "unpaid"): ZeroAdvice(
        "No reply of this evaluation was paid, so nothing tells wrong answers from right ones in a form that the "
        f"reward does not read. test_reward shows {_RENDERING}. Compare both with some of these replies.",
        "test_reward",
        ("environment",),
    ),
    ("unparsed", ""): ZeroAdvice(
        "Say the form more clearly in the prompt, with one example, or let the parser accept what is meant; "
        "test_reward shows that wrong answers still earn nothing.",
        "read_environment",
        ("environment",),
    ),
    ("unparsed", "lacks"): ZeroAdvice(
        "Read some of these replies beside the paid texts. Where the prompt asks for what they lack, show one whole "
        "reply in it, or evaluate a model that follows it; where it does not, ask for it, or let the reward read these "
        "replies.",
        "read_eval",
        ("eval", "view", "where"),
    ),
    ("unparsed", "asked"): ZeroAdvice(
        "These replies have the form that the prompt asks for, and the reward found no reply of all in form: it reads "
        f"another one. test_reward shows {_RENDERING}. Mend the prompt or the reward.",
        "test_reward",
        ("environment",),
    ),
    ("truncated", "tokens"): ZeroAdvice(
        "Cut off by the token limit, which looks like failure: raise it, here and in the training config.",
        "run_eval",
        (*_AGAIN, "max_tokens"),
    ),
    ("truncated", "shape"): ZeroAdvice(
        "These end in the open and the results do not say why: raise the limit and compare.",
        "run_eval",
        (*_AGAIN, "max_tokens"),
    ),
    ("truncated", "context"): ZeroAdvice(
        "The conversation outgrew the model's context: fewer turns, shorter tool results, or a longer context.",
        "read_environment",
        ("environment",),
    ),
    ("truncated", "turns"): ZeroAdvice(
        "Out of turns before an answer: raise the turns of the environment, or tell the model how many it has.",
        "read_environment",
        ("environment",),
    ),
    ("no_tool_call", ""): ZeroAdvice(
        "The model answers without its tools: say when to call them, try a model trained for tools, "
        "or warm up with examples.",
        "read_environment",
        ("environment",),
    ),
    ("malformed_tool_json", ""): ZeroAdvice(
        "JSON errors in the middle are the model's: let the tool's error say what was wrong, take simpler arguments, "
        "or a model that calls tools better.",
        "run_eval",
        ("environment",),
    ),
    ("malformed_tool_json", "code"): ZeroAdvice(
        "The model writes raw code where JSON belongs: show one call in the prompt, or take a model that calls tools.",
        "read_environment",
        ("environment",),
    ),
    ("malformed_tool_json", "parser"): ZeroAdvice(
        "The call stands in the text: wrong tool_call_parser. Start the server with the parser of this model "
        "(vLLM: --enable-auto-tool-choice --tool-call-parser NAME), then run again.",
        "run_eval",
        _AGAIN,
    ),
    ("double_encoded", ""): ZeroAdvice(
        "Arguments were encoded twice, by the model's chat template or by the model: check the tool_call_parser, "
        "or decode once in the tool.",
        "read_environment",
        ("environment",),
    ),
    ("unknown_tool", ""): ZeroAdvice(
        "It calls tools that do not exist: name the tools in the prompt, and answer such a call with the list.",
        "read_environment",
        ("environment",),
    ),
    ("bad_arguments", ""): ZeroAdvice(
        "Valid calls with wrong arguments: task skill, which training can change; clearer descriptions and error "
        "texts help.",
        "read_environment",
        ("environment",),
    ),
    ("tool_timeout", ""): ZeroAdvice(
        "Tools took longer than their limit: make them faster, raise their timeout, or lower concurrency.",
        "run_eval",
        (*_AGAIN, "concurrency"),
    ),
    ("empty_response", ""): ZeroAdvice(
        "The model said nothing: look at the endpoint, its chat template and the stop tokens.",
        "preflight",
        (),
    ),
    ("judge_unparsed", ""): ZeroAdvice(
        "The judge gave no verdict that the environment could read: ask for one fixed line at temperature 0, or take "
        "a stronger judge.",
        "test_reward",
        ("environment",),
    ),
    ("infrastructure", "provider"): ZeroAdvice(
        "The endpoint failed, so this is no wrong answer: lower concurrency or wait, then run again; finished "
        "rollouts are kept.",
        "preflight",
        (),
    ),
    ("infrastructure", "harness"): ZeroAdvice(
        "The harness or its sandbox failed, not the model: read the error below, mend it and run again.",
        "run_eval",
        _AGAIN,
    ),
    ("infrastructure", "environment"): ZeroAdvice(
        "Code of the environment raised: test_reward shows where.",
        "test_reward",
        ("environment",),
    ),
    ("infrastructure", "nonfinite"): ZeroAdvice(
        "The reward is NaN or infinite: test_reward shows for what.",
        "test_reward",
        ("environment",),
    ),
    ("infrastructure", "backend"): ZeroAdvice(
        "A service behind a tool did not answer: mend it and run again.",
        "run_eval",
        _AGAIN,
    ),
    ("infrastructure", "time"): ZeroAdvice(
        "The time of the rollout ran out: lower concurrency or raise the environment's timeout.",
        "run_eval",
        (*_AGAIN, "concurrency"),
    ),
}


def advice_for_zero(kind: Zero, cause: Cause) -> ZeroAdvice:
    """Return the advice for a class and cause. A cause without its own advice gets that of its class."""
    return ADVICE.get((kind, cause)) or next(a for (k, _), a in ADVICE.items() if k == kind)


def known_arguments(advice: ZeroAdvice, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the advised call, with values from `arguments`; those without a value are left out."""
    return {name: arguments[name] for name in advice.arguments if arguments.get(name) is not None}


_FINISH = 0.99
"""Share of the completions that should finish within the advised limit."""
_ROUND = 256
"""The advised limit is a multiple of this."""
_LEAST, _MOST = 1.25, 8.0
"""Least and greatest advised limit, as multiples of the present limit. The lengths do not support an estimate
beyond."""
_RUNAWAY_FACTOR = 4
"""If the limit is this many times the 99 % quantile of the finished completions, truncated completions ran away, and a
higher limit would not help."""
_ENOUGH_FINISHED = 20
"""Least number of finished completions for that conclusion."""
_UNKNOWN_MEDIAN_FACTOR = 4.0
"""Advised limit as a multiple of the present limit, if most completions were truncated and their median is unknown."""


@dataclass(slots=True)
class ReplyLengths:
    """The lengths of completions in tokens. The token limit applies to one reply, so the longest reply counts."""

    finished: Counter[int] = field(default_factory=Counter)
    """Number of rollouts by the tokens of their longest reply, for rollouts that were not truncated."""
    cut: int = 0
    """Number of truncated rollouts."""
    longest_cut: int = 0
    """Tokens of the longest reply of a truncated rollout; 0 if none is known."""
    exact: bool = True
    """False if only the sum over the replies is known for some rollouts."""

    def add(self, tokens: int, *, cut: bool, exact: bool) -> None:
        """Add one rollout. `tokens` is the length of its longest reply; `cut` says whether it was truncated."""
        if cut:
            self.cut += 1
            self.longest_cut = max(self.longest_cut, tokens)
        elif tokens > 0:
            self.finished[tokens] += 1
            self.exact &= exact

    def quantile(self, share: float) -> int | None:
        """Return the length that this share of the finished completions does not exceed. None without any."""
        total = self.finished.total()
        cumulated = 0
        for tokens in sorted(self.finished):
            cumulated += self.finished[tokens]
            if cumulated >= share * total:
                return tokens
        return None

    def early(self, cap: int | None) -> bool:
        """Whether no truncated completion came near the limit `cap`, so that another limit held."""
        return was_cut_early(self.longest_cut, cap) and self.exact

    def runaway(self, cap: int | None) -> bool:
        """Whether the truncated completions did not come to an end, because others are far below the limit `cap`."""
        longest = self.quantile(_FINISH)
        is_enough = self.finished.total() >= _ENOUGH_FINISHED and self.exact
        return bool(cap and self.cut and is_enough and longest is not None and longest * _RUNAWAY_FACTOR <= cap)

    def advised(self, cap: int | None) -> int | None:
        """Return a token limit within which 99 % of the completions should finish.

        The model is a log-normal distribution of lengths, of which only those up to the present limit `cap` are
        observed. Its two parameters follow from the median and from the share of truncated completions. None if the
        present limit is high enough, or if the truncated completions ran away.
        """
        finished, total = self.finished.total(), self.finished.total() + self.cut
        if not cap or not self.cut or self.cut <= (1 - _FINISH) * total or self.runaway(cap):
            return None
        if self.early(cap):
            return None
        share = finished / total
        median = self.quantile(0.5 / share) if share > 0.5 else None
        if median is None or not self.exact:
            factor = _UNKNOWN_MEDIAN_FACTOR if share <= 0.5 else 2.0
        else:
            spread = math.log(cap / median) / NormalDist().inv_cdf(share) if cap > median else 0.0
            factor = median * math.exp(NormalDist().inv_cdf(_FINISH) * spread) / cap
        return math.ceil(cap * min(_MOST, max(_LEAST, factor)) / _ROUND) * _ROUND

    def as_json(self, cap: int | None) -> dict[str, Any]:
        """Return the lengths and the advised token limit for the data of the view. `cap` is the present limit."""
        fields: dict[str, Any] = {
            "cap": cap,
            "cut": self.cut,
            "finished": self.finished.total(),
            "finished_p50": self.quantile(0.5),
            "finished_p95": self.quantile(0.95),
            "finished_p99": self.quantile(0.99),
            "advised_max_tokens": self.advised(cap),
        }
        if not self.exact:
            fields["lengths"] = "sums over the replies of a rollout; the layout does not tell them apart"
        return fields


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
            advice = dataclasses.replace(advice, text=_other_form_advice(unread_form, counts))
        if cause in ("lacks", "gold", "unpaid") and not unread_form and (lacking := counts.lacked.summary()):
            text = f"These replies lack what every paid reply of test_reward has: {lacking}. {advice.text}"
            advice = dataclasses.replace(advice, text=text)
        whose = "unknown" if cause == "lacks" and counts.unknown else Classified(kind, "", cause).at_fault
        row: dict[str, Any] = {"class": kind, "rollouts": number, "whose": whose}
        row |= {"cause": cause} if cause else {}
        which = {"where": "truncated" if kind == "truncated" else "zero"}
        given = known_arguments(advice, arguments | which)
        if set(_AGAIN) <= set(advice.arguments):  # the same evaluation again: same tasks, endpoint and size
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
