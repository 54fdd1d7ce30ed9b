"""Verdicts on whole sets of rollouts."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import pytest

from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.rollouts.rollout import Rollout


def rollout(task: int | str, reward: float | None, **more: object) -> Rollout:
    return Rollout(task=str(task), reward=reward, **more)  # type: ignore[arg-type]


def binary(p: float, tasks: int = 50, r: int = 8, seed: int = 0) -> list[Rollout]:
    rng = random.Random(seed)
    return [rollout(t, float(rng.random() < p)) for t in range(tasks) for _ in range(r)]


def parts(correct: float, form: float, weight: float = 0.2) -> dict[str, object]:
    return {"reward": correct + weight * form, "components": {"correct": (correct, 1.0), "format": (form, weight)}}


def blockers(found: Distribution) -> list[str]:
    return [f.code for f in found.findings if f.severity == "blocker"]


def codes(found: Distribution) -> set[str]:
    return {f.code for f in found.findings}


def test_a_healthy_distribution_passes_with_all_five_checks() -> None:
    found = judge_rollouts(binary(0.4))

    assert (found.status, blockers(found)) == ("passed", [])
    assert [c.name for c in found.checks] == ["sample-count", "not-all-zero", "not-all-one", "variance", "format"]
    assert [c.passed for c in found.checks] == [True, True, True, True, None]


def test_half_always_and_half_never_passes_the_five_checks_and_fails_all_the_same() -> None:
    def rows() -> Iterator[Rollout]:
        for task in range(50):
            for _ in range(4):
                yield rollout(task, **parts(float(task % 2), 1.0))  # type: ignore[arg-type]

    found = judge_rollouts(rows())

    assert all(c.passed for c in found.checks)
    assert found.zero_variance_share == 1.0
    assert (found.status, blockers(found)) == ("failed", ["distribution-no-signal"])


def test_a_too_small_sample_that_leaves_a_rule_open_names_one_size() -> None:
    """Two blockers named 146 tasks, computed from 10, and 50 x 8; the larger one was offered as the next call."""
    for seed in range(40):
        found = judge_rollouts(binary(0.2, tasks=10, r=4, seed=seed))
        blocking = {f.code: f for f in found.findings if f.severity == "blocker"}
        if blocking.keys() == {"distribution-too-small", "distribution-unclear"}:
            break
    else:
        raise AssertionError("no sample was both too small and unclear")
    sizes = {(row["num_examples"], row["rollouts"]) for f in blocking.values() for row in f.rows}
    assert sizes == {(50, 8)}
    fixes = {f.fix for f in blocking.values()}
    assert any("num_examples=50" in fix for fix in fixes)
    assert all("num_examples=50" in fix or fix.startswith("As for ") for fix in fixes)


@pytest.mark.parametrize(("tasks", "r"), [(29, 8), (50, 3), (5, 4)])
def test_too_few_tasks_or_rollouts_never_pass(tasks: int, r: int) -> None:
    found = judge_rollouts(binary(0.5, tasks, r))

    assert found.status == "inconclusive"
    assert "distribution-too-small" in blockers(found)


def test_twenty_zeros_decide_nothing_and_four_hundred_do() -> None:
    few, many = judge_rollouts(binary(0.0, 5, 4)), judge_rollouts(binary(0.0, 50, 8))

    assert few.status == "inconclusive"
    assert many.status == "failed"
    assert "distribution-all-zero" in blockers(many)
    assert "distribution-unclear" not in blockers(many)


def test_zeros_that_do_not_decide_are_one_finding_that_says_that_nothing_was_paid() -> None:
    """The report said three times that an interval lies across a threshold, of 120 rollouts without any reward."""
    found = judge_rollouts(binary(0.0, 30, 4))

    assert found.status == "inconclusive"
    (unclear,) = [f for f in found.findings if f.code == "distribution-unclear"]
    assert "none of 120 rollouts earned anything" in unclear.message
    assert "30 tasks leave a mean of up to 0.0" in unclear.message
    assert 'read_eval(view="zeros")' in unclear.fix


def test_what_is_always_solved_fails() -> None:
    found = judge_rollouts(binary(1.0))

    assert found.status == "failed"
    assert blockers(found) == ["distribution-all-one"]  # one fact is said once
    assert "distribution-constant-component" not in {f.code for f in found.findings}
    assert found.difficulty == {"never": 0, "hard": 0, "normal": 0, "easy": 0, "always": 50}


def test_an_interval_across_a_threshold_is_inconclusive_and_says_how_many_tasks_decide() -> None:
    found = judge_rollouts(binary(0.05, 40, 4, seed=3))

    assert found.status == "inconclusive"
    unclear = [f for f in found.findings if f.code == "distribution-unclear"]
    assert unclear
    assert "num_examples=" in unclear[0].fix or "no sample would decide" in unclear[0].fix


def test_errors_are_no_wrong_answers() -> None:
    rows = binary(0.5)
    broken = [rollout(t, None, error="503") for t in range(50)]
    with_errors, without = judge_rollouts([*rows, *broken[:20]]), judge_rollouts(rows)

    assert with_errors.mean == without.mean
    assert with_errors.error_rate == pytest.approx(20 / 420)
    assert with_errors.status == "passed"
    assert "eval-errors" in blockers(judge_rollouts([*rows, *broken]))


def test_only_errors_is_inconclusive_and_has_no_mean() -> None:
    found = judge_rollouts([rollout(t, None, error="503") for t in range(50)])

    assert (found.status, blockers(found), found.mean) == ("inconclusive", ["eval-all-errors"], None)


def test_nothing_at_all_is_inconclusive() -> None:
    assert judge_rollouts([]).status == "inconclusive"


def test_a_reward_that_is_no_number_fails() -> None:
    found = judge_rollouts([*binary(0.5), rollout(0, None, nonfinite=True)])
    assert blockers(found) == ["distribution-nonfinite"]


@pytest.mark.parametrize(("share", "severity"), [(0.03, None), (0.1, "warning"), (0.3, "blocker")])
def test_truncation_is_judged_by_its_share(share: float, severity: str | None) -> None:
    rng = random.Random(0)
    rows = [rollout(r.task, r.reward, truncated=rng.random() < share) for r in binary(0.5)]
    found = {f.code: f.severity for f in judge_rollouts(rows).findings}

    assert found.get("distribution-truncated") == severity


def test_rewards_are_normalised_by_what_is_attainable() -> None:
    rng = random.Random(0)
    rows = [rollout(t, **parts(float(rng.random() < 0.5), 1.0)) for t in range(50) for _ in range(8)]  # type: ignore[arg-type]
    found = judge_rollouts(rows)

    assert found.attainable == pytest.approx(1.2)
    assert found.attainable_from == "weights"
    assert found.mean == pytest.approx((0.5 + 0.2) / 1.2, abs=0.05)
    assert found.pass_rate == pytest.approx(0.5, abs=0.06)
    assert found.perfect_rate == found.pass_rate


def test_weights_of_a_v0_environment_come_from_the_environment() -> None:
    rng = random.Random(0)
    rows = []
    for task in range(50):
        for _ in range(8):
            correct = float(rng.random() < 0.5)
            known = {"correct": (correct, None), "form": (1.0, None), "tool_calls": (3.0, None)}
            rows.append(rollout(task, correct + 0.2, components=known))
    found = judge_rollouts(rows, weights={"correct": 1.0, "form": 0.2})

    assert found.attainable == pytest.approx(1.2)
    assert {c.name: c.weight for c in found.components} == {"correct": 1.0, "form": 0.2}


def test_scores_above_the_weights_raise_what_is_attainable() -> None:
    rows = [rollout(t, 5.0 * (n % 2), components={"points": (5.0 * (n % 2), 1.0)}) for t in range(40) for n in range(4)]
    found = judge_rollouts(rows)

    assert (found.attainable, found.attainable_from) == (5.0, "observed")


def test_shares_of_components_inside_tasks_sum_to_one() -> None:
    rng = random.Random(1)
    rows = [
        rollout(t, **parts(float(rng.random() < 0.4), float(rng.random() < 0.8)))  # type: ignore[arg-type]
        for t in range(50)
        for _ in range(8)
    ]
    found = {c.name: c.within_task_share or 0.0 for c in judge_rollouts(rows).components}

    assert sum(found.values()) == pytest.approx(1.0)
    assert found["correct"] > 0.9


def test_a_run_that_could_only_learn_the_format_fails() -> None:
    rng = random.Random(2)
    rows = [rollout(t, **parts(float(t % 5 == 0), float(rng.random() < 0.6), 1.0)) for t in range(50) for _ in range(8)]  # type: ignore[arg-type]
    assert "distribution-format-dominates" in blockers(judge_rollouts(rows))
    rows = [rollout(t, **parts(0.0, float(rng.random() < 0.6), 1.0)) for t in range(50) for _ in range(8)]  # type: ignore[arg-type]
    dead = judge_rollouts(rows)
    assert blockers(dead) == ["distribution-dead"]  # the rest follows from it
    assert "A run would learn that alone" in dead.findings[0].message
    assert "solve_something" in dead.findings[0].fix


def test_a_model_that_ignores_the_format_fails_the_format_check() -> None:
    rng = random.Random(3)
    rows = [
        rollout(t, **parts(float(rng.random() < 0.5), float(rng.random() < 0.1)))  # type: ignore[arg-type]
        for t in range(50)
        for _ in range(8)
    ]
    found = judge_rollouts(rows)

    assert "distribution-format-low" in blockers(found)
    assert [c.passed for c in found.checks if c.name == "format"] == [False]


def test_pass_at_k_is_the_unbiased_estimate() -> None:
    rows = [rollout(t, float(n < 2)) for t in range(30) for n in range(4)]
    found = judge_rollouts(rows).pass_at_k

    assert found == {1: pytest.approx(0.5), 2: pytest.approx(1 - 1 / 6), 4: pytest.approx(1.0)}


def test_length_that_pays_is_warned_of() -> None:
    rng = random.Random(4)
    rows = []
    for task in range(50):
        for _ in range(8):
            reward = float(rng.random() < 0.5)
            rows.append(rollout(task, reward, completion_tokens=int(100 + 100 * reward + rng.random() * 50)))
    found = judge_rollouts(rows)

    assert found.length_correlation is not None
    assert found.length_correlation.rho > 0.7
    assert "distribution-length-correlation" in codes(found)
    assert found.completion_tokens["p50"] > 100


def test_more_turns_are_not_longer_answers() -> None:
    def findings(tokens_of_a_reply: int) -> set[str]:
        """Solved games take 1 to 3 replies of about 100 tokens, and lost games 6 of `tokens_of_a_reply`."""
        rng = random.Random(5)
        rows = []
        for task in range(50):
            for _ in range(8):
                reward = float(rng.random() < 0.5)
                replies = rng.randint(1, 3) if reward else 6
                each = (100 if reward else tokens_of_a_reply) + rng.randint(-20, 20)
                rows.append(rollout(task, reward, completion_tokens=each * replies, replies=replies))
        return codes(judge_rollouts(rows))

    assert "distribution-length-correlation" not in findings(100)
    assert "distribution-length-correlation" in findings(300)


def test_rollouts_that_skip_the_tool_are_short_and_unpaid_which_is_no_reward_for_length() -> None:
    rng = random.Random(4)
    rows = []
    for task in range(50):
        for _ in range(8):
            called = rng.random() < 0.8
            reward = float(called and rng.random() < 0.6)
            tokens = int((100 if called else 20) + rng.random() * 50)
            rows.append(rollout(task, reward, completion_tokens=tokens, called_tool=called))
    assert "distribution-length-correlation" not in codes(judge_rollouts(rows))
    without = [replace(row, called_tool=None) for row in rows]
    assert "distribution-length-correlation" in codes(judge_rollouts(without))


def test_a_model_no_better_than_a_trivial_policy_fails() -> None:
    assert "distribution-at-floor" in blockers(judge_rollouts(binary(0.5), floor=0.5))
    assert judge_rollouts(binary(0.5), floor=0.1).status == "passed"


def test_a_mean_above_the_floor_that_few_tasks_do_not_tell_from_the_floor_is_undecided() -> None:
    rng = random.Random(2)
    hard = [rng.random() < 0.5 for _ in range(50)]
    rows = [rollout(t, float(rng.random() < (0.15 if hard[t] else 0.85))) for t in range(50) for _ in range(8)]
    mean = sum(row.reward or 0 for row in rows) / len(rows)
    judged = judge_rollouts(rows, floor=mean - 0.03, available=400)
    assert (judged.status, blockers(judged)) == ("inconclusive", ["distribution-unclear"])
    assert "num_examples" in str(judged.findings[0].fix)
    assert "distribution-at-floor" in blockers(judge_rollouts(rows, floor=mean + 0.01, available=400))


def test_rewards_that_differ_by_nothing_worth_naming_fail() -> None:
    rng = random.Random(5)
    rows = [rollout(t, 0.5 + 0.001 * rng.random()) for t in range(50) for _ in range(8)]
    assert blockers(judge_rollouts(rows)) == ["distribution-constant"]


def test_continuous_rewards_are_judged() -> None:
    rng = random.Random(6)
    found = judge_rollouts([rollout(t, rng.random()) for t in range(50) for _ in range(8)])

    assert found.status == "passed"
    assert found.usable_groups.share == pytest.approx(1.0, abs=0.01)


def test_rollouts_stream_by_in_one_pass_and_none_is_kept() -> None:
    rng = random.Random(7)

    def rows() -> Iterator[Rollout]:
        for n in range(20_000):
            yield rollout(n % 2500, float(rng.random() < 0.4), completion_text="said " * 400 + str(n))

    tracemalloc.start()
    try:
        found = judge_rollouts(rows())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert (found.status, found.rollouts, found.tasks) == ("passed", 20_000, 2500)
    assert peak < 20_000 * 400, "bytes for each, of which its text alone has 2,000"


def test_every_blocker_has_a_fix_and_the_public_form_holds_only_plain_values() -> None:
    import json

    for rows in (binary(0.0), binary(1.0), binary(0.05, 40, 4), binary(0.5, 5, 2), []):
        found = judge_rollouts(rows)
        assert all(f.fix for f in found.findings)
        assert found.status == "passed" or blockers(found)
        assert len(json.dumps(found.as_json())) < 4000


def test_lengths_that_point_against_the_correlation_are_not_given_for_it() -> None:
    """Inside each task the longer replies are solved; the tasks that are solved more often have shorter replies."""
    rows = []
    for task in range(40):
        easy = task % 2 == 0
        for n in range(8):
            solved = n < (6 if easy else 2)
            rows.append(Rollout(str(task), float(solved), completion_tokens=(20 if easy else 200) + 5 * solved))
    [found] = [f for f in judge_rollouts(rows).findings if f.code == "distribution-length-correlation"]
    assert "longer completions" in found.message
    assert "solved ones" not in found.message


def test_replies_that_were_cut_far_below_the_limit_ask_for_no_higher_limit() -> None:
    """One rule with the view `zeros` and the writer of configs (`was_cut_early`)."""
    rows = [
        rollout(t, float(n % 2), truncated=n == 0 and t % 2 == 0, completion_tokens=40.0)
        for t in range(50)
        for n in range(4)
    ]
    [near] = [f for f in judge_rollouts(rows, max_tokens=64).findings if f.code == "distribution-truncated"]
    [far] = [f for f in judge_rollouts(rows, max_tokens=2048).findings if f.code == "distribution-truncated"]
    assert "with a higher max_tokens" in near.fix
    assert "A higher max_tokens changes nothing" in far.fix
    assert judge_rollouts(rows, max_tokens=2048).as_json()["cut_early"] is True
    assert "cut_early" not in judge_rollouts(rows, max_tokens=64).as_json()
