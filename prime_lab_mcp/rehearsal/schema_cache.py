"""Fills prime's cache with the Python environment in which `prime train` validates configs.

Without the cache, prime installs prime-rl-configs from GitHub with Python 3.12 (prime_cli/utils/training_compiler.py,
0.18.0), which a rehearsal does not have. The rehearsal's HOME therefore contains an environment under the same key,
made of this interpreter and schema_package/. Filling takes a few milliseconds. The server imports this module, so its
imports are light.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from prime_lab_mcp.lab.configs.schema import SCHEMA_COMMIT

Release = Literal["current", "drifted"]
"""`drifted`: another version of prime-rl, which lacks one key of the exported schema."""

DRIFTED_KEY = "orchestrator.max_off_policy_steps"
_DRIFTED_COMMIT = hashlib.sha1(DRIFTED_KEY.encode(), usedforsecurity=False).hexdigest()
_CACHE_VERSION = 2
_MARK = "rehearsal-stand-in"
_PACKAGE = "prime_rl"


def commit(release: Release) -> str:
    """The prime-rl commit of the schema; an invented one for `drifted`."""
    return SCHEMA_COMMIT if release == "current" else _DRIFTED_COMMIT


def install(release: Release) -> dict[str, Any]:
    """The field `schema_install` of a preparation.

    Without a filled cache, prime fails on it without asking an index.
    """
    return _install(release, sys.executable)


@cache
def _install(release: Release, executable: str) -> dict[str, Any]:
    return {
        "python": "3.12",
        "requirements": ["--no-index", "prime-rl-configs"],
        "constraints": [f"prime-rl-configs==0+{_MARK}.{release}.{_digest(release, executable)[:16]}"],
    }


def fill(cache_home: Path) -> None:
    """Write the environments to prime's cache under this XDG_CACHE_HOME, if they are missing. Raises OSError."""
    folder = cache_home / "prime" / "training-schemas"
    for release in get_args(Release):
        target = folder / _key(install(release))
        if not (target / ".ready").exists():
            folder.mkdir(parents=True, exist_ok=True)
            _place(target, release)


def _key(inputs: dict[str, Any]) -> str:
    """The name that prime gives to an environment."""
    identity = json.dumps({"install": inputs, "cache_version": _CACHE_VERSION}, sort_keys=True)
    return hashlib.sha256(identity.encode()).hexdigest()


def _place(target: Path, release: Release) -> None:
    """Build an environment beside its target and move it there, so that two servers do not interfere."""
    import venv

    with tempfile.TemporaryDirectory(dir=target.parent, prefix="making-") as folder:
        place = Path(folder) / "environment"
        venv.EnvBuilder(symlinks=os.name != "nt").create(place)
        site = Path(sysconfig.get_path("purelib", "venv", {"base": str(place), "platbase": str(place)}))
        for path, content in _files(release):
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_bytes(content)
        (place / ".ready").touch()
        if target.exists() and not (target / ".ready").exists():
            shutil.rmtree(target, ignore_errors=True)
        if not target.exists():
            place.rename(target)


def _files(release: Release) -> Iterator[tuple[str, bytes]]:
    package = Path(str(resources.files(__package__))) / "schema_package" / _PACKAGE
    for path in sorted(package.rglob("*.py")):
        # In its environment the package has the name that the worker imports.
        content = path.read_bytes().replace(f"{__package__}.schema_package.".encode(), b"")
        yield f"{_PACKAGE}/{path.relative_to(package).as_posix()}", content
    for kind in ("rl", "sft"):
        yield f"{_PACKAGE}/{kind}.json", _schema(kind, release)
    info = f"prime_rl_configs-0+{_MARK}.dist-info"
    yield (
        f"{info}/METADATA",
        (
            b"Metadata-Version: 2.1\nName: prime-rl-configs\nVersion: 0+rehearsal\n"
            b"Summary: Stand-in of the Prime Lab rehearsal; not prime-rl.\n"
        ),
    )
    # prime compares this commit with the commit of the preparation.
    known = {"url": f"file:///{_MARK}", "vcs_info": {"vcs": "git", "commit_id": commit(release)}}
    yield f"{info}/direct_url.json", json.dumps(known).encode()
    yield f"{_MARK}.pth", "".join(f"{place}\n" for place in _pydantic()).encode()


def _schema(kind: str, release: Release) -> bytes:
    from prime_lab_mcp.lab.configs import schema

    raw = (resources.files(schema.__package__ or "") / "schemas" / f"{kind}.json").read_bytes()
    if release == "current":
        return raw
    changed = json.loads(raw)
    changed.get("$defs", {}).get("OrchestratorConfig", {}).get("properties", {}).pop(DRIFTED_KEY.split(".")[1], None)
    return json.dumps(changed).encode()


def _pydantic() -> list[str]:
    """Folder of pydantic, with which the worker reports problems."""
    origins = (spec.origin for name in ("pydantic", "pydantic_core") if (spec := find_spec(name)) is not None)
    return sorted({str(Path(origin).parents[1]) for origin in origins if origin})


def _digest(release: Release, executable: str) -> str:
    """Hash of everything in the environment, so that every version is a different environment."""
    parts = [
        executable,
        sys.version,
        *(part for path, content in _files(release) for part in (path, content.hex())),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
