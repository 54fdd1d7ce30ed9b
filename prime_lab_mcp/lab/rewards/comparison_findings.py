"""The findings on a comparison of two rewards, and its summary: where they differ, and what was not compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets.task_golds import prompt_of
from prime_lab_mcp.lab.rewards.comparison import ComparedCompletion, RewardComparison
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import CaseRow
from prime_lab_mcp.lab.worker.faults import ProblemCode

_MOST_LISTED = 8


def comparison_findings(comparison: RewardComparison) -> list[Finding]:
    """Return the findings of a comparison; none if both environments pay the same and all was compared."""
    return [
        *_not_compared(comparison),
        *_missing(comparison),
        *_raises(comparison),
        *_differences(comparison),
        *_unreached(comparison),
        *_left_out(comparison),
        *_unscored(comparison),
        *_other_conversations(comparison),
    ]


def comparison_summary(compared: RewardComparison | None) -> str:
    """What was compared and what came of it, as the end of a summary; empty without a comparison."""
    if compared is None or not compared.compared:
        return ""
    number, name = count(len(compared.compared), "completion"), quote(compared.name, 80)
    if compared.rollouts:
        number += f" ({compared.rollouts:,} of them whole rollouts)"
    if any(compared.versions):
        here, there = (version or "an unknown version" for version in compared.versions)
        name += f" (verifiers {there} there, {here} here)" if here != there else f" (verifiers {there})"
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
    if compared.unearned_by_exception:
        raising = quote(", ".join(compared.unearned_by_exception), 120)
        return f" {number} earned the same share in {name}, but {raising} raises there, so that nothing earned it."
    if compared.too_little:
        total = len(compared.matched.pairs) + len(compared.matched.unmatched)
        tasks = f"{len(compared.matched.pairs):,} of {count(total, 'task')}"
        why = "; it does not take these env_args" if compared.refused else ""
        return f" Only {tasks} could be compared with {name}{why}: whether both pay the same is not known."
    scale = "" if compared.scale is None else f", with all weights {compared.scale:g} times as high"
    open_parts = quote(", ".join(compared.unexercised), 120)
    left = f"; nothing is known about {open_parts}, which none of them earned" if compared.unexercised else ""
    same = [c for c in compared.components if c.verdict == "equal"]
    parts = f", and {count(len(same), 'component')} got the same scores" if same else ""
    unpaid = quote(", ".join(compared.unpaid), 120)
    metrics = f" What pays nothing was not compared: {unpaid}." if compared.unpaid else ""
    apart = len(compared.matched.unmatched)
    left += f"; {count(apart, 'task')} without a counterpart were not compared" if apart else ""
    if not compared.every_task and not apart:
        left += "; nothing is known about the other tasks"
    absent = count(compared.absent_tasks, "task")
    left += f"; {absent} of {quote(compared.name, 80)} are missing here" if compared.absent_tasks else ""
    return (
        f" Equal on the {number} that were tried, of {compared.tasks_text}: each earned the same share in "
        f"{name}{scale}{parts}{left}. Other completions were not compared.{metrics}"
    )


def _not_compared(comparison: RewardComparison) -> list[Finding]:
    """Return the blocker if no completion could be compared, or none earned anything.

    The reason comes first: other arguments or other tasks explain why nothing was earned by nothing.
    """
    if comparison.refused:
        return _too_little(comparison)
    if comparison.compared and comparison.reached_nothing:
        return [
            Finding(
                "reward-not-compared",
                "blocker",
                f"none of {count(len(comparison.compared), 'completion')} earned anything here or in "
                f"{quote(comparison.name, 80)}, so nothing is known about any component",
                Fix(
                    "Give rendering or cases with completions that are paid, then call ",
                    NamedCall("test_reward"),
                    " with same_as again.",
                ),
            )
        ]
    if comparison.compared:
        return _too_little(comparison)
    return [
        Finding(
            "reward-not-compared",
            "blocker",
            f"no task of {quote(comparison.name, 80)} asks the same as a task of this environment, so nothing was "
            "compared",
            Fix(
                "Give both the same prompts (the user's message, not the system prompt) and the same "
                "split, set [tool.prime-lab] check_args where one of them loads another split, then "
                "call ",
                NamedCall("test_reward"),
                " again.",
            ),
            rows=_prompts(comparison),
        )
    ]


def _too_little(comparison: RewardComparison) -> list[Finding]:
    """Return the blocker if most tasks have no counterpart, or the other environment has other arguments."""
    name = quote(comparison.name, 80)
    if comparison.refused:
        return [
            Finding(
                "reward-not-compared",
                "blocker",
                f"{name} does not take the env_args of this environment, so it was loaded with its own and says "
                f"nothing about these: {comparison.refused}",
                Fix(
                    "Compare with the arguments that both take: ",
                    NamedCall("test_reward").without("env_args"),
                    " compares the defaults. Or let its load_environment take these arguments.",
                ),
            )
        ]
    missing, total = (
        len(comparison.matched.unmatched),
        len(comparison.matched.unmatched) + len(comparison.matched.pairs),
    )
    if not comparison.too_little:
        return []
    if len(comparison.unscored) > len(comparison.compared):
        return [
            Finding(
                "reward-not-compared",
                "blocker",
                f"only {count(len(comparison.compared), 'completion')} could be compared: {_unscored_text(comparison)}",
                Fix(
                    "Call ",
                    NamedCall("test_reward"),
                    " with same_as again when this machine has less to do; a reward that needs so long is slow in "
                    "training too (reward-slow).",
                ),
                rows=_unscored_rows(comparison),
            )
        ]
    return [
        Finding(
            "reward-not-compared",
            "blocker",
            f"only {total - missing} of {count(total, 'task')} could be compared: the others have no counterpart in "
            f"{name}",
            "Give both the same rows and prompts: the same split, seed and number of rows, by env_args that both take "
            "or in [tool.prime-lab] check_args.",
            rows=_prompts(comparison),
        )
    ]


def _raises(comparison: RewardComparison) -> list[Finding]:
    """Return the blocker for components that no completion earned because they raise in the other environment, and a
    warning for those that raise for a few completions."""
    version = comparison.versions[1]
    under = f" under verifiers {version}" if version else ""
    few = [
        Finding(
            "reward-raises",
            "warning",
            f"{quote(name, 80)} raises in {quote(comparison.name, 80)}{under} for {number:,} of "
            f"{count(len(comparison.compared), 'completion')}, which its rubric pays like an unearned component: "
            f"{quote(text, 200)}. The others were compared",
            "Nothing to do for the port, which pays the same there; cases that earn the component show whether both "
            "pay them alike.",
        )
        for name, (number, text) in comparison.raised_for_some.items()
    ]
    return few + [
        Finding(
            "reward-raises",
            "blocker",
            f"{quote(name, 80)} raises in {quote(comparison.name, 80)}{under} for {count(number, 'completion')}, which "
            f"its rubric pays like an unearned component: {quote(text, 200)}. So nothing was compared of it, and a "
            "port that catches the exception pays 0 for it as well",
            "Mend the line that raises, here and there (it was written for another version of verifiers, if it paid "
            "once), then compare again; do not remove the component for this.",
        )
        for name, (number, text) in comparison.unearned_by_exception.items()
    ]


def _differences(comparison: RewardComparison) -> list[Finding]:
    """Return the blocker for different weights, different scores of a component, or different rewards."""
    different = comparison.different
    if not different and comparison.compared and comparison.weights:
        name, here, there = comparison.weights[0]
        return [
            Finding(
                "reward-differs",
                "blocker",
                f"{quote(name, 80)} weighs {here:g} here and {there:g} in {quote(comparison.name, 80)}, beside the "
                "others; no completion that was tried shows the difference",
                "Give both the same weights, or cases that earn this component.",
            )
        ]
    apart = [c for c in comparison.components if c.verdict == "differs"]
    if different and apart:
        named = quote(", ".join(c.name for c in apart), 160)
        what = f"; {named} {'scores' if len(apart) == 1 else 'score'} otherwise"
    else:
        what = ""
    if not different and apart:
        return [
            Finding(
                "reward-differs",
                "blocker",
                f"{quote(apart[0].name, 80)} scores {apart[0].differ} of {count(apart[0].completions, 'completion')} "
                f"otherwise than in {quote(comparison.name, 80)}, although the sums are equal",
                "Port each component as it is: data.same_as.components says which differ.",
            )
        ]
    if not different:
        return []
    summary = f"{len(different)} of {count(len(comparison.compared), 'completion')} earned another share of the maximum"
    if comparison.other_maximum <= 0 < comparison.maximum:
        summary = f"{quote(comparison.name, 80)} paid none of the right answers, this environment did"
    if comparison.weights:
        name, here, there = comparison.weights[0]
        summary = f"{quote(name, 80)} weighs {here:g} here and {there:g} there beside the others; {summary}"
    kinds: dict[tuple[Family, str], ComparedCompletion] = {}
    for pair in different:
        kinds.setdefault((pair.here.probe.family, pair.here.probe.variant), pair)
    listed = [*kinds.values(), *(pair for pair in different if pair not in kinds.values())][:_MOST_LISTED]
    return [
        Finding(
            "reward-differs",
            "blocker",
            f"{summary} in {quote(comparison.name, 80)}: {_example_text(listed[0], comparison)}{what}"
            f"{_caught(different)}",
            Fix(
                "Port what decides these completions (where the answer is looked for, how it is "
                "compared, what the format pays), or keep the difference on purpose: then ",
                NamedCall("test_reward").without("same_as"),
                " judges the reward alone.",
            ),
            rows=tuple(_row(pair, comparison) for pair in listed),
        )
    ]


def _caught(different: Sequence[ComparedCompletion]) -> str:
    """A clause about the functions of the port that raised for such completions and not there; empty if none did."""
    details = [(p, detail) for p in different for detail in p.here.scored.details(ProblemCode.CAUGHT)]
    if not details:
        return ""
    number = len({id(pair) for pair, _ in details})
    return (
        f". For {count(number, 'completion')} of these a function of the port raises, which counts as 0: "
        f"{quote(details[0][1], 240)}"
    )


def _example_text(pair: ComparedCompletion, comparison: RewardComparison) -> str:
    here = _reward_text(pair.here.reward, comparison.whole)
    there = _reward_text(pair.there.reward, comparison.other_whole)
    return f"{here} here and {there} there for {quote(pair.here.probe.completion, 120)}"


def _reward_text(reward: float | None, maximum: float) -> str:
    return "nothing computable" if reward is None else f"{reward:g} of {maximum:g}"


def _row(pair: ComparedCompletion, comparison: RewardComparison) -> CaseRow:
    """Return a row of a finding with the rewards and components of one completion in both environments."""
    scored_probe, there = pair.here, pair.there
    row: dict[str, Any] = {
        "case": scored_probe.probe.label,
        "task": scored_probe.probe.row,
        "completion": quote(scored_probe.probe.completion) if scored_probe.probe.messages else "(no reply)",
        "expected": f"as there: {_reward_text(there.reward, comparison.other_whole)}",
        "reward": scored_probe.reward if scored_probe.reward is None else round(scored_probe.reward, 6),
        "there": there.reward if there.reward is None else round(there.reward, 6),
        "task_there": comparison.matched.pairs[scored_probe.probe.row],
        "components": {n: c.score for n, c in scored_probe.scored.components.items()},
        "components_there": {n: c.score for n, c in there.components.items()},
    }
    raised = next((e for s in (scored_probe.scored, there) for e in s.errors), None)
    if raised is not None:
        row["error"] = quote(f"{raised.type}: {raised.message}", 160)
    return CaseRow(scored_probe, row)


def _missing(comparison: RewardComparison) -> list[Finding]:
    """Return the blocker for components that one reward lacks."""
    if not comparison.missing or not comparison.compared:
        return []
    first = comparison.missing[0]
    here = first.verdict == "only-here"
    where = f"is not in {quote(comparison.name, 80)}" if here else f"of {quote(comparison.name, 80)} is not here"
    weight = first.weight if here else first.other_weight
    names = quote(", ".join(c.name for c in comparison.missing), 160)
    more = f" ({len(comparison.missing)} in all: {names})" if len(comparison.missing) > 1 else ""
    return [
        Finding(
            "reward-differs",
            "blocker",
            f"the component {quote(first.name, 80)} (weight {weight:g}) {where}{more}",
            Fix(
                "Write it by hand: ",
                NamedCall("create_environment", port=...),
                " listed it in data.left. Or leave it out on purpose, and call ",
                NamedCall("test_reward").without("same_as"),
                ".",
            ),
        )
    ]


def _unreached(comparison: RewardComparison) -> list[Finding]:
    """Return the warning about components that no compared completion earned."""
    unknown = [name for name in comparison.unexercised if name not in comparison.unearned_by_exception]
    if not unknown or comparison.reached_nothing or not comparison.compared:
        return []
    names = quote(", ".join(unknown), 160)
    return [
        Finding(
            "reward-partly-compared",
            "warning",
            f"no completion that was tried earned anything from {names}: nothing is known about it",
            "Give cases that earn it (completion as a list of messages where tools or turns are needed).",
        )
    ]


def _other_conversations(comparison: RewardComparison) -> list[Finding]:
    """Return findings about different tools, first messages and responses of the environments."""
    findings = []
    if comparison.other_tools:
        names = quote(", ".join(comparison.other_tools), 160)
        findings.append(
            Finding(
                "conversation-differs",
                "blocker",
                f"only one of this environment and {quote(comparison.name, 80)} offers the model {names}",
                Fix(
                    "Offer the same tools: write those that ",
                    NamedCall("create_environment", port=...),
                    " listed in data.left by hand.",
                ),
            )
        )
    if comparison.other_starts:
        findings.append(
            Finding(
                "conversation-differs",
                "warning",
                f"{comparison.other_starts} of {count(len(comparison.matched.pairs), 'task')} begin with other "
                f"messages than in {quote(comparison.name, 80)}, such as another system prompt",
                "Keep the prompts of the older environment where the port must train as it did.",
            )
        )
    if comparison.other_replies:
        first = comparison.other_replies[0]
        ours, theirs = (quote(said, 120) if said else "nothing" for said in comparison.other_reply or ("", ""))
        findings.append(
            Finding(
                "conversation-differs",
                "warning",
                f"in {len(comparison.other_replies)} of {count(comparison.rollouts, 'rollout')} the environment or its "
                f"tools said something else than in {quote(comparison.name, 80)}, first when the model "
                f"{first.here.probe.variant or 'spoke'}: {ours} here, {theirs} there",
                "Compare what env_response and the tools give; verifiers itself words some errors of tools otherwise.",
            )
        )
    return findings


def _left_out(comparison: RewardComparison) -> list[Finding]:
    """Return the warning about tasks without a counterpart in the other environment."""
    missing = comparison.matched.unmatched
    if not missing or not comparison.compared or comparison.too_little:
        return []
    total = len(missing) + len(comparison.matched.pairs)
    return [
        Finding(
            "reward-partly-compared",
            "warning",
            f"{len(missing)} of {count(total, 'task')} have no counterpart in {quote(comparison.name, 80)} and were "
            "not compared",
            "Expected where one side drops rows or holds them out; otherwise give both the same rows and prompts.",
            rows=_prompts(comparison),
        )
    ]


def _unscored(comparison: RewardComparison) -> list[Finding]:
    """Return the warning about completions that could not be compared for want of time, if the others were."""
    if not comparison.unscored or not comparison.compared or comparison.too_little:
        return []
    return [
        Finding(
            "reward-partly-compared",
            "warning",
            f"{_unscored_text(comparison)}. That is no difference: the others were compared",
            "Nothing to port: a time limit says nothing about what is paid. When this machine has less to do, the same "
            "call may compare them too; what is slow on both sides is slow in training (reward-slow).",
            rows=_unscored_rows(comparison),
        )
    ]


def _unscored_text(comparison: RewardComparison) -> str:
    """A clause that counts and names the completions without a reward for want of time."""
    labels = list(dict.fromkeys(pair.here.probe.label for pair in comparison.unscored))
    named = ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")
    number = len(comparison.unscored)
    here = sum(pair.here.reward is None for pair in comparison.unscored)
    there = sum(pair.there.reward is None for pair in comparison.unscored)
    return (
        f"{count(number, 'completion')} ({quote(named, 160)[1:-1]}) {'was' if number == 1 else 'were'} not compared, "
        f"without a reward for want of time ({here} here, {there} in {quote(comparison.name, 80)})"
    )


def _unscored_rows(comparison: RewardComparison) -> tuple[CaseRow, ...]:
    return tuple(_row(pair, comparison) for pair in comparison.unscored[:_MOST_LISTED])


def _prompts(comparison: RewardComparison) -> tuple[dict[str, Any], ...]:
    return tuple({"task": row.index, "prompt": quote(prompt_of(row), 160)} for row in comparison.matched.unmatched[:3])
