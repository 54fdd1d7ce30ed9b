"""Reading rollouts from the files of both generations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.evals.provenance import origin_differences, origin_of_results
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.relay.endpoints import Endpoint
from prime_lab_mcp.lab.rollouts import reading as reading_module
from prime_lab_mcp.lab.rollouts.reading import locate_results, read_rollouts, read_scores
from prime_lab_mcp.lab.rollouts.rollout import Reading


def episode(rewards: dict[str, Any], **changes: Any) -> dict[str, Any]:
    trace = {
        "id": "t1",
        "task": {"key": "k1", "data": {"idx": 0}},
        "agent": {"name": "agent", "trainable": True},
        "nodes": [
            {"message": {"role": "user", "content": "1+1"}, "sampled": False},
            {"message": {"role": "assistant", "content": "two"}, "sampled": True},
        ],
        "calls": [{"finish_reason": "stop"}],
        "rewards": rewards,
        "metrics": {"chars": 3.0, "none": None},
        "ok": True,
        "errors": [],
        "stop_condition": "agent_completed",
        "num_input_tokens": 7,
        "num_output_tokens": 2,
        "timing": {"start": 10.0, "scoring": {"start": 11.0, "end": 12.5}},
    } | changes
    return {"id": "e1", "task": {"key": "k1"}, "traces": [trace], "errors": [], "ok": True}


def written(path: Path, *records: object, tail: str = "") -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records) + tail, encoding="utf-8")
    return path


def test_a_v1_trace_gives_the_weighted_sum_and_its_parts(tmp_path: Path) -> None:
    parts = {"correct": {"score": 1.0, "weight": 1.0}, "form": {"score": 0.5, "weight": 0.2}}
    [found] = read_rollouts(written(tmp_path / "traces.jsonl", episode(parts)))

    assert found.reward == pytest.approx(1.1)
    assert found.components == {"correct": (1.0, 1.0), "form": (0.5, 0.2)}
    assert (found.task, found.completion_text, found.stop) == ("k1", "two", "agent_completed")
    assert (found.prompt_tokens, found.completion_tokens, found.seconds) == (7, 2, 2.5)
    assert found.metrics == {"chars": 3.0}
    assert not found.truncated


def test_a_failed_trace_has_an_error_and_no_reward(tmp_path: Path) -> None:
    error = {"type": "ProviderError", "message": "down", "status_code": 503}
    [found] = read_rollouts(written(tmp_path / "traces.jsonl", episode({}, ok=False, errors=[error])))

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
    [found] = read_rollouts(written(tmp_path / "traces.jsonl", episode(rewards)))

    assert (found.reward, found.nonfinite, found.error) == (None, nonfinite, error)


def test_a_cut_off_completion_is_truncated(tmp_path: Path) -> None:
    cut = episode({"r": {"score": 0.0, "weight": 1.0}}, calls=[{"finish_reason": "length"}])
    [found] = read_rollouts(written(tmp_path / "traces.jsonl", cut))

    assert found.truncated


def test_a_broken_last_line_is_skipped(tmp_path: Path) -> None:
    good = episode({"r": {"score": 1.0, "weight": 1.0}})
    other = episode({"r": {"score": 1.0, "weight": 1.0}}, id="t2")
    reading = Reading()
    path = written(tmp_path / "traces.jsonl", good, other, tail='{"id": "e3", "tra')

    assert len(list(read_rollouts(path, reading))) == 2
    assert (reading.cut_off, reading.broken) == (True, 0)


def test_a_failure_that_was_retried_with_success_is_none(tmp_path: Path) -> None:
    earlier = {"type": "ProviderError", "message": "down", "status_code": 503}
    good = episode({"r": {"score": 1.0, "weight": 1.0}}, errors=[earlier])
    [found] = read_rollouts(written(tmp_path / "traces.jsonl", good))

    assert (found.reward, found.error) == (1.0, None)


@pytest.mark.parametrize(
    ("changes", "cut"),
    [
        ({"stop_condition": "max_turns"}, False),
        ({"stop_condition": "max_total_tokens"}, True),
        ({"calls": [{"finish_reason": "length"}, {"finish_reason": "stop"}]}, False),
        ({"calls": [{"finish_reason": "length"}, {"finish_reason": None, "error": {"type": "ProviderError"}}]}, True),
    ],
)
def test_truncation_is_what_verifiers_calls_it(tmp_path: Path, changes: dict[str, Any], cut: bool) -> None:
    path = written(tmp_path / "traces.jsonl", episode({"r": {"score": 0.0, "weight": 1.0}}, **changes))

    assert [r.truncated for r in read_rollouts(path)] == [r.truncated for r in read_scores(path)] == [cut]


def test_tokens_are_those_of_the_calls_where_branches_share_them(tmp_path: Path) -> None:
    used = {"finish_reason": "stop", "usage": {"prompt_tokens": 10, "completion_tokens": 5}}
    branched = episode({"r": {"score": 0.0, "weight": 1.0}}, calls=[used, used], num_output_tokens=15)
    [found] = read_rollouts(written(tmp_path / "traces.jsonl", branched))

    assert (found.prompt_tokens, found.completion_tokens) == (7, 10)


def numbered(count: int, **changes: Any) -> list[dict[str, Any]]:
    return [episode({"r": {"score": 1.0, "weight": 1.0}}, id=f"t{n}", **changes) for n in range(count)]


@pytest.mark.parametrize("way", [read_rollouts, read_scores])
def test_a_broken_line_within_the_file_is_counted(tmp_path: Path, way: Any) -> None:
    lines = [json.dumps(r) for r in numbered(4)]
    path = tmp_path / "traces.jsonl"
    path.write_text("\n".join([lines[0], lines[1][:200], "7", lines[2], "", lines[3][:90], ""]), encoding="utf-8")
    reading = Reading()

    assert len(list(way(path, reading))) == reading.rollouts == 2
    assert (reading.broken, reading.broken_at, reading.cut_off) == (2, 2, True)
    assert [f.code for f in reading.findings()] == ["results-broken-lines", "results-cut-off"]


@pytest.mark.parametrize("way", [read_rollouts, read_scores])
def test_a_broken_first_line_hides_no_other(tmp_path: Path, way: Any) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text('{"id": "e0", "tra\n' + "".join(json.dumps(r) + "\n" for r in numbered(2)), encoding="utf-8")
    reading = Reading()

    assert (len(list(way(path, reading))), reading.broken, reading.cut_off) == (2, 1, False)


@pytest.mark.parametrize("way", [read_rollouts, read_scores])
def test_a_rollout_that_was_stored_twice_counts_once(tmp_path: Path, way: Any) -> None:
    rows = numbered(3)
    reading = Reading()
    found = list(way(written(tmp_path / "traces.jsonl", *rows, rows[1]), reading))

    assert [r.id for r in found] == ["t0", "t1", "t2"]
    assert (reading.repeated, reading.repeated_id) == (1, "t1")
    assert [f.code for f in reading.findings()] == ["results-repeated"]


def test_a_v0_row_has_no_id_and_is_known_by_its_start(tmp_path: Path) -> None:
    first, second = v0(timing={"total": 1.0, "start_time": 5.25}), v0(timing={"total": 1.0, "start_time": 5.5})
    reading = Reading()

    assert len(list(read_scores(written(tmp_path / "results.jsonl", first, second, first), reading))) == 2
    assert reading.repeated == 1
    # Without a start, nothing tells a repetition from another rollout with the same answer.
    assert len(list(read_scores(written(tmp_path / "results.jsonl", v0(), v0())))) == 2


@pytest.mark.parametrize("way", [read_rollouts, read_scores])
@pytest.mark.parametrize(
    "other",
    [
        {"agent": {"name": "agent", "trainable": True, "config": {"model": "another"}}},
        {"verifiers": {"version": "0.3.1"}},
    ],
)
def test_rows_that_another_made_are_left_out_and_told(tmp_path: Path, way: Any, other: dict[str, Any]) -> None:
    agent = {"name": "agent", "trainable": True, "config": {"model": "one"}}
    usual = {"agent": agent, "verifiers": {"version": "0.4.0"}}
    foreign = episode({"r": {"score": 0.0, "weight": 1.0}}, id="other", **(usual | other))
    reading = Reading()

    assert len(list(way(written(tmp_path / "traces.jsonl", *numbered(3, **usual), foreign), reading))) == 3
    [finding] = reading.findings()
    assert (finding.code, finding.severity) == ("results-mixed-origin", "blocker")
    assert reading.foreign.total() == 1


def test_two_trained_agents_may_be_two_models(tmp_path: Path) -> None:
    rows = numbered(2)
    for row in rows:
        agents = [{"name": n, "trainable": True, "config": {"model": n}} for n in ("solver", "critic")]
        row["traces"] = [row["traces"][0] | {"agent": a, "id": f"{row['traces'][0]['id']}{a['name']}"} for a in agents]
    reading = Reading()
    found = list(read_scores(written(tmp_path / "traces.jsonl", *rows), reading))

    assert [r.task for r in found] == ["k1/solver", "k1/critic"] * 2
    assert reading.findings() == ()


@pytest.mark.parametrize("way", [read_rollouts, read_scores])
@pytest.mark.parametrize("records", [(episode({}), "v0"), ("v0", episode({})), (episode({}), {"hello": 1})])
def test_layouts_do_not_mix(tmp_path: Path, way: Any, records: Any) -> None:
    path = written(tmp_path / "traces.jsonl", *(v0() if r == "v0" else r for r in records))

    with pytest.raises(EvalError) as refused:
        list(way(path))
    assert refused.value.code == "results-mixed"
    assert "record 2" in refused.value.message


@pytest.mark.parametrize("text", ["", "\n\n", '{"id": "e0", "trac'])
def test_a_file_without_a_rollout_is_told_for_what_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(EvalError) as refused:
        list(read_scores(path))
    assert refused.value.code == "results-empty"


def v0(**changes: Any) -> dict[str, Any]:
    return {
        "example_id": 3,
        "prompt": [{"role": "user", "content": "1+1"}],
        "completion": [{"role": "assistant", "content": "2"}],
        "answer": "2",
        "reward": 1.2,
        "error": None,
        "timing": {"total": 1.5},
        "is_truncated": False,
        "stop_condition": "max_turns_reached",
        "metrics": {"correct": 1.0, "num_turns": 1.0},
        "token_usage": {"input_tokens": 9, "output_tokens": 4},
    } | changes


def test_a_v0_row_keeps_its_reward_and_has_parts_without_weights(tmp_path: Path) -> None:
    [found] = read_rollouts(written(tmp_path / "results.jsonl", v0()))

    assert (found.task, found.reward, found.completion_text, found.seconds) == ("3", 1.2, "2", 1.5)
    assert found.components == {"correct": (1.0, None)}
    assert (found.prompt_tokens, found.completion_tokens) == (9, 4)


def test_a_failed_v0_row_is_no_zero_though_the_file_says_so(tmp_path: Path) -> None:
    failed = v0(reward=0.0, completion=[], error={"error": "ModelError", "error_chain_str": "ModelError -> 503"})
    [found] = read_rollouts(written(tmp_path / "results.jsonl", failed))

    assert (found.reward, found.error) == (None, "ModelError -> 503")


def test_a_v0_nan_is_read_and_marked(tmp_path: Path) -> None:
    [first, second] = read_rollouts(written(tmp_path / "results.jsonl", v0(), v0(reward=float("nan"))))

    assert (first.nonfinite, second.nonfinite, second.reward) == (False, True, None)


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"samples": rows}, lambda rows: {"data": rows}])
def test_documents_of_the_platform_are_read(tmp_path: Path, wrap: Any) -> None:
    rows = [{"example_id": 1, "reward": 0.5, "completion": "x"}, {"example_id": 1, "reward": None, "error": "boom"}]
    path = tmp_path / "samples.json"
    path.write_text(json.dumps(wrap(rows), indent=1), encoding="utf-8")

    assert [(r.task, r.reward, r.error) for r in read_rollouts(path)] == [("1", 0.5, None), ("1", None, "boom")]


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"run_id": "r", "total": 12, "samples": rows}])
def test_a_large_document_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrap: Any) -> None:
    monkeypatch.setattr(reading_module, "DECODED_WHOLE_BYTES", 100)
    monkeypatch.setattr(reading_module, "_CHUNK", 64)
    rows = [{"problem_id": n // 4, "sample_id": n, "reward": n / 8, "completion": 'é]}\\" ' * n} for n in range(12)]
    path = tmp_path / "rollouts.json"
    path.write_text(json.dumps(wrap(rows), indent=2, ensure_ascii=False), encoding="utf-8")

    assert [(r.task, r.reward) for r in read_rollouts(path)] == [(str(n // 4), n / 8) for n in range(12)]
    path.write_text(path.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    with pytest.raises(EvalError) as refused:
        list(read_rollouts(path))
    assert refused.value.code == "results-unreadable"


def test_a_record_that_would_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_module, "DECODED_WHOLE_BYTES", 100)
    monkeypatch.setattr(reading_module, "_CHUNK", 64)
    monkeypatch.setattr(reading_module, "LARGEST_RECORD", 500)
    path = tmp_path / "samples.json"
    path.write_text('[\n{"reward": 1.0, "completion": "' + "x" * 3000, encoding="utf-8")

    with pytest.raises(EvalError) as refused:
        list(read_rollouts(path))
    assert refused.value.code == "results-too-big"


def test_null_is_no_score_and_no_zero(tmp_path: Path) -> None:
    rows = [{"example_id": 1, "reward": None}, {"example_id": 1, "score": 0.25}, {"example_id": 2, "reward": True}]
    path = written(tmp_path / "samples.jsonl", *rows)

    assert [(r.reward, r.error, r.nonfinite) for r in read_rollouts(path)] == [
        (None, "it was not scored", False),
        (0.25, None, False),
        (1.0, None, False),
    ]


CONFIG = {
    "harness": {"id": "vf-lab-chat"},
    "runtime": {"type": "subprocess"},
    "model": "m",
    "sampling": {"temperature": 1.0, "top_p": None, "max_tokens": 64},
}


def specified(**changes: Any) -> EvalSpec:
    usual = {
        "environment": "sums-v1",
        "source": "s",
        "content": "c",
        "tree": Path(),
        "api": "v1",
        "module": "sums_v1",
        "python": Path(),
        "program": Path(),
        "verifiers": "0.4.0",
        "model": "m",
        "endpoint": Endpoint("url", "http://localhost/v1"),
        "num_examples": 1,
        "rollouts": 1,
        "max_tokens": 64,
    }
    return EvalSpec(**(usual | changes))  # type: ignore[arg-type]


def test_a_v1_file_tells_what_made_it(tmp_path: Path) -> None:
    agent = {"name": "agent", "trainable": True, "config": CONFIG}
    row = episode({}, agent=agent, verifiers={"version": "0.4.0"}) | {"env": {"id": "sums_v1"}}
    found = origin_of_results(written(tmp_path / "traces.jsonl", row))

    assert (found.generation, found.environment, found.model, found.verifiers) == ("v1", "sums_v1", "m", "0.4.0")
    assert (found.harness, found.runtime, found.sampling) == (
        "vf-lab-chat",
        "subprocess",
        {"temperature": 1.0, "max_tokens": 64},
    )
    assert origin_differences(found, specified()) == []
    asked = specified(model="other", temperature=0.2, harness="bash", verifiers="0.4.1")
    assert [d.text for d in origin_differences(found, asked)] == [
        'model is "m", not "other"',
        'verifiers is "0.4.0", not "0.4.1"',
        'harness is "vf-lab-chat", not "bash"',
        "temperature is 1, not 0.2",
    ]


def test_a_v0_file_tells_it_by_the_metadata_beside_it(tmp_path: Path) -> None:
    metadata = {
        "env_id": "sums_v0",
        "env_args": {"n": 2},
        "model": "m",
        "version_info": {"vf_version": "0.1.14"},
        "sampling_args": {"n": 1, "extra_body": {"top_p": 0.5}, "temperature": 1.0},
    }
    (tmp_path / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    found = origin_of_results(written(tmp_path / "results.jsonl", v0()))
    spec = specified(environment="sums-v0", module="sums_v0", api="v0", verifiers="0.1.14")

    assert (found.generation, found.verifiers, found.harness) == ("v0", "0.1.14", None)
    assert [d.text for d in origin_differences(found, spec)] == [
        'env_args is "{\\"n\\": 2}", not "{}"',
        "max_tokens is unset, not 64",
        "top_p is 0.5, not 1",
    ]


def test_what_a_file_does_not_tell_differs_from_nothing(tmp_path: Path) -> None:
    found = origin_of_results(written(tmp_path / "samples.jsonl", {"example_id": 1, "reward": 1.0}))

    assert (found.layout, found.generation, origin_differences(found, specified())) == ("document", None, [])


def test_a_run_folder_leads_to_its_results_file(tmp_path: Path) -> None:
    (tmp_path / "run" / "logs").mkdir(parents=True)
    path = written(tmp_path / "run" / "traces.jsonl", episode({}))

    assert locate_results(tmp_path) == path


@pytest.mark.parametrize("text", ['{"hello": 1}\n', "no json at all"])
def test_what_is_no_results_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(EvalError) as refused:
        list(read_rollouts(path))
    assert refused.value.code == "results-unreadable"
