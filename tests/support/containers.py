"""An image for tests of containers, made without a registry from programs of this machine."""

from __future__ import annotations

import functools
import io
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest

PROGRAMS = ("sh", "bash", "sleep", "cat", "mkdir", "chown", "rm", "head", "setsid", "ls", "wc", "id", "seq", "sed")
IMAGE = f"localhost/prime-lab-test:{sys.version_info.major}.{sys.version_info.minor}"
_LEFT_OUT = re.compile(
    r"(^|/)(test|tests|idlelib|tkinter|turtledemo|ensurepip|lib2to3|site-packages|__pycache__|config-[^/]*)(/|$)"
    r"|_tkinter|_test"
)


@functools.cache
def why_no_podman() -> str:
    """Why tests with real containers cannot run here; an empty text if they can."""
    if shutil.which("podman") is None:
        return "podman is not installed"
    tried = subprocess.run(["podman", "info"], capture_output=True, text=True, timeout=120, check=False)
    return "" if tried.returncode == 0 else f"podman does not work: {tried.stderr.strip()[-200:]}"


@functools.cache
def test_image() -> str:
    """Return the name of an image with a shell and this Python. Skips the test if no container can run here."""
    if why_no_podman():
        pytest.skip(why_no_podman())
    if subprocess.run(["podman", "image", "exists", IMAGE], timeout=120, check=False).returncode:
        with tempfile.TemporaryFile() as archive:
            _write_archive(archive)
            archive.seek(0)
            made = subprocess.run(["podman", "import", "-", IMAGE], stdin=archive, capture_output=True, timeout=300)
        if made.returncode:
            pytest.skip(f"podman import failed: {made.stderr.decode(errors='replace')[-200:]}")
    tried = subprocess.run(
        ["podman", "run", "--rm", "--pull=never", IMAGE, "python3", "-c", "print(1)"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if tried.stdout.strip() != "1":
        pytest.skip(f"podman runs no container here: {tried.stderr.strip()[-300:]}")
    return IMAGE


test_image.__test__ = False  # type: ignore[attr-defined]


def _write_archive(target: io.BufferedIOBase) -> None:
    base = Path(sys.base_prefix)
    programs = [path for name in PROGRAMS if (path := shutil.which(name)) is not None]
    python = Path(sys.executable).resolve()
    files: dict[str, Path] = {f"usr/bin/{Path(path).name}": Path(path).resolve() for path in programs}
    files[str(python).lstrip("/")] = python
    library = base / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    standard = [p for p in library.rglob("*") if p.is_file() and not _LEFT_OUT.search(str(p.relative_to(library)))]
    files |= {str(path).lstrip("/"): path.resolve() for path in standard}
    extensions = [str(p) for p in standard if p.suffix == ".so"]
    for needed in _libraries([*programs, str(python), *extensions]):
        files[needed.lstrip("/")] = Path(needed).resolve()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for folder in ("tmp", "etc", "root", "usr", "usr/bin"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(entry)
        for name, path in sorted(files.items()):
            archive.add(path, arcname=name, recursive=False)
        for name, place in (("usr/bin/python3", str(python)), ("bin", "usr/bin")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, place
            archive.addfile(entry)
        users = b"root:x:0:0:root:/root:/bin/sh\nguest:x:1000:1000:guest:/tmp:/bin/sh\n"
        entry = tarfile.TarInfo("etc/passwd")
        entry.size = len(users)
        archive.addfile(entry, io.BytesIO(users))


def _libraries(programs: list[str]) -> set[str]:
    """Return the shared libraries of programs, the loader among them."""
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, timeout=120, check=False).stdout
    return {path for path in re.findall(r"(/\S+)(?= \(0x)", listed) if Path(path).exists()}
