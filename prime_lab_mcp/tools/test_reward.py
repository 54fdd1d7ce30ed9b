"""`test_reward`: scores correct, wrong, malformed and reward-hacking completions with an environment's reward."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.report import Finding, Next, Say
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.environment import wheel
from prime_lab_mcp.lab.evals.rescore.offer import evaluation_to_rescore
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import LoadedEnvironment, open_environment
from prime_lab_mcp.lab.present_distributions import present_distributions
from prime_lab_mcp.lab.relay.endpoints import EndpointAccess
from prime_lab_mcp.lab.rewards import cases as supplied
from prime_lab_mcp.lab.rewards import comparison, judge_relay, reward_source, surroundings
from prime_lab_mcp.lab.rewards import findings as reward
from prime_lab_mcp.lab.rewards.cases import LAST_TRIAL, TrialFolder
from prime_lab_mcp.lab.rewards.observations import SearchOutcome, Trial
from prime_lab_mcp.lab.rewards.probes import row_fields
from prime_lab_mcp.lab.rewards.probes.answer_formats import GOLD_MARK
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.probes.row_fields import GoldRendering
from prime_lab_mcp.lab.rewards.rules import amounts
from prime_lab_mcp.lab.rewards.search.attacker import Attacker
from prime_lab_mcp.lab.rewards.search.reward_search import (
    DEFAULT_SECONDS,
    RememberedSearches,
    search_reward,
)
from prime_lab_mcp.lab.rewards.smells import hints
from prime_lab_mcp.lab.rewards.thresholds import EPSILON
from prime_lab_mcp.lab.rewards.trial import GOLD_TASKS, UNKNOWN_TASKS, run_trial
from prime_lab_mcp.lab.state import source_code
from prime_lab_mcp.lab.state.arguments import arguments_summary, canonical_arguments
from prime_lab_mcp.lab.state.compared_rewards import record_comparison
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.open_warnings import due_comparison, port_unedited, warnings_sentence
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.state.sampling_secret import secret_seed
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.training.next_step import untested_split, waiting_config_of_pull
from prime_lab_mcp.lab.worker.description import Row, Rows
from prime_lab_mcp.lab.worker.faults import LoadFailed
from prime_lab_mcp.tools import reward_attacker, reward_judge
from prime_lab_mcp.tools.reward_attacker import AttackerModel
from prime_lab_mcp.tools.reward_report import EXAMPLES, reward_outcome
from prime_lab_mcp.tools.tool import Arguments, Call, EnvironmentName, Plan, PlannedTool


class Args(Arguments):
    environment: EnvironmentName
    examples: Annotated[int, Field(ge=1, le=200, description="Tasks tried.")] = EXAMPLES
    cases: Annotated[
        list[dict[str, Any]] | None,
        Field(
            description="Your own: [{name, completion (a turn or messages), answer? or task?, "
            'expected: number|"high"|"low"}]; [] drops unmet.'
        ),
    ] = None
    cases_file: Annotated[
        str | None,
        Field(description=f'Such a JSON list; "{LAST_TRIAL}": your last.'),
    ] = None
    preset: Annotated[Literal["gsm8k"] | None, Field(description="Five cases.")] = None
    rendering: Annotated[
        str | None,
        Field(max_length=300, description='Answer form: "<b>GOLD {info.unit}</b>".'),
    ] = None
    probes: Annotated[bool, Field(description="Try hacks.")] = True
    search: Annotated[int, Field(ge=0, le=600, description="Seconds for hacks.")] = DEFAULT_SECONDS
    env_args: Annotated[dict[str, Any] | None, Field(description="Taskset keys.")] = None
    same_as: Annotated[str | None, Field(description="Compare rewards.")] = None
    judge: Annotated[str | None, Field(description="Judge endpoint.")] = None
    attacker: Annotated[str | None, Field(description='Seeks hacks: "openrouter MODEL".')] = None
    confirm: str | None = None


@dataclass(frozen=True, slots=True)
class RewardTest:
    """The arguments, and the endpoints of the judge or the attacker if one was named and has answered."""

    args: Args
    access: EndpointAccess | None = None
    attacker: AttackerModel | None = None


async def plan(call: Call, args: Args) -> Plan[RewardTest]:
    """Plan the test. Without a judge or an attacker, no approval is needed. Raises BadInput for both."""
    if args.attacker is not None:
        if args.judge is not None or not args.search or not args.probes:
            raise BadInput(
                "attacker only helps a search, which never asks a judge",
                fix=Fix(
                    "Leave ",
                    SameCall.without("judge"),
                    " out, and probes and search as they are; or leave ",
                    SameCall.without("attacker"),
                    " out.",
                ),
                code="bad-argument",
            )
        attacker, intent = await reward_attacker.intent_of(call, args.environment, args.attacker)
        return Plan(RewardTest(args, attacker=attacker), intent)
    if args.judge is None:
        return Plan(RewardTest(args))
    access, intent = await reward_judge.intent_of(call, args.environment, args.judge, args.examples)
    return Plan(RewardTest(args, access), intent)


async def run(call: Call, plan: Plan[RewardTest]) -> Outcome:
    """Test the reward. Arguments with which the environment does not load are a verdict about these arguments."""
    args = plan.work.args
    try:
        return await _tested(call, plan)
    except LoadFailed as error:
        if error.unreachable or args.env_args is None or args.same_as is not None:
            raise
        return _not_loaded(call, args.env_args, error, await present_distributions(call.lab, call.environment))


def _not_loaded(
    call: Call, env_args: Mapping[str, Any], error: LoadFailed, distributions: Mapping[str, str]
) -> Outcome:
    snapshot = call.environment
    finding = Finding(
        "environment-load-failed",
        "blocker",
        f"with {arguments_summary(env_args)}: {error.message}",
        Fix(
            "Name arguments that load. Where the defaults do not load here, ",
            NamedCall("push_environment", env_args=...),
            " names the arguments that were proven.",
        ),
        error.where,
    )
    return Outcome(
        "inconclusive",
        f"{snapshot.name} does not load with {arguments_summary(env_args)}.",
        (finding,),
        {"loads": False},
        (Next("test_reward", "with the arguments that load", {"environment": snapshot.relative}),),
        facts=Facts(
            env_args=canonical_arguments(env_args),
            toolchain={DISTRIBUTIONS: dict(distributions)},
        ),
    )


async def _tested(call: Call, plan: Plan[RewardTest]) -> Outcome:
    """Observe the scores in a worker and apply the rules of lab/rewards."""
    args, snapshot = plan.work.args, call.environment
    folder = TrialFolder(call.lab.settings.state_dir, call.lab.workspace.root, snapshot.relative)
    raw = list(args.cases or [])
    failures: list[supplied.KnownFailure] = []
    if args.cases_file == LAST_TRIAL:
        earlier, failures = folder.last()
        raw += earlier
    elif args.cases_file is not None:
        raw += supplied.read_cases(call.lab.workspace.resolve(args.cases_file, must_exist=True))
    supplied.parse_cases(raw)
    if raw:
        folder.write_supplied(raw)
    subject = json.dumps([snapshot.source, args.env_args or {}], sort_keys=True)
    kept = [] if args.cases == [] else folder.kept_cases(subject, raw)
    raw += kept
    own = supplied.parse_cases(raw)
    rendering = None if args.rendering is None else row_fields.rendering_from_template(args.rendering)
    written = await anyio.to_thread.run_sync(source_code.read_source, snapshot)

    steps = 0

    async def say(message: str) -> None:
        nonlocal steps
        steps += 1
        await call.progress(1 - 0.8 * _STEP**steps, 1.0, message)

    def cases(style: AnswerStyle | None) -> Sequence[supplied.SuppliedCase]:
        return [*own, *(supplied.gsm8k_cases(style) if args.preset == "gsm8k" else ())]

    async with (
        judge_relay.open_judge_relay(call.lab, args.judge, plan.work.access) as relay,
        open_environment(
            call.lab,
            snapshot,
            env_args=args.env_args,
            progress=say,
            variables=None if relay is None else relay.variables,
        ) as loaded,
    ):
        sample = await _sampled_tasks(call, loaded)
        if rendering is not None:
            row_fields.require_fields(rendering, sample.rows, (_without_rendering(snapshot.relative, args),))
        known = supplied.probes_of_failures(failures, sample.rows)
        await say("scoring")
        async with reward_judge.paid(call, relay, loaded, plan.intent):
            trial = await run_trial(
                loaded.worker,
                loaded.loaded,
                sample,
                written.text,
                examples=args.examples,
                hacks=args.probes,
                cases=cases,
                rendering=rendering,
                relay=relay,
                arguments=loaded.env_args,
                own_raises=reward_source.raise_statements(written),
                left_out=await anyio.to_thread.run_sync(wheel.files_left_out, call.lab.settings, snapshot),
                known_failures=known,
                say=say,
            )
            if rendering is not None:
                _check_rendering(snapshot.relative, args, trial, rendering, sample.rows)
            async with reward_attacker.open_attacker(call, args.attacker, plan.work.attacker, plan.intent) as attacker:
                trial = await _searched(call, args, loaded, sample, written.text, trial, say, attacker)
            compared = (
                await _compare(call, loaded, args.same_as, trial, sample, say, relay, args.env_args, args.rendering)
                if args.same_as is not None and not _too_slow(trial)
                else None
            )
        asked = None if relay is None else relay.as_json()
    smelt = await anyio.to_thread.run_sync(hints.find_smells, written)
    reads = await anyio.to_thread.run_sync(
        surroundings.find_surroundings, written, snapshot.manifest.module or "", snapshot.name
    )
    canonical = canonical_arguments(loaded.env_args)
    outcome = await anyio.to_thread.run_sync(
        reward_outcome, trial, sample.rows, loaded, args, compared, folder, smelt, reads, asked, canonical
    )
    folder.write_unmet(subject, supplied.unmet_cases(trial, raw))
    if rendering is not None and not amounts.gold_is_paid(trial) and not _is_first_word(call, canonical):
        outcome = replace(outcome, facts=replace(outcome.facts, proves=False))
        outcome = replace(outcome, summary=f"{outcome.summary} The earlier verdict on these files stays on record.")
    if kept:
        outcome = replace(outcome, summary=f"{outcome.summary} {_kept_summary(len(kept))}")
    if outcome.status != "passed":
        return outcome
    outcome = replace(outcome, summary=outcome.summary + _said_by_the_check(call.lab, snapshot))
    if port_unedited(call.lab.ledger, call.lab.key, snapshot.name, snapshot.source):
        why = "its files: write what the port left (data.left) before an evaluation is paid, which an edit makes stale"
        first = Next("read_environment", why, {"environment": snapshot.relative})
        outcome = replace(outcome, next=(first, *outcome.next))
    if args.same_as is not None:
        return outcome
    root = call.lab.workspace.root
    comparison = due_comparison(call.lab.ledger, call.lab.key, snapshot.name, snapshot.source, root)
    if comparison is not None:
        return replace(outcome, next=(comparison, *outcome.next))
    split = await anyio.to_thread.run_sync(untested_split, call.lab, snapshot)
    if split is not None and not args.env_args:
        outcome = replace(outcome, next=(split, *outcome.next))
    waiting = await anyio.to_thread.run_sync(waiting_config_of_pull, call.lab, snapshot)
    if waiting is not None:
        at = 1 if split is not None and not args.env_args else 0
        outcome = replace(outcome, next=(*outcome.next[:at], waiting, *outcome.next[at:]))
    job = await anyio.to_thread.run_sync(evaluation_to_rescore, call.lab, snapshot, args.env_args or {}, sample)
    return outcome if job is None else replace(outcome, next=(*outcome.next, _rescoring(snapshot.relative, job)))


async def _sampled_tasks(call: Call, loaded: LoadedEnvironment) -> Rows:
    """Return all tasks, or of many a sample that stays the same after an edit, and others that every edit changes.

    Where the number of tasks is not known, the sample are the first ones, and the others follow them.
    """
    sample = await loaded.worker.rows(limit=GOLD_TASKS)
    if sample.total is not None and sample.total <= len(sample.rows):
        return sample
    seed = await anyio.to_thread.run_sync(secret_seed, call.lab.settings.state_dir, loaded.snapshot.source)
    after = GOLD_TASKS if sample.total is None else None
    others = await loaded.worker.rows(limit=UNKNOWN_TASKS, seed=seed, after=after)
    rows = {row.index: row for row in (*others.rows, *sample.rows)}
    return replace(sample, rows=tuple(rows[index] for index in sorted(rows)))


_STEP = 0.9
"""Share of what is left after each step of a test, whose number is not known."""


def _kept_summary(number: int) -> str:
    """What a call without these cases says about cases of earlier calls."""
    were = "was" if number == 1 else "were"
    return (
        f"{count(number, 'case')} of yours that these files had not met {were} scored again: give a case with another "
        "expectation, or cases=[], to take cases back."
    )


def _said_by_the_check(lab: Lab, snapshot: Snapshot) -> str:
    """What the newest check of these files says beside a reward that held: what closes push and training, or what the
    questions of a push and a run will say."""
    checks = lab.ledger.evidence(lab.key, tool="check_environment", content=snapshot.content, limit=1)
    if not checks:
        return ""
    if checks[0].status != "failed":
        known = warnings_sentence(snapshot.name, checks)
        return f" {known}" if known else ""
    named = ", ".join(checks[0].blockers[:3])
    return (
        f" But check_environment failed for these files ({named}): they cannot be published or trained on as they are."
    )


def _rescoring(environment: str, job: Job) -> Next:
    why = f"free: what the replies of {job.id} earn now; its tasks ask the same"
    return Next("run_eval", why, {"environment": environment, "rescore": job.id})


def _too_slow(trial: Trial) -> bool:
    """Whether no right rollout ended in time, so that two environments could only be compared on what earns nothing."""
    return any(f.code == "rollouts-too-slow" for f in reward.reward_findings(trial))


async def _searched(
    call: Call,
    args: Args,
    loaded: LoadedEnvironment,
    sample: Rows,
    source: str,
    trial: Trial,
    say: Say,
    attacker: Attacker | None,
) -> Trial:
    """The trial with a search for hacks that no probe lists, which comes last and only where no flaw blocks yet."""
    blocking = {f.code for f in reward.reward_findings(trial) if f.severity == "blocker"}
    if not args.probes or blocking - (_UNKNOWN if trial.goldless else set()):
        why = "there are blockers to mend first" if args.probes else "it was not asked for (probes=false)"
        if args.probes and blocking <= {"rollouts-too-slow"}:
            why = "no rollout ended in time"
        return replace(trial, searched=SearchOutcome(skipped=why))
    memory = call.lab.memory(RememberedSearches)
    subject = [loaded.snapshot.source, loaded.env_args, loaded.toolchain, args.search, args.examples, args.rendering]
    key = json.dumps(subject, sort_keys=True, default=str)
    outcome = memory.get(key) if attacker is None else None
    if outcome is None:
        await say("searching for hacks that no probe lists")
        outcome = await search_reward(loaded.worker, trial, sample.rows, source, args.search, attacker=attacker)
        # What an attacker finds is kept for calls without one, and what it did not find says nothing about the search.
        if attacker is None or outcome.holes:
            memory.put(key, outcome)
    return replace(trial, searched=outcome, faults=(*trial.faults, *outcome.faults))


_UNKNOWN: frozenset[Code] = frozenset({"gold-not-understood", "reward-no-gold", "rollouts-too-slow"})
"""Codes that say that right answers are unknown, and not that the reward has a flaw."""


def _check_rendering(environment: str, args: Args, trial: Trial, rendering: GoldRendering, rows: Sequence[Row]) -> None:
    """Raise BadInput for a rendering in which no gold earns more than wrong answers do.

    Such a rendering says nothing about the environment, unless the prompts ask for it and nothing is paid in it: that
    is a result. The call without `rendering` finds out whether the reward pays the gold in any form. Nor does one with
    GOLD beside fields that hold the whole answer, so that right and wrong golds are paid alike.
    """
    text = str(args.rendering)
    if trial.style is not None and (rendering.before or rendering.after):
        held = trial.style.golds.bare or trial.style.golds
        if amounts.all_wrongs_paid(trial) and not row_fields.lacks_answer(rendering, held, rows):
            without = re.sub(rf"\s*{GOLD_MARK}\s*", "", text)
            raise BadInput(
                f"the fields that {quote(text, 120)} names hold the whole answer, and {GOLD_MARK} beside them changes "
                "nothing: wrong answers in its place are right replies and were paid; nothing was recorded",
                fix=Fix("Give the rendering without GOLD: ", SameCall(rendering=without), "."),
                code="bad-argument",
                next=(_with_rendering(environment, args, without),),
            )
    if amounts.gold_is_paid(trial) or _is_unpaid_as_asked(trial, rendering, rows):
        return
    raise BadInput(
        f"none of {count(len(trial.golds), 'gold answer')} earns anything for being right when it is written as "
        f"{quote(args.rendering, 120)}; nothing was recorded",
        fix=Fix(
            "Give the rendering that the prompt asks for, or leave ",
            SameCall.without("rendering"),
            " out: it is then found by trying.",
        ),
        code="bad-argument",
        next=(_without_rendering(environment, args),),
    )


def _is_unpaid_as_asked(trial: Trial, rendering: GoldRendering, rows: Sequence[Row]) -> bool:
    """Whether the prompts ask for a rendering, and no gold earns anything in it."""
    earned = any((s.reward or 0.0) > EPSILON for s in trial.golds)
    return trial.stated is not None or (not earned and rendering.is_asked_for(rows))


def _is_first_word(call: Call, env_args: Mapping[str, Any]) -> bool:
    """Whether no test of these files and arguments has said more than that right answers are not known.

    A rendering that earns nothing decides then. After another verdict, it neither closes what a pass opened nor hides
    what a failure named: the caller chose the rendering, and the newest verdict is the one that gates read.
    """
    rows = call.lab.ledger.evidence(call.lab.key, tool="test_reward", source=call.environment.source)
    newest = next((row for row in rows if dict(row.env_args or {}) == dict(env_args)), None)
    return newest is None or (newest.status == "inconclusive" and _UNKNOWN.issuperset(newest.blockers))


def _with_rendering(environment: str, args: Args, rendering: str) -> Next:
    same = {"environment": environment, **args.model_dump(exclude_unset=True, exclude={"confirm"})}
    return Next("test_reward", "the fields make the reply", {**same, "rendering": rendering})


def _without_rendering(environment: str, args: Args) -> Next:
    same = {"environment": environment, **args.model_dump(exclude_unset=True, exclude={"rendering", "confirm"})}
    return Next("test_reward", "finds the rendering by trying", same)


async def _compare(
    call: Call,
    here: LoadedEnvironment,
    name: str,
    trial: Trial,
    sample: Rows,
    say: Say,
    relay: judge_relay.JudgeRelay | None,
    env_args: Mapping[str, Any] | None,
    rendering: str | None,
) -> comparison.RewardComparison:
    """Score the same completions with the other environment, in its own interpreter and with the same arguments."""
    other = await call.lab.snapshot(name)
    if other.relative == call.environment.relative:
        raise BadInput(
            "same_as names the environment itself", fix="Name the one it was ported from.", code="bad-argument"
        )
    open_other = partial(
        open_environment, call.lab, other, progress=say, variables=None if relay is None else relay.variables
    )
    async with AsyncExitStack() as opened:
        refused = ""
        try:
            loaded = await opened.enter_async_context(open_other(env_args=env_args or None))
        except LoadFailed as error:
            if not env_args:
                raise
            refused = error.message
            loaded = await opened.enter_async_context(open_other())
        await say(f"scoring the same completions in {other.name}")
        compared = await comparison.compare_rewards(
            trial,
            sample.rows,
            loaded.worker,
            name=other.name,
            rewards=loaded.loaded.rewards,
            versions=(_verifiers(here), _verifiers(loaded)),
            own=here.worker,
            total=sample.total,
            refused=refused,
        )
    record = compared.record() | ({} if rendering is None else {"named_rendering": rendering})
    record_comparison(call.lab.ledger, call.lab.key, call.environment, record)
    return compared


def _verifiers(loaded: LoadedEnvironment) -> str | None:
    version = loaded.toolchain.get("verifiers")
    return str(version) if version else None


TOOL = PlannedTool(
    name="test_reward",
    title="Test reward",
    description=(
        "Score right, wrong and hacking completions with the environment's reward. Fails when gold is not paid "
        "or anything else is. Free, but for judge and attacker."
    ),
    args=Args,
    plan=plan,
    run=run,
    effect="executes",
    page=True,
    runs_environment_code=True,
    snapshot=True,
    records="environment",
)
