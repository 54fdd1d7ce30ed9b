"""What the tools report of a budget: the bound that fits, or the call with the smallest budget that would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from prime_lab_mcp.lab.base.errors import BudgetError, LabError
from prime_lab_mcp.lab.base.fix import NamedCall, calls_named_in
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.configs.author import ConfigRequest, WrittenConfig, try_config
from prime_lab_mcp.lab.training.bound import bound_from_ledger
from prime_lab_mcp.lab.training.budget import ConfigBudget, FullerRun, WalletBudget, evaluations_beside
from prime_lab_mcp.tools.tool import Arguments, Call


def over_budget(error: BudgetError, tool: str, args: Arguments) -> BudgetError:
    """The error with the calls that the budget holds, and the same call under the smallest budget that fits."""
    given = args.model_dump(mode="json", exclude_unset=True, exclude={"confirm", "yes"})
    within = tuple(
        Next(tool, "the budget holds this run", {k: v for k, v in {**given, **way}.items() if v is not None})
        for way in error.ways
    )
    again = Next(tool, "the smallest budget that fits, if the user agrees", {**given, "budget": error.least})
    return BudgetError(error.message, fix=error.fix, least=error.least, next=(*within, again))


def bound_sentence(budget: Mapping[str, Any]) -> str:
    """What a run for a budget and the evaluations beside it may cost in all; empty without such evaluations."""
    told = budget["budget"]
    beside, in_all = told["evaluations"], told["in_all"]
    if in_all is None or not (beside["before"] or beside["after"]):
        return ""
    return (
        f" With the evaluations before it (${beside['before']:.2f}) and the comparison after it (at most "
        f"${beside['after']:.2f}), that is at most ${in_all:.2f} in all, other runs not counted."
    )


WHY_FAR = "it counts every rollout at its token limit and every step at its slowest"
"""Why a bound is many times the likely cost."""

_FAR = 10
"""A report says why a bound is above this many times the likely cost."""


def far_bound_reason(likely: float, most: float) -> str:
    """Why a bound is far above the likely cost, without a full stop; empty where a person needs no reason."""
    if most <= _FAR * likely:
        return ""
    return f"The bound is {most / max(likely, 0.01):.0f} times the likely cost because {WHY_FAR}"


def fuller_sentence(fuller: FullerRun | None, *, call: str) -> str:
    """The other run for the same money, and what a user who takes it has to do; empty without one. `call` says which
    call writes it."""
    if fuller is None:
        return ""
    return (
        f" The bound decides these sizes; {WHY_FAR}. {count(fuller.steps, 'step')} of {fuller.batch} rollouts in "
        f"groups of {fuller.group} would likely cost ${fuller.likely:.2f}, and at most ${fuller.at_most:.2f}, which is "
        f"above the budget: only if the user agrees to that, {call} writes that run. Nothing ends a run at a sum of "
        "money."
    )


def _fuller_call(fuller: FullerRun, args: Arguments) -> dict[str, Any]:
    """The call that writes the other run. Its bound is above the budget that the user named."""
    given = args.model_dump(mode="json", exclude_unset=True, exclude={"budget"})
    return {
        "tool": "write_training_config",
        "arguments": given | ({"steps": fuller.steps} if fuller.fewer_steps else {}),
    }


def fuller_call(fuller: FullerRun | None, args: Arguments, budget: float | None) -> Next | None:
    """The call that writes the other run, for a user who agrees to its bound; None without one."""
    if fuller is None or budget is None:
        return None
    size = "a larger" if fuller.fewer_steps else "the full"
    why = (
        f"only if the user agrees to a bound of ${fuller.at_most:.2f}, above the budget of ${budget:.2f}: {size} "
        f"run, likely ${fuller.likely:.2f}, to be followed with watch_run"
    )
    return Next("write_training_config", why, _fuller_call(fuller, args)["arguments"])


def shorter_call(written: WrittenConfig, args: Arguments) -> Next | None:
    """The call that writes a run of more rollouts for the same budget, with a lower token limit; None without one."""
    weak = any(finding.code == "config-weak-signal" for finding in written.findings)
    if written.shorter_limit is None or not weak:
        return None
    given = args.model_dump(mode="json", exclude_unset=True)
    why = (
        f"more rollouts for the same budget: replies of {written.reply_tokens} tokens (p95) need no limit of "
        f"{written.config.max_completion_tokens}"
    )
    return Next("write_training_config", why, {**given, "max_tokens": written.shorter_limit})


async def larger_steps_call(call: Call, written: WrittenConfig, args: Arguments, request: ConfigRequest) -> Next | None:
    """The call that writes a run whose steps have enough signal, for the same budget where one is given.

    None where the signal is not weak, or where the budget holds no run of such steps. `request` is that of the call.
    """
    weak = next((finding for finding in written.findings if finding.code == "config-weak-signal"), None)
    named = calls_named_in(weak.fix) if weak is not None else ()
    batch = next((one.arguments["batch"] for one in named if isinstance(one, NamedCall)), None)
    given = args.model_dump(mode="json", exclude_unset=True)
    if not isinstance(batch, int):
        return None
    if (budget := given.get("budget")) is not None:
        choices = replace(request.choices, batch=batch)
        try:
            today = datetime.now(UTC).date()
            await try_config(call.lab, replace(request, choices=choices), today, ConfigBudget(call.lab, budget).fit)
        except LabError:
            return None
    why = (
        "fewer, larger steps for the same budget"
        if budget is not None
        else "steps with enough signal, at a higher price"
    )
    return Next("write_training_config", f"{why}: {batch} rollouts a step", {**given, "batch": batch})


def wallet_call(wallet: WalletBudget | None, given: Mapping[str, Any]) -> Next | None:
    """The call that writes a config which cannot outlast the wallet, by its sizes and not by a sum that nobody named;
    None where none is needed or none fits."""
    if wallet is None or not wallet.sizes:
        return None
    why = (
        f"the wallet has ${wallet.balance:.2f} for this run, less than it may cost: {count(wallet.steps, 'step')} of "
        f"{wallet.batch} rollouts, at most ${wallet.at_most:.2f}; "
        "where the user named a sum, that sum as budget instead of these sizes"
    )
    extra = {**(given.get("extra") or {}), **wallet.sizes.get("extra", {})}
    return Next("write_training_config", why, {**given, **wallet.sizes, **({"extra": extra} if extra else {})})


def budget_data(
    call: Call, written: WrittenConfig, budget: float | None, args: Arguments, fuller: FullerRun | None = None
) -> dict[str, Any]:
    """The budget beside the bound of the written config, as part of a report's data."""
    if budget is None:
        return {}
    config = written.config
    bound = bound_from_ledger(call.lab, config, written.price_per_gpu_hour)
    beside = evaluations_beside(call.lab, config)
    return {
        "budget": {
            "usd": budget,
            "at_most": bound.max_cost,
            "evaluations": beside.as_json(),
            "in_all": None if bound.max_cost is None else round(bound.max_cost + beside.in_all, 2),
            "why": bound.why,
            "steps": config.max_steps,
            "batch": config.batch_size,
            "group": config.group_size,
            **({"by_likely_cost": fuller.as_json() | {"call": _fuller_call(fuller, args)}} if fuller else {}),
        }
    }
