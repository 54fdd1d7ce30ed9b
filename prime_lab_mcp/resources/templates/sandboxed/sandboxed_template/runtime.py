"""What happens in a task's runtime: preparing it, and checking an answer there. A failure here is no wrong answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import verifiers.v1 as vf

PYTHON = "python3"
CHECK = Path(__file__).with_name("check.py")
_FOLDER = ".check"
_IMPORT = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"


async def require(runtime: vf.Runtime, imports: Sequence[str], image: str) -> None:
    """Raise when Python or one of the modules cannot be imported there; the message names it and the image."""
    done = await runtime.run([PYTHON, "-c", _IMPORT, *imports], {})
    if done.exit_code != 0:
        detail = (done.stderr or done.stdout).strip()[-300:] or "no output"
        raise RuntimeError(f"the image {image} lacks what the tasks need ({', '.join(imports)}): {detail}")


async def place(runtime: vf.Runtime, files: Mapping[str, str]) -> None:
    """Write the files of a task into the working directory."""
    for name, text in files.items():
        await runtime.write(name, text.encode())


async def check(runtime: vf.Runtime, answer: str, gold: str) -> bool:
    """Run check.py there on an answer. The program is written only now, so that the model cannot have changed it."""
    await runtime.write(f"{_FOLDER}/check.py", CHECK.read_bytes())
    await runtime.write(f"{_FOLDER}/given.json", json.dumps({"answer": answer, "gold": gold}).encode())
    done = await runtime.run([PYTHON, "-I", f"{_FOLDER}/check.py", f"{_FOLDER}/given.json"], {})
    if done.exit_code != 0:
        raise RuntimeError(f"the check failed with exit code {done.exit_code}: {done.stderr.strip()[-300:]}")
    return bool(json.loads(done.stdout.strip().splitlines()[-1])["right"])
