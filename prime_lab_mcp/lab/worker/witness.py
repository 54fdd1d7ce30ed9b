"""A witness: a process that scores completions again and contains no module of this project.

The witness runs a copy of the environment under another path, with other variables, folders and arguments, another host
name and a shifted clock (worker/child/witness.py). A reward that behaves well only where it recognises this server gets
other scores here.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError, WorkerError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.sandbox import confine
from prime_lab_mcp.lab.sandbox.caches import DataCache
from prime_lab_mcp.lab.sandbox.policy import LIBRARIES, Confinement
from prime_lab_mcp.lab.worker.channel import ChannelClosed, ChannelFlood, ChannelGarbage
from prime_lab_mcp.lab.worker.description import optional_float
from prime_lab_mcp.lab.worker.faults import nonsense
from prime_lab_mcp.lab.worker.scoring import Case
from prime_lab_mcp.lab.worker.zygote import SupervisedChild, Zygote, witness_environment

_DAY = 86_400.0
SHIFTS = (431 * _DAY + 26_213.0, 1_877 * _DAY + 51_791.0, 0.0)
"""Seconds by which the clock is shifted in each pass over the cases: over one year, over five years, and zero."""
LOAD_SECONDS = 120.0
"""Time limit for loading the environment in the witness."""
_LAST_SCORING = 10.0
"""Seconds for the last case in addition to the time limit of the call."""


_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")


@dataclass(frozen=True, slots=True)
class WitnessedScore:
    """The score of one case in one pass. `error` is the text of the exception that scoring raised; otherwise empty."""

    reward: float | None
    components: Mapping[str, float | None] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class WitnessScores:
    """The scores of all cases in each pass (see `SHIFTS`).

    `tasks` identifies the task of each case: `key:KEY` (v1) or `answer:ANSWER` (v0). Long texts are cut.
    """

    passes: tuple[tuple[WitnessedScore, ...], ...]
    tasks: tuple[str, ...]


class Witness:
    """A process that loads the environment in the background and then scores one list of cases.

    Without a child, `reason` says why no process could be started.
    """

    def __init__(self, child: SupervisedChild | None, reason: str = "") -> None:
        self._child = child
        self._reason = reason

    async def score(self, cases: Sequence[Case], *, case_timeout: float, timeout: float) -> WitnessScores:
        """Score the cases in order, once in each pass.

        Times are in seconds. Raises WorkerError if the process fails.
        """
        if self._child is None:
            raise _failed(self._reason)
        channel = self._child.channel
        asked = [
            {
                "row": c.row,
                "messages": list(map(dict, c.messages)),
                "rest_of_group": [list(map(dict, o)) for o in c.rest_of_group],
                "stored": None if c.stored is None else dict(c.stored),
            }
            for c in cases
        ]
        try:
            with anyio.fail_after(LOAD_SECONDS):
                loaded = await channel.receive()
            if "failed" in loaded:
                raise _failed(f"the environment does not load there: {quote(loaded['failed'], 200)}")
            with anyio.fail_after(timeout + _LAST_SCORING):
                await channel.send({"cases": asked, "seconds": case_timeout})
                reply = await channel.receive()
        except TimeoutError:
            raise _failed("the process did not answer in time") from None
        except (ChannelClosed, ChannelFlood, ChannelGarbage) as error:
            raise _failed(f"the process ended or wrote nonsense ({type(error).__name__})") from None
        if "failed" in reply:
            raise _failed(f"scoring there raised {quote(reply['failed'], 200)}")
        return _decode(reply, len(cases))


def _failed(why: str) -> WorkerError:
    return WorkerError(
        f"no second process could score the sample: {why}",
        fix=Fix(
            "Call ",
            NamedCall("test_reward"),
            " again; if it repeats, see whether the package loads from another folder.",
        ),
        code="worker-failed",
    )


def _decode(reply: Mapping[str, Any], size: int) -> WitnessScores:
    try:
        passes = tuple(
            tuple(
                WitnessedScore(
                    optional_float(score.get("reward")),
                    {str(n): optional_float(v) for n, v in score.get("components", {}).items()},
                    str(score.get("error", "")),
                )
                for score in scores
            )
            for scores in reply["passes"]
        )
        tasks = tuple(str(task) for task in reply["tasks"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise nonsense("witness", reply) from error
    if len(passes) != len(SHIFTS) or {len(tasks), *map(len, passes)} != {size}:
        raise nonsense("witness", reply)
    return WitnessScores(passes, tasks)


@asynccontextmanager
async def open_witness(
    zygote: Zygote,
    tree: Path,
    module: str,
    env_args: Mapping[str, Any],
    variables: Mapping[str, str],
    last_row: int,
    cache: DataCache | None = None,
    confinement: Confinement | None = None,
    left_out: frozenset[str] = frozenset(),
) -> AsyncIterator[Witness]:
    """Fork a witness, which begins to load a copy of `tree`. `last_row` is the largest row of the later cases.

    The copy contains the files of an installation: those of `tree` without `left_out`. The witness also gets the
    program `nvidia-smi` and the module `prime_rl`, so that it looks like a training machine. The witness is confined
    like a worker and reads the environment's data cache through a link.
    """
    try:
        child = await zygote.fork(witness=True)
    except LabError as error:
        yield Witness(None, error.message)
        return
    try:
        root = child.scratch
        # An installation of a wheel in training: a reward can read this path of its own code.
        copy = root / "lib" / _python_folder(child.versions) / "site-packages"
        home, scratch = root / "home", root / "tmp"
        await anyio.to_thread.run_sync(_copy, tree, copy, left_out)
        await anyio.to_thread.run_sync(_write_metadata, tree, copy)
        programs = await anyio.to_thread.run_sync(_write_gpu_programs, root, copy)
        home.mkdir()
        scratch.mkdir()
        if cache is not None:
            (home / "huggingface").symlink_to(cache.root)
        own = witness_environment(zygote, home) | {"TMPDIR": str(scratch), "PWD": str(home)} | dict(variables)
        own["PATH"] = os.pathsep.join(filter(None, (own.get("PATH"), str(programs))))
        request = {
            "tree": str(copy),
            "home": str(home),
            "scratch": str(scratch),
            "module": module,
            "env_args": dict(env_args),
            "variables": own,
            "argv": [str(programs / "env-server"), "@", "env.toml"],
            "shifts": SHIFTS,
            "last": last_row,
            "kernel": confine.__file__,
            "libraries": str(LIBRARIES / "sitecustomize.py"),
            "policy": _policy(confinement, tree, root),
        }
        try:
            await child.channel.send(request)
        except ChannelClosed:
            yield Witness(None, "the process ended at once")
        else:
            yield Witness(child)
    finally:
        await child.close()


def _python_folder(versions: Mapping[str, Any]) -> str:
    """Return the folder of the child's Python below `lib`, such as `python3.12`."""
    return f"python{'.'.join(str(versions.get('python', '3.12')).split('.')[:2])}"


def _policy(confinement: Confinement | None, tree: Path, root: Path) -> dict[str, Any] | None:
    """Return the confinement of the witness, which may read its copy (not the snapshot) and write its own folders."""
    if confinement is None:
        return None
    read = tuple(path for path in confinement.read if path != tree)
    return replace(confinement, read=read, write=(*confinement.write, root)).as_json()


def _write_gpu_programs(root: Path, copy: Path) -> Path:
    """Write programs `nvidia-smi` and `env-server` and an empty module `prime_rl`, and return the folder of the
    programs. Processes that a reward spawns run `env-server`, the program of the witness, as a script of Python."""
    programs = root / "bin"
    programs.mkdir()
    program = programs / "nvidia-smi"
    program.write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    program.chmod(0o755)
    (programs / "env-server").write_text("", encoding="utf-8")
    if not (copy / "prime_rl").exists():
        (copy / "prime_rl").mkdir(parents=True)
        (copy / "prime_rl" / "__init__.py").write_text("", encoding="utf-8")
    return programs


def _write_metadata(tree: Path, copy: Path) -> None:
    """Write the metadata that an installation has beside the package. The folder in which workers run has none.

    `tree` may lack the version and the README (`snapshot.code_tree`); the stored copy beside it has both.
    """
    whole = tree.with_name("tree")
    stored = whole if whole.is_dir() else tree
    try:
        project = tomllib.loads((stored / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
        name, version = str(project["name"]), str(project["version"])
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return
    readme = stored / "README.md"
    text = readme.read_text(encoding="utf-8", errors="replace") if readme.is_file() else ""
    distribution = re.sub(r"[-_.]+", "_", name).lower()
    if not _PLAIN.fullmatch(distribution) or not _PLAIN.fullmatch(version):
        return
    folder = copy / f"{distribution}-{version}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n\n{text}"
    for file, content in (("METADATA", metadata), ("INSTALLER", "uv"), ("RECORD", "")):
        (folder / file).write_text(content, encoding="utf-8")


def _copy(tree: Path, copy: Path, left_out: frozenset[str]) -> None:
    """Copy the files of a snapshot except those in `left_out`. The copies are writable."""
    for folder, _, names in os.walk(tree):
        there = copy / Path(folder).relative_to(tree)
        there.mkdir(parents=True, exist_ok=True)
        for name in names:
            if (Path(folder) / name).relative_to(tree).as_posix() not in left_out:
                shutil.copyfile(Path(folder) / name, there / name)
