"""Findings about how answers, options and prompts are spread over a split, and over both splits."""

from __future__ import annotations

import math
import random

import pytest

from prime_lab_mcp.lab.base import statistics
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.datasets.findings import row_findings
from prime_lab_mcp.lab.datasets.public_test_sets import known_benchmark
from prime_lab_mcp.lab.datasets.tasks import FlawTally, RepeatCounts, TaskRow


def found(rows: list[TaskRow], format: str, **more: object) -> dict[str, Finding]:
    return {f.code: f for f in row_findings(rows, format=format, **more)}  # type: ignore[arg-type]


def choice(n: int, right: int, options: int = 4) -> TaskRow:
    texts = tuple(f"thing {n * 10 + k}" for k in range(options))
    return TaskRow(f"Which one is it, number {n}?", "ABCDE"[right], n, offered=True, options=texts, gold_option=right)


def choices(*counts: int) -> list[TaskRow]:
    """So many rows with each position right, in a mixed order."""
    rights = [k for k, number in enumerate(counts) for _ in range(number)]
    random.Random(1).shuffle(rights)
    return [choice(n, right, len(counts)) for n, right in enumerate(rights)]


@pytest.mark.parametrize(
    ("statistic", "freedom", "expected"),
    [(3.841, 1, 0.05), (16.266, 3, 0.001), (9.488, 4, 0.05), (1.0, 4, 0.90980), (60.0, 3, 5.88e-13), (0.0, 3, 1.0)],
)
def test_the_survival_function_agrees_with_published_tables(statistic: float, freedom: int, expected: float) -> None:
    assert statistics.chi_square_survival(statistic, freedom) == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("x", [0.1, 1.0, 5.0, 40.0])
def test_with_two_degrees_of_freedom_it_is_the_exponential(x: float) -> None:
    assert statistics.chi_square_survival(x, 2) == pytest.approx(math.exp(-x / 2), rel=1e-9)


def test_options_right_equally_often_are_no_bias() -> None:
    assert found(choices(100, 105, 95, 100), "choice_letter") == {}


def test_the_small_tilt_of_a_real_benchmark_is_no_bias() -> None:
    mmlu = choices(*(round(share * 14_042 / 4) for share in (0.229, 0.246, 0.255, 0.269)))
    assert "position-bias" not in found(mmlu, "choice_letter")


def test_a_position_that_is_right_too_often_warns_with_shares_and_p() -> None:
    finding = found(choices(160, 80, 80, 80), "choice_letter")["position-bias"]
    assert finding.severity == "warning"
    assert "1: 40%" in finding.message
    assert "p < 1e-9" in finding.message


def test_options_that_were_never_shuffled_block_and_the_floor_is_said_per_position() -> None:
    seen = found(choices(390, 4, 3, 3), "choice_letter")
    assert seen["position-bias"].severity == "blocker"
    assert seen["majority-floor"].severity == "blocker"
    assert "scores 0.97" in seen["majority-floor"].message
    assert seen["majority-floor"].rows[0] == {"value": '"position 1"', "count": 390}


def test_numbers_of_options_are_judged_apart() -> None:
    two = choices(100, 100)
    five = [choice(n + 500, n % 5, 5) for n in range(200)]
    assert found(two + five, "choice_index") == {}


def test_few_rows_show_no_bias() -> None:
    assert "position-bias" not in found(choices(9, 3, 3, 3), "choice_letter")


def test_letters_without_known_options_are_judged_too() -> None:
    rows = [TaskRow(f"Number {n}? (A) x{n} (B) y{n}", "A" if n % 10 else "B", n, offered=True) for n in range(200)]
    assert found(rows, "choice_letter")["position-bias"].severity == "blocker"


@pytest.mark.parametrize(("in_order", "severity"), [(60, "blocker"), (36, "warning"), (10, None)])
@pytest.mark.parametrize("listed", ["BCAD", "ABCD"], ids=["list", "labels"])
@pytest.mark.parametrize("as_list", [False, True], ids=["text", "items"])
def test_items_whose_list_or_labels_have_the_right_order_already_are_told(
    in_order: int, severity: str | None, listed: str, as_list: bool
) -> None:
    rows = []
    for n in range(60):
        order = [*"BCAD"] if n < in_order else [*"CADB"]
        order = [*"ABCD"] if n < in_order and listed == "ABCD" else order
        shown = [*"DBAC"] if listed == "ABCD" else [*listed]
        prompt = f"Order the events of story {n}.\n" + "\n".join(f"({label}) event {n}" for label in shown)
        rows.append(TaskRow(prompt, ", ".join(order), n, raw=order if as_list else ", ".join(order)))
    said = found(rows, "multi_answer" if as_list else "short_text").get("position-bias")
    assert (said.severity if said is not None else None) == severity


def test_options_that_all_rows_share_are_classes_and_not_positions() -> None:
    rows = [
        TaskRow(f"Does {n} follow?", "A" if n % 10 < 6 else "B", n, options=("yes", "no"), gold_option=int(n % 10 >= 6))
        for n in range(300)
    ]
    seen = found(rows, "choice_letter")
    assert "position-bias" not in seen
    assert seen["majority-floor"].severity == "warning"


def test_an_answer_that_names_no_option_is_unparseable() -> None:
    stray = TaskRow("Which one?", "the last", 900, options=("a", "b", "c", "d"))
    finding = found([*choices(50, 50, 50, 50), stray], "choice_index")
    assert "mixed-format" not in finding
    assert finding["gold-unparseable"].severity == "warning"
    assert finding["gold-unparseable"].rows[0]["row"] == 900


def test_the_same_question_with_shuffled_options_repeats_and_does_not_conflict() -> None:
    rows = choices(50, 50, 50, 50)
    again = [
        TaskRow(r.prompt, "?", 900 + n, options=r.options[::-1], gold_option=3 - (r.gold_option or 0))
        for n, r in enumerate(rows[:10])
    ]
    seen = found(rows + again, "choice_index")
    assert seen["duplicate-prompt"].rows[0]["row"] == 900
    assert "conflicting-gold" not in seen


def test_the_same_stem_with_other_options_is_another_question() -> None:
    rows = [
        TaskRow("Which statement is true?", "A", n, options=(f"s{n}", f"t{n}"), gold_option=n % 2) for n in range(100)
    ]
    assert found(rows, "choice_letter") == {}


def labelled(golds: list[str]) -> list[TaskRow]:
    return [TaskRow(f"Review {n} says something of its own", gold, n) for n, gold in enumerate(golds)]


def test_a_file_sorted_by_label_as_imdb_is_warns() -> None:
    finding = found(labelled(["neg"] * 100 + ["pos"] * 100), "label")["sorted-by-label"]
    assert finding.severity == "warning"
    assert "first tenth" in finding.message
    assert [row["row"] for row in finding.rows] == [0, 100, 199]


def test_the_order_is_that_of_the_file_and_not_of_the_sample() -> None:
    rows = labelled(["neg"] * 100 + ["pos"] * 100)
    random.Random(1).shuffle(rows)
    assert "sorted-by-label" in found(rows, "label")


def test_many_small_classes_in_blocks_are_sorted_too() -> None:
    golds = [f"class {n // 10}" for n in range(200)]
    assert "stand together" in found(labelled(golds), "label")["sorted-by-label"].message


def test_mixed_labels_and_a_rare_class_are_not_sorted() -> None:
    r = random.Random(1)
    assert "sorted-by-label" not in found(labelled([r.choice(["a", "b"]) for _ in range(200)]), "label")
    assert "sorted-by-label" not in found(labelled(["b" if n % 50 == 49 else "a" for n in range(200)]), "label")


def test_a_share_that_a_small_set_reaches_by_chance_is_no_floor() -> None:
    r = random.Random(4)
    assert "majority-floor" not in found(labelled([f"class {r.randrange(20)}" for _ in range(70)]), "label")


def test_counts_over_all_rows_replace_those_of_the_sample() -> None:
    rows = [TaskRow(f"Question number {n} of many", f"#### {n + 5000}", n) for n in range(200)]
    tallies = [FlawTally(n, [{"row": 7, "value": '"shown"'}]) for n in (400_000, 20_000, 5)]
    repeats = RepeatCounts(1_000_000, 10_000, duplicates=tallies[0], conflicts=tallies[1], leaks=tallies[2])
    seen = found(rows, "gsm8k_hash", eval_rows=rows[:3], repeats=repeats)
    assert seen["duplicate-prompt"].message.startswith("400,000 of 1,000,000 rows (40.0%)")
    assert seen["conflicting-gold"].message.startswith("20,000 of 1,000,000 rows (2.0%)")
    assert seen["leak-exact"].message.startswith("5 of 10,000 rows")
    assert seen["leak-exact"].rows == ({"row": 7, "value": '"shown"'},)


def test_a_sample_without_repetition_of_a_split_with_few_prompts_is_a_small_set() -> None:
    rows = [TaskRow(f"Question number {n} of many", f"#### {n + 5000}", n) for n in range(50)]
    none = FlawTally()
    assert "small-set" in found(rows, "gsm8k_hash", repeats=RepeatCounts(60, 0, none, none, none))
    assert "small-set" not in found(rows, "gsm8k_hash", repeats=RepeatCounts(6_000, 0, none, none, none))


@pytest.mark.parametrize("format", ["free_text", "code_tests", "chat_messages"])
def test_two_different_open_ended_answers_do_not_contradict(format: str) -> None:
    rows = [TaskRow(f"Write about {n // 2}", f"assert text {n}", n) for n in range(200)]
    assert "conflicting-gold" not in found(rows, format)


@pytest.mark.parametrize(
    ("dataset", "held", "expected"),
    [
        ("HuggingFaceH4/MATH-500", 0, "is a public test set"),
        ("openai/openai_humaneval", 0, "is a public test set"),
        ("Maxwell-Jia/AIME_2024", 0, "is a public test set"),
        ("openai/gsm8k", 3, "has a public test split"),
        ("someone/GSM8K", 3, "has a public test split"),
        ("cais/mmlu", 3, "has a public test split"),
        ("EleutherAI/hendrycks_math", 3, "has a public test split"),
    ],
)
def test_a_public_benchmark_as_held_out_set_warns(dataset: str, held: int, expected: str) -> None:
    rows = [TaskRow(f"Question number {n} of many", f"#### {n + 5000}", n) for n in range(100)]
    finding = found(
        rows, "gsm8k_hash", eval_rows=[TaskRow(f"Other {n}", "#### 1", n) for n in range(held)], benchmark=dataset
    )
    assert expected in finding["contaminated-benchmark"].message
    assert finding["contaminated-benchmark"].severity == "warning"


@pytest.mark.parametrize("dataset", ["me/gsm8k-synthetic", "me/math", "my-company/support-tickets", "data/train.jsonl"])
def test_other_datasets_are_no_benchmark(dataset: str) -> None:
    assert known_benchmark(dataset) is None


def test_only_training_on_the_training_split_of_a_benchmark_is_fine() -> None:
    rows = [TaskRow(f"Question number {n} of many", f"#### {n + 5000}", n) for n in range(100)]
    assert found(rows, "gsm8k_hash", benchmark="openai/gsm8k") == {}
