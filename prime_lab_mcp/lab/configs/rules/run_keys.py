"""Finds the variables of a run, its keys above all, that a config hands to servers and programs.

verifiers and prime-rl read a key from the variable that a table names and send the key to the server that the same
table names. verifiers 0.4.0 reads PRIME_API_KEY where a table names no variable (`BaseClientConfig` in
`verifiers.v1.configs.client`); prime-rl reads VLLM_API_KEY, which a hosted run does not hold. Judges, clients of
agents, user simulators and whatever a taskset defines share that class, so every table below an environment is read
alike.
Paths are tuples of keys, because a key of TOML may contain dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.text import quote

KeyPath = tuple[str, ...]

_DEFAULT_KEY = "PRIME_API_KEY"
_KEY_HOSTS: Mapping[str, tuple[str, ...]] = {
    "HF_TOKEN": ("huggingface.co",),
    "HUGGING_FACE_HUB_TOKEN": ("huggingface.co",),
    "WANDB_API_KEY": ("wandb.ai",),
    _DEFAULT_KEY: ("primeintellect.ai", "pinference.ai"),
}
"""The keys that a hosted run holds, with the domains to which each may be sent."""
_KEY_NAME = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(_KEY_HOSTS)})(?![A-Za-z0-9_])")
_ADDRESS, _VARIABLE = "base_url", "api_key_var"
_OTHER_ADDRESS = re.compile(r"(?:\w+_)?(?:url|address|endpoint|host|api_base)")
"""Matches keys besides `base_url` that name a server."""
_SCHEME = re.compile(r"\s*[a-z][a-z0-9+.-]*://", re.I)
_SERVER = re.compile(r"https://(?P<host>[A-Za-z0-9.-]+)(?::\d+)?(?:[/?#][!-\[\]-~]*)?")
"""Matches addresses whose host every parser reads alike: no user, no backslash, no blank."""
_HANDED_ON = re.compile(r"(?:\w+_)?(?:from_env|forward_env|forwarded_env|headers?_env|pass_env|inherit_env)")
"""Matches tables and lists of names of variables whose values are handed on: `headers_from_env`, `forward_env` and
`mcp_header_env` of verifiers 0.4.0, and the same words in settings of other packages."""
_NO_NAME = ("", "None")
_MOST = 80
"""Most characters of a host in a description."""


@dataclass(frozen=True, slots=True)
class HandedOn:
    """A setting that hands a variable of the run to a server or a program. `about` describes the setting."""

    path: KeyPath
    value: Any
    about: str
    blocks: bool = True


def within_environment(path: KeyPath) -> KeyPath:
    """Return the keys of a path below the `env` table of a source; empty for other paths."""
    start = 1 if path[:1] == ("orchestrator",) else 0
    kind, source = path[start : start + 1], path[start + 1 : start + 3]
    return path[start + 3 :] if kind in (("train",), ("eval",)) and source == ("source", "env") else ()


def is_environment(path: KeyPath) -> bool:
    """Whether a path lies below the `env` table of a source."""
    return within_environment(path) != ()


def is_taskset(path: KeyPath) -> bool:
    """Whether a path is that of a source's taskset or lies below it. Such settings are arguments, which have gates of
    their own."""
    return within_environment(path)[:1] == ("taskset",)


def handed_on(node: Any, path: KeyPath = ()) -> Iterator[HandedOn]:
    """Yield every setting of a parsed config that hands on a variable of the run."""
    if isinstance(node, list):
        for value in node:
            yield from handed_on(value, path)
    if not isinstance(node, Mapping):
        return
    yield from _of_table(node, path)
    for key, value in node.items():
        below = (*path, str(key))
        if _HANDED_ON.fullmatch(_plain(key)):
            yield from _named_variables(value, below)
        else:
            yield from handed_on(value, below)


def _of_table(table: Mapping[str, Any], path: KeyPath) -> Iterator[HandedOn]:
    """Yield what the direct entries of a table send to the servers that the table names."""
    verifiers = is_environment(path)
    servers = [a for key, value in table.items() if _plain(key) == _ADDRESS for a in _texts(value) if a.strip()]
    others = [
        text
        for key, value in table.items()
        if _plain(key) != _ADDRESS
        for text in _texts(value)
        if _SCHEME.match(text) or (_OTHER_ADDRESS.fullmatch(_plain(key)) and text.strip())
    ]
    stated = [v for key, value in table.items() if _plain(key) == _VARIABLE for v in _texts(value) if v not in _NO_NAME]
    if verifiers and not stated and (foreign := _foreign(_DEFAULT_KEY, servers)):
        about = (
            f"a server that gets {_DEFAULT_KEY}, a key of the run: verifiers sends it where the table states no "
            f"{_VARIABLE}, and {_host(foreign)} is not the key's own server"
        )
        yield HandedOn((*path, _ADDRESS), foreign, about)
    for key, value in table.items():
        if _HANDED_ON.fullmatch(_plain(key)):
            continue  # every variable of these blocks
        for text in _texts(value):
            below = (*path, str(key))
            if _plain(key) == _VARIABLE and text not in _NO_NAME:
                yield from _sent(text.strip(), servers, below, verifiers)
            elif names := _KEY_NAME.findall(text):
                yield from _mentioned(names, text, [*servers, *others], below)
        if _KEY_NAME.fullmatch(str(key)):
            yield HandedOn((*path, str(key)), value, "a setting with the name of a key of the run", blocks=False)


def _sent(variable: str, servers: Sequence[str], path: KeyPath, verifiers: bool) -> Iterator[HandedOn]:
    """Yield the variable whose value a client sends to its servers as the key."""
    foreign = _foreign(variable, servers)
    if variable not in _KEY_HOSTS:
        if foreign:
            about = f"a variable of the run whose value is sent to {_host(foreign)}"
            yield HandedOn(path, variable, about, blocks=False)
        return
    if foreign:
        to = _host(foreign)
    elif servers or (verifiers and variable == _DEFAULT_KEY):
        return  # Without an address the client of verifiers asks the platform's own inference.
    else:
        to = "the platform's inference" if verifiers else "the default server of prime-rl"
    about = f"a key of the run that is sent to {to}, which is not the key's own server"
    yield HandedOn(path, variable, about)


def _mentioned(names: Sequence[str], text: str, servers: Sequence[str], path: KeyPath) -> Iterator[HandedOn]:
    """Yield a text that names keys of the run, unless its table names the key's own servers only."""
    foreign = next(filter(None, (_foreign(name, servers) for name in names)), "")
    if foreign:
        yield HandedOn(path, text, f"a key of the run beside {_host(foreign)}, which is not the key's own server")
    elif not servers:
        yield HandedOn(path, text, "a key of the run that the package may read or send", blocks=False)


def _named_variables(node: Any, path: KeyPath) -> Iterator[HandedOn]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield from _named_variables(value, (*path, str(key)))
    elif isinstance(node, list):
        for value in node:
            yield from _named_variables(value, path)
    elif isinstance(node, str) and node not in _NO_NAME:
        yield HandedOn(path, node, "a variable of the run that is handed to a server or a program")


def _foreign(variable: str, servers: Sequence[str]) -> str:
    """Return the first server that is not one of the variable's own; empty without one."""
    return next((server for server in servers if not _is_own(variable, server)), "")


def _is_own(variable: str, server: str) -> bool:
    address = _SERVER.fullmatch(server.strip())
    host = address["host"].lower().rstrip(".") if address else ""
    return any(host == domain or host.endswith(f".{domain}") for domain in _KEY_HOSTS.get(variable, ()))


def _host(server: str) -> str:
    address = _SERVER.fullmatch(server.strip())
    return quote(address["host"] if address else server, _MOST)


def _texts(value: Any) -> Iterator[str]:
    """Yield a text, or the texts of a list of any depth."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _plain(key: object) -> str:
    """Return a key as pydantic models spell their fields."""
    return str(key).strip().replace("-", "_").lower()
