"""What a prompt says to the model holds what the user said."""

from __future__ import annotations

import re

import pytest
from mcp import Client, MCPError

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.distribution.sample_size import is_too_small
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.app import build_server

pytestmark = pytest.mark.anyio


async def test_every_prompt_holds_each_of_its_arguments(settings: Settings) -> None:
    async with Client(build_server(Lab(settings))) as client:
        for prompt in (await client.list_prompts()).prompts:
            given = {argument.name: f"the-{argument.name}-of-mine" for argument in prompt.arguments or []}
            (message,) = (await client.get_prompt(prompt.name, given)).messages
            missing = [words for words in given.values() if words not in message.content.text]  # type: ignore[union-attr]
            assert missing == [], prompt.name


async def test_a_prompt_without_what_it_needs_names_it(settings: Settings) -> None:
    async with Client(build_server(Lab(settings))) as client:
        with pytest.raises(MCPError, match=r"needs environment.* has no .colour."):
            await client.get_prompt("debug_reward", {"colour": "red"})


async def test_an_evaluation_that_a_prompt_asks_for_is_large_enough_for_a_verdict(settings: Settings) -> None:
    """The first step of a comparison of models was refused a verdict for its size, with two numbers."""
    async with Client(build_server(Lab(settings))) as client:
        given = {"environment": "sums", "models": "two"}
        (message,) = (await client.get_prompt("benchmark_models", given)).messages
    sizes = re.findall(r"num_examples=(\d+), rollouts=(\d+)", message.content.text)  # type: ignore[union-attr]
    assert len(sizes) == 2
    small = [size for size in sizes if is_too_small(int(size[0]), int(size[0]) * int(size[1]), None)]
    assert small == []


@pytest.mark.parametrize("name", ["build_environment", "train_existing"])
async def test_the_way_to_a_run_takes_the_sum_that_the_user_named_and_no_other(settings: Settings, name: str) -> None:
    """ "Under 30 dollars" stood in the task, and no step named the argument that holds a run below a sum."""
    async with Client(build_server(Lab(settings))) as client:
        given = {"environment": "o/n"} if name == "train_existing" else {"task": "word problems, under 30 dollars"}
        (message,) = (await client.get_prompt(name, given)).messages
    words = " ".join(message.content.text.split())  # type: ignore[union-attr]
    (step,) = re.findall(r"\d+\. (`write_training_config`.*?) \d+\. ", words)[:1]
    assert "`budget=` the dollars where the" in step
    assert "nobody named" in step
