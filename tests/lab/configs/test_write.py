"""Every config that is written is sound: valid by the schema and without a blocker, whatever was chosen."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, SourceMeasurement
from prime_lab_mcp.lab.configs.draft import ConfigLineage, equal_except_date, flat_values, safe_comment
from prime_lab_mcp.lab.configs.examine import config_findings
from prime_lab_mcp.lab.configs.make import ConfigProposal, propose_config, with_extra
from prime_lab_mcp.lab.configs.migrate.rows import leaf_values
from prime_lab_mcp.lab.configs.plan.batching import usable_share_at_group
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices, SourceChoice
from prime_lab_mcp.lab.configs.plan.decide import _interval, near_models
from prime_lab_mcp.lab.configs.rules.speed import fewer_tokens
from prime_lab_mcp.lab.configs.schema import schema_problems
from prime_lab_mcp.lab.configs.write import finish_text
from prime_lab_mcp.lab.prime.answers import HostedGpuOffer, PlatformModels
from tests.lab.configs.examples import sound
from tests.support.pairwise import rotating

TINY = SourceChoice("alice/tiny-env@0.1.0")
HELD_OUT = SourceChoice("alice/tiny-env@0.1.0", args={"split": "train"}, held_out={"split": "eval"})
DAY = date(2026, 11, 21)
MARKET = PlatformModels(
    {"Qwen/Qwen3-4B-Instruct-2507": ("H200_141GB",)},
    (
        HostedGpuOffer("H200_141GB", 3.5, True, True),
        HostedGpuOffer("H100_80GB", 2.4, True, True),
        HostedGpuOffer("A100_80GB", 1.4, False, True),
        HostedGpuOffer("L4", 1.5, True, True),
    ),
)


def written(choices: ConfigChoices, seen: ConfigContext | None = None) -> tuple[str, TrainingConfig, ConfigProposal]:
    made = propose_config(choices, seen or ConfigContext(), "tiny")
    lineage = ConfigLineage("tiny", 1, DAY, choices.target, ("alice/tiny-env@0.1.0",))
    text, config = finish_text(made.draft, lineage, Path("tiny.toml"))
    return text, config, made


def assert_sound(config: TrainingConfig) -> None:
    assert schema_problems(config.table) == []
    assert [f for f in config_findings(config) if f.severity == "blocker"] == []


GRID: dict[str, list[Any]] = {
    "target": ["hosted", "self-managed"],
    "lora": [None, False],
    "curriculum": [None, "gate", "both"],
    "group": [None, 8],
    "model": [None, "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-235B-A22B-Instruct-2507", "someone/tuned"],
    "sources": [(TINY,), (HELD_OUT, SourceChoice("bob/other@2.0", name="other", ratio=0.5))],
}


@pytest.mark.parametrize(tuple(GRID), rotating(GRID, share=4))
def test_every_combination_of_choices_is_sound(
    target: Any, lora: bool | None, curriculum: Any, group: int | None, model: str | None, sources: Any
) -> None:
    choices = ConfigChoices(
        sources, target=target, lora=lora, curriculum=curriculum, group=group, model=model, wandb="project"
    )
    _, config, _ = written(choices, ConfigContext(models=MARKET))
    assert_sound(config)


@settings(max_examples=60, deadline=None)
@given(
    batch=st.none() | st.integers(1, 4096),
    group=st.none() | st.integers(2, 64),
    steps=st.none() | st.integers(1, 5000),
    max_tokens=st.none() | st.integers(1, 100_000),
    gpus=st.none() | st.integers(1, 40),
    model=st.sampled_from([None, "Qwen/Qwen3-0.6B", "Qwen/Qwen3-32B", "x/Y-235B-A22B", "x/Z-900B", "someone/tuned"]),
    lora=st.none() | st.booleans(),
    tasks=st.none() | st.integers(1, 100_000),
    tokens=st.none() | st.integers(1, 20_000),
    usable=st.none() | st.floats(0, 1),
    mean=st.none() | st.floats(0, 1),
)
def test_any_numbers_give_a_sound_config_or_a_refusal_with_a_fix(
    batch: int | None,
    group: int | None,
    steps: int | None,
    max_tokens: int | None,
    gpus: int | None,
    model: str | None,
    lora: bool | None,
    tasks: int | None,
    tokens: int | None,
    usable: float | None,
    mean: float | None,
) -> None:
    choices = ConfigChoices(
        (HELD_OUT,), batch=batch, group=group, steps=steps, max_tokens=max_tokens, gpus=gpus, lora=lora, model=model
    )
    seen = ConfigContext(
        tasks=tasks,
        completion_tokens=tokens,
        prompt_tokens=tokens,
        longest=tokens,
        usable=usable,
        mean=mean,
        models=MARKET,
    )
    config = written_or_refused(choices, ("config-batch-group", "config-gpus"), seen)
    if config is not None:
        assert_sound(config)


def written_or_refused(
    choices: ConfigChoices, codes: tuple[str, ...], seen: ConfigContext | None = None
) -> TrainingConfig | None:
    """None when it was refused for a reason that is allowed."""
    try:
        return written(choices, seen)[1]
    except BadInput as error:
        if error.code not in codes or not error.fix:
            raise
        return None


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(
        st.text(max_size=12),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**40), 2**40)
            | st.floats(allow_nan=False)
            | st.text(max_size=20),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
            max_leaves=6,
        ),
        max_size=4,
    )
)
def test_any_environment_arguments_come_back_as_given_or_are_refused(args: dict[str, Any]) -> None:
    args.pop("id", None)
    config = written_or_refused(
        ConfigChoices((SourceChoice("alice/tiny-env@0.1.0", args=args),)), ("config-bad-value",)
    )
    if config is not None:
        assert dict(config.train_sources[0].args) == args


def test_every_value_carries_its_reason() -> None:
    text, _, _ = written(ConfigChoices((HELD_OUT,), curriculum="both", wandb="project"))
    bare = [line for line in text.splitlines() if " = " in line and not line.startswith("#") and "  # " not in line]
    assert bare == []


def test_the_header_tells_the_lineage() -> None:
    text, config, _ = written(ConfigChoices((TINY,), target="self-managed"))
    assert "# target: self-managed\n" in text
    assert "# created: 2026-11-21 by" in text
    assert "# environments: alice/tiny-env@0.1.0" in text
    assert config.target == "self-managed"
    assert config.at("run.name") == "tiny"


def test_two_texts_of_different_days_are_the_same_config() -> None:
    text, _, _ = written(ConfigChoices((TINY,)))
    assert equal_except_date(text, text.replace("2026-11-21", "2027-01-01"))
    assert not equal_except_date(text, text.replace("max_steps = 200", "max_steps = 201"))


def test_defaults_are_those_of_the_recipes() -> None:
    _, config, _ = written(ConfigChoices((TINY,)))
    assert (config.max_steps, config.batch_size, config.group_size, config.lr) == (200, 128, 16, 1e-5)
    _, full, _ = written(ConfigChoices((TINY,), lora=False))
    assert (full.lora, full.lr) == (False, 1e-6)


def test_measurements_decide_sizes() -> None:
    seen = ConfigContext(tasks=100, completion_tokens=1000, prompt_tokens=500)
    _, config, made = written(ConfigChoices((TINY,)), seen)
    assert (config.max_completion_tokens, config.seq_len) == (1280, 2048)
    assert config.max_steps == 125
    assert "measured" in made.plan.max_tokens.why


def test_the_group_divides_a_batch_that_was_asked_for() -> None:
    _, config, _ = written(ConfigChoices((TINY,), batch=120))
    assert (config.batch_size, config.group_size) == (120, 8)


@pytest.mark.parametrize(
    ("choices", "code"),
    [
        (ConfigChoices(()), "config-no-train-source"),
        (ConfigChoices((TINY,), batch=100, group=16), "config-batch-group"),
        (ConfigChoices((TINY,), max_tokens=4096, seq_len=2048), "config-budget-exceeds-seq-len"),
        (ConfigChoices((SourceChoice("a/b@1", args={"x": None}),)), "config-bad-value"),
        (ConfigChoices((TINY,), extra={"orchestrator.batch_sice": 3}), "config-unknown-key"),
        (ConfigChoices((TINY,), extra={"trainer..x": 3}), "config-unknown-key"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused_with_a_fix(choices: ConfigChoices, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        written(choices)
    assert caught.value.code == code
    assert caught.value.fix


def test_extra_keys_are_set_where_prime_rl_knows_them() -> None:
    asked = with_extra(ConfigChoices((TINY,)), {"seq_len": 8192, "trainer.optim.weight_decay": 0.0})
    _, config, _ = written(asked)
    assert (config.seq_len, config.at("trainer.optim.weight_decay")) == (8192, 0.0)
    assert_sound(config)


NESTED: list[dict[str, Any]] = [
    {"trainer": {"optim": {"weight_decay": 0.0}}},
    {"trainer.optim": {"weight_decay": 0.0}},
    {"trainer": {"model": {"lora": {"dropout": 0.1}}}},
    {"monitors": {"wandb": {"entity": "team"}}},
    {"ckpt": {"keep_interval": 50}},
    {"ckpt": {}},
    {"orchestrator": {"train": {"sampling": {"extra_body": {"min_p": 0.1}}}}},
    {"deployment": {"gpus_per_node": 8}},
    {"trainer.scheduler": {"type": "linear", "decay_steps": 10}},
]


@pytest.mark.parametrize("extra", NESTED, ids=str)
def test_nested_extra_is_merged_and_replaces_no_table(extra: dict[str, Any]) -> None:
    plain = written(ConfigChoices((TINY,), wandb="p"))[1]
    config = written(with_extra(ConfigChoices((TINY,), wandb="p"), extra))[1]
    assert_sound(config)
    given = {path: value for path, value in flat_values(extra) if value != {}}
    expected = {**dict(leaf_values(plain.table)), **given}
    assert dict(leaf_values(config.table)) == expected


def test_nested_extra_reaches_the_plan() -> None:
    asked = with_extra(ConfigChoices((TINY,)), {"trainer": {"optim": {"lr": 3e-5}, "model": {"lora": {"rank": 32}}}})
    assert (asked.lr, asked.lora_rank, asked.extra) == (3e-5, 32, {})


@pytest.mark.parametrize(
    "extra",
    [
        {"orchestrator": {"train": {"source": []}}},
        {"orchestrator.train.source": [{"name": "other"}]},
        {"trainer": 3},
        {"model": "someone/else"},
        {"trainer.model.lora": False},
    ],
    ids=str,
)
def test_extra_that_would_replace_a_table_is_refused(extra: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as refused:
        written(with_extra(ConfigChoices((TINY,)), extra))
    assert refused.value.fix


def test_a_changed_type_takes_the_keys_of_the_old_one_away() -> None:
    base = sound(("[inference]", '[trainer.scheduler]\ntype = "linear"\ndecay_steps = 10\n[inference]'))
    asked = with_extra(ConfigChoices(()), {"trainer": {"scheduler": {"type": "cosine"}}})
    assert propose_config(asked, ConfigContext(), "new", base).draft.get("trainer.scheduler") == {"type": "cosine"}


@pytest.mark.parametrize("model", ["openai/gpt-4.1-mini", "anthropic/claude-sonnet-4"])
def test_a_closed_model_is_refused_before_anything_is_written(model: str) -> None:
    with pytest.raises(BadInput) as refused:
        written(ConfigChoices((TINY,), model=model))
    assert (refused.value.code, "search_hub" in refused.value.fix) == ("model-closed", True)


def test_a_text_model_is_not_taken_for_a_misspelt_vision_model() -> None:
    assert not [name for name in near_models("Qwen/Qwen3-4B-Instruct", ConfigContext()) if "VL" in name]
    assert [name for name in near_models("Qwen/Qwen3-VL-4B-Instrct", ConfigContext()) if "VL" in name]


def test_an_extra_key_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(BadInput):
        with_extra(ConfigChoices((TINY,)), {"seq_len": "long"})


def test_an_unknown_model_gets_a_renderer_that_prime_rl_accepts() -> None:
    _, config, made = written(ConfigChoices((TINY,), model="someone/tuned"))
    assert config.at("orchestrator.renderer.name") == "default"
    assert made.plan.renderer is not None


@given(st.text(max_size=80))
def test_a_comment_never_ends_early(text: str) -> None:
    assert "\n" not in safe_comment(text)
    assert safe_comment(text).isascii()


# Group, batch, steps


@pytest.mark.parametrize(
    ("usable", "at", "mean", "group"),
    [
        (0.9, 16, 0.5, 16),
        (0.9, 8, 0.5, 8),
        (0.45, 16, 0.03, 16),
        (0.36, 16, 0.03, 32),
        (0.05, 16, 0.004, 16),
        (0.5, 8, 0.2, 8),
    ],
)
def test_the_smallest_group_of_which_enough_are_usable(usable: float, at: int, mean: float, group: int) -> None:
    _, config, made = written(ConfigChoices((TINY,)), ConfigContext(usable=usable, usable_group=at, mean=mean))
    assert config.group_size == group
    assert "%" in made.plan.group.why


@given(st.floats(0.01, 0.99), st.floats(0, 1), st.sampled_from([4, 8, 16, 32]))
def test_a_larger_group_is_never_less_usable(mean: float, share: float, at: int) -> None:
    seen = ConfigContext(usable=share, usable_group=at, mean=mean)
    shares = [usable_share_at_group(seen, g) or 0.0 for g in (2, 4, 8, 16, 32, 64)]
    assert all(0 <= one <= other + 1e-9 <= 1 + 1e-8 for one, other in itertools.pairwise(shares))
    assert usable_share_at_group(seen, at) == pytest.approx(share, abs=1e-9)


def test_the_batch_holds_enough_groups_with_a_gradient_up_to_that_of_the_recipes() -> None:
    seen = ConfigContext(usable=0.5, usable_group=16, mean=0.05)
    _, config, made = written(ConfigChoices((TINY,)), seen)
    share = usable_share_at_group(seen, config.group_size) or 0.0
    assert (config.batch_size or 0) * share >= 64
    assert (config.batch_size or 0) / config.group_size * share >= 8
    assert "gradient" in made.plan.batch.why
    _, most, _ = written(ConfigChoices((TINY,)), ConfigContext(usable=0.02, usable_group=16, mean=0.001))
    assert most.batch_size == 512
    _, gated, _ = written(ConfigChoices((TINY,), curriculum="gate"), seen)
    assert gated.batch_size == 128


def test_steps_follow_the_source_whose_tasks_come_round_first() -> None:
    sources = (SourceChoice("a/few@1.0", ratio=3), SourceChoice("a/many@1.0", ratio=1))
    each = {"a/few@1.0": SourceMeasurement(tasks=60), "a/many@1.0": SourceMeasurement(tasks=10_000)}
    _, config, made = written(ConfigChoices(sources), ConfigContext(each=each))
    assert config.max_steps == 100  # 8 tasks a step, three quarters of them of 60, ten times
    assert "60 tasks of few" in made.plan.steps.why


# Tokens


def test_whole_rollouts_decide_the_sequence_and_turns_only_where_nothing_was_measured() -> None:
    turns = SourceChoice("a/game@1.0", turns=6)
    _, guessed, _ = written(ConfigChoices((turns,)))
    assert guessed.seq_len == 7168  # 1024 + 1024 x 6
    seen = ConfigContext(prompt_tokens=3000, completion_tokens=1000, longest=2500)
    _, measured, made = written(ConfigChoices((turns,)), seen)
    assert (measured.max_completion_tokens, measured.seq_len) == (1280, 6144)  # 3000 + 2500
    assert "tool output" in made.plan.seq_len.why


def test_the_short_replies_of_a_stand_in_give_no_limit_that_would_cut_a_model() -> None:
    seen = ConfigContext(prompt_tokens=282, completion_tokens=33, longest=40, stand_in=True)
    _, config, made = written(ConfigChoices((TINY,)), seen)
    assert (config.max_completion_tokens, config.seq_len) == (1024, 2048)
    assert "the 33 tokens (p95) that the eval measured are those of the rehearsal" in made.plan.max_tokens.why
    assert "rollouts of the rehearsal" in made.plan.seq_len.why
    assert list(fewer_tokens(config, seen)) == []
    _, longer, _ = written(ConfigChoices((TINY,)), replace(seen, completion_tokens=2000))
    assert longer.max_completion_tokens == 2560


def test_an_eval_that_cut_rollouts_off_measured_its_own_limit() -> None:
    _, config, made = written(ConfigChoices((TINY,)), ConfigContext(completion_tokens=1024, truncated=0.3))
    assert config.max_completion_tokens == 2048
    assert "30%" in made.plan.max_tokens.why


# Rates


@pytest.mark.parametrize(
    ("model", "lora", "steps", "lr"),
    [
        (None, True, 200, 1e-5),
        (None, True, 99, 1.5e-5),
        (None, False, 200, 1e-6),
        ("Qwen/Qwen3-0.6B", False, 200, 3e-6),
        ("Qwen/Qwen3-0.6B", True, 200, 3e-5),
    ],
)
def test_the_rate_follows_mode_length_and_size(model: str | None, lora: bool, steps: int, lr: float) -> None:
    _, config, _ = written(ConfigChoices((TINY,), model=model, lora=lora, steps=steps))
    assert config.lr == pytest.approx(lr)


# GPUs


@pytest.mark.parametrize(
    ("model", "lora", "gpu_type", "train", "infer", "parallel"),
    [
        ("Qwen/Qwen3-4B-Instruct-2507", True, "A100_80GB", 1, 1, None),
        ("Qwen/Qwen3-30B-A3B", True, "H100_80GB", 2, 2, 2),
        ("Qwen/Qwen3-30B-A3B", False, "H100_80GB", 8, 8, 2),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", True, "H100_80GB", 24, 8, 8),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", True, "H200_141GB", 16, 8, 8),
        ("Qwen/Qwen3-32B", True, "H200_141GB", 2, 2, None),
        ("someone/tuned", True, "H100_80GB", 1, 1, None),
    ],
)
def test_gpus_follow_model_mode_and_type(
    model: str, lora: bool, gpu_type: str, train: int, infer: int, parallel: int | None
) -> None:
    _, config, made = written(ConfigChoices((TINY,), model=model, lora=lora, gpu_type=gpu_type))
    assert (config.train_gpus, config.infer_gpus) == (train, infer)
    assert config.at("inference.vllm.tensor_parallel_size") == parallel
    assert config.at("deployment.type") == ("multi_node" if train + infer > 8 else None)
    assert made.plan.hardware.short is None
    assert_sound(config)


def test_several_nodes_of_one_s_own_run_through_slurm_and_hosted_ones_do_not() -> None:
    large = "Qwen/Qwen3-235B-A22B-Instruct-2507"
    _, own, _ = written(ConfigChoices((TINY,), model=large, target="self-managed"))
    _, hosted, _ = written(ConfigChoices((TINY,), model=large))
    assert (own.at("slurm.job_name"), hosted.at("slurm")) == ("tiny", None)
    assert_sound(own)


def test_gpus_that_do_not_hold_the_model_are_told() -> None:
    _, _, few = written(ConfigChoices((TINY,), model="Qwen/Qwen3-32B", gpus=2, gpu_type="A100_40GB"))
    assert "are needed" in (few.plan.hardware.short or "")
    _, _, huge = written(ConfigChoices((TINY,), model="x/Z-900B", gpu_type="H100_80GB"))
    assert "however many train" in (huge.plan.hardware.short or "")


def test_gpus_beyond_a_node_are_whole_nodes_and_one_gpu_is_only_one_s_own() -> None:
    _, config, _ = written(ConfigChoices((TINY,), gpus=24))
    assert (config.train_gpus, config.infer_gpus, config.at("deployment.num_infer_replicas")) == (8, 16, 2)
    for wish in (ConfigChoices((TINY,), gpus=12), ConfigChoices((TINY,), gpus=1)):
        with pytest.raises(BadInput) as caught:
            written(wish)
        assert caught.value.code == "config-gpus"
    assert_sound(written(ConfigChoices((TINY,), gpus=1, target="self-managed"))[1])


def test_the_cheapest_type_that_fits_and_is_free_is_named() -> None:
    _, config, _ = written(ConfigChoices((TINY,)), ConfigContext(models=MARKET))
    assert config.gpu_type == "H100_80GB"  # A100 is taken, and L4 are cheap by the hour only
    _, asked, _ = written(ConfigChoices((TINY,), gpu_type="A100_80GB"), ConfigContext(models=MARKET))
    assert asked.gpu_type == "A100_80GB"
    _, own, _ = written(ConfigChoices((TINY,), target="self-managed"), ConfigContext(models=MARKET))
    assert own.gpu_type is None
    nothing = PlatformModels({}, (HostedGpuOffer("A100_80GB", 1.4, False, True),))
    _, open_, made = written(ConfigChoices((TINY,)), ConfigContext(models=nothing))
    assert (open_.gpu_type, made.plan.gpu_type) == (None, None)
    reserved = PlatformModels({"Qwen/Qwen3-4B-Instruct-2507": ("B200",)}, MARKET.offers)
    assert written(ConfigChoices((TINY,)), ConfigContext(models=reserved))[1].gpu_type == "B200"


def test_long_samples_write_checkpointing_out() -> None:
    _, config, _ = written(ConfigChoices((TINY,), seq_len=16_384))
    assert config.at("trainer.model.ac.freq") == 1
    assert written(ConfigChoices((TINY,)))[1].at("trainer.model.ac") is None


# Sources


def test_sources_of_one_bare_name_are_told_apart() -> None:
    ids = ("alice/x@1.0", "bob/x@2.0", "bob/x@2.0", "c/agg@1.0", "d/y@1.0")
    _, config, _ = written(ConfigChoices(tuple(SourceChoice(i, held_out={"split": "eval"}) for i in ids)))
    assert [s.name for s in config.train_sources] == ["alice-x", "bob-x", "bob-x-2", "c-agg", "y"]
    assert len({s.name for s in config.eval_sources}) == len(ids)
    assert_sound(config)


def test_each_source_has_its_ratio_its_group_and_its_own_held_out_tasks() -> None:
    sources = (
        SourceChoice("a/one@1.0", ratio=3.0, held_out={"split": "eval"}),
        SourceChoice("a/two@1.0", ratio=1.0, held_out={"part": "test"}),
    )
    easy, hard = (
        SourceMeasurement(usable=0.9, usable_group=16, mean=0.5),
        SourceMeasurement(usable=0.36, usable_group=16, mean=0.03),
    )
    seen = ConfigContext(usable=0.36, usable_group=16, mean=0.03, each={"a/one@1.0": easy, "a/two@1.0": hard})
    text, config, _ = written(ConfigChoices(sources), seen)
    assert "ratio = 3.0  # as asked: 75% of the tasks" in text
    assert [config.group_of(s) for s in config.train_sources] == [16, 32]
    assert [dict(s.args) for s in config.eval_sources] == [{"split": "eval"}, {"part": "test"}]
    assert_sound(config)


def test_secrets_are_named_and_never_written() -> None:
    text, _, _ = written(ConfigChoices((SourceChoice("a/b@1.0", secrets=("SEARCH_KEY",)),)))
    assert "reads SEARCH_KEY, never to be written here" in text


def test_intervals_of_a_longer_run_are_chosen_anew() -> None:
    kept = _interval(20, 200, 10, "from old.toml", "ten points a run", 5)
    assert (kept.value, kept.why) == (20, "from old.toml")
    assert _interval(20, 21, 10, "from old.toml", "ten points a run", 5).value == 2
    assert _interval(50, 21, 4, "from old.toml", "four points a run", 2).value == 5
    assert _interval(21, 21, 10, "the budget of $19.00 holds no more", "ten points a run", 5).value == 21
    assert _interval(20, 21, 10, None, "ten points a run", 5).value == 20


def test_the_reason_of_the_kept_checkpoints_does_not_say_that_only_two_exist() -> None:
    """A config said "the newest two", and five checkpoints of its run were READY on the platform."""
    _, config, _ = written(ConfigChoices((TINY,)))
    [kept] = [line for line in config.text.splitlines() if line.startswith("keep_last")]
    assert "the trainer keeps its newest two" in config.text
    assert "the platform holds, which may be more" in config.text
    assert kept.startswith("keep_last = 2")
    assert "about four points a run, and its last step" in config.text
