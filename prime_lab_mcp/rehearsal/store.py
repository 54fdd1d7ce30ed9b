"""The state of the rehearsal platform: one SQLite file and a folder of uploads.

Each HTTP request is one transaction. Several platform processes on the same folder therefore agree, and a killed
process leaves a request either complete or without effect.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

Body = dict[str, Any]
Kind = Literal[
    "account", "environment", "version", "upload", "evaluation", "sample", "run", "answer", "fault", "pod", "model"
]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (
  kind TEXT NOT NULL, id TEXT NOT NULL, parent TEXT NOT NULL DEFAULT '', created REAL NOT NULL,
  body TEXT NOT NULL, PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS documents_parent ON documents (kind, parent);
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS requests (
  id INTEGER PRIMARY KEY, at REAL NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
  status INTEGER NOT NULL, fault TEXT
);
"""
_BUSY_SECONDS = 15.0
_MOST_REQUESTS = 20_000
_SKEW = "clock-skew"
_HELD = "clock-held"


def new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(6)}"


class Session:
    """Access to the state during one request. Valid only inside `Store.session`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def now(self) -> float:
        """Seconds since the epoch on the rehearsal's clock, which an admin route can hold and move forward."""
        return self.value(_HELD) or time.time() + self.value(_SKEW)

    def advance_clock(self, seconds: float) -> float:
        self.add(_HELD if self.value(_HELD) else _SKEW, seconds)
        return self.now()

    def hold_clock(self, hold: bool) -> None:
        """Hold the clock at the present time, or let the clock run on from the time at which it is held."""
        held = self.value(_HELD)
        if hold and not held:
            self.add(_HELD, self.now())
        elif held and not hold:
            self.add(_HELD, -held)
            self.add(_SKEW, held - self.now())

    def get(self, kind: Kind, id: str) -> Body | None:
        row = self._db.execute("SELECT body FROM documents WHERE kind = ? AND id = ?", (kind, id)).fetchone()
        return None if row is None else _load(row[0])

    def put(self, kind: Kind, id: str, body: Body, *, parent: str = "") -> None:
        self._db.execute(
            "INSERT INTO documents (kind, id, parent, created, body) VALUES (?, ?, ?, ?, ?) "
            "ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body, parent = excluded.parent",
            (kind, id, parent, self.now(), json.dumps(body)),
        )

    def all(self, kind: Kind, parent: str | None = None) -> list[Body]:
        """All documents of a kind, oldest first."""
        where, parameters = "kind = ?", [str(kind)]
        if parent is not None:
            where, parameters = "kind = ? AND parent = ?", [str(kind), parent]
        rows = self._db.execute(f"SELECT body FROM documents WHERE {where} ORDER BY created, id", parameters)
        return [_load(row[0]) for row in rows]

    def count(self, kind: Kind) -> int:
        row = self._db.execute("SELECT count(*) FROM documents WHERE kind = ?", (kind,)).fetchone()
        return int(row[0])

    def remove(self, kind: Kind, id: str | None = None) -> int:
        """Remove one document, or without `id` all documents of a kind, and return the number of removed ones."""
        if id is None:
            return self._db.execute("DELETE FROM documents WHERE kind = ?", (kind,)).rowcount
        return self._db.execute("DELETE FROM documents WHERE kind = ? AND id = ?", (kind, id)).rowcount

    def value(self, name: str) -> float:
        row = self._db.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()
        return 0.0 if row is None else float(row[0])

    def add(self, name: str, amount: float = 1.0) -> float:
        """Add to a counter and return its previous value."""
        row = self._db.execute(
            "INSERT INTO counters (name, value) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET value = value + excluded.value RETURNING value",
            (name, amount),
        ).fetchone()
        return float(row[0]) - amount

    def note_request(self, method: str, path: str, status: int, fault: str | None) -> None:
        self._db.execute(
            "INSERT INTO requests (at, method, path, status, fault) VALUES (?, ?, ?, ?, ?)",
            (self.now(), method, path, status, fault),
        )
        self._db.execute("DELETE FROM requests WHERE id <= (SELECT max(id) FROM requests) - ?", (_MOST_REQUESTS,))

    def requests(self, contains: str = "") -> list[Body]:
        rows = self._db.execute(
            "SELECT at, method, path, status, fault FROM requests WHERE instr(path, ?) ORDER BY id",
            (contains,),
        )
        return [
            {"at": at, "method": method, "path": path, "status": status, "fault": fault}
            for at, method, path, status, fault in rows
        ]


class Store:
    """The state folder. `speed` is how many rehearsal seconds pass for runs and evaluations in one second."""

    def __init__(self, folder: Path, *, speed: float = 1.0) -> None:
        self.folder = folder
        self.speed = speed
        self._blobs = folder / "uploads"
        self._blobs.mkdir(parents=True, exist_ok=True)
        self._file = folder / "platform.sqlite3"
        with self._connect() as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(_SCHEMA)

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._file, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            yield connection
        finally:
            connection.close()

    @contextmanager
    def session(self, *, writes: bool = True) -> Iterator[Session]:
        """One transaction, which is rolled back if the block raises."""
        with self._connect() as connection:
            connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            try:
                yield Session(connection)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def keep_blob(self, content: bytes) -> str:
        """Store bytes atomically under their sha256, and return the sha256."""
        digest = hashlib.sha256(content).hexdigest()
        target = self._blobs / digest
        if not target.exists():
            partial = self._blobs / f"{digest}.{os.getpid()}.{secrets.token_hex(4)}.partial"
            partial.write_bytes(content)
            partial.replace(target)
        return digest

    def blob(self, digest: str) -> bytes | None:
        target = self._blobs / Path(digest).name
        return target.read_bytes() if target.is_file() else None


def _load(text: str) -> Body:
    body: Body = json.loads(text)
    return body
