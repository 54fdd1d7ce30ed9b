"""The pool and its zygotes without an environment: what confines a worker, what is kept, zygotes that do not start."""

from __future__ import annotations

import sys
import venv
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import InterpreterError, ProcessError, WorkerError
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.interpreter import Interpreter
from prime_lab_mcp.lab.sandbox.kernel_support import linux_support
from prime_lab_mcp.lab.worker import pool as pools
from prime_lab_mcp.lab.worker.pool import Workers
from prime_lab_mcp.lab.worker.zygote import Zygote, witness_environment

from .conftest import own_interpreter
from .scripted_child import ScriptedZygote, answering

pytestmark = pytest.mark.anyio
OPEN: dict[str, Any] = {"api": "v1", "module": "sample"}


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[Workers]:
    opened = Workers(Settings(workspace=tmp_path, state_dir=tmp_path / "state"))
    yield opened
    await opened.close()


async def test_a_closed_pool_opens_nothing(tmp_path: Path, pool: Workers) -> None:
    await pool.close()
    with pytest.raises(WorkerError, match="shutting down"):
        async with pool.open(tmp_path, "k", own_interpreter(), **OPEN):
            pass


async def test_where_no_kernel_confines_a_worker_has_no_policy(
    tmp_path: Path, pool: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "present_support", lambda: linux_support(0, seccomp=False))
    zygote = scripted(monkeypatch, tmp_path)
    async with pool.open(tmp_path, "k", own_interpreter(), **OPEN) as worker:
        await worker.load()
    assert worker.confinement is None
    assert zygote[0].requests[0]["confinement"] is None


async def test_a_zygote_is_confined_for_packages_of_an_environment_in_the_state_folder_only(
    tmp_path: Path, pool: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "present_support", lambda: linux_support(6, seccomp=True))
    made = scripted(monkeypatch, tmp_path)
    built = replace(own_interpreter(), base=Path(sys.executable))
    inside = tmp_path / "state" / "snapshots" / "tree"
    for tree in (tmp_path, inside):
        async with pool.open(tree, "k", built, **OPEN):
            pass
    confinements = [zygote.confinement for zygote in made]
    assert confinements[0] is None
    assert confinements[1] is not None
    assert inside not in confinements[1].read


async def test_a_worker_with_variables_is_not_kept(
    tmp_path: Path, pool: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, tmp_path)
    async with pool.open(tmp_path, "k", own_interpreter(), variables={"KEY": "v"}, **OPEN) as worker:
        await worker.load()
        assert worker.warm
    assert not worker.warm


async def test_of_many_zygotes_the_one_that_was_used_last_is_kept(
    tmp_path: Path, pool: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = scripted(monkeypatch, tmp_path)
    for seed in range(6):
        async with pool.open(tmp_path, "k", own_interpreter(), hash_seed=seed, **OPEN) as worker:
            await worker.load()
    assert [zygote.closed for zygote in made] == [True, True, False, False, False, False]


def scripted(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[ScriptedZygote]:
    """Let the pool make scripted zygotes, and return those that it made. Their last argument is their confinement."""
    made: list[ScriptedZygote] = []

    def make(*arguments: Any) -> ScriptedZygote:
        home = folder / f"zygote{len(made)}"
        home.mkdir()
        made.append(ScriptedZygote(home, answering()))
        made[-1].confinement = arguments[-1]
        return made[-1]

    monkeypatch.setattr(pools, "Zygote", make)
    return made


def zygote_of(python: Path, folder: Path) -> Zygote:
    return Zygote(Interpreter(python, None, "other"), "v1", folder, ())


async def test_an_interpreter_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProcessError) as raised:
        await zygote_of(tmp_path / "python", tmp_path).start()
    assert raised.value.code == "program-missing"


async def test_a_zygote_that_runs_is_not_started_again(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho . >> {tmp_path}/starts\nexec sleep 600\n", encoding="utf-8")
    python.chmod(0o755)
    zygote = zygote_of(python, tmp_path / "state")
    for _ in range(2):
        await zygote.start()
    with anyio.fail_after(10):
        while not (tmp_path / "starts").exists():
            await anyio.sleep(0.01)
    await zygote.close()
    assert (tmp_path / "starts").read_text(encoding="utf-8") == ".\n"


async def test_an_interpreter_without_verifiers_says_what_is_missing(tmp_path: Path) -> None:
    venv.create(tmp_path / "empty", symlinks=True)
    zygote = zygote_of(tmp_path / "empty" / "bin" / "python", tmp_path / "state")
    with pytest.raises(InterpreterError, match=r"cannot be imported for v1 environments.*No module named"):
        await zygote.fork()
    assert not zygote.alive


@pytest.mark.parametrize(
    ("script", "words"), [("echo the last words >&2", "the last words"), ("rm log", r"\(ChannelClosed\): ..$")]
)
async def test_a_zygote_that_ends_twice_is_told_with_its_last_words(tmp_path: Path, script: str, words: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho . >> {tmp_path}/starts\n{script}\nexit 1\n", encoding="utf-8")
    python.chmod(0o755)
    with pytest.raises(WorkerError, match=words) as raised:
        await zygote_of(python, tmp_path / "state").fork()
    assert raised.value.code == "worker-failed"
    assert (tmp_path / "starts").read_text(encoding="utf-8").split() == [".", "."]


async def test_a_proxy_or_hub_without_a_password_reaches_environment_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example.com")
    monkeypatch.setenv("https_proxy", "http://proxy.example.com:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://me:secret@proxy.example.com:3128")
    seen = witness_environment(zygote_of(Path(sys.executable), tmp_path), tmp_path)
    assert seen["HF_ENDPOINT"] == "https://hub.example.com"
    assert seen["https_proxy"] == "http://proxy.example.com:3128"
    assert "HTTP_PROXY" not in seen


async def test_a_child_ends_once(tmp_path: Path) -> None:
    zygote = ScriptedZygote(tmp_path, answering())
    child = await zygote.fork()
    ended = await child.close()
    assert (ended.code, ended.output) == (3, "bye")
    assert await child.close() is ended
    zygote.end()
