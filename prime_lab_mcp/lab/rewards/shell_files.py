"""Looks for answers in the files that a tool with a shell, or with Python, can read.

After the set-up of a task, such a tool searches the working directory and a few other folders for the task's answer.
Files that hold the answers of several tasks, and whose paths are alike, are then read by one command that is the same
in every task (shortcuts.py). A model needs no more than this command, `ls` and `cat`. A reward may ask for a look into
the files of the task, whose names differ: `cat *` is such a look in every task.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from prime_lab_mcp.lab.rewards.chained_calls import Call, takes
from prime_lab_mcp.lab.worker.child.scripted_rollouts import arguments
from prime_lab_mcp.lab.worker.scoring import OfferedTool

_SHELL = re.compile(r"(?i)(?<![a-z])(?:bash|(?:unix|linux|posix )?shell|sh|terminal|command[ -]line)(?![a-z])")
_PYTHON = re.compile(r"(?i)(?<![a-z])i?python3?(?![a-z])")
_COMMAND = re.compile(r"(?i)^(?:command|cmd|script|code|input|keystrokes)s?$")
_FOLDERS = (".", "${TMPDIR:-/tmp}", "$HOME")
_PYTHON_FOLDERS = (".", "/tmp", "$HOME")
"""Where a rollout's files are looked for: the working directory first."""
_MOST_LISTED, MOST_PATHS = 40, 8
"""Largest number of files that a search lists, and of paths that are read."""
_SEARCH_SECONDS = 5
FEWEST_CHARACTERS = 2
"""Shorter answers stand in any file; a file with nothing else is found by its name, which the shell lists."""
_LISTED = re.compile(r"^(?:\./|/)[^\n]*$", re.M)
_RECURSIVE = re.compile(r"(?:^|[;&|\s])(?:grep\s+(?:-\w*[rR]\w*)|rg\b|find\b|ls\s+-\w*R)")


@dataclass(frozen=True, slots=True)
class ShellTool:
    """A tool that runs what a model writes: a shell, or with `python` an interpreter."""

    tool: OfferedTool
    parameter: str
    python: bool = False

    def _call(self, text: str) -> Call:
        return self.tool.name, arguments(self.tool.parameters) | {self.parameter: text}

    def search(self, texts: Sequence[str]) -> Call | None:
        """Return a call that lists the files that hold one of the texts; None if all are too short."""
        wanted = [t for t in texts if len(t) >= FEWEST_CHARACTERS and "\n" not in t]
        if not wanted:
            return None
        if self.python:
            return self._call(_PYTHON_SEARCH.format(wanted=wanted, most=_MOST_LISTED, folders=_PYTHON_FOLDERS))
        patterns = " ".join(f"-e {shlex.quote(text)}" for text in wanted)
        folders = " ".join(f'"{folder}"' for folder in _FOLDERS)
        limit = f"$(command -v timeout >/dev/null 2>&1 && echo timeout {_SEARCH_SECONDS})"
        # One search for each folder: what a search has not written yet is lost when its time ends.
        search = f'for d in {folders}; do {limit} grep -rlisF {patterns} "$d" 2>/dev/null; done'
        held = " | ".join(f"*{shlex.quote(text)}*" for text in wanted)
        by_hand = _WITHOUT_GREP.format(folders=folders, held=held)
        found = f"if command -v grep >/dev/null 2>&1; then {search}; else {by_hand}; fi"
        return self._call(f"{found} | head -n {_MOST_LISTED}")

    def reads(self, paths: Sequence[str]) -> list[Call]:
        """Return a call for each path, which may hold `*`, that shows what stands there."""
        if self.python:
            return [self._call(_PYTHON_READ.format(path=p)) for p in paths]
        return [self._call(f"cat {_globbed(path)}") for path in paths]

    def reads_all(self) -> Call:
        """Return a call that reads every file of the working directory, whatever the names are in a task."""
        return self.reads(["*"])[0]


_WITHOUT_GREP = """for d in {folders}; do for f in "$d"/* "$d"/.[!.]*; do
if [ -f "$f" ] && [ -r "$f" ]; then case "$(cat "$f" 2>/dev/null)" in {held}) echo "$f";; esac; fi; done; done"""
"""The search in the files of the folders themselves, for an image that has no grep."""
_PYTHON_READ = """import glob, os
for name in filter(os.path.isfile, glob.glob({path!r})): print(open(name).read())"""
_PYTHON_SEARCH = """import os
found = []
for folder in {folders!r}:
    for where, _, names in os.walk(os.path.expandvars(folder)):
        for name in names:
            path = os.path.join(where, name)
            try:
                text = open(path, errors="replace").read(100000).casefold()
            except Exception:
                continue
            if any(one.casefold() in text for one in {wanted!r}):
                found.append(path)
        if len(found) >= {most}:
            break
print("\\n".join(found[:{most}]))"""


def _globbed(path: str) -> str:
    """Return a path in the form of a shell, in which `*` stands for anything."""
    return "*".join(shlex.quote(part) if part else "" for part in path.split("*"))


def shell_tools(tools: Sequence[OfferedTool]) -> Iterator[ShellTool]:
    """Yield the tools that run a command or a program of the model."""
    for tool in tools:
        properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
        texts = [name for name, schema in properties.items() if takes(schema, "string")]
        chosen = next((n for n in texts if _COMMAND.match(n)), None)
        if chosen is None:
            continue
        about = f"{tool.name.replace('_', ' ')} {tool.description}"
        if _SHELL.search(about):
            yield ShellTool(tool, chosen)
        elif _PYTHON.search(about):
            yield ShellTool(tool, chosen, python=True)


def listed_files(output: str) -> list[str]:
    """Return the paths of files that a search has listed."""
    return list(dict.fromkeys(_LISTED.findall(output)))


def common_paths(listings: Sequence[Sequence[str]]) -> list[str]:
    """Return the paths that all listings have, with `*` in the place of the piece in which they differ.

    Files of the same name come first, then those whose path differs in one piece of each part, such as
    `./case-*/expected.txt`.
    """
    if len(listings) < 2 or not all(listings):
        return []
    same = [path for path in listings[0] if all(path in others for others in listings[1:])]
    alike: list[str] = []
    for path in listings[0]:
        merged: str | None = path
        for listing in listings[1:]:
            options = [m for other in listing if merged is not None and (m := _alike(merged, other)) is not None]
            merged = max(options, key=len, default=None)
        if merged is not None and not any(fnmatchcase(known, merged) for known in same):
            alike.append(merged)
    return list(dict.fromkeys([*same, *alike]))[:MOST_PATHS]


def _alike(one: str, other: str) -> str | None:
    """Return two paths with `*` where their parts differ in the middle; None if a part has nothing in common."""
    ours, theirs = one.split("/"), other.split("/")
    if len(ours) != len(theirs):
        return None
    parts = [_merged(a, b) for a, b in zip(ours, theirs, strict=True)]
    return "/".join(parts) if parts[-1] != "*" else None


def _merged(one: str, other: str) -> str:
    if one == other:
        return one
    start = _common_start(one.partition("*")[0], other)
    end = _common_start(one[len(start) :].rpartition("*")[2][::-1], other[len(start) :][::-1])[::-1]
    return f"{start}*{end}"


def _common_start(one: str, other: str) -> str:
    length = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def reads_file(commands: Sequence[str], path: str) -> bool:
    """Whether commands name a file, a pattern that fits its name, or search all files."""
    name = path.rsplit("/", 1)[-1]
    for command in commands:
        if _RECURSIVE.search(command):
            return True
        for word in re.findall(r"[^\s;|&<>()\"'`]+", command):
            last = word.rsplit("/", 1)[-1]
            if last and (fnmatchcase(last, name) or fnmatchcase(name, last)):
                return True
    return False
