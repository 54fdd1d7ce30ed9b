"""However servers, answers and the platform fail: what publishes or costs money takes effect at most once per intent.

Real: `once`, the ledger and the five intents that use them (publishing, submitting, resuming, starting a hosted
evaluation, uploading one), and the two intents that continue one paused run, at once. A model: the platform with what
is on its way to it, the clock, and the processes. A kill abandons a call where it awaits, and what it had sent
may still arrive.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
import types
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.settings import Platform, Settings
from prime_lab_mcp.lab.configs.config import parse_config
from prime_lab_mcp.lab.evals.hosted.following import HostedStart
from prime_lab_mcp.lab.evals.upload import EvalUpload
from prime_lab_mcp.lab.hub import publish
from prime_lab_mcp.lab.hub.lookup import HubEntry
from prime_lab_mcp.lab.hub.publish import EnvironmentPush, PublishRequest, PublishTarget, PushedWheel
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Pushed, Submitted
from prime_lab_mcp.lab.prime.refusals import PrimeRefusal
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.manifest import Manifest
from prime_lab_mcp.lab.state.once import AtMostOnce, Once
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.training.bound import CostBound
from prime_lab_mcp.lab.training.resumption import AlreadyContinuedError, ResumedRun, submission_at
from prime_lab_mcp.lab.training.submission import RunStanding, RunSubmission
from tests.support.evaluations import hosted_spec
from tests.tools.loopback import CONFIG

KEY = "ab" * 32
PAUSED = "run-paused"
SUBMITTED = "sums-abababab"
SAMPLES = 4
ANSWERS = ("ok", "ok", "lost", "nothing", "late", "slow", "refused", "ok")
"""lost: done, and the answer did not arrive. nothing: not done, and nobody can tell. late: done after prime gave up.
slow: the same, and prime was killed for it. refused: certainly not done."""


@types.coroutine
def pause(seconds: float = 0.0) -> Iterator[float]:
    """Where a call may be interleaved with others, or abandoned."""
    yield seconds


class Tape:
    """Decisions, drawn beforehand; when they are used up everything goes well."""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = iter(numbers)

    def below(self, limit: int) -> int:
        return next(self._numbers, 0) % limit


@dataclass(eq=False)
class Request:
    """A request on its way to the platform, sent by a server."""

    server: Server
    arrive: Callable[[], Any]
    since: float


@dataclass(eq=False)
class Server:
    number: int
    host: int
    lab: Lab
    once: Once
    alive: bool = True


@dataclass(eq=False)
class Call:
    server: Server
    steps: Coroutine[Any, Any, Any]
    ready: float = 0.0


@dataclass(eq=False)
class World:
    """One ledger, its servers, and a platform. `platform` decides by which delays the intents go."""

    service: Service
    root: Path
    tape: Tape
    platform: Platform
    clock: float = 1_800_000_000.0
    servers: list[Server] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    flying: list[Request] = field(default_factory=list)
    late: list[tuple[float, Callable[[], Any]]] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    samples: int = 0
    values: list[str] = field(default_factory=list)
    calm: bool = False
    foreign_death: bool = False
    numbers: Iterator[int] = field(default_factory=itertools.count)

    # Servers

    def start(self, host: int = 0) -> Server:
        number = next(self.numbers)
        lab = Lab(Settings(self.root / "workspace", self.root / "state", rehearsal=self.platform == "rehearsal"))
        ledger = Ledger(lab.settings.ledger, holder=f"{number}@{host}", now=lambda: self.clock)
        once = Once(ledger, lives=lambda holder: self.lives(holder, host), sleep=pause)
        server = Server(number, host, lab, once)
        lab.__dict__.update(ledger=ledger, prime=StandInPrime(self, server))
        self.servers.append(server)
        return server

    def lives(self, holder: str, host: int) -> bool | None:
        number, _, of = holder.partition("@")
        return next(s.alive for s in self.servers if s.number == int(number)) if int(of) == host else None

    def kill(self, server: Server) -> None:
        server.alive = False
        self.foreign_death |= server.host != 0
        for request in [r for r in self.flying if r.server is server]:
            self.flying.remove(request)
            if self.tape.below(2):
                self.later(request.arrive, self.service.intent(self, server).delays.landing)
        server.lab.ledger.close()
        for call in [c for c in self.calls if c.server is server]:
            self.calls.remove(call)
            with suppress(Exception):
                call.steps.close()  # whatever it wants to write now, it cannot

    # Calls

    def call(self, server: Server) -> Call:
        made = Call(server, self._called(server))
        self.calls.append(made)
        return made

    async def _called(self, server: Server) -> str:
        try:
            settled = await server.once.send(self.service.intent(self, server))
        except AlreadyContinuedError as error:
            self.values.append(error.continued_as)
            return error.continued_as
        if settled is None:
            return "not taken"
        self.values.append(self.service.id_of(settled.value))
        return self.values[-1]

    def step(self, call: Call) -> str | None:
        """One step of a call; what it returned or which error it ended with, once it has ended."""
        self.clock = max(self.clock, call.ready)
        self.land()
        try:
            call.ready = self.clock + call.steps.send(None)
        except StopIteration as end:
            self.calls.remove(call)
            return str(end.value)
        except LabError as error:
            self.calls.remove(call)
            return error.code
        return None

    def finish(self, call: Call) -> str:
        while (end := self.step(call)) is None:
            pass
        return end

    # Time and the platform

    def pass_time(self, seconds: float) -> None:
        """Let time pass. A sender that has taken its longest is ended before that."""
        limit = 0.8 * self.service.intent(self, self.servers[-1]).delays.limit
        until = self.clock + seconds
        while self.clock < until:
            overdue = [r.since + limit for r in self.flying]
            self.clock = min([until, *(t for t in overdue if t > self.clock)])
            self.land()
            for request in [r for r in self.flying if r.since + limit <= self.clock]:
                for call in [c for c in self.calls if c.server is request.server]:
                    while call in self.calls and request in self.flying:
                        self.step(call)

    def later(self, arrive: Callable[[], Any], within: float) -> None:
        self.late.append((self.clock + within * self.tape.below(10) / 10, arrive))

    def land(self) -> None:
        for at, arrive in sorted(self.late, key=lambda entry: entry[0]):
            if at <= self.clock:
                self.late.remove((at, arrive))
                with suppress(LabError):
                    arrive()

    def done(self, name: str | None = None) -> str:
        """The effect itself. `name` is that of a run, where it is not the service's."""
        id = f"made-{next(self.numbers)}"
        self.names[id] = name or self.service.run_name
        self.effects.append(id)
        assert len(self.effects) == 1, "it took effect twice"
        return id


def refusal(code: Any, effect: Any) -> PrimeRefusal:
    return PrimeRefusal("it failed", fix="Call again.", code=code, effect=effect)


class StandInPrime:
    """The verbs of `prime` that the five intents use, each with every way to fail."""

    def __init__(self, world: World, server: Server) -> None:
        self._world, self._server = world, server

    async def _read(self, answer: Callable[[], Any]) -> Any:
        await pause()
        if not self._world.calm and self._world.tape.below(5) == 4:
            raise refusal("platform-unreachable", "unknown")
        told = answer()
        await pause()
        return told

    async def _change(self, arrive: Callable[[], Any]) -> Any:
        world, delays = self._world, self._world.service.intent(self._world, self._server).delays
        fate = "ok" if world.calm else ANSWERS[world.tape.below(len(ANSWERS))]
        request = Request(self._server, arrive, world.clock)
        world.flying.append(request)
        await pause()
        world.flying.remove(request)
        if fate == "refused":
            raise refusal("payment-required", "none")
        if fate == "slow":
            world.later(arrive, delays.landing)
            raise refusal("platform-slow", "unknown")
        if fate == "late" and delays.landing_after_failure:
            world.later(arrive, delays.landing_after_failure)
        if fate in ("nothing", "late"):
            raise refusal("platform-failed", "unknown")
        answer = arrive()
        await pause()
        if fate == "lost":
            raise refusal("platform-unreachable", "unknown")
        return answer

    # Publishing

    def _published(self) -> str:
        if self._world.effects:
            raise refusal("platform-conflict", "none")
        return self._world.done()

    async def env_push(self, folder: Path, wheel: Path, **options: Any) -> Pushed:
        await self._change(self._published)
        return Pushed("me", "sums", "0.1.0", None, None, None)

    async def env_status(self, ref: str) -> dict[str, Any]:
        def answer() -> dict[str, Any]:
            if not self._world.effects:
                raise refusal("platform-not-found", "none")
            return {"latest_version": {"semantic_version": "0.1.0", "content_hash": "c" * 64}}

        return dict(await self._read(answer))

    # Training

    async def train_submit(self, path: Path, **options: Any) -> Submitted:
        return Submitted(await self._change(lambda: self._world.done(SUBMITTED)), 2.0, 4.0)

    async def train_resume(self, id: str, **options: Any) -> Submitted:
        return Submitted(await self._change(self._world.done), 2.0, 4.0)

    async def train_list(self, name: str | None = None, *, limit: int | None = None) -> list[dict[str, Any]]:
        world = self._world
        began = datetime.fromtimestamp(world.clock, UTC).isoformat()

        def answer() -> list[dict[str, Any]]:
            rows = [
                {"id": id, "name": world.names[id], "status": "RUNNING", "created_at": began} for id in world.effects
            ]
            return [*rows, paused_run()] if world.service.kind in ("resume", "continue") else rows

        return [r for r in await self._read(answer) if name in (None, r["name"])]

    async def train_get(self, id: str) -> dict[str, Any]:
        return dict(await self._read(lambda: paused_run() if id == PAUSED else {"id": id, "status": "RUNNING"}))

    # Evaluations

    async def eval_hosted(self, ref: str, **options: Any) -> str:
        return str(await self._change(self._world.done))

    async def eval_list(self, name: str | None = None, environment: str | None = None) -> list[dict[str, Any]]:
        return list(await self._read(lambda: [{"evaluation_id": id, "name": name} for id in self._world.effects]))

    async def eval_get(self, id: str) -> dict[str, Any]:
        def answer() -> dict[str, Any]:
            word = "COMPLETED" if self._world.samples else "PENDING"
            return {"status": word, "total_samples": self._world.samples}

        return dict(await self._read(answer))

    async def eval_push(self, folder: Path, ref: str, name: str, *, into: str | None = None) -> str:
        id = into or str(await self._change(self._world.done))

        def add() -> str:
            self._world.samples += SAMPLES
            assert self._world.samples == SAMPLES, "its rollouts are there twice"
            return id

        return str(await self._change(add))


def paused_run() -> dict[str, Any]:
    times = {"created_at": "2026-01-01T00:00:00Z", "completed_at": "2026-01-02T00:00:00Z"}
    return {"id": PAUSED, "name": "sums", "status": "PAUSED", **times}


@dataclass(frozen=True)
class Service:
    kind: str
    run_name: str
    make: Callable[[World, Server], AtMostOnce[Any]]
    id_of: Callable[[Any], str]

    def intent(self, world: World, server: Server) -> AtMostOnce[Any]:
        return self.make(world, server)


@pytest.fixture(autouse=True, scope="module")
def wheels_without_a_build() -> Iterator[None]:
    async def built(lab: object, snapshot: Snapshot, target: Path) -> PushedWheel:
        return PushedWheel(target / "sums.whl", "d", "m")

    with mock.patch.object(publish, "build_pushed_wheel", built):
        yield


def push(world: World, server: Server) -> AtMostOnce[Any]:
    snapshot = Snapshot("sums", "environments/sums", world.root, "s", "c", "c" * 64, {}, (), Manifest())
    target = PublishTarget("me", "sums", "0.1.0", None, None, HubEntry("me", "sums", False))
    return EnvironmentPush(server.lab, snapshot, target, KEY, "v1", PublishRequest())


def submission(world: World, server: Server) -> AtMostOnce[Any]:
    config = parse_config(CONFIG, world.root / "workspace" / "sums.toml")
    return RunSubmission(
        server.lab,
        config,
        key=KEY,
        name="sums-abababab",
        attempt=1,
        cost=CostBound(4.0, 10.0, 2.5, ""),
        copy=world.root / "copy.toml",
    )


def resumption(world: World, server: Server) -> AtMostOnce[Any]:
    return ResumedRun(server.lab, PAUSED, paused_run(), KEY)


def continuation(world: World, server: Server) -> AtMostOnce[Any]:
    """Every other server submits a config that goes on from the paused run, and the others resume the run."""
    if server.number % 2:
        return ResumedRun(server.lab, PAUSED, paused_run(), "cd" * 32)
    config = parse_config(CONFIG, world.root / "workspace" / "sums.toml")
    at, cost = RunStanding("fresh", KEY, 1, SUBMITTED), CostBound(4.0, 10.0, 2.5, "")
    return submission_at(server.lab, config, at, cost, world.root / "copy.toml", PAUSED)


def hosted(world: World, server: Server) -> AtMostOnce[Any]:
    lab = server.lab
    return HostedStart(
        lab.prime, lab.ledger, lab.platform, hosted_spec(), key=KEY, name="sums-abababab", job="eval-1", workspace="w"
    )


def upload(world: World, server: Server) -> AtMostOnce[Any]:
    return EvalUpload(server.lab, world.root, key=KEY, name="sums-abababab", ref="me/sums", number=SAMPLES)


SERVICES = [
    Service("push", "", push, lambda published: f"version {published.version}"),
    Service("submit", SUBMITTED, submission, lambda run: run.id),
    Service("resume", "sums", resumption, lambda run: run.id),
    Service("continue", "sums", continuation, lambda run: run.id),
    Service("hosted", "", hosted, str),
    Service("upload", "", upload, lambda uploaded: uploaded.id),
]
ACTIONS = ("step", "step", "step", "step", "step", "call", "call", "kill", "wait", "back up", "restore", "step")


def live(world: World, tape: Tape) -> None:
    """Some calls on two servers of one machine and one of another, with all that can happen to them."""
    servers = {0: world.start(), 1: world.start(), 2: world.start(host=1)}
    ledger, backup = servers[0].lab.settings.ledger, world.root / "backup"
    world.call(servers[0])
    for _ in range(60):
        action = ACTIONS[tape.below(len(ACTIONS))]
        which = tape.below(3)
        if action == "step" and world.calls:
            world.step(world.calls[tape.below(len(world.calls))])
        elif action == "call" and len(world.calls) < 5:
            world.call(servers[which])
        elif action == "kill":
            world.kill(servers[which])
            servers[which] = world.start(servers[which].host)
        elif action == "wait":
            world.pass_time((1.0, 30.0, 200.0)[which])
        elif action == "back up" and which == 0 and world.service.kind != "continue":
            # A platform does not say from which run another one goes on: that is only in the ledger.
            copy_ledger(servers[0].lab.ledger, backup)
        elif action == "restore" and which == 0 and backup.exists():
            for number, server in servers.items():
                world.kill(server)
                servers[number] = server
            # What nobody remembers can be looked up only once it has arrived.
            world.clock += 2000.0
            world.land()
            for path in ledger.parent.glob(f"{ledger.name}*"):
                path.unlink()
            shutil.copy(backup, ledger)
            for number, server in servers.items():
                servers[number] = world.start(server.host)


def copy_ledger(ledger: Ledger, target: Path) -> None:
    target.unlink(missing_ok=True)
    ledger._db.execute("VACUUM INTO ?", (str(target),))


def end_well(world: World, tape: Tape) -> None:
    """The platform answers again, and somebody calls until there is an outcome."""
    world.calm = True
    if tape.below(2):
        for server in [s for s in world.servers if s.alive]:
            world.kill(server)
    else:
        for call in list(world.calls):
            world.finish(call)
    server = world.start()
    delays = world.service.intent(world, server).delays
    began = world.clock
    allowed = delays.landing + (delays.limit if world.foreign_death else 0.0) + 1.0
    while True:
        end = world.finish(world.call(server))
        if world.values and end == world.values[-1]:
            break
        world.pass_time(1.0)
        assert world.clock - began <= allowed + 1.0, f"still {end} after {world.clock - began} seconds"
    world.pass_time(2000.0)
    assert len(world.effects) == 1
    assert set(world.values) == {"version 0.1.0" if world.service.kind == "push" else world.effects[0]}
    if world.service.kind == "upload":
        assert world.samples == SAMPLES
    submitted = SUBMITTED in world.names.values() and world.service.kind in ("submit", "continue")
    assert server.lab.ledger.spent(world.platform) == (10.0 if submitted else 0.0)


@pytest.mark.parametrize("platform", ["prime", "rehearsal"])
@pytest.mark.parametrize("service", SERVICES, ids=lambda s: s.kind)
def test_it_takes_effect_at_most_once_and_its_outcome_is_known_in_time(service: Service, platform: Platform) -> None:
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.integers(0, 119), min_size=150, max_size=150))
    @example([0] * 150)
    def holds(numbers: list[int]) -> None:
        memory = Path("/dev/shm")
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
            root = Path(folder)
            (root / "workspace" / "environments").mkdir(parents=True)
            (root / "copy.toml").write_text(CONFIG, encoding="utf-8")
            tape = Tape(numbers)
            world = World(service, root, tape, platform)
            try:
                live(world, tape)
                end_well(world, tape)
            finally:
                for server in world.servers:
                    with suppress(Exception):
                        world.kill(server)

    holds()
