"""The template json: when two JSON texts are the same value, and what is refused."""

from __future__ import annotations

import json

import pytest

from tests.templates.loading import modules

_LOADED = modules("json", "answers", "shape", "values")
answers, shape, values = _LOADED["answers"], _LOADED["shape"], _LOADED["values"]
GOLD = '{"name": "Zoë", "n": 1, "ok": true, "tags": ["a", "b"], "none": null, "price": 2.50}'


def paid(said: str, gold: str = GOLD) -> float:
    return answers.score(f"So: <answer>{said}</answer>", gold)


@pytest.mark.parametrize(
    "said",
    [
        GOLD,
        json.dumps(json.loads(GOLD), indent=2, sort_keys=True),
        json.dumps(json.loads(GOLD), separators=(",", ":"), ensure_ascii=True),
        f"```json\n{GOLD}\n```",
        f"```\n{GOLD}```",
        GOLD.replace('"n": 1', '"n": 1.0'),
        GOLD.replace("2.50", "25e-1"),
        GOLD.replace("Zoë", "Zoe\u0308"),
    ],
)
def test_the_same_value_is_right_however_it_is_written(said: str) -> None:
    assert paid(said) == 1.0


@pytest.mark.parametrize(
    "said",
    [
        GOLD.replace('"n": 1', '"n": true'),
        GOLD.replace('"n": 1', '"n": "1"'),
        GOLD.replace("true", "1"),
        GOLD.replace('"none": null, ', ""),
        GOLD.replace('["a", "b"]', '["b", "a"]'),
        GOLD.replace("2.50", "2.5000000001"),
        GOLD.replace("}", ', "more": 1}'),
        GOLD.replace("Zoë", "zoë"),
        f"[{GOLD}]",
    ],
)
def test_another_value_is_wrong_but_in_form(said: str) -> None:
    assert paid(said) == 0.0
    assert answers.in_form(f"<answer>{said}</answer>")


@pytest.mark.parametrize(
    "said",
    [
        GOLD.replace("}", ', "n": 1}'),
        GOLD.replace("2.50", "NaN"),
        GOLD.replace("2.50", "Infinity"),
        f"{GOLD} {GOLD}",
        f"Here it is: {GOLD}",
        GOLD[:-1],
        GOLD.replace('"', "'"),
        "[" * 5000 + "]" * 5000,
        "[" * 60 + "]" * 60,
        "[" + "1," * 40_000 + "1]",
        "[1" + "0" * 6000 + "]",
        "{}",
        "[]",
        "3",
        "TODO",
        "",
    ],
)
def test_what_is_no_strict_json_object_or_list_is_no_answer(said: str) -> None:
    assert paid(said) == 0.0
    assert not answers.in_form(f"<answer>{said}</answer>")


def test_text_in_values_may_hold_angle_brackets() -> None:
    gold = '{"html": "<b>x</b> < 3"}'
    assert paid(gold, gold) == 1.0


@pytest.mark.parametrize(
    "reply",
    [
        GOLD,
        f"<answer>{GOLD}",
        f"<think><answer>{GOLD}</answer></think>",
        f"<answer>{GOLD}</answer><answer>[1]</answer>",
        f"<answer><answer>{GOLD}</answer></answer>",
    ],
)
def test_json_outside_of_one_whole_answer_tag_does_not_count(reply: str) -> None:
    assert (answers.score(reply, GOLD), answers.in_form(reply)) == (0.0, False)


def test_a_broken_gold_is_an_error_and_no_wrong_answer() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        answers.score(f"<answer>{GOLD}</answer>", "{broken")


@pytest.mark.parametrize("answer", [json.loads(GOLD), GOLD, f"```json\n{GOLD}\n```"])
def test_rows_are_read_from_objects_and_from_json_text(answer: object) -> None:
    row = shape.canonical({"question": "Make it JSON.", "answer": answer})
    assert values.same(values.read(row["answer"]), values.read(GOLD))
    assert answers.score(f"<answer>{row['answer']}</answer>", GOLD) == 1.0
    assert answers.gold_of(row) == row["answer"]


@pytest.mark.parametrize("answer", [None, "", "text", "3", {}, [], {"x": float("nan")}, {"x": "</answer>"}, "{'x': 1}"])
def test_rows_without_an_object_or_list_to_say_are_left_out(answer: object) -> None:
    assert shape.canonical({"question": "Make it JSON.", "answer": answer}) is None
