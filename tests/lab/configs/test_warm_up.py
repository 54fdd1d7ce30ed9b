"""Warm-up configs: which rollouts become conversations, and the values of the config around them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.configs.config import parse_config
from prime_lab_mcp.lab.configs.draft import ConfigLineage, render_draft
from prime_lab_mcp.lab.configs.examine import config_findings
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices
from prime_lab_mcp.lab.configs.schema import schema_problems
from prime_lab_mcp.lab.configs.warm_up.author import EPOCHS, compose_warm_up, hosted_steps, volume_name
from prime_lab_mcp.lab.configs.warm_up.examples import (
    PER_TASK,
    ConversationRow,
    SolvedRollouts,
    WarmUpExamples,
    solved_conversations,
)
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from tests.lab.configs.test_write import DAY
from tests.lab.evals.records import ADD, call, result, said, v1

GOOD = {"correct": 1.0, "answer_format": 1.0}
HALF = {"correct": 0.0, "answer_format": 1.0}
MODEL = "Qwen/Qwen3-1.7B"


def of(rollouts: Sequence[Rollout], held_out: Sequence[str] = ()) -> SolvedRollouts:
    def each() -> Iterator[Rollout]:
        return iter(rollouts)

    return solved_conversations(each, {}, frozenset(held_out))


def right(text: str, **changes: Any) -> Rollout:
    return v1([said(text)], GOOD, **changes)


def rows(number: int, tokens: int = 400) -> tuple[ConversationRow, ...]:
    return tuple(
        ConversationRow(json.dumps({"messages": [{"role": "assistant", "content": str(i)}]}), tokens)
        for i in range(number)
    )


def test_only_rollouts_at_the_full_reward_become_conversations() -> None:
    found = of([right("<answer>3</answer>"), v1([said("<answer>4</answer>")], HALF)])
    assert [json.loads(r.line) for r in found.rows] == [
        {
            "messages": [
                {"role": "user", "content": "What is 1+2? Put it in <answer></answer>."},
                {"role": "assistant", "content": "<answer>3</answer>"},
            ]
        }
    ]
    assert (found.tasks, found.played) == (1, 2)


def test_a_task_gives_two_a_text_one_and_held_out_or_cut_off_ones_none() -> None:
    many = [right(f"<answer>3</answer> {i}") for i in range(5)]
    assert len(of(many).rows) == PER_TASK
    assert of(many).omitted == {"over 2 of its task": 3}
    assert of([right("same"), right("same")]).omitted == {"said before": 1}
    assert of([right("x")], held_out=["k1"]).omitted == {"held out": 1}
    cut = v1([said("x", finish="length")], GOOD)
    assert of([cut]).omitted == {"cut off": 1}


def test_a_branched_rollout_and_one_with_pictures_are_left_out() -> None:
    branched, pictured = right("x"), right("y")
    for node in branched.record["nodes"]:
        node["parent"] = None if node is branched.record["nodes"][0] else 5
    pictured.record["nodes"][0]["message"]["content"] = [{"type": "image_url", "image_url": {"url": "data:"}}]
    assert of([branched, pictured]).omitted == {"branched": 1, "with pictures": 1}


def test_calls_tools_and_reasoning_are_kept_as_the_trainer_reads_them() -> None:
    turns = [said("", call('{"first": 1}'), reasoning="hm"), result("3"), said("<answer>3</answer>")]
    (row,) = of([v1(turns, GOOD, tools=[ADD])]).rows
    told = json.loads(row.line)
    assert told["messages"][1]["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"first": 1}'}
    assert told["messages"][1]["reasoning_content"] == "hm"
    assert told["messages"][2] == {"role": "tool", "content": "3", "tool_call_id": "c0"}
    assert json.loads(told["tools"])[0]["function"]["name"] == "add"
    assert row.tokens > 10


def test_a_model_without_a_typed_renderer_is_refused_with_the_key_that_names_one() -> None:
    found = WarmUpExamples(rows(20), "eval-1", "20")
    with pytest.raises(BadInput) as refused:
        compose_warm_up(ConfigChoices((), model="someone/tuned"), found, "warm")
    assert (refused.value.code, "renderer.name" in refused.value.fix) == ("config-sft-renderer", True)
    default = ConfigChoices((), model="someone/tuned", extra={"renderer.name": "default"})
    with pytest.raises(BadInput):
        compose_warm_up(default, found, "warm")
    named = compose_warm_up(ConfigChoices((), model="someone/tuned", extra={"renderer.name": "qwen3"}), found, "warm")
    assert named.get("renderer.name") == "qwen3"


def test_nested_keys_of_fine_tuning_are_merged_into_their_tables() -> None:
    extra = {"data": {"shuffle": False}, "optim": {"weight_decay": 0.0}}
    draft = compose_warm_up(ConfigChoices((), model=MODEL, extra=extra), WarmUpExamples(rows(20), "e", "20"), "warm")
    assert draft.get("data.shuffle") is False
    assert draft.get("data.batch_size") is not None
    assert draft.get("optim.lr") == 1e-5


@pytest.mark.parametrize("target", ["hosted", "self-managed"])
@pytest.mark.parametrize("lora", [None, True])
@pytest.mark.parametrize("model", [MODEL, "Qwen/Qwen3-32B"])
@pytest.mark.parametrize(
    "found", [WarmUpExamples(rows(200), "eval-1", "200"), WarmUpExamples(None, "owner/set", "set")]
)
def test_every_combination_is_valid_by_the_schema_and_has_no_blocker(
    target: Any, lora: bool | None, model: str, found: WarmUpExamples
) -> None:
    draft = compose_warm_up(ConfigChoices((), model=model, target=target, lora=lora, wandb="p"), found, "warm")
    config = parse_config(render_draft(draft, ConfigLineage("warm", 1, DAY, target, ())), Path("warm.toml"))
    assert schema_problems(config.table, "sft") == []
    assert [f for f in config_findings(config) if f.severity == "blocker"] == []
    assert config.shape == "sft"
    assert (config.batch_size or 0) % config.train_gpus == 0
    assert all(draft.reasons.values())


def test_steps_follow_the_tokens_and_the_length_the_longest() -> None:
    found = WarmUpExamples(rows(400, tokens=600), "eval-1", "400")
    draft = compose_warm_up(ConfigChoices((), model=MODEL), found, "warm")
    batch, length, steps = (draft.get(k) for k in ("data.batch_size", "data.seq_len", "max_steps"))
    assert length == 640
    assert steps * batch * length == pytest.approx(EPOCHS * 400 * 600, rel=0.1)
    asked = compose_warm_up(ConfigChoices((), model=MODEL, steps=7, batch=16, lr=3e-6, gpus=2), found, "warm")
    assert [asked.get(k) for k in ("max_steps", "data.batch_size", "optim.lr", "deployment.num_train_gpus")] == [
        7,
        16,
        3e-6,
        2,
    ]


def test_data_lie_on_a_volume_for_the_platform_and_beside_the_config_for_ones_own_gpus() -> None:
    found = WarmUpExamples(rows(9), "eval-1", "9")
    hosted, own = (
        compose_warm_up(ConfigChoices((), model=MODEL, target=t), found, "My_warm") for t in ("hosted", "self-managed")
    )  # type: ignore[arg-type]
    assert (hosted.get("data.name"), hosted.get("volume")) == ("datasets/My_warm", "my-warm")
    assert (own.get("data.name"), own.get("volume")) == ("configs/sft/My_warm", None)
    assert volume_name("___") == "warm-up"


@pytest.mark.parametrize("dataset", [None, "owner/set"])
def test_the_platform_run_is_started_by_a_person_after_its_data_are_there(dataset: str | None) -> None:
    draft = compose_warm_up(ConfigChoices((), model=MODEL), WarmUpExamples(None, "owner/set", "set"), "warm")
    config = parse_config(render_draft(draft, ConfigLineage("warm", 1, DAY, "hosted", ())), Path("warm.toml"))
    steps = hosted_steps(config, "configs/sft/warm.toml", dataset)
    commands = [s.command for s in steps]
    moved = (
        "hf download owner/set --repo-type dataset --local-dir datasets/warm"
        if dataset
        else ("prime volumes put warm configs/sft/warm datasets/")
    )
    assert commands.index(moved) < commands.index("prime train configs/sft/warm.toml --sft")


def test_a_model_without_weights_is_not_warmed_up_by_guess() -> None:
    found = WarmUpExamples(rows(9), "eval-1", "9", model="openai/gpt-4.1-mini")
    with pytest.raises(BadInput) as caught:
        compose_warm_up(ConfigChoices(()), found, "warm")
    assert caught.value.code == "sft-no-model"
