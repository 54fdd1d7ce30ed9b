"""Runs a program against tests in a runtime, and believes only a verdict that the grader itself gives.

What is sent is one zip file: the grader, the program that runs the reply's code, and the job. The verdict comes as a
line of output with a random token. The reply's code never learns the token, has other standard streams, and runs only
once the file is gone.
"""

from __future__ import annotations

import asyncio
import io
import json
import secrets
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    import verifiers.v1 as vf

_FILES = ("grader.py", "processes.py", "candidate.py")
_START = "from {package} import candidate, grader; grader.main(candidate)"
_PATH = "/usr/local/bin:/usr/bin:/bin"
_MARGIN = 20.0
"""Seconds that the grader may take beyond its own limit before it is killed."""


class Tests(BaseModel):
    """What decides whether a program is right: either code that calls its functions, or inputs with their outputs."""

    model_config = ConfigDict(frozen=True)

    prelude: str = ""
    """Code that the tests need and that is not the reply's: imports, helpers."""
    tests: str = ""
    """Code that raises unless the program is right."""
    names: list[str] = Field(default_factory=list)
    """What the tests use of the program: its functions and classes."""
    cases: list[dict[str, str]] = Field(default_factory=list)
    """`input` and `output` of a program that reads and prints."""


class Limits(BaseModel):
    """What a program may use."""

    cpu: Annotated[int, Field(ge=1, le=120)] = 5
    """Seconds of CPU, for each process."""
    wall: Annotated[int, Field(ge=1, le=600)] = 20
    """Seconds in all, for all tests."""
    memory: Annotated[int, Field(ge=64)] = 1024
    """Megabytes of address space, for each process."""
    output: Annotated[int, Field(ge=1000)] = 1_000_000
    """Bytes of a file or of what is printed."""


async def passes(program: str, tests: Tests, runtime: vf.Runtime, limits: Limits) -> bool:
    """Whether the program passes every test.

    Raises RuntimeError when the grader did not start or the tests themselves are at fault: that is no wrong answer.
    """
    token = secrets.token_hex(16)
    job = {"token": token, "code": program, "limits": limits.model_dump(), **tests.model_dump()}
    name = f"grade-{secrets.token_hex(8)}.pyz"
    await runtime.write(name, _bundle(job))
    python = sys.executable if runtime.type == "subprocess" else "python3"
    argv = ["env", "-i", f"PATH={_PATH}", "LANG=C.UTF-8", "PYTHONHASHSEED=0", python, "-s", name]
    try:
        result = await asyncio.wait_for(runtime.run(argv, {}), limits.wall + _MARGIN)
    except TimeoutError:
        return False  # the grader keeps its own time; only a program that stops it gets here
    told = list(_told(result.stdout, token))
    if not told:
        raise RuntimeError(f"the grader did not start: {result.stderr.strip()[-500:]}")
    verdict = told[-1]
    if verdict.get("unfair"):
        raise RuntimeError(str(verdict["unfair"])[:500])
    return verdict.get("passed") is True


def _told(output: str, token: str) -> Sequence[Mapping[str, Any]]:
    found = []
    for line in output.splitlines():
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict) and told.get("token") == token:
            found.append(told)
    return found


def _bundle(job: Mapping[str, Any]) -> bytes:
    here = Path(__file__).parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as bundle:
        bundle.writestr("__main__.py", _START.format(package=here.name))
        bundle.writestr(f"{here.name}/__init__.py", "")
        for name in _FILES:
            bundle.writestr(f"{here.name}/{name}", (here / name).read_bytes())
        bundle.writestr("job.json", json.dumps(job))
    return packed.getvalue()
