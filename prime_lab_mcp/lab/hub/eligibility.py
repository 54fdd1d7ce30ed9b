"""A Hub environment as a training environment: whether it can be trained, whether it is ours, and what training needs.

Another owner's v1 environment can go straight into a config (the fast path); validating it again is offered, not
required. Our own environment needs its gates under any name and from any workspace.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.hub import lookup
from prime_lab_mcp.lab.hub.lookup import HubEntry
from prime_lab_mcp.lab.hub.ownership import FileFingerprints, read_ownership
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Runtime
from prime_lab_mcp.lab.state.ledger.rows import Push

_WHY: dict[Runtime | None, tuple[bool | None, str]] = {
    "v1": (True, "it is a verifiers v1 environment"),
    "v0": (False, "it is a v0 environment: it can be tested, evaluated and pushed, but the platform trains only v1"),
    None: (None, "the Hub does not say which verifiers generation it is; pull it and run check_environment"),
}
_GATES = (
    "It is yours, so it keeps its gates under any name and from any workspace: check_environment, test_reward and "
    "check_reward_distribution on exactly the files that push_environment published, for the model to be trained."
)
_BY_HAND = (
    " But no push_environment published them from this machine: push its files with that first, or pull it "
    "(create_environment with hub) and prove it here."
)
_FAST = (
    "It is not yours and v1, so it can be trained as it is: write_training_config, then submit_training. "
    "Nothing has to be validated again."
)


@dataclass(frozen=True, slots=True)
class TrainingCandidate:
    """A Hub environment judged for training. `version` is the requested version, or the latest."""

    entry: HubEntry
    version: str | None
    runtime: Runtime | None
    ours: bool
    pushes: tuple[Push, ...]
    """Pushes of this name from this machine, newest first."""
    workspace: str

    @property
    def pinned(self) -> str:
        return f"{self.entry.ref}@{self.version}" if self.version else self.entry.ref

    @property
    def trainable(self) -> bool | None:
        return _WHY[self.runtime][0]

    @property
    def fast(self) -> bool:
        """Whether it may be trained without local evidence."""
        return bool(self.trainable) and not self.ours and self.version is not None

    def as_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "runtime": self.runtime,
            "trainable": self.trainable,
            "why": _WHY[self.runtime][1],
            "ours": self.ours,
            "pushed_from_here": [p.version for p in self.pushes][:5],
            "fast_path": self.fast,
        }
        if self.ours:
            fields["gates"] = _GATES + ("" if self.pushes else _BY_HAND)
        elif self.fast:
            fields["gates"] = _FAST
            fields["offered"] = [call.as_json() for call in self.offered()]
        return fields

    def offered(self) -> tuple[Next, ...]:
        """The calls that would validate the environment again, each with what it shows."""
        name = self.entry.name.replace("-", "_")
        local = {"environment": name}
        return (
            Next(
                "create_environment",
                "pulls it to read: its code, its data, what its reward pays for",
                {"name": name, "hub": self.pinned},
            ),
            Next("check_environment", "shows whether it loads, and flaws of its tasks: leaks, duplicates, gold", local),
            Next("test_reward", "shows whether the reward pays gold answers, refuses wrong ones, can be hacked", local),
            Next(
                "run_eval",
                "shows, with the model to be trained, what share of groups would carry a gradient",
                {**local, "model": "MODEL"},
            ),
        )

    def next(self) -> tuple[Next, ...]:
        if self.ours:
            return self._next_of_ours()
        train: list[Next] = []
        if self.fast:
            train = [
                Next("write_training_config", "train on it as it is", {"environments": [self.pinned]}),
                Next(
                    "submit_training",
                    "or at once: writes and checks a config, then asks with the price before anything is spent",
                    {"environment": self.pinned},
                ),
            ]
        name = self.entry.name.replace("-", "_")
        pull = "only if you want to read, validate or change it" if self.fast else "pull it to read or change it"
        return (*train, Next("create_environment", pull, {"name": name, "hub": self.pinned}))

    def _next_of_ours(self) -> tuple[Next, ...]:
        here = next((p.environment for p in self.pushes if p.workspace == self.workspace), None)
        status = Next(
            "workflow_status",
            "which of its gates are open here, and the next call",
            {"environment": here} if here else None,
        )
        if not self.trainable:
            return (status,)
        return (status, Next("write_training_config", "once they are", {"environments": [self.pinned]}))


async def training_candidate(lab: Lab, entry: HubEntry, version: str | None) -> TrainingCandidate:
    """Judge a Hub environment. Reads the package's source where the Hub has no label for the version."""
    runtime = await lookup.runtime_at(lab.prime, entry, version)
    pushes = lab.ledger.pushes(owner=entry.owner, name=entry.name, platform=lab.platform)
    ownership = await read_ownership(lab)
    ours = ownership.is_ours(lab, entry.owner, entry.name, FileFingerprints(entry.hash_of(version)))
    return TrainingCandidate(entry, version or entry.version, runtime, ours, tuple(pushes), lab.key)
