"""A rendering becomes a wrapper whose parts the probes can break and lead into."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.probes.answer_formats import requested_wrappers, wrapper_from_template
from prime_lab_mcp.lab.rewards.probes.asked_forms import answer_comes_alone, prompted_wrappers


@pytest.mark.parametrize(
    ("template", "kind", "opening", "close", "lead"),
    [
        ("GOLD", "plain", "", "", ""),
        ("<final>GOLD</final>", "tag", "<final>", "</final>", ""),
        ("<think>hm</think>\n<a>\nGOLD\n</a>", "tag", "<a>\n", "\n</a>", "<think>hm</think>\n"),
        ("So \\boxed{GOLD}.", "boxed", "\\boxed{", "}.", "So "),
        ("#### GOLD", "hash", "#### ", "", ""),
        ('{"result": "GOLD"}', "json", '{"result": "', '"}', ""),
        ("```python\nGOLD\n```", "code", "```python\n", "\n```", ""),
        ("I say: GOLD!", "phrase", "I say: ", "!", ""),
        ("<b>GOLD</i>", "phrase", "<b>", "</i>", ""),
    ],
)
def test_a_rendering_is_read(template: str, kind: str, opening: str, close: str, lead: str) -> None:
    found = wrapper_from_template(template)
    assert (found.kind, found.open, found.close, found.lead) == (kind, opening, close, lead)
    assert found.wrap("42") == template.replace("GOLD", "42")


def test_a_tag_in_a_comment_or_a_docstring_is_no_form_of_an_answer() -> None:
    remarks = '"""Models see `area_<tool>`."""\n\nPREFIX = "area"  # or <other>\n'
    assert requested_wrappers([], remarks) == []
    parsed = [wrapper.open for wrapper in requested_wrappers([], f"{remarks}TAG = '<final>(.*?)</final>'\n")]
    assert parsed == ["<final>"]


@pytest.mark.parametrize(
    ("prompt", "opening", "close"),
    [
        ("End with 'x = <value>' on its own line.", "x = ", ""),
        ("Finish with 'TOTAL: <amount> EUR', with a dot.", "TOTAL: ", " EUR"),
        ("Close with\n\nPreposition: <preposition>\n\nand nothing else.", "Preposition: ", ""),
        ("Last line: ARRIVAL <timestamp>, in ISO 8601.", "ARRIVAL ", ""),
        ("Close with 'RESULT: <result>'.", "RESULT: ", ""),
    ],
)
def test_a_placeholder_after_a_phrase_stands_for_the_answer(prompt: str, opening: str, close: str) -> None:
    found = requested_wrappers([prompt], "")
    assert (found[0].kind, found[0].open, found[0].close) == ("phrase", opening, close)
    assert [w for w in found if w.kind == "tag"] == []
    assert prompted_wrappers([prompt], []) == []


@pytest.mark.parametrize("prompt", ["Put it in <answer> tags.", "Your answer: <answer>42</answer>"])
def test_a_name_in_angle_brackets_that_is_closed_or_follows_no_phrase_is_a_tag(prompt: str) -> None:
    assert [w.open for w in prompted_wrappers([prompt], [])] == ["<answer>"]


def test_an_example_of_a_json_object_keeps_its_other_values() -> None:
    texts = ['Reply with JSON only, like\n{"choice": "B", "confidence": 0.7}\nwhere confidence is a probability.']
    wrapped = [wrapper.wrap("C") for wrapper in requested_wrappers(texts, "")]
    assert wrapped[0] == '{"choice": "C", "confidence": 0.7}'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Reply with JSON only.", True),
        ("Reply with the translation and nothing else.", True),
        ("Only the standard library is available.", False),
        ("Think first. Give only the number in the tags.", False),
        ("Put the number in <answer></answer> tags.", False),
    ],
)
def test_a_prompt_may_ask_for_the_answer_and_nothing_else(text: str, expected: bool) -> None:
    assert answer_comes_alone([], [text]) is expected


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("<think>\n...\n</think>\n<answer>GOLD</answer>", "<think>\nwhy\n</think>\n<answer>7</answer>"),
        ("<a>x</a><b></b>\n<answer>GOLD</answer>", "<a>x</a><b>why</b>\n<answer>7</answer>"),
        ("Reply: <answer>GOLD</answer>", "Reply: <answer>7</answer>"),
        ("<answer>GOLD</answer>", "why\n<answer>7</answer>"),
    ],
)
def test_reasoning_stands_in_the_place_that_the_form_has_for_it(template: str, expected: str) -> None:
    assert wrapper_from_template(template).reasoned("7", "why") == expected
