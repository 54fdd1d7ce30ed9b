"""Sends fuzzed messages over stdio and HTTP: each request is answered, the server lives, and does not grow."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from tests.endurance.messages import Messages
from tests.endurance.servers import HttpServer, Place, StdioServer, Usage, report
from tests.endurance.tally import Tally
from tests.server.test_stdio import HELLO

_BATCH = 25
_PATIENCE = 60.0
_WARM = 0.25
"""Share of the messages after which growth is measured: by then every tool and library is loaded."""
_GROWTH = 60_000
"""Kilobytes that a server may grow by after that."""


def fuzz_stdio(place: Place, tally: Tally, seed: int, more: Callable[[int], bool], warm: int) -> None:
    """Send batches to one server until `more(sent)` is false. Growth counts from `warm` messages on."""
    messages, server, sent = Messages(seed), StdioServer(place).start(), 0
    before: Usage | None = None
    while more(sent):
        batch = [messages.next() for _ in range(_BATCH)]
        if not server.send(b"".join(line for line, _ in batch)):
            break
        for line, id in batch:
            if id is None:
                continue
            answer = server.answer(id, _PATIENCE)
            if answer is None:
                if server.process.poll() is None:
                    tally.flaw("unanswered", line.decode("utf-8", "replace"))
                break
            _judge(answer, line, tally)
        sent += len(batch)
        tally.count("messages over stdio", len(batch))
        if before is None and sent >= warm:
            before = Usage(server.process.pid)
        if server.process.poll() is not None:
            break
    if server.process.poll() is not None:
        tally.flaw("crashes", f"the server over stdio ended with {server.process.returncode} after {sent} messages")
        return
    _grown(before, Usage(server.process.pid), f"stdio, {sent - warm:,} messages", tally)
    if server.garbage:
        tally.flaw("crashes", f"stdout held what is no message: {server.garbage[0]!r}")
    if (code := server.end()) != 0:
        tally.flaw("crashes", f"the server over stdio ended with {code} at the end of its input")


def fuzz_http(place: Place, tally: Tally, seed: int, more: Callable[[int], bool], warm: int, clients: int = 3) -> None:
    """Send single messages from several clients until `more(sent)` is false."""
    server, lock = HttpServer(place), threading.Lock()
    sent = 0
    before: list[Usage] = []

    def client(number: int) -> None:
        nonlocal sent
        messages = Messages(seed + number)
        headers = {
            "Authorization": f"Bearer {server.token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        with httpx.Client(timeout=_PATIENCE, trust_env=False) as http:
            opened = http.post(server.url, json=HELLO, headers=headers)
            if session := opened.headers.get("mcp-session-id"):
                headers["mcp-session-id"] = session
            headers["mcp-protocol-version"] = "2025-11-25"
            http.post(server.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
            while more(sent):
                line, id = messages.next()
                try:
                    answer = http.post(server.url, content=line, headers=headers)
                except httpx.HTTPError as error:
                    tally.flaw("unanswered", f"{type(error).__name__}: {line[:300]!r}")
                    if server.process.poll() is not None:
                        return
                    continue
                if answer.status_code >= 500:
                    tally.flaw("crashes", f"HTTP {answer.status_code} to {line[:300]!r}")
                elif answer.status_code == 400 and '"error"' in answer.text:
                    tally.count("messages over HTTP that were refused")
                elif id is not None:
                    found = _found(answer.text, id)
                    if found is None:
                        tally.flaw("unanswered", f"HTTP {answer.status_code} without an answer to {line[:300]!r}")
                    else:
                        _judge(found, line, tally)
                with lock:
                    sent += 1
                    tally.count("messages over HTTP")
                    if not before and sent >= warm:
                        before.append(Usage(server.process.pid))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if server.process.poll() is not None:
        tally.flaw("crashes", f"the server over HTTP ended with {server.process.returncode} after {sent} messages")
        return
    _grown(before[0] if before else None, Usage(server.process.pid), f"HTTP, {sent - warm:,} messages", tally)
    if (code := server.end()) != -signal.SIGTERM:
        tally.flaw("crashes", f"the server over HTTP ended with {code} at SIGTERM")


def break_pipes(place: Place, tally: Tally, times: int) -> None:
    """Clients that close a pipe in the middle: the server ends by itself, soon and without a traceback."""
    for number in range(times):
        server = StdioServer(place).start()
        server.ask("tools/call", {"name": "workflow_status", "arguments": {}})
        if number % 3 == 0:
            server.send(b'{"jsonrpc": "2.0", "id": 5, "meth')
        elif number % 3 == 1:
            time.sleep(0.3)
        else:
            server.stop_reading()
            for _ in range(20):
                server.ask("tools/list")
        tally.count("broken pipes")
        if server.end() is None:
            tally.flaw("crashes", f"a server whose client broke off (way {number % 3}) did not end")


def _judge(answer: Any, line: bytes, tally: Tally) -> None:
    text = json.dumps(answer)
    if '"internal-error"' in text or "Internal error" in text or "Internal server error" in text:
        tally.flaw("crashes", f"an internal error: {line[:250]!r}: {text[:150]}")
    content = report(answer)
    if content is not None:
        tally.count(f"reports: {content.get('status')}")


def _found(body: str, id: Any) -> Any:
    """The answer to a request in a body of JSON or of events."""
    for line in body.splitlines():
        text = line.removeprefix("data:").strip()
        if text.startswith("{"):
            message = json.loads(text)
            if message.get("id") == id and "method" not in message:
                return message
    return None


def _grown(before: Usage | None, after: Usage, what: str, tally: Tally) -> None:
    if before is None:
        return
    tally.measured[f"growth over {what}"] = f"{before} -> {after}"
    if after.kilobytes - before.kilobytes > _GROWTH:
        tally.flaw("growth", f"{what}: {before} -> {after}")
    if after.descriptors > before.descriptors + 20 or after.threads > before.threads + 20:
        tally.flaw("growth", f"{what}: {before} -> {after}")
