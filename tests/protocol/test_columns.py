"""The other columns of a dataset reach tasks, evaluations and questions about them, through the SDK's own client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.app import build_server
from prime_lab_mcp.tools.registry import TOOLS

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.rotate(share=6, group="whole walks")]


def rows(start: int, number: int) -> str:
    made = (
        {
            "question": f"A crate holds {n} jars. How many do {n % 7 + 2} hold?",
            "answer": str(n * (n % 7 + 2)),
            "level": n % 3,
        }
        for n in range(start, start + number)
    )
    return "".join(json.dumps(row) + "\n" for row in made)


async def test_training_and_evaluation_select_by_them_and_a_third_split_is_kept_apart(settings: Settings) -> None:
    folder = Path(settings.workspace, "crates")
    folder.mkdir(parents=True)
    for split, start, number in (("train", 10, 90), ("validation", 200, 20), ("test", 195, 25)):
        (folder / f"{split}.jsonl").write_text(rows(start, number), encoding="utf-8")
    async with Client(build_server(Lab(settings), TOOLS)) as client:

        async def call(tool: str, **given: Any) -> dict[str, Any]:
            content = (await client.call_tool(tool, given)).structured_content
            assert content is not None
            return content

        splits = {"split": "train", "eval_split": "validation", "test_split": "test"}
        made = await call("create_environment", name="crates", dataset="crates", **splits)
        assert made["data"]["rows"] == {"train": 90, "eval": 0, "test": 25}
        assert made["data"]["metadata"] == ["level"]
        shown = {"where": {"level": [1]}, "few_shot": 2, "num_examples": 12}
        proven = await call("test_reward", environment="crates", env_args=shown, search=0)
        assert (proven["status"], proven["data"]["tasks"]) == ("passed", 12), proven
        unknown = await call("test_reward", environment="crates", env_args={"where": {"lvl": [1]}}, search=0)
        assert "the fields of tasks are: level" in json.dumps(unknown["findings"])
