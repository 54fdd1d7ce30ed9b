"""A tiny OpenAI-compatible server on loopback, scripted by the test; answers plain and streamed."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[[dict[str, Any], int], str | int | dict[str, Any]]
"""From the request and how often this prompt was asked before: the text, an HTTP status to fail with, or a tool call
(its name and arguments as text)."""


class ScriptedModel(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def __init__(
        self, reply: Reply, gate: threading.Event | None = None, retry_after: str | None = None, port: int = 0
    ) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.reply = reply
        self.gate = gate
        self.retry_after = retry_after
        self.lock = threading.Lock()
        self.asked: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.headers: list[str] = []
        """All headers of every request, those for the list of models among them."""
        self.requests: list[dict[str, Any]] = []
        self.prices: dict[str, dict[str, float]] = {}
        """Listed prices by model, beside the model `scripted`."""
        self.reports = True
        """Whether answers report their tokens."""
        self.answers_as: str | None = None
        """The model that answers name; None for the model of the request."""
        self.listing: tuple[int, str] | None = None
        """Status and text in place of the list of models."""
        self.whole: tuple[str, str] | None = None
        """Media type and text of every answer, in place of what `reply` says."""
        self.request_id: str | None = None
        """A header of every answer."""
        self.arrived = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedModel

    def do_GET(self) -> None:
        self.server.headers.append(str(self.headers))
        if self.server.listing is not None:
            status, text = self.server.listing
            self._raw(status, "application/json", text.encode())
            return
        listed: dict[str, dict[str, Any]] = {"scripted": {}}
        listed |= {name: {"pricing": price} for name, price in self.server.prices.items()}
        self._send(200, {"object": "list", "data": [{"id": m, "object": "model", **row} for m, row in listed.items()]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        server = self.server
        with server.lock:
            server.headers.append(str(self.headers))
            server.keys.add(self.headers.get("authorization", ""))
            server.requests.append(body)
            prompt = str(body["messages"][-1]["content"] if "messages" in body else body.get("input"))
            before = server.asked[prompt]
            server.asked[prompt] += 1
        server.arrived.set()
        if server.gate is not None:
            server.gate.wait(60)
        if server.whole is not None:
            self._raw(200, server.whole[0], server.whole[1].encode())
            return
        reply = server.reply(body, before)
        body = {**body, "model": server.answers_as or body.get("model")}
        if isinstance(reply, int):
            key = self.headers.get("authorization", "")
            self._send(reply, {"error": {"message": f"scripted {reply} for {key}", "code": reply}})
        elif body.get("stream"):
            self._stream(body, reply)
        else:
            answer = _completion(body, reply)
            self._send(200, answer if server.reports else {k: v for k, v in answer.items() if k != "usage"})

    def _stream(self, body: dict[str, Any], said: str | dict[str, Any]) -> None:
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
        deltas: list[dict[str, Any]] = (
            [{"role": "assistant", "content": part} for part in (said[: len(said) // 2], said[len(said) // 2 :])]
            if isinstance(said, str)
            else [
                {
                    "role": "assistant",
                    "tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": said}],
                }
            ]
        )
        chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
        reason = "stop" if isinstance(said, str) else "tool_calls"
        chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
        if (body.get("stream_options") or {}).get("include_usage") and self.server.reports:
            chunks.append({"choices": [], "usage": _usage()})
        lines = [f"data: {json.dumps(head | chunk)}\n\n" for chunk in chunks]
        self._raw(200, "text/event-stream", "".join([*lines, "data: [DONE]\n\n"]).encode())

    def _send(self, status: int, body: dict[str, Any]) -> None:
        self._raw(status, "application/json", json.dumps(body).encode())

    def _raw(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        if self.server.request_id is not None:
            self.send_header("x-request-id", self.server.request_id)
        if status in (429, 503) and self.server.retry_after is not None:
            self.send_header("retry-after", self.server.retry_after)
        with suppress(BrokenPipeError, ConnectionResetError):  # who asked may be gone
            self.end_headers()
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def _usage() -> dict[str, int]:
    return {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def _completion(body: dict[str, Any], said: str | dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said if isinstance(said, str) else None}
    if not isinstance(said, str):
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": said}]
    choice = {"index": 0, "message": message, "finish_reason": "stop" if isinstance(said, str) else "tool_calls"}
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": body["model"]}
    return head | {"choices": [choice], "usage": _usage()}


@contextmanager
def serving(
    reply: Reply, gate: threading.Event | None = None, retry_after: str | None = None, port: int = 0
) -> Iterator[ScriptedModel]:
    """The server, running in threads."""
    server = ScriptedModel(reply, gate, retry_after, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        if gate is not None:
            gate.set()
        server.shutdown()
        server.server_close()


def adds(body: dict[str, Any], before: int) -> str:
    """Answers sums: right in every second try, always in the asked form."""
    found = re.findall(r"(\d+)\+(\d+)", str(body["messages"][-1]["content"]))
    value = sum(map(int, found[-1])) if found else 0
    return f"<answer>{value if before % 2 == 0 else -1}</answer>"
