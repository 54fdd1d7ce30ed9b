"""`prime-lab-mcp dashboard`: prints one link, answers on loopback, and ends when it is told to."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest


@pytest.mark.slow
def test_the_command_prints_a_link_that_works_and_ends_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    command = [sys.executable, "-m", "prime_lab_mcp", "dashboard"]
    places = ["--workspace", str(tmp_path / "workspace"), "--state-dir", str(tmp_path / "state")]
    with subprocess.Popen([*command, *places], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        link = urlsplit(process.stdout.readline().strip())
        token = link.fragment.removeprefix("token=")
        url = f"http://{link.netloc}"
        headers = {"Authorization": f"Bearer {token}"}
        answers = [
            httpx.get(f"{url}/"),
            httpx.get(f"{url}/api/workspace"),
            httpx.get(f"{url}/api/workspace", headers=headers),
        ]
        again = subprocess.run(
            [*command, *places, "--port", str(link.port)], capture_output=True, text=True, timeout=120, check=False
        )
        process.send_signal(signal.SIGTERM)
        wrote = "".join(process.communicate(timeout=120))
    assert (link.hostname, len(token)) == ("127.0.0.1", 43)
    assert [answer.status_code for answer in answers] == [200, 401, 200]
    assert answers[2].json()["name"] == "workspace"
    assert (again.returncode, "cannot be served" in again.stderr, "Traceback" in again.stderr) == (2, True, False)
    assert "Traceback" not in wrote
    assert list((tmp_path / "workspace").iterdir()) == []
