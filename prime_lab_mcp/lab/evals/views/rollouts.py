"""The view `rollouts` of read_eval: rollouts page by page, with the most suspicious ones first.

A rollout is suspicious if its reward and its reply do not seem to match. Other rollouts follow by reward, then by
length. A row shows an excerpt of the reply. If a filter selects only one or two rollouts, the view shows their whole
conversations with all tool calls.
"""

from __future__ import annotations

import difflib
import heapq
import json
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.fix import Fix, SameCall
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.text import count, quote, rounded
from prime_lab_mcp.lab.evals.views.columns import (
    FAILED_ROLLOUT,
    TRUNCATED_ROLLOUT,
    UNCALLED_ROLLOUT,
    ZERO_ROLLOUT,
    Columns,
    FinishedEvaluation,
    ViewResult,
)
from prime_lab_mcp.lab.evals.views.fields import FILTER_WORDS, FieldNames, RolloutFilter, parse_filter
from prime_lab_mcp.lab.rollouts.conversation import (
    GoldMention,
    Message,
    conversation,
    gold,
    gold_mention,
    is_distinctive,
    searched_gold,
    task_name,
)
from prime_lab_mcp.lab.rollouts.rollout import Rollout

GOLD_ABSENT, GOLD_UNREWARDED, TRUNCATED_REWARDED, SHORT_REWARDED, UNCALLED_REWARDED = 1, 2, 4, 8, 16
REASONS = {
    UNCALLED_REWARDED: "rewarded without a call of the offered tools",
    GOLD_ABSENT: "rewarded, and the gold answer is not in the reply",
    GOLD_UNREWARDED: "earned nothing, and the gold answer is in the reply",
    TRUNCATED_REWARDED: "cut off, and rewarded",
    SHORT_REWARDED: "one of the shortest of those rewarded, at most half as long as is usual",
}
"""The text of each reason for suspicion, by its bit. The gravest reason is first."""
_SHORTEST = 10
"""Most rollouts that can be suspicious because they are short."""
_ENOUGH_WINNERS = 8
"""Least number of rewarded rollouts for which lengths are compared."""


@dataclass(slots=True)
class Suspicions:
    """Finds the reasons to suspect a rollout. Rollouts are numbered by their position in the results file."""

    columns: Columns
    mentions: array[int] = field(default_factory=lambda: array("B"))
    """The GoldMention of each rollout."""

    def add(self, rollout: Rollout) -> None:
        """Add the next rollout of the file."""
        self.columns.add(rollout)
        flags = self.columns.flags[-1]
        self.mentions.append(
            GoldMention.UNKNOWN if flags & FAILED_ROLLOUT else _mention(rollout, zero=bool(flags & ZERO_ROLLOUT))
        )

    def rewarded(self, index: int, best: float) -> bool:
        """Whether a rollout earned at least half of the attainable reward `best`, and not only for its form."""
        return self.columns.passed(index, best)

    def reasons(self) -> array[int]:
        """Return the reasons to suspect each rollout, as sums of the bits of REASONS."""
        best, columns = self.columns.best, self.columns
        reasons = array("B", bytes(len(columns)))
        winners = [i for i in range(len(columns)) if self.rewarded(i, best)]
        for index in winners:
            reasons[index] |= UNCALLED_REWARDED * bool(columns.flags[index] & UNCALLED_ROLLOUT)
            reasons[index] |= GOLD_ABSENT * (self.mentions[index] == GoldMention.ABSENT)
            reasons[index] |= TRUNCATED_REWARDED * bool(columns.flags[index] & TRUNCATED_ROLLOUT)
        for index in self._shortest(winners):
            reasons[index] |= SHORT_REWARDED
        for index, flags in enumerate(columns.flags):
            if flags & ZERO_ROLLOUT and self.mentions[index] >= GoldMention.MENTIONED:
                reasons[index] |= GOLD_UNREWARDED
        return reasons

    def _shortest(self, winners: list[int]) -> list[int]:
        """Return the shortest of the rewarded rollouts `winners`, if they are at most half as long as the median."""
        length = self.columns.length
        lengths = sorted((length[i], i) for i in winners if length[i] > 0)
        if len(lengths) < _ENOUGH_WINNERS:
            return []
        median = lengths[len(lengths) // 2][0]
        return [i for tokens, i in lengths[:_SHORTEST] if 2 * tokens <= median]


def reason_names(reasons: int) -> list[str]:
    """Return the texts of the reasons whose bits are set."""
    return [text for bit, text in REASONS.items() if reasons & bit]


def gravest_reason(reasons: int) -> int:
    """Return the rank of the gravest reason: 0 is the gravest, and the number of reasons means that there is none."""
    return next((rank for rank, bit in enumerate(REASONS) if reasons & bit), len(REASONS))


def _mention(rollout: Rollout, *, zero: bool) -> GoldMention:
    reference = searched_gold(gold(rollout))
    mention = gold_mention(reference, rollout.completion_text)
    if mention is GoldMention.MENTIONED and zero and not is_distinctive(reference):
        return GoldMention.ABSENT
    if mention is GoldMention.ABSENT and not zero:
        # The answer may be in the arguments of a tool call.
        return (
            GoldMention.MENTIONED
            if any(gold_mention(reference, text) > GoldMention.ABSENT for text in _call_arguments(rollout))
            else mention
        )
    return mention


def _call_arguments(rollout: Rollout) -> Iterator[str]:
    return (call.arguments for message in conversation(rollout) for call in message.calls)


EXCERPT = 500
"""Characters of a reply in a row without messages."""
MOST_CONVERSATION_CHARACTERS = 14_000
"""Most characters of all conversations in one result, as JSON. The whole result may have 20,000."""
_LEAST = 60
"""Characters to which a text of a conversation is cut at most."""
_CALLS = 40
"""Most tool calls shown for a message, and most messages shown of a conversation whose texts are all cut."""


def rollout_row(rollout: Rollout, why: Sequence[str], excerpt: int = EXCERPT) -> dict[str, Any]:
    """Return the row of one rollout with the beginning and the end of its reply. `why` are the reasons to suspect
    it."""
    row = _head(rollout, why) | {"completion": both_ends(rollout.completion_text, excerpt)}
    if rollout.error is not None:
        row["error"] = quote(rollout.error)
    return row


def conversation_rows(rollouts: Sequence[tuple[Rollout, Sequence[str]]]) -> list[dict[str, Any]]:
    """Return the rows of rollouts with all messages.

    Texts are cut to an equal length until all rows fit into MOST_CONVERSATION_CHARACTERS.
    """
    limit = MOST_CONVERSATION_CHARACTERS
    while True:
        rows = [_row_with_messages(rollout, why, limit) for rollout, why in rollouts]
        size = len(json.dumps(rows, ensure_ascii=False))
        if size <= MOST_CONVERSATION_CHARACTERS or limit <= _LEAST:
            return rows
        limit = max(_LEAST, min(limit * 3 // 4, limit * MOST_CONVERSATION_CHARACTERS // size + 1))


def both_ends(text: str, limit: int) -> str:
    """Return a text in quotes. The middle of a text with more than `limit` characters is left out."""
    if len(text) <= limit:
        return quote(text, limit)
    omitted = len(text) - limit // 2 * 2
    return quote(f"{text[: limit // 2]} …({omitted} characters)… {text[-(limit // 2) :]}", limit + 60)


def _head(rollout: Rollout, why: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": rollout.id,
        **task_name(rollout),
        "reward": rounded(rollout.reward),
        "components": {name[:60]: rounded(score) for name, (score, _) in list(rollout.components.items())[:12]},
        "completion_tokens": rollout.completion_tokens,
    }
    if why:
        row["why"] = list(why)
    if rollout.truncated:
        row["truncated"] = True
    reference = gold(rollout)
    if reference is not None:
        row["gold"] = quote(reference, 120)
    return row


def _row_with_messages(rollout: Rollout, why: Sequence[str], limit: int) -> dict[str, Any]:
    row = _head(rollout, why)
    row["metrics"] = {name[:60]: rounded(value) for name, value in list(rollout.metrics.items())[:20]}
    row["stop"] = quote(rollout.stop or "", 60)
    if rollout.error is not None:
        row["error"] = both_ends(rollout.error, limit)
    messages = conversation(rollout)
    row["messages"] = [_message(m, limit) for m in _first_and_last(messages, limit)]
    if len(row["messages"]) < len(messages):
        row["messages_left_out"] = len(messages) - len(row["messages"])
    return row


def _first_and_last(messages: Sequence[Message], limit: int) -> Sequence[Message]:
    """Return all messages, or only the first and last if the texts are cut to `_LEAST` and there are too many."""
    if limit > _LEAST or len(messages) <= _CALLS:
        return messages
    return [*messages[: _CALLS // 2], *messages[-(_CALLS // 2) :]]


def _message(message: Message, limit: int) -> dict[str, Any]:
    row: dict[str, Any] = {"role": quote(message.role, 20).strip('"')}
    if message.reasoning:
        row["reasoning"] = both_ends(message.reasoning, limit)
    if message.text or not message.calls:
        row["text"] = both_ends(message.text, limit)
    if message.calls:
        calls = message.calls[:_CALLS]
        row["calls"] = [{"name": quote(c.name, 80), "arguments": both_ends(c.arguments, limit)} for c in calls]
    return row


PAGE = 10
"""Rollouts on one page."""
_FEW = 2
"""Most rollouts that are shown with their whole conversations."""


def rollouts_view(evaluated: FinishedEvaluation, where: str | None = None, page: int = 1) -> ViewResult:
    """Return one page of the rollouts that the filter `where` selects.

    The results are read twice: first to rank the rollouts, then to read those on the page. Raises EvalError
    (`filter-unreadable`, `field-unknown`).
    """
    reason = next((bit for bit, text in REASONS.items() if where is not None and where.strip() == text), None)
    parsed_filter = parse_filter(where if reason is None else "suspicious")
    suspicions = Suspicions(Columns(evaluated.spec.weights))
    fits, names = array("B"), FieldNames(parsed_filter.fields)
    for rollout in evaluated.rollouts():
        suspicions.add(rollout)
        names.add(rollout)
        fits.append(parsed_filter.fits(rollout))
    names.require_existing("where", evaluated.id)
    reasons = suspicions.reasons()
    matching = [
        i
        for i, fit in enumerate(fits)
        if fit and _matches_words(parsed_filter, suspicions, reasons, i) and (reason is None or reasons[i] & reason)
    ]
    if parsed_filter.exact and not matching:
        raise _no_such_rollout(evaluated, where or "")
    pages = max(1, -(-len(matching) // PAGE))
    page = min(page, pages)
    order = heapq.nsmallest(page * PAGE, matching, key=lambda i: _rank(suspicions.columns, reasons, i))
    page_rollouts = list(_fetch(evaluated, order[(page - 1) * PAGE :], reasons))
    with_messages = bool(page_rollouts) and (len(matching) == 1 or (len(matching) <= _FEW and parsed_filter.exact))
    tally = Counter(text for i in matching for text in reason_names(reasons[i]))
    data: dict[str, Any] = {
        "id": evaluated.id,
        "where": where or "all",
        "matching": len(matching),
        "of": len(suspicions.columns),
        "page": page,
        "pages": pages,
        "suspicious": {text: tally[text] for text in REASONS.values() if tally[text]},
        "rollouts": conversation_rows(page_rollouts)
        if with_messages
        else [rollout_row(r, why) for r, why in page_rollouts],
    }
    return ViewResult(
        _sentence(data, with_messages=with_messages),
        data,
        _findings(suspicions, reasons),
        _next(evaluated, data, page_rollouts),
    )


def _no_such_rollout(evaluated: FinishedEvaluation, where: str) -> EvalError:
    near = next(iter(difflib.get_close_matches(where.lower(), FILTER_WORDS, 1)), "all")
    return EvalError(
        f"no rollout and no task of evaluation {evaluated.id} is called {quote(where, 80)}",
        fix=Fix(
            "Pass ",
            SameCall(where=near),
            f", another of {', '.join(FILTER_WORDS)}, or a task or id that the view shows.",
        ),
        code="filter-unreadable",
        next=(Next("read_eval", "rollouts with their ids", {"eval": evaluated.id, "view": "rollouts", "where": near}),),
    )


def _matches_words(parsed_filter: RolloutFilter, suspicions: Suspicions, reasons: Sequence[int], index: int) -> bool:
    flags = suspicions.columns.flags[index]
    matches = {
        "all": True,
        "zero": bool(flags & ZERO_ROLLOUT),
        "rewarded": not flags & (ZERO_ROLLOUT | FAILED_ROLLOUT),
        "error": bool(flags & FAILED_ROLLOUT),
        "truncated": bool(flags & TRUNCATED_ROLLOUT),
        "suspicious": reasons[index] != 0,
    }
    return all(matches[word] for word in parsed_filter.words)


def _rank(columns: Columns, reasons: Sequence[int], index: int) -> tuple[int, bool, float, int, int]:
    failed = bool(columns.flags[index] & FAILED_ROLLOUT)
    reward = 0.0 if failed else columns.reward[index]
    return (gravest_reason(reasons[index]), failed, -reward, columns.length[index], index)


def _fetch(
    evaluated: FinishedEvaluation, positions: Sequence[int], reasons: Sequence[int]
) -> Iterator[tuple[Rollout, list[str]]]:
    """Yield the rollouts at these positions of the file with the texts of their reasons, in the order of
    `positions`."""
    missing, rollouts = set(positions), {}
    for position, rollout in enumerate(evaluated.rollouts()):
        if position in missing:
            rollouts[position] = rollout
            missing.discard(position)
            if not missing:
                break
    yield from ((rollouts[p], reason_names(reasons[p])) for p in positions if p in rollouts)


def _sentence(data: Mapping[str, Any], *, with_messages: bool) -> str:
    if with_messages:
        return f"{count(data['matching'], 'rollout')} with every message."
    if not data["matching"]:
        return f"None of {count(data['of'], 'rollout')} fits where={quote(data['where'], 120)}."
    suspicions = ", ".join(f"{number:,} {text}" for text, number in data["suspicious"].items())
    selection = f"{data['matching']:,} of {count(data['of'], 'rollout')}, most suspicious first"
    return (
        f"{selection}: {suspicions}."
        if suspicions
        else f"{selection}; none of them is suspicious, so highest reward and shortest first."
    )


def _findings(suspicions: Suspicions, reasons: Sequence[int]) -> tuple[Finding, ...]:
    best, columns = suspicions.columns.best, suspicions.columns
    comparable = [i for i, s in enumerate(suspicions.mentions) if s != GoldMention.UNKNOWN]
    winners = [i for i in comparable if suspicions.rewarded(i, best)]
    zeros = [i for i in comparable if columns.flags[i] & ZERO_ROLLOUT]
    unsaid, denied = (
        sum(bool(reasons[i] & bit) for i in indices)
        for bit, indices in ((GOLD_ABSENT, winners), (GOLD_UNREWARDED, zeros))
    )
    findings = []
    if len(winners) >= 4 and 2 * unsaid > len(winners):
        findings.append(
            Finding(
                "eval-gold-unsaid",
                "warning",
                f"{unsaid:,} of {len(winners):,} rewarded replies do not say the gold answer: it is written another "
                "way there, or the reward pays wrong answers",
                'Read some with read_eval(view="rollouts", where="suspicious"); if they are wrong, call test_reward.',
            )
        )
    if denied >= 2 and 20 * denied >= len(zeros):
        findings.append(
            Finding(
                "eval-zero-with-gold",
                "warning",
                f"{denied:,} of {count(len(zeros), 'reply', 'replies')} that earned nothing say the gold answer: "
                "the reward may not read them",
                'Give some of them to test_reward as cases with expected "high"; mend the parsing if they fail.',
            )
        )
    return tuple(findings)


def _next(
    evaluated: FinishedEvaluation, data: Mapping[str, Any], page_rollouts: Sequence[tuple[Rollout, Sequence[str]]]
) -> tuple[Next, ...]:
    arguments = {"eval": evaluated.id, "view": "rollouts"}
    if not data["matching"]:
        return (Next("read_eval", "all rollouts, most suspicious first", arguments),)
    calls = []
    if data["matching"] > 1 and page_rollouts and page_rollouts[0][0].id:
        calls.append(
            Next("read_eval", "the first one with every message", {**arguments, "where": page_rollouts[0][0].id})
        )
    if data["page"] < data["pages"]:
        more = {**arguments, "where": data["where"], "page": data["page"] + 1}
        calls.append(Next("read_eval", "the next page", more))
    return tuple(calls)
