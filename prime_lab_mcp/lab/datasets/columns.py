"""Describes the columns of scanned rows. Lists the usual names of prompt, answer, context and other columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.row_values import Row, value_at

PROMPT_NAMES = (
    "question_concat",
    "prompt",
    "question",
    "problem",
    "instruction",
    "input",
    "query",
    "goal",
    "text",
    "sentence",
    "ctx",
    "question_stem",
    "question_text",
    "question_content",
    "problem_statement",
    "utterance",
    "task",
    "inputs",
    "messages",
    "conversations",
    "conversation",
    "dialogue",
    "dialog",
    "content",
    "tweet",
    "review",
)
TEST_NAMES = (
    "test_list",
    "test",
    "tests",
    "input_output",
    "private_test_cases",
    "private_tests",
    "public_test_cases",
    "public_tests",
    "test_cases",
    "unit_tests",
    "verification_info",
)
"""Usual names of columns with the tests of a program, best first."""
ANSWER_NAMES = (
    "answer",
    "answer_key",
    "final_answer",
    "gold_answer",
    "expected_answer",
    "reference_answer",
    "ground_truth",
    "reward_model.ground_truth",
    "gold",
    "correct_answer",
    "correct",
    "correct_option",
    "correct_choice",
    "correct_letter",
    "answer_letter",
    "answer_idx",
    "answer_index",
    "cop",
    "answer.aliases",
    "answer.value",
    "answers.text",
    "answers_spans.spans",
    "answers",
    "possible_answers",
    "short_answers",
    "label",
    "gold_label",
    "coarse_label",
    "target",
    "final_decision",
    "best_answer",
    "mc1_targets.labels",
    *TEST_NAMES,
    "tool_calls",
    "function_calls",
    "correct_answers",
    "targets",
    "fine_label",
    "labels",
    "class",
    "intent",
    "sentiment",
    "emotion",
    "stance",
    "solution",
    "response",
    "output",
    "completion",
    "summary",
    "highlights",
    "reply",
    "chosen",
    "entities",
    "keywords",
    "aspects",
    "triples",
)
"""Usual names of answer columns, best first. A short `answer` precedes a long `solution` when both exist."""
WEAK_ANSWER_NAMES = frozenset(
    {"category", "topic", "genre", "type", "level", "difficulty", "subject", "language", "lang"}
)
"""Names of columns that classify a row. Such a column is the answer only if the dataset has no better column."""
CONTEXT_NAMES = frozenset(
    {
        "passage",
        "context",
        "article",
        "body",
        "premise",
        "support",
        "paragraph",
        "story",
        "background",
        "document",
        "abstract",
        "excerpt",
        "scenario",
        "narrative",
        "context.contexts",
        "context.sentences",
        "evidence_text",
    }
)
"""Names of columns with the context of a question, without which the question cannot be answered."""
PAIR_NAMES = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("sentence_1", "sentence_2"),
    ("sentence_a", "sentence_b"),
    ("question1", "question2"),
    ("question_1", "question_2"),
    ("text1", "text2"),
    ("text_1", "text_2"),
    ("text_a", "text_b"),
    ("question", "sentence"),
    ("definition", "inputs"),
    ("definition", "input"),
    ("instruction", "input"),
    ("claim", "evidence"),
)
"""Pairs of columns that together form the prompt, in this order."""
SYSTEM_NAMES = frozenset({"system", "system_prompt", "system_message"})
LEAKY_NAMES = frozenset(
    {
        "rationale",
        "equation",
        "explanation",
        "exp",
        "solution",
        "solutions",
        "generations",
        "generation",
        "canonical_solution",
        "annotated_formula",
        "linear_formula",
        "cot",
        "cot_content",
        "chain_of_thought",
        "reasoning",
        "reasoning_content",
        "long_answer",
        "decomposition",
        "facts",
        "thinking",
        "scratchpad",
        "hint",
        "hints",
        "proof",
        "code",
        "rejected",
    }
)
"""Names of columns that reveal the answer. They never belong in a prompt."""
OTHER_NAMES = frozenset(
    {
        "id",
        "idx",
        "index",
        "key",
        "uid",
        "uuid",
        "guid",
        "qid",
        "url",
        "link",
        "source",
        "src",
        "dataset",
        "data_source",
        "split",
        "date",
        "year",
        "created_date",
        "timestamp",
        "language",
        "lang",
        "model",
        "author",
        "name",
        "title",
        "hash",
        "unique_id",
        "problem_type",
        "question_type",
        "type",
        "level",
        "difficulty",
        "subject",
        "subset",
        "license",
        "task_id",
        "entry_point",
        "starter_code",
        "test_setup_code",
        "tools",
        "functions",
        "ability",
        "answer_type",
        "meta",
        "metadata",
        "extra_info",
        "role",
        "score",
        "rank",
        "file",
        "path",
        "filename",
    }
)
"""Names of columns with ids, topics or sources of rows. They are neither prompt nor answer."""
PROMPT_PARTS = frozenset({"question", "problem", "prompt", "query", "instruction", "puzzle", "riddle", "statement"})
ANSWER_PARTS = {
    "answer": 0.62,
    "gold": 0.62,
    "truth": 0.62,
    "label": 0.55,
    "solution": 0.4,
    "target": 0.5,
    "output": 0.45,
    "response": 0.4,
    "expected": 0.5,
    "tests": 0.6,
}
"""Words in a column name that suggest an answer, each with its weight."""
NOT_ANSWER_PARTS = frozenset(
    {
        "long",
        "explanation",
        "num",
        "type",
        "id",
        "source",
        "count",
        "length",
        "start",
        "end",
        "reason",
        "wrong",
        "incorrect",
        "false",
        "distractor",
        "model",
        "generated",
        "student",
        "previous",
        "format",
        "text_id",
        "confidence",
        "score",
        "is",
        "has",
        "prompt",
        "question",
        "rationale",
        "url",
        "span",
        "begin",
        "offset",
        "difficulty",
        "annotator",
        "no",
        "bad",
    }
)


Rows = Sequence[tuple[int, Row]]
_LONGEST = 80
_SAMPLE = 1000
_MOST = 200


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or one field of a column of objects (`answers.text`).

    `null_rate` is the share of missing values, and `distinct` the number of distinct values.
    """

    name: str
    dtype: str
    null_rate: float
    distinct: int
    examples: tuple[Any, ...]
    words: float
    """Median number of words for text, otherwise 0."""
    classes: tuple[str, ...] | None = None

    @property
    def holds_lists(self) -> bool:
        """Whether the values are lists, or the Hub describes the feature as a list."""
        return self.dtype.lower().startswith(("list", "sequence", "largelist"))

    def as_json(self, examples: int = 2) -> dict[str, Any]:
        return {
            "name": quote(self.name, 60)[1:-1],
            "dtype": self.dtype,
            "null_rate": round(self.null_rate, 4),
            "distinct": self.distinct,
            "examples": [quote(golds.gold_text(e), _LONGEST) for e in self.examples[:examples]],
        }


def spread_rows(rows: Rows, most: int) -> Rows:
    """Return at most `most` rows, evenly spread. The first rows of a sorted dataset would not be representative."""
    return rows[:: max(1, -(-len(rows) // most))]


def describe_columns(rows: Rows, features: Mapping[str, Mapping[str, Any]]) -> list[Column]:
    """Describe every column, and every field of columns of objects (one level deep)."""
    return [describe_column(path, rows, features.get(path, {})) for path in _paths(rows)]


def describe_column(path: str, rows: Rows, feature: Mapping[str, Any]) -> Column:
    """Describe one column or nested field, by its path."""
    cells = [row[path] if path in row else value_at(row, path) for _, row in rows]
    present = [v for v in cells if v is not None and v != ""]
    sample = present[:: max(1, -(-len(present) // _SAMPLE))]
    words = sorted(len(v.split()) for v in sample if isinstance(v, str))
    names = feature.get("names")
    return Column(
        name=path,
        dtype=str(feature.get("dtype") or _dtype(present)),
        null_rate=1 - len(present) / len(cells) if cells else 0.0,
        distinct=len({v if isinstance(v, str) else repr(v) for v in present}),
        examples=tuple(list(dict.fromkeys(golds.gold_text(v) for v in present[:50]))[:2]),
        words=float(words[len(words) // 2]) if len(words) > len(sample) / 2 else 0.0,
        classes=tuple(map(str, names)) if names is not None else None,
    )


def _paths(rows: Rows) -> list[str]:
    paths: dict[str, None] = {}
    shapes: set[tuple[str, ...]] = set()
    for _, row in rows:
        names = tuple(row)
        if names not in shapes:
            shapes.add(names)
            paths.update(dict.fromkeys(names))
    nested: dict[str, dict[str, None]] = {}
    for _, row in spread_rows(rows, _SAMPLE):
        for name, value in row.items():
            if isinstance(value, Mapping) and len(value) <= 40:
                nested.setdefault(name, {}).update(dict.fromkeys(f"{name}.{field}" for field in value))
    ordered = (path for name in paths for path in (name, *nested.get(name, ())))
    return list(dict.fromkeys(ordered))[:_MOST]


def _dtype(cells: Sequence[Any]) -> str:
    kinds = set(map(type, cells))
    names = {
        "bool"
        if k is bool
        else "list"
        if k is list
        else "dict"
        if issubclass(k, Mapping)
        else "string"
        if k is str
        else k.__name__
        for k in kinds
    }
    if names == {"int", "float"}:
        return "float"
    return names.pop() if len(names) == 1 else "mixed" if names else "null"
