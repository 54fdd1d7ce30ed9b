"""Interpreters of environments that tests share: in the user's cache folder, also between runs.

To install one and to compile it on its first import costs more than most tests that need it.
"""

from __future__ import annotations

import platformdirs

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.interpreter import Interpreters


def shared() -> Interpreters:
    """Builds into the shared folder, or takes what is there."""
    root = platformdirs.user_cache_path("prime-lab-mcp-tests")
    root.mkdir(parents=True, exist_ok=True)
    return Interpreters(Settings(workspace=root, state_dir=root))


def share(settings: Settings) -> None:
    """Let a lab of these settings use the shared folder. Before the lab builds its first interpreter."""
    folder = Settings(workspace=settings.workspace, state_dir=platformdirs.user_cache_path("prime-lab-mcp-tests"))
    folder.interpreters.mkdir(parents=True, exist_ok=True)
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    settings.interpreters.symlink_to(folder.interpreters, target_is_directory=True)
