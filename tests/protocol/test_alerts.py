"""`serve --notify`: a command or a URL of the user's hears of what happens outside of the chat."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from shlex import quote
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import ElicitResult

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.notifier import Alert, AlertNotDelivered, notifier_from
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.training import alerts
from prime_lab_mcp.lab.training.anomalies import Anomaly
from prime_lab_mcp.lab.training.watch import RunReading
from prime_lab_mcp.server.app import build_server
from tests.protocol.toys import TOYS

pytestmark = pytest.mark.anyio
CLOSED = "http://127.0.0.1:9/secret"
COPY = "import sys, pathlib; pathlib.Path(sys.argv[1]).open('a').write(sys.stdin.read())"


def copying(target: Path) -> str:
    """A command that appends what it is told to a file."""
    return f"{quote(sys.executable)} -c {quote(COPY)} {quote(str(target))}"


async def heard(target: Path) -> dict[str, Any]:
    with anyio.fail_after(60):
        while not target.exists() or not target.read_text(encoding="utf-8"):
            await anyio.sleep(0.05)
    told: dict[str, Any] = json.loads(target.read_text(encoding="utf-8").splitlines()[0])
    return told


@contextmanager
def listening(status: int = 200) -> Iterator[tuple[str, list[Any]]]:
    bodies: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/secret", bodies
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_question_that_waits_is_sent_to_the_command(settings: Settings, tmp_path: Path, era: Any) -> None:
    async def elicit(context: Any, params: Any) -> ElicitResult:
        return ElicitResult(action="accept", content={"approve": True})

    told = replace(settings, notify=copying(tmp_path / "told"))
    async with Client(build_server(Lab(told), TOYS), mode=era, elicitation_callback=elicit) as client:
        spent = await client.call_tool("spend", {})
        alert = await heard(tmp_path / "told")
    assert spent.structured_content is not None
    assert (alert["from"], alert["kind"], alert["subject"]) == ("prime-lab-mcp", "question", "spend")
    assert alert["text"].startswith("spend waits for an answer: ")
    assert len((tmp_path / "told").read_text().splitlines()) == 1


async def test_a_command_gets_text_on_stdin_and_no_shell_reads_it(tmp_path: Path) -> None:
    text = f"$(touch {tmp_path}/touched); `touch {tmp_path}/touched`"
    await notifier_from(copying(tmp_path / "told")).send(Alert("ended", "run_1", text))
    assert (await heard(tmp_path / "told"))["text"] == text
    assert not (tmp_path / "touched").exists()


async def test_a_url_is_posted_to_and_an_error_names_its_host_alone() -> None:
    with listening() as (url, bodies):
        await notifier_from(url).send(Alert("anomaly", "run_1", "The reward fell.", {"code": "reward-collapse"}))
    assert (bodies[0]["kind"], bodies[0]["code"]) == ("anomaly", "reward-collapse")
    with listening(500) as (url, _), pytest.raises(AlertNotDelivered, match="answered 500") as lost:
        await notifier_from(url).send(Alert("ended", "run_1", "It ended."))
    assert "secret" not in str(lost.value)


async def test_a_program_that_has_gone_and_a_host_that_does_not_answer_are_named(tmp_path: Path) -> None:
    program = tmp_path / "notify"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    command = notifier_from(str(program))
    program.unlink()
    for notifier, why in ((command, "notify was not notified: .*not installed"), (notifier_from(CLOSED), "127.0.0.1 ")):
        with pytest.raises(AlertNotDelivered, match=why) as lost:
            await notifier.send(Alert("ended", "run_1", "It ended."))
        assert "secret" not in str(lost.value)


async def test_what_fails_is_lost_and_harms_nothing(settings: Settings) -> None:
    told = replace(settings, notify="false")
    async with Client(build_server(Lab(told), TOYS)) as client:
        asked = await client.call_tool("spend", {})
        again = await client.call_tool("echo", {"number": 3})
    assert asked.structured_content is not None
    assert asked.structured_content["status"] == "needs_confirmation"
    assert not again.is_error


@pytest.mark.parametrize("text", ["", "no-such-program --x", "sh -c 'open", "http://", "http://[::1"])
def test_what_cannot_be_notified_is_refused_at_the_start(text: str) -> None:
    with pytest.raises(BadInput):
        notifier_from(text)


async def test_each_anomaly_and_end_of_a_run_is_said_once(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    state: dict[str, Any] = {"status": "RUNNING", "anomalies": ()}

    async def read(lab: Lab, id: str, run: Run) -> RunReading:
        usage = {"total_cost_usd": 4.0}
        return RunReading({"status": state["status"]}, [], usage, [], {}, {}, state["anomalies"], {})

    monkeypatch.setattr(alerts, "watch_run", read)
    lab.ledger.record_run(Run("run_1", "training", "sums-abab", lab.key, "k" * 64, lab.platform))
    watch = alerts.AlertWatch(lab)
    assert await watch.round() == []
    state["anomalies"] = (Anomaly("stall", "stop", 7, "no step ended for 60 minutes", "Look at the logs."),)
    (stalled,) = await watch.round()
    assert (stalled.kind, stalled.details["code"]) == ("anomaly", "stall")
    assert await watch.round() == []
    assert await alerts.AlertWatch(lab).round() == []
    state["status"] = "COMPLETED"
    (ended,) = await watch.round()
    assert (ended.kind, ended.text) == ("ended", 'Run "sums-abab" (run_1) is COMPLETED, $4.00 spent.')
    assert await watch.round() == []
