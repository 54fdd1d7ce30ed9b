"""A policy for environment code: readable and writable paths, ports and limits; and the command that applies the policy
to a program."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prime_lab_mcp.lab.sandbox import confine
from prime_lab_mcp.lab.sandbox.kernel_support import present_support

SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store", "/opt/homebrew",
    "/proc", "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ssl", "/etc/ca-certificates", "/etc/pki",
    "/etc/crypto-policies", "/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf",
    "/etc/localtime", "/etc/timezone", "/etc/passwd", "/etc/group", "/etc/mime.types", "/etc/alternatives",
    "/etc/protocols", "/etc/services", "/etc/os-release", "/etc/lsb-release", "/etc/debian_version", "/etc/fonts",
    "/etc/terminfo", "/etc/inputrc", "/etc/locale.alias", "/etc/locale.conf", "/etc/default/locale", "/etc/magic",
    "/etc/java-11-openjdk", "/etc/java-17-openjdk", "/etc/java-21-openjdk", "/etc/R", "/etc/perl", "/etc/ghc",
    "/etc/machine-id",
)  # fmt: skip
"""Paths of the system that programs read: programs, libraries, certificates, name resolution, time. /etc is not
readable as a whole, because it holds host keys and password hashes."""
_SHARED_MEMORY = "/dev/shm"
PORTS = (9, 53, 80, 443)
"""TCP ports that environment code may connect to: name resolution (53), the web (80, 443), and the discard port (9).

A judge that no endpoint serves is directed to the discard port. The port is allowed so that such a request fails with a
refused connection and not with an error of the confinement.
"""
MEMORY_BYTES = 8 << 30
"""Bytes of writable memory of one process, unless a caller sets another limit."""
FILE_BYTES = 4 << 30
"""Largest size in bytes of a file that environment code writes."""
LIBRARIES = Path(__file__).parent / "site"
"""Folder for PYTHONPATH of confined programs, with a module that adapts libraries to the confinement."""
NAMES_OVER_TCP = {"RES_OPTIONS": "use-vc"}
"""Variable that makes glibc resolve names over TCP (resolv.conf(5)), because UDP is closed."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """A policy. Paths in `write` may also be read; files below paths in both may be executed."""

    read: tuple[Path, ...]
    write: tuple[Path, ...]
    ports: tuple[int, ...] | None = PORTS
    """TCP ports of any host. None: no rules for ports; empty: no network."""
    unix_sockets: bool = False
    """Whether Unix sockets may be made. They lead to Docker, systemd and other services of the user."""
    memory_bytes: int = MEMORY_BYTES
    file_bytes: int = FILE_BYTES
    hidden: tuple[Path, ...] = ()
    """Folders outside of /Users that the profile of macOS hides, such as the state directory."""

    def as_json(self) -> dict[str, Any]:
        """The policy in the form that `confine.py` reads, with the layers that this machine supports."""
        return {
            "layers": list(present_support().layers),
            "read": [*SYSTEM, *map(str, self.read)],
            "write": [_SHARED_MEMORY, *map(str, self.write)],
            "ports": sorted({*self.ports, *proxy_ports()}) if self.ports else None if self.ports is None else [],
            "unix_sockets": self.unix_sockets,
            "memory_bytes": self.memory_bytes,
            "file_bytes": self.file_bytes,
            "hidden": list(map(str, self.hidden)),
        }

    def command(self, argv: Sequence[str]) -> list[str]:
        """The command that applies this policy to itself and then becomes `argv`."""
        policy = self.as_json()
        if not policy["layers"]:
            return list(argv)
        return [sys.executable, "-I", confine.__file__, json.dumps(policy), "--", *argv]


def proxy_ports() -> list[int]:
    """Ports of the user's proxies and of a private Hub, read from the environment variables.

    If a proxy is required, nothing is reachable without its port.
    """
    ports = []
    for name in ("http_proxy", "https_proxy", "all_proxy", "hf_endpoint"):
        for spelled in (name, name.upper()):
            try:
                port = urlsplit(os.environ.get(spelled, "")).port
            except ValueError:
                continue
            if port:
                ports.append(port)
    return ports


def python_paths(python: Path) -> tuple[Path, ...]:
    """The folders that a Python reads: its environment, and the installation that the environment was made from.

    For the server's own Python, the folders that `.pth` files add are included. The packages of an environment can
    overwrite every file of their Python environment, including `pyvenv.cfg`. A folder therefore counts as the
    installation only if it contains a Python installation.
    """
    prefix = python.parent.parent
    below = [python.resolve().parent.parent]
    try:
        for line in (prefix / "pyvenv.cfg").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "home":
                below.append(Path(value.strip()).parent)
                below.append(Path(value.strip()).resolve().parent)
    except (OSError, ValueError):
        pass
    paths = [prefix, *(path for path in below if any(path.glob("lib*/python3*/os.py")))]
    if python == Path(sys.executable):
        # Not the whole search path: `python -m` puts the working folder there.
        installed = [entry for entry in sys.path if {"site-packages", "dist-packages"} & set(Path(entry).parts)]
        paths += [*map(Path, (sys.base_prefix, sys.base_exec_prefix, *installed)), *_added_by_pth_files(prefix)]
    return tuple(dict.fromkeys(path for path in paths if _is_narrow(path) and path.exists()))


def _added_by_pth_files(prefix: Path) -> Iterator[Path]:
    for packages in prefix.glob("lib/python*/site-packages"):
        for listing in packages.glob("*.pth"):
            try:
                lines = listing.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError:
                continue
            added = [line.strip() for line in lines if not line.startswith(("import", "#"))]
            yield from (packages / line for line in added if line)


def certificate_paths() -> tuple[Path, ...]:
    """Files and folders of certificates that the user's variables name."""
    names = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    return tuple(Path(os.environ[name]) for name in names if os.environ.get(name))


def _is_narrow(path: Path) -> bool:
    """Whether a path is narrow enough to be allowed: not the root, /tmp, /etc, a home, or a folder above a home."""
    full = path.resolve()
    home = Path(os.path.expanduser("~")).resolve()
    return full != Path("/") and full != home and full not in home.parents and full not in (Path("/tmp"), Path("/etc"))
