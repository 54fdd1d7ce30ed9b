"""Judges: models that rewards ask. Which ones the environment configures, and which it really asks.

Runs in the environment's interpreter: standard library and what the environment has loaded. Requests are seen where
every call of the openai client passes, because a reward may ask without any class of verifiers, and because rewards and
rubrics turn a judge that cannot be asked into a score of 0.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

_KINDS = 5
"""Different judges that are told of one case."""
_DEPTH = 6
_OURS = frozenset({"BadRequestError", "UnprocessableEntityError", "APIResponseValidationError"})
"""The endpoint answered, and refused what it was asked: a fault of the one who asks."""
_UNREACHABLE = frozenset({
    "APIConnectionError", "APITimeoutError", "APIStatusError", "AuthenticationError", "PermissionDeniedError",
    "NotFoundError", "RateLimitError", "InternalServerError", "MissingKeyError", "ConnectError", "ConnectTimeout",
    "ReadTimeout", "ClientConnectorError",
})  # fmt: skip
"""Exceptions of the openai client, httpx and aiohttp, and verifiers' own for a key that is not set."""
_READS_HTTP = frozenset({"openai", "httpx", "httpcore", "aiohttp", "verifiers", "litellm", "anthropic"})


def unreachable(error: BaseException) -> bool:
    """Whether this, or what caused it, says that a model could not be asked: no connection, no key, no quota."""
    chain: BaseException | None = error
    for _ in range(20):
        if chain is None:
            return False
        kinds = {k.__name__ for k in type(chain).__mro__ if k.__module__.partition(".")[0] in _READS_HTTP}
        if kinds & _UNREACHABLE and not kinds & _OURS:
            return True
        if "OpenAIError" in kinds and any(word in str(chain) for word in ("api_key", "API_KEY", "credentials")):
            return True
        chain = chain.__cause__ or chain.__context__
    return False


def watch() -> None:
    """See every request of the openai client from now on. Once in a process."""
    client = sys.modules.get("openai._base_client")  # verifiers has imported it
    for name, watched in (("AsyncAPIClient", _watched_async), ("SyncAPIClient", _watched)):
        kind = getattr(client, name, None)
        request = getattr(kind, "request", None)
        if kind is not None and request is not None and not hasattr(request, "__wrapped__"):
            kind.request = watched(request)
    for name in ("OpenAI", "AsyncOpenAI"):
        kind = getattr(sys.modules.get("openai"), name, None)
        if kind is not None and not hasattr(kind.__init__, "__wrapped__"):
            kind.__init__ = _making(kind.__init__)


def _making(init: Any) -> Any:
    """A client that cannot be made, for want of a key, is a judge that cannot be asked."""

    @functools.wraps(init)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            init(self, *args, **kwargs)
        except Exception as error:
            _failed(_current(), error)
            raise

    return made


def _current() -> Any:
    return sys.modules["_prime_lab_worker_program"].sibling("watch").current()


def _watched_async(request: Any) -> Any:
    @functools.wraps(request)
    async def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen = _asks(self, args, kwargs)
        try:
            return await request(self, *args, **kwargs)
        except BaseException as error:
            _failed(seen, error)
            raise

    return watched


def _watched(request: Any) -> Any:
    @functools.wraps(request)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen = _asks(self, args, kwargs)
        try:
            return request(self, *args, **kwargs)
        except BaseException as error:
            _failed(seen, error)
            raise

    return watched


def _asks(client: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The case that is being scored, with this request noted. None outside of one, or for what is no question."""
    now = _current()
    options = kwargs.get("options") or next((a for a in args if hasattr(a, "json_data")), None)
    body = getattr(options, "json_data", None)
    if now is None or not isinstance(body, Mapping) or "model" not in body:
        return None
    told = told_of("", body.get("model"), body.get("temperature"), getattr(client, "base_url", None))
    if told not in now.judges and len(now.judges) < _KINDS:
        now.judges.append(told)
    return now


def _failed(seen: Any, error: BaseException) -> None:
    if seen is None:
        return
    if isinstance(error, asyncio.CancelledError):
        seen.cut = True
    elif unreachable(error):
        seen.unreachable(error)


def told_of(name: str, model: Any, temperature: Any, url: Any) -> dict[str, Any]:
    """A judge as data for the server."""
    text = sys.modules["_prime_lab_worker_program"].sibling("plain").text
    try:
        host = urlsplit(str(url or "")).netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    return {
        "name": text(name, 120),
        "model": text(model, 200) if model else "",
        "temperature": float(temperature) if number else None,
        "host": text(host, 200),
    }


def of_rubrics(verifiers: Any, leaves: list[Any]) -> list[dict[str, Any]]:
    """The judge rubrics of a v0 environment. Call it before their functions are wrapped."""
    kind: Any = getattr(verifiers, "JudgeRubric", None)
    found = []
    for rubric in leaves if isinstance(kind, type) else ():
        if isinstance(rubric, kind):
            names = ", ".join(str(getattr(fn, "__name__", "")) for fn in rubric.funcs)
            sampling = getattr(rubric, "judge_sampling_args", None) or {}
            url = getattr(getattr(rubric, "judge_client", None), "base_url", None)
            found.append(told_of(names, getattr(rubric, "judge_model", None), sampling.get("temperature"), url))
    return found


def of_configs(v1: Any, *configs: Any) -> list[dict[str, Any]]:
    """The judges that a task's and a taskset's config hold, plugged or for the task's own rewards (v1)."""
    kind: Any = getattr(v1, "JudgeConfig", None)
    found: list[dict[str, Any]] = []
    for config in configs if isinstance(kind, type) else ():
        for name, value in _values(config, "", 0):
            if isinstance(value, kind):
                sampling = getattr(value, "sampling", None)
                judge: Any = value
                told = told_of(
                    judge.name or judge.id or name, judge.model, getattr(sampling, "temperature", None), judge.base_url
                )
                if told not in found:
                    found.append(told)
    return found


def _values(value: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Everything in a config, with the name of the field it stands in."""
    yield name, value
    if depth >= _DEPTH:
        return
    fields = getattr(type(value), "model_fields", None)
    if isinstance(fields, Mapping):
        for field in fields:
            yield from _values(getattr(value, field, None), field, depth + 1)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _values(part, name, depth + 1)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _values(part, str(key), depth + 1)
