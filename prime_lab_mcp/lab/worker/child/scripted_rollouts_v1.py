"""Runs whole rollouts of a v1 environment with a scripted model, through the environment's own `Env` and taskset.

This process serves the scripted model as an OpenAI endpoint on the loopback interface; each rollout has a model name of
its own. The harness is `vf_lab_loop`, which runs the chat and its tool loop in this process, and the tools of the
harness `bash` in the runtime. The runtime is a subprocess, or a container of Podman if the tasks need one.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from . import chance, coercion, config_v1, environment, scoring_v1, scripted_rollouts
from .protocol import (
    CONTAINER_ERROR,
    CaseRequest,
    ErrorReply,
    RolloutEnd,
    RolloutReply,
    RolloutsReply,
    RolloutsRequest,
    ScriptedRollout,
)
from .scripted_rollouts import ScriptedModel, error_summary, raw_arguments
from .solutions import SolutionTurn
from .turn_taking import Seat, take_turns

if TYPE_CHECKING:
    from .adapter_v1 import AdapterV1

_AT_ONCE = 4
"""Rollouts that run concurrently."""
_SERVERS_AT_ONCE = 2
"""Rollouts that run concurrently if their tasks start tool servers of their own."""
_SHELL_HARNESS = "bash"
_CHAT_HARNESSES = (None, _SHELL_HARNESS, "null")
"""Harnesses that `vf_lab_loop` can replace: the default harness and the plain chat."""
_KEY = "PRIME_LAB_SCRIPTED_API_KEY"
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')


def applies(adapter: AdapterV1) -> bool:
    """Return whether a rollout can be more than one reply: tools, a shell, hooks, or the environment's own `Env`."""
    try:
        return _applies(adapter)
    except Exception:
        return False  # check_environment reports the error.


def _applies(adapter: AdapterV1) -> bool:
    v1, task = adapter.v1, adapter.tasks[0]
    kind = config_v1.env_type(adapter)
    base = v1.SingleAgentEnv
    own = any(getattr(kind, n) is not getattr(base, n) for n in ("run", "setup", "finalize", "start"))
    hooks = type(task).setup is not v1.Task.setup or type(task).finalize is not v1.Task.finalize
    tools = bool(adapter.taskset.toolsets(adapter.taskset.config)) or bool(task.toolsets(task.config))
    decorated = [fn for attr in ("stop", "intercept") for fn in _decorated(task, attr)]
    return (
        own or hooks or tools or bool(decorated) or any(_has_shell(adapter, role) for role in _roles(adapter).values())
    )


def _roles(adapter: AdapterV1) -> dict[str, Any]:
    """Return the configs of the agents by name."""
    config = config_v1.env_config_type(adapter)(taskset=adapter.taskset.config)
    return dict(importlib.import_module("verifiers.v1.configs.agent").agent_config_fields(config))


def _has_shell(adapter: AdapterV1, role: Any) -> bool:
    """Return whether the environment itself gives an agent the harness `bash`, which is also verifiers' default."""
    own = config_v1.env_type(adapter) is not adapter.v1.SingleAgentEnv
    return own and role.harness is not None and role.harness.id == _SHELL_HARNESS


def _decorated(task: Any, attr: str) -> list[Any]:
    decorated = importlib.import_module("verifiers.v1.utils.decorators").discover_decorated(task, attr)
    return list(decorated)


def run(adapter: AdapterV1, request: RolloutsRequest) -> RolloutsReply:
    """Run the requested rollouts, some concurrently, then score the messages of each finished rollout alone.

    A rollout for which no time was left has the end `not-run`.
    """
    rows = [asked["row"] for asked in request["rollouts"]]
    adapter.pull(max(rows) + 1, 10.0)
    adapter.remember_data(rows[0])
    driver = _Driver(adapter, request)
    try:
        driver.check()
        with chance.held(request["held"]):
            results = adapter.event_loop().run_until_complete(driver.all())
        results = _without_lost_containers(results)
    except _Unavailable as error:
        return {"rollouts": [], "unavailable": str(error), "by_design": isinstance(error, _ByDesign)}
    except TimeoutError:
        late = f"its tool servers did not start within {request['serving']:g} seconds"
        return {"rollouts": [], "unavailable": late, "by_design": False}
    for result, asked in zip(results, request["rollouts"]):  # noqa: B905
        rescored = not (request["held"] or request["observed"])
        if result["end"] == "ended" and result["ok"] and result.get("linear") and rescored:
            case: CaseRequest = {"row": asked["row"], "messages": result["messages"]}
            result["alone"] = adapter.score(case, request["case_timeout"])["reward"]
        result["messages"] = scripted_rollouts.cut(result["messages"], asked["script"])
    return {"rollouts": results, "unavailable": "", "by_design": False}


def _without_lost_containers(results: list[RolloutReply]) -> list[RolloutReply]:
    """Return the results, with rollouts as not run whose container could not be prepared.

    Raises _Unavailable if no rollout had a container.
    """
    lost = [any(CONTAINER_ERROR.search(error["message"]) for error in result["errors"]) for result in results]
    if any(lost) and all(gone or result["end"] == "not-run" for gone, result in zip(lost, results)):  # noqa: B905
        raise _Unavailable(results[lost.index(True)]["errors"][0]["message"][:600])
    unplayed: dict[str, Any] = {"errors": [], "end": "not-run", "reward": None}
    return [cast(RolloutReply, {**r, **unplayed}) if gone else r for gone, r in zip(lost, results)]  # noqa: B905


class _Unavailable(Exception):
    """Rollouts of this environment cannot run here. The environment's code is not at fault."""


class _ByDesign(_Unavailable):
    """The environment needs a container or a special harness, which this process does not offer. Nothing is wrong."""


class _Driver:
    def __init__(self, adapter: AdapterV1, request: RolloutsRequest) -> None:
        self.adapter, self.request = adapter, request
        self.models: dict[str, ScriptedModel] = {}
        self.runtime: Any = adapter.v1.SubprocessConfig()
        self.paths = [p for p in (environment.tree(), f"{environment.tree()}/src") if os.path.isdir(p)]

    def check(self) -> None:
        """Raise `_ByDesign` if rollouts of this environment need a container or another harness."""
        for role in _roles(self.adapter).values():
            harness = role.harness.id if role.harness is not None else None
            if harness not in _CHAT_HARNESSES:
                raise _ByDesign(f"its harness is {harness!r}, not a plain chat")
        tasks = [self.adapter.tasks[asked["row"]] for asked in self.request["rollouts"]]
        if any(getattr(task, "NEEDS_CONTAINER", False) or task.data.image is not None for task in tasks):
            if not self.request.get("containers"):
                raise _ByDesign("its tasks need a container")
            self.runtime = self.adapter.v1.PodmanConfig()

    def _config(self) -> Any:
        return config_v1.env_config_type(self.adapter)(taskset=self.adapter.taskset.config)

    def _env(self) -> Any:
        """Build the environment with `vf_lab_loop` as the harness of every agent, and without clients of its own."""
        folder = str(Path(__file__).with_name("harness"))
        if folder not in sys.path:
            sys.path.append(folder)
        loop = importlib.import_module("vf_lab_loop").LabLoopHarnessConfig
        config = self._config()
        fields = importlib.import_module("verifiers.v1.configs.agent").agent_config_fields(config)
        agents: dict[str, Any] = {}
        self.bounded = True
        for name, role in fields.items():
            self.bounded = self.bounded and role.max_turns is not None
            agents[name] = role.model_copy(
                update={
                    "harness": loop(id="vf-lab-loop", **self._shell_tools(role)),
                    "runtime": self.runtime,
                    "model": None,
                    "client": None,
                }
            )
        return config_v1.env_type(self.adapter)(config.model_copy(update=agents))

    def _shell_tools(self, role: Any) -> dict[str, bool]:
        """Return the settings of `vf_lab_loop` for the tools of the environment's own harness `bash`."""
        if not _has_shell(self.adapter, role):
            return {}
        return {"shell": True, "edit": bool(getattr(role.harness, "edit", False))}

    async def all(self) -> list[RolloutReply]:
        os.environ.update(self.request.get("containers") or {})
        os.environ.setdefault(_KEY, "none")
        os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1,localhost"
        known = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([*self.paths, *([known] if known else [])])
        asked = self.request["rollouts"]
        try:
            env = self._env()
            async with self._model() as url, contextlib.AsyncExitStack() as stack:
                await asyncio.wait_for(stack.enter_async_context(env.serving()), self.request["serving"])
                deadline = time.monotonic() + self.request["seconds"]
                servers = any(t.toolsets(t.config) for t in (self.adapter.tasks[a["row"]] for a in asked))
                shared = bool(self.adapter.taskset.toolsets(self.adapter.taskset.config))
                # verifiers opens a port in each container for programs there that call back. It takes a second.
                os.environ["PRIME_LAB_NO_CALLBACKS"] = "" if servers or shared else "1"
                if self.request["observed"] == "in-turns":
                    return await self._in_turns(env, url, deadline)
                at_once = 1 if self.request["in_order"] else _SERVERS_AT_ONCE if servers else _AT_ONCE
                gate = asyncio.Semaphore(at_once)
                jobs = [self._one(env, url, number, one, gate, deadline) for number, one in enumerate(asked)]
                return list(await asyncio.gather(*jobs))
        except TimeoutError:
            raise
        except Exception as error:
            broken = [error_summary(error, "")]
            if not broken[0]["where"]:
                raise _Unavailable(f"{broken[0]['type']}: {broken[0]['message']}") from error
            return [self._result(None, None, broken, "ended", 0.0) for _ in asked[:1]]

    async def _in_turns(self, env: Any, url: str, deadline: float) -> list[RolloutReply]:
        """Run rollouts that take turns."""

        def begin(number: int, asked: ScriptedRollout) -> Callable[[Seat], Awaitable[RolloutReply]]:
            return lambda seat: self._one(env, url, number, asked, asyncio.Semaphore(), deadline, seat)

        return await take_turns([begin(number, asked) for number, asked in enumerate(self.request["rollouts"])])

    async def _one(
        self,
        env: Any,
        url: str,
        number: int,
        asked: ScriptedRollout,
        gate: asyncio.Semaphore,
        deadline: float,
        seat: Seat | None = None,
    ) -> RolloutReply:
        clients = importlib.import_module("verifiers.v1.clients")
        async with gate:
            left = deadline - time.monotonic()
            if left <= 0:
                return self._result(None, None, [], "not-run", 0.0)
            task = self.adapter.tasks[asked["row"]]
            limit = self.request["turns" if self.bounded else "endless"]
            player = self.models[f"rollout-{number}"] = ScriptedModel(
                asked["script"], limit, lambda: self.adapter.solution(asked["row"])
            )
            player.seat = seat
            player.pause = scripted_rollouts.PAUSE if self.request["observed"] == "slowly" else 0.0
            client = clients.EvalClientConfig(base_url=url, api_key_var=_KEY)
            ctx = clients.ModelContext(model=f"rollout-{number}", client=client)
            started = time.perf_counter()
            if self.request["held"]:
                chance.rewind()
            job = asyncio.ensure_future(env.run_episode(task, ctx))
            player.on_end = job.cancel
            end: RolloutEnd = "ended"
            episode: Any = None
            errors: list[ErrorReply] = []
            try:
                seconds = self.request["rollout_seconds"]
                # A container takes long to start, so a rollout in one is not cut short by the others.
                episode = await asyncio.wait_for(job, seconds if self.request.get("containers") else min(left, seconds))
            except TimeoutError:
                end = "slow"
            except asyncio.CancelledError:
                if not player.ended:
                    raise
            except Exception as error:
                errors.append(error_summary(error, "run"))
            if player.ended:
                end = "not-run" if player.unplayable else "cut" if self.bounded else "endless"
            result = self._result(episode, player, errors, end, (time.perf_counter() - started) * 1000, task)
            rescored = end == "ended" and not (self.request["held"] or self.request["observed"])
            result["again"] = await self._rescored_reward(task, episode) if rescored else None
            return result

    def _result(
        self, episode: Any, player: Any, errors: list[ErrorReply], end: RolloutEnd, ms: float, task: Any = None
    ) -> RolloutReply:
        trace: Any = episode.traces[0] if episode is not None and episode.traces else None
        if episode is not None:
            errors += [self._error(e, "") for e in (*(e for t in episode.traces for e in t.errors), *episode.errors)]
        single = episode is not None and len(episode.traces) == 1 and len(trace.branches) <= 1
        scored = end == "ended" and episode is not None and episode.ok and None not in trace.rewards.values()
        read = player.read if player is not None and self.request["observed"] else []
        return {
            "messages": self._completion(trace, task) or scripted_rollouts.message_dicts(read),
            "reward": coercion.number(trace.reward) if scored else None,
            "components": {
                coercion.text(n, 200): {"score": coercion.number(r.score), "weight": coercion.number(r.weight)}
                for n, r in (trace.rewards.items() if trace is not None else ())
                if r is not None
            },
            "stop": str(trace.stop_condition or "") if trace is not None else "",
            "ok": bool(episode is not None and episode.ok),
            "end": end,
            "errors": _distinct(errors)[:5],
            "turns": player.turns_played if player is not None else 0,
            "tools": scripted_rollouts.offered_tools(player) if player is not None else [],
            "state": self._state(trace),
            "unplayable": player.unplayable if player is not None else "",
            "alone": None,
            "again": None,
            "ms": ms,
            "linear": single,
        }

    def _completion(self, trace: Any, task: Any) -> list[dict[str, Any]]:
        if trace is None or not trace.branches:
            return []
        messages = list(trace.branches[-1].messages)
        prompt = len(scoring_v1.prompt_messages(self.adapter.v1, task.data))
        return list(scripted_rollouts.message_dicts(messages[prompt:]))

    def _state(self, trace: Any) -> list[str]:
        """Name the sources of a reward besides the messages: changed state fields, `info`, and `Env.finalize`."""
        if trace is None:
            return []
        fresh = type(trace.state)()
        changed = [n for n in type(fresh).model_fields if getattr(trace.state, n) != getattr(fresh, n)]
        changed += [f"info.{name}" for name in trace.info]
        own = config_v1.env_type(self.adapter).finalize is not self.adapter.v1.Env.finalize
        return [coercion.text(n, 80) for n in (*changed, *(["Env.finalize"] if own else []))][:20]

    async def _rescored_reward(self, task: Any, episode: Any) -> float | None:
        """Score the finished trace again; None if that is impossible, for instance because it needs its runtime.

        It is also impossible where `Env.run` or a hook recorded a reward, which scoring does not compute.
        """
        adapter = self.adapter
        own = config_v1.env_type(adapter).finalize is not adapter.v1.Env.finalize
        if episode is None or not episode.ok or len(episode.traces) != 1 or own or adapter.needs_runtime(task):
            return None
        trace = episode.traces[0].model_copy(update={"rewards": {}, "metrics": {}, "ok": False})
        try:
            await asyncio.wait_for(task.score(trace), 10)
        except Exception:
            return None
        return coercion.number(trace.reward) if trace.rewards.keys() == episode.traces[0].rewards.keys() else None

    def _error(self, error: Any, phase: str) -> ErrorReply:
        """Describe an error that verifiers recorded with a traceback as text."""
        tree = environment.tree()
        # The text of a chain of exceptions begins with the root cause.
        chain = [_FRAME.findall(part) for part in (error.traceback or "").split("Traceback (most recent call last)")]
        own_frames = [[f for f in frames if tree and f[0].startswith(tree)] for frames in chain]
        own = next((frames for frames in own_frames if frames), [])
        where = f"{own[-1][2]}, {own[-1][0][len(tree) + 1 :]}:{own[-1][1]}" if own else phase
        message = coercion.text(error.message, 2000).replace(f"{tree}/", "")
        return {"type": coercion.text(error.type, 200), "message": message, "where": where}

    @contextlib.asynccontextmanager
    async def _model(self) -> AsyncIterator[str]:
        web = importlib.import_module("aiohttp.web")
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/v1/chat/completions", self._answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, shutdown_timeout=0.5)
            await site.start()
            port = site._server.sockets[0].getsockname()[1]
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            await runner.cleanup()

    async def _answer(self, request: Any) -> Any:
        web = importlib.import_module("aiohttp.web")
        body = await request.json()
        player = self.models.get(body.get("model"))
        if player is None:
            return web.json_response({"error": {"message": "no such model"}}, status=404)
        player.offered([_tool(t) for t in body.get("tools") or ()])
        turn = await player.next(body.get("messages") or [])
        if turn is None:
            return web.json_response({"error": {"message": "the rollout was ended"}}, status=400)
        return _reply(web, body, turn, player.turns_played)


def _distinct(errors: list[ErrorReply]) -> list[ErrorReply]:
    distinct: dict[tuple[str, str], ErrorReply] = {}
    for error in errors:
        distinct.setdefault((error["type"], error["message"]), error)
    return list(distinct.values())


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    inner = tool.get("function") or tool
    return {
        "name": str(inner.get("name")),
        "description": inner.get("description"),
        "parameters": inner.get("parameters") or {},
    }


def _reply(web: Any, body: dict[str, Any], turn: SolutionTurn, number: int) -> Any:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text}
    reason = "stop"
    if turn.calls:
        reason = "tool_calls"
        message["tool_calls"] = [
            {
                "index": n,
                "id": f"call_{number}_{n}",
                "type": "function",
                "function": {"name": name, "arguments": raw_arguments(given)},
            }
            for n, (name, given) in enumerate(turn.calls)
        ]
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    head = {"id": "scripted", "created": 1, "model": body["model"], "usage": usage}
    if not body.get("stream"):
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return web.json_response(head | {"object": "chat.completion", "choices": [choice]})
    head["object"] = "chat.completion.chunk"
    chunks = [
        head | {"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        head | {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
    ]
    lines = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    return web.Response(body=lines.encode(), content_type="text/event-stream")
