"""The database file of the ledger: its tables, opening and migrating the file, and transactions.

A change of the schema needs a new SCHEMA_VERSION and an entry in MIGRATIONS.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import DISK_FULL, LedgerError

log = logging.getLogger("prime_lab_mcp")

SCHEMA_VERSION = 3
_SCHEMA = """
CREATE TABLE evidence (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, workspace TEXT NOT NULL, tool TEXT NOT NULL,
  environment TEXT, source TEXT, content TEXT, config_sha256 TEXT, arguments TEXT NOT NULL,
  status TEXT NOT NULL, platform TEXT, model TEXT, endpoint_host TEXT, sampling TEXT NOT NULL,
  harness TEXT, runtime TEXT, env_args TEXT NOT NULL, toolchain TEXT NOT NULL,
  findings TEXT NOT NULL, data TEXT NOT NULL, results_sha256 TEXT);
CREATE INDEX evidence_by_subject ON evidence (workspace, tool, source);
CREATE TRIGGER evidence_is_final BEFORE UPDATE ON evidence BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER evidence_stays BEFORE DELETE ON evidence BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TABLE snapshots (
  workspace TEXT NOT NULL, environment TEXT NOT NULL, content TEXT NOT NULL, source TEXT NOT NULL,
  cli_hash TEXT NOT NULL, files TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (workspace, environment, content));
CREATE TABLE pushes (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, workspace TEXT NOT NULL, environment TEXT NOT NULL,
  owner TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL, source TEXT NOT NULL,
  content TEXT NOT NULL, cli_hash TEXT NOT NULL, hub_hash TEXT, api TEXT, verified TEXT NOT NULL,
  platform TEXT NOT NULL);
CREATE TABLE runs (
  id TEXT NOT NULL, at REAL NOT NULL, workspace TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
  intent TEXT NOT NULL, config_path TEXT, config_sha256 TEXT, price_per_hour REAL, max_cost REAL,
  platform TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (id, platform));
CREATE TABLE intents (
  key TEXT NOT NULL, platform TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, at REAL NOT NULL,
  attempt INTEGER NOT NULL, holder TEXT, result TEXT NOT NULL, PRIMARY KEY (key, platform));
CREATE TABLE approvals (
  token TEXT PRIMARY KEY, at REAL NOT NULL, intent TEXT NOT NULL, question TEXT NOT NULL, max_cost REAL,
  platform TEXT NOT NULL, approved_at REAL);
CREATE TABLE overrides (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, workspace TEXT NOT NULL, environment TEXT NOT NULL,
  fingerprint TEXT NOT NULL, code TEXT NOT NULL, reason TEXT NOT NULL);
CREATE TABLE spend (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, intent TEXT NOT NULL, amount REAL NOT NULL, what TEXT NOT NULL,
  platform TEXT NOT NULL, asked INTEGER, bound REAL, actual REAL, workspace TEXT, environment TEXT);
CREATE TABLE jobs (
  id TEXT PRIMARY KEY, at REAL NOT NULL, workspace TEXT NOT NULL, environment TEXT NOT NULL, source TEXT NOT NULL,
  content TEXT NOT NULL, intent TEXT NOT NULL, state TEXT NOT NULL, pid INTEGER, lease REAL NOT NULL,
  deadline REAL NOT NULL, platform TEXT, spec TEXT NOT NULL, progress TEXT NOT NULL, judged INTEGER NOT NULL);
CREATE TABLE calls (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, workspace TEXT NOT NULL, tool TEXT NOT NULL, status TEXT NOT NULL,
  seconds REAL NOT NULL, summary TEXT NOT NULL);
"""


INDEXES = {
    "evidence_by_source": "evidence (tool, source, workspace)",
    "evidence_by_content": "evidence (tool, content, workspace, environment)",
    "evidence_by_config": "evidence (tool, config_sha256, workspace)",
    "evidence_by_environment": "evidence (tool, environment, workspace)",
    "evidence_of_source": "evidence (source, workspace)",
    "snapshots_by_source": "snapshots (source)",
    "snapshots_by_content": "snapshots (content)",
    "snapshots_by_cli_hash": "snapshots (cli_hash)",
    "pushes_by_name": "pushes (owner, name)",
    "pushes_by_source": "pushes (source)",
    "jobs_by_state": "jobs (workspace, state, judged)",
    "jobs_by_environment": "jobs (workspace, environment)",
    "runs_by_kind": "runs (kind, name)",
    "runs_by_workspace": "runs (workspace)",
}
"""Indexes for the queries of every call. Opening a ledger creates them; they are not part of the schema version."""

MIGRATIONS = {
    1: ("ALTER TABLE spend ADD COLUMN asked INTEGER",),
    2: tuple(
        f"ALTER TABLE spend ADD COLUMN {column}"
        for column in ("bound REAL", "actual REAL", "workspace TEXT", "environment TEXT")
    ),
}
"""Statements by schema version. They migrate a ledger from that version to the next."""


def schema_statements() -> list[str]:
    """Split the schema into statements. sqlite finds the ends, because triggers contain semicolons."""
    statements, current = [], ""
    for line in _SCHEMA.splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current) and current.strip():
            statements.append(current)
            current = ""
    return statements


_JSON_COLUMNS = frozenset({"arguments", "sampling", "env_args", "toolchain", "findings", "data"})


class LedgerDatabase:
    """One connection to the database file. Every transaction is safe between threads and processes."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        """With `create=False`, a missing file is an error, and a file that is deleted in use is not written back."""
        self._path = path
        self._create = create
        self._lock = threading.RLock()
        self._open()

    def _open(self) -> None:
        try:
            if self._create:
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _require_not_emptied(self._path)
            if self._create:
                _keep_private(self._path)
            name = f"{self._path.absolute().as_uri()}?mode={'rwc' if self._create else 'rw'}"
            self._db = sqlite3.connect(name, timeout=20, isolation_level=None, check_same_thread=False, uri=True)
            self._db.row_factory = sqlite3.Row
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._file = _identity(self._path)
            self._migrate()
        except (sqlite3.Error, OSError) as error:
            raise ledger_error(error, self._path, "opened") from error

    def refuse_writes(self) -> None:
        """Make SQLite refuse every later write through this connection, for readers such as the dashboard."""
        self._db.execute("PRAGMA query_only = ON")

    def close(self) -> None:
        self._db.close()

    def _forget_rows(self) -> None:
        """Drop cached rows, because another file may have replaced the database."""

    def _migrate(self) -> None:
        with self.transaction() as db:
            version = db.execute("PRAGMA user_version").fetchone()[0]
            if version > SCHEMA_VERSION:
                raise LedgerError(
                    f"the ledger was written by a newer prime-lab-mcp (schema {version})",
                    fix="Upgrade prime-lab-mcp, or name another state directory with --state-dir.",
                )
            if version < SCHEMA_VERSION:
                self._bring_to_schema(db, version)
            for name, columns in INDEXES.items():
                db.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {columns}")

    @staticmethod
    def _bring_to_schema(db: sqlite3.Connection, version: int) -> None:
        migrations = [statement for v in range(version, SCHEMA_VERSION) for statement in MIGRATIONS.get(v, ())]
        for statement in migrations if version else schema_statements():
            db.execute(statement)
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in a transaction. Inside another transaction, the block becomes part of the outer one."""
        with self._lock:
            if self._db.in_transaction:
                yield self._db
                return
            yield from self._outermost()

    def _outermost(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            while _identity(self._path) != self._file:
                self._restore()
                self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has rolled back already
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
        except (sqlite3.Error, OSError) as error:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise ledger_error(error, self._path, "written") from error

    def _restore(self) -> None:
        """Write the deleted ledger file back, unless another server did, and continue with the file that exists then.

        The open connection still holds every row. Without the rows of sent requests, those requests would be sent
        again. The transaction that is open here keeps other servers from writing into the deleted file.
        """
        log.warning("the ledger %s was deleted or replaced while in use", self._path)
        if not self._create:
            raise FileNotFoundError(errno.ENOENT, "the file was deleted or replaced", str(self._path))
        deleted = self._db
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        copy = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        try:
            if not self._path.exists():
                with open(copy, "xb", opener=_private_opener) as file:
                    file.write(deleted.serialize())
                    os.fsync(file.fileno())
                with suppress(FileExistsError):
                    os.link(copy, self._path)
        finally:
            copy.unlink(missing_ok=True)
            deleted.execute("ROLLBACK")
        self._forget_rows()
        self._open()  # the former connection stays open for threads that read from it

    def _write_soon(self, statement: str, parameters: Sequence[Any]) -> None:
        """Write without waiting for the disk. Only a failure of the whole machine can lose such a row.

        The next other write also puts this row on the disk. Waiting for a slow disk would hold up every client.
        """
        with self._lock:
            waits = not self._db.in_transaction  # SQLite changes this only outside of transactions
            if waits:
                self._db.execute("PRAGMA synchronous=NORMAL")
            try:
                self._write(statement, parameters)
            finally:
                if waits:
                    self._db.execute("PRAGMA synchronous=FULL")

    def _write(self, statement: str, parameters: Sequence[Any]) -> int:
        with self.transaction() as db:
            return db.execute(statement, tuple(parameters)).lastrowid or 0

    def _insert(self, table: str, row: Mapping[str, Any]) -> int:
        encoded = {
            k: json.dumps(v, default=str) if isinstance(v, Mapping | list | tuple) else v for k, v in row.items()
        }
        columns, marks = ", ".join(encoded), ", ".join("?" * len(encoded))
        return self._write(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(encoded.values()))

    @staticmethod
    def _where(**fields: Any) -> tuple[str, tuple[Any, ...]]:
        present = {k: v for k, v in fields.items() if v is not None}
        clauses = " AND ".join(f"{k} = ?" for k in present)
        return (f" WHERE {clauses}" if clauses else "", tuple(present.values()))

    def _select(self, table: str, columns: str = "*", limit: int | None = None, **fields: Any) -> list[dict[str, Any]]:
        clauses, parameters = self._where(**fields)
        most = -1 if limit is None else limit
        rows = self._db.execute(
            f"SELECT {columns} FROM {table}{clauses} ORDER BY rowid DESC LIMIT ?", (*parameters, most)
        )
        return [decoded_row(row) for row in rows]


def ledger_error(error: sqlite3.Error | OSError, path: Path, action: str = "read") -> LedgerError:
    """Convert an SQLite or file error to a LedgerError that states the cause and the fix."""
    number, what = getattr(error, "sqlite_errorcode", 0) & 0xFF, f"the ledger cannot be {action}"
    if number == sqlite3.SQLITE_FULL or (isinstance(error, OSError) and error.errno in DISK_FULL):
        fix = f"Free some space where {path.parent} is, then call again."
        return LedgerError(f"{what}: the disk is full", fix=fix, code="disk-full")
    if number in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        fix = (
            f"Ask the user to put back a copy of {path}, or to move it away: then everything has to be proven again, "
            "and what was sent before is not known. Another --state-dir leaves the file as it is."
        )
        return LedgerError(f"{what}: the file is damaged", fix=fix, code="ledger-damaged")
    if number == sqlite3.SQLITE_BUSY:
        fix = f"Call again; if it repeats, end other prime-lab-mcp processes that use {path.parent}."
        return LedgerError(f"{what}: another process holds it", fix=fix)
    return LedgerError(f"{what}: {error}", fix=f"Check that {path.parent} is writable, then call again.")


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file at a path; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _keep_private(path: Path) -> None:
    """Create the database file for its owner alone, and take it from others where an older version shared it.

    SQLite gives the files beside a database the mode of the database.
    """
    with suppress(FileExistsError):  # To close an existing file would drop the locks that SQLite holds on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    for file in (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")):
        with suppress(FileNotFoundError, PermissionError):
            if file.stat().st_mode & 0o077:
                file.chmod(0o600)


def _private_opener(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _require_not_emptied(path: Path) -> None:
    """Raise if the file is empty although the state directory shows that verdicts were recorded.

    A server that starts at the same moment creates the file and fills it within a second.
    """
    used = any((path.parent / name).is_dir() for name in ("snapshots", "evals"))
    for _ in range(10):
        if not used or not path.exists() or path.stat().st_size or path.with_name(f"{path.name}-wal").exists():
            return
        time.sleep(0.1)
    error = sqlite3.DatabaseError("the file is empty")
    error.sqlite_errorcode = sqlite3.SQLITE_NOTADB
    raise error


def decoded_row(row: sqlite3.Row) -> dict[str, Any]:
    """Convert a row to a dictionary, with its JSON columns parsed."""
    return {k: json.loads(v) if k in _JSON_COLUMNS and isinstance(v, str) else v for k, v in dict(row).items()}
