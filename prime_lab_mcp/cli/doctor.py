"""`prime-lab-mcp doctor`: what works on this machine, and for each thing that does not, a command that mends it.

`prime-lab-mcp setup` installs the toolchain first and prints the same.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import platformdirs

from prime_lab_mcp.cli import terminal
from prime_lab_mcp.cli.clients import typed_command
from prime_lab_mcp.cli.report_view import OutputFormat, markdown
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.state.storage import StoreSize, store_sizes
from prime_lab_mcp.lab.toolchain import Toolchain
from prime_lab_mcp.server import rendering

PURPOSES = {
    "local": "build, test and evaluate on this machine",
    "endpoint": "ask a model",
    "account": "read and publish on Prime's platform",
    "training": "start training runs",
}
_SETUP = frozenset({"verifiers-missing", "datasets-missing", "prime-missing", "prime-too-old"})
_PRIME = {"not-logged-in": "login", "training-not-offered": "train request", "username-missing": "env push"}
_PYTHON = {
    "uv-missing": "{python} -m pip install uv",
    "python-unsupported": "uv tool install --python 3.12 prime-lab-mcp",
}


def doctor(settings: Settings, output: OutputFormat, *, install: bool = False) -> int:
    """Print the capabilities of this machine and account, and what the state directory holds.

    With `install`, what the toolchain lacks is installed before. Returns the exit code of the report's status
    (`terminal.EXIT`).
    """
    report = terminal.run_tool(settings, "preflight", {"install": True} if install else {})
    sizes = store_sizes(settings.state_dir)
    held = {"path": str(settings.state_dir), "stores": [asdict(size) for size in sizes]}
    content = rendering.whole(report) | {"state_directory": held}
    commands = {finding["code"]: fix_command(finding["code"], settings) for finding in content["findings"]}
    if output == "json":
        fixes = {code: command for code, command in commands.items() if command is not None}
        print(json.dumps(content | {"commands": fixes}, ensure_ascii=False, indent=2))
    elif output == "markdown":
        print(markdown(content))
    else:
        print("\n".join([*_lines(content, commands), "", *_storage_lines(settings.state_dir, sizes)]))
    return terminal.EXIT[report.status]


def _storage_lines(state_dir: Path, sizes: Sequence[StoreSize]) -> list[str]:
    lines = [f"state directory {state_dir}: {_size(sum(size.bytes for size in sizes))}"]
    return lines + [f"  {s.name:18} {s.entries:6,} {_size(s.bytes):>9}  kept {s.retention}" for s in sizes]


def _size(number: int) -> str:
    megabytes = number / 1e6
    return f"{megabytes / 1e3:.1f} GB" if megabytes >= 1e3 else f"{megabytes:.1f} MB"


def fix_command(code: str, settings: Settings) -> str | None:
    """The command that mends what a finding names, as it can be typed in this terminal; None where no command can."""
    if code in _SETUP:
        return _own_command("setup", settings)
    if code in _PRIME:
        return f"{_prime(settings)} {_PRIME[code]}"
    return _PYTHON[code].format(python=shlex.quote(sys.executable)) if code in _PYTHON else None


def _own_command(name: str, settings: Settings) -> str:
    """A command of this program for the same state directory. The program may be off PATH."""
    usual = os.environ.get("PRIME_LAB_STATE_DIR") or platformdirs.user_state_dir("prime-lab-mcp")
    state = [] if settings.state_dir == Path(usual).expanduser().resolve() else ["--state-dir", str(settings.state_dir)]
    return typed_command(name, *state)


def _prime(settings: Settings) -> str:
    """`prime` as it can be typed: by its path where the toolchain's is not on PATH."""
    program = Toolchain(settings).program("prime")
    return "prime" if shutil.which("prime") or program is None else shlex.quote(str(program))


def _lines(content: Mapping[str, Any], commands: Mapping[str, str | None]) -> list[str]:
    lines = [str(content["summary"]), ""]
    for name, purpose in PURPOSES.items():
        capability = content["data"].get("capabilities", {}).get(name)
        if capability is not None:
            state = capability.get("state", "unknown")
            lines.append(f"  {_mark(state)} {name:9} {state:10} {purpose}{_facts(capability)}")
    lines += _confinement_lines(content["data"].get("capabilities", {}).get("local", {}).get("confinement"))
    findings = content["findings"]
    printed: set[str] = set()
    for finding in findings:
        command = commands[finding["code"]]
        if command in printed:
            continue
        together = [other for other in findings if command and commands[other["code"]] == command] or [finding]
        lines += ["", *(f"{f['severity']} {f['code']}: {f['message']}" for f in together)]
        lines.append(f"  run:  {command}" if command else f"  {finding['fix']}")
        printed.update([command] if command else [])
    return lines


def _confinement_lines(confinement: Mapping[str, Any] | None) -> list[str]:
    if not confinement:
        return []
    parts = ", ".join(f"{part} {confinement[part]}" for part in ("files", "processes", "network"))
    return ["", f"environment code: {parts}", *(f"  still open: {what}" for what in confinement["still_open"])]


def _mark(state: str) -> str:
    mark, colour = ("ok", 32) if state == "ok" else ("--", 33)
    return f"\033[{colour}m{mark}\033[0m" if sys.stdout.isatty() else mark


def _facts(capability: Mapping[str, Any]) -> str:
    named = {name: capability.get(name) for name in ("python", "verifiers", "datasets", "prime", "user", "team")}
    known = [f"{name} {value}" for name, value in named.items() if value]
    return f" ({', '.join(known)})" if known else ""
