"""The inference endpoint: a model list with prices, and OpenAI-compatible chat completions with optional streaming."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from prime_lab_mcp.rehearsal import account, curves, faults, runs, zeros
from prime_lab_mcp.rehearsal.answers import AnswerBook, parse_row
from prime_lab_mcp.rehearsal.call import Answer, PlatformCall, PlatformRoute, Raw, Refusal, as_json
from prime_lab_mcp.rehearsal.model import Conversation, ScriptedReply, answer
from prime_lab_mcp.rehearsal.skill import MODELS, TRAINABLE
from prime_lab_mcp.rehearsal.store import Body, Session

PREFIX = "/inference/v1"
ANSWERS_VERSION = "answers-version"
ANSWERS_FILE = "answers.jsonl"
SLOW_SECONDS = 5.0
_FAULTY = "rehearsal/fault-"
_STEP = re.compile(r"(?:-step-(\d{1,6}))?")
_PIECE = 16
"""Length of one streamed chunk in characters."""
_PRICES = {
    "Qwen/Qwen3-0.6B": (0.02, 0.06),
    "Qwen/Qwen3-4B-Instruct-2507": (0.06, 0.18),
    "openai/gpt-4.1-mini": (0.4, 1.6),
}
_DEFAULT_PRICE = (0.1, 0.4)
_BOOKS: dict[Path, tuple[tuple[float, int], AnswerBook]] = {}


def price_of(model: str) -> tuple[float, float]:
    """Invented prices in US dollars per million prompt and completion tokens."""
    return _PRICES.get(model, _DEFAULT_PRICE)


def models(call: PlatformCall) -> Answer:
    return {"object": "list", "data": [_described(name) for name in MODELS]}


def trained(call: PlatformCall, name: str) -> float | None:
    """Skill of a run's checkpoint, which is served as `RUN_NAME` or `RUN_NAME-step-N`; None for other names."""
    for run in call.session.all("run"):
        rest = name.removeprefix(str(run["name"]))
        if rest == name or not (match := _STEP.fullmatch(rest)):
            continue
        done = runs.state(run, call.session.now()).steps_done
        step = min(int(match[1] or done), done)
        return curves.ability(run, step - 1) if step > 0 else None
    return None


def model(call: PlatformCall) -> Answer:
    name = f"{call.path['owner']}/{call.path['name']}"
    if not exists(name):
        raise Refusal(404, f"Model {name} not found")
    return _described(name)


def _described(name: str) -> Body:
    price_in, price_out = price_of(name)
    return {
        "id": name,
        "object": "model",
        "created": 1_767_604_000,
        "owned_by": "rehearsal",
        "display_name": f"{name} (rehearsal, skill {MODELS.get(name, 0):.2f})",
        "serving": "hosted" if name in TRAINABLE else "gateway",
        "pricing": {"input_usd_per_mtok": price_in, "output_usd_per_mtok": price_out},
        "specs": {"context_window": 32768, "max_output_tokens": 8192, "supports_reasoning": False},
    }


def exists(name: str) -> bool:
    return name in MODELS or name.startswith(("rehearsal/skill-", _FAULTY)) or zeros.kind_of(name) is not None


def book(session: Session, folder: Path) -> AnswerBook:
    """Registered answers and those in `answers.jsonl`, read again only after a change."""
    file = folder / ANSWERS_FILE
    version = (session.value(ANSWERS_VERSION), file.stat().st_mtime_ns if file.is_file() else 0)
    held = _BOOKS.get(folder)
    if held is None or held[0] != version:
        rows = [*_file_rows(file), *session.all("answer")]
        held = _BOOKS[folder] = (version, AnswerBook.of(rows))
    return held[1]


def _file_rows(file: Path) -> Iterator[Body]:
    if not file.is_file():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        # An incomplete or invalid line must not stop the model.
        with suppress(ValueError):
            yield parse_row(json.loads(line))


def completions(call: PlatformCall) -> Answer:
    name, messages = call.body.get("model"), call.body.get("messages")
    if not isinstance(name, str) or not isinstance(messages, list) or not messages:
        return _error(422, "model and messages are required")
    skill = None if exists(name) else trained(call, name)
    if skill is None and not exists(name):
        return _error(404, f"model {name} does not exist on the rehearsal platform")
    if account.balance(call.session) <= 0:
        return _error(402, "Payment required: the rehearsal wallet is empty")
    kind, seconds = _fault(call, name)
    if kind in ("429", "500", "503"):
        return _error(int(kind), f"rehearsal fault {kind}")
    replies = [_reply(call, name, messages, skill) for _ in range(int(call.body.get("n") or 1))]
    if kind == "empty":
        replies = [ScriptedReply("", "stop", (), r.prompt_tokens, 0) for r in replies]
    _charge(call.session, name, replies)
    sent = _Sent(name, replies, call.body)
    if kind == "garbage":
        return Raw(b'data: {"choices": [\n\n' if sent.streams else b'{"choices": [', sent.media)
    pause = seconds if kind == "slow" else 0.0
    if sent.streams:
        events = list(sent.events())
        if kind == "cut":
            return Raw(b"".join(events[: max(1, len(events) // 2)]), sent.media, cut=True)
        return Raw(iter(events), sent.media, pause=pause)
    content = as_json(sent.whole())
    if kind == "cut":
        return Raw(content[: len(content) // 2], sent.media, cut=True)
    return Raw(content, sent.media, pause=pause)


def _fault(call: PlatformCall, name: str) -> tuple[str | None, float]:
    """The fault of this request, from the model's name or else from an ordered fault, and the delay of a slow one."""
    if (kind := zeros.kind_of(name)) is not None:
        fails = zeros.failure_kind(kind, Conversation.of(call.body["messages"])) == "infrastructure"
        return ("503" if fails else None), 0.0
    if name.startswith(_FAULTY):
        return name.removeprefix(_FAULTY), SLOW_SECONDS
    fault = faults.claim(call.session, "model", lambda f: f.get("model") is None or f["model"] in name)
    if fault is None:
        return None, 0.0
    return fault["kind"], float(fault.get("seconds", SLOW_SECONDS))


def _reply(call: PlatformCall, name: str, messages: list[Body], skill: float | None) -> ScriptedReply:
    kind = zeros.kind_of(name)
    limit = call.body.get("max_completion_tokens") or call.body.get("max_tokens")
    if kind is not None:
        called = any(m.get("role") == "assistant" for m in messages)
        talk = Conversation.of(messages)
        return zeros.reply(
            zeros.failure_kind(kind, talk),
            talk,
            book(call.session, call.store.folder),
            call.body.get("tools") or (),
            called=called,
            limit=int(limit) if limit else None,
        )
    digest = hashlib.sha256(json.dumps([name, messages], sort_keys=True).encode()).hexdigest()
    # Temperature 0 is greedy: the same messages always get the same reply.
    nth = 0 if call.body.get("temperature") == 0 else int(call.session.add(f"calls-{digest}"))
    return answer(
        name,
        Conversation.of(messages),
        book(call.session, call.store.folder),
        nth=nth,
        limit=int(limit) if limit else None,
        tools=bool(call.body.get("tools")),
        skill=skill,
    )


def _charge(session: Session, name: str, replies: list[ScriptedReply]) -> None:
    price_in, price_out = price_of(name)
    used = sum(r.prompt_tokens * price_in + r.completion_tokens * price_out for r in replies)
    session.add(account.SPENT_INFERENCE, used / 1_000_000)


def _error(status: int, message: str) -> Raw:
    body = {"error": {"message": message, "type": "rehearsal", "code": status}, "detail": message}
    return Raw(as_json(body), "application/json", status)


class _Sent:
    """A completion in the two forms of the OpenAI protocol."""

    def __init__(self, model: str, replies: list[ScriptedReply], body: Body) -> None:
        text = "\0".join(r.text for r in replies)
        digest = hashlib.sha256(f"{model}\0{text}".encode()).hexdigest()
        self.head: Body = {"id": f"chatcmpl-{digest[:24]}", "created": 1_767_604_000, "model": model}
        self.replies = replies
        self.streams = bool(body.get("stream"))
        self.media = "text/event-stream" if self.streams else "application/json"
        self.with_usage = bool((body.get("stream_options") or {}).get("include_usage"))

    def usage(self) -> Body:
        prompt = self.replies[0].prompt_tokens
        completion = sum(r.completion_tokens for r in self.replies)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }

    def whole(self) -> Body:
        choices = []
        for index, reply in enumerate(self.replies):
            message: Body = {"role": "assistant", "content": reply.text}
            if reply.calls:
                message |= {"content": None, "tool_calls": _calls(reply, streamed=False)}
            choices.append({"index": index, "message": message, "finish_reason": reply.finish})
        return self.head | {"object": "chat.completion", "choices": choices, "usage": self.usage()}

    def events(self) -> Iterator[bytes]:
        for index, reply in enumerate(self.replies):
            yield self._event(index, {"role": "assistant", "content": ""})
            for start in range(0, len(reply.text), _PIECE):
                yield self._event(index, {"content": reply.text[start : start + _PIECE]})
            if reply.calls:
                yield self._event(index, {"tool_calls": _calls(reply, streamed=True)})
            yield self._event(index, {}, reply.finish)
        if self.with_usage:
            chunk = {"object": "chat.completion.chunk", "choices": [], "usage": self.usage()}
            yield _sse(self.head | chunk)
        yield b"data: [DONE]\n\n"

    def _event(self, index: int, delta: Body, finish: str | None = None) -> bytes:
        choice = {"index": index, "delta": delta, "finish_reason": finish}
        return _sse(self.head | {"object": "chat.completion.chunk", "choices": [choice]})


def _calls(reply: ScriptedReply, *, streamed: bool) -> list[Body]:
    calls: list[Body] = []
    for index, call in enumerate(reply.calls):
        # `raw` holds arguments that are not valid JSON.
        arguments = call["raw"] if "raw" in call else json.dumps(call.get("arguments") or {})
        one: Body = {
            "id": f"call_{index}",
            "type": "function",
            "function": {"name": call["name"], "arguments": arguments},
        }
        calls.append({"index": index, **one} if streamed else one)
    return calls


def _sse(body: Body) -> bytes:
    return b"data: " + as_json(body) + b"\n\n"


ENDPOINTS = (
    PlatformRoute("GET", f"{PREFIX}/models", models, public=True),
    PlatformRoute("GET", f"{PREFIX}/models/{{owner}}/{{name}}", model, public=True),
    PlatformRoute("POST", f"{PREFIX}/chat/completions", completions),
)
