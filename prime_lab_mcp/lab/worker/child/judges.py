"""Finds the judges of an environment: the models that its rewards ask. They come from configs and observed requests.

The module observes requests in the openai client. A reward may ask a judge without using a class of verifiers, and
rewards and rubrics often turn an unreachable judge into a score of 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from . import coercion, observer
from .observer import Observation
from .protocol import JudgeReply

_MOST_JUDGES = 5
"""Most different judges that are noted for one case."""
_DEPTH = 6
_QUESTION = 20_000
"""Most characters of a question to a stand-in that are reported."""


class StandIn:
    """Answers every question to a judge with the same text, so that nothing is sent. `questions` are the questions."""

    def __init__(self, verdict: str) -> None:
        self.verdict = verdict
        self.questions: list[str] = []

    def answered(self, kind: Any, body: Mapping[str, Any]) -> Any:
        """Return the reply of a chat completion as the openai client would; None for any other request."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not hasattr(kind, "model_validate"):
            return None
        texts = [coercion.text(m.get("content"), _QUESTION) for m in messages if isinstance(m, Mapping)]
        self.questions.append("\n".join(texts)[-_QUESTION:])
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "logprobs": None,
            "message": {"role": "assistant", "content": self.verdict, "refusal": None},
        }
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        reply = {"id": "stand-in", "object": "chat.completion", "created": 0, "model": str(body.get("model"))}
        return kind.model_validate({**reply, "choices": [choice], "usage": usage})


_stand_ins: list[StandIn] = []
"""The stand-in that answers now, if any."""


@contextlib.contextmanager
def standing_in(verdict: str | None) -> Iterator[StandIn | None]:
    """Answer all questions to judges with `verdict`; with None, questions are sent."""
    if verdict is None:
        yield None
        return
    stand_in = StandIn(verdict)
    _stand_ins[:] = [stand_in]
    try:
        yield stand_in
    finally:
        _stand_ins.clear()


def _stand_in_reply(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Return the stand-in's reply to a request; None if none answers, or if the request is no chat completion."""
    options = kwargs.get("options") or next((a for a in args if hasattr(a, "json_data")), None)
    body = getattr(options, "json_data", None)
    kind = kwargs.get("cast_to") or next((a for a in args if isinstance(a, type)), None)
    reply = _stand_ins[0].answered(kind, body) if _stand_ins and isinstance(body, Mapping) else None
    parse = getattr(options, "post_parser", None)  # what reads a structured reply
    return parse(reply) if reply is not None and callable(parse) else reply


def observe_requests() -> None:
    """Observe all later requests of the openai client. A second call has no effect."""
    client = sys.modules.get("openai._base_client")  # verifiers has imported it
    for name, watched in (("AsyncAPIClient", _watched_async), ("SyncAPIClient", _watched)):
        kind = getattr(client, name, None)
        request = getattr(kind, "request", None)
        if kind is not None and request is not None and not hasattr(request, "__wrapped__"):
            kind.request = watched(request)
    for name in ("OpenAI", "AsyncOpenAI"):
        kind = getattr(sys.modules.get("openai"), name, None)
        if kind is not None and not hasattr(kind.__init__, "__wrapped__"):
            kind.__init__ = _observed_init(kind.__init__)


def _observed_init(init: Any) -> Any:
    """Wrap `__init__` of an openai client. A client that raises for a missing key counts as an unreachable judge."""

    @functools.wraps(init)
    def observed_init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            init(self, *args, **kwargs)
        except Exception as error:
            _note_failure(observer.current(), error)
            raise

    return observed_init


def _watched_async(request: Any) -> Any:
    @functools.wraps(request)
    async def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        observation = _note_request(self, args, kwargs)
        reply = _stand_in_reply(args, kwargs)
        if reply is not None:
            return reply
        try:
            return await request(self, *args, **kwargs)
        except BaseException as error:
            _note_failure(observation, error)
            raise

    return watched


def _watched(request: Any) -> Any:
    @functools.wraps(request)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        observation = _note_request(self, args, kwargs)
        reply = _stand_in_reply(args, kwargs)
        if reply is not None:
            return reply
        try:
            return request(self, *args, **kwargs)
        except BaseException as error:
            _note_failure(observation, error)
            raise

    return watched


def _note_request(client: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Observation | None:
    """Note the judge of a request in the observation of the current case, and return that observation.

    Returns None if no case is being scored or the request names no model.
    """
    observation = observer.current()
    options = kwargs.get("options") or next((a for a in args if hasattr(a, "json_data")), None)
    body = getattr(options, "json_data", None)
    if observation is None or not isinstance(body, Mapping) or "model" not in body:
        return None
    judge = describe("", body.get("model"), body.get("temperature"), getattr(client, "base_url", None))
    if judge not in observation.judges and len(observation.judges) < _MOST_JUDGES:
        observation.judges.append(judge)
    return observation


def _note_failure(observation: Observation | None, error: BaseException) -> None:
    if observation is None:
        return
    if isinstance(error, asyncio.CancelledError):
        observation.judge_cancelled = True
    elif observer.unreachable(error):
        observation.judge_unreachable(error)


def describe(name: str, model: Any, temperature: Any, url: Any) -> JudgeReply:
    """Describe a judge as JSON data for the server."""
    try:
        host = urlsplit(str(url or "")).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    return {
        "name": coercion.text(name, 120),
        "model": coercion.text(model, 200) if model else "",
        "temperature": float(temperature) if number else None,
        "host": coercion.text(host, 200),
    }


def of_rubrics(verifiers: Any, leaves: list[Any]) -> list[JudgeReply]:
    """Return the judges of the judge rubrics among `leaves` (v0). Call it before their functions are wrapped."""
    kind: Any = getattr(verifiers, "JudgeRubric", None)
    rubric_judges = []
    for rubric in leaves if isinstance(kind, type) else ():
        if isinstance(rubric, kind):
            names = ", ".join(str(getattr(fn, "__name__", "")) for fn in rubric.funcs)
            sampling = getattr(rubric, "judge_sampling_args", None) or {}
            url = getattr(getattr(rubric, "judge_client", None), "base_url", None)
            rubric_judges.append(
                describe(names, getattr(rubric, "judge_model", None), sampling.get("temperature"), url)
            )
    return rubric_judges


def of_configs(v1: Any, *configs: Any) -> list[JudgeReply]:
    """Return the judges in the configs of a task and its taskset (v1)."""
    kind: Any = getattr(v1, "JudgeConfig", None)
    config_judges: list[JudgeReply] = []
    for config in configs if isinstance(kind, type) else ():
        for name, value in _config_fields(config, "", 0):
            if isinstance(value, kind):
                sampling = getattr(value, "sampling", None)
                judge: Any = value
                judge_info = describe(
                    judge.name or judge.id or name, judge.model, getattr(sampling, "temperature", None), judge.base_url
                )
                if judge_info not in config_judges:
                    config_judges.append(judge_info)
    return config_judges


def _config_fields(value: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield every value in a config, nested ones too, with the name of its field."""
    yield name, value
    if depth >= _DEPTH:
        return
    fields = getattr(type(value), "model_fields", None)
    if isinstance(fields, Mapping):
        for field in fields:
            yield from _config_fields(getattr(value, field, None), field, depth + 1)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _config_fields(part, name, depth + 1)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _config_fields(part, str(key), depth + 1)
