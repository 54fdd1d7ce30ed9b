"""Applies the gate table to one call.

The gate runs free prerequisites, collects the missing evidence, and refuses or admits the call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from prime_lab_mcp.lab.base.report import Finding, Next, Report, Unmet
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.offered import model_listing_calls
from prime_lab_mcp.lab.state.config_gate import (
    agents_of,
    conflicting_packages,
    override_cautions,
    own_keys_unmet,
    package_unmet,
    source_evaluation,
    source_proofs,
    source_unmet,
    trained_model,
)
from prime_lab_mcp.lab.state.evaluation_evidence import TrainedModel, ceiling_reasons, evaluation_summary, has_judge
from prime_lab_mcp.lab.state.gates import (
    CAPABILITIES,
    COULD_NOT_ASK,
    DEPENDENT,
    EVALUATED,
    FREE,
    LATEST_MODEL,
    NEEDS,
    NOT_VALIDATED,
    TRAINING_NEEDS,
    Need,
    Standing,
    Subject,
    standing,
    subject_history,
    subject_of,
    with_arguments,
)
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.tools.tool import AnyTool, Call


@dataclass(frozen=True, slots=True)
class Passage:
    """The decision of a gate. With `report`, the call is refused. A confirmation must name the `cautions`."""

    report: Report | None = None
    cautions: tuple[str, ...] = ()
    personal: tuple[str, ...] = ()
    """Cautions that need a person's own answer: ceiling-only evidence, and runs of which nothing is known here."""
    ceilings: tuple[str, ...] = ()
    """Those of `personal` that say why evidence is ceiling-only."""
    evidence: tuple[str, ...] = ()
    """One sentence for each evaluation that opened the gate."""


class Gate:
    """The gate of one call. `prove` and `prove_config` run a free prerequisite and record its verdict."""

    def __init__(
        self,
        lab: Lab,
        prove: Callable[[str, Snapshot], Awaitable[Report]],
        prove_config: Callable[[Call], Awaitable[Report]],
    ) -> None:
        self.lab = lab
        self._prove = prove
        self._prove_config = prove_config

    async def check(self, tool: AnyTool, call: Call) -> Passage:
        """Refuse the call with everything that is missing, or admit it with the cautions for a confirmation."""
        if call.continues is not None:
            return await self._continued(tool, call, call.continues)
        row = f"{tool.name}, hosted" if call.hosted is not None else tool.name
        needs = NEEDS.get(row, ())
        if not needs or (call.snapshot is None and call.config is None and call.hosted is None):
            return Passage()
        unmet: list[Unmet] = []
        cautions: list[str] = []
        findings: list[Finding] = []
        rests_on: list[tuple[Evidence, TrainedModel]] = []
        if call.hosted is not None and call.snapshot is None:
            needs = ()
        if tool.name == "submit_training" and call.config is not None:
            await self._sources(call, unmet, cautions, rests_on)
        subject = await anyio.to_thread.run_sync(self._subject, call)
        missing = await self._missing(needs, subject, call, findings, others=bool(unmet))
        if not missing and call.snapshot is not None and tool.name in DEPENDENT:
            missing = await self._missing(needs, await self._installed(subject, call.snapshot), call, findings)
        own, of_config = await anyio.to_thread.run_sync(_unmet_and_cautions, missing)
        unmet, cautions = [*own, *unmet], [*of_config, *cautions]
        if not unmet:
            await self._capability(row, call, unmet, findings)
        if not unmet and call.hosted is not None:
            from prime_lab_mcp.lab.evals.hosted.plan import look_up_hosted as look

            unmet.extend((await look(self.lab, call.hosted, call.snapshot, call.platform)).unmet)
        if unmet:
            return Passage(_blocked(tool, unmet, findings, call))
        evaluations = await anyio.to_thread.run_sync(self._evaluations, needs, subject)
        rests_on += [(row, LATEST_MODEL) for row in evaluations]
        ceilings, evidence = await anyio.to_thread.run_sync(_ceilings_and_summaries, rests_on)
        personal = (*self._unknown_weights(call), *ceilings)
        return Passage(None, (*cautions, *personal), personal, ceilings, evidence)

    async def _continued(self, tool: AnyTool, call: Call, id: str) -> Passage:
        """Refuse to let a run go on whose environments lack the evidence that its submission needed.

        The evidence is about the files as they were pushed: the folder may have been edited since. Where the config of
        the run is not known here, only a person's own answer lets the run go on.
        """
        run = next(iter(self.lab.ledger.runs(id=id, platform=self.lab.platform)), None)
        if run is not None and run.kind != "training":
            return Passage()
        from prime_lab_mcp.lab.training.continued_cost import submitted_config

        config = await anyio.to_thread.run_sync(submitted_config, run)
        if run is None or config is None:
            why = "its config is not here as it was submitted" if run is not None else "it was not started here"
            unknown = (f"nothing about the environments of run {quote(id, 80)} can be proven: {why}",)
            return Passage(None, unknown, unknown)
        unmet: list[Unmet] = []
        cautions: list[str] = []
        rests_on: list[tuple[Evidence, TrainedModel]] = []
        submitted = replace(call, config=config, config_sha256=run.config_sha256)
        await self._sources(submitted, unmet, cautions, rests_on, as_pushed=True)
        if unmet:
            here = config.is_relative_to(self.lab.workspace.root)
            return Passage(_blocked(tool, unmet, [], submitted if here else call))
        ceilings, evidence = await anyio.to_thread.run_sync(_ceilings_and_summaries, rests_on)
        return Passage(None, (*cautions, *ceilings), ceilings, ceilings, evidence)

    def _evaluations(self, needs: tuple[Need, ...], subject: Subject) -> list[Evidence]:
        """The evaluations that opened the gate, and the reward tests whose scores a judge gave."""
        rows = [(result.need, result.row) for result in self._standings(needs, subject)]
        opened = [row for need, row in rows if row is not None and (need.tool in EVALUATED or has_judge(row))]
        return list({row.id: row for row in opened}.values())

    async def _installed(self, subject: Subject, snapshot: Snapshot) -> Subject:
        """The subject with the installed distributions, so that evidence with other distributions is stale."""
        from prime_lab_mcp.lab.present_distributions import present_distributions

        return replace(subject, distributions=await present_distributions(self.lab, snapshot))

    async def own_environment(self, tool: AnyTool, snapshot: Snapshot, call: Call) -> Report | None:
        """Refuse the call if a local environment lacks evidence, before a config is written for it."""
        call = replace(call, snapshot=snapshot)
        findings: list[Finding] = []
        subject = await anyio.to_thread.run_sync(lambda: self._named(subject_of(snapshot), None))
        missing = await self._missing(TRAINING_NEEDS, subject, call, findings)
        if not missing:
            missing = await self._missing(TRAINING_NEEDS, await self._installed(subject, snapshot), call, findings)
        unmet = await anyio.to_thread.run_sync(lambda: [one for result in missing if (one := result.unmet) is not None])
        return _blocked(tool, unmet, findings, call) if unmet else None

    async def _missing(
        self,
        needs: tuple[Need, ...],
        subject: Subject,
        call: Call,
        findings: list[Finding],
        *,
        others: bool = False,
    ) -> list[Standing]:
        """Return the unmet requirements.

        A free prerequisite runs only if that could open the gate. While another requirement is unmet, it neither runs
        nor appears in the result. `others` is True if a requirement outside `needs` is unmet.
        """
        standings = await anyio.to_thread.run_sync(self._standings, needs, subject)
        missing = [result for result in standings if result.why is not None and not _can_be_run(result)]
        for result in standings:
            if not _can_be_run(result) or missing or others:
                continue
            report = await self._free(result.need.tool, call)
            findings.extend(f for f in report.findings if f.severity == "blocker")
            [again] = await anyio.to_thread.run_sync(self._standings, (result.need,), subject)
            if again.why is not None:
                missing.append(again)
        return missing

    def _standings(self, needs: tuple[Need, ...], subject: Subject) -> list[Standing]:
        """Compare the requirements with the ledger. Called in a thread, because a long ledger would block the event
        loop."""
        if not needs:
            return []
        ledger, workspace = self.lab.ledger, self.lab.key
        history = subject_history(ledger, workspace, subject, needs)
        waived, trained = ledger.overrides(workspace), TrainedModel(runs=ledger.training_names())
        return [standing(need, history, subject, self.lab.platform, waived, trained) for need in needs]

    async def _free(self, name: str, call: Call) -> Report:
        if name == "check_training_config":
            return await self._prove_config(call)
        return await self._prove(name, call.environment)

    def _subject(self, call: Call) -> Subject:
        subject = Subject()
        if call.snapshot is not None:
            subject = self._named(subject_of(call.snapshot), call.env_args)
        if call.config is not None:
            subject = replace(subject, config_sha256=call.training_config().sha256)
        return subject

    def _named(self, subject: Subject, named: Mapping[str, Any] | None) -> Subject:
        tests = subject_history(self.lab.ledger, self.lab.key, subject, ()) if named is None else ()
        return with_arguments(subject, named, tests)

    async def _sources(
        self,
        call: Call,
        unmet: list[Unmet],
        cautions: list[str],
        rests_on: list[tuple[Evidence, TrainedModel]],
        *,
        as_pushed: bool = False,
    ) -> None:
        """Add what the sources and packages of a config lack. With `as_pushed`, the folders are not looked at."""
        from prime_lab_mcp.lab.configs.packages import agent_overrides, own_environment_keys
        from prime_lab_mcp.lab.training.installed_together import replaced_modules
        from prime_lab_mcp.lab.training.sources import gather_package_facts, installed_packages, published_modules
        from prime_lab_mcp.lab.training.sources import gather_source_facts as gather

        config = call.training_config()
        resumed, runs = self._resumed(call), self.lab.ledger.training_names()
        gathered = await gather(self.lab, config, call.platform)
        sources = [replace(facts, resumed_run=resumed, runs=runs) for facts in gathered]
        if as_pushed:
            sources = [replace(facts, on_disk=()) for facts in sources]
        for facts in sources:
            evaluation = source_evaluation(facts, self.lab.platform, config.model)
            if evaluation is not None:
                rests_on.append((evaluation, trained_model(facts, config.model)))
            proofs = source_proofs(facts, self.lab.platform, config.model)
            rests_on += [(row, trained_model(facts, config.model)) for row in proofs if has_judge(row)]
        standings = [source_unmet(facts, self.lab.platform, config.model) for facts in sources]
        for source, facts in zip(config.sources, sources, strict=True):
            own = own_keys_unmet(facts, own_environment_keys(source, agents_of(facts)))
            standings.append((own, override_cautions(facts, agent_overrides(source))))
        packages = await gather_package_facts(self.lab, config, sources, call.platform)
        standings += [package_unmet(package, self.lab.platform) for package in packages]
        standings.append((conflicting_packages(published_modules(config)), []))
        standings.append(replaced_modules(installed_packages(sources, packages)))
        for missing, named in standings:
            unmet.extend(u for u in missing if u not in unmet)
            cautions.extend(c for c in named if c not in cautions)

    def _unknown_weights(self, call: Call) -> tuple[str, ...]:
        """Why only a person's own answer lets a submission go on from a run that was not started here."""
        if call.resume_from is None or self.lab.ledger.runs(id=call.resume_from, platform=self.lab.platform):
            return ()
        return (f"nothing is known here of run {quote(call.resume_from, 80)}, from whose weights it would go on",)

    def _resumed(self, call: Call) -> str | None:
        """The name of the run that the call resumes from."""
        if call.resume_from is None:
            return None
        runs = self.lab.ledger.runs(id=call.resume_from, platform=self.lab.platform)
        return runs[0].name if runs else None

    async def _capability(self, row: str, call: Call, unmet: list[Unmet], findings: list[Finding]) -> None:
        name = CAPABILITIES.get(row)
        if name is None:
            return
        from prime_lab_mcp.lab.preflight import missing_capability as capability

        missing = await capability(self.lab, name, call.platform)
        if missing:
            findings.extend(missing)
            unmet.append(Unmet("preflight", "failed", f"the {name} is not ready: {missing[0].message}"))


def _can_be_run(need_standing: Standing) -> bool:
    """True for a free prerequisite without a verdict about the current files."""
    return need_standing.why in ("never-run", "stale", "rehearsal") and need_standing.need.tool in FREE


def _unmet_and_cautions(missing: Sequence[Standing]) -> tuple[list[Unmet], list[str]]:
    """What closes a gate, and what is only a caution of its question. Reads the ledger."""
    unmet: list[Unmet] = []
    cautions: list[str] = []
    for need_standing in missing:
        caution = _as_caution(need_standing)
        if caution is not None:
            cautions.insert(0, caution)
        elif (one := need_standing.unmet) is not None and one not in unmet:
            unmet.append(one)
    return unmet, cautions


def _ceilings_and_summaries(
    rests_on: Sequence[tuple[Evidence, TrainedModel]],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Why evidence is ceiling-only, and a sentence for each evaluation. Reads the ledger."""
    ceilings = tuple(dict.fromkeys(reason for one in rests_on for reason in ceiling_reasons(*one)))
    return ceilings, tuple(dict.fromkeys(evaluation_summary(row) for row, _ in rests_on))


def _as_caution(need_standing: Standing) -> str | None:
    """The caution for a config check that could not ask the platform; None for any other standing."""
    row = need_standing.row
    if need_standing.why == "inconclusive" and row is not None and set(row.blockers) == {COULD_NOT_ASK}:
        return NOT_VALIDATED
    return None


def _blocked(tool: AnyTool, unmet: list[Unmet], findings: list[Finding], call: Call) -> Report:
    names = ", ".join(dict.fromkeys(u.tool for u in unmet))
    return Report(
        "blocked",
        f"{tool.name} is refused until this is proven: {names}.",
        findings=tuple(findings),
        unmet=tuple(unmet),
        next=_distinct((*model_listing_calls(findings), *(_next_call(one, call) for one in unmet))),
    )


def _next_call(unmet: Unmet, call: Call) -> Next:
    """The call that produces the missing evidence. `run_eval` also judges the distribution of its rewards."""
    if unmet.instead is not None:
        return unmet.instead
    arguments = dict(unmet.arguments or {})
    if not arguments and call.snapshot is not None and unmet.tool != "preflight":
        arguments = {"environment": call.snapshot.name}
    if call.config is not None:
        config = call.config.relative_to(call.lab.workspace.root).as_posix()
        if unmet.tool == "check_training_config":
            arguments = {"path": config}
        elif unmet.tool == "write_training_config":
            arguments = {**arguments, "based_on": config}
    if unmet.tool != "check_reward_distribution" or "results" in arguments:  # an evaluation is there to be judged again
        return Next(unmet.tool, unmet.detail, arguments or None)
    if unmet.why in ("never-run", "stale", "rehearsal"):
        return Next("run_eval", unmet.detail, arguments or None)
    named = {k: v for k, v in arguments.items() if k == "environment"}
    return Next(unmet.tool, unmet.detail, named or None)


def _distinct(calls: Iterable[Next]) -> tuple[Next, ...]:
    """The first three calls with different tools or arguments."""
    distinct: list[Next] = []
    for one in calls:
        if all((one.tool, one.arguments) != (other.tool, other.arguments) for other in distinct):
            distinct.append(one)
    return tuple(distinct[:3])
