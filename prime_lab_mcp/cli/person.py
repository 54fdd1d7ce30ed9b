"""Commands for people only: approve a pending question, waive one blocker code."""

from __future__ import annotations

import hashlib
import sys
import time

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.text import escape, escape_lines
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.snapshot import take_snapshot
from prime_lab_mcp.lab.state.workspace import Workspace


def approve(settings: Settings, token: str, *, assume_yes: bool) -> int:
    """Show the question behind a token and record the person's yes."""
    ledger = Ledger(settings.ledger)
    waiting = ledger.approval(token)
    if waiting is None:
        raise BadInput(
            "there is no pending question with this token in this state directory",
            fix="Give the token of the report, and the same --state-dir as the server's.",
        )
    print(escape_lines(waiting.question))
    if not assume_yes:
        if not sys.stdin.isatty():
            raise BadInput("this is no terminal to answer in", fix="Run it in a terminal, or add --yes.")
        if input("Approve? [y/N] ").strip().lower() not in ("y", "yes"):
            print("Not approved.")
            return 1
    ledger.approve(token)
    print("Approved. The agent can now pass the token back as confirm.")
    return 0


def override(settings: Settings, environment: str, code: str, reason: str) -> int:
    """Waive one blocker code of the newest verdicts about the current files, until the files change.

    `environment` may also be the path of a training config. Never-run and stale cannot be waived.
    """
    ledger = Ledger(settings.ledger)
    workspace = Workspace(settings.workspace.resolve())
    key = str(workspace.root)
    if len(reason.strip()) < 8:
        raise BadInput("the reason is too short to be read later", fix="Say why this is right in a sentence.")
    if environment.endswith(".toml"):
        path = workspace.resolve(environment, must_exist=True)
        prints = {hashlib.sha256(path.read_bytes()).hexdigest()}
        name = path.name
    else:
        snapshot = take_snapshot(workspace.environment(environment), settings.snapshots)
        prints = {snapshot.source, snapshot.content}
        name = snapshot.name
    rows = [r for r in ledger.evidence(key) if prints & {r.source, r.content, r.config_sha256} and code in r.blockers]
    if not rows:
        raise BadInput(
            f"no verdict about the present files of {name} names the blocker {code}",
            fix="Only a blocker that was found on exactly these files can be waived.",
            code="nothing-to-override",
        )
    newest = rows[0]
    for fingerprint in prints & {newest.source, newest.content, newest.config_sha256}:
        ledger.override(key, name, str(fingerprint), code, reason)
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime())
    print(escape(f"{when}: {code} is waived for {name} until its files change. Recorded: {reason}"))
    return 0
