"""Other spellings of a right answer, answers cut off, and answers that are wrong or half right, format by format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prime_lab_mcp.lab.datasets.formats import AnswerFormat
from prime_lab_mcp.lab.datasets.task_golds import SampleGolds, gold_candidates
from prime_lab_mcp.lab.rewards.probes import answer_formats
from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE, BOXED, tag_wrapper
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, build_probes
from prime_lab_mcp.lab.rewards.probes.spellings import spelling_variants
from prime_lab_mcp.lab.rewards.probes.wrong_answers import (
    OTHER_ORDER,
    crossed_answers,
    half_right_answers,
    one_item_suffices,
    wrong_answers,
)
from prime_lab_mcp.lab.worker.description import Row


def golds(*answers: Any, asked: str = "") -> SampleGolds:
    made = [
        Row(n, str(n), ({"role": "user", "content": f"Question {n}?{asked}"},), answer, None, {})
        for n, answer in enumerate(answers)
    ]
    return gold_candidates(made)[0]


def wrong(found: SampleGolds, row: int = 0, form: int = 0) -> dict[str, str]:
    """answer -> name"""
    return {w.answer: w.name for w in wrong_answers(found, found.golds[row], form)}


@pytest.mark.parametrize(
    ("format", "said", "expected"),
    [
        ("numeric", "1200", {"1,200", "1200.0", "1200.", "+1200", "1.2e3", "1 200", "$1200", "1200 units"}),
        ("numeric", "-5", {"\N{MINUS SIGN}5", "-5.0"}),
        ("latex_math", "1/2", {"\\frac{1}{2}", "\\dfrac{1}{2}", "0.5", "$1/2$"}),
        ("latex_math", "x+1", {"1+x"}),
        ("latex_math", "(x)^2", {"\\left(x\\right)^2"}),
        ("boolean", "yes", {"YES", "Yes", "yes.", "true"}),
        ("choice_letter", "B", {"b", "(B)", "B.", "B) blue", "blue"}),
        ("short_text", "Red", {"red", "Red.", "the Red"}),
        ("multi_answer", "blue, red", {"red, blue"}),
        ("json", '{"a": 1, "b": [2]}', {'{"b": [2], "a": 1}', '```json\n{"a": 1, "b": [2]}\n```'}),
    ],
)
def test_a_right_answer_is_written_in_the_ways_of_its_format(
    format: AnswerFormat, said: str, expected: set[str]
) -> None:
    parts = {"B": ("blue",), "blue, red": ("blue", "red")}.get(said, ())
    found = {v.answer for v in spelling_variants(format, said, parts=parts)}
    assert expected <= found
    assert said not in found


def test_another_order_of_items_is_usual_only_where_the_task_asks_for_none() -> None:
    def usual(prompt: str) -> bool:
        found = spelling_variants("multi_answer", "a, b", prompt=prompt, parts=("a", "b"))
        return next(v.usual for v in found if v.answer == "b, a")

    assert usual("Name the divisors.")
    assert not usual("Name the divisors in ascending order.")


@pytest.mark.parametrize("wrapper", [BARE, BOXED, tag_wrapper("answer")], ids=["plain", "boxed", "tag"])
def test_nothing_that_is_cut_off_holds_the_answer(wrapper: Any) -> None:
    cuts = list(answer_formats.truncated_completions(wrapper, "1200", "numeric"))
    assert len(cuts) >= 4
    assert all("1200" not in text and wrapper.reasoned("1200").startswith(text) for _, text in cuts)


def test_the_beginning_of_a_text_may_earn_something_so_it_is_not_cut_inside() -> None:
    said = "Mia lost her key and found it under the mat. " * 10
    assert all(
        "Mia" not in text for _, text in answer_formats.truncated_completions(tag_wrapper("answer"), said, "free_text")
    )


def test_a_list_of_one_is_joined_in_the_same_way_as_a_list_of_several() -> None:
    found = golds(["7"], ["2", "3"], ["11"])
    assert [g.form(0) for g in found.golds] == ["7", "2, 3", "11"]


def test_labels_that_begin_alike_are_tried_and_so_are_shortened_and_longer_ones() -> None:
    found = wrong(golds(*["billing", "billing_disputes", "shipping", "returns"] * 10), 1)
    assert {"billing", "billing_disput", "billing_disputesson", "not billing_disputes", "shipping"} <= found.keys()


def test_a_letter_beside_another_is_wrong() -> None:
    assert {"A", "C", "D", "BA", "AB"} <= wrong(golds(*"BADC" * 5, asked="\nA) red\nB) blue\nC) grey\nD) pink")).keys()


def test_every_value_of_an_object_is_changed_and_an_empty_one_is_wrong() -> None:
    found = wrong(golds(*[json.dumps({"n": n, "ok": True}) for n in range(8)]))
    assert {'{"n": 1, "ok": true}', '{"n": 0, "ok": false}', '{"ok": true}', "{}"} <= found.keys()


def test_calls_of_other_functions_with_other_arguments_or_one_too_many_are_wrong() -> None:
    calls = [[{"name": f"get_{n % 3}", "arguments": {"city": f"c{n}", "days": n}}] for n in range(9)]
    found = golds(*map(json.dumps, calls))
    assert found.format == "tool_call"
    names = set(wrong(found).values())
    assert {"other function", "wrong argument", "argument missing", "one call too many", "empty object"} <= names


def test_an_expression_is_not_its_negative_or_its_inverse_and_a_set_is_left_alone() -> None:
    found = golds("\\sqrt{2}", "\\frac{1}{3}", "x^2+1", "\\pi", "\\{1,-1\\}", "2\\sqrt{5}")
    said = wrong(found, 0)
    assert {"-(\\sqrt{2})", "\\frac{1}{\\sqrt{2}}"} <= said.keys()
    assert "sign flipped" not in wrong(found, 4).values()


def test_a_time_twelve_hours_away_is_wrong_only_on_the_clock_of_24_hours() -> None:
    assert wrong(golds("03:30", "15:45", "22:10"))["15:30"] == "twelve hours away"
    assert "twelve hours away" not in wrong(golds("3:30", "5:45", "11:10")).values()


def test_queries_of_other_tasks_may_find_the_same_rows_and_are_not_called_wrong() -> None:
    found = golds(*(f"SELECT name FROM staff WHERE pay > {n}" for n in range(4)))
    assert wrong(found) == {"SELECT 'zzyzx quux'": "nothing to do with it"}


def test_items_in_another_order_are_half_right_only_where_the_prompt_demands_an_order() -> None:
    found = golds(["red", "blue"], ["green", "grey"], ["pink", "teal"])
    form = found.golds[0].forms.index("red, blue")

    def turned(prompt: str, instructions: str = "") -> list[tuple[str, bool]]:
        answers = half_right_answers(found, found.golds[0], form, prompt, instructions)
        return [(w.answer, w.knowing) for w in answers if w.name == OTHER_ORDER]

    assert turned("Which colours?") == []
    assert turned("Which colours, in alphabetical order?") == [("blue, red", True)]
    assert turned("The colours, please.", "Lists are sorted from A to Z.") == [("blue, red", True)]
    assert turned("Rank blue and red by wavelength.") == [("blue, red", False)]


def test_a_query_is_turned_where_its_rows_are_asked_for_in_an_order() -> None:
    found = golds(*(f"SELECT a FROM t WHERE b = {n} ORDER BY c DESC, a" for n in range(3)))
    assert [
        w.answer for w in half_right_answers(found, found.golds[0], 0, "Highest c first, equal ones sorted by a")
    ] == ["SELECT a FROM t WHERE b = 0 ORDER BY c, a DESC"]
    assert half_right_answers(found, found.golds[0], 0, "All a.") == []


def test_half_right_lists_and_texts_are_told_from_wrong_ones() -> None:
    found = golds(["red", "blue"], ["green", "grey"], ["pink", "teal"])
    all_of_them, one = (found.golds[0].forms.index(form) for form in ("red, blue", "red"))
    assert [w.answer for w in half_right_answers(found, found.golds[0], all_of_them)] == ["red", "red, blue, green"]
    assert half_right_answers(found, found.golds[0], one) == []
    asked = half_right_answers(found, found.golds[0], all_of_them, "Name any of the colours.")
    assert [w.answer for w in asked] == ["red, blue, green"]
    texts = golds("Paris", "Oslo", "Rome", "Bern", "Kyiv", "Lima", "Riga")
    assert any(w.answer == "Paris and Bern" for w in half_right_answers(texts, texts.golds[0], 0))


def test_answers_of_other_tasks_have_nothing_in_common_with_the_gold() -> None:
    found = golds("7", "7", "12", "1", "30")
    pairs = crossed_answers(found, 0, 20)
    assert len(pairs) == 20
    assert all(gold.raw not in answer and answer not in gold.raw for gold, answer in pairs)
    assert crossed_answers(golds("7", "7"), 0, 20) == []


def test_a_unit_is_exchanged_for_that_of_another_task_or_for_one_that_none_has() -> None:
    several = golds("140 g", "1.2 kg", "70 g", "8 m")
    assert {w.answer for w in half_right_answers(several, several.golds[0], 0)} >= {"140 kg", "140 m"}
    alike = golds("5 km/h", "12 km/h", "30 km/h")
    said = alike.golds[0].forms.index("5 km/h")
    assert [w.answer for w in half_right_answers(alike, alike.golds[0], said)][-1] == "5 kg"


def test_a_mixed_number_has_the_wrong_answers_of_parsers_that_misread_it() -> None:
    found = golds("4 7/12", "2 1/3", "-1 1/2", "6 3/5")
    assert {"7/3", "47/12", "11/12", "7/12", "4"} <= set(wrong(found))
    assert "55/12" not in wrong(found)
    assert "55/12" in {variant.answer for variant in spelling_variants("latex_math", "4 7/12")}


@pytest.mark.parametrize("answer", ["4/7", "4 7", "4 7/0", "12"])
def test_other_texts_are_no_mixed_numbers(answer: str) -> None:
    assert "improper fraction" not in {variant.name for variant in spelling_variants("latex_math", answer)}


@pytest.mark.parametrize(
    ("prompt", "turned"),
    [
        ("Name all closed stops, separated by commas.", True),
        ("Name all closed stops in alphabetical order, separated by commas.", False),
        ("In which town is the mill?", False),
    ],
)
def test_a_list_with_commas_is_also_written_in_another_order_where_none_is_asked_for(prompt: str, turned: bool) -> None:
    written = {variant.answer for variant in spelling_variants("short_text", "Mill, Opera, Bridge", prompt=prompt)}
    assert ("Bridge, Opera, Mill" in written) is turned


def test_a_code_with_leading_zeros_is_stated_as_it_is_stored() -> None:
    assert [gold.forms[0] for gold in golds("0985", "3210", "0007").golds] == ["0985", "3210", "0007"]


@pytest.mark.parametrize(("others", "knowing"), [(("12", "40"), True), (("-12", "40"), False)])
def test_a_minus_before_the_right_number_is_wrong_only_where_answers_have_signs(
    others: tuple[str, ...], knowing: bool
) -> None:
    found = golds("3210", *others)
    flipped = next(w for w in wrong_answers(found, found.golds[0], 0) if w.name == "sign flipped")
    assert (flipped.answer, flipped.knowing) == ("-3210", knowing)


@pytest.mark.parametrize(
    ("answers", "text", "expected"),
    [
        ((["of", "on"], ["to"], ["in"]), "Which preposition follows?", True),
        ((["of", "on"], ["to", "with"]), "Which preposition follows? One is enough.", True),
        ((["2", "3"], ["5"], ["7"]), "List all prime factors.", False),
        ((["2", "3"], ["5", "7"]), "Which prime factors?", False),
    ],
)
def test_items_of_a_list_are_alternatives_where_one_is_asked_for_or_usual(
    answers: tuple[list[str], ...], text: str, expected: bool
) -> None:
    assert one_item_suffices(golds(*answers), [text]) is expected


@pytest.mark.parametrize(
    ("asked", "answer", "near"),
    [
        ("", "20", False),
        (" An error of 5 % is allowed.", "20", True),
        (" Answers within 2 percent count.", "20", False),
        (" Give a rough estimate.", "20", True),
        ("", "20.5", True),
        ("", "12.5", False),
    ],
)
def test_a_number_is_near_by_what_the_prompt_allows_and_for_measurements(asked: str, answer: str, near: bool) -> None:
    found = golds(answer, "300", asked=asked)
    off = next(w for w in wrong_answers(found, found.golds[0], 0) if w.name == "off by one")
    assert off.near is near


def test_other_spellings_of_several_fields_leave_their_tags() -> None:
    fields = "Tartu\n</city>\n<day>\nMonday"
    for format in ("label", "short_text"):
        variants = {v.name: v.answer for v in spelling_variants(format, fields)}
        assert [a for a in variants.values() if "</city>\n<day>" not in a] == []
    upper = {v.name: v.answer for v in spelling_variants("label", fields)}["upper case"]
    assert upper == "TARTU\n</city>\n<day>\nMONDAY"


@pytest.mark.parametrize("answer", ["2100 s", "240 h", "-30 kg", "2100s"])
def test_other_spellings_of_a_quantity_keep_its_unit(answer: str) -> None:
    unit = answer.lstrip("-0123456789")
    found = {v.name: v.answer for v in spelling_variants("numeric", answer)}
    assert found["decimal"] == f"{answer.removesuffix(unit)}.0{unit}"
    assert all(unit in text for text in found.values())
    assert found.get("thousands comma", f"2,100{unit}") == f"2,100{unit}"


def test_the_letters_of_a_word_in_another_order_are_wrong_unless_they_are_another_answer() -> None:
    words = golds("planet", "abbey", "tale")
    names = {
        n: [w.answer for w in wrong_answers(words, gold, 0) if "A to Z" in w.name] for n, gold in enumerate(words.golds)
    }
    assert names == {0: ["aelnpt"], 1: [], 2: ["aelt"]}


@pytest.mark.parametrize(("counts", "wrong"), [("Mind the case.", {"AbC1x": "aBc1X"}), ("", {})])
def test_letters_in_the_other_case_are_wrong_where_the_prompt_says_so(counts: str, wrong: dict[str, str]) -> None:
    codes = ("AbC1x", "bBa2q")
    rows = {
        n: Row(n, str(n), ({"role": "user", "content": f"Turn it. {counts}"},), c, None, {})
        for n, c in enumerate(codes)
    }
    style = AnswerStyle(golds(*codes), 0, BARE)
    probes = build_probes(style, style.golds.golds[:1], rows, hacks=False)
    assert {codes[p.row]: p.completion for p in probes if "other case" in p.label} == wrong
