"""Reading rollouts from the files of both generations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.errors import EvalError
from prime_lab_mcp.lab.evals.results import Reading, locate, read


def episode(rewards: dict[str, Any], **changes: Any) -> dict[str, Any]:
    trace = {
        "id": "t1", "task": {"key": "k1", "data": {"idx": 0}}, "agent": {"name": "agent", "trainable": True},
        "nodes": [
            {"message": {"role": "user", "content": "1+1"}, "sampled": False},
            {"message": {"role": "assistant", "content": "two"}, "sampled": True},
        ],
        "calls": [{"finish_reason": "stop"}], "rewards": rewards, "metrics": {"chars": 3.0, "none": None}, "ok": True,
        "errors": [], "stop_condition": "agent_completed", "num_input_tokens": 7, "num_output_tokens": 2,
        "timing": {"start": 10.0, "scoring": {"start": 11.0, "end": 12.5}},
    } | changes  # fmt: skip
    return {"id": "e1", "task": {"key": "k1"}, "traces": [trace], "errors": [], "ok": True}


def written(path: Path, *records: object, tail: str = "") -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records) + tail, encoding="utf-8")
    return path


def test_a_v1_trace_gives_the_weighted_sum_and_its_parts(tmp_path: Path) -> None:
    parts = {"correct": {"score": 1.0, "weight": 1.0}, "form": {"score": 0.5, "weight": 0.2}}
    [found] = read(written(tmp_path / "traces.jsonl", episode(parts)))

    assert found.reward == pytest.approx(1.1)
    assert found.components == {"correct": (1.0, 1.0), "form": (0.5, 0.2)}
    assert (found.task, found.completion_text, found.stop) == ("k1", "two", "agent_completed")
    assert (found.prompt_tokens, found.completion_tokens, found.seconds) == (7, 2, 2.5)
    assert found.metrics == {"chars": 3.0}
    assert not found.truncated


def test_a_failed_trace_has_an_error_and_no_reward(tmp_path: Path) -> None:
    error = {"type": "ProviderError", "message": "down", "status_code": 503}
    [found] = read(written(tmp_path / "traces.jsonl", episode({}, ok=False, errors=[error])))

    assert (found.reward, found.error) == (None, "ProviderError 503: down")


@pytest.mark.parametrize(
    ("rewards", "nonfinite", "error"),
    [
        ({"r": {"score": None, "weight": 1.0}}, True, None),
        ({"r": None}, False, "it was not scored"),
        ({}, False, "the environment gave it no reward"),
    ],
)
def test_what_is_no_finite_reward_is_never_zero(
    tmp_path: Path, rewards: dict[str, Any], nonfinite: bool, error: str | None
) -> None:
    [found] = read(written(tmp_path / "traces.jsonl", episode(rewards)))

    assert (found.reward, found.nonfinite, found.error) == (None, nonfinite, error)


def test_a_cut_off_completion_is_truncated(tmp_path: Path) -> None:
    cut = episode({"r": {"score": 0.0, "weight": 1.0}}, calls=[{"finish_reason": "length"}])
    [found] = read(written(tmp_path / "traces.jsonl", cut))

    assert found.truncated


def test_a_broken_last_line_is_skipped(tmp_path: Path) -> None:
    good = episode({"r": {"score": 1.0, "weight": 1.0}})
    other = episode({"r": {"score": 1.0, "weight": 1.0}}, id="t2")
    reading = Reading()
    path = written(tmp_path / "traces.jsonl", good, other, tail='{"id": "e3", "tra')

    assert len(list(read(path, reading))) == 2
    assert (reading.cut_off, reading.broken) == (True, 0)


def v0(**changes: Any) -> dict[str, Any]:
    return {
        "example_id": 3, "prompt": [{"role": "user", "content": "1+1"}],
        "completion": [{"role": "assistant", "content": "2"}], "answer": "2", "reward": 1.2, "error": None,
        "timing": {"total": 1.5}, "is_truncated": False, "stop_condition": "max_turns_reached",
        "metrics": {"correct": 1.0, "num_turns": 1.0}, "token_usage": {"input_tokens": 9, "output_tokens": 4},
    } | changes  # fmt: skip


def test_a_v0_row_keeps_its_reward_and_has_parts_without_weights(tmp_path: Path) -> None:
    [found] = read(written(tmp_path / "results.jsonl", v0()))

    assert (found.task, found.reward, found.completion_text, found.seconds) == ("3", 1.2, "2", 1.5)
    assert found.components == {"correct": (1.0, None)}
    assert (found.prompt_tokens, found.completion_tokens) == (9, 4)


def test_a_failed_v0_row_is_no_zero_though_the_file_says_so(tmp_path: Path) -> None:
    failed = v0(reward=0.0, completion=[], error={"error": "ModelError", "error_chain_str": "ModelError -> 503"})
    [found] = read(written(tmp_path / "results.jsonl", failed))

    assert (found.reward, found.error) == (None, "ModelError -> 503")


def test_a_v0_nan_is_read_and_marked(tmp_path: Path) -> None:
    [first, second] = read(written(tmp_path / "results.jsonl", v0(), v0(reward=float("nan"))))

    assert (first.nonfinite, second.nonfinite, second.reward) == (False, True, None)


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"samples": rows}, lambda rows: {"data": rows}])
def test_documents_of_the_platform_are_read(tmp_path: Path, wrap: Any) -> None:
    rows = [{"example_id": 1, "reward": 0.5, "completion": "x"}, {"example_id": 1, "reward": None, "error": "boom"}]
    path = tmp_path / "samples.json"
    path.write_text(json.dumps(wrap(rows), indent=1), encoding="utf-8")

    assert [(r.task, r.reward, r.error) for r in read(path)] == [("1", 0.5, None), ("1", None, "boom")]


def test_a_run_folder_leads_to_its_results_file(tmp_path: Path) -> None:
    (tmp_path / "run" / "logs").mkdir(parents=True)
    path = written(tmp_path / "run" / "traces.jsonl", episode({}))

    assert locate(tmp_path) == path


@pytest.mark.parametrize("text", ['{"hello": 1}\n', "no json at all"])
def test_what_is_no_results_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(EvalError) as refused:
        list(read(path))
    assert refused.value.code == "results-unreadable"
