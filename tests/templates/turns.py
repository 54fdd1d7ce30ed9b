"""A loopback model that is scripted turn by turn, tool calls included, and the real `vf-eval` run against it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.evals.runner.command import HARNESSES, IN_PROCESS_ID

Calls = Sequence[tuple[str, Any]]
"""Tool calls of one turn: name, and arguments as a value or as raw text."""
Script = Callable[[list[dict[str, Any]]], str | Calls]
"""From the conversation so far to what the model says next: a text, or tool calls."""


class TurnModel(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.tools: list[dict[str, Any]] = []
        self.failures: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: TurnModel

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.tools = body.get("tools") or self.server.tools
        try:
            message = _message(self.server.script(body["messages"]), len(body["messages"]))
        except Exception as error:
            self.server.failures.append(repr(error))
            return self._send(400, "application/json", json.dumps({"error": {"message": repr(error)}}))
        reason = "tool_calls" if "tool_calls" in message else "stop"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        head = {"id": "c", "created": 1, "model": body["model"], "usage": usage}
        kind = "chat.completion.chunk" if body.get("stream") else "chat.completion"
        head |= {"object": kind}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            whole = head | {"choices": [choice]}
            return self._send(200, "application/json", json.dumps(whole))
        chunks = [
            head
            | {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            head | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        ]
        lines = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        self._send(200, "text/event-stream", "".join([*lines, "data: [DONE]\n\n"]))

    def _send(self, status: int, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def _message(said: str | Calls, turn: int) -> dict[str, Any]:
    if isinstance(said, str):
        return {"role": "assistant", "content": said}
    calls = [
        {
            "index": number,
            "id": f"call_{turn}_{number}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for number, (name, given) in enumerate(said)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


@contextmanager
def talking(script: Script) -> Iterator[TurnModel]:
    """The server, running in threads."""
    server = TurnModel(script)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def evaluate(folder: Path, scratch: Path, url: str, *, tasks: int = 1, **taskset: Any) -> list[dict[str, Any]]:
    """The trace of a rollout of each of the first tasks, all of them sound, through the real `vf-eval`."""
    found = episodes(folder, scratch, url, tasks=tasks, **taskset)
    for episode in found:
        assert episode["ok"], (episode["errors"], [trace["errors"] for trace in episode["traces"]])
        assert len(episode["traces"]) == 1
    return [episode["traces"][0] for episode in found]


def episodes(folder: Path, scratch: Path, url: str, *, tasks: int = 1, **taskset: Any) -> list[dict[str, Any]]:
    """Run the real `vf-eval` of verifiers 0.4 as run_eval does; what it recorded, in task order, failures included."""
    module = folder.name if (folder / folder.name).is_dir() else f"{folder.name}_template"
    config = {
        "env": {
            "taskset": {"id": module, **taskset},
            "agent": {"harness": {"id": IN_PROCESS_ID}, "runtime": {"type": "subprocess"}},
        },
        "model": "scripted",
        "client": {"api_key_var": "SCRIPTED_API_KEY", "base_url": url},
        "select": {"limit": tasks},
        "num_rollouts": 1,
        "rich": None,
        "push": False,
        "output_dir": str(scratch / "out"),
        "run": {"name": "run"},
    }
    scratch.mkdir(parents=True, exist_ok=True)
    (scratch / "eval.json").write_text(json.dumps(config), encoding="utf-8")
    variables = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(scratch / "home"),
        "PYTHONPATH": os.pathsep.join([str(HARNESSES), str(folder)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PRIME_RUNS_MODE": "disabled",
        "SCRIPTED_API_KEY": "none",
        "NO_PROXY": "127.0.0.1,localhost",
    }
    program = str(Path(sys.executable).parent / "vf-eval")
    command = [sys.executable, program, "@", str(scratch / "eval.json"), "--clean"]
    done = subprocess.run(command, env=variables, cwd=scratch, capture_output=True, text=True, timeout=240, check=False)
    found = scratch / "out" / "run" / "traces.jsonl"
    assert done.returncode == 0, done.stderr[-3000:]
    assert found.is_file(), done.stderr[-3000:]
    recorded = [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()]
    return sorted(recorded, key=lambda episode: int(episode["task"]["data"]["idx"]))


def said(trace: dict[str, Any]) -> list[tuple[str, str]]:
    """(role, text) of every message of a trace, in order."""
    return [(node["message"]["role"], str(node["message"].get("content") or "")) for node in trace["nodes"]]


def earned(trace: dict[str, Any]) -> float:
    """The reward of a trace."""
    return sum(part["score"] * part["weight"] for part in trace["rewards"].values())
