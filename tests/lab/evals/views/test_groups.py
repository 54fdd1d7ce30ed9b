"""Rewards by a field, and which field separates them."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.evals.views.fields import OTHER_VALUES, FieldValues
from prime_lab_mcp.lab.evals.views.groups import groups_view
from prime_lab_mcp.lab.evals.views.rollouts import rollouts_view
from tests.lab.evals.views.evaluations import evaluated, played, trace

LOOKUPS = {f"task{i:02d}": 1 + i % 3 for i in range(48)}


def by_lookups() -> list[dict[str, Any]]:
    """Tasks of 1, 2 or 3 lookups are solved in 80, 40 and 5 %; their colour and length mean nothing."""
    rng = random.Random(2)
    extra = {k: {"info": {"colour": rng.choice("rgb")}, "length": rng.random(), "title": f"title {k}"} for k in LOOKUPS}
    return played(
        {k: (0.8, 0.4, 0.05)[n - 1] for k, n in LOOKUPS.items()}, data=lambda k: {"lookups": LOOKUPS[k], **extra[k]}
    )


def test_a_field_that_groups_nothing_leads_to_the_replies_and_not_round_in_a_circle(tmp_path: Path) -> None:
    here = evaluated(tmp_path, [trace(f"task{n}", float(n % 2)) for n in range(8)])

    for by in (None, "stop"):
        [following] = groups_view(here, by).next
        assert (following.arguments or {})["view"] == "rollouts", by


def test_a_field_groups_tasks_worst_first_with_intervals_over_tasks(tmp_path: Path) -> None:
    found = groups_view(evaluated(tmp_path, by_lookups()), "lookups").data

    assert [g["value"] for g in found["groups"]] == ["3", "2", "1"]
    for group, truth in zip(found["groups"], (0.05, 0.4, 0.8), strict=True):
        assert (group["tasks"], group["rollouts"], group["errors"]) == (16, 128, 0)
        assert group["interval"][0] <= group["mean_of_attainable"] <= group["interval"][1]
        assert group["mean_of_attainable"] == pytest.approx(truth, abs=0.12)
        assert group["pass_rate"] == group["mean_of_attainable"]
    assert found["separates"]["variance_share"] > 0.7
    assert found["separates"]["p"] < 1e-6


def test_without_a_field_the_one_that_separates_most_comes_first_and_chance_is_called_that(tmp_path: Path) -> None:
    found = groups_view(evaluated(tmp_path, by_lookups()))

    fields = {f["field"]: f for f in found.data["fields"]}
    assert next(iter(fields)) == "lookups"
    assert set(fields) == {"lookups", "info.colour", "length", "title", "answer"}
    assert fields["lookups"]["p"] < 1e-6
    assert fields["info.colour"]["p"] > 0.05
    assert fields["length"]["p"] > 0.05
    assert (fields["title"]["values"], fields["title"]["p"]) == (48, None)
    assert found.next[0].arguments == {"eval": "eval-1", "view": "groups", "by": "lookups"}
    assert {"stop", "chars", "correct"} <= set(found.data["of_rollouts"])


def test_many_numbers_are_binned_and_the_next_call_filters_by_the_bin(tmp_path: Path) -> None:
    found = groups_view(evaluated(tmp_path, by_lookups()), "length")

    assert [g["tasks"] for g in found.data["groups"]] == [12] * 4
    assert " to " in found.data["groups"][0]["value"]
    assert found.next[0].arguments is not None
    assert "length>=" in found.next[0].arguments["where"]


def test_a_stop_condition_or_metric_groups_rollouts_of_one_task(tmp_path: Path) -> None:
    episodes = [
        *(trace(f"t{i}", 1.0, "x" * 5, stop_condition="done") for i in range(6)),
        *(trace(f"t{i}", 0.0, "x" * 9, stop_condition="max_turns") for i in range(6)),
        trace("t0", None, "", stop_condition="error"),
    ]
    found = groups_view(evaluated(tmp_path, episodes), "stop").data
    assert [(g["value"], g["mean_of_attainable"], g["errors"]) for g in found["groups"]] == [
        ('"max_turns"', 0.0, 0),
        ('"done"', 1.0, 0),
        ('"error"', None, 1),
    ]
    assert found["separates"] is None
    assert [g["value"] for g in groups_view(evaluated(tmp_path, episodes), "chars").data["groups"]] == ["9", "5", "0"]


def test_an_unknown_field_is_refused_with_its_neighbours(tmp_path: Path) -> None:
    with pytest.raises(EvalError) as refused:
        groups_view(evaluated(tmp_path, by_lookups()), "lookup")
    assert refused.value.code == "field-unknown"
    assert '"lookups"' in refused.value.fix


def test_a_column_in_the_metadata_has_its_own_name(tmp_path: Path) -> None:
    episodes = [trace(f"t{i}", float(i % 2), "x", data={"metadata": {"level": i % 2}}) for i in range(8)]
    here = evaluated(tmp_path, episodes)
    assert [(g["value"], g["mean_of_attainable"]) for g in groups_view(here, "level").data["groups"]] == [
        ("0", 0.0),
        ("1", 1.0),
    ]
    assert rollouts_view(here, "level=1").data["matching"] == 4


def test_values_stay_bounded_and_truth_is_no_number() -> None:
    values = FieldValues()
    for i in range(2_000):
        values.add(f"text {i}")
    codes, labels = values.groups()
    assert (len(labels), labels[-1], max(codes)) == (501, OTHER_VALUES, 500)
    mixed = FieldValues()
    for value in (True, 1, 1.0, math.nan, "1"):
        mixed.add(value)
    codes, labels = mixed.groups()
    assert codes[0] != codes[1] == codes[2]
    assert labels[codes[0]] == "true"


def test_quantile_bins_of_equal_numbers_do_not_fall_apart() -> None:
    values = FieldValues()
    for i in range(100):
        values.add(0 if i < 90 else i)
    codes, labels = values.groups()
    assert len(set(codes[:90])) == 1
    assert {labels[c] for c in codes} <= set(labels)
