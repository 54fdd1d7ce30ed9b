"""A dataset judged: the caller's columns, doubts that are said, what authoring and the report get."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import SameCall, calls_named_in
from prime_lab_mcp.lab.datasets.formats import FORMAT_RULES, AnswerFormat
from prime_lab_mcp.lab.datasets.inspection import (
    NO_TEMPLATE,
    TEMPLATES,
    Inspection,
    inspect_table,
    recommend_reward,
    task_rows,
)
from prime_lab_mcp.lab.datasets.scan import DatasetRequest, ScannedDataset, ScannedSplit
from prime_lab_mcp.lab.datasets.tasks import FlawTally, RepeatCounts

Row = dict[str, Any]


def table(rows: Sequence[Row], held: Sequence[Row] = (), features: Any = None) -> ScannedDataset:
    def scanned(name: str, of: Sequence[Row]) -> ScannedSplit:
        return ScannedSplit(name, tuple(enumerate(of)), len(of), True, "0" * 64)

    splits = (("train", len(rows)), ("test", len(held)))
    return ScannedDataset(
        "d",
        "files",
        None,
        None,
        splits,
        scanned("train", rows),
        scanned("test", held) if held else None,
        features or {},
    )


def judged(rows: Sequence[Row], **named: Any) -> Inspection:
    return inspect_table(table(rows), DatasetRequest("d"), **named)


def codes(found: Inspection) -> dict[str, str]:
    return {f.code: f.severity for f in found.findings}


def sums(number: int = 100) -> list[Row]:
    return [
        {
            "note": f"Note {n} about it.",
            "question": f"What is {n} plus {n + 1000}?",
            "solution": f"It is {2 * n + 1000}.",
            "answer": str(2 * n + 1000),
            "same": 4,
            "extra": {"deep": {"question": f"And what is {n} here?"}},
        }
        for n in range(number)
    ]


def stories(ending: str = "So in the end it is {}.", **columns: Callable[[int], Any]) -> list[Row]:
    """Word problems beside their worked solutions and a column that classifies them."""
    rows = []
    for n in range(100):
        places, free = n + 60, n % 7 + 1
        taken = places - free
        row = {
            "story": f"A school has {places} places on a trip, and {free} are free. How many places are taken?",
            "worked": f"Taken are {places} - {free} = {taken}. {ending.format(taken)}",
            "topic": ("trips", "shops", "trains")[n % 3],
            "grade": 4 + n % 3,
        }
        rows.append({**row, **{name: of(n) for name, of in columns.items()}})
    return rows


@pytest.mark.parametrize("ending", ["So in the end it is {}.", "Answer: {}", "{}", "\n#### {}"])
def test_the_answer_of_a_question_is_its_worked_solution_and_not_the_class_beside(ending: str) -> None:
    found = judged(stories(ending))
    assert found.prompt is not None
    assert (found.prompt.columns, found.answer and found.answer.path) == (("story",), "worked")
    assert "ask something" in found.prompt.why
    assert (found.format, codes(found)) == ("gsm8k_hash", {})


def test_a_column_of_results_is_the_answer_before_the_solution_that_agrees() -> None:
    found = judged(stories(result=lambda n: str(n + 59 - n % 7)))
    assert (found.answer and found.answer.path, found.format) == ("result", "numeric")
    assert codes(found) == {}


def test_columns_of_different_results_are_named_with_the_call_that_takes_the_other() -> None:
    found = judged(stories(paid=lambda n: 100 - n, owed=lambda n: n * 37 % 101))
    (doubt,) = [f for f in found.findings if f.code == "answer-column-uncertain"]
    assert doubt.severity == "warning"
    assert '"paid" and "owed" and "worked" hold different results' in doubt.message
    named = [call.changes for call in calls_named_in(doubt.fix) if isinstance(call, SameCall)]
    assert named == [{"answer_column": "paid"}, {"answer_column": "owed"}, {"answer_column": "worked"}]


def test_a_doubtful_answer_beside_no_other_column_leads_to_no_choice_of_one() -> None:
    roman = ("M" * (n // 10) + "X" * (n % 10) + "I" for n in range(10, 100))
    rows = [{"id": n, "task": f"Write {n} as a numeral on a stone.", "numeral": text} for n, text in enumerate(roman)]
    (doubt,) = [f for f in judged(rows).findings if f.code == "answer-column-uncertain"]
    assert doubt.fix.startswith("No other column could be the answer")


@pytest.mark.parametrize("mark", [">>", "####"])
def test_a_format_that_is_named_after_one_dataset_is_said_in_words(mark: str) -> None:
    rows = [{"question": f"How many are {n} and 3?", "answer": f"{mark} {n + 3}"} for n in range(90)]
    found = judged(rows)
    said = [f.message for f in found.findings if f.code == "format-uncertain"]
    assert all("a mark such as #### or >> and the result" in message for message in said)
    assert bool(said) == (mark == ">>" and found.format == "gsm8k_hash")


def test_a_class_is_the_answer_where_no_prompt_asks() -> None:
    rows = [{**row, "story": row["story"].removesuffix(" How many places are taken?")} for row in stories()]
    assert judged(rows).format == "label"


def test_several_prompt_columns_and_paths_are_named_with_commas() -> None:
    found = judged(sums(), prompt_column="note, question", answer_column="answer")
    assert found.prompt is not None
    assert found.prompt.columns == ("note", "question")
    deep = judged(sums(), prompt_column="extra.deep.question")
    assert deep.prompt is not None
    assert deep.prompt.columns == ("extra.deep.question",)


def test_a_column_whose_name_has_a_comma_is_one_column() -> None:
    rows = [{"Q, asked": f"What is {n} and one?", "answer": str(n)} for n in range(80)]
    found = judged(rows, prompt_column="Q, asked")
    assert found.prompt is not None
    assert found.prompt.columns == ("Q, asked",)


@pytest.mark.parametrize(
    "named",
    [{"prompt_column": "q"}, {"answer_column": "q"}, {"prompt_column": "question,q"}, {"answer_column": "extra.x"}],
)
def test_a_column_that_is_not_there_is_refused_with_those_that_are(named: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="no column") as refused:
        judged(sums(), **named)
    assert "question" in refused.value.fix


@pytest.mark.parametrize(
    ("named", "severity"),
    [
        ({"prompt_column": "question,answer", "answer_column": "answer"}, "blocker"),
        ({"prompt_column": "solution"}, "warning"),
        ({"answer_column": "same"}, "warning"),
        ({"prompt_column": "same"}, "warning"),
    ],
)
def test_a_doubtful_column_of_the_caller_is_taken_and_said(named: dict[str, str], severity: str) -> None:
    found = judged(sums(), **named)
    assert codes(found)["column-doubtful"] == severity
    assert "column-doubtful" not in codes(judged(sums(), prompt_column="question", answer_column="answer"))


def test_a_prompt_that_holds_the_whole_answer_is_never_guessed_and_blocks_when_named() -> None:
    rows = [
        {
            "text": f"Q: task {n}? A: the long answer number {n} of them",
            "response": f"the long answer number {n} of them",
        }
        for n in range(80)
    ]
    guessed = judged(rows)
    assert guessed.prompt is None
    assert codes(guessed) == {"no-prompt-column": "blocker"}
    assert codes(judged(rows, prompt_column="text"))["column-doubtful"] == "blocker"


def test_text_that_is_no_part_of_the_task_is_mentioned() -> None:
    rows = [
        {
            "tale": f"In the village number {n} a man was seen at the gate.",
            "question": f"Who was it in case {n} here?",
            "answer": f"man {n}",
        }
        for n in range(80)
    ]
    found = judged(rows)
    assert codes(found)["context-unused"] == "info"
    assert "context-unused" not in codes(judged(rows, prompt_column="tale,question"))


def test_counts_over_all_rows_are_asked_for_the_chosen_columns_and_replace_those_of_the_sample() -> None:
    asked: list[tuple[tuple[str, ...], str | None]] = []

    def repeats_of(prompt: Sequence[str], answer: str | None) -> RepeatCounts:
        asked.append((tuple(prompt), answer))
        return RepeatCounts(
            1000, 0, FlawTally(400, [{"row": 7, "value": '"x"', "first_row": 1}]), FlawTally(), FlawTally()
        )

    found = inspect_table(table(sums()), DatasetRequest("d"), repeats_of=repeats_of)
    assert asked == [(("question",), "answer")]
    assert codes(found)["duplicate-prompt"] == "blocker"
    assert "duplicate-prompt" not in codes(judged(sums()))


def test_questions_with_other_options_do_not_repeat_one_another() -> None:
    rows = [
        {"question": "Which of these is right?", "choices": [f"x{n}", f"y{n}", f"z{n}"], "answer": n % 3}
        for n in range(90)
    ]
    assert not codes(judged(rows)).keys() & {"duplicate-prompt", "conflicting-gold", "gold-unparseable"}


def test_rows_with_options_carry_them_and_the_right_one() -> None:
    rows = [
        {"question": f"Case {n}?", "choices": {"text": ["x", "y"], "label": ["1", "2"]}, "answerKey": "2"}
        for n in range(3)
    ]
    first = next(task_rows(table(rows).main, ("question",), "answerKey", "choice_letter", ("choices",)))
    assert (first.prompt, first.options, first.gold_option, first.raw) == ("Case 0?", ("x", "y"), 1, "B")


def test_a_conversation_that_the_caller_names_is_asked_up_to_its_last_reply() -> None:
    rows = [
        {"id": n, "log": [{"role": "user", "content": f"Ask {n}"}, {"role": "assistant", "content": f"Told {n}"}]}
        for n in range(80)
    ]
    found = judged(rows, prompt_column="log", answer_column="log")
    assert (found.format, found.recommended and found.recommended.kind) == ("chat_messages", "free_text")
    assert "column-doubtful" not in codes(found)
    first = next(task_rows(found.table.main, ("log",), "log", found.format))
    assert (first.prompt, first.answer) == ("Ask 0", "Told 0")


def test_the_report_ranks_guesses_and_gives_the_rule() -> None:
    rows = [
        {
            "problem": f"Find the value of f at {n}.",
            "query": f"Some other text number {n}.",
            "answer": rf"\frac{{{n}}}{{7}}",
            "final_answer": "none" if n == 3 else str(n + 1),
        }
        for n in range(80)
    ]
    shown = judged(rows).as_json()
    assert shown["prompt"]["others"][0]["columns"] == ["query"]
    other = shown["answer"]["others"][0]
    assert (other["path"], other["format"], other["counterexamples"]) == (
        "final_answer",
        "numeric",
        [{"row": 3, "value": '"none"'}],
    )
    assert 0 < other["confidence"] < 1
    assert shown["recommended_reward"]["kind"] == "math"
    assert "\\boxed{}" in shown["recommended_reward"]["why"]
    assert json.loads(json.dumps(shown)) == shown


def test_every_format_has_a_reward_with_its_rule_or_says_what_to_do() -> None:
    formats: list[AnswerFormat] = [rule.format for rule in FORMAT_RULES]
    for format in (*formats, "label", "short_text", "free_text", "instruction_constraints"):
        told = recommend_reward(format)
        assert told.kind == TEMPLATES.get(format, NO_TEMPLATE)
        assert len(told.why) > 60
    assert {recommend_reward(f).kind for f in ("procedural", "instruction_constraints")} == {NO_TEMPLATE}
    assert "counted from 1" in recommend_reward("choice_index", index_base=1).why
    assert "all of the golds" in recommend_reward("multi_answer", any_of=False).why


def test_class_names_come_from_both_splits_and_from_a_column_that_spells_them() -> None:
    rows = [{"text": f"Note number {n} here.", "intent": ("pay", "ask")[n % 2]} for n in range(80)]
    found = inspect_table(table(rows, [{"text": "Late one of them.", "intent": "end"}]), DatasetRequest("d"))
    assert found.labels == ("ask", "end", "pay")
    spelt = [{"text": r["text"], "label": n % 2, "label_text": ("no", "yes")[n % 2]} for n, r in enumerate(rows)]
    assert judged(spelt).labels == ("no", "yes")
    assert judged([r | {"label_text": "no"} for r in spelt]).labels == ()


def test_golds_without_one_form_block() -> None:
    rows = [
        {"question": f"What is it in case {n}?", "answer": f"#### {n}" if n % 2 else rf"\boxed{{x_{n}}}"}
        for n in range(80)
    ]
    assert codes(judged(rows))["mixed-format"] == "blocker"


def test_no_rows_are_refused() -> None:
    with pytest.raises(BadInput, match="holds no rows"):
        judged([])


def test_twenty_thousand_rows_are_judged_in_a_moment() -> None:
    rows = [
        {
            "question": f"{'Natalia sold clips to many of her friends in April, and then ' * 4}{n} more. How many?",
            "answer": f"{'She sold half as many in May as in April. ' * 5}\n#### {n * 7:,}",
        }
        for n in range(20_000)
    ]
    whole = table(rows)
    started = time.process_time()
    inspect_table(whole, DatasetRequest("d"))
    assert time.process_time() - started < 5  # a third of it is usual; the rest is for slow machines


_LEAF = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["A", "²", "#### 4", r"\boxed{1", "[1]", "{", "yes", "a ) 1 , b ) 2", "a text of some words"]),
)
_KEYS = (
    "role",
    "content",
    "text",
    "label",
    "spans",
    "name",
    "arguments",
    "from",
    "value",
    "choices",
    "input",
    "output",
)
_VALUE = st.recursive(
    _LEAF,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(_KEYS), inner, max_size=3)),
    max_leaves=5,
)
_NAMES = (
    "question",
    "answer",
    "choices",
    "label",
    "options",
    "A",
    "B",
    "C",
    "messages",
    "a.b",
    "a",
    "target",
    "nums",
    "label_text",
    "context",
    "distractor1",
    "distractor2",
    "correct_answer",
    "instruction_id_list",
    "kwargs",
    "x y",
    "",
    "test",
    "answers",
    "reward_model",
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.dictionaries(st.sampled_from(_NAMES), _VALUE, max_size=7), min_size=1, max_size=6),
    st.sampled_from([None, "question", "question,context", "a.b"]),
    st.sampled_from([None, "answer", "label", "a.b"]),
    st.sampled_from([1, 4]),
)
@example([{"question": None}, {"answer": "####0"}, {"answer": []}], "question", None, 1)
def test_rows_of_any_shape_are_judged_or_refused_but_never_raise(
    rows: list[Row], prompt: str | None, answer: str | None, times: int
) -> None:
    features = {"label": {"dtype": "class_label", "names": ["a", "b"]}}
    try:
        found = inspect_table(
            table(rows * times, rows[:2], features), DatasetRequest("d"), prompt_column=prompt, answer_column=answer
        )
    except BadInput:
        return
    shown = found.as_json()
    assert shown["answer"] is None or 0 <= shown["answer"]["confidence"] <= 1
