"""Recommends calls after an evaluation in which the model solved almost nothing: ways to let it solve something.

A run on such tasks has no gradient. Where the rewards are sound, the model gets an easier level, longer replies or more
strength; the prompt `solve_something` says which to try first. The level comes from the arguments that the last
`check_environment` recorded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import as_mapping, clip, quote
from prime_lab_mcp.lab.distribution.next_calls import next_calls
from prime_lab_mcp.lab.distribution.rules import TRUNCATED_WARN
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.environment.easy_tasks import ALL_LEVELS, LEVEL_NAMES
from prime_lab_mcp.lab.evals.plan import MAX_TOKENS, run_eval_arguments
from prime_lab_mcp.lab.evals.runner.endings import resuming_call
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.evals.zeros.paid_parts import PaidParts
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.offered import DEFAULT_MODEL
from prime_lab_mcp.lab.models.registry import find_model
from prime_lab_mcp.lab.rewards.solutions import Change
from prime_lab_mcp.lab.state.arguments import arguments_summary, same_arguments
from prime_lab_mcp.lab.state.evaluation_evidence import is_checkpoint
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.workspace import ShownFiles

_TOO_HARD = frozenset(
    {
        "distribution-dead",
        "distribution-all-zero",
        "distribution-too-hard",
        "distribution-too-hard-mostly",
        "distribution-at-floor",
    }
)
_NOTHING_SOLVED = frozenset({"distribution-dead", "distribution-all-zero"})

MOST_CALLS = 3


def following_calls(lab: Lab, spec: EvalSpec, evaluation: str, judged: Distribution) -> tuple[Next, ...]:
    """Return the calls after a verdict. Where almost nothing was solved, at most three, the most promising first.

    An evaluation that broke off is finished first.
    """
    calls = next_calls(judged, spec.environment, evaluation, run_eval_arguments(spec))
    job = lab.ledger.job(evaluation)
    resuming = resuming_call(spec, job) if job is not None else None
    if resuming is not None:  # What is missing is made before another evaluation is asked for.
        return (resuming, *(call for call in calls if call.tool != "run_eval"))[:MOST_CALLS]
    if not _TOO_HARD.intersection(f.code for f in judged.findings if f.severity != "info"):
        if judged.mean == 0.0 and reward_verdict(lab, spec.source, spec.env_args) == "passed":
            calls = tuple(call for call in calls if call.tool != "test_reward")  # it would say the same again
        return calls
    easier = () if spec.hosted is not None else (*_easier(lab, spec, judged),)
    if not _NOTHING_SOLVED.intersection(f.code for f in judged.findings if f.severity == "blocker"):
        return (*calls, *easier)
    views = (call for call in calls if call.tool == "read_eval")
    passed = (*_passed_elsewhere(lab, spec),)
    tests = () if any(call.tool == "test_reward" for call in passed) else (*reward_calls(lab, spec, evaluation),)
    # What a reward does not pay, a stronger model does not earn either: the reward is tested first, or mended.
    tried = [call for call in easier if not tests or (call.tool, tests[0].tool) == ("run_eval", "test_reward")]
    return (*passed, *tests, *views, *tried)[:MOST_CALLS]


def _passed_elsewhere(lab: Lab, spec: EvalSpec) -> Iterator[Next]:
    """Yield the step towards training another model whose evaluation of the same files and arguments passed."""
    runs = lab.ledger.training_names()
    for row in lab.ledger.evidence(lab.key, tool="check_reward_distribution", source=spec.source):
        fits = row.status == "passed" and row.platform in (None, lab.platform) and row.model not in (None, spec.model)
        if not fits or is_checkpoint(row, runs) or not same_arguments(row.env_args, spec.env_args):
            continue
        model = quote(str(row.model), 80)[1:-1]
        id = row.data.get("id") or row.arguments.get("id")
        known = f"{model} passed on these tasks" + (f" ({id})" if id else "")
        push = next(iter(lab.ledger.pushes(workspace=lab.key, source=spec.source, platform=lab.platform)), None)
        given = {"env_args": dict(spec.env_args)} if spec.env_args else {}
        if push is None and reward_verdict(lab, spec.source, spec.env_args) != "passed":
            why = f"{known}; to publish them for that model, the reward has to pass its free test first"
            yield Next("test_reward", why, {"environment": spec.environment, **given})
        elif push is None:
            why = f"{known}: publish them to train that model"
            yield Next("push_environment", why, {"environment": spec.environment, **given})
        else:
            named = f"{push.owner}/{push.name}@{push.version}"
            why = f"{known}: train that model"
            yield Next("write_training_config", why, {"environments": [named], "model": row.model, **given})
        return


def reward_calls(lab: Lab, spec: EvalSpec, evaluation: str) -> Iterator[Next]:
    """Yield the free test of the reward, or, where it did not pass, the files to mend; nothing where it passed."""
    row = _newest_test(lab, spec.source, spec.env_args)
    if spec.hosted is not None or (row is not None and row.status == "passed"):
        return
    if row is None:
        why = "free, and never done with these files: whether right answers are paid at all"
        given = {"env_args": dict(spec.env_args)} if spec.env_args else {}
        yield Next("test_reward", why, {"environment": spec.environment, **given})
        return
    why = f"{_known_result(row)}. Mend that with edit_environment, then test_reward"
    yield _files_or_replies(lab, spec, evaluation, why)


def _known_result(row: Evidence) -> str:
    """A clause about a test of a reward that did not pass, with its first blocker and what would mend it."""
    blocker = next((f for f in row.findings if f.get("severity") == "blocker"), None)
    if blocker is None:
        return f"test_reward {row.status} with these very files"
    named = f"{blocker.get('code')}, {clip(str(blocker.get('message')), 200)}"
    mended = f" ({clip(str(blocker.get('fix')), 240)})" if blocker.get("fix") else ""
    return f"test_reward {row.status} with these very files: {named}{mended}"


def advice_with_known_result(
    lab: Lab, spec: EvalSpec, evaluation: str, advice: Sequence[Mapping[str, Any]], lacking: str = ""
) -> list[dict[str, Any]]:
    """The advice of the view of zeros, in which no row leads to a test of the reward that would say the same again.

    A row that leads there has what the test of these files named instead, or the form that it found paid. `lacking` is
    what the replies lack of what is paid.
    """
    row = _newest_test(lab, spec.source, spec.env_args)
    if row is None or spec.hosted is not None:
        return [dict(one) for one in advice]
    if row.status == "passed":
        other = form_call(lab, spec, evaluation, lacking)
        known = {"advice": f"{other.why}.", "tool": other.tool, "arguments": dict(other.arguments or {})}
        replaced = ("gold", "asked", "unpaid", "lacks")
        return [{**one, **(known if one.get("cause") in replaced and _is_replaced(one) else {})} for one in advice]
    calls = list(reward_calls(lab, spec, evaluation))
    return [
        {**one, "advice": f"{calls[0].why}.", "tool": calls[0].tool, "arguments": dict(calls[0].arguments or {})}
        if _tests_reward(one)
        else dict(one)
        for one in advice
    ]


def _is_replaced(advice: Mapping[str, Any]) -> bool:
    return _tests_reward(advice) or advice.get("cause") == "lacks"


def _tests_reward(advice: Mapping[str, Any]) -> bool:
    return advice.get("tool") == "test_reward"


def form_call(lab: Lab, spec: EvalSpec, evaluation: str, lacking: str = "") -> Next:
    """Return the call after zeros of a reward whose test passed: the test would say the same of the same files.

    `lacking` is what the replies lack of what every paid reply has; empty if unknown.
    """
    form = paid_form(lab, spec.source, spec.env_args)
    cases_form = "" if form else _cases_form(lab, spec)
    if lacking:
        why = f"the replies lack what every paid reply of test_reward has: {lacking}"
    elif form:
        why = (
            "test_reward passed with these very files, so it found a form that is paid (`rendering` in its report): "
            "compare that form with what the prompt asks for. Where they differ, mend the one that is wrong with "
            "edit_environment; where they agree, the model does not follow the prompt"
        )
    else:
        why = (
            "test_reward passed with these very files by its cases, and no form that it tried itself was paid: compare "
            "the cases that were paid with what the prompt asks for, and mend the one that is wrong with "
            "edit_environment"
        )
    given = {"env_args": dict(spec.env_args)} if spec.env_args else {}
    if lab.settings.rehearsal and cases_form:
        why += f". The stand-in writes this form after a test that finds it paid: {quote(cases_form, 200)}"
        return Next("test_reward", why, {"environment": spec.environment, "rendering": cases_form, **given})
    if lacking:
        why += (
            ". Where the prompt does not ask for that, or shows no whole reply, write one into it with "
            "edit_environment; where it does, the model does not follow the prompt"
        )
    if lab.settings.rehearsal:
        why += (
            ". In this rehearsal that is a stand-in, which writes the stored answer alone: a rendering of test_reward "
            "with every field of a right reply is what it then writes"
        )
    return _files_or_replies(lab, spec, evaluation, why)


def _cases_form(lab: Lab, spec: EvalSpec) -> str:
    """Return the form of fields that the paid cases of the newest test have; empty if they have none."""
    row = _newest_test(lab, spec.source, spec.env_args)
    form = row.data.get("rendering_of_cases") if row is not None else None
    return form if isinstance(form, str) else ""


def _files_or_replies(lab: Lab, spec: EvalSpec, evaluation: str, why: str) -> Next:
    """Return the call that reads the files, or, where the client has just read them, the replies without reward."""
    if lab.memory(ShownFiles).has(spec.environment):
        why += ". The files were shown already: here are whole replies to hold beside them"
        return Next("read_eval", why, {"eval": evaluation, "view": "rollouts", "where": "zero"})
    return Next("read_environment", why, {"environment": spec.environment, "path": "*"})


def paid_parts(lab: Lab, spec: EvalSpec) -> PaidParts:
    """Return the parts of the right replies that the newest `test_reward` of these files found paid."""
    row = _newest_test(lab, spec.source, spec.env_args)
    return PaidParts.recorded(row.data) if row is not None and row.status == "passed" else PaidParts()


def _newest_test(lab: Lab, source: str, env_args: Mapping[str, Any]) -> Evidence | None:
    rows = lab.ledger.evidence(lab.key, tool="test_reward", source=source)
    return next((row for row in rows if same_arguments(row.env_args, env_args)), None)


def reward_verdict(lab: Lab, source: str, env_args: Mapping[str, Any]) -> str | None:
    """Return the newest verdict of `test_reward` for these files and arguments; None if there is none."""
    row = _newest_test(lab, source, env_args)
    return row.status if row is not None else None


def pays_answers_alone(lab: Lab, source: str, env_args: Mapping[str, Any]) -> bool:
    """Whether a right answer without anything else earns something, as far as the newest `test_reward` knows.

    Where a reward is for what tools or turns did, the bare right answers of solved tasks earn nothing, and so does
    always giving the most frequent answer.
    """
    row = _newest_test(lab, source, env_args)
    solutions = as_mapping(row.data.get("solutions")) if row is not None else {}
    bare = as_mapping(solutions.get("instead")).get(Change.BARE_ANSWER.value)
    return not (solutions.get("mean_reward") and bare == 0.0)


def paid_form(lab: Lab, source: str, env_args: Mapping[str, Any]) -> str:
    """Return the form of the answer that the newest `test_reward` of these files found paid; empty if there is none.

    A test that paid no gold in its form has a rendering as well: the one that was tried last.
    """
    return _paid_form_of(_newest_test(lab, source, env_args))


def _paid_form_of(row: Evidence | None) -> str:
    return str(row.data.get("rendering") or "") if row is not None and row.data.get("gold_pass_rate") else ""


def stated_form(lab: Lab, source: str, env_args: Mapping[str, Any]) -> str:
    """Return the paid form of the newest `test_reward` of these files where its call named one; empty otherwise."""
    row = _newest_test(lab, source, env_args)
    return _paid_form_of(row) if row is not None and row.arguments.get("rendering") else ""


def untested_sentence(lab: Lab, source: str, env_args: Mapping[str, Any]) -> str:
    """Return what is known against the reward of an evaluation that costs money; empty where its test passed."""
    verdict = reward_verdict(lab, source, env_args)
    if verdict == "passed":
        return ""
    if verdict is None:
        rows = lab.ledger.evidence(lab.key, tool="test_reward", source=source)
        other = next((row for row in rows if row.status == "passed"), None)
        if other is not None:
            known = arguments_summary(other.env_args) if other.env_args else "the default arguments"
            return (
                f" Its reward passed the test with these files and {known}, and was not tested with "
                f"{arguments_summary(env_args) if env_args else 'the default arguments'}: test_reward is free."
            )
        return " Its reward was not tested with these files: test_reward is free and may show that they mean nothing."
    return f" test_reward {verdict} with these files: the rewards may mean nothing until what it names is mended."


def _easier(lab: Lab, spec: EvalSpec, judged: Distribution) -> Iterator[Next]:
    """Yield evaluations with easier tasks, longer replies or a stronger model, or the search for one."""
    again = run_eval_arguments(spec)
    for name, arguments in _easiest(lab, spec):
        yield Next("run_eval", f"the easiest tasks, if {name} is what makes them hard", again | {"env_args": arguments})
    if judged.truncation_rate > TRUNCATED_WARN and not judged.cut_early:
        longer = 2 * (spec.max_tokens or MAX_TOKENS)
        yield Next("run_eval", "replies that are not cut off", again | {"max_tokens": longer})
    if _default_is_stronger(lab, spec):
        yield Next(
            "run_eval", "a stronger model that is usually offered, on the same tasks", again | {"model": DEFAULT_MODEL}
        )
    else:
        yield Next("search_hub", "stronger models, also for a warm-up", {"kind": "model"})


def _default_is_stronger(lab: Lab, spec: EvalSpec) -> bool:
    """Whether the model that is advised by default is larger than the evaluated one, and was not evaluated on these
    files."""
    size, default = find_model(spec.model).parameters, find_model(DEFAULT_MODEL).parameters
    if spec.hosted is not None or spec.endpoint.preset != "prime" or size is None or default is None or size >= default:
        return False
    jobs = lab.ledger.jobs(lab.key, environment=spec.environment)
    return all(job.source != spec.source or job.spec.get("model") != DEFAULT_MODEL for job in jobs)


def easiest_tasks(lab: Lab, source: str) -> Mapping[str, Any]:
    """Return the arguments that select the easiest tasks, as the newest check of these files recorded them."""
    return as_mapping(_newest_check(lab, source).get("easiest"))


def _newest_check(lab: Lab, source: str) -> Mapping[str, Any]:
    checks = lab.ledger.evidence(lab.key, tool="check_environment", source=source, limit=1)
    return checks[0].data if checks else {}


def _easiest(lab: Lab, spec: EvalSpec) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (argument, arguments of the environment) with the easiest level, unless it was evaluated already."""
    check = _newest_check(lab, spec.source)
    selecting = as_mapping(as_mapping(check.get("easiest")).get("where"))
    if selecting and spec.env_args.get("where") != selecting:
        yield " and ".join(selecting), {**spec.env_args, "where": selecting}
    listed = check.get("args")
    for argument in listed if isinstance(listed, list) else ():
        name = argument.get("name") if isinstance(argument, Mapping) else None
        if not isinstance(name, str) or name.rpartition(".")[2].casefold() not in LEVEL_NAMES or "." in name:
            continue
        levels = [c for c in argument.get("choices") or () if str(c).casefold() not in ALL_LEVELS]
        if len(levels) > 1 and spec.env_args.get(name, argument.get("default")) != levels[0]:
            yield name, {**spec.env_args, name: levels[0]}
