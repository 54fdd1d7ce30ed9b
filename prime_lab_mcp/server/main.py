"""Starts the server: settings from the command line, logging to stderr and a file, stdio or HTTP."""

from __future__ import annotations

import errno
import logging
import logging.handlers
import os
import sys
from pathlib import Path
from typing import Literal

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.settings import NamedEndpoint, Settings
from prime_lab_mcp.lab.base.text import escape_lines
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.deferred_models import deferred_models

PACKAGE = Path(__file__).parents[1]


def settings(
    workspace: str | None = None,
    state_dir: str | None = None,
    *,
    rehearsal: bool = False,
    approval: Literal["ask", "always"] = "ask",
    max_spend: float | None = None,
    allow_env: tuple[str, ...] = (),
    endpoints: tuple[str, ...] = (),
    notify: str | None = None,
) -> Settings:
    """Build the settings from the command line. `endpoints` are texts `NAME=URL|VARIABLE`.

    Raises BadInput if the state directory lies inside the workspace, an endpoint is invalid, or the command to notify
    does not exist.
    """
    root = Path(workspace or os.environ.get("PRIME_LAB_WORKSPACE") or Path.cwd()).expanduser().resolve()
    state = Path(state_dir or os.environ.get("PRIME_LAB_STATE_DIR") or _default_state()).expanduser().resolve()
    if not root.is_dir():
        raise BadInput(f"the workspace {root} is no folder", fix="Create it, or name another with --workspace.")
    if state.is_relative_to(root):
        raise BadInput(
            f"the state directory {state} lies inside the workspace, where an agent could edit the evidence",
            fix="Name one outside of it with --state-dir.",
        )
    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not os.access(state, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise BadInput(
            f"the state directory {state} cannot be used: {error.strerror}",
            fix="Name another folder with --state-dir, or make that one writable.",
        ) from error
    if notify is not None:
        from prime_lab_mcp.lab.notifier import notifier_from

        notifier_from(notify)
    return Settings(
        workspace=root,
        state_dir=state,
        rehearsal=rehearsal,
        approval=approval,
        max_spend=max_spend,
        allow_env=allow_env,
        endpoints=_named_endpoints(state, endpoints),
        notify=notify,
        templates=PACKAGE / "resources" / "templates",
    )


def _named_endpoints(state: Path, given: tuple[str, ...]) -> tuple[NamedEndpoint, ...]:
    if not given and not (state / "endpoints.toml").exists():
        return ()  # most servers name none, and start faster without the import
    from prime_lab_mcp.lab.relay.endpoints import all_named_endpoints

    return all_named_endpoints(state, given)


def _default_state() -> Path:
    import platformdirs

    return Path(platformdirs.user_state_dir("prime-lab-mcp"))


def open_lab(chosen: Settings) -> Lab:
    """Create a lab with these settings. In rehearsal, the platform is started on first use.

    From here on, the user's other processes cannot trace this process, because it holds the user's variables.
    """
    from prime_lab_mcp.lab.sandbox.confine import not_dumpable

    not_dumpable()
    if not chosen.rehearsal:
        lab = Lab(chosen)
        lab.publish_limits()
        return lab
    from prime_lab_mcp.server.rehearsing import RehearsalPlatform

    platform = RehearsalPlatform(chosen)
    lab = Lab(chosen, platform.variables)
    lab.publish_limits()
    lab.closing.append(platform.close)
    return lab


SWITCH_SECONDS = 0.0005
"""Longest time in seconds that a call's thread keeps the interpreter while the thread that reads messages waits. Every
message passes between two threads. With Python's default of 0.005, a few busy calls delay forty messages by seconds."""


def serve(chosen: Settings, http: str | None = None, token_file: str | None = None) -> None:
    """Run until the client closes stdin (stdio) or the process is stopped (HTTP).

    Raises BadInput for an address or a token file that cannot be used.
    """
    _log_to(chosen.state_dir / "server.log")
    sys.setswitchinterval(SWITCH_SECONDS)
    with deferred_models():
        from prime_lab_mcp.server.app import build_server

    if http is None:
        build_server(open_lab(chosen)).run("stdio")
    else:
        _serve_over_http(chosen, http, token_file)


def _serve_over_http(chosen: Settings, http: str, token_file: str | None) -> None:
    from prime_lab_mcp.dashboard.reading_lab import ReadingLab
    from prime_lab_mcp.server.app import build_server
    from prime_lab_mcp.server.http import choose_token, parse_address, serve_http

    address = parse_address(http)
    token = choose_token(address, token_file, chosen.workspace)
    lab = open_lab(chosen)
    serve_http(build_server(lab), address, token, token_file, ReadingLab(chosen, lab.platform_variables))


def serve_dashboard(chosen: Settings, port: int) -> None:
    """Serve the read-only page on loopback until the process is stopped. Raises BadInput for a port that is taken."""
    _log_to(chosen.state_dir / "server.log")
    from prime_lab_mcp.dashboard.reading_lab import ReadingLab
    from prime_lab_mcp.server.http import serve_page

    serve_page(ReadingLab(chosen, open_lab(chosen).platform_variables), port)


class EscapingFormatter(logging.Formatter):
    """Escapes control characters, because logs are read in terminals and contain text of environments and platforms."""

    def format(self, record: logging.LogRecord) -> str:
        return escape_lines(super().format(record))


class LogFile(logging.handlers.RotatingFileHandler):
    """A rotating log file that drops lines instead of failing when the disk is full."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


def _log_to(path: Path) -> None:
    """Log warnings to stderr, and all messages of this package to a rotating file."""
    handler = LogFile(path, maxBytes=2_000_000, backupCount=2, encoding="utf-8", delay=True)
    handler.setFormatter(EscapingFormatter("%(asctime)s %(levelname)s %(message)s"))
    ours = logging.getLogger("prime_lab_mcp")
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False
    stream = logging.StreamHandler(sys.stderr)
    stream.setLevel(logging.WARNING)
    stream.setFormatter(EscapingFormatter("prime-lab-mcp: %(message)s"))
    ours.addHandler(stream)
