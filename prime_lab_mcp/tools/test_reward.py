"""test_reward: tries an environment's reward with right, wrong, malformed and hacking completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.checks import code, reward
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.opening import Opened, Say, opened
from prime_lab_mcp.lab.report import Facts, Finding, Next, Outcome, Verdict
from prime_lab_mcp.lab.rewards import compare, supplied, trial
from prime_lab_mcp.lab.rewards.observed import Trial
from prime_lab_mcp.lab.rewards.probes import Style
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.lab.worker.cases import Rows
from prime_lab_mcp.tools.tool import Arguments, Call, EnvironmentName, Tool

_FAILING = 8
_SHOWN = 160
_INCONCLUSIVE = frozenset({"reward-no-gold"})


EXAMPLES = 8
"""Tasks that a pass has to rest on (facts/validation 2.1)."""


class Args(Arguments):
    environment: EnvironmentName
    examples: Annotated[int, Field(ge=1, le=200, description="Tasks to build cases from.")] = EXAMPLES
    cases: Annotated[
        list[dict[str, Any]] | None,
        Field(description='Your own: [{name, completion, answer? or task?, expected: number|"high"|"low"}].'),
    ] = None
    cases_file: Annotated[str | None, Field(description="JSON file with such a list.")] = None
    preset: Annotated[Literal["gsm8k"] | None, Field(description="Five fixed cases for numbers in answer tags.")] = None
    probes: Annotated[bool, Field(description="Also try known reward hacks.")] = True
    same_as: Annotated[
        str | None, Field(max_length=300, description="Another environment that must pay the same completions alike.")
    ] = None


async def run(call: Call, args: Args) -> Outcome:
    """Observe through the worker, judge by the relations of checks/reward.py."""
    snapshot = call.environment
    raw = list(args.cases or [])
    if args.cases_file is not None:
        raw += supplied.read_file(call.lab.workspace.resolve(args.cases_file, must_exist=True))
    own = supplied.parse(raw)
    source = (await anyio.to_thread.run_sync(code.read, snapshot)).text

    async def say(message: str) -> None:
        await call.progress(0.2, 1.0, message)

    def cases(style: Style | None) -> Sequence[supplied.Wanted]:
        return [*own, *(supplied.gsm8k(style) if args.preset == "gsm8k" else ())]

    async with opened(call.lab, snapshot, progress=say) as found:
        sample = await found.worker.rows(limit=trial.GOLD_TASKS)
        await say("scoring")
        seen = await trial.run(
            found.worker, found.loaded, sample, source, examples=args.examples, hacks=args.probes, cases=cases
        )
    compared = await _compare(call, args.same_as, seen, sample, say) if args.same_as is not None else None
    return _outcome(seen, found, args, compared)


async def _compare(call: Call, name: str, seen: Trial, sample: Rows, say: Say) -> compare.Comparison:
    """The same completions through the other environment, in its own interpreter."""
    other = await call.lab.snapshot(name)
    if other.relative == call.environment.relative:
        raise BadInput(
            "same_as names the environment itself", fix="Name the one it was ported from.", code="bad-argument"
        )
    async with opened(call.lab, other, progress=say) as found:
        await say(f"scoring the same completions in {other.name}")
        return await compare.run(seen, sample.rows, found.worker, name=other.name)


def _outcome(seen: Trial, found: Opened, args: Args, compared: compare.Comparison | None) -> Outcome:
    findings = reward.judge(seen)
    sanity = reward.sanity(seen)
    blocked = {f.code for f in findings if f.severity == "blocker"}
    if blocked <= _INCONCLUSIVE or not blocked:
        findings += [_insane(check) for check in sanity if check.passed is False and not blocked]
    blockers = [f for f in findings if f.severity == "blocker"]
    status: Verdict = "failed" if blockers else "passed"
    if blockers and seen.style is None and all(f.code in _INCONCLUSIVE for f in blockers):
        status = "inconclusive"
    proves = status != "passed" or (args.probes and args.examples >= EXAMPLES)
    if not proves:
        findings = [*findings, _trial_only()]
    if compared is not None:
        about_both = compare.judge(compared)
        unequal = [f for f in about_both if f.severity == "blocker"]
        # A difference says which of two is another, not that this one is wrong: it is shown and closes no gate.
        proves = proves and not (unequal and status == "passed")
        findings, blockers = [*blockers, *about_both, *(f for f in findings if f not in blockers)], blockers + unequal
        status = "failed" if unequal else status
    data = _data(seen, sanity, findings, args)
    if compared is not None:
        data["same_as"] = compared.as_json()
    facts = Facts(env_args=found.env_args, toolchain=found.toolchain, proves=proves)
    return Outcome(
        status, _summary(seen, status, blockers) + _equal(compared), tuple(findings), data,
        (_next(found.snapshot.relative, status),), facts=facts,
    )  # fmt: skip


def _equal(compared: compare.Comparison | None) -> str:
    if compared is None or not compared.compared:
        return ""
    number, name = count(len(compared.compared), "completion"), quote(compared.name, 80)
    if compared.different:
        return f" {len(compared.different)} of {number} earned another share in {name}."
    return f" All {number} earned the same share in {name}."


def _trial_only() -> Finding:
    return Finding(
        "reward-trial-only", "info",
        f"a pass with fewer than {EXAMPLES} examples or without probes opens no gate",
        "Call test_reward with its defaults when the reward is ready.",
    )  # fmt: skip


def _insane(check: reward.Sanity) -> Finding:
    return Finding(
        check.code, "blocker", f"the sanity check {check.name!r} does not hold",
        "Compare what right and wrong completions earn (components in data), mend the reward, then call test_reward.",
    )  # fmt: skip


def _summary(seen: Trial, status: Verdict, blockers: Sequence[Finding]) -> str:
    number = count(seen.run, "completion")
    rate = reward.gold_pass_rate(seen)
    none = "no gold answers" if seen.style is None else "gold answers not scored"
    gold = none if rate is None else f"{rate:.1%} of gold answers earn the maximum of {seen.max_reward:g}"
    if status == "passed":
        return f"The reward held with {number}: {gold}, and no wrong answer or hack is paid like a right one."
    codes = ", ".join(dict.fromkeys(f.code for f in blockers))
    return f"The reward {'is undecided' if status == 'inconclusive' else 'failed'} with {number} ({gold}): {codes}."


def _next(environment: str, status: Verdict) -> Next:
    if status == "passed":
        return Next(
            "run_eval", "shows whether a model's rewards vary enough to learn from", {"environment": environment}
        )
    return Next("test_reward", "after mending the reward", {"environment": environment})


def _data(seen: Trial, sanity: Sequence[reward.Sanity], findings: Sequence[Finding], args: Args) -> dict[str, Any]:
    rate = reward.gold_pass_rate(seen)
    style = seen.style
    return {
        "tasks": seen.tasks,
        "cases": seen.run,
        "gold_pass_rate": None if rate is None else round(rate, 4),
        "golds_scored": len(seen.golds),
        "max_reward": round(seen.max_reward, 6),
        "answer_format": style.golds.format if style else None,
        "rendering": style.carrier.reasoned("…", "…")
        if style and style.carrier.lead
        else style.carrier.wrap("…")
        if style
        else None,
        "sanity_checks": [check.as_json() for check in sanity],
        "components": reward.components(seen),
        "failing_cases": _failing(findings),
        "probes": args.probes,
    }


def _failing(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """The cases behind the blockers, then those behind warnings, each once."""
    shown: dict[tuple[Any, ...], dict[str, Any]] = {}
    for finding in findings:
        for row in finding.rows:
            if "case" in row:
                case = {k: row[k] for k in ("case", "task", "completion", "expected", "reward")}
                if len(case["completion"]) > _SHOWN:
                    case["completion"] = f'{case["completion"][:_SHOWN]}…"'
                shown.setdefault((row["case"], row["task"]), case)
    return list(shown.values())[:_FAILING]


TOOL = Tool(
    name="test_reward",
    title="Test reward",
    description=(
        "Score right, wrong, malformed and hacking completions through the environment's own reward. Fails when gold "
        "is not paid or anything else is. No model, no cost."
    ),
    args=Args,
    run=run,
    effect="executes",
    snapshot=True,
    records="environment",
)
