"""`test_reward`: scores correct, wrong, malformed and reward-hacking completions with an environment's reward."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Finding, Next, Say, Verdict, worst_first
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.loading import LoadedEnvironment, open_environment, present_distributions
from prime_lab_mcp.lab.relay.endpoints import EndpointAccess
from prime_lab_mcp.lab.rewards import cases as supplied
from prime_lab_mcp.lab.rewards import comparison, judge_relay, reward_source, surroundings, trial
from prime_lab_mcp.lab.rewards import findings as reward
from prime_lab_mcp.lab.rewards.cases import LAST_TRIAL, TrialFolder, cases_behind, fits_in_report
from prime_lab_mcp.lab.rewards.observations import ScoredCase, Trial, Witnessed
from prime_lab_mcp.lab.rewards.probes import answer_formats
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.rules import amounts, answers, judges, rollouts, solutions
from prime_lab_mcp.lab.rewards.rules.scoring import component_coverage
from prime_lab_mcp.lab.rewards.search.outcome import DEFAULT_SECONDS, TURNED_OFF, RememberedSearches, SearchOutcome
from prime_lab_mcp.lab.rewards.search.reward_search import search_reward
from prime_lab_mcp.lab.rewards.smells import hints
from prime_lab_mcp.lab.state import source_code
from prime_lab_mcp.lab.state.arguments import arguments_summary, canonical_arguments, known_defaults
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.worker.description import Rows
from prime_lab_mcp.lab.worker.faults import LoadFailed, ProblemCode
from prime_lab_mcp.tools import reward_judge
from prime_lab_mcp.tools.tool import Arguments, Call, EnvironmentName, Plan, PlannedTool

_FAILING = 8
_SHOWN = 160
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
        Field(description=f'JSON file of such a list; "{LAST_TRIAL}": what failed last.'),
    ] = None
    preset: Annotated[Literal["gsm8k"] | None, Field(description="Five cases.")] = None
    rendering: Annotated[
        str | None,
        Field(max_length=300, description='Form of an answer, as "<final>GOLD</final>"; else tried out.'),
    ] = None
    probes: Annotated[bool, Field(description="Also try known hacks.")] = True
    search: Annotated[int, Field(ge=0, le=600, description="Most seconds to find unlisted hacks.")] = DEFAULT_SECONDS
    env_args: Annotated[dict[str, Any] | None, Field(description="As in run_eval.")] = None
    same_as: Annotated[str | None, Field(max_length=300, description="Environment to pay alike.")] = None
    judge: Annotated[str | None, Field(max_length=300, description="Endpoint of its judge, as in run_eval.")] = None
    confirm: str | None = None


@dataclass(frozen=True, slots=True)
class RewardTest:
    """The arguments, and as `access` the judge's endpoint if one was named and has answered."""

    args: Args
    access: EndpointAccess | None = None


async def plan(call: Call, args: Args) -> Plan[RewardTest]:
    """Plan the test. Without a judge, no approval is needed."""
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
        "Name arguments that load. Where the defaults do not load here, push_environment(env_args=...) names the "
        "arguments that were proven.",
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
    kept = TrialFolder(call.lab.settings.state_dir, call.lab.workspace.root, snapshot.relative)
    raw = list(args.cases or [])
    if args.cases_file == LAST_TRIAL:
        raw += kept.cases()
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
        judge_relay.open_judge_relay(call.lab, args.judge, plan.work.access) as way,
        open_environment(
            call.lab,
            snapshot,
            env_args=args.env_args,
            progress=say,
            variables=None if way is None else way.variables,
        ) as found,
    ):
        sample = await found.worker.rows(limit=trial.GOLD_TASKS)
        await say("scoring")
        async with reward_judge.paid(call, way, found):
            seen = await trial.run_trial(
                found.worker,
                found.loaded,
                sample,
                written.text,
                examples=args.examples,
                hacks=args.probes,
                cases=cases,
                wrapper=wrapper,
                relay=way,
                arguments=found.env_args,
                own_raises=reward_source.raise_statements(written),
            )
        if args.rendering is not None:
            _check_rendering(snapshot.relative, args, seen)
        seen = await _searched(call, args, found, sample, written.text, seen, say)
        compared = await _compare(call, args.same_as, seen, sample, say, way) if args.same_as is not None else None
        asked = None if way is None else way.as_json()
    smelt = await anyio.to_thread.run_sync(hints.find_smells, written)
    reads = await anyio.to_thread.run_sync(
        surroundings.find_surroundings, written, snapshot.manifest.module or "", snapshot.name
    )
    canonical = canonical_arguments(found.env_args, known_defaults(snapshot, written))
    return await anyio.to_thread.run_sync(_outcome, seen, found, args, compared, kept, smelt, reads, asked, canonical)


async def _searched(
    call: Call, args: Args, found: LoadedEnvironment, sample: Rows, source: str, seen: Trial, say: Say
) -> Trial:
    """The trial with a search for hacks that no probe lists, which comes last and only where nothing blocks yet."""
    if not args.probes or any(f.severity == "blocker" for f in reward.reward_findings(seen)):
        why = "there are blockers to mend first" if args.probes else "it was not asked for (probes=false)"
        return replace(seen, searched=SearchOutcome(skipped=why))
    memory = call.lab.memory(RememberedSearches)
    made_of = [found.snapshot.source, found.env_args, found.toolchain, args.search, args.examples, args.rendering]
    key = json.dumps(made_of, sort_keys=True, default=str)
    outcome = memory.get(key)
    if outcome is None:
        await say("searching for hacks that no probe lists")
        outcome = await search_reward(found.worker, seen, sample.rows, source, args.search)
        memory.put(key, outcome)
    return replace(seen, searched=outcome, faults=(*seen.faults, *outcome.faults))


def _check_rendering(environment: str, args: Args, seen: Trial) -> None:
    """Raise BadInput for a rendering in which no gold earns more than wrong answers do.

    Such a rendering says nothing about the environment: the call without `rendering` finds out whether the reward pays
    the gold in any form.
    """
    if amounts.gold_is_paid(seen):
        return
    same = {"environment": environment, **args.model_dump(exclude_unset=True, exclude={"rendering", "confirm"})}
    raise BadInput(
        f"none of {count(len(seen.golds), 'gold answer')} earns anything for being right when it is written as "
        f"{quote(args.rendering, 120)}; nothing was recorded",
        fix="Give the rendering that the prompt asks for, or leave rendering out: it is then found by trying.",
        code="bad-argument",
        next=(Next("test_reward", "finds the rendering by trying", same),),
    )


async def _compare(
    call: Call, name: str, seen: Trial, sample: Rows, say: Say, way: judge_relay.JudgeRelay | None
) -> comparison.RewardComparison:
    """Score the same completions with the other environment, in its own interpreter."""
    other = await call.lab.snapshot(name)
    if other.relative == call.environment.relative:
        raise BadInput(
            "same_as names the environment itself", fix="Name the one it was ported from.", code="bad-argument"
        )
    variables = None if way is None else way.variables
    async with open_environment(call.lab, other, progress=say, variables=variables) as found:
        await say(f"scoring the same completions in {other.name}")
        rewards = found.loaded.rewards
        return await comparison.compare_rewards(seen, sample.rows, found.worker, name=other.name, rewards=rewards)


def _outcome(
    seen: Trial,
    found: LoadedEnvironment,
    args: Args,
    compared: comparison.RewardComparison | None,
    kept: TrialFolder,
    smelt: Sequence[hints.Smell],
    reads: list[surroundings.SurroundingsRead],
    asked: Mapping[str, Any] | None,
    env_args: Mapping[str, Any],
) -> Outcome:
    findings = worst_first([*reward.reward_findings(seen), *surroundings.surroundings_findings(reads)])
    sanity = reward.sanity_checks(seen)
    blocked = {f.code for f in findings if f.severity == "blocker"}
    unknown = _UNKNOWN | (_INCONCLUSIVE if seen.style is None else frozenset())
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
    failing = cases_behind([f for f in findings if f.severity != "info"], seen)
    kept.write_table(seen)
    if failing and args.cases_file != LAST_TRIAL:
        kept.write_failing([case for _, case in failing])
    data = _data(seen, sanity, failing, args) | {"table": str(kept.table)} | reward_judge.data(seen, asked)
    if reads:
        data["surroundings"] = surroundings.named(reads)[:_SURROUNDINGS]
    if seen.witnessed is not None:
        data["witness"] = _witness(seen.witnessed)
    if seen.solved.played:
        data["solutions"] = solutions.solution_lines(seen)
    elif seen.interactive and blocked & {"gold-not-understood", "reward-no-gold"}:
        data["solution_skeleton"] = solutions.solution_skeleton(seen)
    if seen.rollouts:
        data["rollouts"] = rollouts.rollout_lines(seen)[:_ROLLOUTS]
    if compared is not None:
        data["same_as"] = compared.as_json()
    if found.env_args:
        data["env_args"] = dict(found.env_args)
    facts = Facts(env_args=env_args, toolchain=found.toolchain, proves=proves, **reward_judge.facts(seen))
    return Outcome(
        status,
        _summary(seen, status, blockers) + _equal(compared),
        tuple(findings),
        data,
        _next(
            _same_call(found.snapshot.relative, args),
            status,
            bool(failing),
            _unasked(status, blockers, args),
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
        "Compare what right and wrong completions earn (components in data), mend the reward, then call test_reward.",
    )


def _summary(seen: Trial, status: Verdict, blockers: Sequence[Finding]) -> str:
    number = count(seen.run, "completion")
    rate = amounts.gold_pass_rate(seen)
    none = "no gold answers" if seen.style is None else "gold answers not scored"
    if not amounts.gold_is_understood(seen):
        rate, none = None, "gold answers not understood"
    what = "solutions" if seen.by_rollouts and seen.solved.scored else "gold answers"
    after = " after the calls of their solutions" if seen.after_calls else ""
    gold = none if rate is None else f"{rate:.1%} of {what}{after} earn the maximum of {seen.max_reward:g}"
    left_out = len(seen.unmatched) + sum(c.shot.scored.has(ProblemCode.NOT_RUN) for c in seen.supplied)
    if status == "passed" and left_out:
        skipped = count(left_out, "supplied case")
        return f"No flaw was found with {number} ({gold}), but {skipped} could not be run, and shows nothing."
    if status == "passed":
        held = f"The reward held with {number}: {gold}, and no wrong answer or hack is paid like a right one."
        return held + _search_summary(seen.searched)
    codes = ", ".join(dict.fromkeys(f.code for f in blockers))
    return f"The reward {'is undecided' if status == 'inconclusive' else 'failed'} with {number} ({gold}): {codes}."


def _search_summary(searched: SearchOutcome) -> str:
    """What a pass says about the search, as the end of a summary."""
    if searched.skipped == TURNED_OFF:
        return ""
    if searched.skipped:
        return f" Search: not run because {searched.skipped}."
    return f" A search of {count(searched.completions, 'completion')} found no hack that no probe lists."


def _same_call(environment: str, args: Args) -> dict[str, Any]:
    """The environment and its arguments, as this call named them."""
    return {"environment": environment} | ({} if args.env_args is None else {"env_args": args.env_args})


def _next(
    same: Mapping[str, Any], status: Verdict, failing: bool, unasked: bool, unequal_to: str | None
) -> tuple[Next, ...]:
    if status == "passed":
        return (Next("run_eval", "shows whether a model's rewards vary enough to learn from", same),)
    if unasked:
        given = {**same, "judge": "prime"}
        return (Next("test_reward", "with the endpoint of its judge (prime, openai, ... or a URL)", given),)
    again = Next("test_reward", "after mending the reward", same)
    if unequal_to is not None and status == "failed":
        again = Next("read_environment", "shows what the older environment pays for", {"environment": unequal_to})
    if not failing:
        return (again,)
    only = {**same, "cases_file": LAST_TRIAL, "probes": False, "examples": 1}
    if unequal_to is not None:
        only["same_as"] = unequal_to
    return again, Next("test_reward", "tries the failing cases again, without the probes", only)


def _data(
    seen: Trial,
    sanity: Sequence[reward.SanityCheck],
    failing: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    args: Args,
) -> dict[str, Any]:
    rate = amounts.gold_pass_rate(seen)
    style = seen.style
    return {
        "tasks": seen.tasks,
        "cases": seen.run,
        "gold_pass_rate": None if rate is None or not amounts.gold_is_understood(seen) else round(rate, 4),
        "golds_scored": len(seen.golds),
        "max_reward": round(seen.max_reward, 6),
        "answer_format": style.golds.format if style else None,
        "rendering": style.wrapper.reasoned("…", "…")
        if style and style.wrapper.lead
        else style.wrapper.wrap("…")
        if style
        else None,
        "sanity_checks": [check.as_json() for check in sanity],
        "components": reward.component_means(seen),
        "coverage": [{"name": c.name, "scored": c.scored, "earned": c.earned} for c in component_coverage(seen)],
        "failing_cases": [_shown(row, case) for row, case in failing[:_FAILING]],
        "supplied_cases": [_supplied(case, seen) for case in seen.supplied[:_SUPPLIED]],
        "probes": args.probes,
        "search": seen.searched.as_json(),
    }


def _witness(witnessed: Witnessed) -> dict[str, Any]:
    """The number of completions that a plain process scored again and of those that differed, or why there are none."""
    if witnessed.trouble or witnessed.skipped:
        return {"cases": 0, "why": witnessed.trouble or witnessed.skipped}
    return {"cases": witnessed.cases, "different": len(witnessed.differences)}


def _shown(row: Mapping[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    """One failing case. `replay` is the case in the form of the argument `cases`, if it is short enough."""
    shown = {k: row[k] for k in ("case", "task", "completion", "expected", "reward")}
    if len(shown["completion"]) > _SHOWN:
        shown["completion"] = f'{shown["completion"][:_SHOWN]}…"'
    return shown | ({"replay": dict(case)} if fits_in_report(case) else {})


def _supplied(case: ScoredCase, seen: Trial) -> dict[str, Any]:
    shot = case.shot
    earned = None if shot.reward is None else round(shot.reward, 6)
    return {
        "case": quote(shot.probe.label, 120),
        "task": shot.probe.row,
        "expected": case.expected,
        "reward": earned,
        "met": answers.meets_expectation(case, seen),
    }


TOOL = PlannedTool(
    name="test_reward",
    title="Test reward",
    description=(
        "Score right, wrong and hacking completions through the environment's own reward. Fails when gold is not paid "
        "or anything else is. Free, but for a judge."
    ),
    args=Args,
    plan=plan,
    run=run,
    effect="executes",
    runs_environment_code=True,
    snapshot=True,
    records="environment",
)
