"""Two evaluations paired by task."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.evals.verdict import EvaluationVerdict
from prime_lab_mcp.lab.evals.views.compare import _deciding_size, compare_view, paired_difference
from prime_lab_mcp.lab.relay.endpoints import Price
from tests.lab.evals.test_spec import SPEC
from tests.lab.evals.views.evaluations import evaluated, played, trace

RATES = {f"task{i:02d}": random.Random(i).betavariate(1, 1.5) for i in range(60)}


def better(by: float) -> dict[str, float]:
    return {key: min(1.0, rate + by) for key, rate in RATES.items()}


def test_a_real_difference_is_shown_with_components_tokens_and_cost(tmp_path: Path) -> None:
    price = Price(1.0, 10.0)
    scores = {"weights": {"correct": 1.0, "form": 0.5}, "scores": {"form": 1.0}}
    here = evaluated(tmp_path / "a", played(better(0.25), seed=1, tokens=50, **scores), "eval-a", price=price)
    there = evaluated(tmp_path / "b", played(RATES, seed=2, tokens=20, **scores), "eval-b", model="owner/base")
    found = compare_view(here, there)

    difference = found.data["difference"]
    assert difference["shown"]
    # 0.25 of a rate that is 2/3 of what is attainable, less what hits the ceiling.
    assert 0.08 < difference["value"] < 0.167
    assert difference["low"] > 0
    assert found.data["components"]["correct"]["shown"]
    assert not found.data["components"]["form"]["shown"]
    assert found.data["components"]["form"]["value"] == 0
    assert (found.data["here"]["tokens_a_rollout"], found.data["there"]["tokens_a_rollout"]) == (50, 20)
    assert found.data["here"]["cost"] == round((480 * 30 * 1 + 480 * 50 * 10) / 1e6, 4)
    assert "cost" not in found.data["there"]
    assert found.findings == ()
    assert found.data["settings"] == {"model": ["owner/small", "owner/base"]}


def test_two_models_are_compared_by_the_groups_that_can_be_trained_on(tmp_path: Path) -> None:
    here = evaluated(tmp_path / "a", played(dict.fromkeys(RATES, 0.5), seed=1), "eval-a")
    there = evaluated(tmp_path / "b", played(dict.fromkeys(RATES, 0.0), seed=2), "eval-b", model="owner/base")
    found = compare_view(here, there)

    groups, others = (found.data[side]["usable_groups"] for side in ("here", "there"))
    assert groups["low"] > others["high"]
    assert found.summary.endswith("%), whose intervals do not overlap.")
    assert "usable groups of 16: 100% (" in found.summary


def test_no_difference_says_how_many_tasks_would_show_one(tmp_path: Path) -> None:
    here = evaluated(tmp_path / "a", played(RATES, seed=1), "eval-a")
    there = evaluated(tmp_path / "b", played(better(0.02), seed=2), "eval-b")
    found = compare_view(here, there)

    assert "no difference shown" in found.summary
    assert [f.code for f in found.findings] == ["compare-no-difference"]
    assert found.data["difference"]["low"] < 0 < found.data["difference"]["high"]
    needed = found.data["tasks_to_show"]
    assert needed is None or needed > 60


def test_no_difference_leads_to_the_evaluations_that_would_decide(tmp_path: Path) -> None:
    here = evaluated(tmp_path / "a", played(RATES, seed=1), "eval-a", tasks=2_000)
    there = evaluated(tmp_path / "b", played(better(0.04), seed=5), "eval-b", model="owner/base", tasks=2_000)
    found = compare_view(here, there)

    needed = found.data["tasks_to_show"]
    assert needed is not None, found.summary
    assert [one.tool for one in found.next] == ["run_eval", "run_eval"]
    assert [(one.arguments or {})["model"] for one in found.next] == ["owner/small", "owner/base"]
    assert {(one.arguments or {})["num_examples"] for one in found.next} == {needed}


def test_rollouts_far_beyond_those_of_the_evaluation_are_not_advised() -> None:
    spec = dataclasses.replace(SPEC, rollouts=2, tasks=81)
    assert _deciding_size(5_000, spec) is None
    assert _deciding_size(400, spec) == {"num_examples": 81, "rollouts": 10}
    assert _deciding_size(80, spec) == {"num_examples": 80}
    assert _deciding_size(None, spec) is None


def test_the_number_of_tasks_is_that_of_the_formula() -> None:
    values = [0.05 + d for d in (-0.5, 0.5)] * 30
    found = paired_difference(values)
    assert not found.is_significant
    assert found.tasks_to_show() == pytest.approx(7.84 * 0.25 / 0.0025, rel=0.03)
    assert paired_difference([0.0] * 30).tasks_to_show() is None


def test_pairing_takes_out_what_tasks_differ_by(tmp_path: Path) -> None:
    """Tasks differ far more than the two sides: unpaired intervals overlap, the paired one does not hold 0."""
    rates = {f"t{i}": float(i % 2) for i in range(40)}
    lower = [trace(k, 0.8 * r, weights={"correct": 1.0}) for k, r in rates.items() for _ in range(4)]
    upper = [trace(k, r, weights={"correct": 1.0}) for k, r in rates.items() for _ in range(4)]
    found = compare_view(evaluated(tmp_path / "a", upper, "a"), evaluated(tmp_path / "b", lower, "b"))
    assert found.data["difference"]["shown"]
    assert found.data["difference"]["value"] == pytest.approx(0.1)


def test_flipped_tasks_are_listed_with_what_was_asked(tmp_path: Path) -> None:
    same: dict[str, float] = dict.fromkeys((f"s{i}" for i in range(20)), 1.0)
    here = evaluated(tmp_path / "a", played({**same, "won": 1.0, "lost": 0.0}), "eval-a")
    there = evaluated(tmp_path / "b", played({**same, "won": 0.0, "lost": 1.0}), "eval-b")
    found = compare_view(here, there)

    flipped = found.data["flipped"]
    assert (flipped["solved_here_only"], flipped["solved_other_only"]) == (1, 1)
    assert "at least half of its rollouts and the other side none" in flipped["rule"]
    assert flipped["examples"] == [
        {"task": "won", "here": 1.0, "there": 0.0, "asked": '"question won"'},
        {"task": "lost", "here": 0.0, "there": 1.0, "asked": '"question lost"'},
    ]
    assert found.next[0].arguments == {"eval": "eval-a", "view": "rollouts", "where": "task=won"}


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"max_tokens": 64}, "compare-settings-differ"),
        ({"temperature": 0.0}, "compare-settings-differ"),
        ({"env_args": {"split": "test"}}, "compare-settings-differ"),
        ({"verifiers": "0.3.0"}, "compare-settings-differ"),
        ({"harness": "default"}, "compare-settings-differ"),
        ({"model": "other/model", "source": "c" * 64}, "compare-two-changes"),
        ({"source": "c" * 64, "api": "v0", "harness": "x"}, "compare-by-position"),
    ],
)
def test_what_is_not_the_same_experiment_is_said(tmp_path: Path, changes: dict[str, Any], code: str) -> None:
    here = evaluated(tmp_path / "a", played(better(0.3)), "eval-a")
    there = evaluated(tmp_path / "b", played(RATES, seed=2), "eval-b", **changes)
    assert code in [f.code for f in compare_view(here, there).findings]


def test_a_change_of_files_or_model_alone_or_of_repeats_is_no_warning(tmp_path: Path) -> None:
    here = evaluated(tmp_path / "a", played(better(0.3)), "eval-a")
    for changes in ({"source": "c" * 64}, {"model": "other/model"}, {"rollouts": 4}):
        there = evaluated(tmp_path / "b", played(RATES, seed=2), "eval-b", **changes)
        assert compare_view(here, there).findings == ()


def test_tasks_of_one_side_are_counted_apart_and_none_in_common_is_refused(tmp_path: Path) -> None:
    here = evaluated(tmp_path / "a", played({"x": 1.0, "y": 1.0, "z": 0.0}), "eval-a")
    there = evaluated(tmp_path / "b", [*played({"x": 1.0}), trace("y", None, "")], "eval-b")
    found = compare_view(here, there)
    assert found.data["tasks"] == {"shared": 1, "only_here": 2, "only_other": 0}
    assert "compare-few-shared" in [f.code for f in found.findings]
    assert found.data["there"]["errors"] == 1

    with pytest.raises(EvalError) as refused:
        compare_view(here, evaluated(tmp_path / "c", played({"q": 1.0}), "eval-c"))
    assert refused.value.code == "compare-no-shared-tasks"


def test_of_two_models_that_can_be_trained_the_view_says_which_one_and_what_decides(tmp_path: Path) -> None:
    some = evaluated(tmp_path / "a", played(dict.fromkeys(RATES, 0.5), seed=1), "eval-a")
    nothing = evaluated(tmp_path / "b", played(dict.fromkeys(RATES, 0.0), seed=2), "eval-b", model="owner/base")
    alike = evaluated(tmp_path / "c", played(dict.fromkeys(RATES, 0.45), seed=3), "eval-c", model="owner/base")

    both = (some.spec.model, "owner/base")
    found = compare_view(some, nothing, candidates=both)
    assert found.data["to_train"]["model"] == some.spec.model
    why = "its verdict passed, and that of the other is failed (distribution-all-zero)."
    assert f"To train: {some.spec.model}, because {why}" in found.summary
    assert found.next[-1].tool == "workflow_status"

    close = compare_view(some, alike, candidates=both)
    shares = {side: close.data[side]["usable_groups"]["share"] for side in ("here", "there")}
    best = some.spec.model if shares["here"] >= shares["there"] else "owner/base"
    assert close.data["to_train"]["model"] == best
    assert compare_view(alike, some, candidates=both).data["to_train"]["model"] == best
    assert "which may be chance" in close.summary
    assert all(call.tool != "search_hub" for call in close.next)

    assert "to_train" not in compare_view(some, nothing).data


def test_no_model_is_said_to_have_passed_whose_verdict_failed_for_more_than_its_rewards(tmp_path: Path) -> None:
    """The gates know golds and jobs, which the rewards alone do not show."""
    here = evaluated(tmp_path / "a", played(dict.fromkeys(RATES, 0.5), seed=1), "eval-a")
    there = evaluated(tmp_path / "b", played(dict.fromkeys(RATES, 0.45), seed=3), "eval-b", model="owner/base")
    passed = EvaluationVerdict("passed", (), None)
    failed = EvaluationVerdict("failed", (Finding("distribution-at-floor", "blocker", "m", "f"),), None)
    both = (here.spec.model, "owner/base")
    for verdicts, model in (((passed, failed), here.spec.model), ((failed, passed), "owner/base")):
        found = compare_view(here, there, candidates=both, verdicts=verdicts)
        assert found.data["to_train"]["model"] == model
        assert "its verdict passed, and that of the other is failed (distribution-at-floor)" in found.summary
        assert "both verdicts passed" not in found.summary
        assert "no mistake" not in found.summary
    unclear = EvaluationVerdict("inconclusive", (Finding("distribution-unclear", "blocker", "m", "f"),), None)
    found = compare_view(here, there, candidates=both, verdicts=(failed, unclear))
    assert "that of owner/base is inconclusive (distribution-unclear), which more tasks or rollouts" in found.summary
    assert "changed first" not in found.summary


def test_a_model_that_cannot_be_trained_only_shows_the_room_of_the_other(tmp_path: Path) -> None:
    some = evaluated(tmp_path / "a", played(dict.fromkeys(RATES, 0.5), seed=1), "eval-a")
    strong = evaluated(tmp_path / "b", played(dict.fromkeys(RATES, 1.0), seed=2), "eval-b", model="owner/strong")
    for first, second in ((some, strong), (strong, some)):
        found = compare_view(first, second, candidates=(some.spec.model,))
        assert "To train" not in found.summary
        assert "owner/strong cannot be trained here: it only shows the room" in found.summary
        assert found.data["room"]["of_attainable"] > 0.3
