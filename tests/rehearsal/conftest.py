"""The platform as a process with the real `prime` beside it, and in this process for what needs no program."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from prime_lab_mcp.lab.base.process import CompletedProcess, clean_environment, run
from prime_lab_mcp.rehearsal import connection
from prime_lab_mcp.rehearsal.app import build
from prime_lab_mcp.rehearsal.foreign import seed
from prime_lab_mcp.rehearsal.store import Store

HEADERS = {"Authorization": f"Bearer {connection.KEY}"}


@dataclass(frozen=True, slots=True)
class Platform:
    url: str
    folder: Path

    async def prime(self, *arguments: str, **variables: str) -> CompletedProcess:
        told = connection.environment(self.url, self.folder / "home") | variables
        programs = Path(sys.executable).parent
        told["PATH"] = f"{programs}{os.pathsep}{os.environ.get('PATH', '')}"
        env = clean_environment({"COLUMNS": "200", **told})
        return await run([str(programs / "prime"), *arguments], cwd=self.folder, env=env, timeout=120)

    async def json(self, *arguments: str) -> Any:
        done = await self.prime(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    async def tell(self, path: str, /, **body: Any) -> dict[str, Any]:
        return await connection.tell(self.url, path, body)

    async def ask(self, path: str, /, **query: str) -> Any:
        async with httpx.AsyncClient(trust_env=False, headers=HEADERS) as client:
            return (await client.get(self.url + path, params=query)).json()

    async def requests(self, method: str, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.ask("/rehearsal/requests", method=method, path=path))["requests"]
        return found


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[Platform]:
    child, url = await connection.start(tmp_path / "state")
    async with child:
        yield Platform(url, tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "state")
    seed(made)
    return made


@pytest.fixture
def client(store: Store) -> Iterator[TestClient]:
    with TestClient(build(store), base_url="http://127.0.0.1:1", headers=HEADERS) as opened:
        yield opened


@pytest.fixture
def config() -> dict[str, Any]:
    """A training config as `prime train` sends it."""
    return {
        "max_steps": 20,
        "seq_len": 2048,
        "model": {"name": "Qwen/Qwen3-4B-Instruct-2507"},
        "trainer": {},
        "inference": {},
        "ckpt": {"interval": 5},
        "orchestrator": {
            "batch_size": 16,
            "group_size": 8,
            "train": {"source": [{"env": {"taskset": {"id": "primeintellect/reverse-text@0.2.0"}}}]},
        },
    }
