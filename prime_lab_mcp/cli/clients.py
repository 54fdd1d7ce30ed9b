"""`prime-lab-mcp install CLIENT`: writes the entry of this server into the configuration of an MCP client.

The files and their shapes are those that the clients document: https://code.claude.com/docs/en/mcp,
https://modelcontextprotocol.io/docs/develop/connect-local-servers (Claude Desktop),
https://code.visualstudio.com/docs/copilot/reference/mcp-configuration, https://cursor.com/docs/context/mcp,
https://developers.openai.com/codex/mcp, https://geminicli.com/docs/tools/mcp-server.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit
from urllib.request import url2pathname

import tomlkit
from tomlkit.exceptions import TOMLKitError

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.text import escape, escape_lines

Scope = Literal["project", "user"]


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """Where a client keeps its MCP servers, and what an entry holds.

    `project` is a path in the workspace, `user` a path in the home folder (by `sys.platform` where they differ).
    """

    title: str
    table: str
    then: str
    """What the user does after the entry was written."""
    project: str | None = None
    user: str | Mapping[str, str] | None = None
    home_variable: str | None = None
    """Variable that names the folder which holds the user's file, where the client has one."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What an entry holds besides `command` and `args`."""

    def path(self, scope: Scope, workspace: Path) -> Path | None:
        """Return the configuration file of a scope, or None where the client has no such file."""
        if scope == "project":
            return workspace / self.project if self.project else None
        relative = self.user.get(sys.platform, self.user["linux"]) if isinstance(self.user, Mapping) else self.user
        if relative is None:
            return None
        folder = os.environ.get(self.home_variable, "") if self.home_variable else ""
        return Path(folder).expanduser() / Path(relative).name if folder else Path.home() / relative


CLIENTS: Mapping[str, ClientConfig] = {
    "claude-code": ClientConfig(
        "Claude Code",
        "mcpServers",
        "Start `claude` in this folder and approve the server when Claude Code asks; `/mcp` shows it.",
        project=".mcp.json",
    ),
    "claude-desktop": ClientConfig(
        "Claude Desktop",
        "mcpServers",
        "Quit Claude Desktop and start it again.",
        user={
            "darwin": "Library/Application Support/Claude/claude_desktop_config.json",
            "linux": ".config/Claude/claude_desktop_config.json",
        },
    ),
    "vscode": ClientConfig(
        "VS Code",
        "servers",
        "Open the folder in VS Code and choose Start above the entry in the file, or run `MCP: List Servers`.",
        project=".vscode/mcp.json",
        user={"darwin": "Library/Application Support/Code/User/mcp.json", "linux": ".config/Code/User/mcp.json"},
        more={"type": "stdio"},
    ),
    "cursor": ClientConfig(
        "Cursor",
        "mcpServers",
        "Enable the server in Cursor's settings under MCP.",
        project=".cursor/mcp.json",
        user=".cursor/mcp.json",
    ),
    "codex": ClientConfig(
        "Codex",
        "mcp_servers",
        "Start `codex`; `/mcp` shows the server. Codex reads the file of a project only in folders that it trusts.",
        project=".codex/config.toml",
        user=".codex/config.toml",
        home_variable="CODEX_HOME",
        more={"tool_timeout_sec": 1800},  # Codex ends a call after 60 seconds otherwise; a reward test takes minutes
    ),
    "gemini": ClientConfig(
        "Gemini CLI",
        "mcpServers",
        "Start `gemini` in this folder and trust it when Gemini asks; `/mcp` shows the server.",
        project=".gemini/settings.json",
        user=".gemini/settings.json",
    ),
}


def list_clients(settings: Settings, name: str) -> int:
    """Print each client with its files, and whether they hold an entry of this name."""
    print("usage: prime-lab-mcp install CLIENT [--scope project|user] [--print] [--remove]\n")
    for client, config in CLIENTS.items():
        for scope in ("project", "user"):
            path = config.path(scope, settings.workspace)
            if path is not None:
                state = "has an entry" if _has_entry(config, path, name) else "no entry"
                print(escape(f"{client:15} {scope:8} {state:13} {path}"))
    print(escape_lines(f"\nThe toolchain (verifiers, datasets, prime) is installed by: {typed_command('setup')}"))
    return 0


def install(
    settings: Settings,
    client: str,
    options: Sequence[str],
    *,
    scope: Scope | None = None,
    name: str = "prime-lab",
    only_print: bool = False,
    remove: bool = False,
) -> int:
    """Add this server to a client's configuration, or remove it. Everything else in the file stays as it is.

    `options` are the options of `serve` that the entry passes. Returns 0, also where nothing had to be changed.
    Raises BadInput for a scope that the client has no file for, and for a file that cannot be changed safely.
    """
    config = CLIENTS[client]
    scope = scope or ("project" if config.project else "user")
    path = config.path(scope, settings.workspace)
    if path is None:
        raise BadInput(
            f"{config.title} has no configuration file of the scope {scope} that is edited here",
            fix=_alternative_message(config, scope, name, options, settings),
        )
    words = [*server_command(), "serve", "--workspace", str(settings.workspace), *options]
    entry = {**config.more, "command": words[0], "args": words[1:]}
    path = path.resolve() if path.is_symlink() else path
    before = _read(path)
    after = _edited(config, path, before, name, None if remove else entry)
    if only_print:
        print(escape_lines(_edited(config, path, "", name, entry)), end="")
        return 0
    if after == before:
        print(escape(f"{path} {'has no entry' if remove else 'holds this entry already'}: {name}"))
        return 0
    _write(path, before, after)
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), f"{path} before", str(path), lineterm="", n=2)
    print(escape_lines("\n".join(diff)), end="\n\n")
    print(escape(f"{config.title}: {name} was {'removed from' if remove else 'written to'} {path}."))
    if not remove:
        print(config.then)
        print(escape(f"What works here, and a command for what does not: {typed_command('doctor')}"))
    return 0


def server_command() -> list[str]:
    """Return the command that starts this installation from any folder.

    uvx runs from a folder of uv's cache that uv may delete, so an entry names uvx itself, and where the package came
    from if that was no index.
    """
    prefix = Path(sys.prefix)
    # uvx puts the programs of its folder on PATH, and the package uv has an uvx of its own among them. It was maybe not
    # found on PATH itself; it names the uv beside it in a variable.
    folders = [*os.get_exec_path(), os.path.dirname(os.environ.get("UV", "")) or os.devnull]
    lasting = [folder for folder in folders if not Path(folder).is_relative_to(prefix)]
    uvx = shutil.which("uvx", path=os.pathsep.join(lasting)) if _in_uvs_cache(prefix) else None
    if uvx:
        origin = _origin()
        return [uvx, *(["--from", origin] if origin else []), "prime-lab-mcp"]
    script = prefix / "bin" / "prime-lab-mcp"
    return [str(script)] if os.access(script, os.X_OK) else [sys.executable, "-m", "prime_lab_mcp"]


def typed_command(*words: str) -> str:
    """A command of this program as it can be typed in a shell: by its path, or through uvx, where it is not on PATH."""
    command = server_command()
    if not _in_uvs_cache(Path(sys.prefix)) and shutil.which("prime-lab-mcp") == command[0]:
        command = ["prime-lab-mcp"]
    return shlex.join([*command, *words])


def _in_uvs_cache(prefix: Path) -> bool:
    return bool({"archive-v0", "environments-v2"} & set(prefix.parts))


def _origin() -> str | None:
    """The file, folder or commit that the package was installed from, for uvx; None for an index.

    The record is that of https://packaging.python.org/specifications/direct-url/.
    """
    try:
        record = json.loads(importlib.metadata.distribution("prime-lab-mcp").read_text("direct_url.json") or "{}")
        url = str(record.get("url", ""))
        if "vcs_info" in record:
            return f"{record['vcs_info']['vcs']}+{url}@{record['vcs_info']['commit_id']}"
        return url2pathname(urlsplit(url).path) if url.startswith("file:") else url or None
    except (importlib.metadata.PackageNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _alternative_message(
    config: ClientConfig, scope: Scope, name: str, options: Sequence[str], settings: Settings
) -> str:
    if config.title == "Claude Code":
        words = [*server_command(), "serve", "--workspace", str(settings.workspace), *options]
        return f"Let Claude Code write it: claude mcp add --scope user {shlex.quote(name)} -- {shlex.join(words)}"
    return f"Use --scope {'user' if scope == 'project' else 'project'}."


def _has_entry(config: ClientConfig, path: Path, name: str) -> bool:
    try:
        text = _read(path)
        content: Any = tomlkit.parse(text).unwrap() if path.suffix == ".toml" else json.loads(text or "{}")
        return name in content[config.table]
    except (BadInput, TOMLKitError, ValueError, KeyError, TypeError):
        return False


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read: {error}", fix="Look at the file, then call again.") from error


def _edited(config: ClientConfig, path: Path, text: str, name: str, entry: Mapping[str, Any] | None) -> str:
    """Return the file's text with the entry of this name set, or removed where `entry` is None."""
    edit = _edited_toml if path.suffix == ".toml" else _edited_json
    try:
        return edit(text, config.table, name, entry)
    except (TOMLKitError, ValueError, TypeError, AttributeError) as error:
        add = edit("", config.table, name, entry) if entry is not None else ""
        raise BadInput(
            f"{path} is not plain {'TOML' if path.suffix == '.toml' else 'JSON'} with a table {config.table}"
            f" ({error}), so it was left as it is",
            fix=f"Edit it by hand: {'add this.' if add else f'remove {name} from {config.table}.'}\n{add}".rstrip(),
        ) from error


def _edited_toml(text: str, table: str, name: str, entry: Mapping[str, Any] | None) -> str:
    document = tomlkit.parse(text)
    if entry is None:
        if table in document:
            document[table].pop(name, None)
        return tomlkit.dumps(document)
    if table not in document:
        document[table] = tomlkit.table(is_super_table=True)
    present = document[table].get(name)
    if present is None:
        document[table][name] = tomlkit.table()
        present = document[table][name]
    for key, value in entry.items():
        if present.get(key) != value:
            present[key] = value
    return tomlkit.dumps(document)


def _edited_json(text: str, table: str, name: str, entry: Mapping[str, Any] | None) -> str:
    content = json.loads(text) if text.strip() else {}
    if not isinstance(content, dict) or not isinstance(content.get(table, {}), dict):
        raise TypeError(f"no object holds {table}")
    present = content.get(table, {}).get(name)
    if entry is None:
        if present is None:
            return text
        del content[table][name]
    else:
        # Keys that a person added to the entry (`env`, `timeout`) stay.
        merged = {**present, **entry} if isinstance(present, dict) else dict(entry)
        if merged == present:
            return text
        content.setdefault(table, {})[name] = merged
    indent = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return json.dumps(content, indent=indent[1] if indent else 2, ensure_ascii=False) + "\n"


def _write(path: Path, before: str, after: str) -> None:
    """Replace the file in one step, with the permissions that it had."""
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(after)
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        if _read(path) != before:
            raise BadInput(f"{path} changed meanwhile", fix="Call again.")
        os.replace(temporary, path)
        temporary = ""
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written: {error}", fix="Use --print and put the entry there yourself."
        ) from error
    finally:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
