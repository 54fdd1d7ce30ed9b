"""The light path of reading gives the same rollouts as the full one, whatever the records hold."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st

from prime_lab_mcp.lab.rollouts.conversation import gold, task_data
from prime_lab_mcp.lab.rollouts.reading import FirstRollouts, Layout, decode_line, parse_record, parse_score_line
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.lab.rollouts.scores import v0_scores, v1_scores

WORDS = st.text(alphabet='abc é"\\\n{}', max_size=6)
COUNTS = st.one_of(st.integers(0, 10**6), st.none(), st.just(12.0))
USUAL = st.one_of(st.floats(-2, 2), st.integers(-3, 3), st.none())
NUMBERS = st.integers(0, 19).flatmap(
    lambda n: USUAL if n else st.sampled_from([float("nan"), float("inf"), -float("inf"), True, 10**400])
)
ODD = st.one_of(NUMBERS, WORDS, st.lists(WORDS, max_size=2))
STOPS = st.sampled_from(
    [
        "agent_completed",
        "max_turns",
        "max_output_tokens",
        "provider_error",
        "max_turns_reached",
        "prompt_too_long",
        "max_total_completion_tokens_reached",
        "",
        None,
    ]
)


@st.composite
def fields(draw: st.DrawFn, usual: dict[str, Any], odd: dict[str, Any] | None = None) -> dict[str, Any]:
    """Most of these keys; once in a while one of `odd` holds what no library writes."""
    whole = usual | (odd or {})
    missing = draw(st.sets(st.sampled_from(sorted(whole)), max_size=2)) if draw(st.integers(0, 3)) == 0 else set()
    made = {k: draw(v) for k, v in whole.items() if k not in missing}
    if odd and draw(st.integers(0, 9)) == 0:
        made[draw(st.sampled_from(sorted(odd)))] = draw(ODD)
    return made


ERRORS = st.lists(
    st.one_of(fields({"type": WORDS, "message": WORDS, "status_code": st.sampled_from([None, 503])}), WORDS),
    max_size=2,
)
TASKS = fields(
    {
        "key": st.one_of(WORDS, st.none()),
        "hash": WORDS,
        "data": fields({"idx": st.integers(0, 9), "answer": WORDS}, {"label": ODD}),
    }
)
CALLS = st.lists(
    fields(
        {
            "finish_reason": st.sampled_from(["stop", "length", "tool_calls", None]),
            "usage": st.one_of(st.none(), fields({"prompt_tokens": COUNTS, "completion_tokens": COUNTS})),
            "error": st.one_of(st.none(), fields({"type": WORDS})),
        }
    ),
    max_size=3,
)
MESSAGES = st.lists(fields({"role": st.sampled_from(["user", "assistant"]), "content": WORDS}), max_size=3)
TRACES = fields(
    {
        "id": st.one_of(WORDS, st.none()),
        "agent": fields(
            {
                "name": WORDS,
                "trainable": st.booleans(),
                "config": fields({"model": WORDS}),
            }
        ),
        "nodes": st.lists(fields({"message": fields({"content": WORDS}), "sampled": st.booleans()}), max_size=2),
        "ok": st.sampled_from([True, False, None]),
        "is_timeout": st.booleans(),
        "verifiers": fields({"version": WORDS}),
    },
    {
        "task": TASKS,
        "calls": CALLS,
        "errors": ERRORS,
        "stop_condition": STOPS,
        "rewards": st.dictionaries(
            WORDS, st.one_of(st.none(), fields({}, {"score": NUMBERS, "weight": NUMBERS})), max_size=3
        ),
        "metrics": st.dictionaries(WORDS, NUMBERS, max_size=2),
        "timing": fields({"start": st.floats(0, 9), "scoring": fields({"end": st.floats(0, 20)})}),
        "num_input_tokens": COUNTS,
        "num_output_tokens": COUNTS,
    },
)
EPISODES = st.builds(
    lambda traces, rest: {"traces": traces, **rest},
    st.lists(TRACES, max_size=3),
    fields(
        {"id": WORDS, "env": fields({"id": WORDS}), "ok": st.sampled_from([True, False, None])},
        {"task": TASKS, "errors": ERRORS},
    ),
)
ROWS = st.builds(
    lambda needed, rest: needed | rest,
    st.fixed_dictionaries(
        {
            "example_id": st.one_of(st.integers(0, 9), WORDS),
            "completion": st.one_of(MESSAGES, WORDS, st.none()),
            "timing": fields({}, {"start_time": st.floats(0, 2e9), "total": st.floats(0, 9)}),
        }
    ),
    fields(
        {
            "prompt": MESSAGES,
            "answer": WORDS,
            "info": st.one_of(st.none(), WORDS, fields({"gold": ODD})),
            "token_usage": st.one_of(
                st.none(),
                fields(
                    {
                        "input_tokens": COUNTS,
                        "output_tokens": COUNTS,
                        "final_input_tokens": COUNTS,
                        "final_output_tokens": COUNTS,
                    }
                ),
            ),
            "error": st.one_of(st.none(), WORDS, fields({"error": WORDS, "error_chain_str": WORDS})),
        },
        {
            "reward": NUMBERS,
            "metrics": st.dictionaries(st.one_of(WORDS, st.just("num_turns")), NUMBERS, max_size=3),
            "is_truncated": st.booleans(),
            "stop_condition": STOPS,
        },
    ),
)
SAMPLES = st.builds(
    lambda reward, rest: {"reward": reward, **rest},
    NUMBERS,
    fields(
        {"id": WORDS, "example_id": st.integers(0, 9), "prompt": st.one_of(MESSAGES, WORDS), "completion": MESSAGES},
        {
            "metrics": st.dictionaries(WORDS, NUMBERS, max_size=2),
            "error": WORDS,
            "is_truncated": st.booleans(),
            "num_input_tokens": COUNTS,
            "completion_tokens": COUNTS,
            "info": fields({"metrics": st.none()}),
            "stop_condition": STOPS,
            "usage": fields({"prompt_tokens": COUNTS}),
        },
    ),
)


def light(rollout: Rollout) -> Rollout:
    return replace(rollout, record={}, completion_text="", seconds=0.0)


def agree(record: dict[str, Any], written_by: Layout) -> None:
    line = json.dumps(record).encode()
    full = [light(r) for r in parse_record(decode_line(line), written_by)]
    quick = {"v1": v1_scores, "v0": v0_scores}.get(written_by)
    event("typed" if quick and quick(line) is not None else "tolerant")

    assert list(parse_score_line(line, written_by) or ()) == full


@settings(max_examples=120, deadline=None)
@given(EPISODES)
def test_v1_episodes_read_the_same_both_ways(record: dict[str, Any]) -> None:
    agree(record, "v1")


@settings(max_examples=200, deadline=None)
@given(ROWS)
def test_v0_rows_read_the_same_both_ways(record: dict[str, Any]) -> None:
    agree(record, "v0")


@settings(max_examples=100, deadline=None)
@given(SAMPLES)
def test_samples_of_the_platform_read_the_same_both_ways(record: dict[str, Any]) -> None:
    agree(record, "document")


def asked_alike(records: list[dict[str, Any]], written_by: Layout) -> None:
    """The first of each task in both ways, with all that its task says."""
    first, seen = FirstRollouts(), set()
    for record in records:
        line = json.dumps(record).encode()
        quick = {"v1": first.v1, "v0": first.v0}[written_by](line)
        found = list(parse_record(decode_line(line), written_by) if quick is None else quick)
        full = [r for r in parse_record(decode_line(line), written_by) if r.task not in seen]
        seen |= {r.task for r in full}
        event("typed" if quick is not None else "tolerant")
        told = {r.task: (gold(r), dict(task_data(r))) for r in reversed(found) if r.task not in first.tasks_read}
        assert told == {r.task: (gold(r), dict(task_data(r))) for r in reversed(full)}
        for rollout in found:
            first.admit(rollout)


@settings(max_examples=80, deadline=None)
@given(st.lists(EPISODES, max_size=3))
def test_tasks_of_v1_episodes_read_the_same_both_ways(records: list[dict[str, Any]]) -> None:
    asked_alike(records, "v1")


@settings(max_examples=80, deadline=None)
@given(st.lists(ROWS, max_size=3))
def test_tasks_of_v0_rows_read_the_same_both_ways(records: list[dict[str, Any]]) -> None:
    asked_alike(records, "v0")


def test_a_task_without_a_key_is_named_alike_by_both_ways() -> None:
    """By its index; the names of several agents do not make up for the empty key."""
    agents = [
        {"id": str(n), "agent": {"name": f"agent {n}"}, "task": {"key": "", "data": {"idx": n, "answer": "4"}}}
        for n in (5, 6)
    ]
    line = json.dumps({"id": "e", "traces": agents, "task": {"key": "whole", "data": {}}}).encode()
    assert FirstRollouts().v1(line) is None
    assert [rollout.task for rollout in parse_record(decode_line(line), "v1")] == ["5/agent 5", "6/agent 6"]
