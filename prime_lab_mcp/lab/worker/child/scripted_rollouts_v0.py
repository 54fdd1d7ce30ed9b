"""Runs whole rollouts of a v0 environment with a scripted model.

As in an evaluation, the rubric scores each rollout.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from . import chance, coercion, messages_v0, scripted_rollouts
from .messages_v0 import VERIFIERS_STATE_KEYS
from .protocol import CaseRequest, ErrorReply, RolloutEnd, RolloutReply, RolloutsReply, RolloutsRequest, ScriptedRollout
from .scripted_rollouts import ScriptedModel, raw_arguments
from .solutions import SolutionTurn
from .turn_taking import Seat, take_turns

if TYPE_CHECKING:
    from .adapter_v0 import AdapterV0


def applies(adapter: AdapterV0) -> bool:
    """Return whether a rollout can be more than one reply: the environment answers the model or sets up a state."""
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
        return None  # verifiers before 0.1.11 has no clients of its own and uses OpenAI clients.


def run(adapter: AdapterV0, request: RolloutsRequest) -> RolloutsReply:
    """Run the rollouts one after the other. If time runs out, the last rollouts are missing in the reply."""
    deadline = time.monotonic() + request["seconds"]
    loop = adapter.event_loop()
    if request["observed"] == "in-turns":
        return loop.run_until_complete(_in_turns(adapter, request))
    results: list[RolloutReply] = []
    runs: list[_Rollout] = []
    rescored = not (request["held"] or request["observed"])
    for asked in request["rollouts"]:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        one = _Rollout(adapter, asked, request)
        with chance.held(request["held"]):
            results.append(loop.run_until_complete(one.run(min(left, request["rollout_seconds"]))))
        runs.append(one)
    for one, result in zip(runs, results):  # noqa: B905
        if result["end"] == "ended" and result["ok"] and rescored:
            result["again"] = loop.run_until_complete(one.rescored_reward())
            case: CaseRequest = {"row": one.asked["row"], "messages": result["messages"]}
            result["alone"] = adapter.score(case, request["case_timeout"])["reward"]
        result["messages"] = scripted_rollouts.cut(result["messages"], one.asked["script"])
    return {"rollouts": results, "unavailable": "", "by_design": False}


async def _in_turns(adapter: AdapterV0, request: RolloutsRequest) -> RolloutsReply:
    """Run rollouts that take turns."""

    def begin(asked: ScriptedRollout) -> Callable[[Seat], Awaitable[RolloutReply]]:
        return lambda seat: _Rollout(adapter, asked, request, seat).run(request["seconds"])

    results = await take_turns([begin(asked) for asked in request["rollouts"]])
    for result, asked in zip(results, request["rollouts"]):  # noqa: B905
        result["messages"] = scripted_rollouts.cut(result["messages"], asked["script"])
    return {"rollouts": results, "unavailable": "", "by_design": False}


class _Rollout:
    def __init__(
        self, adapter: AdapterV0, asked: ScriptedRollout, request: RolloutsRequest, seat: Seat | None = None
    ) -> None:
        self.adapter, self.asked = adapter, asked
        self.raw: dict[str, Any] = adapter.raw_row(asked["row"]) or {}
        route = messages_v0.group_member(adapter.env, messages_v0.parsed_info(self.raw.get("info")))
        declared = getattr(route, "max_turns", -1)
        self.bounded = isinstance(declared, int) and declared > 0
        self.player = ScriptedModel(
            asked["script"],
            request["turns"] if self.bounded else request["endless"],
            lambda: adapter.solution(asked["row"]),
        )
        self.player.seat = seat
        self.player.pause = scripted_rollouts.PAUSE if request["observed"] == "slowly" else 0.0
        self.unscored: Any = None
        self.held, self.observed = request["held"], bool(request["observed"])
        self.errors: list[ErrorReply] = []

    async def run(self, seconds: float) -> RolloutReply:
        adapter, started = self.adapter, time.perf_counter()
        if self.held:
            chance.rewind()
        adapter.observe()
        task = asyncio.ensure_future(self._rollout())
        self.player.on_end = task.cancel
        end: RolloutEnd = "ended"
        state: Any = None
        try:
            state = await asyncio.wait_for(task, seconds)
        except TimeoutError:
            end = "slow"
        except asyncio.CancelledError:
            if not self.player.ended:
                raise
        except Exception as error:
            self.errors.append(scripted_rollouts.error_summary(error))
        if self.player.ended:
            end = "not-run" if self.player.unplayable else "cut" if self.bounded else "endless"
        result = adapter.scoring_result(state, 0.0)
        recorded = state.get("error") if state is not None else None
        if isinstance(recorded, BaseException):
            self.errors.append(scripted_rollouts.error_summary(recorded))
        scored: list[ErrorReply] = [{**e, "where": f"scoring, {e['where']}"} for e in result["errors"]]
        ok = state is not None and not self.errors and not scored
        return {
            "messages": scripted_rollouts.message_dicts(self._completion(state)),
            "reward": result["reward"] if end == "ended" and state is not None else None,
            "components": result["components"],
            "stop": str(state.get("stop_condition") or "") if state is not None else "",
            "ok": ok,
            "end": end,
            "errors": [*self.errors, *scored][:5],
            "turns": self.player.turns_played,
            "tools": scripted_rollouts.offered_tools(self.player),
            "state": self._keys(state),
            "unplayable": self.player.unplayable,
            "alone": None,
            "again": None,
            "ms": (time.perf_counter() - started) * 1000,
        }

    async def _rollout(self) -> Any:
        adapter = self.adapter
        state = await adapter.env.rollout(
            copy.deepcopy(self.raw), client=self._client(), model="scripted", sampling_args={}
        )
        self.unscored = copy.copy(state)
        await adapter.rate(state)
        cleanup = getattr(adapter.env.rubric, "cleanup", None)
        if cleanup is not None:
            await cleanup(state)
        return state

    async def rescored_reward(self) -> float | None:
        """Score the unscored state of the rollout again, after all other rollouts; None if that fails."""
        adapter = self.adapter
        adapter.observe()
        try:
            await asyncio.wait_for(adapter.rate(self.unscored), 10)
        except Exception:
            return None
        return None if adapter.observation.errors else coercion.number(self.unscored.get("reward"))

    def _completion(self, state: Any) -> list[Any]:
        if state is None:
            return self.player.read if self.observed else []
        return list(state.get("completion") or [])

    def _keys(self, state: Any) -> list[str]:
        if state is None:
            return []
        own = [k for k in state if k not in VERIFIERS_STATE_KEYS and k not in self.raw and not str(k).startswith("_")]
        return sorted(coercion.text(k, 80) for k in own)[:20]

    def _client(self) -> Any:
        base = _client_type()
        types, player = self.adapter.types, self.player

        async def get_response(
            self: Any, prompt: Any, model: Any, sampling_args: Any, tools: Any = None, **_: Any
        ) -> Any:
            player.offered([_tool(t) for t in tools or ()])
            turn = await player.next(list(prompt) if isinstance(prompt, list) else [])
            await asyncio.sleep(0)  # A rollout that was cancelled ends here.
            turn = turn or SolutionTurn("")
            calls = [
                types.ToolCall(id=f"call_{player.turns_played}_{n}", name=name, arguments=raw_arguments(given))
                for n, (name, given) in enumerate(turn.calls)
            ]
            message = types.ResponseMessage(
                role="assistant",
                content=turn.text,
                tool_calls=calls or None,
                finish_reason="tool_calls" if calls else "stop",
                is_truncated=False,
            )
            return types.Response(id="scripted", created=1, model="scripted", message=message)

        kind: Any = type("ScriptedClient", (base,), {"get_response": get_response})
        kind.__abstractmethods__ = frozenset()
        client = object.__new__(kind)
        client._config = None
        return client


def _tool(tool: Any) -> dict[str, Any]:
    fields = tool if isinstance(tool, dict) else tool.model_dump()
    inner = fields.get("function") or fields
    return {
        "name": str(inner.get("name")),
        "description": inner.get("description"),
        "parameters": inner.get("parameters") or {},
    }
