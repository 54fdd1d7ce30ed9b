"""Every prompt renders, holds the user's words and leaves no slot empty-handed."""

from __future__ import annotations

import re

import pytest
from mcp import Client

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.app import build_server
from tests.resources.known import ROOT

PROMPTS = sorted(path.stem for path in (ROOT / "prompts").glob("*.md"))


@pytest.mark.anyio
async def test_every_prompt_takes_the_slots_of_its_page(settings: Settings) -> None:
    async with Client(build_server(Lab(settings))) as client:
        listed = {p.name: p for p in (await client.list_prompts()).prompts}
        assert sorted(listed) == PROMPTS
        for name, prompt in listed.items():
            arguments = {a.name: f"WORDS FOR {a.name}" for a in prompt.arguments or ()}
            page = (ROOT / "prompts" / f"{name}.md").read_text(encoding="utf-8")
            assert set(re.findall(r"\{(\w+)\}", page)) == set(arguments)
            shown = (await client.get_prompt(name, arguments)).messages[0].content.text  # type: ignore[union-attr]
            assert all(words in shown for words in arguments.values())
            assert prompt.title
            assert prompt.description


@pytest.mark.anyio
async def test_what_is_not_said_is_called_that(settings: Settings) -> None:
    async with Client(build_server(Lab(settings))) as client:
        shown = await client.get_prompt("migrate_environment", {"environment": "old_sums"})
    page = shown.messages[0].content.text  # type: ignore[union-attr]
    assert "name of the new one: (not said)" in page
    assert 'create_environment(name="NAME", port=old_sums)' in page
    assert "=(not said)" not in page
