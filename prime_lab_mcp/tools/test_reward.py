"""`test_reward`: scores correct, wrong, malformed and reward-hacking completions with an environment's reward."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.report import Finding, Next, Say, Verdict, worst_first
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.environment import wheel
from prime_lab_mcp.lab.loading import LoadedEnvironment, open_environment, present_distributions
from prime_lab_mcp.lab.relay.endpoints import EndpointAccess
from prime_lab_mcp.lab.rewards import cases as supplied
from prime_lab_mcp.lab.rewards import comparison, judge_relay, reward_source, surroundings
from prime_lab_mcp.lab.rewards import findings as reward
from prime_lab_mcp.lab.rewards.cases import LAST_TRIAL, TrialFolder, cases_behind, fits_in_report
from prime_lab_mcp.lab.rewards.observations import ScoredCase, SearchOutcome, Trial, Witnessed
from prime_lab_mcp.lab.rewards.probes import answer_formats
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.rules import amounts, answers, judges, rollouts, solutions
from prime_lab_mcp.lab.rewards.rules.scoring import component_coverage
from prime_lab_mcp.lab.rewards.search.attacker import Attacker
from prime_lab_mcp.lab.rewards.search.reward_search import (
    DEFAULT_SECONDS,
    TURNED_OFF,
    RememberedSearches,
    search_reward,
)
from prime_lab_mcp.lab.rewards.smells import hints
from prime_lab_mcp.lab.rewards.trial import GOLD_TASKS, run_trial
from prime_lab_mcp.lab.state import source_code
from prime_lab_mcp.lab.state.arguments import arguments_summary, canonical_arguments, known_defaults
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.worker.description import Rows
from prime_lab_mcp.lab.worker.faults import LoadFailed, ProblemCode
from prime_lab_mcp.tools import reward_attacker, reward_judge
from prime_lab_mcp.tools.reward_attacker import AttackerModel
from prime_lab_mcp.tools.tool import Arguments, Call, EnvironmentName, Plan, PlannedTool

_FAILING = 8
_MOST_CHARACTERS = 160
_SUPPLIED = 20
_ROLLOUTS = 16
_SURROUNDINGS = 12
_INCONCLUSIVE = frozenset({"reward-no-gold"})
_UNKNOWN = judges.INCONCLUSIVE | {
    "reward-witness-failed",
    "gold-not-understood",
    "reward-component-unearned",
    "reward-solution-broken",
    "reward-untested",
}


EXAMPLES = 8
"""Number of tasks that a pass requires (docs/validation.md, Reward tests)."""


class Args(Arguments):
    environment: EnvironmentName
    examples: Annotated[int, Field(ge=1, le=200, description="Tasks tried.")] = EXAMPLES
    cases: Annotated[
        list[dict[str, Any]] | None,
        Field(description='Your own: [{name, completion, answer? or task?, expected: number|"high"|"low"}].'),
    ] = None
    cases_file: Annotated[
        str | None,
        Field(description=f'Such a JSON list; "{LAST_TRIAL}": what failed last.'),
    ] = None
    preset: Annotated[Literal["gsm8k"] | None, Field(description="Five cases.")] = None
    rendering: Annotated[
        str | None,
        Field(max_length=300, description='Answer form, as "<final>GOLD</final>".'),
    ] = None
    probes: Annotated[bool, Field(description="Try known hacks.")] = True
    search: Annotated[int, Field(ge=0, le=600, description="Seconds for unlisted hacks.")] = DEFAULT_SECONDS
    env_args: Annotated[dict[str, Any] | None, Field(description="Taskset keys.")] = None
    same_as: Annotated[str | None, Field(description="Compare with its rewards.")] = None
    judge: Annotated[str | None, Field(description="Endpoint of its judge.")] = None
    attacker: Annotated[str | None, Field(description='A model seeks hacks: "openrouter MODEL".')] = None
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
            env_args=canonical_arguments(env_args, known_defaults(snapshot)),
            toolchain={DISTRIBUTIONS: dict(distributions)},
        ),
    )


async def _tested(call: Call, plan: Plan[RewardTest]) -> Outcome:
    """Observe the scores in a worker and apply the rules of lab/rewards."""
    args, snapshot = plan.work.args, call.environment
    folder = TrialFolder(call.lab.settings.state_dir, call.lab.workspace.root, snapshot.relative)
    raw = list(args.cases or [])
    if args.cases_file == LAST_TRIAL:
        raw += folder.cases()
    elif args.cases_file is not None:
        raw += supplied.read_cases(call.lab.workspace.resolve(args.cases_file, must_exist=True))
    own = supplied.parse_cases(raw)
    wrapper = None if args.rendering is None else answer_formats.wrapper_from_template(args.rendering)
    written = await anyio.to_thread.run_sync(source_code.read_source, snapshot)

    async def say(message: str) -> None:
        await call.progress(0.2, 1.0, message)

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
        sample = await loaded.worker.rows(limit=GOLD_TASKS)
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
                wrapper=wrapper,
                relay=relay,
                arguments=loaded.env_args,
                own_raises=reward_source.raise_statements(written),
                left_out=await anyio.to_thread.run_sync(wheel.files_left_out, call.lab.settings, snapshot),
            )
            if args.rendering is not None:
                _check_rendering(snapshot.relative, args, trial)
            async with reward_attacker.open_attacker(call, args.attacker, plan.work.attacker, plan.intent) as attacker:
                trial = await _searched(call, args, loaded, sample, written.text, trial, say, attacker)
            compared = (
                await _compare(call, args.same_as, trial, sample, say, relay) if args.same_as is not None else None
            )
        asked = None if relay is None else relay.as_json()
    smelt = await anyio.to_thread.run_sync(hints.find_smells, written)
    reads = await anyio.to_thread.run_sync(
        surroundings.find_surroundings, written, snapshot.manifest.module or "", snapshot.name
    )
    canonical = canonical_arguments(loaded.env_args, known_defaults(snapshot, written))
    return await anyio.to_thread.run_sync(
        _outcome, trial, loaded, args, compared, folder, smelt, reads, asked, canonical
    )


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
    """The trial with a search for hacks that no probe lists, which comes last and only where nothing blocks yet."""
    if not args.probes or any(f.severity == "blocker" for f in reward.reward_findings(trial)):
        why = "there are blockers to mend first" if args.probes else "it was not asked for (probes=false)"
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


def _check_rendering(environment: str, args: Args, trial: Trial) -> None:
    """Raise BadInput for a rendering in which no gold earns more than wrong answers do.

    Such a rendering says nothing about the environment: the call without `rendering` finds out whether the reward pays
    the gold in any form.
    """
    if amounts.gold_is_paid(trial):
        return
    same = {"environment": environment, **args.model_dump(exclude_unset=True, exclude={"rendering", "confirm"})}
    raise BadInput(
        f"none of {count(len(trial.golds), 'gold answer')} earns anything for being right when it is written as "
        f"{quote(args.rendering, 120)}; nothing was recorded",
        fix=Fix(
            "Give the rendering that the prompt asks for, or leave ",
            SameCall.without("rendering"),
            " out: it is then found by trying.",
        ),
        code="bad-argument",
        next=(Next("test_reward", "finds the rendering by trying", same),),
    )


async def _compare(
    call: Call, name: str, trial: Trial, sample: Rows, say: Say, relay: judge_relay.JudgeRelay | None
) -> comparison.RewardComparison:
    """Score the same completions with the other environment, in its own interpreter."""
    other = await call.lab.snapshot(name)
    if other.relative == call.environment.relative:
        raise BadInput(
            "same_as names the environment itself", fix="Name the one it was ported from.", code="bad-argument"
        )
    variables = None if relay is None else relay.variables
    async with open_environment(call.lab, other, progress=say, variables=variables) as loaded:
        await say(f"scoring the same completions in {other.name}")
        rewards = loaded.loaded.rewards
        return await comparison.compare_rewards(trial, sample.rows, loaded.worker, name=other.name, rewards=rewards)


def _outcome(
    trial: Trial,
    loaded: LoadedEnvironment,
    args: Args,
    compared: comparison.RewardComparison | None,
    folder: TrialFolder,
    smelt: Sequence[hints.Smell],
    reads: list[surroundings.SurroundingsRead],
    asked: Mapping[str, Any] | None,
    env_args: Mapping[str, Any],
) -> Outcome:
    findings = worst_first([*reward.reward_findings(trial), *surroundings.surroundings_findings(reads)])
    sanity = reward.sanity_checks(trial)
    blocked = {f.code for f in findings if f.severity == "blocker"}
    unknown = _UNKNOWN | (_INCONCLUSIVE if trial.style is None else frozenset())
    if blocked <= _INCONCLUSIVE or not blocked:
        findings += [_insane(check) for check in sanity if check.passed is False and not blocked]
    blockers = [f for f in findings if f.severity == "blocker"]
    status: Verdict = "failed" if blockers else "passed"
    if blockers and all(f.code in unknown for f in blockers):
        status = "inconclusive"
    whole = args.probes and args.examples >= EXAMPLES and args.search >= DEFAULT_SECONDS
    proves = status != "passed" or whole
    if not proves:
        findings = [*findings, _trial_only()]
    if compared is not None:
        about_both = comparison.comparison_findings(compared)
        unequal = [f for f in about_both if f.severity == "blocker"]
        # A difference does not say which of the two is wrong: it is shown and closes no gate.
        proves = proves and not (unequal and status == "passed")
        findings, blockers = [*blockers, *about_both, *(f for f in findings if f not in blockers)], blockers + unequal
        status = "failed" if unequal else status
    findings = [*findings, *hints.hints(smelt, findings)]
    failing = cases_behind([f for f in findings if f.severity != "info"], trial)
    folder.write_table(trial)
    if failing and args.cases_file != LAST_TRIAL:
        folder.write_failing([case for _, case in failing])
    data = _data(trial, sanity, failing, args) | {"table": str(folder.table)} | reward_judge.data(trial, asked)
    if reads:
        data["surroundings"] = surroundings.surroundings_phrases(reads)[:_SURROUNDINGS]
    if trial.witnessed is not None:
        data["witness"] = _witness(trial.witnessed)
    if trial.solved.played:
        data["solutions"] = solutions.solution_lines(trial)
    elif trial.interactive and blocked & {"gold-not-understood", "reward-no-gold"}:
        data["solution_skeleton"] = solutions.solution_skeleton(trial)
    if trial.rollouts:
        data["rollouts"] = rollouts.rollout_lines(trial)[:_ROLLOUTS]
    if compared is not None:
        data["same_as"] = compared.as_json()
    if loaded.env_args:
        data["env_args"] = dict(loaded.env_args)
    facts = Facts(env_args=env_args, toolchain=loaded.toolchain, proves=proves, **reward_judge.facts(trial))
    return Outcome(
        status,
        _summary(trial, status, blockers, findings) + _equal(compared),
        tuple(findings),
        data,
        _next(
            _same_call(loaded.snapshot.relative, args),
            status,
            bool(failing),
            _unasked(status, blockers, args),
            any(f.code in _UNREAD for f in blockers),
            "solution_skeleton" in data,
            args.same_as if compared is not None and compared.verdict != "equal" else None,
        ),
        facts=facts,
    )


def _equal(compared: comparison.RewardComparison | None) -> str:
    if compared is None or not compared.compared:
        return ""
    number, name = count(len(compared.compared), "completion"), quote(compared.name, 80)
    if compared.reached_nothing:
        return f" None of {number} earned anything in {name} or here, so nothing was compared."
    if compared.different:
        return f" {len(compared.different)} of {number} earned another share in {name}."
    if compared.weights:
        return f" All {number} earned the same share in {name}, but the weights of components differ."
    if compared.missing:
        lacking = quote(", ".join(c.name for c in compared.missing), 120)
        return f" {number} earned the same share in {name}, but only one of the two has {lacking}."
    if any(c.verdict == "differs" for c in compared.components):
        return f" All {number} earned the same share in {name}, but components differ."
    if compared.other_tools:
        return f" All {number} earned the same share in {name}, but the model is offered other tools there."
    scale = "" if compared.scale is None else f", with all weights {compared.scale:g} times as high"
    open_parts = quote(", ".join(compared.unexercised), 120)
    left = f"; nothing is known about {open_parts}, which none of them earned" if compared.unexercised else ""
    same = [c for c in compared.components if c.verdict == "equal"]
    parts = f", and {count(len(same), 'component')} got the same scores" if same else ""
    return f" All {number} earned the same share in {name}{scale}{parts}{left}."


def _unasked(status: Verdict, blockers: Sequence[Finding], args: Args) -> bool:
    return (
        status == "inconclusive" and args.judge is None and any(f.code == "reward-judge-unreachable" for f in blockers)
    )


def _trial_only() -> Finding:
    return Finding(
        "reward-trial-only",
        "info",
        f"a pass with fewer than {EXAMPLES} examples, without probes or with search below {DEFAULT_SECONDS} opens no "
        "gate",
        "Call test_reward with its defaults when the reward is ready.",
    )


def _insane(check: reward.SanityCheck) -> Finding:
    return Finding(
        check.code,
        "blocker",
        f"the sanity check {check.name!r} does not hold",
        Fix(
            "Compare what right and wrong completions earn (components in data), mend the reward, then call ",
            NamedCall("test_reward"),
            ".",
        ),
    )


_PAID = frozenset({"reward-hackable", "reward-wrong-passes", "reward-evaluates-output", "reward-truncated-passes"})
"""Codes of warnings that say that something wrong was paid."""
_NONE_PAID = "no wrong answer or hack is paid like a right one"


def _summary(trial: Trial, status: Verdict, blockers: Sequence[Finding], findings: Sequence[Finding]) -> str:
    number = count(trial.run, "completion")
    rate = amounts.gold_pass_rate(trial)
    none = "no gold answers" if trial.style is None else "gold answers not scored"
    if not amounts.gold_is_understood(trial):
        rate, none = None, "gold answers not understood"
    what = "solutions" if trial.by_rollouts and trial.solved.scored else "gold answers"
    after = " after the calls of their solutions" if trial.after_calls else ""
    gold = none if rate is None else f"{rate:.1%} of {what}{after} earn the maximum of {trial.max_reward:g}"
    left_out = len(trial.unmatched) + sum(c.scored_probe.scored.has(ProblemCode.NOT_RUN) for c in trial.supplied)
    if status == "passed" and left_out:
        skipped = count(left_out, "supplied case")
        return f"No flaw was found with {number} ({gold}), but {skipped} could not be run, and shows nothing."
    if status == "passed":
        warned = ", ".join(dict.fromkeys(f.code for f in findings if f.severity == "warning" and f.code in _PAID))
        paid = f"no wrong answer is paid like a right one, except as {warned} shows" if warned else _NONE_PAID
        if rate is None and not trial.by_rollouts:
            cases = count(len(trial.supplied), "supplied case")
            paid = f"the {cases} earned what they should; other wrong answers were not tried"
        held = f"The reward held with {number}: {gold}, and {paid}."
        return held + _search_summary(trial.searched)
    codes = ", ".join(dict.fromkeys(f.code for f in blockers))
    return f"The reward {'is undecided' if status == 'inconclusive' else 'failed'} with {number} ({gold}): {codes}."


def _search_summary(searched: SearchOutcome) -> str:
    """What a pass says about the search, as the end of a summary."""
    if searched.skipped == TURNED_OFF:
        return ""
    if searched.skipped:
        return f" Search: not run because {searched.skipped}."
    tried = f" A search of {count(searched.completions, 'completion')}"
    if (attacker := searched.attacker) is not None:
        tried += f", {attacker.proposed} of them proposed by {attacker.model}," if attacker.proposed else ""
        if attacker.failed:
            return f"{tried} found no hack that no probe lists. The attacker gave no more: {attacker.failed}."
    return f"{tried} found no hack that no probe lists."


def _same_call(environment: str, args: Args) -> dict[str, Any]:
    """The environment and its arguments, as this call named them."""
    return {"environment": environment} | ({} if args.env_args is None else {"env_args": args.env_args})


_UNREAD = ("gold-not-understood", "reward-no-gold")
"""Codes after which only the reward itself says which replies are right."""


def _next(
    same: Mapping[str, Any],
    status: Verdict,
    failing: bool,
    unasked: bool,
    unread: bool,
    unsolved: bool,
    unequal_to: str | None,
) -> tuple[Next, ...]:
    if status == "passed":
        return (Next("run_eval", "shows whether a model's rewards vary enough to learn from", same),)
    if unasked:
        given = {**same, "judge": "prime"}
        return (Next("test_reward", "with the endpoint of its judge (a preset such as prime, or a URL)", given),)
    again = Next("test_reward", "after mending the reward", same)
    if status == "inconclusive" and unread:
        why = "shows the form that the reward pays: mend the reward, or pass rendering or cases"
        if unsolved:
            why = (
                "lists the files: add data.solution_skeleton, filled in, with edit_environment, then test_reward again"
            )
        again = Next("read_environment", why, {"environment": same["environment"]})
    if unequal_to is not None and status == "failed":
        again = Next("read_environment", "shows what the older environment pays for", {"environment": unequal_to})
    if not failing:
        return (again,)
    only = {**same, "cases_file": LAST_TRIAL, "probes": False, "examples": 1}
    if unequal_to is not None:
        only["same_as"] = unequal_to
    return again, Next("test_reward", "tries the failing cases again, without the probes", only)


def _data(
    trial: Trial,
    sanity: Sequence[reward.SanityCheck],
    failing: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    args: Args,
) -> dict[str, Any]:
    rate = amounts.gold_pass_rate(trial)
    style = trial.style
    return {
        "tasks": trial.tasks,
        "cases": trial.run,
        "gold_pass_rate": None if rate is None or not amounts.gold_is_understood(trial) else round(rate, 4),
        "golds_scored": len(trial.golds),
        "max_reward": round(trial.max_reward, 6),
        "answer_format": style.golds.format if style else None,
        "rendering": style.wrapper.reasoned("…", "…")
        if style and style.wrapper.lead
        else style.wrapper.wrap("…")
        if style
        else None,
        "sanity_checks": [check.as_json() for check in sanity],
        "components": reward.component_means(trial),
        "coverage": [{"name": c.name, "scored": c.scored, "earned": c.earned} for c in component_coverage(trial)],
        "failing_cases": [_case_data(row, case) for row, case in failing[:_FAILING]],
        "supplied_cases": [_supplied(case, trial) for case in trial.supplied[:_SUPPLIED]],
        "probes": args.probes,
        "search": trial.searched.as_json(),
    }


def _witness(witnessed: Witnessed) -> dict[str, Any]:
    """The number of completions that a plain process scored again and of those that differed, or why there are none."""
    if witnessed.trouble or witnessed.skipped:
        return {"cases": 0, "why": witnessed.trouble or witnessed.skipped}
    return {"cases": witnessed.cases, "different": len(witnessed.differences)}


def _case_data(row: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    """One failing case. `replay` is the case in the form of the argument `cases`, with its completion; a completion
    that is too long for that is quoted in part."""
    data = {k: row[k] for k in ("case", "task", "expected", "reward")}
    if fits_in_report(case):
        return data | {"replay": dict(case)}
    data["completion"] = row["completion"]
    if len(data["completion"]) > _MOST_CHARACTERS:
        data["completion"] = f'{data["completion"][:_MOST_CHARACTERS]}…"'
    return data


def _supplied(case: ScoredCase, trial: Trial) -> dict[str, Any]:
    scored_probe = case.scored_probe
    earned = None if scored_probe.reward is None else round(scored_probe.reward, 6)
    return {
        "case": quote(scored_probe.probe.label, 120),
        "task": scored_probe.probe.row,
        "expected": case.expected,
        "reward": earned,
        "met": answers.meets_expectation(case, trial),
    }


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
