"""A local evaluation by an instant model: our in-process harness beside those that vf-eval ships, per rollout.

The same tasks, the same real vf-eval and the same scripted endpoint, in one run. `null` is the shipped chat harness;
`bash` is what vf-eval takes when no harness is named, here without the rented sandbox it would take with it. Both start
a `uv` script for every rollout, which needs its packages from an index once: where they cannot be had, that harness is
not measured, and neither is one that a loaded machine keeps from ending. Time is counted from the first rollout's start
to the last one's end: starting vf-eval is not in it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import prime_lab_mcp
from prime_lab_mcp.lab.authoring.assembly import Template
from prime_lab_mcp.lab.evals.runner.command import HARNESSES, IN_PROCESS_ID
from prime_lab_mcp.lab.rollouts.reading import read_rollouts
from prime_lab_mcp.lab.rollouts.rollout import Rollout

ROLLOUTS = int(os.environ.get("BENCH_ROLLOUTS", "16"))
AT_ONCE = 8
FRACTION = 0.25
"""The claim: a rollout by our harness takes at most this part of one by `null`."""
LIMIT = 90.0
"""Seconds for one evaluation: sixteen rollouts at a second or two each, and the start of vf-eval."""
_TEMPLATE = Path(prime_lab_mcp.__file__).parent / "resources" / "templates" / "numeric"
_KEY = "PRIME_LAB_RELAY_API_KEY"
_REPLY = "So it is <answer>7</answer>"


class _Instant(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        head = {"id": "c", "created": 1, "model": body["model"]}
        if not body.get("stream"):
            choice = {"index": 0, "message": {"role": "assistant", "content": _REPLY}, "finish_reason": "stop"}
            whole = {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
            return self._send("application/json", json.dumps(whole))
        said = {"index": 0, "delta": {"role": "assistant", "content": _REPLY}, "finish_reason": None}
        ended: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "stop"}
        chunks: list[dict[str, Any]] = [{"choices": [said]}, {"choices": [ended]}, {"choices": [], "usage": usage}]
        lines = [f"data: {json.dumps({**head, 'object': 'chat.completion.chunk', **chunk})}\n\n" for chunk in chunks]
        return self._send("text/event-stream", "".join([*lines, "data: [DONE]\n\n"]))

    def _send(self, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


@contextmanager
def instant_model() -> Iterator[str]:
    """The address of an endpoint that answers at once, always the same."""
    server = _Server(("127.0.0.1", 0), _Instant)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()


def evaluate(folder: Path, url: str, harness: str, rollouts: int) -> list[Rollout] | str:
    """The rollouts of one evaluation, or why there are none."""
    output = folder / f"{harness}-{rollouts}"
    config = {
        "env": {
            "taskset": {"id": "numeric_template"},
            "agent": {"harness": {"id": harness}, "runtime": {"type": "subprocess"}},
        },
        "model": "instant",
        "client": {"base_url": url, "api_key_var": _KEY},
        "sampling": {"max_tokens": 64},
        "select": {"shuffle": True, "seed": 0, "limit": rollouts},
        "num_rollouts": 1,
        "max_concurrent": AT_ONCE,
        "rich": None,
        "push": False,
        "output_dir": str(output),
        "run": {"name": "run"},
    }
    file = folder / f"{output.name}.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    Template(_TEMPLATE).write(folder / _TEMPLATE.name)
    paths = os.pathsep.join(map(str, (HARNESSES, folder / _TEMPLATE.name)))
    env = os.environ | {"PYTHONPATH": paths, _KEY: "none", "PRIME_RUNS_MODE": "disabled"}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    program = shutil.which("vf-eval", path=env["PATH"])
    if program is None:
        return "vf-eval is not installed"
    log = file.with_suffix(".log")
    code = ended([sys.executable, program, "@", str(file), "--clean"], folder, env, log)
    if code is None:
        return f"it did not end within {LIMIT:.0f} seconds"
    if code:
        return log.read_text(errors="replace").strip()[-300:]
    found = list(read_rollouts(output / "run" / "traces.jsonl"))
    failed = next((r.error for r in found if r.error), None)
    return found if failed is None else failed[-300:]


def ended(arguments: list[str], folder: Path, env: dict[str, str], log: Path) -> int | None:
    """The exit code of a program; None where it took too long. What it started ends with it."""
    with log.open("wb") as said:
        program = subprocess.Popen(
            arguments, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
    try:
        return program.wait(LIMIT)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()


def each(rollouts: list[Rollout]) -> float:
    """Seconds of the whole evaluation per rollout."""
    timings = [r.record["timing"] for r in rollouts]
    ends = [s["end"] for t in timings for s in t.values() if isinstance(s, dict) and isinstance(s.get("end"), float)]
    return float(max(ends) - min(t["start"] for t in timings)) / len(rollouts)


def measure(folder: Path) -> int:
    took: dict[str, float] = {}
    rewards: dict[str, list[tuple[str, float | None]]] = {}
    with instant_model() as url:
        for harness in (IN_PROCESS_ID, "null", "bash"):
            warm = evaluate(folder, url, harness, 1)
            found = evaluate(folder, url, harness, ROLLOUTS) if not isinstance(warm, str) else warm
            if isinstance(found, str):
                print(f"{harness}: not measured: {found}")
                continue
            took[harness] = each(found)
            rewards[harness] = sorted((r.task, r.reward) for r in found)
            ratio = f", {took[harness] / took[IN_PROCESS_ID]:.1f} times ours" if harness != IN_PROCESS_ID else ""
            print(f"{ROLLOUTS} rollouts, {AT_ONCE} at once, by {harness}: {took[harness] * 1000:.0f} ms each{ratio}")
    if IN_PROCESS_ID not in took:
        return 1
    if any(found != rewards[IN_PROCESS_ID] for found in rewards.values()):
        raise RuntimeError("the harnesses earned different rewards")
    if "null" not in took:
        print("eval harness: nothing to compare with")
        return 0
    held = took[IN_PROCESS_ID] <= FRACTION * took["null"]
    print(f"eval harness: {'holds' if held else 'DOES NOT HOLD'}: at most {FRACTION} of `null` a rollout")
    return 0 if held else 1


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        return measure(Path(scratch))
