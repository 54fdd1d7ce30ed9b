"""Golds that are written together with other fields of their task."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.datasets.task_golds import SampleGolds, gold_candidates
from prime_lab_mcp.lab.rewards.probes.row_fields import (
    composed_golds,
    filled_replies,
    framed_golds,
    gold_replies,
    golds_of_replies,
    known_fields,
    lacks_answer,
    rendering_from_template,
    require_fields,
    with_units,
)
from prime_lab_mcp.lab.rewards.probes.wrong_answers import clearly_wrong_answer, half_right_answers, wrong_answers
from prime_lab_mcp.lab.worker.description import Row

ASKED = "the number and the unit, such as 12.5 km"
UNITS = ("km", "kg", "min", "km")


def tasks(system: str = ASKED, **more: Any) -> list[Row]:
    found = []
    for n, unit in enumerate(UNITS):
        message = {"role": "user", "content": f"How many {unit}?"}
        fields = {"answer": f"{n + 21}.5", "info": {"unit": unit, "step": n}, **more}
        prompt = ({"role": "system", "content": system}, message)
        found.append(Row(n, f"k{n}", prompt, fields["answer"], fields["info"], fields))
    return found


def golds(rows: list[Row]) -> SampleGolds:
    return gold_candidates(rows)[0]


def test_numbers_get_the_unit_of_their_task_where_prompts_ask_for_one_and_a_field_holds_it() -> None:
    rows = tasks()
    united = with_units(golds(rows), rows)
    assert united is not None
    assert [gold.form(0) for gold in united.golds] == ["21.5 km", "22.5 kg", "23.5 min", "24.5 km"]
    assert united.frame == ("", " {info.unit}")
    assert "21.5" in united.golds[0].forms  # the number alone is no wrong answer


@pytest.mark.parametrize(
    "rows",
    [
        tasks("Give the number."),
        tasks("Give the number without its unit."),
        [Row(n, f"k{n}", ({"role": "system", "content": ASKED},), "7", {}, {"answer": "7"}) for n in range(4)],
        [
            Row(n, f"k{n}", ({"role": "system", "content": ASKED},), "7", {"unit": "a whole sentence"}, {"answer": "7"})
            for n in range(4)
        ],
    ],
)
def test_numbers_stay_alone_where_no_unit_is_asked_for_or_known(rows: list[Row]) -> None:
    assert with_units(golds(rows), rows) is None


def test_wrong_answers_to_a_quantity_are_other_numbers_in_the_right_unit_and_the_number_in_another_unit() -> None:
    rows = tasks()
    united = with_units(golds(rows), rows)
    assert united is not None
    gold = united.golds[0]
    wrong = {w.answer for w in wrong_answers(united, gold, 0)}
    assert wrong
    assert all(answer.endswith(" km") for answer in wrong)
    assert not wrong & set(gold.forms)
    assert clearly_wrong_answer(united, gold, 0).endswith(" km")
    assert {h.answer for h in half_right_answers(united, gold, 0) if h.unit} == {"21.5 kg", "21.5 min"}


@pytest.mark.parametrize(
    ("template", "kind", "completion"),
    [
        ("<answer>GOLD {info.unit}</answer>", "tag", "<answer>21.5 km</answer>"),
        ("{info.unit}: GOLD", "plain", "km: 21.5"),
        ("<value>GOLD</value><unit>{info.unit}</unit>", "tag", "<value>21.5</value><unit>km</unit>"),
        ('{"value": GOLD, "unit": "{info.unit}"}', "json", '{"value": 21.5, "unit": "km"}'),
        (r"\boxed{GOLD}", "boxed", r"\boxed{21.5}"),
        (r"\frac{a}{b} GOLD", "phrase", r"\frac{a}{b} 21.5"),
    ],
)
def test_a_rendering_takes_fields_of_the_task_in_braces(template: str, kind: str, completion: str) -> None:
    rows = tasks()
    rendering = rendering_from_template(template)
    require_fields(rendering, rows)
    framed = golds(rows)
    if rendering.fields:
        framed = framed_golds(framed, rows, rendering.before, rendering.after)
    assert rendering.wrapper.wrap(framed.golds[0].form(0)) == completion
    if kind != "tag" or "value" not in template:
        assert rendering.wrapper.kind == kind


def test_parts_of_an_answer_are_fields_and_a_rendering_without_gold_is_made_of_fields() -> None:
    fields = [{"answer": answer} for answer in ("Cork|Sunday", "Oslo|Friday", "Graz|Monday")]
    rows = [Row(n, f"k{n}", (), f["answer"], None, f) for n, f in enumerate(fields)]
    assert known_fields(rows) == ["answer", "answer.1", "answer.2"]
    rendering = rendering_from_template("<city>{answer.1}</city> <day>{answer.2}</day>")
    require_fields(rendering, rows)
    made = composed_golds(rows, rendering.composed)
    assert rendering.wrapper.wrap(made.golds[0].form(0)) == "<city>Cork</city> <day>Sunday</day>"
    wrong = {rendering.wrapper.wrap(w.answer) for w in wrong_answers(made, made.golds[0], 0)}
    assert wrong
    assert not any("Cork<" in text or ">Sunday" in text for text in wrong)
    assert not lacks_answer(rendering, golds(rows), rows)
    assert lacks_answer(rendering_from_template("on {answer.2}"), golds(rows), rows)
    assert filled_replies("at {answer.1}", rows) == {0: "at Cork", 1: "at Oslo", 2: "at Graz"}


def test_a_stand_in_writes_the_gold_with_the_fields_that_a_form_names_where_the_prompts_ask_for_it() -> None:
    system = {"role": "system", "content": "Give the queue in <queue> tags and the urgency in <urgency> tags."}
    rows = [Row(n, f"k{n}", (system,), ("loans", "fines")[n], {"urgency": n + 1}, {}) for n in range(2)]
    form = "<queue>\n…\n</queue>\n<urgency>\n{info.urgency}\n</urgency>"
    assert gold_replies(form, rows)[1] == "<queue>\nfines\n</queue>\n<urgency>\n2\n</urgency>"
    assert gold_replies("<queue>…</queue>", rows) == {}
    assert gold_replies("<queue>…</queue>", rows, named=True)[1] == "<queue>fines</queue>"
    assert gold_replies("<desk>…</desk>", rows, named=True) == {}
    assert gold_replies("<desk>…</desk><urgency>{info.urgency}</urgency>", rows) == {}


@pytest.mark.parametrize(
    ("form", "asked"),
    [
        ("Dose: {amount} {unit}", True),
        ("<think>\n...\n</think>\nDOSE: GOLD", True),
        ("Total: {amount}", False),
        ("{amount} {unit}", False),
        ("<answer>{amount}</answer>", False),
    ],
)
def test_a_form_is_asked_for_where_the_prompts_show_all_that_it_has_besides_the_answer(form: str, asked: bool) -> None:
    system = {"role": "system", "content": "Think in <think> tags. End with a line such as Dose: AMOUNT UNIT"}
    rows = [Row(n, f"k{n}", (system, {"role": "user", "content": f"Task {n}"}), None, None, {}) for n in range(3)]
    assert rendering_from_template(form).is_asked_for(rows) is asked


@pytest.mark.parametrize(
    ("replies", "wrapper", "answers"),
    [
        (["The answer is 42.", "The answer is 7."], ("The answer is ", "."), ["42", "7"]),
        (["<a>Rome</a> in <b>May</b>!", "<a>Bath</a> in <b>June</b>!"], ("<a>", "</b>!"), ["Rome</a> in <b>May"]),
        (["yes", "no"], ("", ""), ["yes", "no"]),
        (["x = 1, y = 2", "x = 1, y = 2"], ("", ""), ["x = 1, y = 2"] * 2),
    ],
)
def test_replies_that_tasks_state_are_split_into_what_they_share_and_the_answer(
    replies: list[str], wrapper: tuple[str, str], answers: list[str]
) -> None:
    form, found = golds_of_replies(dict(enumerate(replies)))
    assert (form.lead + form.open, form.close) == wrapper
    assert [gold.form(0) for gold in found.golds][: len(answers)] == answers
    assert [form.wrap(gold.form(0)) for gold in found.golds] == replies


def test_a_field_that_no_task_has_is_an_error_that_names_the_fields_there_are() -> None:
    rows = tasks(level=3)
    assert known_fields(rows) == ["answer", "info.unit", "info.step", "level"]
    with pytest.raises(BadInput) as refused:
        require_fields(rendering_from_template("GOLD {info.units}"), rows)
    assert "info.units" in refused.value.message
    assert "info.unit, info.step, level" in str(refused.value.fix)
