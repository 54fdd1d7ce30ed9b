"""The ledger: an SQLite database outside the workspace with verdicts, intents, jobs, pushes, runs and spend.

There is no other state. The gates are a pure function of these rows and the files (gates.py), so a restart, a second
client or a second server on the same folder sees the same gates. Row ids give the order of events; `at` does not,
because clocks can be set back. Triggers refuse to update or delete a verdict. Rows about work in progress (jobs,
intents) change in whole transactions.
"""

from __future__ import annotations

import json
import logging
import secrets
import sqlite3
import string
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.process import new_holder
from prime_lab_mcp.lab.base.settings import Platform
from prime_lab_mcp.lab.state.ledger.database import LedgerDatabase, decoded_row, ledger_error
from prime_lab_mcp.lab.state.ledger.rows import (
    LATE_COLUMNS,
    Approval,
    Evidence,
    IntentState,
    Job,
    JobFolder,
    Push,
    Run,
    SpendRow,
    StoredEvidence,
)
from prime_lab_mcp.lab.state.snapshot import Snapshot

log = logging.getLogger("prime_lab_mcp")


class Ledger(LedgerDatabase):
    """The rows of the ledger. Every method is one transaction and safe between threads and processes."""

    def __init__(
        self,
        path: Path,
        *,
        holder: str | None = None,
        now: Callable[[], float] = time.time,
        create: bool = True,
    ) -> None:
        """`holder` names the process in the claims that it takes; `now` returns seconds since the epoch.

        With `create=False`, a missing file is an error, and a file that is deleted in use is not written back.
        """
        self._holder = holder or new_holder()
        self.now = now
        self._classes: dict[tuple[str, ...], tuple[int, dict[tuple[Any, ...], int]]] = {}
        """Cache of `decisive`: for each query, the id of the last verdict read, and the newest id of each class."""
        super().__init__(path, create=create)

    # Evidence

    def record(self, evidence: Evidence) -> int:
        """Append one verdict and return its id."""
        row = {f.name: getattr(evidence, f.name) for f in fields(evidence) if f.name != "id"}
        row["at"] = evidence.at or self.now()
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
        limit: int | None = None,
    ) -> list[Evidence]:
        """Verdicts that match every given field, newest first. Without `workspace`, those of all workspaces."""
        return [
            StoredEvidence.from_row(row, self._late_column)
            for row in self._select(
                "evidence",
                _PROMPT_COLUMNS,
                workspace=workspace,
                tool=tool,
                environment=environment,
                source=source,
                content=content,
                config_sha256=config_sha256,
                limit=limit,
            )
        ]

    def newest_with(
        self, workspace: str, tool: str, key: str, *, platform: Platform, config_sha256: str | None = None
    ) -> Evidence | None:
        """The newest verdict of a tool on a platform whose data has a key; None without one."""
        clauses, parameters = self._where(
            workspace=workspace, tool=tool, platform=platform, config_sha256=config_sha256
        )
        row = self._db.execute(
            f"SELECT {_PROMPT_COLUMNS} FROM evidence{clauses} AND json_type(data, ?) IS NOT NULL"
            " ORDER BY id DESC LIMIT 1",
            (*parameters, f'$."{key}"'),
        ).fetchone()
        return StoredEvidence.from_row(decoded_row(row), self._late_column) if row is not None else None

    def decisive(
        self, workspace: str, tool: str, *, of_evaluations: bool = False, **fingerprint: str
    ) -> list[Evidence]:
        """The newest verdict of each class among those that match, newest first.

        `fingerprint` is `source`, `content` or `config_sha256`. Two verdicts are of the same class if no gate can tell
        them apart: they share arguments and platform, and verdicts on evaluations also model, harness, status, blockers
        and group size.
        """
        key = (workspace, tool, *next(iter(fingerprint.items())))
        with self._lock:
            last, classes = self._classes.pop(key, (0, {}))
            clauses, parameters = self._where(workspace=workspace, tool=tool, **fingerprint)
            columns = "id, env_args, platform" + (", model, harness, status, findings, data" if of_evaluations else "")
            newer = self._db.execute(
                f"SELECT {columns} FROM evidence{clauses} AND id > ? ORDER BY id", (*parameters, last)
            )
            for row in newer:
                last = row["id"]
                classes[_class(row)] = last
            self._classes[key] = (last, classes)
            while len(self._classes) > _MOST_CLASSES:
                del self._classes[next(iter(self._classes))]
        query = f"SELECT {_PROMPT_COLUMNS} FROM evidence WHERE id = ?"
        rows = [decoded_row(self._db.execute(query, (id,)).fetchone()) for id in sorted(classes.values(), reverse=True)]
        return [StoredEvidence.from_row(row, self._late_column) for row in rows]

    def _late_column(self, id: int, column: str) -> Any:
        row = self._db.execute(f"SELECT {column} FROM evidence WHERE id = ?", (id,)).fetchone()
        if row is None:  # the file was replaced while it was open
            raise ledger_error(sqlite3.DatabaseError(f"it has no verdict {id}"), self._path)
        return json.loads(row[column])

    def version(self) -> tuple[int, int]:
        """A value that changes with every verdict and every override."""
        row = self._db.execute(
            "SELECT (SELECT coalesce(max(id), 0) FROM evidence), (SELECT coalesce(max(id), 0) FROM overrides)"
        ).fetchone()
        return int(row[0]), int(row[1])

    def remember(self, workspace: str, snapshot: Snapshot) -> None:
        """Record the files of a snapshot, so that a later report can name the files that changed."""
        recorded = self._db.execute(
            "SELECT 1 FROM snapshots WHERE workspace = ? AND environment = ? AND content = ? AND source = ?",
            (workspace, snapshot.name, snapshot.content, snapshot.source),
        ).fetchone()
        if recorded is not None:
            return
        self._write(
            "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                workspace,
                snapshot.name,
                snapshot.content,
                snapshot.source,
                snapshot.cli_hash,
                json.dumps(dict(snapshot.files)),
                time.time(),
            ),
        )

    def files_of(self, *, source: str | None = None, content: str | None = None) -> dict[str, str]:
        """sha256 of each file by path for a recorded fingerprint; empty for an unknown one."""
        key, value = ("source", source) if source else ("content", content)
        row = self._db.execute(
            f"SELECT files FROM snapshots WHERE {key} = ? ORDER BY rowid DESC LIMIT 1", (value,)
        ).fetchone()
        return dict(json.loads(row["files"])) if row else {}

    def knows_files(
        self, *, source: str | None = None, content: str | None = None, cli_hash: str | None = None
    ) -> bool:
        """True if a snapshot with one of these fingerprints was ever recorded, in any workspace."""
        row = self._db.execute(
            "SELECT 1 FROM snapshots WHERE source = ? OR content = ? OR cli_hash = ? LIMIT 1",
            (source, content, cli_hash),
        )
        return row.fetchone() is not None

    # Pushes, runs, spend

    def record_push(self, push: Push) -> None:
        self._insert("pushes", self._row(push))

    def pushes(
        self,
        *,
        owner: str | None = None,
        name: str | None = None,
        platform: Platform | None = None,
        workspace: str | None = None,
        environment: str | None = None,
        source: str | None = None,
    ) -> list[Push]:
        """Pushes that match every given field, newest first, from all workspaces."""
        rows = self._select(
            "pushes",
            owner=owner,
            name=name,
            platform=platform,
            workspace=workspace,
            environment=environment,
            source=source,
        )
        return [Push(**{k: v for k, v in row.items() if k != "id"}) for row in rows]

    def record_run(self, run: Run) -> None:
        """Insert a run, or update the row of a run that is already recorded."""
        row = self._row(run)
        row["data"] = json.dumps(dict(run.data))
        columns = ", ".join(row)
        marks = ", ".join("?" * len(row))
        changes = ", ".join(f"{column} = excluded.{column}" for column in row if column not in ("id", "platform"))
        self._write(
            f"INSERT INTO runs ({columns}) VALUES ({marks}) ON CONFLICT (id, platform) DO UPDATE SET {changes}",
            tuple(row.values()),
        )

    def runs(
        self,
        *,
        id: str | None = None,
        platform: Platform | None = None,
        workspace: str | None = None,
        intent: str | None = None,
        kind: str | None = None,
        limit: int | None = None,
    ) -> list[Run]:
        rows = self._select(
            "runs", id=id, platform=platform, workspace=workspace, intent=intent, kind=kind, limit=limit
        )
        return [Run(**row) for row in rows]

    def training_names(self) -> frozenset[str]:
        """The names of all training runs."""
        rows = self._db.execute("SELECT DISTINCT name FROM runs WHERE kind = 'training'")
        return frozenset(row["name"] for row in rows)

    def commit_spend(self, intent: str, amount: float | None, what: str, platform: Platform) -> None:
        """Count an upper bound in US dollars against the cap, once per intent. None means that no bound is known."""
        with self.transaction() as db:
            counted = db.execute("SELECT 1 FROM spend WHERE intent = ? AND platform = ?", (intent, platform)).fetchone()
            if counted is None:
                db.execute(
                    "INSERT INTO spend (at, intent, amount, what, platform, bound) VALUES (?, ?, ?, ?, ?, ?)",
                    (self.now(), intent, amount or 0.0, what, platform, amount),
                )

    def reserve(
        self,
        intent: str,
        amount: float | None,
        what: str,
        platform: Platform,
        cap: float | None,
        *,
        asked: bool | None = None,
        workspace: str | None = None,
        environment: str | None = None,
    ) -> bool:
        """Count an amount before sending. Returns False, and counts nothing, if the total would exceed the cap.

        The check and the count are one transaction, so two simultaneous calls cannot exceed the cap together. An amount
        that an earlier attempt of the intent reserved is not counted twice; the larger one stays.

        `amount` is in US dollars. None means that the price is unknown: the row counts as 0 and has no bound. `asked`
        states for an evaluation whether a person was asked; `unasked` sums the others. `workspace` and `environment`
        record the purpose of the money if no run or job of the intent does.
        """
        with self.transaction() as db:
            row = db.execute(
                "SELECT amount FROM spend WHERE intent = ? AND platform = ?", (intent, platform)
            ).fetchone()
            counted = float(row["amount"]) if row else 0.0
            bound = max(amount or 0.0, counted)
            if cap is not None and self.spent(platform) - counted + bound > cap + 1e-9:
                return False
            # A new row, because the order of the rows says which evaluation came after which (`unasked`).
            row = db.execute("SELECT max(id) AS last FROM spend").fetchone()
            db.execute("DELETE FROM spend WHERE intent = ? AND platform = ?", (intent, platform))
            db.execute(
                "INSERT INTO spend (id, at, intent, amount, what, platform, asked, bound, workspace, environment)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    (row["last"] or 0) + 1,
                    self.now(),
                    intent,
                    bound,
                    what,
                    platform,
                    asked,
                    bound if amount is not None or counted else None,
                    workspace,
                    environment,
                ),
            )
            return True

    def correct(self, intent: str, platform: Platform, amount: float) -> None:
        """Replace the reserved amount by the actual cost. The bound stays in its own column."""
        self._write(
            "UPDATE spend SET amount = ?, actual = ? WHERE intent = ? AND platform = ?",
            (amount, amount, intent, platform),
        )

    def spend(self, platform: Platform) -> list[SpendRow]:
        """Everything that was reserved or spent on a platform from this state directory, newest first."""
        rows = self._select("spend", platform=platform)
        return [SpendRow(**{k: v for k, v in row.items() if k != "id"}) for row in rows]

    def unasked(self, platform: Platform) -> float:
        """US dollars of the evaluations that started without a question since the last evaluation with a question."""
        row = self._db.execute(
            "SELECT sum(amount) FROM spend WHERE platform = ? AND asked = 0 AND id >"
            " coalesce((SELECT max(id) FROM spend WHERE platform = ? AND asked = 1), 0)",
            (platform, platform),
        )
        return float(row.fetchone()[0] or 0.0)

    def unreserve(self, intent: str, platform: Platform, *, until: float | None = None) -> None:
        """Release the reserved amount of an intent that was not sent. Amounts reserved after `until` stay counted."""
        self._write(
            "DELETE FROM spend WHERE intent = ? AND platform = ? AND at <= coalesce(?, at)", (intent, platform, until)
        )

    def spent(self, platform: Platform) -> float:
        """US dollars committed so far in this state directory."""
        row = self._db.execute("SELECT sum(amount) FROM spend WHERE platform = ?", (platform,))
        return float(row.fetchone()[0] or 0.0)

    # Intents: requests that are sent at most once

    def claim(
        self,
        key: str,
        kind: str,
        platform: Platform,
        *,
        after: int | None = None,
        subject: str | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> IntentState:
        """Claim the right to send an intent, or return the state that prevents sending.

        State `open` and `mine`: the caller may send now, and must call `settle` or `release`. `sent`: another claim has
        an unknown outcome; look it up and never send again. `done`: the state holds the result. A sent claim whose
        attempt number is `after` is taken over; the caller knows that it had no effect.

        `subject` names what several intents would change, such as a paused run that can be continued in two ways. While
        another intent has claimed the subject and its outcome is unknown, the state of that intent is returned, with
        its key. `facts` are kept with the claim.
        """
        claimed = {**(facts or {}), "phase": "claimed"} | ({"subject": subject} if subject is not None else {})
        with self.transaction() as db:
            if subject is not None and (rival := self._claim_on(db, subject, key, platform)) is not None:
                return rival
            row = db.execute("SELECT * FROM intents WHERE key = ? AND platform = ?", (key, platform)).fetchone()
            if row is None or row["state"] == "open" or (row["state"] == "sent" and row["attempt"] == after):
                attempt, at = (row["attempt"] if row else 0) + 1, self.now()
                db.execute(
                    "INSERT OR REPLACE INTO intents VALUES (?, ?, ?, 'sent', ?, ?, ?, ?)",
                    (key, platform, kind, at, attempt, self._holder, json.dumps(claimed)),
                )
                return IntentState("open", attempt, True, {}, at, self._holder, key, kind)
            return self._intent(row)

    def _claim_on(self, db: sqlite3.Connection, subject: str, key: str, platform: Platform) -> IntentState | None:
        """The claim of another intent on a subject; None without one."""
        rows = db.execute(
            "SELECT * FROM intents WHERE platform = ? AND state = 'sent' AND key != ? ORDER BY at", (platform, key)
        )
        return next((s for s in map(self._intent, rows) if s.result.get("subject") == subject), None)

    def note(self, key: str, platform: Platform, attempt: int, facts: Mapping[str, Any]) -> bool:
        """Add facts to this process's claim while its outcome is unknown. Returns False if another holder has the
        claim."""
        with self.transaction() as db:
            row = db.execute(
                "SELECT result FROM intents WHERE key = ? AND platform = ? AND attempt = ? AND holder = ?"
                " AND state = 'sent'",
                (key, platform, attempt, self._holder),
            ).fetchone()
            if row is None:
                return False
            noted = json.dumps({**json.loads(row["result"]), **facts})
            db.execute("UPDATE intents SET result = ? WHERE key = ? AND platform = ?", (noted, key, platform))
            return True

    def intent(self, key: str, platform: Platform) -> IntentState | None:
        row = self._db.execute("SELECT * FROM intents WHERE key = ? AND platform = ?", (key, platform)).fetchone()
        return None if row is None else self._intent(row)

    def settle(self, key: str, platform: Platform, result: Mapping[str, Any]) -> None:
        """Record the outcome of a sent intent."""
        self._write(
            "UPDATE intents SET state = 'done', result = ? WHERE key = ? AND platform = ?",
            (json.dumps(dict(result)), key, platform),
        )

    def release(self, key: str, platform: Platform, *, attempt: int | None = None) -> bool:
        """Allow an intent to be sent again, because it certainly had no effect (it was refused, or does not exist).

        With `attempt`, only that claim is released, since another server may have taken a newer one. Returns whether
        a claim was released.
        """
        with self.transaction() as db:
            freed = db.execute(
                "UPDATE intents SET state = 'open' WHERE key = ? AND platform = ? AND attempt = coalesce(?, attempt)"
                " AND (? IS NULL OR state = 'sent')",
                (key, platform, attempt, attempt),
            )
            return freed.rowcount > 0

    def record_end(self, key: str, platform: Platform, attempt: int, *, by: str, landing: float | None = None) -> float:
        """Record that a claim with an unknown outcome sends nothing more. Returns the time of the first such record.

        `landing` is the number of seconds after which the request can no longer take effect.
        """
        with self.transaction() as db:
            where = "WHERE key = ? AND platform = ? AND attempt = ? AND state = 'sent'"
            row = db.execute(f"SELECT result FROM intents {where}", (key, platform, attempt)).fetchone()
            noted = json.loads(row["result"]) if row else {}
            if "over" in noted:
                return float(noted["over"])
            now = self.now()
            noted |= {"over": now, "by": by} | ({"clear": now + landing} if landing is not None else {})
            db.execute(f"UPDATE intents SET result = ? {where}", (json.dumps(noted), key, platform, attempt))
            return now

    # Approvals and overrides

    def offer(self, intent: str, question: str, max_cost: float | None, platform: Platform) -> str:
        """Create an approval token for exactly this intent at this price."""
        # Only letters and digits: a token that begins with "-" would be an option of `prime-lab-mcp approve TOKEN`.
        token = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(12))
        self._write(
            "INSERT INTO approvals VALUES (?, ?, ?, ?, ?, ?, NULL)",
            (token, time.time(), intent, question, max_cost, platform),
        )
        return token

    def approval(self, token: str) -> Approval | None:
        row = self._db.execute("SELECT * FROM approvals WHERE token = ?", (token,)).fetchone()
        return Approval(**dict(row)) if row else None

    def approve(self, token: str) -> None:
        """Record that a person approved the token in a terminal."""
        self._write("UPDATE approvals SET approved_at = ? WHERE token = ?", (time.time(), token))

    def use_up(self, token: str) -> None:
        """Invalidate a token, because the request that it approved may be sent again at its full price."""
        self._write("UPDATE approvals SET at = 0 WHERE token = ?", (token,))

    def approved(self, intent: str) -> bool:
        """Whether a person approved this intent in a terminal."""
        row = self._db.execute(
            "SELECT 1 FROM approvals WHERE intent = ? AND approved_at IS NOT NULL", (intent,)
        ).fetchone()
        return row is not None

    def override(self, workspace: str, environment: str, fingerprint: str, code: str, reason: str) -> None:
        """Record that a person waived one blocker code for one fingerprint."""
        self._write(
            "INSERT INTO overrides (at, workspace, environment, fingerprint, code, reason) VALUES (?, ?, ?, ?, ?, ?)",
            (time.time(), workspace, environment, fingerprint, code, reason),
        )

    def overrides(self, workspace: str) -> set[tuple[str, str]]:
        """The pairs (fingerprint, code) that a person waived."""
        rows = self._db.execute("SELECT fingerprint, code FROM overrides WHERE workspace = ?", (workspace,))
        return {(row["fingerprint"], row["code"]) for row in rows}

    # Jobs

    def create_job(self, job: Job) -> Job:
        """Insert a job. If a job with the same intent is running, return that one instead."""
        with self.transaction() as db:
            row = db.execute(
                "SELECT * FROM jobs WHERE intent = ? AND workspace = ? AND state IN ('starting', 'running')"
                " AND lease > ? ORDER BY rowid DESC LIMIT 1",
                (job.intent, job.workspace, time.time()),
            ).fetchone()
            if row is not None:
                return self._job(row)
            encoded = self._row(job) | {
                "at": job.at or time.time(),
                "spec": json.dumps(dict(job.spec)),
                "progress": json.dumps(dict(job.progress)),
                "judged": int(job.judged),
            }
            columns, marks = ", ".join(encoded), ", ".join("?" * len(encoded))
            db.execute(f"INSERT INTO jobs ({columns}) VALUES ({marks})", tuple(encoded.values()))
            return job

    def update_job(self, id: str, **changes: Any) -> None:
        """Change columns of a job; mappings are stored as JSON."""
        encoded = {k: json.dumps(dict(v)) if isinstance(v, Mapping) else v for k, v in changes.items()}
        assignments = ", ".join(f"{k} = ?" for k in encoded)
        self._write(f"UPDATE jobs SET {assignments} WHERE id = ?", (*encoded.values(), id))

    def judge(self, id: str, verdicts: Sequence[Evidence]) -> list[int]:
        """Record the verdicts of a finished job and mark the job as judged, in one transaction.

        Only the first caller records them; later callers get an empty list.
        """
        with self.transaction() as db:
            marked = db.execute("UPDATE jobs SET judged = 1 WHERE id = ? AND judged = 0 AND state = 'finished'", (id,))
            if marked.rowcount != 1:
                return []
            return [self.record(verdict) for verdict in verdicts]

    def job(self, id: str) -> Job | None:
        row = self._db.execute("SELECT * FROM jobs WHERE id = ?", (id,)).fetchone()
        return self._job(row) if row else None

    def jobs(
        self,
        workspace: str | None = None,
        *,
        environment: str | None = None,
        source: str | None = None,
        state: str | None = None,
        limit: int | None = None,
    ) -> list[Job]:
        """Jobs that match every given field, newest first."""
        clauses, parameters = self._where(workspace=workspace, environment=environment, source=source, state=state)
        most = -1 if limit is None else limit
        rows = self._db.execute(f"SELECT * FROM jobs{clauses} ORDER BY rowid DESC LIMIT ?", (*parameters, most))
        return [self._job(row) for row in rows]

    def job_folders(self) -> list[JobFolder]:
        """Every job without its specification and progress, newest first."""
        rows = self._db.execute("SELECT id, state, lease, content, judged FROM jobs ORDER BY rowid DESC")
        return [JobFolder(id, state, lease, content, bool(judged)) for id, state, lease, content, judged in rows]

    def unjudged(self, workspace: str, *, source: str | None = None) -> list[Job]:
        """Finished jobs without a verdict, oldest first."""
        rows = self._db.execute(
            "SELECT * FROM jobs WHERE workspace = ? AND state = 'finished' AND judged = 0"
            " AND source = coalesce(?, source) ORDER BY rowid",
            (workspace, source),
        )
        return [self._job(row) for row in rows]

    def note_finished(self, job: Job, progress: Mapping[str, Any]) -> bool:
        """Replace the progress of a finished job. Returns False if the job was judged or resumed meanwhile."""
        with self.transaction() as db:
            changed = db.execute(
                "UPDATE jobs SET progress = ? WHERE id = ? AND state = 'finished' AND judged = 0 AND lease = ?",
                (json.dumps(dict(progress)), job.id, job.lease),
            )
            return changed.rowcount == 1

    # Calls

    def note_call(self, workspace: str, tool: str, status: str, seconds: float, summary: str) -> None:
        """Note a call for the dashboard. A call is no evidence, so the note does not wait for the disk."""
        self._write_soon(
            "INSERT INTO calls (at, workspace, tool, status, seconds, summary) VALUES (?, ?, ?, ?, ?, ?)",
            (time.time(), workspace, tool, status, seconds, summary),
        )

    # Helpers

    def _intent(self, row: sqlite3.Row) -> IntentState:
        mine = row["holder"] == self._holder
        result = json.loads(row["result"])
        return IntentState(
            row["state"], row["attempt"], mine, result, row["at"], row["holder"], row["key"], row["kind"]
        )

    @staticmethod
    def _job(row: sqlite3.Row) -> Job:
        decoded = dict(row)
        decoded["spec"] = json.loads(decoded["spec"])
        decoded["progress"] = json.loads(decoded["progress"])
        decoded["judged"] = bool(decoded["judged"])
        return Job(**decoded)

    def _forget_rows(self) -> None:
        self._classes.clear()

    @staticmethod
    def _row(item: Any) -> dict[str, Any]:
        row = {f.name: getattr(item, f.name) for f in fields(item)}
        if "at" in row and not row["at"]:
            row["at"] = time.time()
        return row


_PROMPT_COLUMNS = ", ".join(f.name for f in fields(Evidence) if f.name not in LATE_COLUMNS)
"""The columns of a verdict that every query reads."""

_MOST_CLASSES = 4_000
"""Number of queries of `decisive` whose classes stay in memory."""


def _class(row: sqlite3.Row) -> tuple[Any, ...]:
    """The class of a verdict, as `Ledger.decisive` defines it."""
    basic = (row["env_args"], row["platform"])
    if len(row) == len(basic) + 1:
        return basic
    blockers = tuple(f.get("code") for f in json.loads(row["findings"]) if f.get("severity") == "blocker")
    groups = json.loads(row["data"]).get("usable_groups")
    size = groups.get("group_size") if isinstance(groups, Mapping) else None
    return (*basic, row["model"], row["harness"], row["status"], blockers, str(size))
