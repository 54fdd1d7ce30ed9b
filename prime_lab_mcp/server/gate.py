"""Applies the gate table to one call: runs the free prerequisites, gathers what is missing, refuses or lets pass."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from prime_lab_mcp.lab.gates import (
    CAPABILITIES,
    COULD_NOT_ASK,
    FREE,
    LINE,
    NEEDS,
    NOT_VALIDATED,
    Need,
    Standing,
    Subject,
    source_unmet,
    standing,
)
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.line import subject_of
from prime_lab_mcp.lab.report import Finding, Next, Report, Unmet
from prime_lab_mcp.lab.snapshot import Snapshot
from prime_lab_mcp.tools.tool import Call, Tool


@dataclass(frozen=True, slots=True)
class Passage:
    """`report` set: refused. `cautions`: what a confirmation has to name."""

    report: Report | None = None
    cautions: tuple[str, ...] = ()


class Gate:
    """One call's gate. `prove` and `prove_config` run a free prerequisite and record it."""

    def __init__(
        self,
        lab: Lab,
        prove: Callable[[str, Snapshot], Awaitable[Report]],
        prove_config: Callable[[Call], Awaitable[Report]],
    ) -> None:
        self.lab = lab
        self._prove = prove
        self._prove_config = prove_config

    async def check(self, tool: Tool, call: Call) -> Passage:
        """Refuse with everything that is missing at once, or let pass with what has to be said."""
        row = f"{tool.name}, hosted" if call.hosted is not None else tool.name
        needs = NEEDS.get(row, ())
        if not needs or (call.snapshot is None and call.config is None and call.hosted is None):
            return Passage()
        unmet: list[Unmet] = []
        cautions: list[str] = []
        findings: list[Finding] = []
        if call.hosted is not None and call.snapshot is None:
            needs = ()
        for found in await self._missing(needs, self._subject(call), call, findings):
            caution = _as_caution(found)
            if caution is not None:
                cautions.append(caution)
            elif found.unmet is not None:
                unmet.append(found.unmet)
        if tool.name == "submit_training" and call.config is not None:
            await self._sources(call, unmet, cautions)
        if not unmet:
            await self._capability(row, unmet, findings)
        if not unmet and call.hosted is not None:
            from prime_lab_mcp.lab.evals.hosted.subject import look

            unmet.extend((await look(self.lab, call.hosted, call.snapshot)).unmet)
        if unmet:
            return Passage(_blocked(tool, unmet, findings, call))
        return Passage(None, tuple(cautions))

    async def own_environment(self, tool: Tool, snapshot: Snapshot, call: Call) -> Report | None:
        """Before a config is written for an environment of ours: its whole line must be proven."""
        call = replace(call, snapshot=snapshot)
        findings: list[Finding] = []
        missing = await self._missing(LINE, subject_of(snapshot), call, findings)
        unmet = [found.unmet for found in missing if found.unmet is not None]
        return _blocked(tool, unmet, findings, call) if unmet else None

    async def _missing(
        self, needs: tuple[Need, ...], subject: Subject, call: Call, findings: list[Finding]
    ) -> list[Standing]:
        """The needs that are not met; a free one is run first, unless something before it is missing anyway."""
        missing: list[Standing] = []
        for need in needs:
            found = self._standing(need, subject)
            if found.why in ("never-run", "stale", "rehearsal") and need.tool in FREE and not missing:
                report = await self._free(need.tool, call)
                findings.extend(f for f in report.findings if f.severity == "blocker")
                found = self._standing(need, subject)
            if found.why is not None:
                missing.append(found)
        return missing

    def _standing(self, need: Need, subject: Subject) -> Standing:
        history = self.lab.ledger.evidence(self.lab.key, tool=need.tool)
        return standing(need, history, subject, self.lab.platform, self.lab.ledger.overrides(self.lab.key))

    async def _free(self, name: str, call: Call) -> Report:
        if name == "check_training_config":
            return await self._prove_config(call)
        return await self._prove(name, call.environment)

    def _subject(self, call: Call) -> Subject:
        subject = Subject()
        if call.snapshot is not None:
            subject = subject_of(call.snapshot)
        if call.config is not None:
            subject = replace(subject, config_sha256=hashlib.sha256(call.config.read_bytes()).hexdigest())
        return subject

    async def _sources(self, call: Call, unmet: list[Unmet], cautions: list[str]) -> None:
        from prime_lab_mcp.lab.configs.read import read
        from prime_lab_mcp.lab.sources import gather

        assert call.config is not None
        config = read(call.config)
        for facts in await gather(self.lab, config):
            missing, named = source_unmet(facts, self.lab.platform, config.model)
            unmet.extend(u for u in missing if u not in unmet)
            cautions.extend(c for c in named if c not in cautions)

    async def _capability(self, row: str, unmet: list[Unmet], findings: list[Finding]) -> None:
        name = CAPABILITIES.get(row)
        if name is None:
            return
        from prime_lab_mcp.lab.capabilities import capability

        missing = await capability(self.lab, name)
        if missing:
            findings.extend(missing)
            unmet.append(Unmet("preflight", "failed", f"the {name} is not ready: {missing[0].message}"))


def _as_caution(found: Standing) -> str | None:
    """A config check that could not ask the platform may be replaced by a confirmation that says so."""
    row = found.row
    if found.why == "inconclusive" and row is not None and set(row.blockers) == {COULD_NOT_ASK}:
        return NOT_VALIDATED
    return None


def _blocked(tool: Tool, unmet: list[Unmet], findings: list[Finding], call: Call) -> Report:
    first = unmet[0]
    arguments = None
    if call.snapshot is not None and first.tool != "preflight":
        arguments = {"environment": call.snapshot.name}
    if first.tool == "check_training_config" and call.config is not None:
        arguments = {"path": call.config.name}
    names = ", ".join(dict.fromkeys(u.tool for u in unmet))
    return Report(
        "blocked",
        f"{tool.name} is refused until this is proven: {names}.",
        findings=tuple(findings),
        unmet=tuple(unmet),
        next=(Next(first.tool, first.detail, arguments),),
    )
