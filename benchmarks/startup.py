"""Start of the process to the answered first request, ours and a bare MCPServer's in turn, as a ratio."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = int(os.environ.get("BENCH_STARTS", "15"))
LIMIT = 1.1
"""The claim: ours takes at most this many times as long."""
_INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
_INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
_LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


def first_answer(command: list[str]) -> tuple[float, float, int]:
    """Seconds to the answered initialize, to the answered tools/list, and how many tools it listed."""
    started = time.perf_counter()
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(json.dumps(_INITIALIZE) + "\n")
    child.stdin.flush()
    child.stdout.readline()
    ready = time.perf_counter() - started
    child.stdin.write(json.dumps(_INITIALIZED) + "\n" + json.dumps(_LIST) + "\n")
    child.stdin.flush()
    tools = len(json.loads(child.stdout.readline())["result"]["tools"])
    listed = time.perf_counter() - started
    child.stdin.close()
    child.wait(timeout=20)
    return ready, listed, tools


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        workspace, state = Path(scratch, "workspace"), Path(scratch, "state")
        workspace.mkdir()
        ours = [sys.executable, "-m", "prime_lab_mcp", "serve"]
        ours += ["--workspace", str(workspace), "--state-dir", str(state)]
        tools = first_answer(ours)[2]
        bare = [sys.executable, "-m", "benchmarks.bare_server", str(tools)]
        first_answer(bare)
        pairs = [(first_answer(ours), first_answer(bare)) for _ in range(RUNS)]
    for name, index in (("answered initialize", 0), ("answered tools/list", 1)):
        mine = statistics.median(a[index] for a, _ in pairs)
        theirs = statistics.median(b[index] for _, b in pairs)
        ratio = statistics.median(a[index] / b[index] for a, b in pairs)
        print(f"start to {name}: {mine:.3f} s, bare server with {tools} tools {theirs:.3f} s, ratio {ratio:.2f}")
    worst = max(statistics.median(a[index] / b[index] for a, b in pairs) for index in (0, 1))
    print(f"startup: {'holds' if worst <= LIMIT else 'DOES NOT HOLD'}: ratio {worst:.2f}, claimed at most {LIMIT}")
    return 0 if worst <= LIMIT else 1
