"""Fits a training config to a budget: finds the most steps whose upper bound stays within the budget.

Only choices that the caller left open are changed, in this order: the number of steps; the evaluations during training
(fewer tasks, and only before and after); the batch. The bound is that of `training/bound.py`, which the question of a
submission states. A fitted run therefore never costs more than its budget in that question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.base.errors import BudgetError, LabError
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import MIN_BATCH
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices, round_up
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import PlatformModels
from prime_lab_mcp.lab.training.bound import CostBound, bound_from_ledger

WANTED_STEPS, FEWEST_STEPS = 50, 20
"""If the budget allows fewer than `WANTED_STEPS`, the evaluations and the batch are made smaller as well. A run with
fewer than `FEWEST_STEPS` is not worth its start. Our judgement: the recipes of prime-rl have 200 steps, and rewards of
small models begin to rise within 50."""
LIGHT_EVAL_TASKS = 32
"""Number of held-out tasks of an evaluation during training if the budget is tight."""

Render = Callable[[ConfigChoices], TrainingConfig]
"""Builds the config for given choices without writing a file."""


@dataclass(frozen=True, slots=True)
class ConfigBudget:
    """A budget in US dollars, which `fit` applies to the choices of a config."""

    lab: Lab
    usd: float

    def fit(self, requested: ConfigChoices, render: Render, models: PlatformModels | None) -> ConfigChoices:
        """Return choices whose bound fits. Raises BudgetError if none do, or LabError if no bound is known."""
        if requested.target != "hosted":
            raise LabError(
                "a budget bounds hosted runs; the price of GPUs of one's own is not known here",
                fix='Leave budget out, or write for target="hosted".',
                code="price-unknown",
            )
        smallest: tuple[TrainingConfig, CostBound] | None = None
        for fewest in (WANTED_STEPS, FEWEST_STEPS):
            for choices in self._variants(requested, render):
                most = requested.steps or render(choices(None)).max_steps or WANTED_STEPS
                least = requested.steps or min(fewest, most)

                def bounded(steps: int, choices: Callable[[int | None], ConfigChoices] = choices) -> CostBound:
                    return self._bound(render(choices(steps)), models)

                if _cost(bound := bounded(least)) <= self.usd:
                    steps = _most_steps(least, most, lambda n: _cost(bounded(n)) <= self.usd)
                    return choices(steps) if requested.steps or steps < most else choices(None)
                if smallest is None or _cost(bound) < _cost(smallest[1]):
                    smallest = render(choices(least)), bound
        assert smallest is not None
        raise self._too_small(requested, *smallest)

    def _bound(self, config: TrainingConfig, models: PlatformModels | None) -> CostBound:
        price = models.price(config.gpu_type) if models is not None else None
        bound = bound_from_ledger(self.lab, config, price)
        if bound.price_per_hour is None:
            raise LabError(
                f"a budget needs a price, and {bound.why}",
                fix='Log in (preflight says how), name a gpu_type that search_hub(kind="gpu") lists with its price, '
                "or leave budget out.",
                code="price-unknown",
            )
        if bound.max_cost is None:
            raise LabError(
                f"the cost has no upper bound, so no budget can hold: {bound.why}",
                fix=bound.fix,
                code="price-unbounded",
                where=bound.key,
            )
        return bound

    def _variants(self, requested: ConfigChoices, render: Render) -> Iterator[Callable[[int | None], ConfigChoices]]:
        """Yield variants of the choices, each cheaper than the one before, as functions of the number of steps (None:
        as planned)."""
        why = dict(requested.because)
        light: dict[str, Any] = {}
        yield lambda steps: self._with(requested, steps, {}, why)
        if render(requested).eval_sources and requested.eval_tasks is None:
            light["eval_tasks"] = LIGHT_EVAL_TASKS
            yield lambda steps, light=dict(light): self._with(requested, steps, light, why)  # type: ignore[misc]
        if requested.batch is None and requested.group is None:
            config = render(requested)
            group = config.group_size or MIN_BATCH
            batch = round_up(MIN_BATCH, group)
            if config.batch_size and batch < config.batch_size:
                light |= {"batch": batch, "group": group}
                yield lambda steps, light=dict(light): self._with(requested, steps, light, why)  # type: ignore[misc]

    def _with(
        self, requested: ConfigChoices, steps: int | None, changes: Mapping[str, Any], why: Mapping[str, str]
    ) -> ConfigChoices:
        changes = dict(changes)
        if steps is not None and requested.steps is None:
            changes["steps"] = steps
        if steps is not None and "eval_tasks" in changes and requested.eval_interval is None:
            changes["eval_interval"] = steps
        reason = f"the budget of ${self.usd:,.2f} holds no more"
        return replace(requested, because={**why, **dict.fromkeys(changes, reason)}, **changes)

    def _too_small(self, requested: ConfigChoices, config: TrainingConfig, bound: CostBound) -> BudgetError:
        least, steps = math.ceil(_cost(bound)), config.max_steps or 0
        which = "as asked" if requested.steps else "the fewest that are worth a start"
        return BudgetError(
            f"no config fits ${self.usd:.2f}: {count(steps, 'step')} ({which}) of {config.batch_size} rollouts of "
            f"{config.model} on {count(config.gpus, 'GPU')} at ${bound.price_per_hour:.2f} an hour may cost "
            f"${_cost(bound):.2f} ({bound.why})",
            fix=f"Pass budget={least}"
            + (", or leave steps out" if (requested.steps or 0) > FEWEST_STEPS else "")
            + ', or a smaller model or cheaper gpu_type (search_hub(kind="gpu")).',
            least=least,
        )


def _cost(bound: CostBound) -> float:
    return math.inf if bound.max_cost is None else bound.max_cost


def _most_steps(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The largest number that fits, by bisection; `low` fits."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
