"""The plain process: imports verifiers once, forks the fork server, and then forks a witness for each reward test.

The server runs a copy of this file from a temporary folder (`python -P FOLDER/serve.py v0|v1`) with a socket as
standard input. The first message names the program of the fork server and carries a second socket. On that second
socket the server asks for witnesses. The fork server is forked before any other module of this package is imported, so
the plain process and the witnesses contain no other module of this project.

A witness is a child that scores completions without the adapters and wrapped hooks of a worker. Its purpose is to
detect rewards that behave well only where they recognise this project. It loads a copy of the environment from another
folder, with other variables, another host name (where the kernel allows it) and a shifted clock. The clock is shifted
by replacing functions of `time` and classes of `datetime`. An environment that looks for these replacements, or for
this file's functions on the stack, can still recognise a witness.

This program imports only the standard library and verifiers.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import ctypes
import datetime
import gc
import importlib
import inspect
import itertools
import json
import os
import platform
import random
import resource
import runpy
import select
import signal
import socket
import sys
import tempfile
import time
import types
import warnings
from pathlib import Path
from typing import Any

_V0_NAMES = (
    "Environment",
    "SingleTurnEnv",
    "MultiTurnEnv",
    "ToolEnv",
    "EnvGroup",
    "Rubric",
    "RubricGroup",
    "JudgeRubric",
    "MathRubric",
    "Parser",
    "XMLParser",
    "ThinkParser",
    "MaybeThinkParser",
    "load_environment",
)
_V1_MODULES = ("verifiers.v1.tasksets", "httpcore", "anyio._backends._asyncio")
"""Modules that verifiers 0.4.0 imports while it loads an environment or plays a rollout. It looks for an environment
among its own tasksets first, one of which imports mcp: nearly a second for each child that had to do so itself."""
_NEW_USER, _NEW_HOST_NAME = 0x10000000, 0x04000000
_DEATH_SIGNAL, _SUBREAPER, _BOUND = 1, 36, 24
_LINUX = sys.platform == "linux"
_MEMORY_BYTES = 4 << 30
_FILE_BYTES = 4 << 30
_shift = [0.0]
"""Seconds by which the clock of this process is shifted."""
_MODEL = "Qwen/Qwen3-4B-Instruct-2507"
"""The model that a rollout names, as one of training would."""
_TIMERS = ("monotonic", "perf_counter", "process_time")
_TIMER_STEP = 7 * 3600.0
"""Seconds by which the timers advance before each pass over the cases."""
_timer_shift = [0.0]
"""Seconds by which the timers of this process are shifted. Timers never go back, because waiting code relies on
that."""


def preload(api: str) -> dict[str, Any]:
    """Import the modules that every environment of this generation imports. Returns the versions and the duration.

    The garbage collector is off during the imports. They create hardly any garbage, and collecting would take time.
    """
    started = time.monotonic()
    gc.disable()
    try:
        if api == "v1":
            importlib.import_module("verifiers.v1")
            for name in _V1_MODULES:
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
        verifiers = importlib.import_module("verifiers")
        if api == "v0":
            for name in _V0_NAMES:
                with contextlib.suppress(Exception):
                    getattr(verifiers, name)
            if not hasattr(verifiers, "Rubric"):
                raise ImportError(f"verifiers {getattr(verifiers, '__version__', '?')} has no v0 API")
    finally:
        gc.enable()
    return {
        "verifiers": getattr(verifiers, "__version__", None),
        "python": ".".join(map(str, sys.version_info[:3])),
        "seconds": time.monotonic() - started,
    }


def main(api: str) -> None:
    """Import verifiers, fork the fork server, then fork witnesses until the server ends. Never returns."""
    server = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    _close_all_but(server.fileno())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    data, fds, _, _ = socket.recv_fds(server, 1 << 16, 1)
    if not data:
        os._exit(0)
    patched = _patch_time()  # before verifiers binds these functions
    try:
        ready = preload(api)
    except BaseException as error:
        server.sendall(json.dumps({"broken": f"{type(error).__name__}: {error}"[:2000]}).encode() + b"\n")
        os._exit(1)
    gc.collect()
    gc.freeze()
    if os.fork() == 0:
        for name, original in patched.items():
            setattr(time, name, original)
        os.close(fds[0])
        program = json.loads(data)["program"]
        sys.argv = [program, api]
        runpy.run_path(program, run_name="_launcher")["start"](server, api, ready)
        os._exit(0)
    server.close()
    _serve(socket.socket(fileno=fds[0]), json.loads(data)["supervisor"], api)


def _serve(server: socket.socket, supervisor: str, api: str) -> None:
    renamed = _rename_host()
    asked = imported = False
    if _LINUX:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    while True:
        readable, _, _ = select.select([server], [], [], 1.0)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not readable:
            if asked and not imported:
                imported = True
                with contextlib.suppress(Exception):
                    importlib.import_module("datasets")
                gc.freeze()
            continue
        data, fds, _, _ = socket.recv_fds(server, 4096, 8)
        if not data:
            os._exit(0)
        asked = True
        pid = os.fork()
        if pid == 0:
            server.close()
            _fork_witness(fds[0], fds[1], supervisor, api, renamed)
        for fd in fds:
            os.close(fd)
        server.sendall(json.dumps({"forked": pid}).encode() + b"\n")


def _fork_witness(channel: int, control: int, supervisor: str, api: str, renamed: bool) -> None:
    """Fork the witness from this process, which then becomes its supervisor.

    The code of the supervisor is read after the fork, so that the witness does not contain it.
    """
    os.setsid()
    output = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(channel)
        os.close(output[1])
        try:
            runpy.run_path(supervisor, run_name="_supervisor")["supervise_child"](
                pid, control=control, output=output[0]
            )
        finally:
            os._exit(0)
    try:
        os.setpgid(0, 0)
        if _LINUX:
            ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(71)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(output[1], 1)
        os.dup2(output[1], 2)
        _close_all_but(channel)
        _answer_server(socket.socket(fileno=channel), api, renamed)
    finally:
        os._exit(0)


def _close_all_but(fd: int) -> None:
    for entry in os.listdir("/dev/fd"):
        if int(entry) not in (0, 1, 2, fd):
            with contextlib.suppress(OSError):
                os.close(int(entry))


# --- host name, clock, variables and limits of a witness ----------------------------------------------------------


def _rename_host() -> bool:
    """Give this process a host name of its own in a Linux namespace. Return False if the kernel refuses."""
    if not _LINUX:
        return False
    pid = os.fork()  # A process cannot leave a namespace, so another process tries first whether it works.
    if pid == 0:
        try:
            _enter_namespace()
            os._exit(0 if os.stat(tempfile.gettempdir()) and os.uname().nodename.startswith("node-") else 1)
        finally:
            os._exit(1)
    if os.waitpid(pid, 0)[1] != 0:
        return False
    _enter_namespace()
    return True


def _enter_namespace() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_HOST_NAME) != 0:
        if libc.unshare(_NEW_USER | _NEW_HOST_NAME) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
    name = f"node-{os.getpid()}".encode()
    libc.sethostname(name, len(name))
    if user:  # The first process of a user namespace has every capability inside.
        for capability in range(64):
            libc.prctl(_BOUND, capability, 0, 0, 0)
        libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())


def _patch_host() -> None:
    """Replace the host name that Python functions return. Used if the kernel refuses a namespace."""
    real, name = os.uname(), f"node-{os.getpid()}"
    os.uname = lambda: os.uname_result((real.sysname, name, real.release, real.version, real.machine))
    socket.gethostname = lambda: name
    platform.node = lambda: name


def _patch_time() -> dict[str, Any]:
    """Replace the functions of `time` by functions with the shifted clock, and return the original functions."""
    names = ("time", "time_ns", "localtime", "gmtime", "ctime", "strftime", *_TIMERS, *(f"{n}_ns" for n in _TIMERS))
    real = {name: getattr(time, name) for name in names}

    def of_second(name: str) -> Any:
        return lambda seconds=None: real[name](time.time() if seconds is None else seconds)

    def timer(name: str) -> None:
        seconds, nanoseconds = real[name], real[f"{name}_ns"]
        setattr(time, name, lambda: seconds() + _timer_shift[0])
        setattr(time, f"{name}_ns", lambda: nanoseconds() + int(_timer_shift[0] * 1e9))

    for known in _TIMERS:
        timer(known)
    time.time = lambda: real["time"]() + _shift[0]
    time.time_ns = lambda: real["time_ns"]() + int(_shift[0] * 1e9)
    time.localtime, time.gmtime, time.ctime = of_second("localtime"), of_second("gmtime"), of_second("ctime")
    time.strftime = lambda form, moment=None: real["strftime"](form, time.localtime() if moment is None else moment)
    return real


def _patch_dates() -> None:
    """Replace `date` and `datetime` by classes with the shifted clock."""
    real_date, real_datetime = datetime.date, datetime.datetime

    def moved(real: type) -> type:
        """Make a subclass of the same name. `isinstance` and `issubclass` treat it like the real class."""

        class Kind(type):
            def __instancecheck__(cls, value: object) -> bool:
                return isinstance(value, real) if cls is kinds[0] else type.__instancecheck__(cls, value)

            def __subclasscheck__(cls, other: type) -> bool:
                return issubclass(other, real) if cls is kinds[0] else type.__subclasscheck__(cls, other)

        def schema(cls: Any, source: Any, handler: Any) -> Any:
            return handler(real)

        fields = {"__module__": "datetime", "__get_pydantic_core_schema__": classmethod(schema)}
        kinds = [Kind(real.__name__, (real,), fields)]
        return kinds[0]

    date: Any = moved(real_date)
    kind: Any = moved(real_datetime)
    delta = datetime.timedelta

    def of(value: Any) -> Any:
        return kind.combine(value.date(), value.timetz()).replace(fold=value.fold)

    date.today = classmethod(lambda cls: date.fromtimestamp(time.time()))
    kind.today = classmethod(lambda cls: of(real_datetime.now() + delta(seconds=_shift[0])))
    kind.utcnow = classmethod(
        lambda cls: of(real_datetime.now(datetime.UTC).replace(tzinfo=None) + delta(seconds=_shift[0]))
    )
    kind.now = classmethod(lambda cls, tz=None: of(real_datetime.now(tz) + delta(seconds=_shift[0])))
    datetime.date, datetime.datetime = date, kind  # type: ignore[misc]


def _forget_start() -> None:
    """Overwrite the variables with which this process was started. /proc/self/environ shows them."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        start, end = int(fields[47]), int(fields[48])
        if 0 < start < end:
            ctypes.memset(start, 0, end - start)


def _look_spawned() -> None:
    """Look like a process that `multiprocessing` spawned, as the environment servers of training are (verifiers 0.4.0,
    `verifiers.v1.serve.pool`): the names of program and process, and the module that holds the program."""
    spawned = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7)"
    sys.orig_argv = [sys.executable, "-c", spawned, "--multiprocessing-fork"]
    program = types.ModuleType("__mp_main__")
    program.__file__ = sys.argv[0]
    sys.modules["__main__"] = sys.modules["__mp_main__"] = program
    _spawn_without_program()
    process: Any = importlib.import_module("multiprocessing.process")
    with contextlib.suppress(Exception):  # Names of another Python's multiprocessing may differ.
        process.current_process().name = "SpawnProcess-1"
        process._parent_process = process._ParentProcess("MainProcess", os.getppid(), None)


def _spawn_without_program() -> None:
    """Let processes that the environment spawns begin without the program of this one, whose file there is not."""
    spawn: Any = importlib.import_module("multiprocessing.spawn")
    prepare = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data: dict[str, Any] = prepare(name)
        try:  # access(2) knows nothing of Landlock
            os.close(os.open(data.get("init_main_from_path", os.devnull), os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            del data["init_main_from_path"]
        return data

    spawn.get_preparation_data = get_preparation_data


def _enter(request: dict[str, Any], renamed: bool) -> None:
    """Apply the request's variables, folders, limits, confinement and clock. Call it before environment code runs."""
    if not renamed:
        _patch_host()
    runpy.run_path(request["libraries"])["redirect"]({os.environ.get("HOME", ""): request["home"]})
    os.environ.clear()
    os.environ.update(request["variables"])
    _forget_start()
    os.chdir(request["home"])
    tempfile.tempdir = request["scratch"]
    sys.argv = list(request["argv"])
    _look_spawned()
    sys.path[:0] = [p for p in (request["tree"], f"{request['tree']}/src") if os.path.isdir(p)]
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, 600), (resource.RLIMIT_FSIZE, _FILE_BYTES)]
    if _LINUX:
        with open("/proc/self/statm", encoding="ascii") as statm:
            limits.append((resource.RLIMIT_AS, int(statm.read().split()[0]) * resource.getpagesize() + _MEMORY_BYTES))
    for kind, soft in limits:
        with contextlib.suppress(OSError, ValueError):
            hard = resource.getrlimit(kind)[1]
            bound = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
            resource.setrlimit(kind, (bound, bound))
    with contextlib.suppress(OSError):
        _link_neighbours(request["tree"])
    if request["policy"] is not None:
        runpy.run_path(request["kernel"])["confine"](request["policy"])
    random.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    gc.unfreeze()  # The number of frozen objects would show that this process was forked from another one.
    _shift[0] = request["shifts"][0]
    _patch_dates()


_NO_NEIGHBOURS = ("prime_lab_mcp", "__editable__", "__pycache__", "_virtualenv", ".")
"""Beginnings of names that are not linked: this project, and what belongs to a virtual environment."""


def _link_neighbours(tree: str) -> None:
    """Link the packages of this interpreter beside the environment, as they lie beside an installation in training."""
    folder = Path(str(sys.modules["verifiers"].__file__)).parents[1]
    for neighbour in folder.iterdir():
        there = Path(tree, neighbour.name)
        if not neighbour.name.startswith(_NO_NEIGHBOURS) and neighbour.suffix != ".pth" and not there.exists():
            there.symlink_to(neighbour)


def _answer_server(channel: socket.socket, api: str, renamed: bool) -> None:
    """Answer two requests of the server: one names the environment to load, the other the completions to score."""
    lines = channel.makefile("rb")
    try:
        request = json.loads(lines.readline())
        _enter(request, renamed)
        for known in [m for m in sys.modules if m == request["module"] or m.startswith(f"{request['module']}.")]:
            del sys.modules[known]
        environment: Any = _V1(request) if api == "v1" else _V0(request)
        _reply(channel, {"loaded": True})
        asked = json.loads(lines.readline())
        rows = [case["row"] for case in asked["cases"]]
        environment.prepare(rows)
        loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        passes = []
        tasks = [environment.task(row) for row in rows]  # Read before scoring can change tasks.
        for shift in request["shifts"]:
            _shift[0] = shift
            _timer_shift[0] += _TIMER_STEP
            passes.append([_scored(loop, environment, case, asked["seconds"]) for case in asked["cases"]])
        _reply(channel, {"passes": passes, "tasks": tasks})
    except BaseException as error:
        _reply(channel, {"failed": f"{type(error).__name__}: {error}"[:1000]})


def _reply(channel: socket.socket, message: dict[str, Any]) -> None:
    channel.sendall(json.dumps(message, default=str).encode("utf-8", "replace") + b"\n")


def _scored(loop: asyncio.AbstractEventLoop, environment: Any, case: dict[str, Any], seconds: float) -> dict[str, Any]:
    try:
        reward, parts = loop.run_until_complete(asyncio.wait_for(environment.score(case), seconds))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    return {"reward": _number(reward), "components": {str(n)[:200]: _number(v) for n, v in parts.items()}}


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _fork_trainer(environment: _V1, request: dict[str, Any]) -> socket.socket:
    """Fork a process that loads the tasks and sends the data of those that are asked for. Returns its channel."""
    here, there = socket.socketpair()
    parent = os.getpid()
    if os.fork():
        there.close()
        return here
    try:
        here.close()
        if _LINUX:
            ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == parent:
            _send_tasks(environment, request, there)
    finally:
        os._exit(0)


def _send_tasks(environment: _V1, request: dict[str, Any], server: socket.socket) -> None:
    try:
        tasks = environment.loaded(request)
        _reply(server, {"loaded": len(tasks)})
        _reply(server, {"tasks": [_sent(tasks[row]) for row in _line(server)["rows"]]})
    except BaseException as error:
        _reply(server, {"failed": f"{type(error).__name__}: {error}"[:1000]})


def _sent(task: Any) -> dict[str, Any]:
    """Return the key of a task and its data as the trainer sends them."""
    try:
        return {"key": task.key, "data": json.loads(json.dumps(task.data.model_dump(mode="json")))}
    except Exception as error:
        return {"key": task.key, "error": f"{type(error).__name__}: {error}"[:300]}


def _line(channel: socket.socket) -> Any:
    with channel.makefile("rb") as lines:
        line = lines.readline()
    if not line:
        raise EOFError("the process that loads the tasks ended")
    return json.loads(line)


def _answer(trainer: socket.socket) -> Any:
    """Return the next message of the trainer. Raises RuntimeError if the trainer failed."""
    reply = _line(trainer)
    if "failed" in reply:
        raise RuntimeError(reply["failed"])
    return reply


# --- the two generations -----------------------------------------------------------------------------------------


class _V1:
    """A taskset of verifiers 0.3 and newer, in the two processes of training.

    The trainer calls `load()` and sends the data of each task. The env server, which is this process, rebuilds tasks
    from their data and never calls `load()` (verifiers 0.4.0, `EnvServer._build_task`).
    """

    def __init__(self, request: dict[str, Any]) -> None:
        self.v1: Any = importlib.import_module("verifiers.v1")
        self.trainer = _fork_trainer(self, request)  # Forked first, so that this process has nothing of its loading.
        taskset = self._taskset(request)
        self.task_type = type(taskset).task_type()
        self.data_type = self.task_type.data_type()
        self.config = taskset.config.task
        self.keys: dict[int, str] = {}
        self.tasks: dict[int, Any] = {}
        _answer(self.trainer)

    def _taskset(self, request: dict[str, Any]) -> Any:
        module: Any = importlib.import_module(request["module"])
        exported = [getattr(module, name, None) for name in module.__all__]
        kind: Any = next(k for k in exported if isinstance(k, type) and issubclass(k, self.v1.Taskset))
        generic = importlib.import_module("verifiers.v1.utils.generic")
        config = generic.concrete_type(kind, self.v1.TasksetConfig, origin=self.v1.Taskset) or self.v1.TasksetConfig
        return kind(config.model_validate({"id": request["module"], **request["env_args"]}))

    def loaded(self, request: dict[str, Any]) -> list[Any]:
        """Load the tasks up to the last row of the request. Only the trainer does."""
        return list(itertools.islice(iter(self._taskset(request)), request["last"] + 1))

    def prepare(self, rows: list[int]) -> None:
        """Rebuild the tasks of these rows from the data that the trainer sends."""
        wanted = sorted(set(rows))
        _reply(self.trainer, {"rows": wanted})
        for row, sent in zip(wanted, _answer(self.trainer)["tasks"], strict=True):
            self.keys[row] = sent["key"]
            try:
                if "data" not in sent:
                    raise ValueError(sent["error"])
                self.tasks[row] = self.task_type(self.data_type.model_validate(sent["data"]), self.config)
            except Exception as error:  # Scoring one of the cases of this task reports the error.
                self.tasks[row] = error

    def task(self, row: int) -> str:
        return f"key:{self.keys[row]}"[:200]

    async def score(self, case: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        task = self.tasks[case["row"]]
        if isinstance(task, Exception):
            raise task
        stored = case.get("stored")
        trace = self._trace(task, case["messages"]) if stored is None else self._stored(task, stored)
        hooks = [*task.hooks("metric"), *task.hooks("reward")]
        base, kind = self.v1.Task, type(task)
        default_hooks = kind.setup is base.setup and kind.finalize is base.finalize
        if default_hooks and not any("runtime" in inspect.signature(fn).parameters for fn in hooks):
            await task.score(trace)
        else:
            runtimes = importlib.import_module("verifiers.v1.runtimes")
            invoke = importlib.import_module("verifiers.v1.utils.decorators").invoke
            async with runtimes.provision_runtime(self.v1.SubprocessConfig(), name=trace.id) as runtime:
                for step in (task.setup, task.finalize) if stored is None else ():
                    await invoke(step, {"trace": trace, "runtime": runtime})
                await task.score(trace, runtime)
        return trace.reward, {name: None if r is None else r.score for name, r in dict(trace.rewards).items()}

    def _stored(self, task: Any, record: dict[str, Any]) -> Any:
        """Return a trace that an evaluation stored, as it was before it was scored."""
        trace = importlib.import_module("verifiers.v1.trace").WireTrace.model_validate(record)
        trace.task = self.v1.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
        trace.state = importlib.import_module("verifiers.v1.state").state_cls(type(task))()
        trace.rewards, trace.metrics, trace.extra_usage = {}, {}, []
        trace.info.pop("judge_calls", None)
        trace.is_completed, trace.ok = trace.stop_condition is not None, False
        return trace

    def _trace(self, task: Any, completion: list[dict[str, Any]]) -> Any:
        """Return the trace of a rollout about to be scored, whose messages after the prompt are `completion`."""
        v1, data = self.v1, task.data
        state = importlib.import_module("verifiers.v1.state").state_cls(type(task))()
        stated = v1.TraceTask(type=type(task).__name__, data=data, key=task.key, hash=task.hash)
        # As in training: the model's name. The workers of tests have none.
        config = v1.AgentConfig(runtime=v1.SubprocessConfig(), model=_MODEL)
        agent = v1.AgentInfo(config=config, name="agent", trainable=True)
        trace = v1.Trace(task=stated, state=state, agent=agent)
        prompt = [v1.SystemMessage(content=data.system_prompt)] if data.system_prompt else []
        if isinstance(data.prompt, str):
            prompt.append(v1.UserMessage(content=data.prompt))
        else:
            prompt += data.prompt or []
        calls = importlib.import_module("verifiers.v1.trace")
        usages = importlib.import_module("verifiers.v1.types")
        for number, message in enumerate([*prompt, *map(self._message, completion)]):
            sampled = number >= len(prompt) and message.role == "assistant"
            trace.nodes.append(v1.MessageNode(parent=number - 1 if number else None, message=message, sampled=sampled))
            if sampled:
                before = sum(len(str(n.message.content or "")) for n in trace.nodes[:-1])
                tokens = max(1, len(message.content or "") // 4)
                usage = usages.Usage(prompt_tokens=before // 4, completion_tokens=tokens)
                reason = "tool_calls" if message.tool_calls else "stop"
                span = calls.TimeSpan(start=time.time(), end=time.time())
                call = {"node": number, "model": _MODEL, "endpoint": "/chat/completions", "finish_reason": reason}
                trace.calls.append(calls.ModelCall(**call, usage=usage, time=span))
        trace.stop("agent_completed")  # `ok` stays false: verifiers 0.4.0 sets it after scoring.
        now = time.time()
        for span in (trace.timing.boot, trace.timing.setup, trace.timing.agent, trace.timing.finalize):
            span.start = span.end = now
        trace.timing.scoring.start = now
        return trace

    def _message(self, raw: dict[str, Any]) -> Any:
        kinds = {"assistant": "AssistantMessage", "tool": "ToolMessage", "user": "UserMessage"}
        fields = {k: v for k, v in raw.items() if v is not None}
        if "tool_calls" in fields:
            fields["tool_calls"] = [{**c, **c.get("function", {})} for c in fields["tool_calls"]]
            for call in fields["tool_calls"]:
                call.pop("function", None)
        if (
            raw.get("role") == "assistant"
        ):  # A reply has all of these fields, and none of them holds an empty text or list.
            reply = ("content", "reasoning_content", "tool_calls", "provider_state")
            fields = {name: fields.get(name) or None for name in reply}
        return getattr(self.v1, kinds.get(raw.get("role", ""), "SystemMessage")).model_validate(fields)


class _V0:
    """An environment of verifiers 0.1 to 0.3."""

    def __init__(self, request: dict[str, Any]) -> None:
        module: Any = importlib.import_module(request["module"])
        self.types: Any = importlib.import_module("verifiers.types")
        build, arguments = module.load_environment, request["env_args"]
        if "config" in arguments:
            with contextlib.suppress(ImportError, AttributeError):
                coerce = importlib.import_module("verifiers.utils.env_utils").coerce_typed_env_config
                arguments = coerce(build, inspect.signature(build), arguments)
        self.env = build(**arguments)
        self.client: Any = None
        with contextlib.suppress(ImportError, AttributeError):
            base = importlib.import_module("verifiers.clients").Client
            kind: Any = type("Client", (base,), {})
            kind.__abstractmethods__ = frozenset()
            self.client = object.__new__(kind)

    def prepare(self, rows: list[int]) -> None:
        """Nothing has to be prepared: evaluation and training of this generation load alike."""

    def _row(self, row: int) -> dict[str, Any]:
        for name, read in (("dataset", "get_dataset"), ("eval_dataset", "get_eval_dataset")):
            if getattr(self.env, name, None) is not None or getattr(self.env, f"{name}_source", None) is not None:
                table = getattr(self.env, read)()
                if row < len(table):
                    return dict(table[row])
                row -= len(table)
        raise IndexError(f"there is no task {row}")

    def task(self, row: int) -> str:
        return f"answer:{self._row(row).get('answer')}"[:1000]

    async def score(self, case: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        states = [
            await self._state(case["row"], completion) for completion in (case["messages"], *case["rest_of_group"])
        ]
        if case["rest_of_group"]:
            await self.env.rubric.score_group(states)
        else:
            await self.env.rubric.score_rollout(states[0])
        return states[0].get("reward"), dict(states[0].get("metrics") or {})

    async def _state(self, number: int, completion: list[dict[str, Any]]) -> Any:
        """Return the state of a finished rollout whose messages after the prompt are `completion`."""
        row = copy.deepcopy(self._row(number))
        info = row.get("info")
        if isinstance(info, str):
            with contextlib.suppress(ValueError):
                info = json.loads(info)
        row["info"] = info or {}
        env, route = self.env, info.get("env_id") if isinstance(info, dict) else None
        for name in route if isinstance(route, list) else [route]:
            env = getattr(env, "env_map", {}).get(name, env)
        try:
            state = await env.init_state(row, client=self.client, model="scripted")
        except Exception:
            state = self.types.State(input=row)
            state["task"] = row.get("task", "default")
            state.update(tool_defs=[], error=None, reward=None, metrics=None)
        setup = getattr(env, "setup_state", None)
        if setup is not None and not setup.__module__.startswith("verifiers"):
            with contextlib.suppress(Exception):
                state = (await setup(state)) or state
        prompt, messages = self._typed(state.get("prompt") or []), [self._reply(m) for m in self._typed(completion)]
        state["completion"] = messages
        state["trajectory"] = [
            {
                "prompt": [*prompt, *messages[:at]], "completion": [message], "response": None, "tokens": None,
                "reward": None, "advantage": None, "is_truncated": False,
                "trajectory_id": state.get("trajectory_id", "scripted"), "extras": {},
            }
            for at, message in enumerate(messages)
            if (message.get("role") if isinstance(message, dict) else getattr(message, "role", None)) == "assistant"
        ]  # fmt: skip
        state.update(is_completed=True, is_truncated=False, stop_condition="max_turns_reached")
        if "timing" not in state:
            state["timing"] = self.types.RolloutTiming()
        return state

    def _typed(self, conversation: Any) -> list[Any]:
        """Return messages in the form of the installed verifiers: pydantic models from 0.1.11 on, dicts before."""
        stated = [{"role": "user", "content": conversation}] if isinstance(conversation, str) else conversation
        bare = [{k: v for k, v in m.items() if v is not None} if isinstance(m, dict) else m for m in stated]
        try:
            normalize = importlib.import_module("verifiers.utils.message_utils").normalize_messages
        except (ImportError, AttributeError):
            return bare
        for message in bare:
            if isinstance(message, dict) and message.get("tool_calls"):
                message["tool_calls"] = [self._call(c) for c in message["tool_calls"]]
        return list(normalize(bare, field_name="completion"))

    def _reply(self, message: Any) -> Any:
        """Return a message of the model with every field but the role, as verifiers makes it."""
        if isinstance(message, dict) or getattr(message, "role", None) != "assistant":
            return message
        kind = type(message)
        return kind(**{name: getattr(message, name) for name in kind.model_fields if name != "role"})

    def _call(self, call: Any) -> Any:
        inner = call.get("function") if isinstance(call, dict) else None
        if not isinstance(inner, dict):
            return call
        return {"id": call.get("id", ""), "name": inner.get("name", ""), "arguments": inner.get("arguments", "")}


if __name__ == "__main__":
    main(sys.argv[1])
