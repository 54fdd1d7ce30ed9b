"""Gates as pure functions: what counts as evidence of a need, and what is stale."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.state.evaluation_evidence import TrainedModel
from prime_lab_mcp.lab.state.gates import (
    Need,
    Standing,
    Subject,
    installed_verifiers,
    standing,
    upcoming_call,
    with_arguments,
)
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.workspace import Workspace
from tests.lab.state.evidence_rows import blocked_by, row

HERE = Subject("env", source="s1", content="c1")
WORKSPACE = Workspace(Path("/no-such-workspace"))
REWARD = Need("test_reward", "source")
SIGNAL = Need("check_reward_distribution", "source")


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


CONFIG = Need("check_training_config", "config")


def of(need: Need, history: list[Evidence], subject: Subject = HERE, **options: Any) -> Standing:
    return standing(need, history, subject, options.pop("platform", "prime"), options.pop("waived", set()), **options)


def test_a_config_is_proven_by_a_verdict_on_the_same_file_only() -> None:
    subject = Subject(config_sha256="f1")
    this = row(CONFIG.tool, environment=None, source=None, content=None, config_sha256="f1")
    other = replace(this, config_sha256="f2")
    assert of(CONFIG, [this], subject).why is None
    assert of(CONFIG, [other], subject).why == "stale"
    assert of(CONFIG, [other, this], subject).why is None
    assert of(CONFIG, [], subject).detail == "check_training_config has not run on this config file"
    assert of(CONFIG, [row(CONFIG.tool)], subject).why == "never-run"


def test_a_subject_without_a_fingerprint_has_no_evidence() -> None:
    nowhere = replace(HERE, source=None)
    assert of(REWARD, [row(source=None)], nowhere).why == "stale"
    assert of(REWARD, [row(environment="other")], replace(HERE, source="s2")).why == "never-run"


def test_a_verdict_with_an_older_definition_of_source_is_stale_and_says_so() -> None:
    older = of(REWARD, [row(source="s0")])
    assert (older.why, older.row) == ("stale", row(source="s0"))
    assert "an older definition of what counts as source" in older.detail
    edited = of(REWARD, [row(source="s0", content="c0")])
    assert edited.detail == "the files changed since the last test_reward that counts"


def test_a_verdict_of_the_other_platform_is_named_with_the_platform_and_shown() -> None:
    rehearsed = of(REWARD, [row(platform="rehearsal")])
    assert rehearsed.row == row(platform="rehearsal")
    assert rehearsed.detail == "test_reward passed only against rehearsal; run it here"
    real = of(REWARD, [row(platform="prime")], platform="rehearsal")
    assert real.detail == "test_reward passed only against the real platform; run it here"


def test_other_arguments_are_named_and_prove_nothing() -> None:
    need, subject = Need("test_reward", "source", "named"), replace(HERE, arguments={"level": 2})
    result = of(need, [row(env_args={"level": 1})], subject)
    assert (result.why, result.arguments) == ("never-run", {"environment": "env", "env_args": {"level": 2}})
    assert result.detail.startswith("test_reward has run on this environment, but not with ")
    assert "2" in result.detail
    assert of(need, [row(env_args={"level": 1}), row(env_args={"level": 2})], subject).why is None
    assert of(need, [row(env_args={})], replace(subject, defaults={"level": 2})).why is None
    assert of(need, [], subject).detail == "test_reward has not run on this environment"


def test_the_same_values_with_keys_in_another_order_are_said_to_be_just_that() -> None:
    need = Need("test_reward", "source", "named")
    subject = replace(HERE, arguments={"levels": {"b": 1, "a": 2}})
    ordered = of(need, [row(env_args={"levels": {"a": 2, "b": 1}})], subject)
    assert ordered.why == "never-run"
    assert "the keys of a table were in another order" in ordered.detail
    assert "another order" not in of(need, [row(env_args={"levels": {"a": 3}})], subject).detail


def test_the_call_of_a_missing_verdict_names_arguments_only_where_they_are_needed() -> None:
    def arguments(need: Need, **changes: Any) -> Any:
        return of(need, [], replace(HERE, **changes)).arguments

    named = Need("test_reward", "source", "named")
    assert arguments(Need("check_environment", "content"), arguments={"a": 1}) == {"environment": "env"}
    assert arguments(REWARD, arguments={"a": 1}) == {"environment": "env"}
    assert arguments(named, arguments={"a": 1}) == {"environment": "env", "env_args": {"a": 1}}
    assert arguments(named, arguments={"a": 1}, defaults={"a": 1}) == {"environment": "env"}
    # test_reward uses the checked arguments by itself; an evaluation has to be given them
    checked: dict[str, Any] = {"arguments": {"a": 1}, "check_args": {"a": 1}}
    assert arguments(named, **checked) == {"environment": "env"}
    assert arguments(Need("check_reward_distribution", "source", "named"), **checked)["env_args"] == {"a": 1}
    assert arguments(named, check_args={"a": 1}) == {"environment": "env", "env_args": {}}
    assert arguments(CONFIG) is None
    assert arguments(named, environment=None) is None


def test_a_larger_evaluation_is_proposed_only_where_the_sample_was_the_only_reason() -> None:
    def instead(**changes: Any) -> Next | None:
        given: dict[str, Any] = {"tool": SIGNAL.tool, "status": "inconclusive", **changes}
        codes = given.pop("codes", ("distribution-too-small",))
        findings = [{"code": code, "severity": "blocker"} for code in codes]
        found = of(replace(SIGNAL, tool=given["tool"]), [row(**given, findings=findings)]).unmet
        assert found is not None
        return found.instead

    proposed = instead(data={"tasks": 49}, env_args={"level": 1})
    assert proposed is not None
    assert proposed.arguments == {"environment": "env", "env_args": {"level": 1}}
    assert "distribution-too-small" in proposed.why
    assert instead(codes=("distribution-too-small", "eval-all-errors")) is None
    assert instead(codes=()) is None
    assert instead(tool="test_reward") is None
    assert instead(status="failed") is None


@pytest.mark.parametrize(
    ("code", "view"), [("distribution-all-zero", "zeros"), ("distribution-too-easy-mostly", "difficulty")]
)
def test_a_failed_distribution_leads_to_its_rollouts_and_not_to_the_same_verdict(code: str, view: str) -> None:
    findings = [{"code": code, "severity": "blocker"}]
    found = of(SIGNAL, [row(tool=SIGNAL.tool, status="failed", findings=findings, data={"id": "eval-1"})]).unmet
    assert found is not None
    assert found.instead is not None
    assert (found.instead.tool, found.instead.arguments) == ("read_eval", {"eval": "eval-1", "view": view})


@pytest.mark.parametrize(
    ("code", "shown"), [("distribution-dead", "no reward"), ("distribution-noise", "teach nothing")]
)
def test_the_reason_says_what_the_rollouts_show(code: str, shown: str) -> None:
    findings = [{"code": code, "severity": "blocker"}]
    found = of(SIGNAL, [row(tool=SIGNAL.tool, status="failed", findings=findings, data={"id": "eval-1"})]).unmet
    assert found is not None
    assert found.instead is not None
    assert shown in found.instead.why


@pytest.mark.parametrize("id", [None, "", 7])
def test_a_failed_distribution_of_unknown_rollouts_leads_to_none(id: object) -> None:
    findings = [{"code": "distribution-dead", "severity": "blocker"}]
    found = of(SIGNAL, [row(tool=SIGNAL.tool, status="failed", findings=findings, data={"id": id})]).unmet
    assert found is not None
    assert found.instead is None


def test_the_evaluation_that_fits_is_the_evidence_and_not_the_newest() -> None:
    small = blocked_by("distribution-too-small", tool=SIGNAL.tool, status="inconclusive", model="M")
    dead = blocked_by("distribution-dead", tool=SIGNAL.tool, model="Other")
    passed = row(SIGNAL.tool, model="M")
    assert of(SIGNAL, [small, passed]).row == passed
    assert of(SIGNAL, [dead, passed]).row == passed, "at a push, a benchmark of another model closes nothing"
    assert of(SIGNAL, [dead, small, passed], trained=TrainedModel("M")).row == passed
    assert of(SIGNAL, [dead, passed], trained=TrainedModel("Other")).why == "failed"
    assert of(SIGNAL, [dead, passed], waived={("s1", "distribution-dead")}).row == dead
    assert of(SIGNAL, [small, dead], waived={("s1", "distribution-too-small")}).row == small
    assert of(SIGNAL, [small, dead], waived={("s0", "distribution-too-small")}).row == dead
    nameless = row(SIGNAL.tool, status="inconclusive", model="M")
    assert of(SIGNAL, [nameless, dead], waived={("s1", "distribution-too-small")}).row == dead
    only = of(SIGNAL, [row(SIGNAL.tool, model="run-step-5")], trained=TrainedModel("M", runs=frozenset({"run"})))
    assert (only.why, only.row) == ("never-run", None)
    assert "only checkpoints" in only.detail


def test_a_pass_that_was_reached_with_other_dependencies_is_stale_and_a_failure_stays_one() -> None:
    present = {"numpy": "2.0 aa"}
    subject = replace(HERE, distributions=present)
    same, other = ({"distributions": {"numpy": f"{version} aa"}} for version in ("2.0", "1.0"))
    assert of(REWARD, [row(toolchain=same)], subject).why is None
    drifted = of(REWARD, [row(toolchain=other)], subject)
    assert (drifted.why, drifted.row) == ("stale", row(toolchain=other))
    assert drifted.detail == "test_reward ran with other dependencies than now: numpy 1.0 is 2.0 now"
    assert of(REWARD, [blocked_by("x", toolchain=other)], subject).why == "failed"
    assert of(REWARD, [row(toolchain=other)]).why is None, "nothing is compared where nothing is known"
    assert of(Need("push_environment", "source"), [row("push_environment")], subject).why is None


def test_dependencies_of_the_same_version_with_other_files_are_named_in_one_phrase() -> None:
    present = {"numpy": "2.0 aa", **{f"part{number}": f"1.{number} bb" for number in range(6)}}
    built_before = {"distributions": {**{name: f"{text[:3]} cc" for name, text in present.items()}, "numpy": "1.0 aa"}}
    drifted = of(REWARD, [row(toolchain=built_before)], replace(HERE, distributions=present))
    assert drifted.detail == (
        "test_reward ran with other dependencies than now: numpy 1.0 is 2.0 now,"
        " the files of part0 1.0, part1 1.1, part2 1.2, part3 1.3 and 2 more differ"
    )


def test_a_failure_names_its_first_four_blockers_and_which_a_person_waived() -> None:
    codes = ("a", "b", "c", "d", "e")
    failed = row(status="failed", findings=[{"code": code, "severity": "blocker"} for code in codes])
    assert of(REWARD, [failed]).detail == "test_reward was failed here: a, b, c, d"
    assert of(REWARD, [failed], waived={("s1", "a")}).detail == "test_reward was failed here: b, c, d, e"
    waived = of(REWARD, [failed], waived={("s1", code) for code in codes})
    assert (waived.why, waived.detail) == (None, "test_reward: a person waived a, b, c, d, e")
    assert of(REWARD, [row(status="failed")]).detail == "test_reward was failed here: no blocker named"
    assert of(REWARD, [row()]).detail == "test_reward passed"


@pytest.mark.parametrize(
    ("need", "history", "expected"),
    [
        (Need("check_environment", "content"), [], ("check_environment", {"environment": "env"})),
        (Need("check_environment", "content"), ["x"], ("check_environment", {"environment": "env"})),
        (REWARD, [], ("test_reward", {"environment": "env", "env_args": {"a": 1}})),
        (REWARD, ["x"], ("read_environment", {"environment": "env"})),
        (SIGNAL, [], ("run_eval", {"environment": "env", "env_args": {"a": 1}})),
        (SIGNAL, ["distribution-dead"], ("read_eval", {"view": "zeros"})),
        (
            Need("push_environment", "source"),
            ["hub-content-differs"],
            ("push_environment", {"environment": "env", "env_args": {"a": 1}}),
        ),
    ],
)
def test_the_next_call_of_an_environment_is_that_of_its_first_missing_evidence(
    need: Need, history: list[str], expected: tuple[str, dict[str, Any]]
) -> None:
    states = [of(REWARD, [row()]), of(need, [blocked_by(code, tool=need.tool) for code in history])]
    proposed = upcoming_call("env", "v1", states, {"a": 1}, workspace=WORKSPACE)
    assert (proposed.tool, dict(proposed.arguments or {})) == expected


def test_a_reward_test_that_failed_is_not_run_again_on_the_same_files() -> None:
    unmet = of(REWARD, [blocked_by("reward-constant")]).unmet
    assert unmet is not None
    assert unmet.instead == Next(
        "read_environment",
        f"{unmet.detail}; mend it with edit_environment, then call test_reward",
        {"environment": "env"},
    )


def test_a_reward_test_without_a_verdict_leads_to_the_code() -> None:
    unclear = of(REWARD, [blocked_by("gold-not-understood", status="inconclusive")])
    proposed = upcoming_call("env", "v1", [unclear], {"a": 1}, workspace=WORKSPACE)
    assert (proposed.tool, proposed.arguments) == ("read_environment", {"environment": "env"})
    assert proposed.why == f"{unclear.detail}; mend it with edit_environment"


def test_a_reward_test_on_a_machine_that_was_too_slow_leads_to_the_same_test() -> None:
    slow = of(REWARD, [blocked_by("rollouts-too-slow", status="inconclusive")])
    proposed = upcoming_call("env", "v1", [slow], {"a": 1}, workspace=WORKSPACE)
    assert (proposed.tool, proposed.arguments) == ("test_reward", {"environment": "env", "env_args": {"a": 1}})
    assert "edit_environment" not in proposed.why


CHECK = Need("check_environment", "content")


@pytest.mark.parametrize(
    ("needs", "failed", "expected"),
    [
        ([CHECK, REWARD], False, "test_reward"),
        ([CHECK, REWARD, SIGNAL], False, "test_reward"),
        ([CHECK, REWARD, SIGNAL], True, "check_environment"),
        ([CHECK, SIGNAL], False, "check_environment"),
    ],
    ids=lambda value: " ".join(n.tool for n in value) if isinstance(value, list) else None,
)
def test_the_reward_test_is_proposed_where_it_runs_the_missing_check_first(
    needs: list[Need], failed: bool, expected: str
) -> None:
    states = [of(need, []) for need in needs]
    if failed:
        states[0] = of(CHECK, [blocked_by("load-failed", tool="check_environment")])
    assert upcoming_call("env", "v1", states, workspace=WORKSPACE).tool == expected


def test_after_the_last_gate_comes_the_config_and_a_v0_environment_is_ported() -> None:
    proven = [of(REWARD, [row()])]
    written = upcoming_call("env", "v1", proven, {"a": 1}, workspace=WORKSPACE)
    assert (written.tool, written.arguments) == (
        "write_training_config",
        {"environments": ["env"], "env_args": {"a": 1}},
    )
    assert upcoming_call("env", None, proven, workspace=WORKSPACE).arguments == {"environments": ["env"]}
    port = upcoming_call("env", "v0", proven, workspace=WORKSPACE)
    assert (port.tool, port.arguments) == ("create_environment", {"name": "env-v1", "port": "env"})


def test_the_version_of_verifiers_is_that_of_its_metadata() -> None:
    assert installed_verifiers() == importlib.metadata.version("verifiers")


def test_without_verifiers_no_version_of_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    assert installed_verifiers() is None
