"""Stores plans whose question was asked in one call and is answered in a later call.

A client of protocol 2026-07-28 repeats the call with the user's answer; other clients send a `confirm` token in a
second call. The second call runs the plan of the question if files and arguments are the same.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.tools.tool import AnyTool, Arguments, Call, Plan

MOST_PLANS = 32
PLAN_SECONDS = 600.0
"""Lifetime of a waiting plan in seconds. After it, the plan is made again with current prices."""


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """Fingerprints of the files of a plan. If the files change, the plan is made again."""

    source: str | None
    content: str | None
    config_sha256: str | None

    @classmethod
    def of(cls, snapshot: Snapshot | None, config: Path | None) -> Fingerprints:
        """Read the fingerprints of a snapshot and of the present config file."""
        return cls(
            snapshot.source if snapshot is not None else None,
            snapshot.content if snapshot is not None else None,
            _sha256(config) if config is not None else None,
        )


@dataclass(frozen=True, slots=True)
class WaitingPlan:
    """A plan whose question was asked, with its config and the platform's answers."""

    plan: Plan[Any]
    config: Path | None
    platform: PlatformReader | None
    fingerprints: Fingerprints
    at: float

    def fits(self, snapshot: Snapshot | None) -> bool:
        """True if the files are unchanged and the plan is not too old."""
        fresh = time.monotonic() - self.at < PLAN_SECONDS
        return fresh and self.fingerprints == Fingerprints.of(snapshot, self.config)


class WaitingPlans:
    """The waiting plans of one lab, limited in number and age. A lost plan is simply made again."""

    def __init__(self) -> None:
        self._plans: OrderedDict[str, WaitingPlan] = OrderedDict()

    def get(self, tool: AnyTool, args: Arguments) -> WaitingPlan | None:
        """The plan of an earlier call with these arguments, even if it no longer fits."""
        return self._plans.get(call_key(tool, args))

    def put(self, tool: AnyTool, args: Arguments, plan: Plan[Any], call: Call, fingerprints: Fingerprints) -> None:
        """Store a plan while its question is open. A plan that is asked about again keeps its age."""
        key = call_key(tool, args)
        known = self._plans.get(key)
        at = known.at if known is not None and known.plan is plan else time.monotonic()
        self._plans[key] = WaitingPlan(plan, call.config, call.platform, fingerprints, at)
        self._plans.move_to_end(key)
        while len(self._plans) > MOST_PLANS:
            self._plans.popitem(last=False)

    def drop(self, tool: AnyTool, args: Arguments) -> None:
        """Remove a plan that runs or was refused."""
        self._plans.pop(call_key(tool, args), None)


def call_key(tool: AnyTool, args: Arguments) -> str:
    """The tool and its arguments without the answer (`confirm`, `yes`) of a second call."""
    given = args.model_dump(mode="json", exclude={"confirm", "yes"})
    return json.dumps([tool.name, given], sort_keys=True)


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
