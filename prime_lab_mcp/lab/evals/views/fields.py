"""Reads the fields of rollouts by name, parses filters over fields, and groups rollouts by the values of a field.

A field is a property of the rollout, a component, a metric or a field of its task. A filter, the argument `where` of
read_eval, is a word, a task or rollout id, or comparisons such as `reward<0.5 and lookups=3`.
"""

from __future__ import annotations

import bisect
import difflib
import itertools
import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.rollouts.conversation import task_data, task_row
from prime_lab_mcp.lab.rollouts.rollout import Rollout

MISSING = object()
"""The value of a field that a rollout does not have."""
_DEPTH = 3
"""Levels of nested fields that are read from a task."""
_FIELDS = 60
"""Most fields that are read from one level of a task. Data with more fields is a document rather than metadata."""

ROLLOUT_FIELDS: Mapping[str, Callable[[Rollout], Any]] = {
    "reward": lambda r: MISSING if r.reward is None else r.reward,
    "task": lambda r: r.task,
    "id": lambda r: r.id,
    "stop": lambda r: r.stop or "",
    "error": lambda r: r.error is not None,
    "truncated": lambda r: r.truncated,
    "tokens": lambda r: r.completion_tokens,
    "prompt_tokens": lambda r: r.prompt_tokens,
    "seconds": lambda r: r.seconds,
}
"""Reads the fields that every rollout has. `tokens` is the number of completion tokens."""


def value_of(rollout: Rollout, name: str) -> Any:
    """Return the value of a field, or MISSING.

    The name is looked up among the fields of every rollout, then components, metrics, and fields of the task. A field
    of the task's metadata needs no prefix: `level` also finds `metadata.level`.
    """
    if name in ROLLOUT_FIELDS:
        return ROLLOUT_FIELDS[name](rollout)
    if name in rollout.components:
        return rollout.components[name][0]
    if name in rollout.metrics:
        return rollout.metrics[name]
    data = task_data(rollout)
    value = value_at_path(data, name)
    return value_at_path(data, f"metadata.{name}") if value is MISSING else value


def value_at_path(data: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path in nested mappings, or MISSING. A key that contains dots takes precedence."""
    if path in data:
        return data[path]
    for end in (i for i, c in enumerate(path) if c == "."):
        below = data.get(path[:end])
        if isinstance(below, Mapping):
            value = value_at_path(below, path[end + 1 :])
            if value is not MISSING:
                return value
    return MISSING


def flat_fields(data: Mapping[str, Any], depth: int = _DEPTH) -> Iterator[tuple[str, Any]]:
    """Yield the dotted path and value of every text, number and boolean in nested mappings. Lists are skipped."""
    for key, value in itertools.islice(data.items(), _FIELDS):
        if isinstance(value, Mapping):
            if depth > 1:
                for path, inner in flat_fields(value, depth - 1):
                    yield f"{key}.{path}", inner
        elif isinstance(value, str | int | float | bool):
            yield str(key), value


FILTER_WORDS = ("all", "zero", "rewarded", "error", "truncated", "suspicious")
"""Filters by the state of a rollout."""
_WORD_IS_TRUE = re.compile(rf"\s*({'|'.join(FILTER_WORDS)})\s*(?:==?\s*(?:true|yes|1)\s*)?")
"""Matches a word of FILTER_WORDS, also written as a comparison such as `truncated=true`."""
_COMPARISON = re.compile(r"\s*([A-Za-z_][\w.\- ]*?)\s*(<=|>=|!=|==|=|<|>)\s*(.+?)\s*")
_AND = re.compile(r"\s+and\s+|\s*,\s*|\s*&&?\s*", re.I)
_KEY = re.compile(r"[\w./:#@-]{1,200}")
_ROW = re.compile(r"row (\d{1,9})")
_PREFIXED = 4
"""Least length of a prefix that can stand for a task key or rollout id."""


@dataclass(frozen=True, slots=True)
class RolloutFilter:
    """A parsed filter. A rollout has to match all `words` and `fits`."""

    words: frozenset[str]
    """Words of FILTER_WORDS. The view applies them, because they depend on all rollouts."""
    fits: Callable[[Rollout], bool]
    """Whether a rollout matches the id or the comparisons of the filter."""
    exact: bool = False
    """Whether the filter names one task or rollout."""
    fields: frozenset[str] = frozenset()
    """The fields that the filter compares."""


def parse_filter(where: str | None) -> RolloutFilter:
    """Parse a filter. Raises EvalError (`filter-unreadable`) if it is no word, no id and no comparison."""
    text = (where or "all").strip()
    if text.lower() in FILTER_WORDS:
        return RolloutFilter(frozenset({text.lower()}), _always)
    if not re.search(r"[<>=]", text) and not all(part.lower() in FILTER_WORDS for part in _AND.split(text)):
        if _KEY.fullmatch(text) or _ROW.fullmatch(text):
            return RolloutFilter(frozenset(), lambda r: _is_task(r, text) or _matches_key(r.id, text), exact=True)
        raise _unreadable(text)
    words, tests, names = set(), [], []
    for part in _AND.split(text):
        word = _WORD_IS_TRUE.fullmatch(part.lower())
        if word is not None:
            words.add(word[1])
            continue
        comparison = _COMPARISON.fullmatch(part)
        if comparison is None:
            raise _unreadable(text)
        tests.append(_test(*comparison.groups()))
        names.append(comparison[1])
    return RolloutFilter(frozenset(words), lambda r: all(test(r) for test in tests), fields=frozenset(names))


class FieldNames:
    """Checks that the field names of a filter exist, by looking for them in every rollout."""

    def __init__(self, names: Iterable[str]) -> None:
        self._missing = set(names) - ROLLOUT_FIELDS.keys()
        self._existing: set[str] = set()

    def add(self, rollout: Rollout) -> None:
        """Look for the names in one rollout, and collect its own field names if one is missing."""
        if not self._missing:
            return
        self._missing -= {name for name in self._missing if value_of(rollout, name) is not MISSING}
        if self._missing:
            paths = {path for path, _ in flat_fields(task_data(rollout))}
            self._existing |= {*paths, *rollout.components, *rollout.metrics}

    def require_existing(self, argument: str, eval: str) -> None:
        """Raise EvalError (`field-unknown`) if a name is no field of any rollout. The error lists existing names.

        `argument` is the argument of read_eval that has the name, and `eval` is the id of the evaluation.
        """
        if not self._missing:
            return
        name, existing = sorted(self._missing)[0], sorted(self._existing)
        near = difflib.get_close_matches(name, existing, 3)
        offered = ", ".join(quote(n, 40) for n in dict.fromkeys([*near, *existing[:12]])) or "none of the tasks"
        raise EvalError(
            f"no rollout has a field {quote(name, 80)}, which {argument} names",
            fix=f"Use one of {offered}, or of every rollout: {', '.join(ROLLOUT_FIELDS)}.",
            code="field-unknown",
            next=(Next("read_eval", "lists the fields", {"eval": eval, "view": "groups"}),),
        )


def _always(rollout: Rollout) -> bool:
    return True


def _matches_key(key: str, prefix: str) -> bool:
    return key == prefix or (len(prefix) >= _PREFIXED and key.startswith(prefix))


def _is_task(rollout: Rollout, text: str) -> bool:
    """Whether a text names the task of a rollout: its key, the start of its key, or `row N`."""
    row = _ROW.fullmatch(text)
    return task_row(rollout) == int(row[1]) if row else _matches_key(rollout.task, text)


def _test(name: str, sign: str, operand: str) -> Callable[[Rollout], bool]:
    operand = operand.strip("\"'")
    if name in ("task", "id") and sign in ("=", "=="):
        return lambda r: _is_task(r, operand) if name == "task" else _matches_key(r.id, operand)
    number = _number(operand)

    def test(rollout: Rollout) -> bool:
        value = value_of(rollout, name)
        if value is MISSING:
            return False
        return _holds(value, sign, operand, number)

    return test


def _holds(value: Any, sign: str, operand: str, number: float | None) -> bool:
    own_number = _number(value)
    if own_number is not None and number is not None:
        return {
            "<": own_number < number,
            "<=": own_number <= number,
            ">": own_number > number,
            ">=": own_number >= number,
            "=": own_number == number,
            "==": own_number == number,
            "!=": own_number != number,
        }[sign]
    is_equal = str(value).strip().casefold() == operand.casefold()
    return is_equal if sign in ("=", "==") else not is_equal if sign == "!=" else False


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value.strip().casefold() in ("true", "false"):
        return float(value.strip().casefold() == "true")
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _unreadable(text: str) -> EvalError:
    return EvalError(
        f"where={quote(text, 120)} is no filter",
        fix=f"Give one of {', '.join(FILTER_WORDS)}, a task or rollout id, or comparisons such as "
        "reward<0.5 and lookups=3.",
        code="filter-unreadable",
    )


FEW_NUMBERS = 8
"""Most different numbers of a field for which each number is a group. More numbers are binned."""
BINS = 4
"""Number of bins with about equally many rollouts each."""
MOST_VALUES = 500
"""Most different values that are distinguished. All further values are one group."""
NO_VALUE, OTHER_VALUES = "(none)", "(others)"
_LONG = 80
"""Characters of a text that distinguish it from others and that its label shows."""


@dataclass(slots=True)
class FieldValues:
    """The values of one field, encoded so that rollouts or tasks can be grouped by them."""

    codes: array[int] = field(default_factory=lambda: array("I"))
    """The code of each added value. Equal values have equal codes."""
    numbers: array[float] = field(default_factory=lambda: array("d"))
    """The added values as numbers, as long as all values are numbers. NaN for MISSING."""
    numeric: bool = True
    """Whether all values are finite numbers or MISSING."""
    overflowed: bool = False
    """Whether there are more than MOST_VALUES different values."""
    _numbers: dict[Any, int] = field(default_factory=dict)
    _labels: list[str] = field(default_factory=list)

    def add(self, value: Any) -> None:
        """Append the value of one task or rollout."""
        truth = isinstance(value, bool) or not isinstance(value, int | float)
        if value is not MISSING and (truth or not math.isfinite(value)):
            self.numeric = False
        key = value if isinstance(value, bool | int | float | str) or value is MISSING else repr(value)[:_LONG]
        if isinstance(key, str):
            key = key[:_LONG]
        # True and 1 are equal dictionary keys but different values of a field.
        self.codes.append(self._code((type(key) is bool, key)))
        if self.numeric:
            self.numbers.append(math.nan if value is MISSING else float(value))

    @property
    def distinct(self) -> int:
        """Number of different values, at most MOST_VALUES + 1."""
        return len(self._numbers) - ((False, MISSING) in self._numbers) + self.overflowed

    def groups(self) -> tuple[Sequence[int], list[str]]:
        """Return the group of every added value, and the label of every group. Text in labels is quoted."""
        if self.numeric and self.distinct > FEW_NUMBERS:
            return self._binned()
        return self.codes, [*self._labels, *([OTHER_VALUES] if self.overflowed else [])]

    def _code(self, key: tuple[bool, Any]) -> int:
        code = self._numbers.get(key)
        if code is not None:
            return code
        if len(self._numbers) >= MOST_VALUES:
            self.overflowed = True
            return MOST_VALUES
        self._numbers[key] = len(self._labels)
        self._labels.append(_label(key[1]))
        return len(self._labels) - 1

    def _binned(self) -> tuple[Sequence[int], list[str]]:
        ordered = sorted(n for n in self.numbers if not math.isnan(n))
        edges = sorted({ordered[len(ordered) * i // BINS] for i in range(1, BINS)} - {ordered[0]})
        codes = array("I", (len(edges) + 1 if math.isnan(n) else bisect.bisect_right(edges, n) for n in self.numbers))
        labels = []
        for low, high in zip([ordered[0], *edges], [*edges, math.inf], strict=True):
            inside = ordered[bisect.bisect_left(ordered, low) : bisect.bisect_left(ordered, high)]
            labels.append(f"{low:g}" if inside[0] == inside[-1] else f"{inside[0]:g} to {inside[-1]:g}")
        return codes, [*labels, NO_VALUE]


def _label(value: Any) -> str:
    if value is MISSING:
        return NO_VALUE
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, int | float) else quote(value, _LONG)
