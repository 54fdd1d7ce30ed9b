"""Completion in bash, zsh and fish: `prime-lab-mcp completion SHELL` prints what the shell has to read.

The shell starts this program with a variable of argcomplete set, and argcomplete answers from the parser.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prime_lab_mcp.cli.tool_arguments import add_tool_parsers

SHELLS = ("bash", "zsh", "fish")


def completion_script(shell: str) -> str:
    """The text that the shell reads at its start."""
    from argcomplete.shell_integration import shellcode

    return str(shellcode(["prime-lab-mcp"], shell=shell))


def complete(parser: argparse.ArgumentParser, call: argparse.ArgumentParser) -> None:
    """Answer the shell and end the process. Names of environments, evaluations and runs are those of the workspace."""
    import argcomplete

    add_tool_parsers(call, _COMPLETERS)
    argcomplete.autocomplete(parser, always_complete_options="long")


def _environments(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    from prime_lab_mcp.lab.state.workspace import Workspace

    folders = Workspace(_workspace(parsed_args)).list_environments()
    return [folder.name for folder in folders]


def _evaluations(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    ledger, key = _ledger(parsed_args)
    return [job.id for job in ledger.jobs(key)] if ledger is not None else []


def _runs(parsed_args: argparse.Namespace, **options: Any) -> list[str]:
    ledger, key = _ledger(parsed_args)
    runs = [run.id for run in ledger.runs(workspace=key)] if ledger is not None else []
    return [*runs, *_evaluations(parsed_args, **options)]


def _models(**_: Any) -> list[str]:
    from prime_lab_mcp.lab.models.registry import load_registry

    return [row.name for row in load_registry().rows]


_COMPLETERS: Mapping[str, Any] = {
    "environment": _environments,
    "environments": _environments,
    "same_as": _environments,
    "eval": _evaluations,
    "other": _evaluations,
    "rescore": _evaluations,
    "id": _runs,
    "resume_from": _runs,
    "model": _models,
}


def _workspace(parsed_args: argparse.Namespace) -> Path:
    return Path(getattr(parsed_args, "workspace", None) or Path.cwd()).expanduser().resolve()


def _ledger(parsed_args: argparse.Namespace) -> tuple[Any, str]:
    """The ledger of the state directory, or None where there is none yet, and the workspace's key in it."""
    from prime_lab_mcp.lab.state.ledger.ledger import Ledger
    from prime_lab_mcp.server.main import settings

    chosen = settings(str(_workspace(parsed_args)), getattr(parsed_args, "state_dir", None))
    return (Ledger(chosen.ledger) if chosen.ledger.exists() else None), str(chosen.workspace)
