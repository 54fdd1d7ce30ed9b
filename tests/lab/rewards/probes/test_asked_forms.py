"""The form that prompts ask for is understood where they show it and where they describe it in words."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.probes.answer_formats import BOXED, HASH, REASONING, AnswerWrapper, tag_wrapper
from prime_lab_mcp.lab.rewards.probes.asked_forms import asked_form, mentions_form


@pytest.mark.parametrize(
    ("instruction", "written"),
    [
        ('Reply with a JSON object with one key, "total".', '{"total": "7"}'),
        ('Answer in JSON: {"total": <number>}', '{"total": "7"}'),
        ("Give the result after four hash signs, like #### 42.", "#### 7"),
        ("Reply with the number only, without any other word.", "7"),
        ("Answer with one word.", "7"),
        ("Write the sum inside <total></total>.", "<total>7</total>"),
        ("Think first and end with the number.", f"{REASONING}\n7"),
        ("Explain your steps, then finish your reply with only the number.", f"{REASONING}\n7"),
    ],
)
def test_a_form_is_understood_where_it_is_shown_and_where_words_describe_it(instruction: str, written: str) -> None:
    form = asked_form([f"What is 3 plus 4? {instruction}", f"What is 2 plus 5? {instruction}"], [])
    assert form is not None
    assert form.wrappers[0].wrap("7") == written


def test_the_other_keys_of_an_object_hold_something() -> None:
    form = asked_form(["3 or 4?"], ['Reply with a JSON object with the keys "reason" and "larger".'])
    assert form is not None
    assert {w.wrap("4").partition('"larger": ')[2] for w in form.wrappers} == {'"4"}', "4}"}
    assert all(w.open.startswith('{"reason": ') for w in form.wrappers)


@pytest.mark.parametrize(
    "instruction",
    [
        "Work it out.",
        "Reply with the number only, on a line that begins with Total.",
        "Return only the SQL query.",
        "#### Question\nHow many?\n#### Notes\nThink first.",
        "End with a line 'Due: DD.MM.YYYY'.",
        "Reason, and end with the number in a box.",
        "Think first. End with the number and its unit.",
    ],
)
def test_what_is_not_certain_is_no_form(instruction: str) -> None:
    assert asked_form(["A."], [instruction]) is None


def test_an_instruction_that_only_some_prompts_have_is_no_form() -> None:
    assert asked_form(["A. Reply with the number only.", "B. Show all your working."], []) is None


@pytest.mark.parametrize(
    ("wrapper", "text", "mentioned"),
    [
        (tag_wrapper("answer"), "Put it in answer tags.", True),
        (tag_wrapper("answer"), "Answer with the number.", False),
        (BOXED, "Box the result.", True),
        (BOXED, "Give the result.", False),
        (HASH, "after four hash signs", True),
        (AnswerWrapper("phrase", "Answer: "), "Give your answer last.", True),
        (AnswerWrapper("phrase", "Total: "), "Give the number last.", False),
        (AnswerWrapper("phrase", "Total: "), "What is the total of 3 and 4?", False),
        (AnswerWrapper("phrase", "Total: "), "Begin the last line with the word total and a colon.", True),
        (AnswerWrapper("phrase", "Total: "), 'Give the "total" last.', True),
    ],
)
def test_a_form_is_mentioned_by_its_characters_or_its_name(wrapper: AnswerWrapper, text: str, mentioned: bool) -> None:
    assert mentions_form(wrapper, text) is mentioned
