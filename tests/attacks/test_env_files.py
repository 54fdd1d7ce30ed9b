"""Env files of a config that would hand another key to a run: prime expands `${NAME}` from its own variables."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prime_cli.utils.env_vars import parse_env_file

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.configs.config import read_config
from prime_lab_mcp.lab.training.env_files import read_env_files
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.tools.loopback import CONFIG, Desk, desk

pytestmark = pytest.mark.anyio
STEALS = "WANDB_API_KEY=${PRIME_API_KEY}\n"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("env_files")) as opened:
        yield opened


def config(at: Desk, name: str, content: str, file: str = "keys.env") -> dict[str, Any]:
    """Write a config with an env file, and return the arguments of its submission."""
    at.config(f'env_files = ["{file}"]\nname = "{name}"\n{CONFIG}', f"configs/rl/{name}.toml")
    (at.workspace / "configs/rl" / file).write_text(content, encoding="utf-8")
    return {"config": f"configs/rl/{name}.toml"}


async def submit(at: Desk, arguments: dict[str, Any]) -> Report:
    return await Calls(at.lab, TOOLS, References()).execute("submit_training", arguments)


async def runs(at: Desk, name: str) -> int:
    return sum(str(run["name"]).startswith(f"{name}-") for run in await at.lab.prime.train_list())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("plain", STEALS),
        ("break", "WANDB_API_KEY=\f${PRIME_API_KEY}\n"),
        ("separator", "WANDB_API_KEY=\x1c${PRIME_API_KEY}\n"),
        ("quoted", 'WANDB_API_KEY="\x85${PRIME_API_KEY}"\n'),
        ("large", "# a comment\n" * 20_000 + STEALS),
    ],
)
async def test_no_form_of_an_env_file_names_another_variable(at: Desk, name: str, content: str) -> None:
    report = await submit(at, config(at, name, content, f"{name}.env"))
    assert report.status in ("blocked", "error"), report
    assert {f.code for f in report.findings} & {"config-secrets-reference", "config-secrets-file"}
    assert await runs(at, name) == 0


async def test_keys_of_an_env_file_that_a_strangers_code_can_read_are_named_and_are_never_passed_unasked(
    at: Desk,
) -> None:
    arguments = config(at, "handed", "WANDB_API_KEY=hidden-value-1\nHF_TOKEN=hidden-value-2\n", "handed.env")
    asked = await submit(at, {**arguments, "yes": True})
    assert asked.status == "needs_confirmation", asked
    told = " ".join((asked.summary, *(finding.message for finding in asked.findings), str(asked.data)))
    assert 'HF_TOKEN and WANDB_API_KEY of "handed.env"' in told.replace('\\"', '"')
    assert "code that nobody proved here can read" in told
    assert "hidden-value" not in told
    assert await runs(at, "handed") == 0


async def test_an_env_file_that_changes_after_the_question_ends_the_call(at: Desk) -> None:
    arguments = config(at, "changed", "WANDB_API_KEY=abc\n", "changed.env")
    calls = Calls(at.lab, TOOLS, References())
    asked = await calls.execute("submit_training", arguments)
    assert asked.status == "needs_confirmation", asked
    (at.workspace / "configs/rl/changed.env").write_text(STEALS, encoding="utf-8")
    report = await calls.execute("submit_training", {**arguments, "confirm": asked.data["confirm"]})
    assert report.status == "error", report
    assert {f.code for f in report.findings} == {"config-secrets-reference"}
    assert await runs(at, "changed") == 0


async def test_an_env_file_that_changes_while_prime_runs_is_sent_as_it_was_checked(
    at: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = config(at, "swapped", "WANDB_API_KEY='abc'\n", "swapped.env")
    seen: dict[str, str] = {}
    real = at.lab.prime.train_submit

    async def late(path: Path, **options: Any) -> Any:
        (at.workspace / "configs/rl/swapped.env").write_text(STEALS, encoding="utf-8")
        monkeypatch.setenv("PRIME_API_KEY", "the-prime-key")
        seen.update(parse_env_file(path.parent / "swapped.env"))
        return await real(path, **options)

    monkeypatch.setattr(at.lab.prime, "train_submit", late)
    calls = Calls(at.lab, TOOLS, References())
    asked = await calls.execute("submit_training", arguments)
    report = await calls.execute("submit_training", {**arguments, "confirm": asked.data["confirm"]})
    assert report.status == "passed", report
    assert seen == {"WANDB_API_KEY": "abc"}
    assert [path for path in at.lab.settings.state_dir.rglob("*.env*") if path.is_file()] == []


async def test_a_link_to_a_file_outside_is_refused(at: Desk, tmp_path: Path) -> None:
    (tmp_path / "login.env").write_text("HF_TOKEN=abc\n", encoding="utf-8")
    arguments = config(at, "linked", "", "linked.env")
    link = at.workspace / "configs/rl/linked.env"
    link.unlink()
    link.symlink_to(tmp_path / "login.env")
    report = await submit(at, arguments)
    assert {f.code for f in report.findings} == {"config-secrets-file"}


@pytest.mark.parametrize(
    "content",
    [
        "HF_TOKEN=abc\n# c\nWANDB_API_KEY = 'x y' \n",
        "HF_TOKEN=a\nHF_TOKEN=b",
        "HF_TOKEN=\fabc\r\nWANDB_API_KEY='\x85a'\rHF_TOKEN=\u2028c",
        'export HF_TOKEN=abc\nWANDB_API_KEY=a=b\'c\n=d\nHF_TOKEN="q"\n',
        "\ufeffHF_TOKEN=abc\nWANDB_API_KEY=\n",
    ],
)
async def test_the_copy_says_to_prime_what_the_file_says(at: Desk, tmp_path: Path, content: str) -> None:
    path = at.workspace / "configs/rl" / config(at, "same", content)["config"].rpartition("/")[2]
    (at.workspace / "configs/rl/keys.env").write_bytes(content.encode())
    [file] = read_env_files(read_config(path), at.workspace)
    copy = tmp_path / "copy.env"
    copy.write_text(file.text, encoding="utf-8")
    assert parse_env_file(copy) == parse_env_file(at.workspace / "configs/rl/keys.env")
