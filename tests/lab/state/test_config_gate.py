"""What the sources and packages of a training config must have, over rows and facts as they are recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from prime_lab_mcp.lab.state.config_gate import (
    HUB_DIFFERS,
    HubContent,
    HubFact,
    PackageFacts,
    SourceFacts,
    agents_of,
    conflicting_packages,
    override_cautions,
    own_keys_unmet,
    package_unmet,
    source_evaluation,
    source_proofs,
    source_unmet,
)
from prime_lab_mcp.server.gate import _next_call
from tests.lab.state.evidence_rows import CHAIN, MODEL, PUSH, blocked_by, ours, row

EASY = (row(env_args={"split": "train"}), row("check_reward_distribution", model=MODEL, env_args={"split": "train"}))


def missing(facts: SourceFacts, model: str = MODEL) -> list[tuple[str, str]]:
    return [(unmet.tool, unmet.why) for unmet in source_unmet(facts, "prime", model)[0]]


def test_a_source_of_ours_with_its_whole_chain_is_open() -> None:
    assert source_unmet(ours(), "prime", MODEL) == ([], [])


def test_what_was_never_pushed_has_no_proofs() -> None:
    assert source_proofs(ours(), "prime", MODEL) == list(CHAIN)
    assert source_proofs(ours(push=None), "prime", MODEL) == []


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


@pytest.mark.parametrize(
    "id",
    [
        "%6De/sums@0.1.0",
        " me/sums@0.1.0",
        "me/sums@0.1.0\n",
        "m\u0435/sums@0.1.0",
        "./me/sums@0.1.0",
        "me/sums?a@0.1.0",
    ],
)
def test_an_id_that_the_hub_may_read_otherwise_takes_no_fast_path(id: str) -> None:
    """The owner `%6De` is not the account `me`, and a Hub decodes it to just that."""
    strangers = ours(id=id, owner=id.partition("/")[0], ours=False, push=None, history=())
    assert missing(strangers) == [("write_training_config", "failed")]
    package = PackageFacts("harness", id, "env.agent.harness.id", published=strangers)
    assert [unmet.tool for unmet in package_unmet(package, "prime")[0]] == ["write_training_config"]


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
        ({"hub": HubFact(True, "1", "h", None)}, "search_hub"),
    ],
)
def test_the_fast_path_needs_existence_a_version_and_v1(changes: Mapping[str, Any], tool: str) -> None:
    foreign = ours(ours=False, push=None, history=(), on_disk=(), **changes)
    assert [name for name, _ in missing(foreign)] == [tool]


def test_a_foreign_source_that_is_refused_comes_with_the_arguments_of_the_call_that_helps() -> None:
    def arguments(**changes: Any) -> Any:
        [unmet] = source_unmet(ours(ours=False, push=None, history=(), on_disk=(), **changes), "prime", MODEL)[0]
        return unmet.arguments

    assert arguments(hub=HubFact(False)) == {"kind": "environment", "query": "me/env"}
    assert arguments(hub=HubFact(True, "0.1.0", "h1", "v0")) == {"kind": "environment", "query": "me/env"}
    assert arguments(version=None) == {"environments": ["me/env@0.1.0"]}
    assert arguments(version=None, hub=HubFact(True, None, None, "v1")) is None


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
    tested = replace(given, history=(*given.history, replace(CHAIN[0], env_args={"split": "train"})))
    assert missing(replace(tested, defaults={"split": "train"})) == []
    assert missing(replace(tested, defaults={"split": "test"})) == [("check_reward_distribution", "never-run")]


def test_the_reward_test_is_needed_for_exactly_the_arguments_of_the_config() -> None:
    given = ours(args={"split": "train"})
    assert missing(replace(given, defaults={"split": "train"})) == [("test_reward", "never-run")]


@pytest.mark.parametrize(("trained", "expected"), [(8, [("check_reward_distribution", "stale")]), (16, []), (32, [])])
def test_a_distribution_judged_for_larger_groups_does_not_speak_for_smaller_ones(
    trained: int, expected: list[tuple[str, str]]
) -> None:
    judged = replace(CHAIN[1], data={"usable_groups": {"share": 0.9, "group_size": 16}}, arguments={"id": "eval-1"})
    source = ours(history=(CHAIN[0], judged), group_size=trained)
    assert missing(source) == expected
    unmet, _ = source_unmet(source, "prime", MODEL)
    assert [u.arguments for u in unmet] == [{"results": "eval-1", "group_size": 8}] * len(expected)
    calls = [_next_call(u, cast(Any, SimpleNamespace(config=None, snapshot=None))) for u in unmet]
    judged_again = ("check_reward_distribution", {"results": "eval-1", "group_size": 8})
    assert [(one.tool, one.arguments) for one in calls] == [judged_again] * len(expected)


CHECKED = ours(history=(row("check_environment"),), hub_content=HubContent("equal"))
"""A package of ours on the Hub that passed its check, with the content that was pushed."""
STRANGERS = ours(ours=False, push=None, history=(), on_disk=())


def package(kind: str = "harness", **changes: Any) -> PackageFacts:
    return replace(PackageFacts(kind, "me/env@0.1.0", "train.harness"), **changes)


def needs(facts: PackageFacts) -> list[tuple[str, str]]:
    return [(unmet.tool, unmet.why) for unmet in package_unmet(facts, "prime")[0]]


@pytest.mark.parametrize(
    "known", [{"shipped": True}, {"within": True}, {"published": CHECKED}, {"published": STRANGERS}]
)
def test_what_is_shipped_part_of_a_source_checked_or_pinned_on_the_hub_needs_nothing(known: dict[str, Any]) -> None:
    assert package_unmet(package(**known), "prime") == ([], [])


def test_code_of_ours_needs_proof_with_the_environment_that_uses_it() -> None:
    assert needs(package(beside=STRANGERS, elsewhere=ours())) == [("write_training_config", "failed")]
    assert needs(package(beside=STRANGERS, published=CHECKED)) == [("write_training_config", "failed")]
    assert package_unmet(package(beside=ours(), elsewhere=STRANGERS), "prime") == ([], [])  # its evidence is with it
    unmet, cautions = package_unmet(package("function", elsewhere=ours()), "prime")
    assert (unmet, len(cautions)) == ([], 1)


def test_a_package_of_which_nothing_is_known_is_left_out() -> None:
    [unmet] = package_unmet(package(beside=ours()), "prime")[0]
    assert (unmet.tool, unmet.why, unmet.arguments) == (
        "write_training_config",
        "failed",
        {"environments": ["me/env@0.1.0"]},
    )
    assert "of which nothing is known here" in unmet.detail


@pytest.mark.parametrize(
    ("published", "expected"),
    [
        (replace(CHECKED, hub=HubFact(None)), [("search_hub", "inconclusive")]),
        (replace(CHECKED, history=CHAIN), [("check_environment", "never-run")]),
        (replace(CHECKED, push=None), [("push_environment", "never-run")]),
        (replace(CHECKED, on_disk=("s2",)), [("push_environment", "stale")]),
        (replace(STRANGERS, hub=HubFact(False)), [("search_hub", "failed")]),
    ],
)
def test_a_package_of_ours_is_checked_pushed_and_unchanged_and_a_strangers_exists(
    published: SourceFacts, expected: list[tuple[str, str]]
) -> None:
    assert needs(package(published=published)) == expected


def test_what_the_hub_holds_and_could_not_be_compared_is_named_in_the_question() -> None:
    unfetched = replace(CHECKED, hub_content=HubContent("unfetched", "its files could not be compared"))
    assert package_unmet(package(published=unfetched), "prime") == ([], ["its files could not be compared"])


def test_an_environment_class_beside_a_trained_source_was_in_no_evaluation() -> None:
    assert needs(package("environment", beside=ours())) == [("write_training_config", "failed")]
    unmet, cautions = package_unmet(package("environment", beside=ours(), shipped=True), "prime")
    assert (unmet, len(cautions)) == ([], 1)


def test_two_packages_that_are_imported_as_one_module_conflict() -> None:
    same = [("me/env@0.1.0", "env"), ("you/env@0.1.0", "env"), ("me/other@0.1.0", "other")]
    assert [unmet.arguments for unmet in conflicting_packages(same)] == [{"environments": ["me/env@0.1.0"]}]


def test_settings_of_an_own_environment_class_are_unproven_and_a_strangers_are_not_ours_to_prove() -> None:
    assert [unmet.tool for unmet in own_keys_unmet(ours(), ["env.rounds"])] == ["write_training_config"]
    assert own_keys_unmet(STRANGERS, ["env.rounds"]) == []


def test_a_waived_difference_on_the_hub_is_a_caution_of_the_question() -> None:
    facts = ours(hub_content=HubContent("different", "the wheel differs"), waived=((PUSH.content, HUB_DIFFERS),))
    assert source_unmet(facts, "prime", MODEL) == ([], ["a person waived that the wheel differs"])
    unnamed = replace(facts, hub_content=HubContent("different"))
    assert source_unmet(unnamed, "prime", MODEL) == ([], [])


def test_an_evaluation_with_another_harness_than_the_config_names_proves_nothing() -> None:
    evaluated = row("check_reward_distribution", model=MODEL, harness="owner/my-bash@1.0 (v1)")
    same = ours(history=(CHAIN[0], evaluated), harness="my_bash")
    assert missing(same) == []
    assert missing(replace(same, harness="other")) == [("check_reward_distribution", "never-run")]
    checked = row("check_environment", content="c1", data={"roles": [{"name": "agent", "harness": "my_bash"}]})
    hosted = replace(same, history=(checked, *CHAIN))  # the platform reports no harness, and ran the package's own
    assert missing(hosted) == []
    assert missing(replace(hosted, harness="other")) == [("check_reward_distribution", "never-run")]


def test_arguments_that_training_is_proven_with_are_offered_instead_of_those_without_evidence() -> None:
    facts = ours(history=EASY, args={"split": "other"})
    unmet = source_unmet(facts, "prime", MODEL)[0]
    offered = [one.instead for one in unmet if one.tool == "write_training_config"]
    assert offered[0] is not None
    assert offered[0].arguments == {"environments": [facts.id], "env_args": {"split": "train"}}


def test_the_agents_of_an_environment_are_those_of_its_last_check() -> None:
    checked = row("check_environment", content="c1", data={"roles": [{"name": "judge"}, {"name": 3}, "x"]})
    assert agents_of(ours(history=(checked, *CHAIN))) == {"agent", "judge"}
    assert agents_of(ours(history=(replace(checked, data={"roles": "x"}),))) == {"agent"}
    assert agents_of(ours()) == {"agent"}


def test_keys_of_agents_that_were_set_in_no_evaluation_are_a_caution_of_a_training_source() -> None:
    (caution,) = override_cautions(ours(), ["max_turns", "harness"])
    assert "is trained with max_turns, harness" in caution
    assert override_cautions(ours(), []) == override_cautions(ours(trains=False), ["max_turns"]) == []
