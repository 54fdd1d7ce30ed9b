"""Gates as pure functions: what counts as evidence, what is stale, what a source of a config needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from prime_lab_mcp.lab.state.gates import (
    HubFact,
    Need,
    SourceFacts,
    Subject,
    source_evaluation,
    source_unmet,
    standing,
    with_arguments,
)
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push

HERE = Subject("env", source="s1", content="c1")
REWARD = Need("test_reward", "source")
MODEL = "Qwen/Qwen3-4B"


def row(tool: str = "test_reward", **changes: Any) -> Evidence:
    base = Evidence(tool=tool, status="passed", workspace="w", environment="env", source="s1", content="c1")
    return replace(base, **changes)


def blocked_by(code: str, status: Any = "failed", tool: str = "test_reward", **changes: Any) -> Evidence:
    return row(tool, status=status, findings=[{"code": code, "severity": "blocker"}], **changes)


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


PUSH = Push("w", "env", "me", "env", "0.1.0", "s1", "c1", "h1", "prime")
CHAIN = (row(), row("check_reward_distribution", model=MODEL))


EASY = (row(env_args={"split": "train"}), row("check_reward_distribution", model=MODEL, env_args={"split": "train"}))


def ours(**changes: Any) -> SourceFacts:
    base = SourceFacts(
        id="me/env@0.1.0",
        owner="me",
        name="env",
        version="0.1.0",
        args={},
        ours=True,
        push=PUSH,
        history=CHAIN,
        on_disk=("s1",),
        hub=HubFact(True, "0.1.0", "h1", "v1"),
    )
    return replace(base, **changes)


def missing(facts: SourceFacts, model: str = MODEL) -> list[tuple[str, str]]:
    return [(unmet.tool, unmet.why) for unmet in source_unmet(facts, "prime", model)[0]]


def test_a_source_of_ours_with_its_whole_chain_is_open() -> None:
    assert source_unmet(ours(), "prime", MODEL) == ([], [])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"push": None}, [("push_environment", "never-run")]),
        ({"owner": None}, [("push_environment", "never-run")]),
        ({"hub": HubFact(False)}, [("push_environment", "never-run")]),
        ({"hub": HubFact(None)}, [("search_hub", "inconclusive")]),
        ({"hub": HubFact(True, "0.1.0", "other", "v1")}, [("push_environment", "never-run")]),
        ({"on_disk": ("s2",)}, [("push_environment", "stale")]),
        ({"history": CHAIN[1:]}, [("test_reward", "never-run")]),
        ({"history": CHAIN[:1]}, [("check_reward_distribution", "never-run")]),
        (
            {"args": {"split": "train"}},
            [("test_reward", "never-run"), ("check_reward_distribution", "never-run")],
        ),
        ({"args": {"split": "train"}, "history": (*CHAIN, EASY[0])}, [("check_reward_distribution", "never-run")]),
    ],
)
def test_each_missing_link_of_the_chain_refuses(changes: Mapping[str, Any], expected: list[tuple[str, str]]) -> None:
    assert missing(ours(**changes)) == expected


def test_training_rests_on_the_evaluation_of_its_model_and_else_on_one_of_another_model() -> None:
    other = replace(CHAIN[1], model="Qwen/Qwen3-0.6B")
    both = ours(history=(CHAIN[0], other, CHAIN[1]))
    assert source_evaluation(both, "prime", MODEL) == CHAIN[1]
    assert source_evaluation(both, "prime", "Qwen/Qwen3-0.6B") == other
    assert source_evaluation(ours(), "prime", "Qwen/Qwen3-0.6B") == CHAIN[1]
    assert source_evaluation(ours(trains=False), "prime", MODEL) is None
    assert source_evaluation(ours(ours=False, push=None, history=()), "prime", MODEL) is None


def test_a_hub_environment_of_somebody_else_goes_the_fast_path() -> None:
    foreign = ours(ours=False, push=None, history=(), on_disk=())
    assert source_unmet(foreign, "prime", MODEL) == ([], [])


@pytest.mark.parametrize(
    ("changes", "tool"),
    [
        ({"version": None}, "write_training_config"),
        ({"hub": HubFact(False)}, "search_hub"),
        ({"hub": HubFact(True, "1", "h", "v0")}, "search_hub"),
    ],
)
def test_the_fast_path_needs_existence_a_version_and_v1(changes: Mapping[str, Any], tool: str) -> None:
    foreign = ours(ours=False, push=None, history=(), on_disk=(), **changes)
    assert [name for name, _ in missing(foreign)] == [tool]


def test_a_source_is_proven_by_the_verdicts_with_its_own_arguments() -> None:
    other = (blocked_by("x"), blocked_by("x", tool="check_reward_distribution", model=MODEL))
    assert missing(ours(args={"split": "train"}, history=(*other, *EASY))) == []


def test_an_eval_source_needs_the_reward_test_with_its_arguments_and_no_distribution() -> None:
    held_out = ours(args={"split": "eval"}, trains=False)
    assert missing(held_out) == [("test_reward", "never-run")]
    assert missing(replace(held_out, history=(row(env_args={"split": "eval"}),))) == []


def test_an_unmet_need_of_a_source_names_the_call_with_its_arguments() -> None:
    unmet, _ = source_unmet(ours(args={"split": "train"}), "prime", MODEL)
    assert [u.arguments for u in unmet] == [
        {"environment": "env", "env_args": {"split": "train"}},
        {"environment": "env", "env_args": {"split": "train"}, "model": MODEL},
    ]


def test_a_default_counts_as_absent_only_where_it_is_known() -> None:
    given = ours(args={"split": "train"})
    assert missing(replace(given, defaults={"split": "train"})) == []
    assert missing(replace(given, defaults={"split": "test"}))[0] == ("test_reward", "never-run")


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


@pytest.mark.parametrize(("trained", "expected"), [(8, [("check_reward_distribution", "stale")]), (16, []), (32, [])])
def test_a_distribution_judged_for_larger_groups_does_not_speak_for_smaller_ones(
    trained: int, expected: list[tuple[str, str]]
) -> None:
    judged = replace(CHAIN[1], data={"usable_groups": {"share": 0.9, "group_size": 16}})
    assert missing(ours(history=(CHAIN[0], judged), group_size=trained)) == expected


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [("0.4.0", "0.4.3", None), ("0.4.0", "0.5.0", "stale"), ("0.4.0", None, None), (None, "0.5.0", None)],
)
def test_evidence_is_stale_after_a_minor_version_of_verifiers(
    then: str | None, now: str | None, expected: str | None
) -> None:
    history = [row(toolchain={"verifiers": then} if then else {})]
    assert standing(REWARD, history, replace(HERE, verifiers=now), "prime", set()).why == expected
