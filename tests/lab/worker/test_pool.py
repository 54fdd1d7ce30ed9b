"""Nothing survives the server, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

from .conftest import Write, running

SERVER = """
import anyio, sys
from pathlib import Path
from prime_lab_mcp.lab.interpreter import Interpreter
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.worker.scoring import Case
from prime_lab_mcp.lab.worker.pool import Workers

async def main(state, tree, idle):
    workers = Workers(Settings(workspace=Path(state), state_dir=Path(state)))
    own = Interpreter(Path(sys.executable), None, "own")
    async with workers.open(Path(tree), "k", own, api="v1", module="sample") as worker:
        await worker.load()
        print("loaded", flush=True)
        if idle == "idle":
            await anyio.sleep(600)
        await worker.score([Case("a", 1, [])], case_timeout=600)

anyio.run(main, *sys.argv[1:])
"""


@pytest.mark.rotate(share=2)
@pytest.mark.slow
@pytest.mark.parametrize("state", ["idle", "busy"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_server_leaves_no_process(write: Write, tmp_path: Path, state: str, end: signal.Signals) -> None:
    mark = f"server-{uuid4().hex}"
    top = f"""
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.execvpe("sleep", ["sleep", "600"], {{"MARK": "{mark}", "PATH": os.environ["PATH"]}})
    """
    tree = write(top=top, reward="time.sleep(600)")
    scratch = tmp_path / mark
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(scratch), str(tree), state], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "loaded\n"
        assert len(running(mark)) >= 3  # zygote, supervisor or child, sleep
        server.send_signal(end)
        server.wait(20)
        deadline = time.monotonic() + 15
        while (left := running(mark)) and time.monotonic() < deadline:
            os.sched_yield()
        assert left == []
    finally:
        server.kill()
        server.wait()
