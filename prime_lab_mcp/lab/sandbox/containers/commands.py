"""Reads the command lines with which verifiers drives Podman, and refuses every other command line.

Confined code may ask for what verifiers 0.4 asks for (v1/runtimes/docker/__init__.py and v1/runtimes/container.py), in
the same spelling. `read_command` turns such a command line into a value, and `podman_arguments` writes the command line
that really runs. Nothing of the given command line is passed on, except for single values that have been checked, and
for the program that runs in a container.

`listen` is the only command of our own: it asks for a listener on a port of the container's loopback interface, whose
connections lead to the same port of this machine. verifiers passes such a listener through a Unix socket instead, which
confined code cannot make.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PODMAN = "podman"
"""Name of the container program."""
SERVICE_PORT = 8000
"""Port of a container that verifiers publishes on a loopback port of this machine (v1/runtimes/base.py)."""
NETWORK_IMAGE = "localhost/verifiers-network:1"
"""Image of verifiers with the programs that restrict the network of a container."""
NETWORK_IMAGE_SOURCE = b"FROM docker.io/library/alpine:3.22\nRUN apk add --no-cache iptables\n"
"""What verifiers builds `NETWORK_IMAGE` from."""
_CUT_SCRIPTS = frozenset({"bcc5c8c61dd0fd14a097d76cd9ee5b2502d83e57b0d6594727ad1635c6a0c09f"})
"""sha256 of the scripts of verifiers (0.4.0) that restrict the network of a container."""
LISTEN = "prime-lab-listen"
LABEL = "prime-lab.containers"
"""Label of every container that a broker makes. Its value names the evaluation or the worker."""
MOST_PROCESSES = 1024
"""Most processes of one container at the same time."""
MEMORY = "8g"
"""Most memory of a container whose task states no limit."""

Words = Sequence[str]


class RefusedCommand(Exception):
    """The command line is not one that verifiers writes, or it names something that is not the caller's."""


@dataclass(frozen=True, slots=True)
class Version:
    """Ask whether the container program works."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start a container that sleeps until it is removed. `cpus` and `memory` are empty if nothing limits them."""

    name: str
    image: str
    environment: tuple[str, ...] = ()
    cpus: str = ""
    memory: str = ""
    restricted: bool = False
    """Whether the network is to be restricted later. The container then cannot undo that."""
    host_name: bool = False
    """Whether the container gets a name for this machine, as verifiers asks for where no Linux is."""


@dataclass(frozen=True, slots=True)
class Inspect:
    """Read the configuration of a container."""

    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Run a program in a container."""

    name: str
    argv: tuple[str, ...]
    workdir: str
    environment: tuple[str, ...] = ()
    user: str = ""
    stdin: bool = False
    detached: bool = False


@dataclass(frozen=True, slots=True)
class PublishedPort:
    """Ask for the loopback port of this machine that leads to the service port of a container."""

    name: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a container."""

    name: str


@dataclass(frozen=True, slots=True)
class Listen:
    """Listen on a loopback port of a container. The connections lead to the same port of this machine."""

    name: str
    port: int


@dataclass(frozen=True, slots=True)
class FindNetworkImage:
    """Ask whether the image for restricted networks exists."""


@dataclass(frozen=True, slots=True)
class BuildNetworkImage:
    """Build the image for restricted networks."""


@dataclass(frozen=True, slots=True)
class CutNetwork:
    """Restrict the network of a container, as the script of verifiers does."""

    name: str
    script: str
    port: str


Command = (
    Version
    | Start
    | Inspect
    | Execute
    | PublishedPort
    | Remove
    | Listen
    | FindNetworkImage
    | BuildNetworkImage
    | CutNetwork
)

# --- reading -----------------------------------------------------------------------------------------------------

_FLAG, _ONE, _MANY = "flag", "one", "many"
_NAME = re.compile(r"vf-[0-9a-f]{32}")
_RUN_LABEL = re.compile(r"verifiers\.run=[A-Za-z0-9_.:@/-]{1,200}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,200}=", re.ASCII)
_CPUS = re.compile(r"[0-9]{1,4}(\.[0-9]{1,6})?", re.ASCII)
_MEMORY_SIZE = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?g", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?", re.ASCII)
_IMAGE = re.compile(
    r"(?P<path>[a-z0-9][a-z0-9.-]*(:[0-9]{1,5}(?=/))?(/[a-z0-9][a-z0-9._-]*)*)"
    r"(?P<tag>:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
_TRANSPORTS = frozenset(
    {"atomic", "containers-storage", "dir", "docker", "docker-archive", "docker-daemon", "http", "https", "oci"}
    | {"oci-archive", "oci-docker", "ostree", "sif", "tarball"}
)
"""Names before a colon with which Podman reads an image from a file, a folder or another service."""
_RUN_OPTIONS = {
    "--label": _ONE,
    "--detach": _FLAG,
    "--rm": _FLAG,
    "--network": _ONE,
    "--publish": _ONE,
    "--cpus": _ONE,
    "--memory": _ONE,
    "--http-proxy=false": _FLAG,
    "--cap-drop": _MANY,
    "--cap-add": _ONE,
    "--security-opt": _ONE,
    "--sysctl": _ONE,
    "--add-host": _ONE,
    "--env": _MANY,
    "--entrypoint": _ONE,
    "--name": _ONE,
}
_EXECUTE_OPTIONS = {"-i": _FLAG, "--detach": _FLAG, "--env": _MANY, "--user": _ONE, "--workdir": _ONE}
_RESTRICTIONS = {
    "--cap-drop": ["NET_ADMIN", "NET_RAW"],
    "--security-opt": ["no-new-privileges"],
    "--sysctl": ["net.ipv6.conf.all.disable_ipv6=1"],
}


def read_command(argv: Words) -> Command:
    """Return what a command line without the program's name asks for. Raises RefusedCommand."""
    if not argv or any("\0" in word for word in argv):
        raise RefusedCommand("the command is empty, or has a zero byte in it")
    verb, rest = argv[0], list(argv[1:])
    if verb == "version" and not rest:
        return Version()
    if verb == "run":
        return _read_run(rest)
    if verb == "exec":
        return _read_execute(rest)
    if verb == "inspect" and len(rest) == 3 and rest[:2] == ["--format", "{{json .Config}}"]:
        return Inspect(_name(rest[2]))
    if verb == "port" and len(rest) == 2 and rest[1] == f"{SERVICE_PORT}/tcp":
        return PublishedPort(_name(rest[0]))
    if verb == "rm" and len(rest) == 2 and rest[0] == "--force":
        return Remove(_name(rest[1]))
    if verb == LISTEN and len(rest) == 2:
        return Listen(_name(rest[0]), _port(rest[1]))
    if verb == "image" and rest == ["inspect", NETWORK_IMAGE]:
        return FindNetworkImage()
    if verb == "build" and len(rest) == 5 and rest[:4] == ["--tag", NETWORK_IMAGE, "--file", "-"]:
        return BuildNetworkImage()  # the folder that verifiers names is empty, and is not used
    raise RefusedCommand(f"{verb[:40]!r} with these arguments is no command of verifiers")


def _read_run(words: list[str]) -> Start | CutNetwork:
    given, rest = _options(words, _RUN_OPTIONS)
    label = given.pop("--label", [""])[0]
    if not _RUN_LABEL.fullmatch(label):
        raise RefusedCommand("a container needs the label of verifiers, and no other")
    network = given.pop("--network", [""])[0]
    if network.startswith("container:"):
        return _read_cut(network.removeprefix("container:"), given, rest)
    if network != "bridge":
        raise RefusedCommand(f"the network {network[:40]!r} is not the bridge")
    start = Start(
        name=_name(given.pop("--name", [""])[0]),
        image=_image(rest),
        environment=_environment(given.pop("--env", [])),
        cpus=_matching(_CPUS, given.pop("--cpus", [""])[0], "--cpus"),
        memory=_matching(_MEMORY_SIZE, given.pop("--memory", [""])[0], "--memory"),
        restricted=_restricted(given),
        host_name=_has(given, "--add-host", "host.docker.internal:host-gateway"),
    )
    given.pop("--http-proxy=false", None)
    if given != {"--detach": [], "--publish": [f"127.0.0.1::{SERVICE_PORT}"], "--entrypoint": ["sleep"]}:
        raise RefusedCommand(f"{_differences(given)} is not how verifiers starts a container")
    return start


def _read_cut(name: str, given: dict[str, list[str]], rest: list[str]) -> CutNetwork:
    """Read the command that restricts the network of a container. `rest` is the image and the script."""
    if given != {"--rm": [], "--cap-drop": ["ALL"], "--cap-add": ["NET_ADMIN"]}:
        raise RefusedCommand(f"{_differences(given)} is not how verifiers restricts the network of a container")
    if len(rest) != 7 or rest[:3] != [NETWORK_IMAGE, "sh", "-c"] or rest[4:6] != ["cut", ""]:
        raise RefusedCommand("only the script of verifiers runs in the network of a container")
    if hashlib.sha256(rest[3].encode("utf-8", "replace")).hexdigest() not in _CUT_SCRIPTS:
        raise RefusedCommand("the script for the network of a container is none of verifiers 0.4")
    return CutNetwork(_name(name), rest[3], str(_port(rest[6])))


def _read_execute(words: list[str]) -> Execute:
    given, rest = _options(words, _EXECUTE_OPTIONS)
    workdir = given.get("--workdir", ["/"])[0]
    if not workdir.startswith("/"):
        raise RefusedCommand("the working directory is no absolute path")
    if len(rest) < 2:
        raise RefusedCommand("no program to run in the container is given")
    return Execute(
        name=_name(rest[0]),
        argv=tuple(rest[1:]),
        workdir=workdir,
        environment=_environment(given.get("--env", [])),
        user=_matching(_USER, given.get("--user", [""])[0], "--user"),
        stdin="-i" in given,
        detached="--detach" in given,
    )


def _options(words: list[str], known: Mapping[str, str]) -> tuple[dict[str, list[str]], list[str]]:
    """Split the options at the start from the other words. Options are written as verifiers writes them."""
    given: dict[str, list[str]] = {}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        option = words[at]
        kind = known.get(option)
        if kind is None:
            raise RefusedCommand(f"the option {option.partition('=')[0][:40]!r} is not allowed")
        if option in given and kind is not _MANY:
            raise RefusedCommand(f"the option {option!r} is given twice")
        values = given.setdefault(option, [])
        if kind is not _FLAG:
            if at + 1 >= len(words):
                raise RefusedCommand(f"the option {option!r} has no value")
            values.append(words[at + 1])
        at += 1 if kind is _FLAG else 2
    return given, words[at:]


def _differences(given: Mapping[str, list[str]]) -> str:
    return " ".join(" ".join([option, *values]) for option, values in sorted(given.items()))[:200] or "no option"


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise RefusedCommand(f"{name[:40]!r} is no container of this evaluation")
    return name


def _image(rest: list[str]) -> str:
    if len(rest) != 2 or rest[1] != "infinity":
        raise RefusedCommand("a container only sleeps until programs run in it")
    image = rest[0]
    found = _IMAGE.fullmatch(image)
    if found is None or len(image) > 255:
        raise RefusedCommand(f"{image[:80]!r} is not the name of an image")
    # With a tag, a single word looks like the name of a transport, which reads files of this machine.
    if found["path"] in _TRANSPORTS and found["tag"]:
        raise RefusedCommand(f"{image[:80]!r} names a file or another service, not an image")
    return image


def _environment(values: list[str]) -> tuple[str, ...]:
    for value in values:
        # Without "=", Podman takes the variable's value from its own environment, and "*" takes many.
        if not _VARIABLE.match(value):
            raise RefusedCommand(f"the variable {value.partition('=')[0][:40]!r} has no value or no usual name")
    return tuple(values)


def _matching(form: re.Pattern[str], value: str, option: str) -> str:
    if value and not form.fullmatch(value):
        raise RefusedCommand(f"the value {value[:40]!r} of {option} has another form than verifiers gives it")
    return value


def _restricted(given: dict[str, list[str]]) -> bool:
    """Remove the options for a restricted network; return whether they were given. All of them or none are."""
    found = {option: given.pop(option) for option in _RESTRICTIONS if option in given}
    if found and found != _RESTRICTIONS:
        raise RefusedCommand(f"{_differences(found)} is not how verifiers starts a container")
    return bool(found)


def _has(given: dict[str, list[str]], option: str, value: str) -> bool:
    found = given.pop(option, None)
    if found not in (None, [value]):
        raise RefusedCommand(f"the value of {option} is not {value}")
    return found is not None


def _port(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,4}", text, re.ASCII) or int(text) > 65535:
        raise RefusedCommand(f"{text[:10]!r} is no port")
    return int(text)


# --- writing -----------------------------------------------------------------------------------------------------


def qualified(image: str) -> str:
    """Return the full name of an image: a name without a registry stands for one of Docker Hub, as with Docker."""
    first, separator, _ = image.partition("/")
    if separator and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"docker.io/{image}" if separator else f"docker.io/library/{image}"


def start_arguments(start: Start, label: str, image: str, seconds: int, port: int) -> list[str]:
    """Return the arguments of Podman that start a container. `image` is on this machine already.

    `port` is the loopback port of this machine that leads to the service port of the container.

    The container ends by itself after `seconds`, so it does not stay if the broker is killed.
    """
    restrictions = [f"{option}={value}" for option, values in _RESTRICTIONS.items() for value in values]
    return [
        "run",
        "--detach",
        "--rm",
        "--pull=never",
        f"--label={LABEL}={label}",
        "--network=bridge",
        f"--publish=127.0.0.1:{port}:{SERVICE_PORT}",
        "--http-proxy=false",
        "--no-healthcheck",
        f"--pids-limit={MOST_PROCESSES}",
        f"--timeout={seconds}",
        f"--memory={start.memory or MEMORY}",
        *([f"--cpus={start.cpus}"] if start.cpus else ()),
        *(restrictions if start.restricted else ()),
        *(["--add-host=host.docker.internal:host-gateway"] if start.host_name else ()),
        *(f"--env={variable}" for variable in start.environment),
        "--entrypoint=sleep",
        f"--name={start.name}",
        "--",
        image,
        "infinity",
    ]


def execute_arguments(execute: Execute) -> list[str]:
    """Return the arguments of Podman that run a program in a container."""
    return [
        "exec",
        *(["--interactive"] if execute.stdin else ()),
        *(["--detach"] if execute.detached else ()),
        *(f"--env={variable}" for variable in execute.environment),
        *([f"--user={execute.user}"] if execute.user else ()),
        f"--workdir={execute.workdir}",
        "--",
        execute.name,
        *execute.argv,
    ]


def cut_arguments(cut: CutNetwork, label: str) -> list[str]:
    """Return the arguments of Podman that restrict the network of a container."""
    return [
        "run",
        "--rm",
        "--pull=never",
        f"--label={LABEL}={label}",
        f"--network=container:{cut.name}",
        "--cap-drop=ALL",
        "--cap-add=NET_ADMIN",
        "--timeout=60",
        "--",
        NETWORK_IMAGE,
        "sh",
        "-c",
        cut.script,
        "cut",
        "",
        cut.port,
    ]


_PASS_LISTENER = """
import array, socket, sys
control = socket.socket(socket.AF_UNIX)
control.connect("/run/listener.sock")
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(64)
control.sendmsg([b"listener"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [listener.fileno()]))])
"""


def listen_arguments(listen: Listen, label: str, image: str, control: str) -> list[str]:
    """Return the arguments of Podman that pass a listener of a container's network to the Unix socket `control`.

    Only the socket is mounted, so the helper, which may run a program of the task's image, writes no file of this
    machine.
    """
    return [
        "run",
        "--rm",
        "--pull=never",
        f"--label={LABEL}={label}",
        "--user=0",
        f"--network=container:{listen.name}",
        "--cap-drop=ALL",
        "--cap-add=DAC_OVERRIDE",
        "--security-opt=no-new-privileges",
        "--pids-limit=32",
        "--memory=256m",
        "--timeout=60",
        f"--volume={control}:/run/listener.sock:ro,Z",
        "--entrypoint=python3",
        "--",
        image,
        "-I",
        "-S",
        "-c",
        _PASS_LISTENER,
        str(listen.port),
    ]
