"""The adapter for v0 environments (verifiers 0.1 to 0.3): `load_environment`, its dataset, its rubric.

Rewards run through `env.rubric` on a State with messages, as after a rollout. The rubric swallows what reward functions
raise, so every function is wrapped, and the rubric's loggers are listened to.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import hashlib
import importlib
import inspect
import json
import logging
import random
import sys
import time
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any, cast

_HIDDEN = ("prompt", "example_id", "task", "env_id")


def _sibling(name: str) -> Any:
    return sys.modules["_prime_lab_worker_program"].sibling(name)


class Adapter:
    """One loaded environment. Row indices count the training rows first, then the evaluation rows."""

    api = "v0"

    def __init__(self) -> None:
        self.verifiers: Any = importlib.import_module("verifiers")
        self.types: Any = importlib.import_module("verifiers.types")
        self.plain: Any = _sibling("plain")
        self.seen: Any = _sibling("watch").Seen()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.scores: list[tuple[str, float, Any]] = []
        self.scored = False

    def load(self, module: ModuleType, request: dict[str, Any]) -> dict[str, Any]:
        """Call `load_environment` with `env_args`."""
        started = time.monotonic()
        build = getattr(module, "load_environment", None)
        if not callable(build):
            raise AttributeError(f"{module.__name__} has no function load_environment")
        self.build = build
        self.env = build(**_coerced(build, request["env_args"]))
        if not isinstance(self.env, self.verifiers.Environment):
            raise TypeError(f"load_environment returned {type(self.env).__name__}, not a verifiers Environment")
        self.train, self.eval = _tables(self.env)
        self.client = _client()
        self.leaves = list(_leaves(self.env.rubric))
        _sibling("judges").watch()
        judges = _sibling("judges").of_rubrics(self.verifiers, self.leaves)
        rewards = [self._info(fn, w, rubric) for rubric in self.leaves for fn, w in zip(rubric.funcs, rubric.weights)]  # noqa: B905
        self.grouped = any(r["kind"] == "group" for r in rewards)
        self.weights = [(r["name"], r["weight"]) for r in rewards]
        for rubric in self.leaves:
            self._listen(rubric)
        table = self.train if self.train is not None else self.eval
        return {
            "kind": type(self.env).__name__,
            "tasks": len(table) if table is not None else 0,
            "infinite": False,
            "turns": _sibling("rollouts_v0").applies(self),
            "rewards": rewards,
            "fields": [c for c in table.column_names if c not in _HIDDEN] if table is not None else [],
            "system_prompt": self.plain.plain(getattr(self.env, "system_prompt", None)),
            "judges": judges,
            "seconds": time.monotonic() - started,
        }

    def facts(self) -> dict[str, Any]:
        """Arguments, and how the rubrics' parsers stand to the environment's."""
        parser = type(getattr(self.env, "parser", None)).__name__
        return {
            "args": list(_args(self.build, self.plain)),
            "held_out": "eval_dataset" if self.train is not None and self.eval is not None else None,
            "parsers": [
                {"function": _name(fn), "given": type(rubric.parser).__name__, "environment": parser}
                for rubric in self.leaves
                for fn in rubric.funcs
                if getattr(rubric, "parser", None) is not None and _takes(fn, "parser")
            ],
        }

    def _info(self, fn: Any, weight: Any, rubric: Any) -> dict[str, Any]:
        number = self.plain.number(weight)
        kind = "group" if _is_group(rubric, fn) else "metric" if number == 0 else "reward"
        is_async = inspect.iscoroutinefunction(inspect.unwrap(fn))
        return {"name": _name(fn), "weight": number, "kind": kind, "is_async": is_async}

    def _listen(self, rubric: Any) -> None:
        rubric.funcs = [Watched(fn, w, self) for fn, w in zip(rubric.funcs, rubric.weights)]  # noqa: B905
        if isinstance(getattr(rubric, "logger", None), logging.Logger):
            rubric.logger.addHandler(_Listener(self))

    # --- rows --------------------------------------------------------------------------------------------------

    def rows(self, request: dict[str, Any]) -> dict[str, Any]:
        """A seeded sample in order. Without a split: the training rows, or the evaluation rows if there are none."""
        train = len(self.train) if self.train is not None else 0
        wanted = request["split"] or ("train" if self.train is not None else "eval")
        size = train if wanted == "train" else len(self.eval) if self.eval is not None else 0
        first = 0 if wanted == "train" else train
        indices = list(range(size))
        if size > request["limit"]:
            indices = sorted(random.Random(request["seed"]).sample(indices, request["limit"]))
        return {"rows": [self._row(first + i) for i in indices], "total": size}

    def _raw(self, index: int) -> dict[str, Any] | None:
        for table in (self.train, self.eval):
            if table is not None:
                if index < len(table):
                    return dict(table[index])
                index -= len(table)
        return None

    def _row(self, index: int) -> dict[str, Any]:
        raw = self._raw(index) or {}
        fields = {k: self.plain.plain(v) for k, v in raw.items() if k not in _HIDDEN}
        return {
            "index": index,
            "key": self._key(raw),
            "prompt": [_dense(self.plain.plain(m)) for m in _messages(raw.get("prompt"))],
            "answer": fields.get("answer"),
            "info": _parsed(fields.get("info")),
            "fields": fields,
        }

    def _key(self, raw: dict[str, Any]) -> str:
        kept = {k: self.plain.plain(v) for k, v in raw.items() if k != "example_id"}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()

    # --- scoring -----------------------------------------------------------------------------------------------

    def score(self, case: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Score one completion; whatever the environment's code raises is part of the result."""
        raw = self._raw(case["row"])
        if raw is None:
            return cast(dict[str, Any], _sibling("watch").no_row(case["row"]))
        self.seen = seen = _sibling("watch").Seen()
        self.scores = []
        if case.get("key") and case["key"] != self._key(raw):
            seen.problem("task-changed")
        loop = self._loop()
        started = time.perf_counter()
        state: Any = None
        try:
            with _sibling("audit").watching(seen, case):
                scoring = self._score(raw, case["messages"], case.get("company") or ())
                state = loop.run_until_complete(asyncio.wait_for(scoring, timeout))
        except BaseException as error:
            seen.failed(error, time.perf_counter() - started, timeout)
            if not isinstance(error, Exception):
                self.loop = None
        seconds = time.perf_counter() - started
        seen.late(seconds, timeout, first=not self.scored)
        self.scored = True
        _sibling("audit").look_behind(seen)
        return self._result(state, seconds * 1000)

    def _loop(self) -> asyncio.AbstractEventLoop:
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        return self.loop

    def together(self, cases: list[dict[str, Any]], timeout: float) -> list[dict[str, Any]]:
        """How scoring these cases behaves, alone and at once."""
        with _sibling("audit").watching(_sibling("watch").Seen()):
            found = self._loop().run_until_complete(_sibling("together").observe(self, cases, timeout))
        return cast(list[dict[str, Any]], found)

    def changed_since_loading(self, row: int) -> list[str]:
        """Nothing: every state is made anew from the dataset's row."""
        return []

    async def attempt(self, case: dict[str, Any]) -> Any:
        """A scoring of this case that has not begun."""
        self.seen, self.scores = _sibling("watch").Seen(), []
        state = await self._state(self._raw(case["row"]) or {}, case["messages"])
        names = ("prompt", "completion", "answer", "info")
        return _sibling("together").Attempt(
            lambda: self._rate(state),
            lambda: {n: state.get(n) for n in names},
            lambda: self.plain.number(state.get("reward")),
        )

    async def _score(self, raw: dict[str, Any], completion: list[dict[str, Any]], company: Sequence[Any]) -> Any:
        state = await self._state(raw, completion)
        await self._rate(state, [await self._state(raw, said) for said in company] if self.grouped else [])
        return state

    async def _rate(self, state: Any, company: Sequence[Any] = ()) -> None:
        if self.grouped:
            if not company:
                self.seen.problem("group-reward")
            await self.env.rubric.score_group([state, *company])
            if company:
                # What was seen on the way belongs to all of them.
                metrics = state.get("metrics") or {}
                self.scores = [(name, weight, metrics.get(name)) for name, weight in self.weights]
        else:
            await self.env.rubric.score_rollout(state)

    async def _state(self, raw: dict[str, Any], completion: list[dict[str, Any]]) -> Any:
        row = copy.deepcopy(raw)
        row["info"] = _parsed(row.get("info")) or {}
        env = _routed(self.env, row["info"])
        try:
            state = await env.init_state(row, client=self.client, model="scripted")
        except Exception:
            # Before 0.1.11 a client was an OpenAI client; then the state is made by hand.
            state = self.types.State(input=row)
            state["task"] = row.get("task", "default")
            state.update(tool_defs=[], error=None, reward=None, metrics=None)
        setup = getattr(env, "setup_state", None)
        if setup is not None and not setup.__module__.startswith("verifiers"):
            try:
                state = (await setup(state)) or state
            except Exception as error:
                self.seen.error(error, "setup_state")
        prompt, said = _typed(state.get("prompt") or []), _typed(completion)
        state["completion"] = said
        state["trajectory"] = _steps(prompt, said)
        state.update(is_completed=True, is_truncated=False, stop_condition="max_turns_reached")
        if "timing" not in state:
            state["timing"] = self.types.RolloutTiming()
        return state

    def _result(self, state: Any, ms: float) -> dict[str, Any]:
        components: dict[str, Any] = {}
        metrics: dict[str, Any] = {}
        for name, weight, value in self.scores:
            known = f"{name}#{len(components)}" if name in components else name
            if weight:
                components[self.plain.text(known, 200)] = {"score": self.plain.number(value), "weight": weight}
        found = (state.get("metrics") or {}) if state is not None else {}
        for name, value in found.items():
            if name not in components:
                metrics[self.plain.text(name, 200)] = self.plain.number(value)
        reward = state.get("reward") if state is not None and "timeout" not in self.seen.problems else None
        if reward is not None and self.plain.number(reward) is None:
            self.seen.problem("nonfinite")
        told = self.seen.told()
        return {
            "reward": self.plain.number(reward), "components": components, "metrics": metrics, **told, "ms": ms,
        }  # fmt: skip


class Watched:
    """A reward function as the rubric would call it; what it returns or raises is seen on the way.

    An object and not a function, so that it has a `__name__` only where the wrapped callable has one.
    """

    def __init__(self, fn: Any, weight: Any, adapter: Adapter) -> None:
        functools.update_wrapper(self, fn)
        self._fn, self._weight, self._adapter = fn, weight, adapter

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            value = self._fn(*args, **kwargs)
        except BaseException as error:
            self._raised(error)
            raise
        return self._awaited(value) if inspect.isawaitable(value) else self._returned(value)

    async def _awaited(self, value: Any) -> Any:
        try:
            value = await value
        except BaseException as error:
            self._raised(error)
            raise
        return self._returned(value)

    def _raised(self, error: BaseException) -> None:
        if isinstance(error, Exception):
            self._adapter.seen.problem("swallowed")
        self._adapter.seen.error(error, _name(self._fn))
        self._adapter.scores.append((_name(self._fn), self._weight, None))

    def _returned(self, value: Any) -> Any:
        # A group reward gives a list: what it gave the first of the group is what is looked at.
        first = value[0] if isinstance(value, list) and value and self._adapter.grouped else value
        self._adapter.seen.look(first, _name(self._fn))
        self._adapter.scores.append((_name(self._fn), self._weight, first))
        return value


class _Listener(logging.Handler):
    """Errors that a rubric only logs."""

    def __init__(self, adapter: Adapter) -> None:
        super().__init__(logging.ERROR)
        self._adapter = adapter

    def emit(self, record: logging.LogRecord) -> None:
        seen = self._adapter.seen
        seen.problem("swallowed")
        if not seen.errors:
            seen.say("LoggedError", self._adapter.plain.text(record.getMessage(), 2000), record.name)


def _takes(fn: Any, name: str) -> bool:
    try:
        return name in inspect.signature(fn).parameters
    except (ValueError, TypeError):
        return False


def _args(build: Any, plain: Any) -> Iterator[dict[str, Any]]:
    kinds = inspect.Parameter
    for name, found in inspect.signature(build).parameters.items():
        if found.kind in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL):
            continue
        bare = found.default is kinds.empty
        note = found.annotation
        shown = "" if note is kinds.empty else note.__name__ if isinstance(note, type) else str(note)
        yield {
            "name": name, "type": plain.text(shown, 200), "default": None if bare else plain.plain(found.default),
            "required": bare, "choices": [],
        }  # fmt: skip


def _coerced(build: Any, env_args: dict[str, Any]) -> dict[str, Any]:
    if "config" not in env_args:
        return env_args
    try:
        coerce = importlib.import_module("verifiers.utils.env_utils").coerce_typed_env_config
    except (ImportError, AttributeError):
        return env_args
    return cast(dict[str, Any], coerce(build, inspect.signature(build), env_args))


def _tables(env: Any) -> tuple[Any, Any]:
    train = evaluation = None
    if getattr(env, "dataset", None) is not None or getattr(env, "dataset_source", None) is not None:
        train = env.get_dataset()
    if getattr(env, "eval_dataset", None) is not None or getattr(env, "eval_dataset_source", None) is not None:
        evaluation = env.get_eval_dataset()
    return train, evaluation


def _routed(env: Any, info: Any) -> Any:
    """The member of an EnvGroup that a row belongs to; nested groups have a list of names."""
    route = info.get("env_id") if isinstance(info, dict) else None
    for name in route if isinstance(route, list) else [route]:
        env = getattr(env, "env_map", {}).get(name, env)
    return env


def _client() -> Any:
    """A client that is never called: `init_state` only stores it."""
    try:
        base = importlib.import_module("verifiers.clients").Client
    except (ImportError, AttributeError):
        return None
    kind: Any = type("ScriptedClient", (base,), {})
    kind.__abstractmethods__ = frozenset()
    return object.__new__(kind)


def _leaves(rubric: Any) -> Iterator[Any]:
    inner = getattr(rubric, "rubrics", None) or [e.rubric for e in getattr(rubric, "env_map", {}).values()]
    if not inner:
        yield rubric
    for part in inner:
        yield from _leaves(part)


def _is_group(rubric: Any, fn: Any) -> bool:
    try:
        return bool(rubric._is_group_func(fn))
    except (AttributeError, ValueError, TypeError):
        return False


def _name(fn: Any) -> str:
    return cast(str, _sibling("plain").text(getattr(fn, "__name__", type(fn).__name__), 200))


def _parsed(info: Any) -> Any:
    if isinstance(info, str):
        try:
            return json.loads(info)
        except ValueError:
            return info
    return info


def _messages(prompt: Any) -> list[Any]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return list(prompt or [])


def _dense(message: Any) -> Any:
    return {k: v for k, v in message.items() if v is not None} if isinstance(message, dict) else message


def _typed(messages: Any) -> list[Any]:
    """Messages as the version at hand has them after a rollout: models from 0.1.11 on, dicts before."""
    dense = [_dense(m) for m in _messages(messages)]
    try:
        normalize = importlib.import_module("verifiers.utils.message_utils").normalize_messages
    except (ImportError, AttributeError):
        return dense
    for message in dense:
        if isinstance(message, dict) and message.get("tool_calls"):
            message["tool_calls"] = [_call(c) for c in message["tool_calls"]]
    return cast(list[Any], normalize(dense, field_name="completion"))


def _call(call: Any) -> Any:
    inner = call.get("function") if isinstance(call, dict) else None
    if not isinstance(inner, dict):
        return call
    return {"id": call.get("id", ""), "name": inner.get("name", ""), "arguments": inner.get("arguments", "")}


def _steps(prompt: list[Any], completion: list[Any]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    for number, message in enumerate(completion):
        role = message.get("role") if isinstance(message, dict) else getattr(message, "role", None)
        if role == "assistant":
            steps.append({
                "prompt": [*prompt, *completion[:number]], "completion": [message], "response": None, "tokens": None,
                "reward": None, "advantage": None, "is_truncated": False, "trajectory_id": "scripted", "extras": {},
            })  # fmt: skip
    return steps
