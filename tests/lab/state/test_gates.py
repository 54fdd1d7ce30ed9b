"""Gates as pure functions: what counts as evidence of a need, and what is stale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from prime_lab_mcp.lab.state.gates import Need, Subject, standing, with_arguments
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from tests.lab.state.evidence_rows import blocked_by, row

HERE = Subject("env", source="s1", content="c1")
REWARD = Need("test_reward", "source")


def why(history: list[Evidence], waived: set[tuple[str, str]] | None = None, **options: Any) -> str | None:
    return standing(REWARD, history, HERE, options.get("platform", "prime"), waived or set()).why


def test_nothing_recorded_is_never_run() -> None:
    assert why([]) == "never-run"


def test_a_pass_on_this_source_opens() -> None:
    assert why([row()]) is None


def test_a_pass_on_another_source_is_stale_and_good_again_when_the_edit_is_undone() -> None:
    assert why([row(source="s0")]) == "stale"
    assert why([row(source="s0"), row(source="s1")]) is None


def test_other_content_with_the_same_source_stays_proven_by_source_only() -> None:
    history = [row(content="c0"), row("check_environment", content="c0")]
    assert why(history) is None
    assert standing(Need("check_environment", "content"), history, HERE, "prime", set()).why == "stale"


def test_the_latest_verdict_counts_and_not_the_best() -> None:
    assert why([blocked_by("x"), row()]) == "failed"
    assert why([row(), blocked_by("x")]) is None


def test_inconclusive_does_not_open() -> None:
    assert why([blocked_by("x", status="inconclusive")]) == "inconclusive"


def test_a_distribution_that_is_too_small_asks_for_a_larger_evaluation_of_the_same_model() -> None:
    def asked(code: str, **data: Any) -> Any:
        small = blocked_by(code, tool="check_reward_distribution", status="inconclusive", model="M", data=data)
        found = standing(Need("check_reward_distribution", "source"), [small], HERE, "prime", set()).unmet
        assert found is not None
        return found.instead and (found.instead.tool, dict(found.instead.arguments or {}))

    named = {"environment": "env", "model": "M"}
    assert asked("distribution-too-small", tasks=8) == ("run_eval", named)
    assert asked("distribution-unclear", tasks=50) == ("run_eval", {**named, "num_examples": 100})
    assert asked("eval-all-errors") is None


@pytest.mark.parametrize(("made_on", "asked_on"), [("rehearsal", "prime"), ("prime", "rehearsal")])
def test_evidence_of_one_platform_never_opens_a_gate_of_the_other(made_on: Any, asked_on: Any) -> None:
    assert why([row(platform=made_on)], platform=asked_on) == "rehearsal"
    assert why([row(platform=made_on)], platform=made_on) is None


def test_evidence_that_touched_no_platform_counts_for_both() -> None:
    assert why([row()], platform="rehearsal") is None
    assert why([row()], platform="prime") is None


def test_a_waiver_holds_for_its_code_and_fingerprint_only() -> None:
    failed = blocked_by("reward-slow")
    assert why([failed], {("s1", "reward-slow")}) is None
    assert why([failed], {("s0", "reward-slow")}) == "failed"
    assert why([failed], {("s1", "other")}) == "failed"
    assert why([], {("s1", "reward-slow")}) == "never-run"


def test_an_environment_that_loads_may_be_tested_whatever_else_its_check_finds() -> None:
    need = Need("check_environment", "content", loads=True)

    def state(**data: bool) -> str | None:
        return standing(need, [blocked_by("x", tool=need.tool, data=data)], HERE, "prime", set()).why

    assert (state(loads=True), state(loads=False), state()) == (None, "failed", "failed")


def test_defaults_that_do_not_load_need_no_reward_test_and_the_push_means_the_checked_arguments() -> None:
    history = [blocked_by("environment-load-failed", status="inconclusive", data={"loads": False})]
    subject = replace(HERE, check_args={"source": "sample"})
    assert standing(Need("test_reward", "source", "default"), history, subject, "prime", set()).why is None
    assert with_arguments(subject, None, history).arguments == {"source": "sample"}
    assert with_arguments(subject, None, [row()]).arguments == {}
    assert with_arguments(subject, {"a": 1}, history).arguments == {"a": 1}


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        ("0.4.0", "0.4.3", None),
        ("0.4.0", "0.5.0", "stale"),
        ("0.4.0", None, None),
        (None, "0.5.0", None),
        ("0.3.1", "0.4.0", None),  # v0 code under `verifiers>=0.1.8`, which has an interpreter of its own
    ],
)
def test_evidence_is_stale_after_a_minor_version_of_verifiers(
    then: str | None, now: str | None, expected: str | None
) -> None:
    history = [row(toolchain={"verifiers": then} if then else {})]
    assert standing(REWARD, history, replace(HERE, verifiers=now), "prime", set()).why == expected
