"""The report of `test_reward`: its verdict, findings, next calls and data."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next, Verdict, worst_first
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.distribution.sample_size import needed_size
from prime_lab_mcp.lab.evals.spec import SOLUTIONS_AT_ONCE
from prime_lab_mcp.lab.evals.zeros.paid_parts import PAID_REPLIES
from prime_lab_mcp.lab.loading import LoadedEnvironment
from prime_lab_mcp.lab.rewards import comparison, surroundings, surroundings_report
from prime_lab_mcp.lab.rewards import findings as reward
from prime_lab_mcp.lab.rewards.calibration import STATED
from prime_lab_mcp.lab.rewards.cases import (
    AGAIN,
    LAST_TRIAL,
    TrialFolder,
    cases_behind,
    fits_in_report,
    probes_behind,
)
from prime_lab_mcp.lab.rewards.comparison_findings import comparison_findings, comparison_summary
from prime_lab_mcp.lab.rewards.observations import ScoredCase, ScoredProbe, SearchOutcome, Trial, Witnessed
from prime_lab_mcp.lab.rewards.probes import row_fields
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.rules import amounts, judges, known_answers, rollouts, solutions
from prime_lab_mcp.lab.rewards.rules.amounts import CaseRow
from prime_lab_mcp.lab.rewards.rules.scoring import component_coverage
from prime_lab_mcp.lab.rewards.search.reward_search import (
    DEFAULT_SECONDS,
    TURNED_OFF,
)
from prime_lab_mcp.lab.rewards.smells import hints
from prime_lab_mcp.lab.rewards.solutions import SOLVED_TASKS
from prime_lab_mcp.lab.rewards.thresholds import EPSILON
from prime_lab_mcp.lab.sandbox.containers.access import podman_is_installed
from prime_lab_mcp.lab.state.compared_rewards import EQUAL_VERDICTS
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.faults import ProblemCode
from prime_lab_mcp.tools import reward_judge

if TYPE_CHECKING:
    from prime_lab_mcp.tools.test_reward import Args

EXAMPLES = 8
"""Number of tasks that a pass requires (docs/validation.md, Reward tests)."""
_FAILING = 8
_MOST_CHARACTERS = 160
_SUPPLIED = 20
_ROLLOUTS = 16
_INCONCLUSIVE = frozenset({"reward-no-gold"})
_UNKNOWN = judges.INCONCLUSIVE | {
    "reward-witness-failed",
    "gold-not-understood",
    "rollouts-too-slow",
    "reward-component-unearned",
    "reward-solution-broken",
    "reward-untested",
}


def reward_outcome(
    trial: Trial,
    rows: Sequence[Row],
    loaded: LoadedEnvironment,
    args: Args,
    compared: comparison.RewardComparison | None,
    folder: TrialFolder,
    smelt: Sequence[hints.Smell],
    reads: list[surroundings.SurroundingsRead],
    asked: Mapping[str, Any] | None,
    env_args: Mapping[str, Any],
) -> Outcome:
    findings = worst_first([*reward.reward_findings(trial), *surroundings_report.surroundings_findings(reads)])
    sanity = reward.sanity_checks(trial)
    blocked = {f.code for f in findings if f.severity == "blocker"}
    unknown = _UNKNOWN | (_INCONCLUSIVE if trial.style is None else frozenset())
    if blocked <= _INCONCLUSIVE or not blocked:
        findings += [_insane(check) for check in sanity if check.passed is False and not blocked]
    blockers = [f for f in findings if f.severity == "blocker"]
    status: Verdict = "failed" if blockers else "passed"
    if blockers and all(f.code in unknown for f in blockers):
        status = "inconclusive"
    # A search that this reward rules out is no longer with more seconds.
    ruled_out = args.search > 0 and trial.searched.skipped not in ("", TURNED_OFF)
    whole = args.probes and args.examples >= EXAMPLES and (args.search >= DEFAULT_SECONDS or ruled_out)
    proves = status != "passed" or whole
    if not proves:
        findings = [*findings, _trial_only()]
    if compared is not None:
        about_both = comparison_findings(compared)
        # The exception is the cause: nothing earns what raises, and the component is not to be removed for it.
        findings = [f for f in findings if f.code != "reward-component-unearned" or not compared.unearned_by_exception]
        blockers = [f for f in findings if f.severity == "blocker"]
        unequal = [f for f in about_both if f.severity == "blocker"]
        # A difference does not say which of the two is wrong: it is shown and closes no gate.
        proves = proves and not (unequal and status == "passed")
        findings, blockers = [*blockers, *about_both, *(f for f in findings if f not in blockers)], blockers + unequal
        status = "failed" if unequal else status
    older_flaw = compared is not None and status == "failed" and compared.verdict in EQUAL_VERDICTS
    findings = [*findings, *hints.hints(smelt, findings)]
    # The reward of a slow completion is right, so that it is no failing case.
    shown = [f for f in findings if f.severity != "info" and f.code != "reward-slow"]
    failing = cases_behind(shown, trial)
    folder.write_table(trial)
    if failing and args.cases_file != LAST_TRIAL:
        folder.write_failing(probes_behind(shown, trial), rows)
    data = (
        _data(trial, sanity, failing, args)
        | _paid(trial, rows)
        | {"warned": _warned(findings, trial), "table": str(folder.table)}
        | reward_judge.data(trial, asked)
    )
    if args.cases_file == LAST_TRIAL:
        data["scored_again"] = _scored_again(trial)
    if reads:
        data["surroundings"] = surroundings_report.surroundings_phrases(reads)
    if trial.witnessed is not None:
        data["witness"] = _witness(trial.witnessed)
    if trial.solved.played:
        data["solutions"] = solutions.solution_lines(trial)
        durations = [played.result.ms for played in trial.solved.scored]
        if durations and not trial.solved.unavailable:
            seconds = round(statistics.median(durations) / 1000, 1)
            data["rollout_seconds"] = {"median": seconds, "rollouts": len(durations)}
    elif trial.interactive and not trial.solved.not_played and blocked & {"gold-not-understood", "reward-no-gold"}:
        data["solution_skeleton"] = solutions.solution_skeleton(trial)
    if trial.rollouts:
        data["rollouts"] = rollouts.rollout_lines(trial)[:_ROLLOUTS]
    if compared is not None:
        data["same_as"] = compared.as_json()
    if loaded.env_args:
        data["env_args"] = dict(loaded.env_args)
    facts = Facts(env_args=env_args, toolchain=loaded.toolchain, proves=proves, **reward_judge.facts(trial, asked))
    return Outcome(
        status,
        _summary(trial, status, blockers, findings)
        + _examples(trial, args)
        + comparison_summary(compared)
        + (_OLDER_FLAW if older_flaw else ""),
        tuple(findings),
        data,
        _next(
            _same_call(loaded.snapshot.relative, args),
            _whole_call(loaded.snapshot.relative, args),
            status,
            _unasked(status, blockers, args),
            _stood_in(status, blockers, trial),
            any(f.code in _UNREAD for f in blockers),
            trial.stated is not None or (blocked == {"reward-constant"} and trial.max_reward <= 0),
            "solution_skeleton" in data,
            args.same_as if compared is not None and compared.verdict not in EQUAL_VERDICTS else None,
            older_flaw=_functions_of(loaded) if older_flaw else None,
            too_slow=_exact_call(loaded.snapshot.relative, args) if blocked == {"rollouts-too-slow"} else None,
            in_podman=_ContainerEvaluation(loaded.loaded.tasks, data.get("rollout_seconds", {}).get("median"))
            if loaded.loaded.container and podman_is_installed()
            else None,
        ),
        facts=facts,
    )


_OLDER_FLAW = (
    " Equality is shown; what blocks is the older reward's own flaw. To publish, change it on purpose, and call "
    "test_reward without same_as."
)


def _functions_of(loaded: LoadedEnvironment) -> dict[str, Any]:
    """The call of read_environment for the functions of a port, or for all files of another environment."""
    snapshot = loaded.snapshot
    given = {"environment": snapshot.relative}
    path = f"{snapshot.manifest.module}/functions.py"
    return {**given, "path": path} if path in snapshot.files else given


def _unasked(status: Verdict, blockers: Sequence[Finding], args: Args) -> bool:
    return (
        status == "inconclusive" and args.judge is None and any(f.code == "reward-judge-unreachable" for f in blockers)
    )


def _stood_in(status: Verdict, blockers: Sequence[Finding], trial: Trial) -> bool:
    """Whether the rehearsal's stand-in gave verdicts that nobody can read, so that the reward needs no mending."""
    unread = any(f.code == "reward-judge-unread" for f in blockers)
    return status == "inconclusive" and unread and trial.judging is not None and trial.judging.stand_in


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
_NO_PLAY_PAID = "no wrong or thoughtless play that is listed is paid like a solution"


def _summary(trial: Trial, status: Verdict, blockers: Sequence[Finding], findings: Sequence[Finding]) -> str:
    number = count(trial.run, "completion")
    if trial.by_rollouts and trial.solved.scored and trial.rollouts_played:
        number = f"{count(trial.rollouts_played, 'rollout')} of scripted models"
    rate = amounts.gold_pass_rate(trial)
    none = "no gold answers" if trial.style is None else "gold answers not scored"
    if not amounts.gold_is_understood(trial):
        rate, none = None, "gold answers not understood"
    if trial.solved.too_slow and any(f.code == "rollouts-too-slow" for f in blockers):
        return f"The reward is undecided: this machine was too slow, {trial.solved.not_played} (rollouts-too-slow)."
    what = "solutions" if trial.by_rollouts and trial.solved.scored else "gold answers"
    after = " after the calls of their solutions" if trial.after_calls else ""
    if rate is not None and trial.tasks is not None and len(trial.golds) < trial.tasks:
        what = f"{len(trial.golds):,} {what} (of {count(trial.tasks, 'task')})"
    gold = none if rate is None else f"{rate:.1%} of {what}{after} earn {_highest(trial)}"
    if rate is not None and trial.max_reward <= EPSILON:
        gold = f"none of the {what}{after} earns anything"
    if rate is not None and any(f.code == "reward-contradicts-prompt" for f in blockers):
        gold += " in the form that the reward reads"
    left_out = len(trial.unmatched) + sum(c.scored_probe.scored.has(ProblemCode.NOT_RUN) for c in trial.supplied)
    if status == "passed" and left_out:
        skipped = count(left_out, "supplied case")
        return f"No flaw was found with {number} ({gold}), but {skipped} could not be run, and shows nothing."
    if status == "passed":
        warned = list(dict.fromkeys(f.code for f in findings if f.severity == "warning" and f.code in _PAID))
        paid = _NO_PLAY_PAID if trial.by_rollouts and trial.solved.scored else _NONE_PAID
        if rate is None and not trial.by_rollouts:
            cases = count(len(trial.supplied), "supplied case")
            paid = f"the {cases} earned what they should; other wrong answers were not tried"
        held = f"The reward held with {number}: {gold}, and {paid}."
        if any(f.code == "paid-without-tool" for f in findings):
            held += " It pays the right answer without any tool call, too: see paid-without-tool."
        if warned:
            named = " and ".join(filter(None, (", ".join(warned[:-1]), warned[-1])))
            held = f"No blocker was found with {number}: {gold}. Something wrong is paid all the same: see {named}."
        return held + _search_summary(trial.searched)
    codes = ", ".join(dict.fromkeys(f.code for f in blockers))
    return f"The reward {'is undecided' if status == 'inconclusive' else 'failed'} with {number} ({gold}): {codes}."


def _examples(trial: Trial, args: Args) -> str:
    """That `examples` changes nothing where only solutions are played, as the end of a summary."""
    if args.examples == EXAMPLES or not (trial.by_rollouts and trial.solved.scored):
        return ""
    return f" examples changes nothing here: solutions of at most {SOLVED_TASKS} tasks are played."


def _highest(trial: Trial) -> str:
    """The highest reward that a right answer earned, beside what the weights add up to where that is more."""
    if trial.max_reward >= trial.declared - EPSILON:
        return f"the maximum of {trial.max_reward:g}"
    return (
        f"{trial.max_reward:g}, the most that any of them earned, of the {trial.declared:g} that the weights add up to"
    )


def _search_summary(searched: SearchOutcome) -> str:
    """What a pass says about the search, as the end of a summary."""
    if searched.skipped == TURNED_OFF:
        return ""
    if searched.skipped:
        return f" Search: not run because {searched.skipped}."
    tried = f" A search of {count(searched.completions, 'completion')} beyond the listed probes"
    if (attacker := searched.attacker) is not None:
        tried += f", {attacker.proposed} of them proposed by {attacker.model}," if attacker.proposed else ""
        if attacker.failed:
            return f"{tried} found no hack. The attacker gave no more: {attacker.failed}."
    return f"{tried} found no hack."


def _same_call(environment: str, args: Args) -> dict[str, Any]:
    """The environment and its arguments, as this call named them."""
    return {"environment": environment} | ({} if args.env_args is None else {"env_args": args.env_args})


def _exact_call(environment: str, args: Args) -> dict[str, Any]:
    """This call once more; the cases of its own are those of the last trial."""
    given = args.model_dump(exclude_unset=True, exclude={"environment", "confirm", "cases"})
    return {"environment": environment, **given} | ({"cases_file": LAST_TRIAL} if args.cases else {})


def _whole_call(environment: str, args: Args) -> dict[str, Any]:
    """The whole test with what this call named: its judge, its rendering, its comparison and its cases.

    The number of tasks, the probes and the search are those of the defaults, so that a pass proves something.
    """
    call = _same_call(environment, args)
    kept = args.model_dump(exclude_unset=True, include={"preset", "rendering", "same_as", "judge", "cases_file"})
    if args.cases:
        kept["cases_file"] = LAST_TRIAL
    return call | {name: value for name, value in kept.items() if value is not None}


_UNREAD = ("gold-not-understood", "reward-no-gold")
"""Codes after which only the reward itself says which replies are right."""


@dataclass(frozen=True, slots=True)
class _ContainerEvaluation:
    """The smallest evaluation in containers that can pass: each of its rollouts takes long.

    `tasks` is the number of tasks of the environment, `seconds` what a solution took in its container.
    """

    tasks: int | None
    seconds: float | None

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of `run_eval`."""
        tasks, rollouts = needed_size(self.tasks)
        return {"runtime": "podman", "num_examples": tasks, "rollouts": rollouts}

    @property
    def why(self) -> str:
        """What the size is, and how long the evaluation takes at least."""
        tasks, rollouts = needed_size(self.tasks)
        size = f"{tasks} x {rollouts} is the smallest size that can pass"
        if self.seconds is None:
            return size
        minutes = math.ceil(tasks * rollouts * self.seconds / SOLUTIONS_AT_ONCE / 60)
        return f"{size}, and takes at least {count(minutes, 'minute')}, as long as solutions took in containers"


def _next(
    same: Mapping[str, Any],
    whole: Mapping[str, Any],
    status: Verdict,
    unasked: bool,
    stood_in: bool,
    unread: bool,
    unpaid: bool,
    unsolved: bool,
    unequal_to: str | None,
    *,
    older_flaw: Mapping[str, Any] | None = None,
    too_slow: Mapping[str, Any] | None = None,
    in_podman: _ContainerEvaluation | None = None,
) -> tuple[Next, ...]:
    if status == "passed":
        why = "shows whether a model's rewards vary enough to learn from"
        if in_podman is None:
            return (Next("run_eval", why, same),)
        return (Next("run_eval", f"{why}; {in_podman.why}", {**same, **in_podman.arguments}),)
    if too_slow is not None and status == "inconclusive":
        return (Next("test_reward", "the same call, when this machine has less to do", too_slow),)
    if unasked:
        given = {**whole, "judge": "prime"}
        return (Next("test_reward", "with the endpoint of its judge (a preset such as prime, or a URL)", given),)
    if stood_in:
        return (Next("preflight", "names the endpoints besides the stand-in, for judge", {}),)
    again = Next("test_reward", "after mending the reward", whole)
    if status == "inconclusive" and unread:
        why = "shows the form that the reward pays: mend the reward, or pass rendering or cases"
        if unsolved:
            why = (
                "lists the files: add data.solution_skeleton, filled in, with edit_environment, then test_reward again"
            )
        return (Next("read_environment", why, {"environment": same["environment"]}), again)
    if unpaid and status == "failed":
        why = "what the reward takes out of a reply, and what it compares that with; mend it with edit_environment"
        return (Next("read_environment", why, {"environment": same["environment"]}), again)
    if older_flaw is not None:
        why = "what pays; to publish, mend the older reward's flaw here on purpose with edit_environment"
        alone = {name: value for name, value in whole.items() if name != "same_as"}
        return (
            Next("read_environment", why, older_flaw),
            Next("test_reward", "after that change, without same_as: the comparison stays on record", alone),
        )
    if unequal_to is not None and status == "failed":
        return (
            Next("read_environment", "what the older environment pays for", {"environment": unequal_to, "path": "*"}),
            again,
        )
    return (again,)


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
        "rendering": None if style is None else _rendering(style),
        "sanity_checks": [check.as_json() for check in sanity],
        "components": reward.component_means(trial),
        "coverage": [{"name": c.name, "scored": c.scored, "earned": c.earned} for c in component_coverage(trial)],
        "failing_cases": [_case_data(row, case) for row, case in failing[:_FAILING]],
        "supplied_cases": [_supplied(case, trial) for case in trial.supplied[:_SUPPLIED]],
        "probes": args.probes,
        "search": trial.searched.as_json(),
    }


_PAID_REPLIES = 3
"""Number of paid right replies in the data, which an evaluation that pays nothing is compared with."""
_PAID_CHARACTERS = 300


def _paid(trial: Trial, rows: Sequence[Row]) -> dict[str, Any]:
    """The ends of right replies that earned most, and the form of fields that paid cases have, for a rendering."""
    cases = [c for c in trial.supplied if c.high and known_answers.meets_expectation(c, trial)]
    golds = sorted(trial.golds, key=lambda scored: -(scored.reward or 0.0)) if amounts.gold_is_paid(trial) else []
    right = [*golds[:_PAID_REPLIES], *(case.scored_probe for case in cases)]
    replies = [(one.probe.row, _reply(one)) for one in right if one.reward]
    if not replies:
        return {}
    data: dict[str, Any] = {
        PAID_REPLIES: [{"task": row, "reply": text[-_PAID_CHARACTERS:]} for row, text in replies[:_PAID_REPLIES]]
    }
    form = row_fields.form_of_fields(replies, rows, trial.fields) if trial.style is None else ""
    return data | ({"rendering_of_cases": form} if form else {})


def _reply(scored: ScoredProbe) -> str:
    content = scored.probe.messages[-1].get("content") if scored.probe.messages else None
    return content.strip() if isinstance(content, str) else ""


def _warned(findings: Sequence[Finding], trial: Trial) -> list[dict[str, Any]]:
    """What was paid although it is no plain right answer: the finding's words without its example, and the share of the
    maximum that its best paid example earned. The questions of a push and of a run say it again."""
    warned = []
    for finding in findings:
        examples = [row.scored_probe for row in finding.rows if isinstance(row, CaseRow)]
        if finding.severity == "warning" and finding.code in _PAID and examples:
            shares = [(s.reward or 0.0) / trial.maximum(s.probe.row) for s in examples]
            how = finding.message.removesuffix(f": {amounts.paid_text(examples[0], trial)}")
            warned.append({"code": finding.code, "how": how, "share": round(max(shares), 4)})
    return warned


def _rendering(style: AnswerStyle) -> str:
    """The form of the golds that were scored, with … in the place of the gold and fields of the task in braces.

    Golds that are made of fields have no …: their form is the rendering itself."""
    before, after = style.golds.frame
    gold = style.golds.template if style.golds.template and style.golds.place != STATED else f"{before}…{after}"
    return style.wrapper.reasoned(gold, "…") if style.wrapper.lead else style.wrapper.wrap(gold)


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


def _scored_again(trial: Trial) -> list[dict[str, Any]]:
    """The completions that a finding of an earlier trial showed, with what each earns now."""
    again = [scored for scored in trial.everything if scored.probe.id.startswith(AGAIN)]
    return [
        {
            "case": quote(scored.probe.label, 120),
            "task": scored.probe.row,
            "reward": None if scored.reward is None else round(scored.reward, 6),
        }
        for scored in again[:_SUPPLIED]
    ]


def _supplied(case: ScoredCase, trial: Trial) -> dict[str, Any]:
    scored_probe = case.scored_probe
    earned = None if scored_probe.reward is None else round(scored_probe.reward, 6)
    replies = sum(m.get("role") == "assistant" for m in scored_probe.probe.messages)
    return {
        "case": quote(scored_probe.probe.label, 120),
        "task": scored_probe.probe.row,
        "expected": case.expected,
        "reward": earned,
        "met": known_answers.meets_expectation(case, trial),
        **({"replies": replies} if trial.interactive else {}),
    }
