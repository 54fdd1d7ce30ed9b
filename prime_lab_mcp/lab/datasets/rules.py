"""The rules of the answer forms: what one value must be like, and how far the whole column supports it.

A rule's certainty is a judgement in [0, 1]: 1 where values of this form are hardly anything else (`#### 42`), less
where another form fits as well, 0 where the column rules the form out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prime_lab_mcp.lab.datasets import golds, syntax
from prime_lab_mcp.lab.datasets.chat import is_chat

Format = Literal[
    "gsm8k_hash", "boxed", "latex_math", "numeric", "boolean", "choice_letter", "choice_index", "class_id", "label",
    "multi_answer", "short_text", "json", "code_tests", "tool_call", "instruction_constraints", "chat_messages",
    "free_text", "procedural",
]  # fmt: skip
_CLASS_NAME = re.compile(
    r"(?i)label|class\b|category|sentiment|intent|emotion|topic|stars|rating|toxic|polarity|entail|stance|target\b"
)
_FEW = 20
_MANY = 200
"""Most classes that a column may have when its name says that it holds classes."""


@dataclass(frozen=True, slots=True)
class Context:
    """What stands beside an answer column and decides between forms."""

    column: str = "answer"
    class_names: tuple[str, ...] | None = None
    """Names of a ClassLabel column; None when it is none."""
    options: tuple[int, ...] = ()
    """Numbers of options that rows have, where they have any."""
    inline_options: bool = False

    @property
    def named_class(self) -> bool:
        """The column's name says that it holds classes."""
        return _CLASS_NAME.search(self.column.rpartition(".")[2]) is not None


@dataclass(frozen=True, slots=True)
class Fit:
    """How far a column supports a form, and which other form it supports as well."""

    certainty: float
    rival: Format | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """A column as its rules see it: an even sample of its answers, its distinct ones with their counts, its context."""

    sample: Sequence[Any]
    kinds: Counter[str]
    """How often each text stands in the sample, white space and case aside."""
    context: Context
    label_like: bool
    ints: tuple[int, ...]
    """The small integers among the answers, distinct and ascending."""

    @classmethod
    def of(cls, values: Sequence[Any], context: Context, most: int) -> Facts:
        sample = values[:: max(1, -(-len(values) // most))]
        kinds = Counter(golds.as_text(v).strip() for v in sample)
        ints = {int(str(v)) for v in sample if syntax.is_small_int(v)}
        return cls(sample, kinds, context, _label_like(values, kinds, context), tuple(sorted(ints)))

    def share_of(self, format: Format) -> float:
        rule = next(r for r in RULES if r.format == format)
        return sum(map(rule.accepts, self.sample)) / len(self.sample)

    def index_base(self) -> tuple[int, bool]:
        """What the first option counts as, and whether that is sure: 0 is seen, or the number of options is."""
        if 0 in self.ints or not self.ints or not self.context.options:
            return 0, 0 in self.ints
        return (1, True) if self.ints[-1] == max(self.context.options) else (0, False)

    def words(self) -> tuple[int, int]:
        """Words of the median answer and of the 95th percentile."""
        counts = sorted(len(golds.as_text(v).split()) for v in self.sample)
        return counts[len(counts) // 2], counts[int(0.95 * (len(counts) - 1))]

    def prose(self) -> Format:
        median, high = self.words()
        return "short_text" if median <= 5 and high <= 12 else "free_text"

    def prose_certainty(self) -> float:
        median, high = self.words()
        near = (median <= 5 and high <= 12 and (median == 5 or high > 9)) or (median > 5 and high <= 20)
        return round((0.6 if near else 0.9) * _enough(self, 5), 4)

    def prose_rival(self) -> Format | None:
        if self.prose_certainty() > 0.6:
            return None
        return "free_text" if self.prose() == "short_text" else "short_text"


def _label_like(values: Sequence[Any], kinds: Counter[str], context: Context) -> bool:
    """Short texts from a small closed set."""
    if not all(isinstance(v, str | int | float) for v in values[:50]) or any(len(k.split()) > 6 for k in kinds):
        return False
    number = sum(kinds.values())
    if number < 2 * len(kinds):
        return False
    few = len(kinds) <= _FEW or len(kinds) < 0.02 * len(values)
    return few or (context.named_class and len(kinds) <= _MANY and len(values) >= 5 * len(kinds))


def _enough(facts: Facts, rows: int) -> float:
    """Less than 1 where there are too few answers to tell."""
    return 1.0 if len(facts.sample) >= rows else 0.8


@dataclass(frozen=True, slots=True)
class Rule:
    """One form: `accepts` says whether one value has it, `fits` how far the column supports it."""

    format: Format
    accepts: Callable[[Any], bool]
    fits: Callable[[Facts], Fit] = lambda facts: Fit(1.0)


def _boolean(facts: Facts) -> Fit:
    kinds = Counter[str]()
    for text, times in facts.kinds.items():
        kinds[text.lower()] += times
    if any(k not in syntax.BOOLEANS and k not in ("0", "1") and n >= 2 for k, n in kinds.items()):
        return Fit(0.0)  # a third class, such as `maybe`
    bits = {k for k in kinds if k in ("0", "1")}
    if not bits:
        return Fit(1.0 if len(kinds) > 1 else 0.7)
    context = facts.context
    if context.options or context.class_names is not None or context.named_class or bits != {"0", "1"}:
        return Fit(0.0)
    return Fit(0.6, "class_id")


def _choice_letter(facts: Facts) -> Fit:
    if not (facts.context.options or facts.context.inline_options):
        return Fit(0.0)
    last = max((ord(k.strip("()[].: ")[:1].upper() or "A") - 64 for k in facts.kinds if syntax.is_letter(k)), default=0)
    beyond = bool(facts.context.options) and last > max(facts.context.options)
    return Fit(0.6, "label") if beyond else Fit(1.0)


def _choice_index(facts: Facts) -> Fit:
    options, ints = facts.context.options, facts.ints
    if not options or not ints or ints[0] < 0 or ints[-1] > max(options) or (ints[0] == 0 and ints[-1] == max(options)):
        return Fit(0.0)
    return Fit(1.0 * _enough(facts, 5))


def _class_id(facts: Facts) -> Fit:
    if facts.context.class_names is not None:
        return Fit(1.0)
    kinds, number = facts.ints, len(facts.sample)
    if not kinds or len(kinds) > 50 or number < 2 * len(kinds):
        return Fit(0.0)
    together = kinds[-1] - kinds[0] < len(kinds) + 2 and kinds[0] in (-1, 0, 1)
    if facts.context.named_class:
        return Fit(0.9 if together and len(kinds) > 1 else 0.6, None if together else "numeric")
    rare = len(kinds) <= 10 and together and number >= 200 and len(kinds) < 0.02 * number
    return Fit(0.5 if rare and not facts.context.options else 0.0, "numeric")


def _numeric(facts: Facts) -> Fit:
    if len(facts.kinds) <= 10 and len(facts.sample) >= 100 and len(facts.ints) == len(facts.kinds):
        return Fit(0.7, "class_id")
    return Fit(0.7, "choice_index") if facts.context.options and facts.ints else Fit(_enough(facts, 3))


def _latex(facts: Facts) -> Fit:
    strong = sum(map(syntax.is_plainly_latex, facts.sample)) / len(facts.sample)
    numbers = sum(map(syntax.is_numeric, facts.sample)) / len(facts.sample)
    if strong == 0 or strong + numbers < 0.5:
        return Fit(0.0)
    written = any("\\" in str(v) or "^" in str(v) for v in facts.sample)
    return Fit(0.95 if written else 0.8, None if written else "short_text")


RULES: tuple[Rule, ...] = (
    Rule("procedural", syntax.fits_procedure),
    Rule("tool_call", syntax.is_tool_call),
    Rule("code_tests", syntax.is_tests),
    Rule("chat_messages", is_chat),
    Rule("multi_answer", syntax.is_multi),
    Rule("gsm8k_hash", syntax.is_hash),
    Rule("boxed", syntax.is_boxed),
    Rule("boolean", syntax.is_boolean, _boolean),
    Rule("choice_letter", syntax.is_letter, _choice_letter),
    Rule("choice_index", syntax.is_small_int, _choice_index),
    Rule("class_id", syntax.is_small_int, _class_id),
    Rule("numeric", syntax.is_numeric, _numeric),
    Rule("latex_math", syntax.is_latex, _latex),
    Rule("json", syntax.is_json),
)
