"""Every config that the tools write or migrate is valid by the schema and without a blocker, whatever was asked.

The whole grid is slow and rotates in parts; by default every 151st config of it is made, and a set that covers every
pair of choices. That set is also written through the tool and taken by the real `prime train`, on the rehearsal.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.configs.config import TrainingConfig, parse_config, read_config
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.configs.draft import ConfigLineage
from prime_lab_mcp.lab.configs.examine import config_findings
from prime_lab_mcp.lab.configs.make import propose_config
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices, SourceChoice
from prime_lab_mcp.lab.configs.schema import schema_problems
from prime_lab_mcp.lab.configs.write import finish_text
from prime_lab_mcp.tools import write_training_config
from tests.lab.configs.examples import (
    LAST_SHARED_LORA,
    OLDER_PRIME_RL,
    SEED_HEADER,
    SEED_SELF_MANAGED,
    SHARED_LORA,
    SOUND,
)
from tests.support.pairwise import Choice, pairs, pairwise, product
from tests.tools.loopback import Desk, desk

KNOWN, UNKNOWN = "Qwen/Qwen3-4B-Instruct-2507", "someone/tuned"
BIG, THINKING = "Qwen/Qwen3-235B-A22B-Instruct-2507", "Qwen/Qwen3-4B-Thinking-2507"
GRID: Mapping[str, tuple[Any, ...]] = {
    "target": ("hosted", "self-managed"),
    "lora": (True, False),
    "model": (KNOWN, UNKNOWN, BIG, THINKING),
    "eval": (True, False),
    "curriculum": (None, "gate", "pools", "both"),
    "wandb": (None, "project"),
    "environments": (1, 2),
    "gpus": (None, 2, 8),
}
OLDER = {
    "shared-lora": SHARED_LORA,
    "last-shared-lora": LAST_SHARED_LORA,
    "older-prime-rl": OLDER_PRIME_RL,
    "seed": SEED_SELF_MANAGED.replace("/beautiful-soup-env", "/beautiful-soup-env@0.1.1"),
    "seed-with-header": SEED_HEADER + SEED_SELF_MANAGED.replace("/beautiful-soup-env", "/beautiful-soup-env@0.1.1"),
    "today": SOUND,
}
COVERING = pairwise(GRID)
PARTS = 7
"""Of the whole grid; no axis has 7 choices, so that every part holds each choice of each axis."""


def choices(one: Choice) -> ConfigChoices:
    held_out = {"split": "eval"} if one["eval"] else None
    ids = ("alice/tiny-env@0.1.0", "bob/other@2.0")[: one["environments"]]
    return ConfigChoices(
        sources=tuple(SourceChoice(id, args={"split": "train"}, held_out=held_out) for id in ids),
        **{key: one[key] for key in ("target", "lora", "model", "curriculum", "wandb", "gpus")},
    )


def made(asked: ConfigChoices, base: TrainingConfig | None = None) -> TrainingConfig | None:
    """None when it was refused with a way out, which only a wish for GPUs may be."""
    try:
        found = propose_config(asked, ConfigContext(), "grid", base)
    except BadInput as error:
        if asked.gpus is None or not error.fix:
            raise
        return None
    lineage = ConfigLineage("grid", 1, date(2026, 11, 22), asked.target, tuple(s.id for s in asked.sources))
    return finish_text(found.draft, lineage, Path("grid.toml"), base)[1]


def problems(config: TrainingConfig) -> list[str]:
    blockers = [f"{f.code}: {f.message}" for f in config_findings(config) if f.severity == "blocker"]
    return [*(f"{p.key} {p.problem}" for p in schema_problems(config.table)), *blockers]


def assert_as_asked(config: TrainingConfig, one: Choice) -> None:
    """Sound and not what was asked for would be no use."""
    assert problems(config) == [], one
    assert (config.lora, config.model, config.target) == (one["lora"], one["model"], one["target"])
    assert len(config.train_sources) == one["environments"]
    assert len(config.eval_sources) == (one["environments"] if one["eval"] else 0)
    assert (config.at("monitors.wandb.project") is not None) == (one["wandb"] is not None)
    for source in config.train_sources:
        told = source.table.get("curriculum", {})
        assert ("gates" in told, "sampler" in told) == (
            one["curriculum"] in ("gate", "both"),
            one["curriculum"] in ("pools", "both"),
        )
    if one["gpus"] is not None and config.at("deployment.type") != "multi_node":
        assert config.gpus == one["gpus"]


def judged(grid: list[Choice]) -> int:
    """How many were written; the rest was refused."""
    written = 0
    for one in grid:
        if (config := made(choices(one))) is not None:
            assert_as_asked(config, one)
            written += 1
    return written


def test_the_covering_set_is_small_and_holds_every_pair() -> None:
    assert {p for one in COVERING for p in pairs(one)} == {p for one in product(GRID) for p in pairs(one)}
    assert len(COVERING) <= 24


def test_a_sample_of_the_grid_is_sound_and_as_asked() -> None:
    grid = [*COVERING, *product(GRID)[::151]]
    assert judged(grid) > len(grid) / 2


@pytest.mark.slow
@pytest.mark.rotate(share=4)
@pytest.mark.parametrize("part", range(PARTS))
def test_the_whole_grid_is_sound_and_as_asked(part: int) -> None:
    grid = product(GRID)[part::PARTS]
    assert judged(grid) > len(grid) / 2


def overrides() -> Iterator[ConfigChoices]:
    for target, lora, held_out, curriculum in itertools.product(
        ("hosted", "self-managed"), (None, True, False), (None, {"split": "eval"}, {}), (None, "both")
    ):
        yield ConfigChoices((), target=target, lora=lora, held_out=held_out, curriculum=curriculum)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", OLDER.values(), ids=OLDER)
def test_a_migrated_config_is_sound_whatever_is_asked_besides(text: str) -> None:
    base = parse_config(text, Path("old.toml"))
    for number, asked in enumerate(overrides()):
        if number % 7:
            continue
        config = made(asked, base)
        assert config is not None
        assert problems(config) == [], asked
        if asked.lora is not None:
            assert config.lora is asked.lora


@pytest.mark.rotate(share=3)
@pytest.mark.slow
@pytest.mark.parametrize("text", OLDER.values(), ids=OLDER)
def test_every_migrated_config_can_be_based_on_again(text: str) -> None:
    for asked in overrides():
        first = made(asked, parse_config(text, Path("old.toml")))
        assert first is not None
        again = made(ConfigChoices((), target=asked.target), first)
        assert again is not None
        assert problems(again) == []
        same = {k: v for k, v in again.table.items() if k not in ("name", "run")}
        assert same == {k: v for k, v in first.table.items() if k not in ("name", "run")}


# The real `prime train`


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("grid")) as opened:
        await opened.tell("/rehearsal/platform", trains=[UNKNOWN, BIG, THINKING, "Qwen/Qwen2.5-7B-Instruct"])
        yield opened


async def taken(at: Desk, path: Path) -> None:
    """`prime train` starts a run of this very file on the stand-in."""
    await at.tell("/rehearsal/account", balance_usd=1_000)  # the runs of the other cases spend meanwhile
    submitted = await at.lab.prime.train_submit(path)
    run = await at.lab.prime.train_get(submitted.id)
    assert run["base_model"] == read_config(path).model


def arguments(one: Choice, number: int) -> dict[str, Any]:
    ids = ("primeintellect/reverse-text@0.2.0", "somebody/word-count@0.0.1")[: one["environments"]]
    asked = {
        **{key: one[key] for key in ("target", "lora", "model", "curriculum", "wandb", "gpus")},
        "environments": list(ids),
        "eval": {"split": "eval"} if one["eval"] else {},
        "name": f"grid-{number}",
    }
    return {key: value for key, value in asked.items() if value is not None}


@pytest.mark.rotate(share=3)
@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("number", range(len(COVERING)))
async def test_prime_train_takes_what_the_tool_writes(at: Desk, number: int) -> None:
    asked = arguments(COVERING[number], number)
    try:
        written = await at.call(write_training_config.TOOL, **asked)
    except BadInput as error:
        if "gpus" not in asked or not error.fix:
            raise
        return
    assert problems(read_config(at.workspace / written.data["path"])) == []
    await taken(at, at.workspace / written.data["path"])


@pytest.mark.rotate(share=3)
@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.parametrize("name", OLDER)
async def test_prime_train_takes_what_was_migrated(at: Desk, name: str) -> None:
    text = OLDER[name]
    for old in ("alice/tiny-env@0.1.0", "alice/beautiful-soup-env@1.0.0", "seconds-0/beautiful-soup-env@0.1.1"):
        text = text.replace(old, "primeintellect/reverse-text@0.2.0")
    text = text.replace(
        'id = "alice/tiny-env"\nversion = "0.1.0"', 'id = "primeintellect/reverse-text"\nversion = "0.2.0"'
    )
    text = text.replace("bob/other@2.0.0", "somebody/word-count@0.0.1").replace('env_files = ["secrets.env"]\n', "")
    at.config(text, f"older/{name}.toml")
    written = await at.call(write_training_config.TOOL, based_on=f"older/{name}.toml")
    await taken(at, at.workspace / written.data["path"])
