"""A process outside of the confinement that runs Podman for confined code.

Confined code cannot start containers: the kernel refuses it namespaces, Unix sockets and the files of Podman. Its
`podman` is a small client (site/podman_client.py), which sends its arguments to the broker over a loopback port,
together with a secret. The broker runs the commands that commands.py reads, on containers that it has made itself, and
refuses all others.

Each start of Podman takes tenths of a second of processor time, so the broker answers without one what it knows: the
published port, which it has chosen, and the configuration of a container that was started like an earlier one. It
removes containers together, after their commands were answered.

The broker holds no key, and it ends when its standard input closes, which also happens if its parent is killed. Before
it ends, it removes all its containers. A broker that is itself killed leaves containers that end after their time; the
next broker with the same label removes them too.

A request is a length of four bytes and JSON. Everything after it is frames: a letter, a length of four bytes, and
bytes. The client sends its standard input (I, and E at the end) once the broker has asked for it (I). The broker sends
standard output (O), standard error (E) and the exit code (X).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hmac
import json
import os
import re
import secrets
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.sandbox import confine
from prime_lab_mcp.lab.sandbox.containers import commands
from prime_lab_mcp.lab.sandbox.containers.streams import CHUNK, Client, beginning, copy, pump, reset

FAILED = 125
"""Exit code of Podman for an error of its own, which the broker uses too."""
_MOST_REQUEST_BYTES = 8 << 20
_MOST_CLIENTS = 2048
"""Most commands at the same time. A program that runs in a container is one command."""
_MOST_CONNECTIONS = 512
"""Most connections at the same time through the listeners of one container."""
_CONNECT_PAUSES = (0.1, 0.4, 1.5)
"""Seconds before each further attempt to connect a container to a port of this machine."""
_MOST_LISTENERS, _MOST_DETACHED = 4, 64
"""Most listeners, and most programs in the background, of one container."""
_STARTS_AT_ONCE = 8
_MOST_PORTS = 3
"""Most attempts to start a container whose port another program has taken meanwhile."""
_PORT_TAKEN = re.compile(r"(?i)address already in use|port is already allocated")
_CONFIGURATION = ("Env", "User", "WorkingDir", "Image", "Labels")
"""What verifiers reads of a container's configuration, and what tells whose container it is."""
_REMOVAL_SECONDS = 3.0
"""Seconds in which containers gather that are removed together."""
_MOST_EVENTS = 10
"""Most different refusals and failures that the report has."""
_HANDSHAKE_SECONDS = 20.0
_SHORT_SECONDS = 120.0
"""Seconds for a command of the broker's own."""
_PULL_SECONDS = 1800.0
_UNFETCHED_SECONDS = 60.0
"""Seconds for which an image that could not be fetched is not asked for again: each attempt takes seconds."""
_PYTHON_IMAGE = "docker.io/library/python:3.11-alpine"
"""Image of the helper that opens a listener, where the image of the task has no Python. verifiers takes the same."""


@dataclass(slots=True)
class _Container:
    start: commands.Start
    image: str
    port: int = 0
    """Port of this machine that leads to the service port of the container."""
    listeners: list[asyncio.Server] = field(default_factory=list)
    connections: set[asyncio.Task[Any]] = field(default_factory=set)
    detached: int = 0
    """Number of programs that were started in the background. Each has a process outside of the container too."""


@dataclass(slots=True)
class BrokerReport:
    """What a broker has done, for the one who started it."""

    started: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    """Number of refused commands by reason."""
    failed: dict[str, int] = field(default_factory=dict)
    """Number of containers that could not be started or connected, by what Podman said."""

    def as_json(self) -> dict[str, Any]:
        """Return the report in the form of its file."""
        return {"started": self.started, "refused": self.refused, "failed": self.failed}


class Broker:
    """Containers of one label. `most` is the largest number of containers at the same time."""

    def __init__(self, label: str, most: int, seconds: int, folder: Path, report: Path | None = None) -> None:
        self.label = label
        self.most = most
        self.seconds = seconds
        self.folder = folder
        self.report = BrokerReport()
        self._report_file = report
        self.token = secrets.token_urlsafe(32)
        self.port = 0
        self._version = ""
        self._containers: dict[str, _Container] = {}
        self._images: dict[str, str] = {}
        self._unfetched: dict[str, str] = {}
        """What Podman said about images that could not be fetched."""
        self._unfetched_until: defaultdict[str, float] = defaultdict(float)
        self._image_locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._starts = asyncio.Semaphore(_STARTS_AT_ONCE)
        self._configurations: dict[commands.Start, str] = {}
        self._leaving: list[str] = []
        """Names of containers that are to be removed."""
        self._removing: asyncio.Task[None] | None = None
        self._clients: set[asyncio.Task[Any]] = set()
        (folder / "no-logins.json").write_text("{}", encoding="utf-8")
        # The user's logins at registries are not lent to confined code.
        self._environment = {**os.environ, "REGISTRY_AUTH_FILE": str(folder / "no-logins.json")}

    # --- beginning and end ---------------------------------------------------------------------------------------

    async def check(self) -> str:
        """Return why Podman does not work; an empty text if it works."""
        code, self._version, errors = await self._podman("info", "--format", "Version: {{.Version.Version}}")
        return "" if code == 0 else errors.strip()[-500:] or f"podman info ended with exit code {code}"

    async def serve(self) -> asyncio.Server:
        """Listen for commands on a loopback port that the kernel chooses."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=CHUNK, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def remove_all(self) -> None:
        """End all commands, and remove all containers of the label."""
        for client in list(self._clients):
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        for name in list(self._containers):
            await self._forget(name)
        if self._removing is not None:
            self._removing.cancel()
            await asyncio.gather(self._removing, return_exceptions=True)
        for _ in range(3):  # a command that was just killed may still have started a container
            _, names, _ = await self._podman("ps", "--all", "--quiet", f"--filter=label={commands.LABEL}={self.label}")
            if not names.split():
                return
            await self._podman("rm", "--force", "--volumes", "--time=0", *names.split())

    # --- clients -------------------------------------------------------------------------------------------------

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._clients.add(task)
        client = Client(reader, writer)
        try:
            if len(self._clients) <= _MOST_CLIENTS:
                argv = await asyncio.wait_for(self._request(reader), _HANDSHAKE_SECONDS)
                if argv is not None:
                    await client.exit(await self._answer(argv, client))
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass
        finally:
            self._clients.discard(task)
            writer.close()

    async def _request(self, reader: asyncio.StreamReader) -> list[str] | None:
        """Return the arguments of a request; None if its secret is wrong or it is no request."""
        (length,) = struct.unpack("!I", await reader.readexactly(4))
        if length > _MOST_REQUEST_BYTES:
            return None
        try:
            request = json.loads(await reader.readexactly(length))
            token, argv = request["token"], request["argv"]
            if not isinstance(token, str) or not hmac.compare_digest(token.encode(), self.token.encode()):
                return None
            if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
                return None
            for word in argv:
                os.fsencode(word)
        except (ValueError, KeyError, TypeError):
            return None
        return argv

    async def _answer(self, argv: list[str], client: Client) -> int:
        """Run the command of a client. Returns its exit code."""
        try:
            command = commands.read_command(argv)
            name: str = getattr(command, "name", "")
            if name and name not in self._containers and not isinstance(command, commands.Start | commands.Remove):
                raise commands.RefusedCommand(f"{name} is no container of this evaluation")
            return await self._run(command, client)
        except commands.RefusedCommand as refused:
            self._note(self.report.refused, str(refused))
            await client.error(f"Error: prime-lab-mcp runs only the container commands of verifiers: {refused}\n")
            return FAILED

    async def _run(self, command: commands.Command, client: Client) -> int:
        match command:
            case commands.Version():
                await client.output(self._version)  # verifiers asks before each container
                return 0
            case commands.Start():
                return await self._start(command, client)
            case commands.Inspect(name):
                return await self._inspect(name, client)
            case commands.Execute(name):
                container = self._containers[name]
                container.detached += command.detached
                if container.detached > _MOST_DETACHED:
                    raise commands.RefusedCommand(
                        f"a container has {_MOST_DETACHED} programs in the background already"
                    )
                return await self._pass(commands.execute_arguments(command), client, stdin=command.stdin)
            case commands.PublishedPort(name):
                await client.output(f"127.0.0.1:{self._containers[name].port}\n")
                return 0
            case commands.Remove(name):
                if name not in self._containers:
                    return 0
                await self._forget(name)
                self._leaving.append(name)
                if self._removing is None or self._removing.done():
                    self._removing = asyncio.create_task(self._remove_leaving())
                return 0
            case commands.Listen():
                return await self._listen(command, client)
            case commands.FindNetworkImage():
                return await self._pass(["image", "exists", commands.NETWORK_IMAGE], client)
            case commands.BuildNetworkImage():
                return await self._build_network_image(client)
            case commands.CutNetwork():
                return await self._pass(commands.cut_arguments(command, self.label), client)

    async def _start(self, start: commands.Start, client: Client) -> int:
        if start.name in self._containers:
            raise commands.RefusedCommand(f"there is a container {start.name} already")
        while start.name in self._leaving and self._removing is not None:
            await asyncio.shield(self._removing)
        if len(self._containers) >= self.most:
            raise commands.RefusedCommand(f"there are {self.most} containers already, the most of this evaluation")
        self._containers[start.name] = container = _Container(start, start.image)
        image, errors = await self._image(start.image)
        if not image:
            return await self._failed(client, errors)
        container.image = image
        for _ in range(_MOST_PORTS):
            container.port = _free_port()
            arguments = commands.start_arguments(start, self.label, image, self.seconds, container.port)
            async with self._starts:
                code, output, errors = await self._podman(*arguments)
            if not code or not _PORT_TAKEN.search(errors):
                break
        if code:
            return await self._failed(client, errors)
        if self._containers.get(start.name) is not container:
            await self._podman("rm", "--force", "--volumes", "--time=0", start.name)
            raise commands.RefusedCommand(f"{start.name} was removed before it had started")
        self.report.started += 1
        self._write_report()
        await client.output(output)
        return 0

    async def _inspect(self, name: str, client: Client) -> int:
        """Answer with the configuration of a container. Containers that were started alike have the same."""
        alike = dataclasses.replace(self._containers[name].start, name="")
        if alike not in self._configurations:
            code, output, errors = await self._podman("inspect", "--type=container", "--format={{json .Config}}", name)
            if code:
                await client.error(errors)
                return code
            read = json.loads(output)
            known = {field: read.get(field) for field in _CONFIGURATION}
            known["Env"] = [v for v in known["Env"] or () if not v.startswith("HOSTNAME=") or v in alike.environment]
            self._configurations[alike] = json.dumps(known) + "\n"
        await client.output(self._configurations[alike])
        return 0

    async def _remove_leaving(self) -> None:
        """Remove the containers that are to be removed, those of some seconds at a time."""
        while self._leaving:
            await asyncio.sleep(_REMOVAL_SECONDS)
            names = list(self._leaving)
            # Without --time=0, Podman waits ten seconds for `sleep`, which ignores SIGTERM as process 1.
            await self._podman("rm", "--force", "--volumes", "--time=0", *names)
            del self._leaving[: len(names)]

    async def _failed(self, client: Client, errors: str) -> int:
        self._note(self.report.failed, errors.strip()[-400:])
        await client.error(errors)
        return FAILED

    async def _image(self, image: str) -> tuple[str, str]:
        """Return the name of an image that is on this machine, after pulling it if necessary, or the errors."""
        async with self._image_locks[image]:
            if image in self._images:
                return self._images[image], ""
            full = commands.qualified(image)
            for name in dict.fromkeys((image, full)):
                code, _, _ = await self._podman("image", "exists", "--", name)
                if code == 0:
                    self._images[image] = name
                    return name, ""
            if time.monotonic() < self._unfetched_until[image]:
                return "", self._unfetched[image]
            code, _, errors = await self._podman("pull", "--quiet", "--", full, seconds=_PULL_SECONDS)
            if code == 0:
                self._images[image] = full
                return full, ""
            told = f"the image {full} is not on this machine and cannot be fetched: {errors.strip()[-1500:]}\n"
            self._unfetched[image], self._unfetched_until[image] = told, time.monotonic() + _UNFETCHED_SECONDS
            return "", told

    async def _build_network_image(self, client: Client) -> int:
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        arguments = ["build", "--quiet", "--tag", commands.NETWORK_IMAGE, "--file", "-", str(empty)]
        code, _, errors = await self._podman(*arguments, given=commands.NETWORK_IMAGE_SOURCE, seconds=_PULL_SECONDS)
        return 0 if code == 0 else await self._failed(client, errors)

    # --- listeners in the network of a container -----------------------------------------------------------------

    async def _listen(self, listen: commands.Listen, client: Client) -> int:
        # Confined code may connect to these ports itself, so a container reaches no more through them.
        if listen.port not in confine.ephemeral_ports() or listen.port == self.port:
            raise commands.RefusedCommand(f"the port {listen.port} is not one that confined code may listen on")
        container = self._containers[listen.name]
        if len(container.listeners) >= _MOST_LISTENERS:
            raise commands.RefusedCommand(f"a container has {_MOST_LISTENERS} listeners already")
        image = container.image
        code, _, _ = await self._podman("exec", listen.name, "python3", "-I", "-S", "-c", "import array, socket")
        if code:
            image, errors = await self._image(_PYTHON_IMAGE)
            if not image:
                return await self._failed(client, errors)
        try:
            listener = await self._listener(listen, image)
        except (OSError, ValueError, TimeoutError) as error:
            return await self._failed(client, f"no listener in the container's network: {error}\n")
        server = await asyncio.start_server(self._forwarding(container, listen.port), sock=listener)
        if self._containers.get(listen.name) is not container:  # it was removed meanwhile
            server.close()
            return FAILED
        container.listeners.append(server)
        return 0

    async def _listener(self, listen: commands.Listen, image: str) -> socket.socket:
        """Return a listener that a helper in the container's network has opened. Raises OSError and others."""
        path = self.folder / f"{secrets.token_hex(8)}.sock"
        with socket.socket(socket.AF_UNIX) as control:
            control.bind(str(path))
            try:
                control.listen(1)
                control.setblocking(False)
                arguments = commands.listen_arguments(listen, self.label, image, str(path))
                async with self._starts:
                    code, _, errors = await self._podman(*arguments)
                if code:
                    raise OSError(errors.strip()[-400:])
                connection, _ = await asyncio.wait_for(asyncio.get_running_loop().sock_accept(control), 5.0)
            finally:
                path.unlink(missing_ok=True)
        with connection:
            connection.setblocking(False)
            _, descriptors, _, _ = socket.recv_fds(connection, 64, 1)
        if not descriptors:
            raise ValueError("the helper has sent none")
        listener = socket.socket(fileno=descriptors[0])
        # A program of the task's image has made the descriptor.
        expected = listener.family == socket.AF_INET and listener.type == socket.SOCK_STREAM
        if not expected or listener.getsockname() != ("127.0.0.1", listen.port):
            listener.close()
            raise ValueError("the helper has sent another one")
        listener.setblocking(False)
        return listener

    def _forwarding(
        self, container: _Container, port: int
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            container.connections.add(task)
            try:
                if len(container.connections) <= _MOST_CONNECTIONS:
                    far_reader, far_writer = await self._connected(port)
                    try:
                        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
                    finally:
                        far_writer.close()
            except OSError:
                reset(writer)
            finally:
                container.connections.discard(task)
                writer.close()

        return forward

    async def _connected(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to a port of this machine. Raises OSError after several attempts.

        Podman removes the rule that leads a published port of a container to that container a moment after the port is
        free again. Until then connections to a server that has taken the port lead to the container that is gone.
        """
        for seconds in _CONNECT_PAUSES:
            try:
                return await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(seconds)
        return await asyncio.open_connection("127.0.0.1", port)

    async def _forget(self, name: str) -> None:
        """Close the listeners of a container, and its connections."""
        container = self._containers.pop(name)
        for server in container.listeners:
            server.close()
        for task in list(container.connections):
            task.cancel()
        await asyncio.gather(*container.connections, return_exceptions=True)

    # --- the container program -----------------------------------------------------------------------------------

    async def _pass(self, arguments: list[str], client: Client, *, stdin: bool = False) -> int:
        """Run Podman with the client's input and outputs. If the client goes away, the program is killed."""
        child = await self._spawn(arguments, stdin=stdin)
        assert child.stdout is not None
        assert child.stderr is not None
        if stdin:
            await client.ask_for_input()
        listening = asyncio.create_task(client.listen(child.stdin))
        working = asyncio.gather(
            pump(child.stdout, client.output_bytes), pump(child.stderr, client.error_bytes), child.wait()
        )
        try:
            await asyncio.wait((listening, working), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                return FAILED  # the client is gone
            await working
            return _code(child.returncode)
        finally:
            listening.cancel()
            working.cancel()
            _kill(child)
            await asyncio.gather(listening, working, child.wait(), return_exceptions=True)

    async def _podman(
        self, *arguments: str, given: bytes | None = None, seconds: float = _SHORT_SECONDS
    ) -> tuple[int, str, str]:
        """Run a command of the broker's own. Returns its exit code and its outputs."""
        child = await self._spawn(list(arguments), stdin=given is not None)
        assert child.stdout is not None
        assert child.stderr is not None
        if child.stdin is not None:
            child.stdin.write(given or b"")
            child.stdin.close()
        reading = asyncio.gather(beginning(child.stdout), beginning(child.stderr), child.wait())
        try:
            output, errors, _ = await asyncio.wait_for(reading, seconds)
        except TimeoutError:
            return FAILED, "", f"podman {arguments[0]} did not end within {seconds:.0f} seconds\n"
        finally:
            _kill(child)
            await child.wait()
        return _code(child.returncode), output.decode(errors="replace"), errors.decode(errors="replace")

    async def _spawn(self, arguments: list[str], *, stdin: bool) -> asyncio.subprocess.Process:
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        try:
            return await asyncio.create_subprocess_exec(
                commands.PODMAN,
                *arguments,
                stdin=pipe if stdin else null,
                stdout=pipe,
                stderr=pipe,
                cwd=self.folder,
                env=self._environment,
                start_new_session=True,
            )
        except OSError as error:
            raise commands.RefusedCommand(f"podman could not be started: {error.strerror}") from error

    def _note(self, events: dict[str, int], what: str) -> None:
        if what in events or len(events) < _MOST_EVENTS:
            events[what] = events.get(what, 0) + 1
            self._write_report()

    def _write_report(self) -> None:
        if self._report_file is not None:
            with contextlib.suppress(OSError):
                fresh = self._report_file.with_suffix(".new")
                fresh.write_text(json.dumps(self.report.as_json()), encoding="utf-8")
                fresh.replace(self._report_file)


def _free_port() -> int:
    """Return a loopback port that nobody listens on, as Podman chooses one for itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _kill(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)


def _code(returned: int | None) -> int:
    return FAILED if returned is None else returned if returned >= 0 else 128 - returned


async def _serve_until_closed(settings: dict[str, Any], folder: Path) -> int:
    report = Path(settings["report"]) if settings.get("report") else None
    broker = Broker(settings["label"], settings["most"], settings["seconds"], folder, report)
    error = await broker.check()
    if error:
        _say({"error": error})
        return 1
    await broker.remove_all()
    server = await broker.serve()
    _say({"port": broker.port, "token": broker.token})
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    server.close()
    await broker.remove_all()
    return 0


def _say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main(argv: list[str]) -> int:
    """Serve until standard input closes. `argv[0]` has the settings as JSON: label, most, seconds, report."""
    confine.not_dumpable()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # closing standard input ends the broker
    folder = Path(tempfile.mkdtemp(prefix="prime-lab-"))
    try:
        return asyncio.run(_serve_until_closed(json.loads(argv[0]), folder))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
