"""The one path of every tool call.

parse arguments -> settle finished jobs -> snapshot -> gate -> approval -> run -> record evidence -> report. No tool
gates, asks, logs or catches by itself; adding a tool adds nothing here. This is the only place of a call that catches
every exception: a bug is logged with its traceback for people and reported without it.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import anyio

from prime_lab_mcp.lab.errors import BadInput, LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import evidence_from
from prime_lab_mcp.lab.report import Finding, Next, Outcome, Report
from prime_lab_mcp.lab.snapshot import Snapshot
from prime_lab_mcp.lab.text import clip, quote
from prime_lab_mcp.lab.workspace import HUB_NAME
from prime_lab_mcp.server import approval, arguments
from prime_lab_mcp.server.gate import Gate, Passage
from prime_lab_mcp.tools.tool import Arguments, Call, Intent, References, Tool

log = logging.getLogger("prime_lab_mcp")

Progress = Callable[[float, float | None, str], Awaitable[None]]


async def no_progress(done: float, total: float | None, message: str) -> None:
    """For callers that do not follow progress."""


class Calls:
    """Runs tools of one lab. `execute` never raises for anything a tool does; cancellation passes through."""

    def __init__(self, lab: Lab, tools: tuple[Tool, ...], references: References) -> None:
        self.lab = lab
        self.tools: Mapping[str, Tool] = {tool.name: tool for tool in tools}
        self.references = references
        self._one_at_a_time: dict[str, anyio.Lock] = {}

    async def execute(
        self,
        name: str,
        given: Mapping[str, Any],
        *,
        ask: approval.Ask | None = None,
        progress: Progress = no_progress,
    ) -> Report:
        """One call from arguments to report."""
        started = time.monotonic()
        tool = self.tools.get(name)
        if tool is None:
            return _unknown(name, self.tools)
        parsed = arguments.parse(tool, given)
        if isinstance(parsed, Report):
            return parsed
        try:
            report = await self._run(tool, parsed, ask, progress)
        except LabError as error:
            report = _could_not(tool, error)
        except approval.Suspended:
            raise
        except Exception:
            reference = secrets.token_hex(4)
            log.exception("call %s of %s failed", reference, tool.name)
            report = _bug(tool, reference)
        self._note(tool, report, time.monotonic() - started)
        return report

    async def _run(self, tool: Tool, args: Arguments, ask: approval.Ask | None, progress: Progress) -> Report:
        await self._settle()
        call = self._call(await self._snapshot(tool, args), progress)
        if _hosted(tool, args):
            call = replace(call, hosted=getattr(args, "environment", None))
        if tool.config is not None:
            own = await self._own(args)
            refused = await self._gate(call).own_environment(tool, own, call) if own is not None else None
            if refused is not None:
                return refused
            call = replace(call, config=await tool.config(call, args))
        passage = await self._gate(call).check(tool, call)
        if passage.report is not None:
            return passage.report
        if tool.intent is None:
            return await self._finish(tool, args, call, progress)
        intent = await tool.intent(call, args)
        if intent is None:
            return await self._finish(tool, args, call, progress)
        return await self._send(tool, args, replace(call, intent=intent), intent, passage, ask)

    async def _send(
        self,
        tool: Tool,
        args: Arguments,
        call: Call,
        intent: Intent,
        passage: Passage,
        ask: approval.Ask | None,
    ) -> Report:
        request = approval.Request(
            tool=tool.name,
            arguments=args.model_dump(exclude_unset=True),
            confirm=getattr(args, "confirm", None),
            yes=bool(getattr(args, "yes", False)),
            cautions=tuple(dict.fromkeys((*passage.cautions, *intent.cautions))),
        )
        refusal = await approval.approve(self.lab, intent, request, ask)
        if refusal is not None:
            return refusal
        # Between the question and now the files may have changed: what goes out is what is proven now.
        again = await self._gate(call).check(tool, call)
        if again.report is not None:
            return again.report
        lock = self._one_at_a_time.setdefault(intent.key, anyio.Lock())
        # A lost client must not leave a half-known push or submission; an eval is a job and goes on by itself.
        with anyio.CancelScope(shield=intent.kind != "eval"):
            async with lock:
                report = await self._reserved(tool, args, call, intent)
        return report

    async def _reserved(self, tool: Tool, args: Arguments, call: Call, intent: Intent) -> Report:
        """Run with the intent's upper bound counted, so that calls at once stay under the cap together."""
        ledger, platform = self.lab.ledger, self.lab.platform
        if intent.kind not in ("submit", "control") or not intent.ask or intent.max_cost is None:
            return await self._finish(tool, args, call, call.progress)
        what = f"{tool.name} {intent.key[:8]}"
        if not ledger.reserve(intent.key, intent.max_cost, what, platform, self.lab.settings.max_spend):
            return approval.over_cap(self.lab, intent.max_cost)
        sent = False
        try:
            report = await self._finish(tool, args, call, call.progress)
            sent = report.status in ("passed", "running")
        finally:
            state = ledger.intent(intent.key, platform)
            if not sent and (state is None or state.state == "open"):
                ledger.unreserve(intent.key, platform)
        return report

    async def _finish(self, tool: Tool, args: Arguments, call: Call, progress: Progress) -> Report:
        outcome = await tool.run(call, args)
        self._record(tool, args, outcome.snapshot or call.snapshot, outcome)
        return _report(outcome)

    def _record(self, tool: Tool, args: Arguments, subject: Snapshot | None, outcome: Outcome) -> None:
        if tool.records is None or outcome.status == "running" or not outcome.facts.proves:
            return
        self.lab.ledger.record(
            evidence_from(
                tool.name,
                outcome.status,
                self.lab.key,
                subject if tool.records == "environment" else None,
                outcome.findings,
                outcome.facts,
                self.lab.platform,
                args.model_dump(mode="json", exclude_unset=True, exclude={"confirm", "yes"}),
                {**outcome.data, **outcome.facts.kept},
            )
        )

    def _call(self, snapshot: Snapshot | None, progress: Progress) -> Call:
        return Call(
            lab=self.lab,
            snapshot=snapshot,
            progress=progress,
            references=self.references,
            prove=lambda name, taken: self._prove(name, taken, progress),
        )

    async def _prove(self, name: str, snapshot: Snapshot, progress: Progress) -> Report:
        """Run a free prerequisite on a snapshot and record it."""
        tool = self.tools[name]
        args = tool.args.model_validate({"environment": snapshot.relative})
        call = self._call(snapshot, progress)
        return await self._finish(tool, args, call, progress)

    async def _prove_config(self, call: Call) -> Report:
        tool = self.tools["check_training_config"]
        assert call.config is not None
        path = call.config.relative_to(self.lab.workspace.root).as_posix()
        return await self._finish(tool, tool.args.model_validate({"path": path}), call, call.progress)

    def _gate(self, call: Call) -> Gate:
        return Gate(self.lab, lambda name, taken: self._prove(name, taken, call.progress), self._prove_config)

    async def _snapshot(self, tool: Tool, args: Arguments) -> Snapshot | None:
        name = getattr(args, "environment", None)
        if not tool.snapshot or name is None:
            return None
        if self._on_hub(name):
            if _hosted(tool, args):
                return None
            raise BadInput(
                f"{quote(name, 120)} is a name on the Hub, and {tool.name} works on environments of the workspace",
                fix=f'Pull it with create_environment(name=..., hub="{clip(name, 120)}"), or train on it as it is.',
                code="environment-not-local",
            )
        return await self.lab.snapshot(name)

    async def _own(self, args: Arguments) -> Snapshot | None:
        """The local environment that a submission without a config names."""
        name = getattr(args, "environment", None)
        if name is None or getattr(args, "config", None) is not None:
            return None
        return None if self._on_hub(name) else await self.lab.snapshot(name)

    def _on_hub(self, name: str) -> bool:
        """`owner/name[@version]` that is no path of the workspace."""
        found = HUB_NAME.match(name)
        return found is not None and found["owner"] != "environments" and not (self.lab.workspace.root / name).exists()

    async def _settle(self) -> None:
        """Record what jobs that ended since the last call have proven."""
        if self.lab.ledger.unjudged(self.lab.key):
            from prime_lab_mcp.lab.evals.verdicts import settle

            await anyio.to_thread.run_sync(settle, self.lab)

    def _note(self, tool: Tool, report: Report, seconds: float) -> None:
        try:
            self.lab.ledger.note_call(self.lab.key, tool.name, report.status, seconds, report.summary[:300])
        except LabError as error:
            log.warning("a call of %s was not noted: %s", tool.name, error)


def _hosted(tool: Tool, args: Arguments) -> bool:
    return tool.hosted is not None and tool.hosted(args)


def _report(outcome: Outcome) -> Report:
    findings = outcome.findings
    if outcome.status in ("failed", "inconclusive") and not outcome.blockers:
        raise AssertionError(f"a {outcome.status} outcome names no blocker: {outcome.summary}")
    return Report(
        outcome.status, outcome.summary, findings, outcome.data,
        next=outcome.next, links=outcome.links, pictures=outcome.pictures,
    )  # fmt: skip


def _unknown(name: str, tools: Mapping[str, Tool]) -> Report:
    return Report(
        "error",
        "There is no such tool.",
        findings=(
            Finding("unknown-tool", "blocker", f"no tool is called {name!r:.80}", f"Tools: {', '.join(tools)}."),
        ),
        next=(Next("workflow_status", "shows what to call next"),),
    )


def _could_not(tool: Tool, error: LabError) -> Report:
    return Report(
        "error",
        f"{tool.name} could not do its work: {error.message}",
        findings=(error.as_finding(),),
        next=error.next or (Next(tool.name, "after that"),),
    )


def _bug(tool: Tool, reference: str) -> Report:
    fix = f"Call it again; if it repeats, show the user reference {reference} in the server's log."
    return Report(
        "error",
        f"{tool.name} broke; this is a fault of prime-lab-mcp, not of the environment.",
        findings=(Finding("internal-error", "blocker", f"unexpected failure, reference {reference}", fix),),
        next=(Next("workflow_status", "nothing was recorded; see where things stand"),),
    )
