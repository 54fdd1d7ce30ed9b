"""The call path of every tool call.

parse arguments -> snapshot -> settle finished jobs, if the tool decides by verdicts -> gate -> plan -> approval -> run
that plan -> record evidence -> report. Tools do not check gates, ask for approval, log or catch errors themselves, and
a new tool needs no change here. Only this module catches every exception: a bug is logged with its traceback and
reported without the traceback.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import anyio

from prime_lab_mcp.lab.base.errors import UNDECIDED, BadInput, LabError, file_error
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.load_deadline import shared_load_deadline
from prime_lab_mcp.lab.base.report import Finding, Next, Progress, Report
from prime_lab_mcp.lab.base.text import clip, quote
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.per_call import PlatformAnswers
from prime_lab_mcp.lab.state.ledger.database import ledger_error
from prime_lab_mcp.lab.state.ledger.rows import evidence_from
from prime_lab_mcp.lab.state.once import reserved
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.pulled import PulledUnconfined
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.workspace import HUB_NAME
from prime_lab_mcp.server import approval, arguments
from prime_lab_mcp.server.gate import Gate, Passage
from prime_lab_mcp.server.heartbeat import heartbeat
from prime_lab_mcp.server.plans import Fingerprints, WaitingPlan, WaitingPlans, call_key
from prime_lab_mcp.tools.on_demand import ToolsOnDemand
from prime_lab_mcp.tools.tool import AnyTool, Arguments, Call, Intent, Plan, PlannedTool, ReferencePages, Tool

log = logging.getLogger("prime_lab_mcp")


EXECUTING = max(4, os.cpu_count() or 0)
"""Number of calls that run environment code at the same time. More calls wait: each holds a process of some hundred
megabytes, and the threads of too many calls would keep the server from reading its input."""


_CANCELLATION_SECONDS = 0.1


async def no_progress(done: float, total: float | None, message: str) -> None:
    """A progress callback for callers that do not show progress."""


class Calls:
    """Runs the tools of one lab.

    `execute` turns every exception of a tool into a report; cancellation passes through.
    """

    def __init__(
        self, lab: Lab, tools: tuple[AnyTool, ...] | Mapping[str, AnyTool], references: ReferencePages
    ) -> None:
        self.lab = lab
        self.tools = tools if isinstance(tools, Mapping) else {tool.name: tool for tool in tools}
        self._importing = anyio.Lock()
        self.references = references
        self._waiting = WaitingPlans()
        self._one_at_a_time: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        """A lock for each call and each intent that is being sent."""
        self.sending = 0
        """Number of calls that publish, spend or change something on the platform now."""
        self._executing = anyio.CapacityLimiter(EXECUTING)
        self.evaluations_ended = anyio.Event()
        """Set when a call encounters a finished evaluation without a verdict that the call does not need."""

    async def execute(
        self,
        name: str,
        given: Mapping[str, Any],
        *,
        ask: approval.Ask | None = None,
        progress: Progress = no_progress,
    ) -> Report:
        """Run one call, from arguments to report."""
        if name not in self.tools:
            return _unknown(name, self.tools)
        tool = await self._tool(name)
        parsed = arguments.parse(tool, given)
        if isinstance(parsed, Report):
            return self._labelled(parsed)
        # The recommended calls are part of it: for them the files may be read again.
        async with self._with_heartbeat(tool, progress) as progress:
            return await self._answer(tool, parsed, ask, progress)

    async def _tool(self, name: str) -> AnyTool:
        """The tool of a name. Its first use imports the tool in a thread, one tool at a time.

        The lock is an async one: calls that waited in threads would keep the server from reading its input.
        """
        tools = self.tools
        if isinstance(tools, ToolsOnDemand) and not tools.is_imported(name):
            async with self._importing:
                return await anyio.to_thread.run_sync(tools.__getitem__, name)
        return tools[name]

    async def _answer(self, tool: AnyTool, parsed: Arguments, ask: approval.Ask | None, progress: Progress) -> Report:
        """The report of one call, with every failure of the tool as a report."""
        started = time.monotonic()
        try:
            async with self._turn(tool, progress):
                with shared_load_deadline():
                    report = await self._run_or_ask(tool, parsed, ask, progress)
        except LabError as error:
            report = _could_not(tool, error)
        except approval.Suspended:
            raise
        except sqlite3.Error as error:
            report = _could_not(tool, ledger_error(error, self.lab.settings.ledger))
        except Exception as error:
            settings = self.lab.settings
            known = file_error(error, settings.workspace, settings.state_dir) if isinstance(error, OSError) else None
            if known is not None:
                report = _could_not(tool, known)
            else:
                reference = secrets.token_hex(4)
                log.exception("call %s of %s failed", reference, tool.name)
                report = _bug(tool, reference)
        report = self._labelled(await self._with_right_calls(tool, parsed, report))
        self._note(tool, report, time.monotonic() - started)
        return report

    def _labelled(self, report: Report) -> Report:
        """In a rehearsal, add a note to the summary of the report."""
        if not self.lab.settings.rehearsal or "a rehearsal" in report.summary.lower():
            return report
        return replace(report, summary=f"{report.summary} (Rehearsal: the platform is a stand-in.)")

    async def _with_right_calls(self, tool: AnyTool, args: Arguments, report: Report) -> Report:
        from prime_lab_mcp.server.next_calls import PresentCall, needs_files, with_right_calls

        try:
            snapshot = await self._snapshot(tool, args) if needs_files(report) else None
        except (LabError, OSError):  # A finished report is not lost because the files changed meanwhile.
            snapshot = None
        given = args.model_dump(mode="json", exclude_unset=True)
        present = PresentCall(self.lab, tool, given, self.tools, snapshot)
        try:
            return await anyio.to_thread.run_sync(with_right_calls, report, present)
        except (LabError, OSError, sqlite3.Error) as error:
            log.warning("the calls that %s recommends were not completed: %s", tool.name, error)
            return report

    @asynccontextmanager
    async def _with_heartbeat(self, tool: AnyTool, progress: Progress) -> AsyncIterator[Progress]:
        """Wrap `progress` so that it repeats its last message during long silences, if the caller shows progress."""
        if progress is no_progress:
            yield progress
            return
        async with heartbeat(progress, f"{tool.name} reads the files and what is proven about them") as heard:
            yield heard

    @asynccontextmanager
    async def _turn(self, tool: AnyTool, progress: Progress) -> AsyncIterator[None]:
        """Wait until this call may run environment code. Calls that mostly wait for a job do not count."""
        if tool.effect != "executes" or "wait_seconds" in tool.args.model_fields:
            yield
            return
        had_to_wait = self._executing.available_tokens < 1
        if had_to_wait:
            await progress(0, None, f"{tool.name} waits for other calls that run environments")
        async with self._executing:
            if had_to_wait:
                # A client that gives up cancels all its calls in a row. The pause lets a cancellation arrive first.
                await anyio.sleep(_CANCELLATION_SECONDS)
                await progress(0, None, f"{tool.name} begins")
            yield

    async def _run_or_ask(self, tool: AnyTool, args: Arguments, ask: approval.Ask | None, progress: Progress) -> Report:
        """Run the call. If it needs to run another owner's code unconfined, ask the user first and then run it
        again."""
        try:
            return await self._run(tool, args, ask, progress)
        except PulledUnconfined as error:
            given = args.model_dump(mode="json", exclude_unset=True)
            refusal = await approval.approve_foreign_code(self.lab, error, tool.name, given, ask)
        return refusal if refusal is not None else await self._run(tool, args, ask, progress)

    async def _same_call_ended(self, tool: AnyTool, args: Arguments, progress: Progress) -> None:
        """Wait while the same call, with this answer or another, is being sent. Half of an effect on the platform would
        make a plan of its own, and the reserved amount would count twice."""
        same = self._one_at_a_time.get(call_key(tool, args))
        if same is not None and same.statistics().locked:
            await progress(0, None, f"the same call of {tool.name} is being sent; this one waits for its outcome")
            async with same:
                pass

    async def _run(self, tool: AnyTool, args: Arguments, ask: approval.Ask | None, progress: Progress) -> Report:
        if isinstance(tool, PlannedTool):
            await self._same_call_ended(tool, args, progress)
        snapshot = await self._snapshot(tool, args)
        await self._settle(tool, snapshot, progress)
        call = self._call(snapshot, progress)
        call = replace(call, env_args=getattr(args, "env_args", None), resume_from=getattr(args, "resume_from", None))
        if tool.continues is not None:
            call = replace(call, continues=tool.continues(args))
        if _hosted(tool, args):
            call = replace(call, hosted=getattr(args, "environment", None))
        earlier = self._waiting.get(tool, args)
        waiting = earlier if earlier is not None and earlier.fits(call.snapshot) else None
        if waiting is not None:
            call = replace(call, platform=waiting.platform)
        if tool.config is not None:
            own = await self._own(args)
            refused = await self._gate(call).own_environment(tool, own, call) if own is not None else None
            if refused is not None:
                return refused
            planned = waiting.config if waiting is not None else None
            config = planned if planned is not None else await tool.config(call, args)
            # The gates, the plan and the request use one hash, because the file may be replaced at any moment.
            call = replace(call, config=config, config_sha256=Fingerprints.of(None, config).config_sha256 or "")
        passage = await self._gate(call).check(tool, call)
        if passage.report is not None:
            return passage.report
        if isinstance(tool, Tool):
            return await self._finish(tool, args, call, tool.run(call, args))
        fingerprints = replace(Fingerprints.of(call.snapshot, None), config_sha256=call.config_sha256)
        plan = waiting.plan if waiting is not None else await tool.plan(call, args)
        if plan.intent is None:
            return await self._finish(tool, args, call, tool.run(call, plan))
        request = approval.Request(
            tool=tool.name,
            arguments=args.model_dump(exclude_unset=True),
            confirm=getattr(args, "confirm", None),
            yes=bool(getattr(args, "yes", False)),
            cautions=tuple(dict.fromkeys((*passage.cautions, *plan.intent.cautions))),
            personal=passage.personal,
            ceilings=passage.ceilings,
            evidence=passage.evidence,
            changed=_differs(earlier, plan.intent),
            config_sha256=call.config_sha256 or None,
        )
        self._waiting.put(tool, args, plan, call, fingerprints)
        refusal = await approval.approve(self.lab, plan.intent, request, ask)
        if refusal is None or "confirm" not in refusal.data:  # A declined question is asked anew, by a new plan.
            self._waiting.drop(tool, args)
        if refusal is not None:
            return refusal
        return await self._send(tool, args, call, plan, plan.intent, fingerprints, passage)

    async def _send(
        self,
        tool: PlannedTool[Any, Any],
        args: Arguments,
        call: Call,
        plan: Plan[Any],
        intent: Intent,
        fingerprints: Fingerprints,
        asked: Passage,
    ) -> Report:
        # The files may have changed since the question: only files with current evidence are sent.
        if Fingerprints.of(call.snapshot, call.config) != fingerprints:
            raise LabError(
                "the files changed while this was being approved",
                fix=Fix("Call ", NamedCall(tool.name), " again; it asks about what would be sent now."),
                code="intent-changed",
            )
        again = await self._gate(call).check(tool, call)
        if again.report is not None:
            return again.report
        if again != asked:
            raise LabError(
                "the evidence changed while this was being approved",
                fix=Fix("Call ", NamedCall(tool.name), " again; it asks about the present evidence."),
                code="intent-changed",
            )
        confirm = getattr(args, "confirm", None)
        if confirm is not None and intent.kind == "eval" and intent.ask and call.hosted is None:
            # A local evaluation that broke is resumed under the same intent, and costs up to its bound again.
            self.lab.ledger.use_up(confirm)
        same = self._one_at_a_time.setdefault(call_key(tool, args), anyio.Lock())
        lock = self._one_at_a_time.setdefault(intent.key, anyio.Lock())
        # A lost client must not interrupt a push or submission. An evaluation is a job and continues by itself.
        shield = intent.kind != "eval"
        self.sending += shield
        try:
            with anyio.CancelScope(shield=shield):
                async with same if shield else nullcontext(), lock:
                    report = await self._reserved(tool, args, call, plan, intent)
            return report
        finally:
            self.sending -= shield

    async def _reserved(
        self, tool: PlannedTool[Any, Any], args: Arguments, call: Call, plan: Plan[Any], intent: Intent
    ) -> Report:
        """Run the plan while the intent's upper bound is reserved, so that simultaneous calls together stay below the
        cap."""
        ledger, platform = self.lab.ledger, self.lab.platform
        if intent.kind not in ("submit", "control") or not intent.ask or intent.max_cost is None:
            return await self._finish(tool, args, call, tool.run(call, plan))
        what = f"{tool.name} {intent.key[:8]}"
        with reserved(ledger, intent.key, platform, intent.max_cost, what, self.lab.limits.max_spend) as fits:
            if not fits:
                return approval.over_cap(self.lab, intent.max_cost, tool.name, args.model_dump(exclude_unset=True))
            return await self._finish(tool, args, call, tool.run(call, plan))

    async def _finish(self, tool: AnyTool, args: Arguments, call: Call, running: Awaitable[Outcome]) -> Report:
        outcome = await running
        self._record(tool, args, outcome.snapshot or call.snapshot, outcome)
        if tool.runs_environment_code:
            from prime_lab_mcp.lab.sandbox.kernel_support import present_support, unconfined_finding

            unconfined = unconfined_finding(present_support())
            if unconfined is not None:
                outcome = dataclasses.replace(outcome, findings=(*outcome.findings, unconfined))
        return _report(outcome)

    def _record(self, tool: AnyTool, args: Arguments, subject: Snapshot | None, outcome: Outcome) -> None:
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
                {**outcome.data, **outcome.facts.unreported},
            )
        )

    def _call(self, snapshot: Snapshot | None, progress: Progress) -> Call:
        return Call(
            lab=self.lab,
            snapshot=snapshot,
            progress=progress,
            references=self.references,
            prove=lambda name, taken: self._prove(name, taken, progress),
            platform=PlatformAnswers(lambda: self.lab.prime),
        )

    async def _prove(self, name: str, snapshot: Snapshot, progress: Progress) -> Report:
        """Run a free prerequisite on a snapshot and record its verdict."""
        tool = await self._free(name)
        args = tool.args.model_validate({"environment": snapshot.relative})
        call = self._call(snapshot, progress)
        return await self._finish(tool, args, call, tool.run(call, args))

    async def _prove_config(self, call: Call) -> Report:
        tool = await self._free("check_training_config")
        assert call.config is not None
        args = tool.args.model_validate({"path": call.config.relative_to(self.lab.workspace.root).as_posix()})
        return await self._finish(tool, args, call, tool.run(call, args))

    async def _free(self, name: str) -> Tool[Any]:
        tool = await self._tool(name)
        if not isinstance(tool, Tool):
            raise TypeError(f"{name} publishes or spends; it is no prerequisite that is run without asking")
        return tool

    def _gate(self, call: Call) -> Gate:
        return Gate(self.lab, lambda name, taken: self._prove(name, taken, call.progress), self._prove_config)

    async def _snapshot(self, tool: AnyTool, args: Arguments) -> Snapshot | None:
        name = getattr(args, "environment", None)
        if not tool.snapshot or name is None:
            return None
        if self._on_hub(name):
            if _hosted(tool, args):
                return None
            hosted = (
                Fix("Pass ", SameCall(hosted=True), " to run on the platform; or pull") if tool.hosted else Fix("Pull")
            )
            raise BadInput(
                f"{quote(name, 120)} is a name on the Hub, and {tool.name} works on environments of the workspace",
                fix=Fix(
                    hosted,
                    " it with ",
                    NamedCall("create_environment", name=..., hub=clip(name, 120)),
                    ", or train on it as it is.",
                ),
                code="environment-not-local",
            )
        return await self.lab.snapshot(name)

    async def _own(self, args: Arguments) -> Snapshot | None:
        """The snapshot of the local environment that a submission without a config names; None for any other call."""
        name = getattr(args, "environment", None)
        if name is None or getattr(args, "config", None) is not None:
            return None
        return None if self._on_hub(name) else await self.lab.snapshot(name)

    def _on_hub(self, name: str) -> bool:
        """Whether a name is `owner/name[@version]` on the Hub and not a path in the workspace."""
        match = HUB_NAME.match(name)
        return match is not None and match["owner"] != "environments" and not (self.lab.workspace.root / name).exists()

    async def _settle(self, tool: AnyTool, snapshot: Snapshot | None, progress: Progress) -> None:
        """Confirm and record the verdicts of ended evaluations, if the tool decides by verdicts.

        For any other tool, this happens in the background after the answer.
        """
        source = snapshot.source if snapshot is not None else None
        ended = await anyio.to_thread.run_sync(lambda: self.lab.ledger.unjudged(self.lab.key, source=source))
        if not ended:
            return
        if not tool.needs_verdicts:
            self.evaluations_ended.set()
            return
        from prime_lab_mcp.lab.evals.rescore.confirmation import settle_evaluations

        async def say(message: str) -> None:
            await progress(0, None, message)

        await settle_evaluations(self.lab, say, source=source)

    async def settle_in_background(self) -> None:
        """Confirm the rewards of ended evaluations whenever a call encounters one, until cancelled."""
        while True:
            await self.evaluations_ended.wait()
            self.evaluations_ended = anyio.Event()
            from prime_lab_mcp.lab.evals.rescore.confirmation import settle_evaluations

            try:
                async with self._executing:
                    await settle_evaluations(self.lab)
            except Exception:
                log.exception("the rewards of ended evaluations could not be confirmed")

    def _note(self, tool: AnyTool, report: Report, seconds: float) -> None:
        try:
            self.lab.ledger.note_call(self.lab.key, tool.name, report.status, seconds, report.summary[:300])
        except LabError as error:
            log.warning("a call of %s was not noted: %s", tool.name, error)


def _hosted(tool: AnyTool, args: Arguments) -> bool:
    return tool.hosted is not None and tool.hosted(args)


def _differs(earlier: WaitingPlan | None, intent: Intent) -> bool:
    """True if an earlier call with these arguments asked about another intent."""
    before = earlier.plan.intent if earlier is not None else None
    if before is None:
        return False
    return (before.key, before.max_cost, before.cautions) != (intent.key, intent.max_cost, intent.cautions)


def _report(outcome: Outcome) -> Report:
    findings = outcome.findings
    if outcome.status in ("failed", "inconclusive") and not outcome.blockers:
        raise AssertionError(f"a {outcome.status} outcome names no blocker: {outcome.summary}")
    return Report(
        outcome.status,
        outcome.summary,
        findings,
        outcome.data,
        next=outcome.next,
        links=outcome.links,
        pictures=outcome.pictures,
    )


def _unknown(name: str, tools: Mapping[str, AnyTool]) -> Report:
    return Report(
        "error",
        "There is no such tool.",
        findings=(
            Finding("unknown-tool", "blocker", f"no tool is called {name!r:.80}", f"Tools: {', '.join(tools)}."),
        ),
        next=(Next("workflow_status", "shows what to call next"),),
    )


def _could_not(tool: AnyTool, error: LabError) -> Report:
    return Report(
        "inconclusive" if error.code in UNDECIDED else "error",
        f"{tool.name} could not do its work: {error.message}",
        findings=(error.as_finding(),),
        next=error.next or (Next(tool.name, "after that"),),
    )


def _bug(tool: AnyTool, reference: str) -> Report:
    fix = f"Call it again; if it repeats, show the user reference {reference} in the server's log."
    return Report(
        "error",
        f"{tool.name} broke; this is a fault of prime-lab-mcp, not of the environment.",
        findings=(Finding("internal-error", "blocker", f"unexpected failure, reference {reference}", fix),),
        next=(Next("workflow_status", "nothing was recorded; see where things stand"),),
    )
