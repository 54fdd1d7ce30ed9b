"""Judges, which are models that rewards ask: the configured judges, and the judges of observed requests.

Requests are observed in the openai client, because a reward may ask a judge without any class of verifiers, and because
rewards and rubrics turn an unreachable judge into a score of 0.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from . import coercion, observer
from .observer import Observation
from .protocol import JudgeReply

_KINDS = 5
"""Most different judges that are noted for one case."""
_DEPTH = 6


def observe_requests() -> None:
    """Observe all further requests of the openai client. A second call has no effect."""
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
    """Wrap a client's `__init__`: a client that cannot be made without a key counts as an unreachable judge."""

    @functools.wraps(init)
    def observed_init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            init(self, *args, **kwargs)
        except Exception as error:
            _failed(observer.current(), error)
            raise

    return observed_init


def _watched_async(request: Any) -> Any:
    @functools.wraps(request)
    async def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        observation = _asks(self, args, kwargs)
        try:
            return await request(self, *args, **kwargs)
        except BaseException as error:
            _failed(observation, error)
            raise

    return watched


def _watched(request: Any) -> Any:
    @functools.wraps(request)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        observation = _asks(self, args, kwargs)
        try:
            return request(self, *args, **kwargs)
        except BaseException as error:
            _failed(observation, error)
            raise

    return watched


def _asks(client: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Observation | None:
    """Note a request in the observation of the current case; None without a current case or a model in the request."""
    observation = observer.current()
    options = kwargs.get("options") or next((a for a in args if hasattr(a, "json_data")), None)
    body = getattr(options, "json_data", None)
    if observation is None or not isinstance(body, Mapping) or "model" not in body:
        return None
    judge = describe("", body.get("model"), body.get("temperature"), getattr(client, "base_url", None))
    if judge not in observation.judges and len(observation.judges) < _KINDS:
        observation.judges.append(judge)
    return observation


def _failed(observation: Observation | None, error: BaseException) -> None:
    if observation is None:
        return
    if isinstance(error, asyncio.CancelledError):
        observation.judge_cancelled = True
    elif observer.unreachable(error):
        observation.judge_unreachable(error)


def describe(name: str, model: Any, temperature: Any, url: Any) -> JudgeReply:
    """A judge as JSON data for the server."""
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
    """The judge rubrics of a v0 environment. Call it before their functions are wrapped."""
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
    """The judges that a task's and a taskset's config hold, plugged or for the task's own rewards (v1)."""
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
    """Everything in a config, with the name of the field it stands in."""
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
