"""What the packages of a config must have besides its tasksets, as a pure function of facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from prime_lab_mcp.lab.state.package_gate import PackageFacts, conflicting_packages, own_keys_unmet, package_unmet
from prime_lab_mcp.lab.state.source_gate import HubContent, HubFact, SourceFacts
from tests.lab.state.evidence_rows import CHAIN, ours, row

CHECKED = ours(history=(row("check_environment"),), held=HubContent("equal"))
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
    unfetched = replace(CHECKED, held=HubContent("unfetched", "its files could not be compared"))
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
