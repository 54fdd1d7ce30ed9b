"""What the name of a component says, the same for everything that asks."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rollouts.components import is_about_form, is_penalty, measures_form, pays_for_form


@pytest.mark.parametrize(
    "name",
    [
        "format",
        "answer_format",
        "answerFormat",
        "xmlparser_format_reward",
        "parsed",
        "in_form",
        "form_reward",
        "well_formed",
        "train/agg/metrics/format_reward/mean",
        "train/agg/form/mean",
    ],
)
def test_names_that_are_about_form(name: str) -> None:
    assert is_about_form(name)
    assert pays_for_form(name, None)
    assert not pays_for_form(name, 0.0)


@pytest.mark.parametrize("name", ["correct", "information_gain", "performance", "transform_ok", "stage", "lifestyle"])
def test_names_that_only_hold_the_letters_are_not_about_form(name: str) -> None:
    assert not is_about_form(name)


@pytest.mark.parametrize("name", ["format_penalty", "parse_errors", "invalid_format"])
def test_a_penalty_is_about_form_and_pays_for_none(name: str) -> None:
    assert is_about_form(name)
    assert is_penalty(name)
    assert not pays_for_form(name, 1.0)
    assert not measures_form(name)


def test_a_metric_measures_form_by_its_last_words() -> None:
    assert measures_form("answer_format_ok")
    assert not measures_form("parser_calls")
