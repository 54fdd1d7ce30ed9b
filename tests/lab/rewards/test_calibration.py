"""Golds, wrappers, wrong answers and supplied cases, on plain rows."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.datasets.task_golds import SampleGolds, gold_candidates, other_candidates
from prime_lab_mcp.lab.rewards import cases
from prime_lab_mcp.lab.rewards.calibration import forms_of_replies, with_asked_dates, with_asked_keys
from prime_lab_mcp.lab.rewards.probes.answer_formats import (
    BARE,
    BOXED,
    HASH,
    broken_wrappings,
    requested_wrappers,
    tag_wrapper,
)
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, build_probes
from prime_lab_mcp.lab.rewards.probes.wrong_answers import spread_over_answers, wrong_answers
from prime_lab_mcp.lab.worker.description import Row


def rows(*answers: Any, prompt: str = "Question?", **fields: Any) -> list[Row]:
    message = {"role": "user", "content": prompt}
    return [
        Row(n, f"k{n}", (message,), answer, fields.get("info"), {"answer": answer, **fields})
        for n, answer in enumerate(answers)
    ]


def golds(*answers: Any, **fields: Any) -> SampleGolds:
    return gold_candidates(rows(*answers, **fields))[0]


def test_the_form_of_golds_is_read_from_right_replies_that_agree() -> None:
    known = rows("fhcd", "bgga", "cdef")
    replies = {0: "I turn.\n<code>fhcd</code>", 1: "<code>bgga</code>", 2: "It is cdef, I think."}
    assert forms_of_replies(replies, known) == [tag_wrapper("code")]
    assert forms_of_replies({0: "fhcd", 1: "bgga"}, known) == []
    assert forms_of_replies({0: "Code: fhcd", 1: "It is bgga."}, known) == []


def test_dates_are_also_written_as_all_prompts_ask() -> None:
    asked = with_asked_dates(golds("2022-04-03", "2022-05-17"), rows("", "", prompt="When? End with DD/MM/YYYY."))
    assert [gold.forms[-1] for gold in asked.golds] == ["03/04/2022", "17/05/2022"]
    mixed = golds("2022-04-03", "never")
    assert with_asked_dates(mixed, rows("", "", prompt="End with DD/MM/YYYY.")) == mixed


@pytest.mark.parametrize(
    ("answers", "fields", "format", "first"),
    [
        (["x\n#### 1,200", "y\n#### 7"], {}, "gsm8k_hash", "1200"),
        (["so \\boxed{\\frac{1}{2}}", "\\boxed{3}"], {}, "boxed", "\\frac{1}{2}"),
        ([75.0, 2.5], {}, "numeric", "75"),
        ([True, False], {}, "boolean", "yes"),
        (["B", "C"], {"choices": ["w", "x", "y", "z"]}, "choice_letter", "B"),
        ([1, 0, 3], {"choices": ["w", "x", "y", "z"]}, "choice_index", "B"),
        ([["red", "blue"], ["green"]], {}, "multi_answer", "red, blue"),
        (['{"a": 1}', '{"a": 2}'], {}, "json", '{"a": 1}'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_gold_is_said_as_its_format_suggests(
    answers: list[Any], fields: dict[str, Any], format: str, first: str
) -> None:
    found = golds(*answers, **fields)
    assert (found.format, found.golds[0].form(0)) == (format, first)


def test_a_gold_is_found_in_other_fields_and_in_info() -> None:
    assert gold_candidates(rows(None, None, ground_truth="7"))[0].place == "ground_truth"
    assert gold_candidates(rows(None, None, info={"target": "7"}))[0].place == "info.target"
    assert gold_candidates(rows(None, None, words=3)) == []


def test_a_list_of_aliases_as_text_is_read_as_its_items() -> None:
    found = golds("['Seine', 'River Seine']", "['Rhine']", '["Danube", "the Danube"]')
    assert found.format == "multi_answer"
    assert "Seine" in found.golds[0].forms
    assert golds("[see below]", "[1, 2]").format != "multi_answer"


def test_the_box_is_the_answer_where_most_solutions_have_one_and_the_others_are_counted() -> None:
    texts = [f"We find \\boxed{{{n}}} as wanted." for n in range(9)]
    found = golds(*texts, "A proof without any box.")
    assert (found.format, found.golds[0].form(0), found.empty) == ("boxed", "0", (9,))


def test_fields_that_no_name_marks_are_proposed_only_where_they_differ() -> None:
    proposed = other_candidates(rows(None, None, None, word="same", answer=None))
    assert proposed == []
    message = {"role": "user", "content": "Say it."}
    made = [Row(n, f"k{n}", (message,), None, None, {"word": w, "idx": n}) for n, w in enumerate(("alpha", "bravo"))]
    assert [g.place for g in other_candidates(made)] == ["word"]


def test_a_word_that_replies_must_hold_is_a_rule_and_not_proposed() -> None:
    def proposed(ask: str) -> list[str]:
        made = [
            Row(n, f"k{n}", ({"role": "user", "content": ask.format(word)},), None, None, {"must": word, "idx": n})
            for n, word in enumerate(("fresh", "daily", "happy"))
        ]
        return [g.place for g in other_candidates(made)]

    assert proposed("Write a slogan with the word '{}' in it.") == []
    assert proposed("Which letters does '{}' begin with?") == ["must"]


def test_a_list_is_proposed_unless_the_prompt_states_it_in_that_order_and_what_the_source_reads_comes_first() -> None:
    message = {"role": "user", "content": "Rank by size: ant, cat, elephant. Use the words big and small."}
    fields = [
        {"place": n, "order": o, "words": ["big", "small"]} for n, o in enumerate((["cat", "ant"], ["elephant", "ant"]))
    ]
    made = [Row(n, f"k{n}", (message,), None, None, f) for n, f in enumerate(fields)]
    assert [g.place for g in other_candidates(made)] == ["place", "order"]
    assert [g.place for g in other_candidates(made, "gold = self.data.order")] == ["order", "place"]


def test_info_may_be_the_text_of_an_object() -> None:
    assert gold_candidates(rows(None, None, info='{"target": "7"}'))[0].place == "info.target"


def test_tasks_without_a_gold_are_counted() -> None:
    assert golds("1", "", "2", "3").empty == (1,)


def test_no_wrong_answer_is_an_accepted_way_to_say_the_gold() -> None:
    found = golds("42", "7", "100", "-3", "0")
    for gold in found.golds:
        wrong = [w.answer for w in wrong_answers(found, gold, 0)]
        assert gold.raw not in wrong
        assert len(wrong) == len(set(wrong)) >= 4
    said = {w.answer for w in wrong_answers(found, found.golds[0], 0)}
    assert {"43", "142", "420", "-42", "4", "24"} <= said


def test_any_of_several_golds_is_never_wrong() -> None:
    found = golds(["red", "blue"], ["green"], ["blue"])
    assert "blue" not in {w.answer for w in wrong_answers(found, found.golds[0], 0)}


def test_examples_cover_every_answer_class() -> None:
    found = golds(*["yes"] * 40, "no")
    assert {g.raw for g in spread_over_answers(found, 2, 0)} == {"yes", "no"}


def test_the_prompt_decides_before_the_code_how_to_answer() -> None:
    assert requested_wrappers(["Use <answer></answer> tags."], "")[0] == tag_wrapper("answer")
    assert requested_wrappers(["Put it in \\boxed{}."], "<answer>")[0] == BOXED
    assert requested_wrappers(["End with #### and the number."], "")[0] == HASH
    assert requested_wrappers([""], "vf.XMLParser(['think', 'final'])")[0].open == "<final>"
    assert requested_wrappers(["Reply."], "x = 1") == []
    assert requested_wrappers(["The last line must be ANSWER: and the number."], "")[0].wrap("7") == "ANSWER: 7"
    assert requested_wrappers(["Put it in one ```python block."], "")[0].kind == "code"
    assert requested_wrappers(["Reply with one ```sql block."], "")[0].wrap("SELECT 1") == "```sql\nSELECT 1\n```"
    assert requested_wrappers(["Write it between ``` marks."], "") == []


def test_thinking_tags_are_filled_and_never_hold_the_answer() -> None:
    wrapper = requested_wrappers(["<reasoning>\n...\n</reasoning>\n<answer>\n...\n</answer>"], "")[0]
    said = wrapper.wrap("7")
    assert said.endswith("<answer>7</answer>")
    assert said.startswith("<reasoning>")


def test_broken_forms_are_not_the_form() -> None:
    for wrapper in (tag_wrapper("answer"), BOXED, HASH):
        assert all(form.text != wrapper.wrap("7") for form in broken_wrappings(wrapper, "7"))
    assert list(broken_wrappings(BARE, "7")) == []


def test_probes_are_messages_and_one_is_no_reply_at_all() -> None:
    sample = rows("42", "7")
    style = AnswerStyle(gold_candidates(sample)[0], 0, tag_wrapper("answer"))
    probes = build_probes(style, style.golds.golds, {r.index: r for r in sample}, hacks=True)
    assert len({p.id for p in probes}) == len(probes)
    assert {len(p.messages) for p in probes} == {0, 1}
    assert all(m["role"] == "assistant" for p in probes for m in p.messages)


def test_supplied_cases_go_to_the_task_that_has_their_answer() -> None:
    wanted = cases.parse_cases(
        [
            {"name": "a", "completion": "x", "answer": "so it is #### 1,200", "expected": 1},
            {"name": "b", "completion": [{"role": "assistant", "content": "y"}], "task": 0, "expected": "low"},
            {"name": "c", "completion": "z", "answer": "nobody's", "expected_reward": 0.0},
        ]
    )
    placed, unmatched = cases.place_cases(wanted, rows("7", "1200"), None)
    assert [(p.label, p.row) for p, _ in placed] == [("a", 1), ("b", 0)]
    assert unmatched == ["c"]


@pytest.mark.parametrize(
    "entry", [3, {"completion": "x"}, {"completion": 1, "expected": 1}, {"completion": "x", "expected": "much"}]
)
def test_a_case_that_says_too_little_is_refused(entry: Any) -> None:
    with pytest.raises(BadInput):
        cases.parse_cases([entry])


ASKED = 'Reply with JSON:\n- "vendor": the company\n- "due_date": the day\n\n'


@pytest.mark.parametrize(
    ("prompt", "pairs"),
    [
        pytest.param(ASKED, (("due", "due_date"),), id="the prompt calls a key otherwise"),
        pytest.param(ASKED + 'Write "due" for it.', (), id="the prompt names the stored key too"),
        pytest.param(
            'Reply with JSON:\n- "vendor": the company\n- "street": where', (("due", "street"),), id="one key"
        ),
        pytest.param("Reply with the keys vendor and due.", (), id="the prompt quotes no key"),
    ],
)
def test_golds_are_also_written_with_the_keys_of_the_prompt(prompt: str, pairs: tuple[tuple[str, str], ...]) -> None:
    asked = rows('{"vendor": "A", "due": 3}', '{"vendor": "B", "due": 5}', prompt=prompt)
    found, renamed = with_asked_keys(gold_candidates(asked)[0], asked)
    assert renamed == pairs
    forms = ['{"vendor": "A", "due": 3}', *(f'{{"vendor": "A", "{new}": 3}}' for _, new in pairs)]
    assert list(found.golds[0].forms) == forms


def test_keys_of_a_record_that_the_prompt_shows_are_not_asked_for() -> None:
    shown = [
        Row(n, f"k{n}", ({"role": "user", "content": f'Keys vendor and due, of {{"vendor": "{n}", "due_date": {n}}}'},),
            f'{{"vendor": "{n}", "due": {n}}}', None, {})
        for n in range(3)
    ]  # fmt: skip
    assert with_asked_keys(gold_candidates(shown)[0], shown)[1] == ()


def test_an_object_of_plain_values_under_any_name_may_be_the_gold() -> None:
    message = {"role": "user", "content": "Read the board."}
    boards = [Row(n, f"k{n}", (message,), None, None, {"board": {"train": f"RE {n}", "platform": n}}) for n in range(3)]
    (found,) = other_candidates(boards)
    assert (found.place, found.format) == ("board", "json")


def test_a_case_whose_gold_has_another_unit_is_on_no_task() -> None:
    wanted = cases.parse_cases(
        [{"name": text, "completion": "x", "answer": text, "expected": 1} for text in ("2100 zebra", "2,100 s", "2100")]
    )
    placed, unmatched = cases.place_cases(wanted, rows("7", "2100 s"), None)
    assert unmatched == ["2100 zebra"]
    assert [probe.row for probe, _ in placed] == [rows("7", "2100 s")[1].index] * 2
