"""Every config that is written is sound: valid by the schema and without a blocker, whatever was chosen."""

from __future__ import annotations

import itertools
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prime_lab_mcp.lab.configs.draft import Lineage, plain, same_but_for_date
from prime_lab_mcp.lab.configs.make import Made, make, with_extra
from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.configs.plan import Choices, SourceChoice
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.configs.rules import judge
from prime_lab_mcp.lab.configs.schema import check
from prime_lab_mcp.lab.configs.write import finish
from prime_lab_mcp.lab.errors import BadInput

TINY = SourceChoice("alice/tiny-env@0.1.0")
HELD_OUT = SourceChoice("alice/tiny-env@0.1.0", args={"split": "train"}, held_out={"split": "eval"})
DAY = date(2026, 11, 21)


def written(choices: Choices, seen: Observed | None = None) -> tuple[str, Config, Made]:
    made = make(choices, seen or Observed(), "tiny")
    lineage = Lineage("tiny", 1, DAY, choices.target, ("alice/tiny-env@0.1.0",))
    text, config = finish(made.draft, lineage, Path("tiny.toml"))
    return text, config, made


def assert_sound(config: Config) -> None:
    assert check(config.table) == []
    assert [f for f in judge(config) if f.severity == "blocker"] == []


GRID: dict[str, list[Any]] = {
    "target": ["hosted", "self-managed"],
    "lora": [None, False],
    "curriculum": [None, "gate", "both"],
    "group": [None, 8],
    "model": [None, "Qwen/Qwen3-30B-A3B", "someone/tuned"],
    "sources": [(TINY,), (HELD_OUT, SourceChoice("bob/other@2.0", name="other", ratio=0.5))],
}


@pytest.mark.parametrize("values", list(itertools.product(*GRID.values())))
def test_every_combination_of_choices_is_sound(values: tuple[Any, ...]) -> None:
    _, config, _ = written(Choices(**dict(zip(GRID, values, strict=True)), wandb="project"))
    assert_sound(config)


@settings(max_examples=60, deadline=None)
@given(
    batch=st.none() | st.integers(1, 4096),
    group=st.none() | st.integers(2, 64),
    steps=st.none() | st.integers(1, 5000),
    max_tokens=st.none() | st.integers(1, 100_000),
    gpus=st.none() | st.integers(2, 8),
    lora=st.none() | st.booleans(),
    tasks=st.none() | st.integers(1, 100_000),
    tokens=st.none() | st.integers(1, 20_000),
)
def test_any_numbers_give_a_sound_config_or_a_refusal_with_a_fix(
    batch: int | None, group: int | None, steps: int | None, max_tokens: int | None, gpus: int | None,
    lora: bool | None, tasks: int | None, tokens: int | None,
) -> None:  # fmt: skip
    choices = Choices((HELD_OUT,), batch=batch, group=group, steps=steps, max_tokens=max_tokens, gpus=gpus, lora=lora)
    seen = Observed(tasks=tasks, completion_tokens=tokens, prompt_tokens=tokens)
    config = written_or_refused(choices, "config-batch-group", seen)
    if config is not None:
        assert_sound(config)


def written_or_refused(choices: Choices, code: str, seen: Observed | None = None) -> Config | None:
    """None when it was refused for the one reason that is allowed."""
    try:
        return written(choices, seen)[1]
    except BadInput as error:
        if error.code != code or not error.fix:
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
    config = written_or_refused(Choices((SourceChoice("alice/tiny-env@0.1.0", args=args),)), "config-bad-value")
    if config is not None:
        assert dict(config.train_sources[0].args) == args


def test_every_value_carries_its_reason() -> None:
    text, _, _ = written(Choices((HELD_OUT,), curriculum="both", wandb="project"))
    bare = [line for line in text.splitlines() if " = " in line and not line.startswith("#") and "  # " not in line]
    assert bare == []


def test_the_header_tells_the_lineage() -> None:
    text, config, _ = written(Choices((TINY,), target="self-managed"))
    assert "# target: self-managed\n" in text
    assert "# created: 2026-11-21 by" in text
    assert "# environments: alice/tiny-env@0.1.0" in text
    assert config.target == "self-managed"
    assert config.at("run.name") == "tiny"


def test_two_texts_of_different_days_are_the_same_config() -> None:
    text, _, _ = written(Choices((TINY,)))
    assert same_but_for_date(text, text.replace("2026-11-21", "2027-01-01"))
    assert not same_but_for_date(text, text.replace("max_steps = 200", "max_steps = 201"))


def test_defaults_are_those_of_the_recipes() -> None:
    _, config, _ = written(Choices((TINY,)))
    assert (config.max_steps, config.batch_size, config.group_size, config.lr) == (200, 128, 16, 1e-5)
    _, full, _ = written(Choices((TINY,), lora=False))
    assert (full.lora, full.lr) == (False, 1e-6)


def test_measurements_decide_sizes() -> None:
    seen = Observed(tasks=100, completion_tokens=1000, prompt_tokens=500)
    _, config, made = written(Choices((TINY,)), seen)
    assert (config.max_completion_tokens, config.seq_len) == (1280, 2048)
    assert config.max_steps == 125
    assert "measured" in made.plan.max_tokens.why


def test_the_group_divides_a_batch_that_was_asked_for() -> None:
    _, config, _ = written(Choices((TINY,), batch=120))
    assert (config.batch_size, config.group_size) == (120, 8)


@pytest.mark.parametrize(
    ("choices", "code"),
    [
        (Choices(()), "config-no-train-source"),
        (Choices((TINY,), batch=100, group=16), "config-batch-group"),
        (Choices((TINY,), max_tokens=4096, seq_len=2048), "config-budget-exceeds-seq-len"),
        (Choices((SourceChoice("a/b@1", args={"x": None}),)), "config-bad-value"),
        (Choices((TINY,), extra={"orchestrator.batch_sice": 3}), "config-unknown-key"),
        (Choices((TINY,), extra={"trainer..x": 3}), "config-unknown-key"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused_with_a_fix(choices: Choices, code: str) -> None:
    with pytest.raises(BadInput) as caught:
        written(choices)
    assert caught.value.code == code
    assert caught.value.fix


def test_extra_keys_are_set_where_prime_rl_knows_them() -> None:
    asked = with_extra(Choices((TINY,)), {"seq_len": 8192, "trainer.optim.weight_decay": 0.0})
    _, config, _ = written(asked)
    assert (config.seq_len, config.at("trainer.optim.weight_decay")) == (8192, 0.0)
    assert_sound(config)


def test_an_extra_key_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(BadInput):
        with_extra(Choices((TINY,)), {"seq_len": "long"})


def test_an_unknown_model_gets_a_renderer_that_prime_rl_accepts() -> None:
    _, config, made = written(Choices((TINY,), model="someone/tuned"))
    assert config.at("orchestrator.renderer.name") == "default"
    assert made.plan.renderer is not None


@given(st.text(max_size=80))
def test_a_comment_never_ends_early(text: str) -> None:
    assert "\n" not in plain(text)
    assert plain(text).isascii()
