"""One pass: the fingerprint, the sample, the digests, and what is counted from them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prime_lab_mcp.lab.datasets import digests, golds, scan
from prime_lab_mcp.lab.datasets.digests import EMPTY_DIGEST, count_repeats, row_gold_keys, row_task_keys
from prime_lab_mcp.lab.datasets.formats import AnswerFormat
from prime_lab_mcp.lab.datasets.observation import observe_rows
from prime_lab_mcp.lab.datasets.options import option_columns, options_of_row
from prime_lab_mcp.lab.datasets.row_values import compose_prompt, value_at
from prime_lab_mcp.lab.datasets.scan import ColumnTexts, ScannedSplit, SplitScan
from prime_lab_mcp.lab.datasets.tasks import TaskRow

Row = Mapping[str, Any]


def scanned(rows: Sequence[Row], keep: int = 1000, **more: Any) -> SplitScan:
    found = SplitScan("train", keep, 7, **more)
    for row in rows:
        found.take(dict(row), 10)
    found.result()
    return found


def fingerprint(rows: Sequence[Row]) -> str:
    found = SplitScan("train", 10, 7)
    for row in rows:
        found.take(dict(row), 10)
    return found.result().fingerprint


ROWS = [{"q": f"what is {n}?", "a": n, "c": None if n % 3 else [n, "x"]} for n in range(2500)]


@pytest.mark.parametrize("step", [1, 7, 1024, 5000])
def test_the_fingerprint_does_not_depend_on_how_the_rows_come(step: int) -> None:
    by_columns = SplitScan("train", 10, 7)
    for start in range(0, len(ROWS), step):
        part = ROWS[start : start + step]
        by_columns.take_columns({name: [row[name] for row in part] for name in ROWS[0]}, len(part))
    assert by_columns.result().fingerprint == fingerprint(ROWS)


@pytest.mark.parametrize(
    "other",
    [
        ROWS[:-1],
        [ROWS[1], ROWS[0], *ROWS[2:]],
        [{**ROWS[0], "q": ROWS[0]["q"] + "\0"}, *ROWS[1:]],
        [{**ROWS[0], "a": "0"}, *ROWS[1:]],
        [{**r, "d": 1} for r in ROWS],
        [{"Q": r["q"], "a": r["a"], "c": r["c"]} for r in ROWS],
    ],
    ids=["a-row-less", "another-order", "another-text", "another-type", "another-column", "another-name"],
)
def test_the_fingerprint_changes_with_the_rows(other: list[Row]) -> None:
    assert fingerprint(other) != fingerprint(ROWS)


def test_a_text_moved_from_one_row_to_the_next_changes_the_fingerprint() -> None:
    assert fingerprint([{"a": "x\0"}, {"a": ""}]) != fingerprint([{"a": "x"}, {"a": "\0"}])


def test_a_column_that_comes_late_is_null_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "CHUNK", 2)
    late = [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4, "b": "x"}]
    assert fingerprint(late) == fingerprint([{"b": None, **row} for row in late])


def test_the_sample_is_seeded_of_the_asked_size_and_spread_over_all() -> None:
    rows = [{"n": n} for n in range(20_000)]
    first, second = SplitScan("t", 500, 7), SplitScan("t", 500, 7)
    for row in rows:
        first.take(dict(row), 1)
        second.take(dict(row), 1)
    kept = [index for index, _ in first.result().rows]
    assert kept == [index for index, _ in second.result().rows]
    assert len(kept) == 500
    assert 7_000 < sum(kept) / 500 < 13_000


def test_a_class_with_one_row_in_many_is_in_the_sample() -> None:
    rows = [{"text": f"row {n}", "label": "rare" if n == 14_321 else "common"} for n in range(20_000)]
    found = SplitScan("t", 100, 7)
    for row in rows:
        found.take(dict(row), 1)
    kept = found.result().rows
    assert len(kept) == 100
    assert (14_321, {"text": "row 14321", "label": "rare"}) in kept


def test_the_sample_stays_within_its_characters_and_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "SAMPLED_ROWS", 50_000)
    rows = [{"text": f"{n} " + "x" * 100} for n in range(20_000)]
    found = SplitScan("t", 5_000, 7)
    for row in rows:
        found.take(dict(row), 1)
    kept = [index for index, _ in found.result().rows]
    assert 100 < len(kept) < 500
    assert 7_000 < sum(kept) / len(kept) < 13_000


def test_long_texts_are_cut_unless_rows_are_to_be_copied() -> None:
    row = {"q": "a" * 50_000 + "#### 42"}
    cut = SplitScan("t", 10, 7)
    whole = SplitScan("t", 10, 7, whole=True)
    cut.take(dict(row), 1)
    whole.take(dict(row), 1)
    assert whole.result().rows[0][1] == row
    text = cut.result().rows[0][1]["q"]
    assert len(text) < 13_000
    assert text.endswith("#### 42")


# --- digests ---------------------------------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from("aA bB\t\n\r\x1c\u00a0\u2003\u3000\u2028ﬁß…é1\0"), max_size=12)


@given(st.lists(TEXTS, min_size=2, max_size=6))
def test_texts_have_one_digest_exactly_when_they_are_the_same_prompt(values: list[str]) -> None:
    keys = digests.prompt_keys(ColumnTexts(values))
    for first, one in zip(values, keys, strict=True):
        for second, other in zip(values, keys, strict=True):
            assert (one == other) == (golds.normalised_text(first) == golds.normalised_text(second)), (first, second)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("by adding\n#### 1,200", "at once\n#### 1200", True),
        ("x\n#### 12", "x\n#### 13", False),
        ("so \\boxed{ x+1 }", "thus \\boxed{x+1}", True),
        ("75.0", 75, True),
        (75.0, 75, True),
        ("Paris", " paris ", True),
        (["a", "b"], ["B", "a"], True),
        ({"text": ["a"], "answer_start": [1]}, {"text": ["a"], "answer_start": [9]}, True),
        ("Paris", "Rome", False),
        (True, "true", True),
        (True, False, False),
    ],
)
def test_golds_have_one_digest_when_they_say_the_same(one: Any, other: Any, same: bool) -> None:
    def key(value: Any) -> int:
        column = ColumnTexts([value])
        found = digests.gold_keys(column)
        return (digests.prompt_keys(column) if found is None else found)[0]

    assert (key(one) == key(other)) is same


LONG = "word " * 20


@pytest.mark.parametrize(
    "value",
    ['["one answer of a list", "and a second one of it", "a third"]', LONG, LONG + "#### 7", LONG + "\\boxed{7}"],
)
@pytest.mark.parametrize("beside", ["7", LONG + "x", "#### 1", "\\boxed{1}", "[1]", None, 7, ["a"]])
def test_a_gold_has_the_same_digest_whatever_stands_beside_it(value: str, beside: Any) -> None:
    def key(values: list[Any]) -> int:
        column = ColumnTexts(values)
        found = digests.gold_keys(column)
        return (digests.prompt_keys(column) if found is None else found)[0]

    assert key([value, beside]) == key([value])


@pytest.mark.parametrize("value", [None, "", " ", "n/a", [], [""], {}])
def test_no_gold_has_the_digest_of_none(value: Any) -> None:
    assert (digests.gold_keys(ColumnTexts([value, "x"])) or [None])[0] == EMPTY_DIGEST


def counted(rows: Sequence[Row], prompt: Sequence[str], answer: str, held: Sequence[Row] = ()) -> tuple[int, int, int]:
    main, other = scanned(rows).digests, scanned(held).digests
    keys = row_task_keys(main, prompt)
    assert keys is not None
    asked = row_task_keys(other, prompt) if held else None
    found = count_repeats(keys, row_gold_keys(main, answer), asked, text=lambda _: None, held_text=lambda _: None)
    return found.duplicates.total, found.conflicts.total, found.leaks.total


def test_repetitions_conflicts_and_leaks_are_counted_over_all_rows() -> None:
    rows = [{"question": f"What is {n}?", "answer": f"so\n#### {n}"} for n in range(3000)]
    rows += [{"question": f" what is  {n}? ", "answer": f"thus\n#### {n + (n < 5)}"} for n in range(50)]
    held = [{"question": f"WHAT IS {n}?", "answer": "x"} for n in range(2990, 3010)]
    assert counted(rows, ["question"], "answer", held) == (50, 5, 10)


def test_a_prompt_of_several_columns_repeats_only_when_all_do() -> None:
    rows = [{"context": f"c{n % 10}", "question": f"q{n % 7}", "answer": n} for n in range(70)]
    assert counted(rows, ["context", "question"], "answer")[0] == 0
    assert counted([*rows, rows[0]], ["context", "question"], "answer")[0] == 1


def test_the_same_question_with_other_options_is_another_task() -> None:
    rows = [{"question": "Which is best?", "choices": [f"a{n}", f"b{n}"], "answer": "A"} for n in range(60)]
    assert counted(rows, ["question"], "answer")[:2] == (0, 0)


def test_shuffled_options_with_the_right_letter_do_not_conflict() -> None:
    rows = [{"question": f"Q{n}?", "choices": ["x", "y"], "answer": "A"} for n in range(60)]
    assert counted([*rows, {"question": "Q3?", "choices": ["y", "x"], "answer": "B"}], ["question"], "answer") == (
        1,
        0,
        0,
    )
    assert counted([*rows, {"question": "Q3?", "choices": ["y", "x"], "answer": "A"}], ["question"], "answer") == (
        1,
        1,
        0,
    )


@pytest.mark.parametrize("base", [0, 1])
def test_shuffled_options_counted_from_either_end_are_told_apart(base: int) -> None:
    rows = [{"question": f"Q{n}?", "choices": ["x", "y"], "label": base + n % 2} for n in range(60)]
    again = [{"question": "Q2?", "choices": ["y", "x"], "label": base + 1}]
    assert counted([*rows, *again], ["question"], "label") == (1, 0, 0)


def test_a_field_of_an_object_is_an_answer_too() -> None:
    rows = [{"question": f"Q{n}?", "answers": {"text": [f"a{n}"], "answer_start": [n]}} for n in range(50)]
    other = {"question": "Q3?", "answers": {"text": ["other"], "answer_start": [3]}}
    assert counted([*rows, rows[4], other], ["question"], "answers.text") == (2, 1, 0)


def test_a_column_without_digests_is_not_counted_rather_than_guessed() -> None:
    assert row_task_keys(scanned(ROWS).digests, ["nothing"]) is None


def test_a_column_of_answers_beside_one_that_asks_has_digests_of_answers_only() -> None:
    rows = [{"question": f"Q{n}", "answer": f"x\n#### {n}"} for n in range(20)]
    assert row_task_keys(scanned(rows).digests, ["answer"]) is None
    assert row_task_keys(scanned(rows, requested_columns=("answer",)).digests, ["answer"]) is not None


def test_digests_beyond_their_bytes_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "MOST_BYTES", 1000)
    found = scanned(ROWS).digests
    assert found.dropped
    assert row_task_keys(found, ["q"]) is None


def test_counting_by_parts_counts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = array("q", [hash(str(n % 700)) for n in range(1000)])
    answers = array("q", [1 + n // 900 for n in range(1000)])
    held = array("q", [hash(str(n)) for n in range(690, 720)])

    def count() -> tuple[int, int, int, list[Any]]:
        found = count_repeats(keys, answers, held, text=lambda n: f"row {n}", held_text=lambda n: f"held {n}")
        return found.duplicates.total, found.conflicts.total, found.leaks.total, found.leaks.examples

    whole = count()
    monkeypatch.setattr("prime_lab_mcp.lab.datasets.digests.PART", 90)
    assert count() == whole
    assert whole[:3] == (300, 100, 10)
    assert whole[3][0] == {"row": 0, "value": '"held 0"', "train_row": 690}


def _letters(n: int) -> dict[str, Any]:
    options = [f"thing {n}", f"other {n}", f"third {n}"]
    return {"question": f"Which thing is {n}?", "choices": options[n % 3 :] + options[: n % 3], "answer": "ABC"[n % 3]}


SHAPES: Mapping[str, tuple[tuple[str, ...], str, AnswerFormat, list[Row]]] = {
    "gsm8k": (
        ("question",),
        "answer",
        "gsm8k_hash",
        [{"question": f"How many are {n % 40}?", "answer": f"By way {n}.\n#### {n % 37:,}"} for n in range(120)],
    ),
    "squad": (
        ("context", "question"),
        "answers.text",
        "multi_answer",
        [
            {"context": f"Town {n % 30}.", "question": f"Who {n % 4}?", "answers": {"text": [f"R{n % 50}", "the R"]}}
            for n in range(120)
        ],
    ),
    "imdb": (("text",), "label", "class_id", [{"text": f"Film {n % 50} …", "label": n % 3} for n in range(120)]),
    "mmlu": (("question",), "answer", "choice_letter", [_letters(n % 41) for n in range(120)]),
    "math": (
        ("problem",),
        "solution",
        "boxed",
        [{"problem": f"Find ${n % 40}$", "solution": rf"Way {n}: \boxed{{{n % 39}}}"} for n in range(120)],
    ),
    "trivia": (
        ("question",),
        "answer",
        "short_text",
        [{"question": f"Q {n % 35}", "answer": f"Al {n % 70}"} for n in range(120)],
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_counts_over_all_rows_are_those_of_the_findings_where_every_row_is_judged(name: str) -> None:
    prompt, answer, form, rows = SHAPES[name]
    held = rows[100:]
    train = ScannedSplit("train", tuple(enumerate(rows[:100])), 100, True, "")
    other = ScannedSplit("test", tuple(enumerate(held)), len(held), True, "")
    options = option_columns(rows)

    def plain(scanned: ScannedSplit) -> list[TaskRow]:
        found = []
        for index, row in scanned.rows:
            texts, place = options_of_row(row, options, answer) if options else ((), None)
            gold = value_at(row, answer)
            asked = compose_prompt(row, prompt)
            found.append(TaskRow(asked, golds.gold_text(gold), index, gold, options=texts, gold_option=place))
        return found

    seen = observe_rows(plain(train), form, plain(other))
    judged = (seen.duplicates.total, seen.conflicts.total, seen.leaks.total)
    assert counted(rows[:100], prompt, answer, held) == judged
    main, beside = scanned(rows[:100]).digests, scanned(held).digests
    keys, asked = row_task_keys(main, prompt), row_task_keys(beside, prompt)
    assert keys is not None
    golds_of = (row_gold_keys(main, answer), row_gold_keys(beside, answer))
    over_all = count_repeats(keys, golds_of[0], asked, golds_of[1], text=lambda _: None, held_text=lambda _: None)
    assert over_all.copies is not None
    assert over_all.copies.total == seen.copies.total
    assert over_all.most_frequent == 1 + max(seen.repeated.values())
    assert judged[0] > 0
