"""What happens in a task's runtime: preparing it. A failure here is no wrong answer; nothing is scored in there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import verifiers.v1 as vf

PYTHON = "python3"
_IMPORT = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"


async def require(runtime: vf.Runtime, imports: Sequence[str], image: str) -> None:
    """Raise when Python or one of the modules cannot be imported there; the message names it and the image."""
    done = await runtime.run([PYTHON, "-c", _IMPORT, *imports], {})
    if done.exit_code != 0:
        detail = (done.stderr or done.stdout).strip()[-300:] or "no output"
        raise RuntimeError(f"the image {image} lacks what the tasks need ({', '.join(imports)}): {detail}")


async def place(runtime: vf.Runtime, files: Mapping[str, str]) -> None:
    """Write the files of a task into the working directory: what the question is about, and nothing of its answer."""
    for name, text in files.items():
        await runtime.write(name, text.encode())
