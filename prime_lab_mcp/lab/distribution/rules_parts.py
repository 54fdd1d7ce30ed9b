"""The decision table on the parts of a reward: form, dominance, saturation, scores out of range, length."""

from __future__ import annotations

import math
from collections.abc import Iterator

from prime_lab_mcp.lab.distribution.advice import (
    CORRECT_SHARE_FAIL,
    FORMAT,
    FORMAT_SHARE_FAIL,
    LENGTH_WARN,
    MIN_FORMAT,
    SATURATED,
    UNPARSED_FAIL,
    UNPARSED_WARN,
    unclear,
)
from prime_lab_mcp.lab.distribution.measured import Measured
from prime_lab_mcp.lab.distribution.summary import Component, Distribution
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count, quote


def on_form(facts: Distribution, seen: Measured) -> Iterator[Finding]:
    form, kept = facts.form, seen.form
    if form is None or kept is None:
        return
    name = quote(form.name, 60)
    if kept.side(MIN_FORMAT) == "across":
        yield unclear(f"the mean of {name}", kept, MIN_FORMAT, facts.tasks, FORMAT)
    elif kept.side(MIN_FORMAT) == "below":
        yield Finding(
            "distribution-format-low", "blocker",
            f"{name} is {form.mean:.2f} on average, below {MIN_FORMAT}: the model does not keep to "
            "the format, so correctness is hardly measured",
            FORMAT,
        )  # fmt: skip
        return
    if form.unparsed_rate is not None and form.unparsed_rate > UNPARSED_WARN:
        able = "" if form.solved_if_kept is None else f"; where it is kept, {form.solved_if_kept:.0%} are solved"
        yield Finding(
            "distribution-unparsed", "blocker" if form.unparsed_rate > UNPARSED_FAIL else "warning",
            f"{form.unparsed_rate:.0%} of the completions that were not cut off do not keep to the format "
            f"({name} below 0.5){able}",
            FORMAT,
        )  # fmt: skip


def on_components(facts: Distribution) -> Iterator[Finding]:
    form = next((c for c in facts.components if facts.form and c.name == facts.form.name), None)
    others = [c for c in facts.components if c.within_task_share is not None and c is not form]
    if form is not None and form.within_task_share is not None and others:
        correct = math.fsum(c.within_task_share or 0.0 for c in others)
        if form.within_task_share > FORMAT_SHARE_FAIL and correct < CORRECT_SHARE_FAIL:
            yield Finding(
                "distribution-format-dominates", "blocker",
                f"{form.within_task_share:.0%} of what a run could learn from is {quote(form.name, 60)}, {correct:.0%} "
                "everything else: it will learn the format and stop",
                "Lower the weight of the format reward, or choose tasks that the model sometimes solves.",
            )  # fmt: skip
        elif form.mean >= SATURATED:
            yield Finding(
                "distribution-format-saturated", "info",
                f"{quote(form.name, 60)} is at {form.mean:.2f} already and gives no signal",
                "Drop it, or keep it only as a guard.",
            )  # fmt: skip
    yield from _on_saturation(facts, form)
    yield from _on_range(facts)


def _on_saturation(facts: Distribution, form: Component | None) -> Iterator[Finding]:
    """Of several components, those that are the same everywhere: they move no gradient."""
    flat = [c for c in facts.components if c is not form and c.weight != 0 and c.std < 1e-6]
    if flat and len(flat) < len(facts.components):
        told = ", ".join(f"{quote(c.name, 60)} ({c.mean:.2f})" for c in flat[:4])
        yield Finding(
            "distribution-constant-component", "info", f"the same for every rollout, and so without signal: {told}",
            "Drop it, or look why it never differs: test_reward shows what right and wrong answers earn from it.",
        )  # fmt: skip


def _on_range(facts: Distribution) -> Iterator[Finding]:
    told = [f"{quote(c.name, 60)} in {count(c.outside, 'rollout')}" for c in facts.components if c.outside]
    below = f"the reward is negative in {count(facts.outside, 'rollout')}" if facts.outside else ""
    if told or below:
        outside = f"scores outside 0 to 1: {', '.join(told[:4])}" if told else ""
        yield Finding(
            "distribution-out-of-range", "warning", "; ".join(filter(None, (below, outside))),
            "Keep every score within 0 and 1 and let weights say what it is worth; penalties as such are fine when "
            "meant.",
        )  # fmt: skip


def on_lengths(facts: Distribution) -> Iterator[Finding]:
    found = facts.length_correlation
    if found is None or not found.certain or abs(found.rho) <= LENGTH_WARN:
        return
    way = "longer" if found.rho > 0 else "shorter"
    tokens = facts.length_by_outcome
    means = f"; solved ones have {tokens['solved']} tokens, others {tokens['unsolved']}" if len(tokens) == 2 else ""
    yield Finding(
        "distribution-length-correlation", "warning",
        f"inside a task, {way} completions get more reward (rank correlation {found.rho:.2f}{means})",
        "Read the highest rollouts with read_eval(view=\"rollouts\"): training will push the length that way.",
    )  # fmt: skip
