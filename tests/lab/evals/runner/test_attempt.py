"""What a running evaluation has finished, told from its results file as it grows."""

from __future__ import annotations

import json
import os
from pathlib import Path

from prime_lab_mcp.lab.evals.runner.attempt import ResultsCounter
from tests.lab.evals.finished import SPEC, episode


def lines(rewards: list[float | None]) -> list[bytes]:
    return [json.dumps(episode(n, reward, "word " * n)).encode() + b"\n" for n, reward in enumerate(rewards)]


def test_a_line_counts_once_it_is_whole(tmp_path: Path) -> None:
    path, tally = tmp_path / "traces.jsonl", ResultsCounter(SPEC)
    first, second = lines([1.0, None])
    path.write_bytes(first + second[:40])
    tally.follow(path)
    assert (tally.rollouts, tally.errors) == (1, 0)

    path.write_bytes(first + second)
    tally.follow(path)
    assert (tally.rollouts, tally.errors, tally.scored) == (2, 1, 1)


def test_a_file_in_another_order_in_its_place_is_counted_anew(tmp_path: Path) -> None:
    path, tally = tmp_path / "traces.jsonl", ResultsCounter(SPEC)
    rows = lines([1.0, 0.0, 1.0, 0.0])
    path.write_bytes(b"".join(rows[:3]))
    tally.follow(path)
    other = tmp_path / "sorted"
    other.write_bytes(b"".join(rows[::-1]))
    os.replace(other, path)

    tally.follow(path)

    assert (tally.rollouts, tally.scored, tally.as_json()["mean_reward"]) == (4, 4, 0.5)


def test_a_file_that_took_the_number_of_the_one_before_it_is_counted_anew(tmp_path: Path) -> None:
    path, tally = tmp_path / "traces.jsonl", ResultsCounter(SPEC)
    rows = lines([1.0, 0.0, 1.0, 0.0])
    path.write_bytes(b"".join(rows[:3]))
    tally.follow(path)
    path.write_bytes(b"".join(rows[::-1]))  # the same file by its number, in another order

    tally.follow(path)

    assert (tally.rollouts, tally.scored) == (4, 4)


def test_a_file_that_lost_its_end_is_counted_anew(tmp_path: Path) -> None:
    path, tally = tmp_path / "traces.jsonl", ResultsCounter(SPEC)
    rows = lines([1.0, 1.0, 1.0])
    path.write_bytes(b"".join(rows))
    tally.follow(path)
    with path.open("rb+") as kept:
        kept.truncate(len(rows[0]))

    tally.follow(path)

    assert tally.rollouts == 1


def test_an_episode_of_two_trained_agents_is_one_rollout(tmp_path: Path) -> None:
    path, tally = tmp_path / "traces.jsonl", ResultsCounter(SPEC)
    both = episode(0, 1.0)
    [one] = both["traces"]
    both["traces"] = [one, {**one, "id": "other", "agent": {"name": "second", "trainable": True}}]
    path.write_bytes(json.dumps(both).encode() + b"\n")

    tally.follow(path)

    assert (tally.rollouts, tally.scored) == (1, 2)
