"""Whole rollouts of a v0 environment with a scripted model: `env.rollout`, then the rubric, as an evaluation does."""

from __future__ import annotations

import asyncio
import copy
import importlib
import sys
import time
from typing import Any

_OF_VERIFIERS = frozenset({
    "input", "task", "prompt", "completion", "answer", "info", "example_id", "env_id",
    "client", "model", "sampling_args", "is_completed", "is_truncated", "tool_defs", "oai_tools",
    "trajectory", "trajectory_id", "reward", "metrics", "error",
    "final_env_response", "timing", "usage", "usage_tracker", "token_usage", "stop_condition", "prompt_too_long",
    "timed_out", "responses", "turn", "advantage",
})  # fmt: skip
"""Keys of a state that verifiers itself writes; any other is the environment's."""


def _sibling(name: str) -> Any:
    return sys.modules["_prime_lab_worker_program"].sibling(name)


def applies(adapter: Any) -> bool:
    """More can happen in a rollout than one reply: the environment answers, or has tools or a set-up of its own."""
    return any(_turns(adapter.verifiers, env) for env in _members(adapter.env)) and _client_type() is not None


def _members(env: Any) -> list[Any]:
    inner = list(getattr(env, "env_map", {}).values())
    return [leaf for part in inner for leaf in _members(part)] if inner else [env]


def _turns(verifiers: Any, env: Any) -> bool:
    multi, single = getattr(verifiers, "MultiTurnEnv", None), verifiers.SingleTurnEnv
    if multi is None or not isinstance(env, multi):
        return False
    return not isinstance(env, single) or any(
        getattr(type(env), name, None) is not getattr(single, name, None) for name in ("env_response", "setup_state")
    )


def _client_type() -> Any:
    try:
        return importlib.import_module("verifiers.clients").Client
    except (ImportError, AttributeError):
        return None  # before 0.1.11 a client was an OpenAI client


def run(adapter: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Every asked rollout, one after the other; those for which no time was left are missing at the end."""
    deadline = time.monotonic() + request["seconds"]
    loop = adapter._loop()
    found: list[dict[str, Any]] = []
    kept: list[Any] = []
    for asked in request["rollouts"]:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        one = _One(adapter, asked, request)
        found.append(loop.run_until_complete(one.run(min(left, request["rollout_seconds"]))))
        kept.append(one)
    for one, told in zip(kept, found):  # noqa: B905
        if told["end"] == "ended" and told["ok"]:
            told.update(loop.run_until_complete(one.again()))
            case = {"row": one.asked["row"], "messages": told["messages"]}
            told["alone"] = adapter.score(case, request["case_timeout"])["reward"]
        told["messages"] = one.shared.cut(told["messages"])
    return {"rollouts": found, "unavailable": ""}


class _One:
    def __init__(self, adapter: Any, asked: dict[str, Any], request: dict[str, Any]) -> None:
        self.adapter, self.asked = adapter, asked
        self.shared = _sibling("rollouts")
        self.raw: dict[str, Any] = adapter._raw(asked["row"]) or {}
        route = adapter_module(adapter)._routed(adapter.env, adapter_module(adapter)._parsed(self.raw.get("info")))
        declared = getattr(route, "max_turns", -1)
        self.bounded = isinstance(declared, int) and declared > 0
        self.player = self.shared.Player(asked["script"], request["turns"] if self.bounded else request["endless"])
        self.before: Any = None
        self.errors: list[dict[str, str]] = []

    async def run(self, seconds: float) -> dict[str, Any]:
        adapter, started = self.adapter, time.perf_counter()
        adapter.seen, adapter.scores = _sibling("watch").Seen(), []
        task = asyncio.ensure_future(self._rollout())
        self.player.over = task.cancel
        end, state = "ended", None
        try:
            state = await asyncio.wait_for(task, seconds)
        except TimeoutError:
            end = "slow"
        except asyncio.CancelledError:
            if not self.player.ended:
                raise
        except Exception as error:
            self.errors.append(self.shared.told(error))
        if self.player.ended:
            end = "cut" if self.bounded else "endless"
        result = adapter._result(state, 0.0)
        kept = state.get("error") if state is not None else None
        if isinstance(kept, BaseException):
            self.errors.append(self.shared.told(kept))
        scored = [{**e, "where": f"scoring, {e['where']}"} for e in result["errors"]]
        ok = state is not None and not self.errors and not scored
        return {
            "messages": self.shared.messages(self._said(state)),
            "reward": result["reward"] if end == "ended" and state is not None else None,
            "components": result["components"],
            "stop": str(state.get("stop_condition") or "") if state is not None else "",
            "ok": ok, "end": end, "errors": [*self.errors, *scored][:5], "turns": self.player.spoken,
            "tools": self.shared.tools(self.player), "state": self._keys(state), "alone": None, "again": None,
            "ms": (time.perf_counter() - started) * 1000,
        }  # fmt: skip

    async def _rollout(self) -> Any:
        adapter = self.adapter
        state = await adapter.env.rollout(copy.deepcopy(self.raw), client=self._client(), model="scripted",
                                          sampling_args={})  # fmt: skip
        self.before = copy.copy(state)
        await adapter._rate(state)
        cleanup = getattr(adapter.env.rubric, "cleanup", None)
        if cleanup is not None:
            await cleanup(state)
        return state

    async def again(self) -> dict[str, Any]:
        """What the state as the rollout left it earns, scored once more after all other rollouts."""
        adapter = self.adapter
        adapter.seen, adapter.scores = _sibling("watch").Seen(), []
        try:
            await asyncio.wait_for(adapter._rate(self.before), 10)
        except Exception:
            return {"again": None}
        return {"again": None if adapter.seen.errors else adapter.plain.number(self.before.get("reward"))}

    def _said(self, state: Any) -> list[Any]:
        return list(state.get("completion") or []) if state is not None else []

    def _keys(self, state: Any) -> list[str]:
        if state is None:
            return []
        own = [k for k in state if k not in _OF_VERIFIERS and k not in self.raw and not str(k).startswith("_")]
        return sorted(self.adapter.plain.text(k, 80) for k in own)[:20]

    def _client(self) -> Any:
        base = _client_type()
        types, player, shared = self.adapter.types, self.player, self.shared

        async def get_response(
            self: Any, prompt: Any, model: Any, sampling_args: Any, tools: Any = None, **_: Any
        ) -> Any:
            player.offered([_tool(t) for t in tools or ()])
            said = player.next()
            await asyncio.sleep(0)  # where the rollout was ended, it ends here
            calls = None
            if not isinstance(said, str):
                calls = [
                    types.ToolCall(id=f"call_{player.spoken}_{n}", name=name, arguments=shared.raw(given))
                    for n, (name, given) in enumerate(said or ())
                ]
            message = types.ResponseMessage(
                role="assistant", content=said if isinstance(said, str) else None, tool_calls=calls or None,
                finish_reason="tool_calls" if calls else "stop", is_truncated=False,
            )  # fmt: skip
            return types.Response(id="scripted", created=1, model="scripted", message=message)

        kind: Any = type("ScriptedClient", (base,), {"get_response": get_response})
        kind.__abstractmethods__ = frozenset()
        client = object.__new__(kind)
        client._config = None
        return client


def adapter_module(adapter: Any) -> Any:
    """The module of the adapter, for what it knows of rows."""
    return sys.modules[type(adapter).__module__]


def _tool(tool: Any) -> dict[str, Any]:
    fields = tool if isinstance(tool, dict) else tool.model_dump()
    inner = fields.get("function") or fields
    return {
        "name": str(inner.get("name")), "description": inner.get("description"),
        "parameters": inner.get("parameters") or {},
    }  # fmt: skip
