"""A server from its start to its first answers, beside a bare MCPServer of the same SDK with as many tools.

Ours and the bare one start in turn. The least of each is compared: what else the machine does only ever adds.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.claims import claim

RUNS = int(os.environ.get("BENCH_STARTS", "7"))
IDLE_RUNS = 2
LISTED = 1.0
"""The claim: start to the answered listing of the tools, in times of the bare server's."""
LATER = 300.0
"""The claim: milliseconds by which the first real call is answered later than that of the bare server."""
MEMORY = 1.1
REFUSED = 300.0
"""The claim: milliseconds of the first refusal of a server that nobody has called yet."""
_IDLE_SECONDS = 3.0
"""Seconds after which a server that was listed is at rest: it imports the tools behind its first answer."""
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


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from the start to the answers; the memory at rest in MiB; seconds of a call after that."""

    ready: float
    listed: float
    called: float
    memory: float
    later: float
    tools: int


def _call(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def start(command: list[str], first: dict[str, Any] | None, later: dict[str, Any]) -> Start:
    """Start a server, list its tools, and call `first` at once or, at rest, `later`."""
    started = time.perf_counter()
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert child.stdin is not None
    assert child.stdout is not None

    def ask(*messages: dict[str, Any]) -> dict[str, Any]:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("".join(json.dumps(message) + "\n" for message in messages))
        child.stdin.flush()
        while "id" not in (answer := json.loads(child.stdout.readline())):
            continue  # a notification
        return dict(answer)

    ask(_INITIALIZE)
    ready = time.perf_counter() - started
    tools = len(ask(_INITIALIZED, _LIST)["result"]["tools"])
    listed = time.perf_counter() - started
    called = memory = 0.0
    if first is not None:
        assert "result" in ask(first)
        called = time.perf_counter() - started
    else:
        time.sleep(_IDLE_SECONDS)
        status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii", errors="replace")
        found = re.search(r"VmRSS:\s*([0-9]+) kB", status)
        memory = int(found[1]) / 1024 if found else 0.0
    begun = time.perf_counter()
    assert "result" in ask(later)
    took = time.perf_counter() - begun
    child.stdin.close()
    child.wait(timeout=60)
    return Start(ready, listed, called, memory, took, tools)


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        workspace, state = Path(scratch, "workspace"), Path(scratch, "state")
        examples = Path(__file__).parents[1] / "environments"
        example = next(p for p in sorted(examples.iterdir()) if (p / "pyproject.toml").is_file())
        shutil.copytree(example, workspace / "environments" / "example")
        ours = [sys.executable, "-m", "prime_lab_mcp", "serve"]
        ours += ["--workspace", str(workspace), "--state-dir", str(state)]
        status = _call("workflow_status", {})
        refused = {tool: _call(tool, {"environment": "example"}) for tool in ("push_environment", "submit_training")}
        tools = start(ours, status, status).tools
        bare = [sys.executable, "-m", "benchmarks.bare_server", str(tools)]
        nothing = _call("tool_0", {"environment": "example"})
        start(bare, nothing, nothing)
        pairs = [(start(ours, status, status), start(bare, nothing, nothing)) for _ in range(RUNS)]
        idle = {tool: [start(ours, None, call) for _ in range(IDLE_RUNS)] for tool, call in refused.items()}
        bare_idle = [start(bare, None, nothing) for _ in range(IDLE_RUNS)]
    for name, field in (("answered initialize", "ready"), ("answered tools/list", "listed")):
        mine, theirs = (min(getattr(pair[side], field) for pair in pairs) for side in (0, 1))
        print(f"start to {name}: {mine:.3f} s, bare server with {tools} tools {theirs:.3f} s")
        if field == "listed":
            worst = claim("startup", "start to an answered tools/list, beside a bare server", mine / theirs, LISTED)
    late = min(a.called for a, _ in pairs) - min(b.called for _, b in pairs)
    memory = min(a.memory for runs in idle.values() for a in runs) / min(b.memory for b in bare_idle)
    return max(
        worst,
        claim("startup", "first real call, later than a bare server's", late * 1e3, LATER, "ms"),
        claim("startup", "memory at rest, beside a bare server", memory, MEMORY),
        *(
            claim("startup", f"first refusal of {tool}", min(a.later for a in runs) * 1e3, REFUSED, "ms")
            for tool, runs in idle.items()
        ),
    )
