"""What the tools report of a budget: the bound that fits, or the call with the smallest budget that would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prime_lab_mcp.lab.base.errors import BudgetError
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.configs.author import WrittenConfig
from prime_lab_mcp.lab.training.bound import bound_from_ledger
from prime_lab_mcp.lab.training.budget import evaluations_beside
from prime_lab_mcp.tools.tool import Arguments, Call


def over_budget(error: BudgetError, tool: str, args: Arguments) -> BudgetError:
    """The error with the same call under the smallest budget that fits."""
    given = args.model_dump(mode="json", exclude_unset=True, exclude={"confirm", "yes"})
    again = Next(tool, "the smallest budget that fits, if the user agrees", {**given, "budget": error.least})
    return BudgetError(error.message, fix=error.fix, least=error.least, next=(again,))


def bound_sentence(budget: Mapping[str, Any]) -> str:
    """What a run for a budget and the evaluations beside it may cost in all; empty without such evaluations."""
    told = budget["budget"]
    beside, in_all = told["evaluations"], told["in_all"]
    if in_all is None or not (beside["before"] or beside["after"]):
        return ""
    return (
        f" With the evaluations before it (${beside['before']:.2f}) and the comparison after it (at most "
        f"${beside['after']:.2f}), that is at most ${in_all:.2f} in all."
    )


def budget_data(call: Call, written: WrittenConfig, budget: float | None) -> dict[str, Any]:
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
        }
    }
