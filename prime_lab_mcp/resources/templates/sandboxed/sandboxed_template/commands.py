"""What the model did in its container, as the trace of the rollout tells it.

The trace is written outside of the container, so no command of the model can change what is read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import verifiers.v1 as vf

_WORD = re.compile(r"[^\s;|&<>()\"'`=]+")


def commands_of(trace: vf.Trace) -> list[str]:
    """The shell commands that the model gave, in order. Calls whose arguments cannot be read are left out."""
    found: list[str] = []
    for message in trace.assistant_messages:
        for call in message.tool_calls or ():
            try:
                arguments = json.loads(call.arguments) if isinstance(call.arguments, str) else call.arguments
            except ValueError:
                continue
            command = arguments.get("command") if isinstance(arguments, dict) else None
            if isinstance(command, str):
                found.append(command)
    return found


def used(commands: Sequence[str], files: Iterable[str]) -> bool:
    """Whether a command names one of these files, or a pattern such as *.csv that fits; any command without files."""
    names = [PurePosixPath(file).name for file in files]
    words = [PurePosixPath(word).name for command in commands for word in _WORD.findall(command)]
    return any(fnmatchcase(name, word) for word in words for name in names) if names else bool(commands)
