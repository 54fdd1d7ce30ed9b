"""The memory of the gates: append-only verdicts and what was sent out, in SQLite outside the workspace.

Nothing else is state. What may run next is a pure function of these rows and the files (gates.py), so a restart, a
second client or a second server on the same folder sees the same gates. Verdicts are never updated or deleted
(triggers refuse it); rows about things in flight (jobs, intents) change by whole transactions.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.errors import LedgerError
from prime_lab_mcp.lab.ledger_schema import SCHEMA_VERSION, statements
from prime_lab_mcp.lab.records import Approval, Evidence, IntentState, Job, Push, Run
from prime_lab_mcp.lab.settings import Platform
from prime_lab_mcp.lab.snapshot import Snapshot

_PROCESS = secrets.token_hex(4)
"""Tells this process from an earlier one with the same number (in containers the server always has the same)."""


class Ledger:
    """Opened per process; every method is one transaction and safe between processes."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = path
        self._lock = threading.RLock()
        self._holder = f"{os.getpid()}-{_PROCESS}-{secrets.token_hex(4)}"
        try:
            self._db = sqlite3.connect(path, timeout=20, isolation_level=None, check_same_thread=False)
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._migrate()
        except sqlite3.Error as error:
            raise LedgerError(
                f"the ledger cannot be opened: {error}",
                fix="Check that the state directory is writable and its disk not full, or name another (--state-dir).",
            ) from error

    def close(self) -> None:
        self._db.close()

    # Evidence

    def record(self, evidence: Evidence) -> int:
        """Append one verdict and return its id."""
        row = {f.name: getattr(evidence, f.name) for f in fields(evidence) if f.name != "id"}
        row["at"] = evidence.at or time.time()
        return self._insert("evidence", row)

    def evidence(
        self,
        workspace: str | None = None,
        *,
        tool: str | None = None,
        environment: str | None = None,
        source: str | None = None,
        content: str | None = None,
        config_sha256: str | None = None,
    ) -> list[Evidence]:
        """Verdicts that match every given field, newest first. No workspace: of all workspaces of this machine."""
        return [
            Evidence(**row)
            for row in self._select(
                "evidence",
                workspace=workspace, tool=tool, environment=environment, source=source,
                content=content, config_sha256=config_sha256,
            )
        ]  # fmt: skip

    def remember(self, workspace: str, snapshot: Snapshot) -> None:
        """Note which files make up a fingerprint, to say later what changed since."""
        self._write(
            "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?)",
            (workspace, snapshot.name, snapshot.content, snapshot.source, snapshot.cli_hash,
             json.dumps(dict(snapshot.files)), time.time()),
        )  # fmt: skip

    def files_of(self, *, source: str | None = None, content: str | None = None) -> dict[str, str]:
        """Path to sha256 for a fingerprint seen before; empty when it never was."""
        key, value = ("source", source) if source else ("content", content)
        row = self._db.execute(
            f"SELECT files FROM snapshots WHERE {key} = ? ORDER BY at DESC LIMIT 1", (value,)
        ).fetchone()
        return dict(json.loads(row["files"])) if row else {}

    def knows_content(self, cli_hash: str) -> bool:
        """True when any workspace of this machine ever held a folder with this CLI hash."""
        row = self._db.execute("SELECT 1 FROM snapshots WHERE cli_hash = ? LIMIT 1", (cli_hash,))
        return row.fetchone() is not None

    # Pushes, runs, spend

    def record_push(self, push: Push) -> None:
        self._insert("pushes", self._row(push))

    def pushes(
        self, *, owner: str | None = None, name: str | None = None, platform: Platform | None = None,
        workspace: str | None = None, environment: str | None = None, source: str | None = None,
    ) -> list[Push]:  # fmt: skip
        """Pushes from any workspace of this machine, newest first."""
        rows = self._select(
            "pushes", owner=owner, name=name, platform=platform, workspace=workspace,
            environment=environment, source=source,
        )  # fmt: skip
        return [Push(**{k: v for k, v in row.items() if k != "id"}) for row in rows]

    def record_run(self, run: Run) -> None:
        row = self._row(run)
        row["data"] = json.dumps(dict(run.data))
        columns = ", ".join(row)
        marks = ", ".join("?" * len(row))
        self._write(f"INSERT OR REPLACE INTO runs ({columns}) VALUES ({marks})", tuple(row.values()))

    def runs(
        self, *, id: str | None = None, platform: Platform | None = None, workspace: str | None = None,
        intent: str | None = None, kind: str | None = None,
    ) -> list[Run]:  # fmt: skip
        rows = self._select("runs", id=id, platform=platform, workspace=workspace, intent=intent, kind=kind)
        return [Run(**row) for row in rows]

    def commit_spend(self, intent: str, amount: float, what: str, platform: Platform) -> None:
        """Count an upper-bound estimate against the cap, once per intent."""
        with self.transaction() as db:
            seen = db.execute("SELECT 1 FROM spend WHERE intent = ? AND platform = ?", (intent, platform)).fetchone()
            if seen is None:
                db.execute(
                    "INSERT INTO spend (at, intent, amount, what, platform) VALUES (?, ?, ?, ?, ?)",
                    (time.time(), intent, amount, what, platform),
                )

    def reserve(self, intent: str, amount: float, what: str, platform: Platform, cap: float | None) -> bool:
        """Count an amount before it is sent, unless that exceeds the cap: of two calls at once only one may fit."""
        with self.transaction():
            if cap is not None and self.spent(platform) + amount > cap + 1e-9:
                return False
            self.commit_spend(intent, amount, what, platform)
            return True

    def unreserve(self, intent: str, platform: Platform) -> None:
        """Nothing was sent after all."""
        self._write("DELETE FROM spend WHERE intent = ? AND platform = ?", (intent, platform))

    def spent(self, platform: Platform) -> float:
        """US dollars committed so far in this state directory."""
        row = self._db.execute("SELECT sum(amount) FROM spend WHERE platform = ?", (platform,))
        return float(row.fetchone()[0] or 0.0)

    # Intents: what goes out at most once

    def claim(self, key: str, kind: str, platform: Platform) -> IntentState:
        """Take the right to send an intent, or learn why not.

        `open` and `mine`: this caller may send now (and must `settle` or `release`). `sent`: somebody sent it and its
        outcome is unknown: look it up, never resend. `done`: here is the result.
        """
        with self.transaction() as db:
            row = db.execute("SELECT * FROM intents WHERE key = ? AND platform = ?", (key, platform)).fetchone()
            if row is None or row["state"] == "open":
                attempt = (row["attempt"] if row else 0) + 1
                db.execute(
                    "INSERT OR REPLACE INTO intents VALUES (?, ?, ?, 'sent', ?, ?, ?, '{}')",
                    (key, platform, kind, time.time(), attempt, self._holder),
                )
                return IntentState("open", attempt, True, {}, time.time(), self._holder)
            return self._intent(row)

    def intent(self, key: str, platform: Platform) -> IntentState | None:
        row = self._db.execute("SELECT * FROM intents WHERE key = ? AND platform = ?", (key, platform)).fetchone()
        return None if row is None else self._intent(row)

    def settle(self, key: str, platform: Platform, result: Mapping[str, Any]) -> None:
        """The outcome of a sent intent is known."""
        self._write(
            "UPDATE intents SET state = 'done', result = ? WHERE key = ? AND platform = ?",
            (json.dumps(dict(result)), key, platform),
        )

    def release(self, key: str, platform: Platform, *, attempt: int | None = None) -> None:
        """The intent certainly did not take effect (refused, or found to be nowhere): it may be sent again.

        With `attempt`, only the claim of that number is freed: another server may have taken a newer one meanwhile.
        """
        self._write(
            "UPDATE intents SET state = 'open' WHERE key = ? AND platform = ? AND attempt = coalesce(?, attempt)"
            " AND (? IS NULL OR state = 'sent')",
            (key, platform, attempt, attempt),
        )

    def over(self, key: str, platform: Platform, attempt: int, *, by: str) -> float:
        """Note that nothing more is sent under a claim whose outcome is unknown; returns since when that is known."""
        with self.transaction() as db:
            where = "WHERE key = ? AND platform = ? AND attempt = ? AND state = 'sent'"
            row = db.execute(f"SELECT result FROM intents {where}", (key, platform, attempt)).fetchone()
            told = json.loads(row["result"]) if row else {}
            if "over" in told:
                return float(told["over"])
            now = time.time()
            note = json.dumps({"over": now, "by": by})
            db.execute(f"UPDATE intents SET result = ? {where}", (note, key, platform, attempt))
            return now

    def alive(self, holder: str) -> bool:
        """True while the server that claimed an intent runs, as far as this machine can see."""
        pid, _, rest = holder.partition("-")
        if rest.startswith(f"{_PROCESS}-"):
            return True
        if not pid.isdigit() or int(pid) == os.getpid():
            return False
        try:
            os.kill(int(pid), 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True

    # Approvals and overrides

    def offer(self, intent: str, question: str, max_cost: float | None, platform: Platform) -> str:
        """A token for exactly this intent at this price."""
        token = secrets.token_urlsafe(9)
        self._write(
            "INSERT INTO approvals VALUES (?, ?, ?, ?, ?, ?, NULL)",
            (token, time.time(), intent, question, max_cost, platform),
        )
        return token

    def approval(self, token: str) -> Approval | None:
        row = self._db.execute("SELECT * FROM approvals WHERE token = ?", (token,)).fetchone()
        return Approval(**dict(row)) if row else None

    def approve(self, token: str) -> None:
        """A person said yes in a terminal."""
        self._write("UPDATE approvals SET approved_at = ? WHERE token = ?", (time.time(), token))

    def override(self, workspace: str, environment: str, fingerprint: str, code: str, reason: str) -> None:
        """A person waived one blocker code for one fingerprint."""
        self._write(
            "INSERT INTO overrides (at, workspace, environment, fingerprint, code, reason) VALUES (?, ?, ?, ?, ?, ?)",
            (time.time(), workspace, environment, fingerprint, code, reason),
        )

    def overrides(self, workspace: str) -> set[tuple[str, str]]:
        """(fingerprint, code) pairs that a person waived."""
        rows = self._db.execute("SELECT fingerprint, code FROM overrides WHERE workspace = ?", (workspace,))
        return {(row["fingerprint"], row["code"]) for row in rows}

    # Jobs

    def create_job(self, job: Job) -> Job:
        """Insert a job, or return the live one with the same intent (attach)."""
        with self.transaction() as db:
            row = db.execute(
                "SELECT * FROM jobs WHERE intent = ? AND workspace = ? AND state IN ('starting', 'running')"
                " AND lease > ? ORDER BY at DESC LIMIT 1",
                (job.intent, job.workspace, time.time()),
            ).fetchone()
            if row is not None:
                return self._job(row)
            values = self._row(job) | {
                "at": job.at or time.time(), "spec": json.dumps(dict(job.spec)),
                "progress": json.dumps(dict(job.progress)), "judged": int(job.judged),
            }  # fmt: skip
            columns, marks = ", ".join(values), ", ".join("?" * len(values))
            db.execute(f"INSERT INTO jobs ({columns}) VALUES ({marks})", tuple(values.values()))
            return job

    def update_job(self, id: str, **changes: Any) -> None:
        """Change columns of a job; mappings are stored as JSON."""
        values = {k: json.dumps(dict(v)) if isinstance(v, Mapping) else v for k, v in changes.items()}
        assignments = ", ".join(f"{k} = ?" for k in values)
        self._write(f"UPDATE jobs SET {assignments} WHERE id = ?", (*values.values(), id))

    def judge(self, id: str, verdicts: Sequence[Evidence]) -> list[int]:
        """Record what a job proved, for exactly one caller and in one step: marked as judged only with its verdicts."""
        with self.transaction() as db:
            if db.execute("UPDATE jobs SET judged = 1 WHERE id = ? AND judged = 0", (id,)).rowcount != 1:
                return []
            return [self.record(verdict) for verdict in verdicts]

    def job(self, id: str) -> Job | None:
        row = self._db.execute("SELECT * FROM jobs WHERE id = ?", (id,)).fetchone()
        return self._job(row) if row else None

    def jobs(
        self, workspace: str | None = None, *, environment: str | None = None,
        source: str | None = None, state: str | None = None,
    ) -> list[Job]:  # fmt: skip
        """Newest first."""
        clauses, values = self._where(workspace=workspace, environment=environment, source=source, state=state)
        rows = self._db.execute(f"SELECT * FROM jobs{clauses} ORDER BY at DESC, rowid DESC", values)
        return [self._job(row) for row in rows]

    def unjudged(self, workspace: str) -> bool:
        """True when a finished job still has to be judged."""
        row = self._db.execute(
            "SELECT 1 FROM jobs WHERE workspace = ? AND state = 'finished' AND judged = 0 LIMIT 1", (workspace,)
        )
        return row.fetchone() is not None

    # Calls

    def note_call(self, workspace: str, tool: str, status: str, seconds: float, summary: str) -> None:
        self._write(
            "INSERT INTO calls (at, workspace, tool, status, seconds, summary) VALUES (?, ?, ?, ?, ?, ?)",
            (time.time(), workspace, tool, status, seconds, summary),
        )

    # Plumbing

    def _intent(self, row: sqlite3.Row) -> IntentState:
        mine = row["holder"] == self._holder
        return IntentState(row["state"], row["attempt"], mine, json.loads(row["result"]), row["at"], row["holder"])

    @staticmethod
    def _job(row: sqlite3.Row) -> Job:
        values = dict(row)
        values["spec"] = json.loads(values["spec"])
        values["progress"] = json.loads(values["progress"])
        values["judged"] = bool(values["judged"])
        return Job(**values)

    @staticmethod
    def _row(item: Any) -> dict[str, Any]:
        row = {f.name: getattr(item, f.name) for f in fields(item)}
        if "at" in row and not row["at"]:
            row["at"] = time.time()
        return row

    def _migrate(self) -> None:
        with self.transaction() as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version == SCHEMA_VERSION:
                return
            if version > SCHEMA_VERSION:
                raise LedgerError(
                    f"the ledger was written by a newer prime-lab-mcp (schema {version})",
                    fix="Upgrade prime-lab-mcp, or name another state directory with --state-dir.",
                )
            for statement in statements():
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One step that happens whole or not at all; inside another one, a part of that."""
        with self._lock:
            if self._db.in_transaction:
                yield self._db
                return
            yield from self._outermost()

    def _outermost(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise LedgerError(
                f"the ledger could not be written: {error}",
                fix="Check that the state directory is writable and its disk not full, then call again.",
            ) from error

    def _write(self, statement: str, values: Sequence[Any]) -> int:
        with self.transaction() as db:
            return db.execute(statement, tuple(values)).lastrowid or 0

    def _insert(self, table: str, row: Mapping[str, Any]) -> int:
        values = {k: json.dumps(v, default=str) if isinstance(v, Mapping | list | tuple) else v for k, v in row.items()}
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        return self._write(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(values.values()))

    @staticmethod
    def _where(**wanted: Any) -> tuple[str, tuple[Any, ...]]:
        given = {k: v for k, v in wanted.items() if v is not None}
        clauses = " AND ".join(f"{k} = ?" for k in given)
        return (f" WHERE {clauses}" if clauses else "", tuple(given.values()))

    def _select(self, table: str, **wanted: Any) -> list[dict[str, Any]]:
        clauses, values = self._where(**wanted)
        rows = self._db.execute(f"SELECT * FROM {table}{clauses} ORDER BY at DESC, rowid DESC", values)
        json_columns = ("arguments", "sampling", "env_args", "toolchain", "findings", "data")
        return [
            {k: json.loads(v) if k in json_columns and isinstance(v, str) else v for k, v in dict(r).items()}
            for r in rows
        ]
