"""Recognises the format of a dataset's answers with an ordered list of rules.

Each rule has two parts. `accepts` says whether one value has the format, and `fits` says how well the whole column
supports the format. `recognise_format` applies the rules and lists counterexamples. A rule's certainty is an estimate
in [0, 1]: 1 if values in this format are hardly ever anything else (`#### 42`), less if another format fits as well,
and 0 if the column cannot have the format.

A format is accepted if 95 % of the non-empty answers have it. Between 60 and 95 %, the column is mixed, and no single
parser can be right for it. If several formats fit, the first rule wins, and the confidence says how certain the choice
is.

There are four special cases. If more than 1 % of a column of numbers is other mathematics, the format is `latex_math`
and not `numeric`: `latex_math` can read all values, and `numeric` would fail on correct rows. A column with several
strict formats is mixed even if none of them has 60 %. For solution texts, half of them with a \\boxed{} is enough, if
the others are prose (proofs, unfinished solutions): the content of the box is the answer, and the other rows have none.
Texts of several sentences that nearly all close with a sentence of one number are solutions (gsm8k_hash), although a
single such text may be prose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from prime_lab_mcp.lab.datasets import answer_syntax, golds
from prime_lab_mcp.lab.datasets.row_values import is_chat

AnswerFormat = Literal[
    "gsm8k_hash",
    "boxed",
    "latex_math",
    "numeric",
    "boolean",
    "choice_letter",
    "choice_index",
    "class_id",
    "label",
    "multi_answer",
    "short_text",
    "json",
    "code_tests",
    "tool_call",
    "instruction_constraints",
    "chat_messages",
    "free_text",
    "procedural",
]
_CLASS_NAME = re.compile(
    r"(?i)label|class\b|category|sentiment|intent|emotion|topic|stars|rating|toxic|polarity|entail|stance|target\b"
)
_FEW_CLASSES = 20
_MOST_CLASSES = 200
"""Most classes of a column whose name says that it holds classes."""


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """Facts about a dataset, other than the answers themselves, that help to decide between formats.

    `column` is the name of the answer column. `inline_options` says that prompts list the options in their text.
    """

    column: str = "answer"
    class_names: tuple[str, ...] | None = None
    """The class names of a ClassLabel column; None for any other column."""
    options: tuple[int, ...] = ()
    """The distinct numbers of options per row; empty if rows have no options."""
    inline_options: bool = False

    @property
    def named_class(self) -> bool:
        """Whether the column's name says that the column holds classes."""
        return _CLASS_NAME.search(self.column.rpartition(".")[2]) is not None


@dataclass(frozen=True, slots=True)
class FormatFit:
    """How certain it is that a column has a format, and another format that fits as well, if any."""

    certainty: float
    rival: AnswerFormat | None = None


@dataclass(frozen=True, slots=True)
class AnswerColumnFacts:
    """The input of the rules: an evenly spread sample of the answers, counts of distinct answers, and the context.

    `label_like` says that the answers are short texts from a small closed set.
    """

    sample: Sequence[Any]
    kinds: Counter[str]
    """Number of occurrences of each text in the sample, ignoring white space and case."""
    context: AnswerContext
    label_like: bool
    ints: tuple[int, ...]
    """The distinct small integers among the answers, ascending."""

    @classmethod
    def of(cls, values: Sequence[Any], context: AnswerContext, most: int) -> AnswerColumnFacts:
        sample = values[:: max(1, -(-len(values) // most))]
        kinds = Counter(golds.gold_text(v).strip() for v in sample)
        ints = {int(str(v)) for v in sample if answer_syntax.is_small_int(v)}
        return cls(sample, kinds, context, _label_like(values, kinds, context), tuple(sorted(ints)))

    def share_of(self, format: AnswerFormat) -> float:
        return self.share_accepted(next(r for r in FORMAT_RULES if r.format == format))

    def share_accepted(self, rule: FormatRule) -> float:
        """Return the share of the sample that a rule accepts."""
        return sum(map(rule.accepts, self.sample)) / len(self.sample)

    def index_base(self) -> tuple[int, bool]:
        """Return the number of the first option (0 or 1), and whether that is certain.

        It is certain if the index 0 occurs, or an index that equals the number of options.
        """
        if 0 in self.ints or not self.ints or not self.context.options:
            return 0, 0 in self.ints
        return (1, True) if self.ints[-1] == max(self.context.options) else (0, False)

    def words(self) -> tuple[int, int]:
        """Return the median and the 95th percentile of the number of words of an answer."""
        counts = sorted(len(golds.gold_text(v).split()) for v in self.sample)
        return counts[len(counts) // 2], counts[int(0.95 * (len(counts) - 1))]

    def prose(self) -> AnswerFormat:
        median, high = self.words()
        return "short_text" if median <= 5 and high <= 12 else "free_text"

    def prose_certainty(self) -> float:
        median, high = self.words()
        near = (median <= 5 and high <= 12 and (median == 5 or high > 9)) or (median > 5 and high <= 20)
        return round((0.6 if near else 0.9) * _enough(self, 5), 4)

    def prose_rival(self) -> AnswerFormat | None:
        if self.prose_certainty() > 0.6:
            return None
        return "free_text" if self.prose() == "short_text" else "short_text"


def _label_like(values: Sequence[Any], kinds: Counter[str], context: AnswerContext) -> bool:
    """Return whether the values are short texts from a small closed set."""
    if not all(isinstance(v, str | int | float) for v in values[:50]) or any(len(k.split()) > 6 for k in kinds):
        return False
    number = sum(kinds.values())
    if number < 2 * len(kinds):
        return False
    few = len(kinds) <= _FEW_CLASSES or len(kinds) < 0.02 * len(values)
    return few or (context.named_class and len(kinds) <= _MOST_CLASSES and len(values) >= 5 * len(kinds))


def _enough(facts: AnswerColumnFacts, rows: int) -> float:
    """Return a factor for the certainty, which is below 1 if there are fewer answers than `rows`."""
    return 1.0 if len(facts.sample) >= rows else 0.8


@dataclass(frozen=True, slots=True)
class FormatRule:
    """The rule for one format. `accepts` says whether a value has it, and `fits` how well the column supports it."""

    format: AnswerFormat
    accepts: Callable[[Any], bool]
    fits: Callable[[AnswerColumnFacts], FormatFit] = lambda facts: FormatFit(1.0)


def _boolean(facts: AnswerColumnFacts) -> FormatFit:
    kinds = Counter[str]()
    for text, times in facts.kinds.items():
        kinds[text.lower()] += times
    if any(k not in answer_syntax.BOOLEANS and k not in ("0", "1") and n >= 2 for k, n in kinds.items()):
        return FormatFit(0.0)  # There is a third class, such as `maybe`.
    bits = {k for k in kinds if k in ("0", "1")}
    if not bits:
        return FormatFit(1.0 if len(kinds) > 1 else 0.7)
    context = facts.context
    if any(word in answer_syntax.BOOLEANS for word in kinds):
        # The column has words such as `yes` and also 0 or 1.
        return FormatFit(0.0 if context.options or context.class_names is not None else 1.0)
    if context.options or context.class_names is not None or context.named_class or bits != {"0", "1"}:
        return FormatFit(0.0)
    return FormatFit(0.6, "class_id")


def _choice_letter(facts: AnswerColumnFacts) -> FormatFit:
    if not (facts.context.options or facts.context.inline_options):
        return FormatFit(0.0)
    last = max(
        (ord(k.strip("()[].: ")[:1].upper() or "A") - 64 for k in facts.kinds if answer_syntax.is_letter(k)), default=0
    )
    beyond = bool(facts.context.options) and last > max(facts.context.options)
    return FormatFit(0.6, "label") if beyond else FormatFit(1.0)


def _choice_index(facts: AnswerColumnFacts) -> FormatFit:
    options, ints = facts.context.options, facts.ints
    if not options or not ints or ints[0] < 0 or ints[-1] > max(options) or (ints[0] == 0 and ints[-1] == max(options)):
        return FormatFit(0.0)
    return FormatFit(1.0 * _enough(facts, 5))


def _class_id(facts: AnswerColumnFacts) -> FormatFit:
    if facts.context.class_names is not None:
        return FormatFit(1.0)
    kinds, number = facts.ints, len(facts.sample)
    if not kinds or len(kinds) > 50 or number < 2 * len(kinds):
        return FormatFit(0.0)
    together = kinds[-1] - kinds[0] < len(kinds) + 2 and kinds[0] in (-1, 0, 1)
    if facts.context.named_class:
        return FormatFit(0.9 if together and len(kinds) > 1 else 0.6, None if together else "numeric")
    rare = len(kinds) <= 10 and together and number >= 200 and len(kinds) < 0.02 * number
    return FormatFit(0.5 if rare and not facts.context.options else 0.0, "numeric")


def _numeric(facts: AnswerColumnFacts) -> FormatFit:
    if len(facts.kinds) <= 10 and len(facts.sample) >= 100 and len(facts.ints) == len(facts.kinds):
        return FormatFit(0.7, "class_id")
    return FormatFit(0.7, "choice_index") if facts.context.options and facts.ints else FormatFit(_enough(facts, 3))


def _latex(facts: AnswerColumnFacts) -> FormatFit:
    strong = sum(map(answer_syntax.is_plainly_latex, facts.sample)) / len(facts.sample)
    numbers = sum(map(answer_syntax.is_numeric, facts.sample)) / len(facts.sample)
    if strong == 0 or strong + numbers < 0.5:
        return FormatFit(0.0)
    has_markup = any("\\" in str(v) or "^" in str(v) for v in facts.sample)
    return FormatFit(0.95 if has_markup else 0.8, None if has_markup else "short_text")


FORMAT_RULES: tuple[FormatRule, ...] = (
    FormatRule("procedural", answer_syntax.fits_procedure),
    FormatRule("tool_call", answer_syntax.is_tool_call),
    FormatRule("code_tests", answer_syntax.is_tests),
    FormatRule("chat_messages", is_chat),
    FormatRule("multi_answer", answer_syntax.is_multi),
    FormatRule("gsm8k_hash", answer_syntax.is_hash),
    FormatRule("boxed", answer_syntax.is_boxed),
    FormatRule("boolean", answer_syntax.is_boolean, _boolean),
    FormatRule("choice_letter", answer_syntax.is_letter, _choice_letter),
    FormatRule("choice_index", answer_syntax.is_small_int, _choice_index),
    FormatRule("class_id", answer_syntax.is_small_int, _class_id),
    FormatRule("numeric", answer_syntax.is_numeric, _numeric),
    FormatRule("latex_math", answer_syntax.is_latex, _latex),
    FormatRule("json", answer_syntax.is_json),
)


ACCEPTED_SHARE = 0.95
"""Share of the non-empty answers that must have a format (docs/validation.md, Answer formats)."""
MIXED_SHARE = 0.60
BOXED_SHARE = 0.50
"""If this share of solution texts has a box, the box is the answer, and the other rows have no answer."""
_RESULTS_SHARE = 0.80
"""Share of the solutions that must state their closing number twice. An estimate: a sentence that sums up repeats the
result, except where the sentence holds the last step."""
SURE_CONFIDENCE = 0.75
"""With a lower confidence, other formats fit as well."""
SAMPLE = 2000
"""Most answers, evenly spread, to which all rules are applied. The chosen format is compared with all answers."""
NUMERIC_FORMATS: frozenset[str] = frozenset({"gsm8k_hash", "numeric"})
CLASS_FORMATS: frozenset[str] = frozenset({"boolean", "choice_letter", "choice_index", "class_id", "label"})
_ACCEPTS: Mapping[str, Callable[[Any], bool]] = {
    **{rule.format: rule.accepts for rule in FORMAT_RULES},
    "gsm8k_hash": answer_syntax.closes_with_number,
}
_INLINE = re.compile(
    r"(?:^|\s)[(\[]?A[).:\]]\s*\S.*?(?:^|\s)[(\[]?B[).:\]]\s*\S|(?:^|\s)[(\[]?a[).\]]\s*\S.*?(?:^|\s)[(\[]?b[).\]]\s*\S",
    re.S,
)


@dataclass(frozen=True, slots=True)
class RecognisedFormat:
    """The format of a column and its confidence in [0, 1].

    `counterexamples` are pairs (row, value) of answers that do not have the format. `mixed` says that no single format
    is common enough.
    """

    format: AnswerFormat
    confidence: float
    counterexamples: tuple[tuple[int, Any], ...] = ()
    mixed: bool = False
    index_base: int | None = None
    """The number of the first option in the format choice_index; None if the golds are no option numbers."""
    also: tuple[tuple[str, float], ...] = ()
    """The formats of the other answers with their shares, if the column is mixed."""
    rival: AnswerFormat | None = None
    """Another format that fits as well as this one."""
    share: float = 1.0
    """The share of the non-empty answers that have the format."""


def has_format(format: str, value: Any) -> bool:
    """Return whether an answer has a format. The formats label, short_text and free_text accept every answer."""
    test = _ACCEPTS.get(format)
    return True if test is None else test(value)


def recognise_format(
    values: Sequence[tuple[int, Any]], context: AnswerContext | None = None
) -> RecognisedFormat | None:
    """Recognise the format of a column, given as pairs (row, value); None if all its values are empty."""
    answers = [(row, value) for row, value in values if not golds.is_empty(value)]
    if not answers:
        return None
    facts = AnswerColumnFacts.of([value for _, value in answers], context or AnswerContext(), SAMPLE)
    shares: dict[str, float] = {}
    rules = []
    for rule in FORMAT_RULES:
        fit = rule.fits(facts)
        if fit.certainty <= 0:
            continue
        rules.append(rule)
        shares[rule.format] = facts.share_accepted(rule)
        if shares[rule.format] >= ACCEPTED_SHARE and not _better_as_latex(rule.format, shares, facts):
            sums = _closing_numbers(answers, facts) if rule.format == "latex_math" else None
            return sums or _accepted(rule, fit, answers, facts)  # `84 + 90 = 174` is no formula to be repeated
    return _closing_numbers(answers, facts) or _not_accepted(answers, facts, rules, shares)


def _closing_numbers(answers: Sequence[tuple[int, Any]], facts: AnswerColumnFacts) -> RecognisedFormat | None:
    """Recognise solutions that close with a number; None if fewer than `ACCEPTED_SHARE` do.

    Where most of these numbers stand in an earlier sentence as well, or behind a sum, they are results and no other
    figures.
    """
    share = sum(map(answer_syntax.closes_with_number, facts.sample)) / len(facts.sample)
    if share < ACCEPTED_SHARE:
        return None
    repeated = sum(_repeats_its_end(str(value)) for value in facts.sample) / len(facts.sample)
    results = repeated >= _RESULTS_SHARE
    rule = FormatRule("gsm8k_hash", answer_syntax.closes_with_number)
    return _accepted(rule, FormatFit(0.9) if results else FormatFit(0.7, "free_text"), answers, facts)


def _repeats_its_end(solution: str) -> bool:
    number = golds.closing_number(solution)
    return number is not None and (golds.ends_in_sum(solution) or solution.count(number.strip("$€£¥%+")) > 1)


def _better_as_latex(format: AnswerFormat, shares: Mapping[str, float], facts: AnswerColumnFacts) -> bool:
    if format != "numeric" or shares["numeric"] >= 0.99:
        return False
    latex = next(rule for rule in FORMAT_RULES if rule.format == "latex_math")
    return latex.fits(facts).certainty > 0 and facts.share_accepted(latex) > 0.99


def _accepted(
    rule: FormatRule, fit: FormatFit, answers: Sequence[tuple[int, Any]], facts: AnswerColumnFacts
) -> RecognisedFormat:
    against = [entry for entry in answers if not rule.accepts(entry[1])]
    share = 1 - len(against) / len(answers)
    recognised = RecognisedFormat(
        rule.format, round(share * fit.certainty, 4), tuple(against[:5]), rival=fit.rival, share=round(share, 4)
    )
    if rule.format != "choice_index":
        return recognised
    base, certain = facts.index_base()
    return replace(
        recognised, index_base=base, confidence=recognised.confidence if certain else min(recognised.confidence, 0.6)
    )


def _not_accepted(
    answers: Sequence[tuple[int, Any]],
    facts: AnswerColumnFacts,
    rules: Sequence[FormatRule],
    shares: Mapping[str, float],
) -> RecognisedFormat:
    if facts.label_like:
        letters = facts.share_of("choice_letter") >= ACCEPTED_SHARE
        certain = 0.6 if letters else 0.95 if len(facts.sample) >= 5 * len(facts.kinds) else 0.75
        return RecognisedFormat("label", certain, rival="choice_letter" if letters else None)
    prose = facts.prose()
    parts = _breakdown(facts, rules, prose)
    best = max(shares, key=lambda name: shares[name], default="")
    rule = next((r for r in rules if r.format == best), None)
    boxed = shares.get("boxed", 0.0)
    if boxed >= BOXED_SHARE and all(name in ("boxed", prose) for name, _ in parts):
        unboxed = [entry for entry in answers if not answer_syntax.is_boxed(entry[1])]
        share = round(1 - len(unboxed) / len(answers), 4)
        return RecognisedFormat("boxed", max(share, SURE_CONFIDENCE), tuple(unboxed[:5]), share=share)
    if rule is not None and shares[best] >= MIXED_SHARE:
        against = [entry for entry in answers if not rule.accepts(entry[1])]
        share = round(1 - len(against) / len(answers), 4)
        others = tuple((name, part) for name, part in parts if name != best and part >= 0.01)
        return RecognisedFormat(
            rule.format, share, tuple(against[:5]), True, facts.index_base()[0], others, share=share
        )
    strict = [(name, part) for name, part in parts if name not in ("latex_math", prose)]
    if sum(part for _, part in strict) >= 0.5:
        rest = 1 - sum(part for _, part in strict)
        return RecognisedFormat("free_text", round(max(rest, 0.0), 4), (), True, None, tuple(parts), share=1.0)
    return RecognisedFormat(prose, facts.prose_certainty(), rival=facts.prose_rival())


def _breakdown(facts: AnswerColumnFacts, rules: Sequence[FormatRule], prose: AnswerFormat) -> list[tuple[str, float]]:
    """Return the shares of formats, the largest first. Each answer counts for the first format that it has."""
    counts = Counter(next((r.format for r in rules if r.accepts(v)), prose) for v in facts.sample)
    return [(name, round(times / len(facts.sample), 3)) for name, times in counts.most_common(5)]


def has_inline_options(prompts: Sequence[str]) -> bool:
    """Return whether at least half of the prompts list lettered options."""
    return bool(prompts) and sum(_INLINE.search(p[-6000:]) is not None for p in prompts) >= 0.5 * len(prompts)
