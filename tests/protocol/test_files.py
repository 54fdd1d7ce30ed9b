"""A client without a file system makes an environment file by file, through the SDK's own client."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.app import build_server
from prime_lab_mcp.tools.registry import TOOLS

pytestmark = pytest.mark.anyio
MANIFEST = '[project]\nname = "sums"\nversion = "0.1.0"\n'


async def test_files_are_written_moved_and_deleted(settings: Settings) -> None:
    async with Client(build_server(Lab(settings), TOOLS)) as client:

        async def edit(**given: Any) -> dict[str, Any]:
            result = await client.call_tool("edit_environment", {"environment": "sums", **given})
            assert result.structured_content is not None
            return result.structured_content

        assert (await edit(path="pyproject.toml", new=MANIFEST))["data"]["new_environment"] == "environments/sums"
        assert (await edit(path="sums/data/"))["data"]["created"]
        await edit(path="rows.jsonl", new="{}\n")
        assert (await edit(path="rows.jsonl", move_to="sums/data/train.jsonl"))["data"]["moved"] == ["rows.jsonl"]
        await edit(path="sums/old.py", new="A = 1\n")
        assert (await edit(path="sums/old.py", delete=True))["data"]["deleted"] == ["old.py"]
        misspelled = await edit(environment="sum", path="README.md", new="# x\n")
        assert misspelled["status"] == "error"
        assert 'environment="sums"' in misspelled["findings"][0]["fix"]
        listed = await client.call_tool("read_environment", {"environment": "sums"})
    assert listed.structured_content is not None
    files = [file["path"] for file in listed.structured_content["data"]["files"]]
    assert files == ["pyproject.toml", "sums/data/train.jsonl"]
