"""The broker runs containers for confined code, with Podman itself where it is installed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.sandbox.containers import access, commands
from prime_lab_mcp.lab.sandbox.containers.access import container_broker, read_report, write_client
from prime_lab_mcp.lab.sandbox.policy import Confinement, python_paths
from tests.support.containers import test_image

NAME = f"vf-{uuid.uuid4().hex}"
"""Of this run: a run that was killed may have left a container."""
START = ["--label", "verifiers.run=x", "--detach", "--network", "bridge", "--publish", "127.0.0.1::8000"]
HEAD = ["run", *START, "--http-proxy=false"]


def start(name: str, image: str, *options: str) -> list[str]:
    return [*HEAD, *options, "--entrypoint", "sleep", "--name", name, image, "infinity"]


class Client:
    """The `podman` of confined code: each command runs in a process that the kernel confines."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        python = Path(sys.executable)
        write_client(folder / "programs", python)
        work = folder / "work"
        work.mkdir()
        site = Path(commands.__file__).parents[1] / "site"
        self._confinement = Confinement((*python_paths(python), site, folder / "programs"), (work,))
        self._environment = {"PATH": f"{folder / 'programs'}:{os.environ['PATH']}", **variables}

    async def run(self, *words: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        argv = self._confinement.command(["podman", *words])
        with anyio.fail_after(120):
            return await anyio.run_process(argv, input=given, env=self._environment, check=False)

    async def text(self, *words: str, given: bytes | None = None) -> str:
        done = await self.run(*words, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().strip()


@asynccontextmanager
async def client(tmp_path: Path, label: str, *, most: int = 4) -> AsyncIterator[Client]:
    async with container_broker(label, tmp_path / "report.json", most=most, seconds=300) as given:
        yield Client(tmp_path, given.variables)


def podman_itself(*words: str) -> Sequence[str]:
    """Run Podman outside of the confinement. Returns the words of its output."""
    return subprocess.run(["podman", *words], capture_output=True, text=True, timeout=120, check=True).stdout.split()


def containers(label: str) -> Sequence[str]:
    return podman_itself("ps", "--all", "--quiet", f"--filter=label={commands.LABEL}={label}")


@pytest.fixture
def image() -> str:
    return test_image()


@pytest.fixture
def label(tmp_path: Path) -> str:
    return f"test-{os.getpid()}-{tmp_path.name}".replace("_", "-")


@pytest.mark.anyio
async def test_confined_code_works_in_containers_and_leaves_none(tmp_path: Path, image: str, label: str) -> None:
    """Every command that verifiers writes for one rollout, from a process that could not start `podman` itself."""
    async with client(tmp_path, label) as podman:
        assert "Version" in await podman.text("version")
        await podman.text(*start(NAME, image, "--memory", "0.5g", "--env", "GREETING=hello you"))
        config = json.loads(await podman.text("inspect", "--format", "{{json .Config}}", NAME))
        assert "GREETING=hello you" in config["Env"]
        assert config["Labels"] == {commands.LABEL: label}
        await podman.text("exec", "--user", "0", NAME, "sh", "-c", "mkdir -p /app")
        sent = os.urandom(300_000)
        await podman.text("exec", "-i", "--workdir", "/app", NAME, "sh", "-c", "cat > data", given=sent)
        assert (await podman.run("exec", "--workdir", "/app", NAME, "cat", "--", "data")).stdout == sent
        failed = await podman.run("exec", "--env", "CODE=7", NAME, "sh", "-c", "echo out; echo err >&2; exit $CODE")
        assert (failed.returncode, failed.stdout, failed.stderr) == (7, b"out\n", b"err\n")
        assert (await podman.text("port", NAME, "8000/tcp")).startswith("127.0.0.1:")
        await podman.text("rm", "--force", NAME)
        await podman.text("rm", "--force", NAME)
        await podman.text(*start(NAME, image))
        assert len(containers(label)) == 1
    assert containers(label) == []
    assert read_report(tmp_path / "report.json") == {"started": 2, "refused": {}, "failed": {}}


@pytest.mark.anyio
async def test_a_port_of_a_container_leads_to_the_same_port_of_this_machine(
    tmp_path: Path, image: str, label: str
) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"you said " + connection.recv(100))

    threading.Thread(target=answer, daemon=True).start()
    connect = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
    ask = f"{connect}; s.sendall(b'hi'); print(s.recv(99))"
    async with client(tmp_path, label) as podman:
        await podman.text(*start(NAME, image))
        await podman.text("prime-lab-listen", NAME, str(port))
        assert await podman.text("exec", NAME, "python3", "-c", ask, str(port)) == "b'you said hi'"
        refused = await podman.run("prime-lab-listen", NAME, "80")
        assert refused.returncode == 125
        assert b"not one that confined code may listen on" in refused.stderr
        listener.close()
        unanswered = await podman.run("exec", NAME, "python3", "-c", ask, str(port))
        assert unanswered.returncode == 1, f"nobody listens, and the program read {unanswered.stdout!r}"
        assert b"ConnectionResetError" in unanswered.stderr


@pytest.mark.anyio
async def test_containers_of_others_are_out_of_reach(tmp_path: Path, image: str, label: str) -> None:
    other = f"vf-{'0b' * 16}"
    podman_itself("run", "--rm", "--detach", "--name", other, "--entrypoint", "sleep", image, "300")
    try:
        async with client(tmp_path, label, most=1) as podman:
            for words in (
                ["exec", other, "id"],
                ["inspect", "--format", "{{json .Config}}", other],
                ["port", other, "8000/tcp"],
                ["prime-lab-listen", other, "40000"],
                ["run", *START, "-v", "/:/host"],
            ):
                assert (await podman.run(*words)).returncode == 125
            assert (await podman.run("rm", "--force", other)).returncode == 0  # it is none of ours, so nothing happens
            await podman.text(*start(NAME, image))
            assert b"there is a container" in (await podman.run(*start(NAME, image))).stderr
            assert b"1 containers already" in (await podman.run(*start(f"vf-{'0c' * 16}", image))).stderr
        assert podman_itself("inspect", "--format", "{{.State.Running}}", other) == ["true"]
    finally:
        podman_itself("rm", "--force", "--time=0", other)


@pytest.mark.anyio
async def test_a_wrong_secret_reaches_nothing(tmp_path: Path, image: str, label: str) -> None:
    async with container_broker(label, most=1, seconds=60) as given:
        port, _, token = given.variables["PRIME_LAB_CONTAINERS"].partition(" ")
        stranger = Client(tmp_path, {"PRIME_LAB_CONTAINERS": f"{port} {token[::-1]}"})
        refused = await stranger.run("version")
    assert refused.returncode == 125
    assert refused.stdout == b""


@pytest.mark.anyio
async def test_an_image_that_does_not_exist_is_named(tmp_path: Path, image: str, label: str) -> None:
    async with client(tmp_path, label) as podman:
        failed = await podman.run(*start(NAME, "localhost/no-such-image:1"))
        assert failed.returncode == 125
        assert b"the image localhost/no-such-image:1 is not on this machine and cannot be fetched" in failed.stderr
    (reason,) = read_report(tmp_path / "report.json")["failed"]
    assert "no-such-image" in reason


_OWNER = """
import anyio, sys
from prime_lab_mcp.lab.sandbox.containers.access import container_broker
async def main():
    async with container_broker(sys.argv[1], most=2, seconds=300) as access:
        print(access.variables["PRIME_LAB_CONTAINERS"], flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


@pytest.mark.anyio
async def test_containers_are_removed_when_their_owner_is_killed(tmp_path: Path, image: str, label: str) -> None:
    owner = await anyio.open_process([sys.executable, "-c", _OWNER, label], stderr=None)
    try:
        assert owner.stdout is not None
        variables = {"PRIME_LAB_CONTAINERS": (await owner.stdout.receive()).decode().strip()}
        await Client(tmp_path, variables).text(*start(NAME, image))
        assert len(containers(label)) == 1
    finally:
        owner.send_signal(signal.SIGKILL)
        await owner.aclose()
    deadline = time.monotonic() + 60
    while containers(label) and time.monotonic() < deadline:
        await anyio.sleep(0.5)
    assert containers(label) == []


@pytest.mark.anyio
async def test_a_program_that_does_not_work_is_reported_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "podman"
    broken.write_text("#!/bin/sh\necho 'Error: no such storage' >&2\nexit 125\n", encoding="utf-8")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(LabError, match="no such storage") as error:
        async with container_broker("test", most=1, seconds=60):
            pass
    assert error.value.code == "eval-needs-sandbox"


@pytest.mark.anyio
async def test_a_broker_that_neither_answers_nor_ends_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = [sys.executable, "-S", "-c", "import time; print('no json', flush=True); time.sleep(600)"]
    monkeypatch.setattr(access.process, "own_module_command", lambda *module: stuck)
    monkeypatch.setattr(access, "_END_SECONDS", 0.1)
    with pytest.raises(LabError, match="its broker did not start"):
        async with container_broker("test", most=1, seconds=60):
            pass


@pytest.mark.parametrize("report", [None, "not json", "[1]"])
def test_a_broker_that_left_no_report_started_no_container_that_is_known(tmp_path: Path, report: str | None) -> None:
    if report is not None:
        (tmp_path / "report.json").write_text(report, encoding="utf-8")
    assert read_report(tmp_path / "report.json") == {}
