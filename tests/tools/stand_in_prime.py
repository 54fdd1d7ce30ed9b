"""A `prime` in memory, for tests of how the server deals with its answers; no program is started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import HostedGpuOffer, PlatformModels, Pushed, Submitted
from prime_lab_mcp.lab.prime.refusals import PrimeRefusal
from prime_lab_mcp.lab.state.ledger.rows import Run


def lost() -> PrimeRefusal:
    """The answer to a request that may have arrived did not come."""
    return PrimeRefusal("the connection broke", fix="Call again.", code="platform-unreachable", effect="unknown")


GPU = "H100_80GB"


class StandInPrime:
    """`sent` lists the requests that took effect. `before` and `after` run around the next of them."""

    def __init__(self) -> None:
        self.runs: list[dict[str, Any]] = []
        self.evaluations: list[dict[str, Any]] = []
        self.versions: dict[str, str] = {}
        self.sent: list[str] = []
        self.steps: int | None = None
        self.price = 2.0
        """US dollars per GPU-hour of a `GPU`, and half of what a new run of two GPUs costs in an hour."""
        self.before: Callable[[], Any] | None = None
        self.after: Callable[[], Any] | None = None

    async def _take(self, what: str, effect: Callable[[], Any]) -> Any:
        before, after, self.before, self.after = self.before, self.after, None, None
        if before is not None:
            before()
        await anyio.sleep(0.05)
        answer = effect()
        self.sent.append(what)
        if after is not None:
            after()
        return answer

    def _created(self, name: str) -> Submitted:
        id = f"run-{len(self.runs)}"
        self.runs.insert(0, run_row(id, name, "RUNNING", created_at="2026-11-22T12:00:00Z"))
        return Submitted(id, self.price, 2 * self.price)

    # Training

    async def train_submit(self, path: Path, **options: Any) -> Submitted:
        name = path.read_text(encoding="utf-8").split('name = "')[1].split('"')[0]
        made: Submitted = await self._take("submit", lambda: self._created(name))
        return made

    async def train_resume(self, id: str, **options: Any) -> Submitted:
        name = (await self.train_get(id))["name"]
        made: Submitted = await self._take("resume", lambda: self._created(name))
        return made

    async def train_restart(self, id: str) -> str:
        run = await self.train_get(id)
        await self._take("restart", lambda: run.update(status="PENDING"))
        return ""

    async def train_pause(self, id: str) -> str:
        run = await self.train_get(id)
        await self._take("pause", lambda: run.update(status="PAUSED"))
        return ""

    async def train_stop(self, id: str) -> str:
        """As the platform does it: a run that is paused stays so, and `prime` ends without an error."""
        run = await self.train_get(id)
        if run["status"] != "PAUSED":
            await self._take("stop", lambda: run.update(status="STOPPED"))
        return ""

    async def train_list(self, name: str | None = None, *, limit: int | None = None) -> list[dict[str, Any]]:
        await anyio.sleep(0.01)
        return [dict(r) for r in self.runs if name in (None, r["name"])]

    async def train_get(self, id: str) -> dict[str, Any]:
        return next(r for r in self.runs if r["id"] == id)

    async def train_progress(self, id: str) -> dict[str, Any]:
        return {"latestStep": self.steps}

    async def version(self) -> str:
        return "0.0.0"

    async def frontend(self) -> str:
        return "https://platform.example"

    async def models(self) -> PlatformModels:
        return PlatformModels({}, (HostedGpuOffer(GPU, self.price, True, False),))

    # Evaluations

    async def eval_hosted(self, ref: str, *, name: str, **options: Any) -> str:
        def create() -> str:
            self.evaluations.append({"evaluation_id": f"ev-{len(self.evaluations)}", "name": name})
            return str(self.evaluations[-1]["evaluation_id"])

        return str(await self._take("hosted", create))

    async def eval_list(self, name: str | None = None, environment: str | None = None) -> list[dict[str, Any]]:
        await anyio.sleep(0.01)
        return [e for e in self.evaluations if name in (None, e["name"])]

    async def eval_push(self, folder: Path, ref: str, name: str, *, into: str | None = None) -> str:
        def create() -> str:
            made = {"evaluation_id": f"ev-{len(self.evaluations)}", "name": name, "status": "COMPLETED"}
            self.evaluations.append({**made, "total_samples": 3})
            return made["evaluation_id"]

        return str(await self._take("upload", create))

    async def eval_get(self, id: str) -> dict[str, Any]:
        return next(e for e in self.evaluations if e["evaluation_id"] == id)

    # Publishing

    async def env_push(self, folder: Path, wheel: Path, **options: Any) -> Pushed:
        await self._take("push", lambda: self.versions.update({"0.1.0": "unknown"}))
        return Pushed("me", "sums", "0.1.0", None, None, None)

    async def ask_entries_ahead(self, refs: Sequence[str]) -> None:
        """Nothing is faster here."""

    async def env_status(self, ref: str) -> dict[str, Any]:
        if not self.versions:
            raise PrimeRefusal("no such environment", fix="Check.", code="platform-not-found")
        version, digest = next(iter(self.versions.items()))
        return {"latest_version": {"semantic_version": version, "content_hash": digest}}

    async def env_versions(self, ref: str) -> dict[str, str]:
        return dict(self.versions)


def run_row(id: str, name: str, status: str, **times: str) -> dict[str, Any]:
    return {"id": id, "name": name, "status": status, "created_at": "2026-11-22T10:00:00Z", **times}


def started_run(lab: Lab, id: str, **more: Any) -> Run:
    """The row of a run of two GPUs that was started at 4 dollars an hour, with a bound of 30 dollars."""
    data = {"gpus": 2, "gpu_type": GPU, "max_hours": 7.5, **more.pop("data", {})}
    costs = {"price_per_hour": 4.0, "max_cost": 30.0}
    return Run(id, "training", id, lab.key, id * 64, "rehearsal", data=data, **{**costs, **more})


def server(folder: Path, prime: StandInPrime, **options: Any) -> Lab:
    """A server on a state directory in `folder` that reaches the platform through `prime`."""
    (folder / "workspace" / "environments").mkdir(parents=True, exist_ok=True)
    lab = Lab(Settings(workspace=folder / "workspace", state_dir=folder / "state", rehearsal=True, **options))
    lab.__dict__["prime"] = prime
    return lab
