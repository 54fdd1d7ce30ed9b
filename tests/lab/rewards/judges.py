"""A loopback judge: an OpenAI-compatible endpoint that answers what a function makes of a question."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[str], str | None]
"""From the text of a question to what the judge says; None: the endpoint fails."""
KEY = "real-key-of-the-judge"


class Judge(ThreadingHTTPServer):
    """`asked` are the bodies of all questions, `keys` what came as authorization."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, answer: Answer, price: dict[str, float] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.price = price
        self.asked: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Judge

    def do_GET(self) -> None:
        models = [{"id": "judge-model-1", "object": "model", "pricing": self.server.price}]
        self._send(200, {"object": "list", "data": models})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(body)
        self.server.keys.add(self.headers["authorization"])
        said = self.server.answer(body["messages"][-1]["content"])
        if said is None:
            return self._send(503, {"error": {"message": "overloaded"}})
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 3, "total_tokens": 103}
        head = {"id": "j", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice]}
        return self._send(200, head | {"usage": usage})

    def _send(self, status: int, told: dict[str, Any]) -> None:
        content = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@contextmanager
def judging(answer: Answer, price: dict[str, float] | None = None) -> Iterator[Judge]:
    """The endpoint, running in threads."""
    server = Judge(answer, price)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
