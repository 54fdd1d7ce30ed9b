"""The adapter for v0 environments (verifiers 0.1 to 0.3), which have `load_environment`, a dataset and a rubric.

Completions are scored by `env.rubric` on a State that looks as after a rollout. The rubric swallows exceptions of
reward functions, so this module wraps every reward function and listens to the rubric's logger.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import hashlib
import importlib
import inspect
import json
import logging
import random
import time
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from . import (
    coercion,
    judges,
    messages_v0,
    observer,
    port_v0,
    scripted_rollouts_v0,
    side_effects,
    stored_rollouts_v0,
)
from .adapter import Adapter
from .observer import Observation
from .protocol import (
    ArgReply,
    CaseRequest,
    ComponentReply,
    FactsReply,
    LoadReply,
    LoadRequest,
    RescoreRequest,
    RewardKind,
    RewardReply,
    RolloutsReply,
    RolloutsRequest,
    RowReply,
    RowsReply,
    RowsRequest,
    ScoreReply,
    SideEffectsCase,
    SideEffectsReply,
    StoredCase,
)
from .solutions import BadSolution
from .stored_rollouts_v0 import TaskIndexV0

_SAME = 1e-9
"""Largest difference of two rewards that count as equal."""
_HIDDEN = ("prompt", "example_id", "task", "env_id")


class AdapterV0(Adapter):
    """A v0 environment. Row indices count the training rows first and continue with the evaluation rows."""

    def __init__(self) -> None:
        super().__init__()
        self.verifiers: Any = importlib.import_module("verifiers")
        self.types: Any = importlib.import_module("verifiers.types")
        self.observation = Observation()
        self.scores: list[tuple[str, float | None, Any]] = []
        self._index: TaskIndexV0 | None = None

    def load(self, module: ModuleType, request: LoadRequest) -> LoadReply:
        started = time.monotonic()
        build = getattr(module, "load_environment", None)
        if not callable(build):
            raise AttributeError(f"{module.__name__} has no function load_environment")
        self.build = build
        self.stated_solution = getattr(module, "solution", None)
        self.env = build(**_coerced(build, request["env_args"]))
        if not isinstance(self.env, self.verifiers.Environment):
            raise TypeError(f"load_environment returned {type(self.env).__name__}, not a verifiers Environment")
        self.train, self.eval = _tables(self.env)
        self.client = _client()
        self.leaves = list(_leaves(self.env.rubric))
        judges.observe_requests()
        configured = judges.of_rubrics(self.verifiers, self.leaves)
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
            "turns": scripted_rollouts_v0.applies(self),
            "solutions": callable(self.stated_solution),
            "rewards": rewards,
            "fields": [c for c in table.column_names if c not in _HIDDEN] if table is not None else [],
            "system_prompt": coercion.to_json(getattr(self.env, "system_prompt", None)),
            "judges": configured,
            "seconds": time.monotonic() - started,
        }

    def facts(self) -> FactsReply:
        parser = type(getattr(self.env, "parser", None)).__name__
        facts: FactsReply = {
            "args": list(_args(self.build)),
            "held_out": "eval_dataset" if self.train is not None and self.eval is not None else None,
            "parsers": [
                {"function": _name(fn), "given": type(rubric.parser).__name__, "environment": parser}
                for rubric in self.leaves
                for fn in rubric.funcs
                if getattr(rubric, "parser", None) is not None and _takes(fn, "parser")
            ],
        }
        with contextlib.suppress(Exception):  # Attributes of foreign classes may raise.
            facts["port"] = port_v0.describe(self.env, self.leaves)
        return facts

    def _info(self, fn: Any, weight: Any, rubric: Any) -> RewardReply:
        number = coercion.number(weight)
        kind: RewardKind = "group" if _is_group(rubric, fn) else "metric" if number == 0 else "reward"
        is_async = inspect.iscoroutinefunction(inspect.unwrap(fn))
        return {"name": _name(fn), "weight": number, "kind": kind, "is_async": is_async}

    def _listen(self, rubric: Any) -> None:
        rubric.funcs = [ObservedReward(fn, w, self) for fn, w in zip(rubric.funcs, rubric.weights)]  # noqa: B905
        if isinstance(getattr(rubric, "logger", None), logging.Logger):
            rubric.logger.addHandler(_Listener(self))

    # --- rows --------------------------------------------------------------------------------------------------

    def rows(self, request: RowsRequest) -> RowsReply:
        """Return a seeded sample of one split, in order. The default is `train`, or `eval` without training rows."""
        train = len(self.train) if self.train is not None else 0
        wanted = request["split"] or ("train" if self.train is not None else "eval")
        size = train if wanted == "train" else len(self.eval) if self.eval is not None else 0
        first = 0 if wanted == "train" else train
        indices = list(range(size))
        if size > request["limit"]:
            indices = sorted(random.Random(request["seed"]).sample(indices, request["limit"]))
        return {"rows": [self._row(first + i) for i in indices], "total": size}

    def raw_row(self, index: int) -> dict[str, Any] | None:
        """Return the dataset's row as it is stored; None if the index is too large."""
        for table in (self.train, self.eval):
            if table is not None:
                if index < len(table):
                    return dict(table[index])
                index -= len(table)
        return None

    def _row(self, index: int) -> RowReply:
        raw = self.raw_row(index) or {}
        fields = {k: coercion.to_json(v) for k, v in raw.items() if k not in _HIDDEN}
        row: RowReply = {
            "index": index,
            "key": self._key(raw),
            "prompt": [
                messages_v0.without_empty_fields(coercion.to_json(m)) for m in messages_v0.messages(raw.get("prompt"))
            ],
            "answer": fields.get("answer"),
            "info": messages_v0.parsed_info(fields.get("info")),
            "fields": fields,
        }
        if isinstance(raw.get("task"), str) and raw["task"] not in ("", "default"):
            row["group"] = raw["task"]
        return row

    def _key(self, raw: dict[str, Any]) -> str:
        hashed = {k: coercion.to_json(v) for k, v in raw.items() if k != "example_id"}
        return hashlib.sha256(json.dumps(hashed, sort_keys=True).encode()).hexdigest()

    # --- scoring -----------------------------------------------------------------------------------------------

    def score(self, case: CaseRequest, timeout: float) -> ScoreReply:
        raw = self.raw_row(case["row"])
        if raw is None:
            return observer.no_row(case["row"])
        observation = self.observe()
        if case.get("key") and case["key"] != self._key(raw):
            observation.add_problem("task-changed")
        state: Any = None

        async def scoring() -> None:
            nonlocal state
            state = await self._score(raw, case["messages"], case.get("rest_of_group") or ())

        ms = self.run_scoring(observation, case, timeout, scoring)
        return self.scoring_result(state, ms)

    def observe(self) -> Observation:
        """Begin a new scoring. Return the observation in which the wrapped reward functions note errors and values."""
        self.observation, self.scores = Observation(), []
        return self.observation

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop = super().new_event_loop()
        # Rewards of these versions may call asyncio.get_event_loop() outside of a coroutine.
        asyncio.set_event_loop(loop)
        return loop

    def measure_side_effects(self, cases: list[SideEffectsCase], timeout: float) -> list[SideEffectsReply]:
        with side_effects.watching(Observation()):
            return self.event_loop().run_until_complete(side_effects.measure(self, cases, timeout))

    def changed_since_loading(self, row: int) -> list[str]:
        return []  # Each state is made from a copy of the dataset's row, so no scoring can change the row.

    def run_rollouts(self, request: RolloutsRequest) -> RolloutsReply:
        return scripted_rollouts_v0.run(self, request)

    def solution(self, row: int) -> Any:
        """Call the package's function `solution`. Its parameters are columns of the row, as those of a reward are."""
        function = self.stated_solution
        if not callable(function):
            raise BadSolution("the package has no function solution")
        raw = copy.deepcopy(self.raw_row(row)) or {}
        fields = {**raw, "info": messages_v0.parsed_info(raw.get("info")) or {}}
        named = list(inspect.signature(function).parameters)
        missing = [name for name in named if name not in fields]
        if missing:
            raise BadSolution(f"solution takes {missing[0]!r}, which no column of the rows is called")
        return function(**{name: fields[name] for name in named})

    def task_index(self, limit: int) -> TaskIndexV0:
        if self._index is None:
            self._index = TaskIndexV0(self)
        return self._index

    def unfit_for_rescoring(self) -> str:
        return ""

    def rescore(self, case: StoredCase, request: RescoreRequest) -> ScoreReply:
        return stored_rollouts_v0.score(self, case, request)

    async def attempt(self, case: SideEffectsCase) -> side_effects.ScoringAttempt:
        self.observe()
        state = await self.make_state(self.raw_row(case["row"]) or {}, case["messages"])
        names = ("prompt", "completion", "answer", "info")
        return side_effects.ScoringAttempt(
            lambda: self.rate(state),
            lambda: {n: state.get(n) for n in names},
            lambda: coercion.number(state.get("reward")),
        )

    async def _score(self, raw: dict[str, Any], completion: list[dict[str, Any]], rest_of_group: Sequence[Any]) -> Any:
        state = await self.make_state(raw, completion)
        rest = [await self.make_state(raw, other) for other in rest_of_group] if self.grouped else []
        await self.rate(state, rest)
        own = coercion.number(state.get("reward"))
        for other, messages in zip(rest, rest_of_group, strict=False):
            reward = coercion.number(other.get("reward"))
            if own is None or reward is None or messages != completion:
                continue
            if abs(own - reward) > _SAME:
                self.observation.add_problem("unequal-in-group", f"{own:g} and {reward:g}")
                break
        return state

    async def rate(self, state: Any, rest_of_group: Sequence[Any] = ()) -> None:
        """Score a state with the rubric, together with the states of its group."""
        if self.grouped:
            if not rest_of_group:
                self.observation.add_problem("group-reward")
            await self.env.rubric.score_group([state, *rest_of_group])
            if rest_of_group:
                # The observed scores are those of the whole group.
                metrics = state.get("metrics") or {}
                self.scores = [(name, weight, metrics.get(name)) for name, weight in self.weights]
        else:
            await self.env.rubric.score_rollout(state)

    async def make_state(self, raw: dict[str, Any], completion: list[dict[str, Any]]) -> Any:
        """Return the state of a finished rollout whose messages are `completion`."""
        row = copy.deepcopy(raw)
        row["info"] = messages_v0.parsed_info(row.get("info")) or {}
        env = messages_v0.group_member(self.env, row["info"])
        try:
            state = await env.init_state(row, client=self.client, model="scripted")
        except Exception:
            # Before verifiers 0.1.11, `init_state` needs an OpenAI client. The state is built here instead.
            state = self.types.State(input=row)
            state["task"] = row.get("task", "default")
            state.update(tool_defs=[], error=None, reward=None, metrics=None)
        setup = getattr(env, "setup_state", None)
        if setup is not None and not setup.__module__.startswith("verifiers"):
            try:
                state = (await setup(state)) or state
            except Exception as error:
                self.observation.add_exception(error, "setup_state")
        prompt, reply = messages_v0.normalized(state.get("prompt") or []), messages_v0.replies(completion)
        state["completion"] = reply
        state["trajectory"] = messages_v0.trajectory(prompt, reply, state.get("trajectory_id", "scripted"))
        state.update(is_completed=True, is_truncated=False, stop_condition="max_turns_reached")
        if "timing" not in state:
            state["timing"] = self.types.RolloutTiming()
        return state

    def scoring_result(self, state: Any, ms: float) -> ScoreReply:
        """Build the reply for a scored state from the state and the current observation."""
        components: dict[str, ComponentReply] = {}
        metrics: dict[str, float | None] = {}
        for name, weight, value in self.scores:
            key = f"{name}#{len(components)}" if name in components else name
            if weight:
                components[coercion.text(key, 200)] = {"score": coercion.number(value), "weight": weight}
        recorded = (state.get("metrics") or {}) if state is not None else {}
        for name, value in recorded.items():
            if name not in components:
                metrics[coercion.text(name, 200)] = coercion.number(value)
        reward = state.get("reward") if state is not None and not self.observation.has_problem("timeout") else None
        if reward is not None and coercion.number(reward) is None:
            self.observation.add_problem("nonfinite")
        return self.observation.as_reply(coercion.number(reward), ms, components, metrics)


class ObservedReward:
    """Wraps a reward function and notes the values that it returns and the exceptions that it raises.

    The wrapper is an object, because a wrapper function would have a `__name__` even if the wrapped callable has none.
    """

    def __init__(self, fn: Any, weight: Any, adapter: AdapterV0) -> None:
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
            self._adapter.observation.add_problem("swallowed")
        self._adapter.observation.add_exception(error, _name(self._fn))
        self._adapter.scores.append((_name(self._fn), self._weight, None))

    def _returned(self, value: Any) -> Any:
        # A group reward returns a list. Its first value belongs to the completion that is scored here.
        first = value[0] if isinstance(value, list) and value and self._adapter.grouped else value
        self._adapter.observation.check_value(first, _name(self._fn))
        self._adapter.scores.append((_name(self._fn), self._weight, first))
        return value


class _Listener(logging.Handler):
    """A logging handler that notes the errors that a rubric logs instead of raising."""

    def __init__(self, adapter: AdapterV0) -> None:
        super().__init__(logging.ERROR)
        self._adapter = adapter

    def emit(self, record: logging.LogRecord) -> None:
        observation = self._adapter.observation
        observation.add_problem("swallowed")
        if not observation.errors:
            observation.add_error("LoggedError", coercion.text(record.getMessage(), 2000), record.name)


def _takes(fn: Any, name: str) -> bool:
    try:
        return name in inspect.signature(fn).parameters
    except (ValueError, TypeError):
        return False


def _args(build: Any) -> Iterator[ArgReply]:
    kinds = inspect.Parameter
    for name, parameter in inspect.signature(build).parameters.items():
        if parameter.kind in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL):
            continue
        bare = parameter.default is kinds.empty
        note = parameter.annotation
        type_name = "" if note is kinds.empty else note.__name__ if isinstance(note, type) else str(note)
        yield {
            "name": name,
            "type": coercion.text(type_name, 200),
            "default": None if bare else coercion.to_json(parameter.default),
            "required": bare,
            "choices": [],
        }


def _coerced(build: Any, env_args: dict[str, Any]) -> dict[str, Any]:
    if "config" not in env_args:
        return env_args
    try:
        coerce = importlib.import_module("verifiers.utils.env_utils").coerce_typed_env_config
    except (ImportError, AttributeError):
        return env_args
    coerced: dict[str, Any] = coerce(build, inspect.signature(build), env_args)
    return coerced


def _tables(env: Any) -> tuple[Any, Any]:
    train = evaluation = None
    if getattr(env, "dataset", None) is not None or getattr(env, "dataset_source", None) is not None:
        train = env.get_dataset()
    if getattr(env, "eval_dataset", None) is not None or getattr(env, "eval_dataset_source", None) is not None:
        evaluation = env.get_eval_dataset()
    return train, evaluation


def _client() -> Any:
    """Return a client for `init_state`, which stores the client and does not call it."""
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
    return coercion.text(getattr(fn, "__name__", type(fn).__name__), 200)
