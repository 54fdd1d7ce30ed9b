"""Which harness and runtime play each agent of an environment.

An environment without an `Env` or harness of its own is played by the plain chat on this machine: what verifiers itself
takes is a shell in a rented sandbox. One that exports its own is played as it says. What the caller names wins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.evals.spec import IN_PROCESS
from prime_lab_mcp.lab.text import quote
from prime_lab_mcp.lab.worker.cases import Role

RUNTIME = "subprocess"
RENTED = frozenset({"prime", "modal", "e2b"})
"""Runtimes that need an account, whose key no local evaluation has."""


@dataclass(frozen=True, slots=True)
class Seating:
    """`harness` and `runtime` name them for reports; `seats` is EvalSpec.seats, empty for the usual single agent."""

    harness: str
    runtime: str
    seats: Mapping[str, Sequence[str]] = field(default_factory=dict)


def seating(roles: Sequence[Role] | None, harness: str | None, runtime: str | None) -> Seating:
    """Who plays; `harness` and `runtime` are None where none was named. Raises BadInput (`eval-needs-sandbox`)."""
    if not roles or not any(role.own for role in roles):
        return Seating(harness or IN_PROCESS, runtime or RUNTIME)
    ends = {role.name: _end(role, harness, runtime) for role in roles}
    if set(ends) == {"agent"} and ends["agent"] == (IN_PROCESS, RUNTIME):
        return Seating(*ends["agent"])
    seats = {role.name: _seat(role, ends[role.name], harness, runtime) for role in roles}
    return Seating(_named({n: e[0] for n, e in ends.items()}), _named({n: e[1] for n, e in ends.items()}), seats)


def _end(role: Role, harness: str | None, runtime: str | None) -> tuple[str, str]:
    """What the agent is played by in the end."""
    played, place = harness or role.harness, runtime or role.runtime
    if place in RENTED and runtime is None:
        if played != IN_PROCESS:
            raise BadInput(
                f"its agent {quote(role.name, 60)} is played by {quote(played, 60)} in the rented sandbox "
                f"{quote(place, 40)}, for which a local evaluation has no key",
                fix='Name a runtime: run_eval(runtime="docker"), or "subprocess" where what the model runs may touch '
                "this machine; run_eval(hosted=true) uses the sandbox, once it is pushed.",
                code="eval-needs-sandbox",
            )
        place = RUNTIME  # the plain chat runs nothing that would need a sandbox
    return played, place


def _seat(role: Role, end: tuple[str, str], harness: str | None, runtime: str | None) -> list[str]:
    """What is written over the environment's own settings: `[harness, runtime]`, empty texts where those hold."""
    if end == (IN_PROCESS, RUNTIME):
        return list(end)
    changed = runtime or (end[1] if end[1] != role.runtime else "")
    return [harness or "", changed] if harness or changed else []


def _named(ends: Mapping[str, str]) -> str:
    found = set(ends.values())
    return found.pop() if len(found) == 1 else ", ".join(f"{name}: {end}" for name, end in ends.items())
