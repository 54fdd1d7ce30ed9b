"""The check of locked dependencies has three outcomes, tried against a loopback stand-in of OSV."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from release import audit
from release.artifacts import ROOT

FAULT = {
    "id": "GHSA-0000-0000-0000",
    "aliases": ["CVE-2026-0001"],
    "summary": "a fault",
    "published": "2026-01-01T00:00:00Z",
    "affected": [
        {
            "package": {"name": "urllib3", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "2.9.0"}]}],
        }
    ],
}


class Database(ThreadingHTTPServer):
    """A database of advisories that knows one fault of urllib3, or refuses to answer."""

    status = 200
    body: bytes | None = None
    faulty = "urllib3"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1/query"


class Answer(BaseHTTPRequestHandler):
    server: Database

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = query["package"]["name"]
        self.server.asked.append(f"{name}=={query['version']}")
        known = {"vulns": [FAULT]} if name == self.server.faulty else {}
        body = json.dumps(known).encode() if self.server.body is None else self.server.body
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


@pytest.fixture
def database() -> Iterator[Database]:
    server = Database()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    path = tmp_path / "locked.txt"
    path.write_text("idna==3.20\nurllib3==2.8.0\n", encoding="utf-8")
    return path


@pytest.mark.rotate(share=3, group="audits by the program itself")
def test_no_known_fault_passes(database: Database, locked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database.faulty = ""
    assert audit.main([str(locked), "--service", database.url]) == audit.CLEAN
    assert sorted(database.asked) == ["idna==3.20", "urllib3==2.8.0"]
    out = capsys.readouterr().out
    assert "locked.txt: 0 known faults in 2 packages" in out
    assert "have no known fault" in out


@pytest.mark.rotate(share=3, group="audits by the program itself")
@pytest.mark.parametrize("options", [[], ["--unasked-passes"]])
def test_a_known_fault_fails_and_is_named(
    database: Database, locked: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert audit.main([str(locked), "--service", database.url, *options]) == audit.FAULTY
    out = capsys.readouterr().out
    assert "FAULT urllib3 2.8.0: CVE-2026-0001, GHSA-0000-0000-0000; mended in 2.9.0" in out
    assert "no known fault" not in out


@pytest.mark.slow
@pytest.mark.rotate(share=3, group="audits by the program itself")
@pytest.mark.parametrize(("status", "body"), [(404, None), (200, b"<html>Welcome</html>")], ids=str)
def test_a_database_that_does_not_answer_is_no_pass_in_words(
    database: Database, locked: Path, status: int, body: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    database.status, database.body = status, body
    assert audit.main([str(locked), "--service", database.url]) == audit.UNASKED
    assert audit.main([str(locked), "--service", database.url, "--unasked-passes"]) == 0
    out = capsys.readouterr().out
    assert out.count("NOT audited: the database of advisories could not be asked") == 2
    assert "no known fault" not in out
    assert "0 known faults" not in out


@pytest.mark.rotate(share=3, group="audits by the program itself")
def test_where_nothing_listens_the_database_could_not_be_asked(locked: Path) -> None:
    assert audit.main([str(locked), "--service", "http://127.0.0.1:9/v1/query"]) == audit.UNASKED


def test_a_fault_outweighs_a_package_that_was_skipped() -> None:
    vulns = [{"id": "X-1", "aliases": [], "fix_versions": []}]
    skipped = {"name": "a", "skip_reason": "not found"}
    faulty = {"name": "b", "version": "1", "vulns": vulns}
    assert audit.read_audit({"dependencies": [skipped]}).code == audit.UNASKED
    assert audit.read_audit({"dependencies": [skipped, faulty]}).code == audit.FAULTY
    assert audit.read_audit({"dependencies": []}).code == audit.UNASKED


def test_a_file_that_cannot_be_read_is_not_taken_for_a_silent_database(database: Database, tmp_path: Path) -> None:
    (tmp_path / "locked.txt").write_text("idna>=3\n", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        audit.main([str(tmp_path / "locked.txt"), "--service", database.url])
    assert ended.value.code == 2
    assert database.asked == []


def test_every_locked_file_is_audited_and_ci_lets_only_a_silent_database_pass() -> None:
    assert sorted(path.name for path in ROOT.glob("constraints*.txt")) == sorted(audit.LOCKED)
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert "make audit AUDIT=--unasked-passes" in run
    assert "set -euo pipefail" in run
