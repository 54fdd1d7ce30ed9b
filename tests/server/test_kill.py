"""kill -9 of the server in the middle of things: nothing recorded is lost, nothing is left running but a leased job."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from tests.conftest import EXAMPLES
from tests.server.test_stdio import Server, mentioning

pytestmark = [pytest.mark.slow, pytest.mark.cold]


def hang_in(server: Server, id: int, tool: str, **arguments: Any) -> None:
    """Send a call and do not wait for its answer."""
    server.send({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})


def until(true: Any, seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def gsm8k(tmp_path: Path) -> Path:
    target = tmp_path / "workspace" / "environments" / "gsm8k"
    shutil.copytree(EXAMPLES / "gsm8k", target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def test_a_hanging_reward_dies_with_the_server_and_earlier_evidence_stays(tmp_path: Path, gsm8k: Path) -> None:
    server = Server(tmp_path)
    server.start()
    assert server.call(2, "check_environment", environment="gsm8k")["status"] == "passed"
    module = gsm8k / "gsm8k" / "__init__.py"
    line = (
        "import subprocess, tempfile, time\n"
        "subprocess.Popen(['sleep', '900']); open(tempfile.gettempdir() + '/hanging', 'w'); time.sleep(900)\n"
    )
    module.write_text(module.read_text(encoding="utf-8") + "\n" + line, encoding="utf-8")
    hang_in(server, 3, "check_environment", environment="gsm8k")
    assert until(lambda: any((tmp_path / "state").rglob("hanging")))
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait(timeout=20)
    assert until(lambda: not mentioning(tmp_path) and not _sleeping()), mentioning(tmp_path)
    recorded = Ledger(tmp_path / "state" / "ledger.sqlite3").evidence(tool="check_environment")
    assert [row.status for row in recorded] == ["passed"]


def test_no_half_written_file_is_left_in_the_workspace(tmp_path: Path, gsm8k: Path) -> None:
    text = (gsm8k / "README.md").read_text(encoding="utf-8")
    for delay in (0.0, 0.01, 0.03, 0.06):
        server = Server(tmp_path)
        server.start()
        hang_in(server, 2, "edit_environment", environment="gsm8k", path="README.md", new=text * 50)
        time.sleep(delay)
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait(timeout=20)
        assert (gsm8k / "README.md").read_text(encoding="utf-8") in (text, text * 50)
        (gsm8k / "README.md").write_text(text, encoding="utf-8")


def _sleeping() -> bool:
    return subprocess.run(["pgrep", "-f", "^sleep 900$"], stdout=subprocess.DEVNULL, check=False).returncode == 0
