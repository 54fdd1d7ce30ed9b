"""The ledger: append-only verdicts, and intents that go out at most once, across threads and processes."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import LedgerError
from prime_lab_mcp.lab.base.settings import Platform
from prime_lab_mcp.lab.state.ledger import ledger as ledger_module
from prime_lab_mcp.lab.state.ledger.database import SCHEMA_VERSION, ledger_error
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Job


def evidence(number: int = 0) -> Evidence:
    return Evidence(tool="test_reward", status="passed", workspace="w", source=f"s{number}", env_args={"n": number})


def test_verdicts_come_back_as_they_were_recorded_newest_first(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    for number in range(3):
        ledger.record(evidence(number))
    found = ledger.evidence("w", tool="test_reward")
    assert [(e.source, dict(e.env_args)) for e in found] == [("s2", {"n": 2}), ("s1", {"n": 1}), ("s0", {"n": 0})]
    assert ledger.evidence("other") == []


@pytest.mark.parametrize("statement", ["UPDATE evidence SET status = 'passed'", "DELETE FROM evidence"])
def test_verdicts_can_be_neither_changed_nor_removed(tmp_path: Path, statement: str) -> None:
    Ledger(tmp_path / "l.sqlite3").record(evidence())
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        sqlite3.connect(tmp_path / "l.sqlite3").execute(statement)


def test_a_newer_schema_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite3"
    Ledger(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(LedgerError, match="newer"):
        Ledger(path)


def test_a_file_that_is_no_database_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "l.sqlite3").write_text("not a database, and long enough to be read as a header" * 20, encoding="utf-8")
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger(tmp_path / "l.sqlite3")


def test_a_connection_without_leave_to_create_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "state" / "l % ?#.sqlite3"
    with pytest.raises(LedgerError, match="cannot be opened"):
        Ledger(path, create=False)
    assert not path.parent.exists()
    Ledger(path).record(evidence())
    reading = Ledger(path, create=False)
    assert [row.source for row in reading.evidence("w")] == ["s0"]
    shutil.rmtree(path.parent)
    with pytest.raises(LedgerError, match="deleted"):
        reading.record(evidence(1))
    assert not path.parent.exists()


def test_an_intent_is_claimed_by_exactly_one_of_many_threads_and_ledgers(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite3"
    Ledger(path).close()
    won: list[str] = []

    def claim() -> None:
        if Ledger(path).claim("key", "submit", "prime").state == "open":
            won.append("me")

    threads = [threading.Thread(target=claim) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == ["me"]


def test_an_intent_that_went_out_is_never_open_again_until_released(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    assert ledger.claim("key", "submit", "prime").state == "open"
    assert ledger.claim("key", "submit", "prime").state == "sent"
    ledger.release("key", "prime")
    again = ledger.claim("key", "submit", "prime")
    assert (again.state, again.attempt) == ("open", 2)
    ledger.settle("key", "prime", {"id": "run-1"})
    assert dict(ledger.claim("key", "submit", "prime").result) == {"id": "run-1"}
    assert ledger.claim("key", "submit", "rehearsal").state == "open"


def test_of_two_intents_with_one_subject_the_second_gets_the_claim_of_the_first(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    assert ledger.claim("resume", "control", "prime", subject="run-1", facts={"config": "a"}).mine
    rival = ledger.claim("submit", "submit", "prime", subject="run-1")
    assert (rival.key, rival.state, rival.mine, rival.result["config"]) == ("resume", "sent", True, "a")
    assert ledger.intent("submit", "prime") is None
    assert ledger.claim("resume", "control", "prime", subject="run-1").state == "sent"
    ledger.settle("resume", "prime", {"id": "run-2"})
    assert ledger.claim("submit", "submit", "prime", subject="run-1").state == "open"


@pytest.mark.parametrize(("subject", "platform"), [("run-2", "prime"), (None, "prime"), ("run-1", "rehearsal")])
def test_a_claim_on_another_subject_or_platform_is_no_rival(
    tmp_path: Path, subject: str | None, platform: Platform
) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    assert ledger.claim("resume", "control", "prime", subject="run-1").state == "open"
    assert ledger.claim("submit", "submit", platform, subject=subject).state == "open"


def test_spend_is_counted_once_per_intent_and_apart_per_platform(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    for _ in range(3):
        ledger.commit_spend("a", 5.0, "run", "prime")
    ledger.commit_spend("b", 2.5, "run", "prime")
    ledger.commit_spend("a", 99.0, "run", "rehearsal")
    assert (ledger.spent("prime"), ledger.spent("rehearsal")) == (7.5, 99.0)


def test_a_job_with_the_same_intent_is_attached_to_while_its_lease_lives(tmp_path: Path) -> None:
    import time

    ledger = Ledger(tmp_path / "l.sqlite3")

    def job(id: str, lease: float) -> Job:
        return Job(id, "w", "env", "s", "c", "intent", "running", 1, lease, lease, None, {"n": 1}, at=time.time())

    first = ledger.create_job(job("one", time.time() + 60))
    assert ledger.create_job(job("two", time.time() + 60)).id == first.id == "one"
    ledger.update_job("one", lease=time.time() - 1)
    assert ledger.create_job(job("three", time.time() + 60)).id == "three"


def test_kill_9_while_recording_loses_nothing_that_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite3"
    program = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from prime_lab_mcp.lab.state.ledger.ledger import Ledger
        from prime_lab_mcp.lab.state.ledger.rows import Evidence
        ledger = Ledger(Path({str(path)!r}))
        for number in range(100000):
            ledger.record(Evidence(tool="t", status="passed", workspace="w", source=str(number)))
            print(number, flush=True)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    last = -1
    for line in child.stdout:
        last = int(line)
        if last == 40:
            os.kill(child.pid, signal.SIGKILL)
            break
    acknowledged = [int(line) for line in child.stdout if line.strip().isdigit()]
    child.wait()
    last = max([last, *acknowledged])
    recorded = {int(e.source or -1) for e in Ledger(path).evidence("w")}
    assert set(range(last + 1)) <= recorded


def test_the_bound_stays_beside_the_actual_cost(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    assert ledger.reserve("a", 2.0, "evaluation", "prime", None, asked=True)
    ledger.correct("a", "prime", 0.5)
    (row,) = ledger.spend("prime")
    assert (row.bound, row.actual, row.amount, ledger.spent("prime")) == (2.0, 0.5, 0.5, 0.5)
    # The evaluation goes on: its cost is open again, and the earlier one is in the new bound.
    assert ledger.reserve("a", 2.5, "evaluation", "prime", None, asked=True)
    (row,) = ledger.spend("prime")
    assert (row.bound, row.actual, row.amount) == (2.5, None, 2.5)


def test_what_has_no_price_is_recorded_without_a_bound(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    assert ledger.reserve("judge", None, "judge", "prime", 1.0, workspace="w", environment="sums")
    ledger.commit_spend("run", None, "run", "prime")
    assert [(row.bound, row.actual, row.amount) for row in ledger.spend("prime")] == [(None, None, 0.0)] * 2
    assert ledger.spend("rehearsal") == []


def test_a_verdict_waits_for_the_disk_and_the_note_of_a_call_does_not(tmp_path: Path) -> None:
    ledger, waits = Ledger(tmp_path / "l.sqlite3"), []

    def traced(statement: str) -> None:
        if statement.startswith("PRAGMA synchronous="):
            mode.append(statement.partition("=")[2])
        elif statement == "COMMIT":
            waits.append(mode[-1] == "FULL")

    mode = ["FULL" if ledger._db.execute("PRAGMA synchronous").fetchone()[0] == 2 else "NORMAL"]
    ledger._db.set_trace_callback(traced)
    ledger.note_call("w", "test_reward", "passed", 0.1, "")
    ledger.record(evidence())
    assert waits == [False, True]


def test_a_call_noted_inside_a_transaction_is_part_of_it(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")

    def undone() -> None:
        with ledger.transaction():
            ledger.note_call("w", "test_reward", "passed", 0.1, "")
            raise KeyError

    with pytest.raises(KeyError):
        undone()
    assert ledger._db.execute("SELECT count(*) FROM calls").fetchone()[0] == 0
    assert ledger._db.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_a_reader_that_refuses_writes_reads_on(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    ledger.record(evidence())
    ledger.refuse_writes()
    with pytest.raises(LedgerError, match="written"):
        ledger.record(evidence(1))
    assert [row.source for row in ledger.evidence("w")] == ["s0"]


@pytest.mark.parametrize(
    ("number", "said", "code"),
    [
        (sqlite3.SQLITE_FULL, "the disk is full", "disk-full"),
        (sqlite3.SQLITE_CORRUPT, "the file is damaged", "ledger-damaged"),
        (sqlite3.SQLITE_NOTADB, "the file is damaged", "ledger-damaged"),
        (sqlite3.SQLITE_BUSY, "another process holds it", LedgerError.default_code),
        (sqlite3.SQLITE_IOERR, "disk I/O error", LedgerError.default_code),
    ],
)
def test_an_error_of_the_database_says_its_cause(tmp_path: Path, number: int, said: str, code: str) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = number
    told = ledger_error(error, tmp_path / "l.sqlite3")
    assert (told.message, told.code) == (f"the ledger cannot be read: {said}", code)
    full = ledger_error(OSError(errno.ENOSPC, "no space"), tmp_path / "l.sqlite3", "written")
    assert full.code == "disk-full"


def test_a_token_is_an_argument_of_a_command_line_and_never_an_option(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    tokens = [ledger.offer("key", "Evaluate?", 1.0, "prime") for _ in range(200)]
    assert [token for token in tokens if not token.isalnum()] == []


def test_a_token_that_was_used_up_is_too_old(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    token = ledger.offer("key", "Evaluate?", 1.0, "prime")
    ledger.use_up(token)
    offered = ledger.approval(token)
    assert offered is not None
    assert offered.at == 0


def test_verdicts_decide_as_before_where_their_query_no_longer_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "_MOST_CLASSES", 1)
    ledger = Ledger(tmp_path / "l.sqlite3")
    for number in (0, 1, 0):
        ledger.record(evidence(number))
    for source in ("s0", "s1", "s0"):
        assert [row.source for row in ledger.decisive("w", "test_reward", source=source)] == [source]


def test_a_ledger_that_was_deleted_and_made_anew_elsewhere_decides_by_the_new_file(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    ledger.record(evidence())
    assert len(ledger.decisive("w", "test_reward", source="s0")) == 1
    for file in tmp_path.iterdir():
        file.unlink()
    Ledger(tmp_path / "l.sqlite3").close()
    ledger.record(evidence(1))
    assert ledger.decisive("w", "test_reward", source="s0") == []
    assert [row.source for row in ledger.evidence("w")] == ["s1"]


def test_only_its_owner_may_read_the_ledger_also_where_others_could_before(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    Ledger(path).close()
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    ledger = Ledger(path)
    assert {f.name: f.stat().st_mode & 0o777 for f in tmp_path.iterdir()} == dict.fromkeys(
        ("ledger.sqlite3", "ledger.sqlite3-wal", "ledger.sqlite3-shm"), 0o600
    )
    path.unlink()
    with ledger.transaction():
        pass
    assert path.stat().st_mode & 0o777 == 0o600
