"""Interpreters of environments that tests share: in the user's cache folder, also between runs.

To install one and to compile it on its first import costs more than most tests that need it.
"""

from __future__ import annotations

import platformdirs

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.interpreter import Interpreter, Interpreters

OLDEST = "verifiers>=0.1.14,<0.2"
DATASETS = "datasets>=3.0,<4.7"
MATH_VERIFY = "math-verify>=0.9,<0.10"
PYTHON = ">=3.11"
"""What packages of tests require, and the v0 templates. An interpreter is built for each set of requirements, so that
every other set costs fifteen seconds."""


SHARED = platformdirs.user_cache_path("prime-lab-mcp-tests").resolve()
"""The shared folder, read before any test points HOME or XDG_CACHE_HOME to a folder of its own."""


def shared() -> Interpreters:
    """Builds into the shared folder, or takes what is there."""
    root = SHARED
    root.mkdir(parents=True, exist_ok=True)
    return Interpreters(Settings(workspace=root, state_dir=root))


async def older(verifiers: str = OLDEST, *more: str) -> Interpreter:
    """The shared interpreter of a v0 package that requires this verifiers, `datasets` and more."""
    needed = {"dependencies": [verifiers, DATASETS, *more], "requires-python": PYTHON}
    return await shared().for_package({"project": needed}, api="v0")


def share(settings: Settings) -> None:
    """Let a lab of these settings use the shared folder. Before the lab builds its first interpreter."""
    folder = Settings(workspace=settings.workspace, state_dir=SHARED)
    folder.interpreters.mkdir(parents=True, exist_ok=True)
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    settings.interpreters.symlink_to(folder.interpreters, target_is_directory=True)
