"""Fits a training config to a budget: finds the most steps whose upper bound stays within the budget.

Only choices that the caller left open are changed, in this order: the number of steps; the evaluations during training
(fewer tasks, and only before and after); the batch down to `MIN_BATCH`; then batch and group down to `FEWEST_ROLLOUTS`
and `MIN_GROUP`; at last the tokens of a completion, if no evaluation measured them. The bound is that of
`training/bound.py`, which the question of a submission states. A fitted run therefore never costs more than its budget
in that question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from prime_lab_mcp.lab.base.errors import BudgetError, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.text import count
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import MIN_BATCH, MIN_GROUP, ConfigContext
from prime_lab_mcp.lab.configs.evidence import arguments_by_id, gather_context
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices, round_up
from prime_lab_mcp.lab.configs.rules.step import BUDGET_REASON, COMPLETION_MARGIN
from prime_lab_mcp.lab.evals.results import plain_name
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.registry import find_model
from prime_lab_mcp.lab.prime.answers import PlatformModels
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.training.bound import EVALS_KEY, CostBound, bound_from_ledger, evaluated_tasks
from prime_lab_mcp.lab.training.cost import CostForecast, forecast_from_ledger

WANTED_STEPS, FEWEST_STEPS = 50, 20
"""If the budget allows fewer than `WANTED_STEPS`, the evaluations and the batch are made smaller as well. A run with
fewer than `FEWEST_STEPS` is not worth its start. Our judgement: the recipes of prime-rl have 200 steps, and rewards of
small models begin to rise within 50."""
LIGHT_EVAL_TASKS = 32
"""Number of held-out tasks of an evaluation during training if the budget is tight."""
FEWEST_ROLLOUTS = 32
"""A budget never lowers the rollouts of a step below this number: four groups of `MIN_GROUP` (our judgement). The check
of the config warns of a batch below `MIN_BATCH`, whose gradient has more noise."""
FEWEST_TOKENS = 512
"""A budget never lowers the tokens of a completion below this number: half of what a plan without an evaluation leaves
for a short derivation. `FEWEST_TOKENS_THINKING` is the minimum for a model that thinks first."""
FEWEST_TOKENS_THINKING = 2048

Render = Callable[[ConfigChoices], TrainingConfig]
"""Builds the config for given choices without writing a file."""


@dataclass(frozen=True, slots=True)
class EvaluationsBeside:
    """US dollars of the evaluations beside a run: those before were paid; `after` is the most that follow may cost."""

    before: float
    after: float

    @property
    def in_all(self) -> float:
        return self.before + self.after

    def as_json(self) -> dict[str, float]:
        return {"before": round(self.before, 2), "after": round(self.after, 2)}


def evaluations_beside(lab: Lab, config: TrainingConfig) -> EvaluationsBeside:
    """The evaluations of the environments of a config.

    A finished one counts with what it cost, another with its bound. After the run, the checkpoint and its base model
    are compared, each at most at the bound of the newest evaluation, or at the part of it for the tasks that the run
    holds out, if these are fewer.
    """
    names = {source.env_name.replace("-", "_") for source in config.train_sources}
    jobs = [job for job in EvaluationJobs(lab).list() if plain_name(job.environment).replace("-", "_") in names]
    bounds = {job.id: EvaluationJobs(lab).spec(job).max_cost or 0.0 for job in jobs}
    before = sum(float(job.progress.get("cost") or 0.0) if job.state == "finished" else bounds[job.id] for job in jobs)
    return EvaluationsBeside(before, 2 * bounds[jobs[0].id] * _share_of_tasks(lab, config, jobs[0]) if jobs else 0.0)


def _share_of_tasks(lab: Lab, config: TrainingConfig, job: Job) -> float:
    """The tasks that the eval sources of a config have, as a share of those of an evaluation; 1.0 if nobody counted
    them or there are more."""
    context = gather_context(lab, config.sources, config.model, None)
    trained = arguments_by_id(config.train_sources)
    counted = [evaluated_tasks(context, source, trained) for source in config.eval_sources]
    known = [number for number in counted if number is not None]
    planned = EvaluationJobs(lab).spec(job).planned_tasks
    return min(1.0, sum(known) / planned) if known and len(known) == len(counted) and planned else 1.0


_LIKELY, _DEAREST = 1, 2
"""Cases of a forecast (training/cost.py)."""


@dataclass(frozen=True, slots=True)
class FullerRun:
    """A run of the full batch whose likely cost a budget holds, and whose bound the budget does not hold."""

    steps: int
    batch: int
    group: int
    likely: float
    """US dollars in the expected case."""
    dearest: float
    """US dollars at the upper end of what is likely."""
    at_most: float
    fewer_steps: bool
    """Whether these are fewer steps than the plan without a budget has."""

    def as_json(self) -> dict[str, Any]:
        """The run for a report."""
        return {
            "steps": self.steps,
            "batch": self.batch,
            "group": self.group,
            "likely": round(self.likely, 2),
            "upper_end": round(self.dearest, 2),
            "at_most": round(self.at_most, 2),
        }


_SIZES = ("steps", "batch", "group", "max_tokens")
_EVALUATION_SIZES = {"eval_tasks": EVALS_KEY, "eval_interval": "orchestrator.eval.interval"}


@dataclass(slots=True)
class WalletBudget:
    """The sizes of a run that cannot outlast the wallet. `fit` finds them and changes no choice.

    `balance` is what the wallet holds beside what other runs may cost. It limits a run and is no budget that a user
    named. `sizes` are arguments of `write_training_config`; they are empty where the wallet holds the bound of the
    config anyway, or where no config fits into it.
    """

    lab: Lab
    balance: float
    sizes: Mapping[str, Any] = field(default_factory=dict, init=False)
    steps: int = field(default=0, init=False)
    batch: int = field(default=0, init=False)
    at_most: float = field(default=0.0, init=False)

    def fit(self, requested: ConfigChoices, render: Render, models: PlatformModels | None) -> ConfigChoices:
        """Return the choices as they are, after a look at the config that the whole wallet would buy."""
        budget = ConfigBudget(self.lab, math.floor(self.balance))
        if requested.target != "hosted" or budget.usd < 1:
            return requested
        with suppress(LabError):  # Without a bound or a config that fits, there is nothing to offer.
            if _cost(budget.bound(render(requested), models)) > self.balance:
                fitted = budget.fit(requested, render, models)
                config = render(fitted)
                self.at_most = _cost(budget.bound(config, models))
                self.steps, self.batch = config.max_steps or 0, config.batch_size or 0
                self.sizes = _changed_sizes(requested, replace(fitted, steps=self.steps))
        return requested

    def sentence(self, named: str) -> str:
        """What the call with these sizes would write; empty without one. `named` is the call in words."""
        if not self.sizes:
            return ""
        return (
            f"{named} writes a run whose bound the wallet holds: {count(self.steps, 'step')} of {self.batch} "
            f"rollouts, at most ${self.at_most:.2f}."
        )


def _changed_sizes(requested: ConfigChoices, fitted: ConfigChoices) -> dict[str, Any]:
    """The arguments of `write_training_config` that make the requested choices the fitted ones."""

    def changed(names: Iterable[str]) -> dict[str, Any]:
        return {name: getattr(fitted, name) for name in names if getattr(fitted, name) != getattr(requested, name)}

    extra = {_EVALUATION_SIZES[name]: value for name, value in changed(_EVALUATION_SIZES).items()}
    return changed(_SIZES) | ({"extra": extra} if extra else {})


@dataclass(slots=True)
class ConfigBudget:
    """A budget in US dollars, which `fit` applies to the choices of a config.

    The budget is for all that the run needs: the evaluations before it and the comparison after it are set aside.
    """

    lab: Lab
    usd: float
    fuller: FullerRun | None = field(default=None, init=False)
    """The other run that `fit` found for the same money: more rollouts, by the likely cost instead of the bound."""

    def fit(self, requested: ConfigChoices, render: Render, models: PlatformModels | None) -> ConfigChoices:
        """Return choices whose bound fits. Raises BudgetError if none do, or LabError if no bound is known."""
        if requested.target != "hosted":
            raise LabError(
                "a budget bounds hosted runs; the price of GPUs of one's own is not known here",
                fix=Fix("Leave ", SameCall.without("budget"), " out, or write for ", SameCall(target="hosted"), "."),
                code="price-unknown",
            )
        whole = render(requested)
        room = self._room(whole)
        comfortable, tight = self._variants(requested, whole)
        smallest: tuple[TrainingConfig, CostBound] | None = None
        for changes, fewest in (
            *((changes, WANTED_STEPS) for changes in comfortable),
            *((changes, FEWEST_STEPS) for changes in comfortable),
            *((changes, FEWEST_STEPS) for changes in tight),
        ):
            planned = render(self._with(requested, None, changes, whole))
            most = requested.steps or planned.max_steps or WANTED_STEPS
            least = requested.steps or min(fewest, most)

            def bounded(steps: int, changes: Mapping[str, Any] = changes) -> CostBound:
                return self.bound(render(self._with(requested, steps, changes, whole)), models)

            if _cost(bound := bounded(least)) <= room:
                steps = _most_steps(least, most, lambda n: _cost(bounded(n)) <= room)
                fitted = self._with(requested, steps if requested.steps or steps < most else None, changes, whole)
                self.fuller = self._fuller(requested, render, models, room, whole, render(fitted))
                return fitted
            if smallest is None or _cost(bound) < _cost(smallest[1]):
                smallest = render(self._with(requested, least, changes, whole)), bound
        assert smallest is not None
        raise self._too_small(requested, *smallest, self.usd - room, self._ways_out(requested, render, models, whole))

    def _room(self, config: TrainingConfig) -> float:
        """What the budget leaves for the run beside its evaluations; all of it where these take as much or more."""
        aside = evaluations_beside(self.lab, config).in_all
        return self.usd - aside if aside < self.usd else self.usd

    def _fuller(
        self,
        requested: ConfigChoices,
        render: Render,
        models: PlatformModels | None,
        room: float,
        whole: TrainingConfig,
        fitted: TrainingConfig,
    ) -> FullerRun | None:
        """The run of the batch without a budget whose likely cost is within `room`; None if it is no larger.

        The upper end of what is likely decides, or the expected case where that end holds no run. `whole` is the config
        without a budget, and `fitted` the one whose bound fits. A run of fewer steps than that one, or of no higher
        likely cost, is no larger: nobody has to agree to a bound above the budget for it.
        """
        most = whole.max_steps
        if most is None or not whole.batch_size or models is None:
            return None
        price = models.price(whole.gpu_type)

        def forecast(steps: int) -> tuple[TrainingConfig, CostForecast | None]:
            config = whole if steps == most else render(replace(requested, steps=steps))
            return config, forecast_from_ledger(self.lab, config, price)

        def costs(steps: int, case: int) -> float:
            return _dollars(forecast(steps)[1], case)

        least = requested.steps or min(FEWEST_STEPS, most)
        case = next((case for case in (_DEAREST, _LIKELY) if costs(least, case) <= room), None)
        if case is None:
            return None
        steps = _most_steps(least, most, lambda n: costs(n, case) <= room)
        config, likely = forecast(steps)
        bound = self.bound(config, models)
        larger = steps * whole.batch_size > (fitted.max_steps or 0) * (fitted.batch_size or 0)
        cheap = _dollars(likely, _LIKELY) <= _dollars(forecast_from_ledger(self.lab, fitted, price), _LIKELY)
        if not larger or cheap or steps < (fitted.max_steps or 0) or _cost(bound) <= room:
            return None
        if likely is None or likely.dollars is None:
            return None
        return FullerRun(
            steps,
            whole.batch_size,
            whole.group_size,
            likely.dollars[_LIKELY],
            likely.dollars[_DEAREST],
            _cost(bound),
            steps < most,
        )

    def bound(self, config: TrainingConfig, models: PlatformModels | None) -> CostBound:
        """Return the bound of a config. Raises LabError where the platform names no price or the cost has no bound."""
        price = models.price(config.gpu_type) if models is not None else None
        bound = bound_from_ledger(self.lab, config, price)
        if bound.price_per_hour is None:
            raise LabError(
                f"a budget needs a price, and {bound.why}",
                fix=Fix(
                    "Log in (",
                    NamedCall("preflight"),
                    " says how), name a gpu_type that ",
                    NamedCall("search_hub", kind="gpu"),
                    " lists with its price, or leave ",
                    SameCall.without("budget"),
                    " out.",
                ),
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

    def _variants(
        self, requested: ConfigChoices, config: TrainingConfig
    ) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
        """Return two lists of changes to choices that the caller left open. Each change makes the run smaller than the
        one before. `config` is the config without a budget.

        The steps are not among these choices. The first list keeps the batch that prime-rl's docs advise; the second
        goes down to the documented minimums.
        """
        comfortable: list[Mapping[str, Any]] = [{}]
        changes: dict[str, Any] = {}
        if config.eval_sources and requested.eval_tasks is None:
            changes["eval_tasks"] = min(LIGHT_EVAL_TASKS, self._most_evaluated(config) or LIGHT_EVAL_TASKS)
            comfortable.append(dict(changes))
        group = requested.group or config.group_size or MIN_BATCH
        present = config.batch_size if requested.batch is None else None
        if present and round_up(MIN_BATCH, group) < present:
            changes |= {"batch": round_up(MIN_BATCH, group), "group": group}
            comfortable.append(dict(changes))
        tight: list[Mapping[str, Any]] = []
        context = self._context(config)
        smaller = min(group, MIN_GROUP) if requested.group is None and context.usable is None else group
        if present and round_up(FEWEST_ROLLOUTS, smaller) < present:
            changes |= {"batch": round_up(FEWEST_ROLLOUTS, smaller), "group": smaller}
            tight.append(dict(changes))
        tokens = FEWEST_TOKENS_THINKING if find_model(config.model).thinks else FEWEST_TOKENS
        unmeasured = context.completion_tokens is None or context.stand_in
        if requested.max_tokens is None and unmeasured and tokens < (config.max_completion_tokens or 0):
            tight.append(changes | {"max_tokens": tokens})
        return comfortable, tight

    def _most_evaluated(self, config: TrainingConfig) -> int | None:
        """The tasks of the largest evaluation of a config, of those that exist; None if unknown."""
        context, trained = self._context(config), arguments_by_id(config.train_sources)
        there = [evaluated_tasks(context, source, trained) for source in config.eval_sources]
        exist = max((tasks for tasks in there if tasks is not None), default=None) if None not in there else None
        asked = config.number(EVALS_KEY)
        return min((tasks for tasks in (exist, asked) if tasks is not None and tasks > 0), default=None)

    def _context(self, config: TrainingConfig) -> ConfigContext:
        """Gather the measurements of past evaluations, which limit the changes.

        A group size below the judged one has no verdict, and a limit of tokens must not fall below a measured length.
        """
        return gather_context(self.lab, config.train_sources, config.model, None)

    def _with(
        self, requested: ConfigChoices, steps: int | None, changes: Mapping[str, Any], planned: TrainingConfig
    ) -> ConfigChoices:
        """The choices with these changes. `steps`: None leaves the steps to the plan. `planned` is the config without a
        budget."""
        changes = dict(changes)
        if steps is not None and requested.steps is None:
            changes["steps"] = steps
        if steps is not None and "eval_tasks" in changes and requested.eval_interval is None:
            changes["eval_interval"] = steps
        reason = f"{BUDGET_REASON}{self.usd:,.2f} holds no more"
        because = {**requested.because, **dict.fromkeys(changes, reason)}
        if changes.get("group") == planned.group_size:
            because["group"] = "rollouts of one task, as without a budget"
        if (changes.get("eval_tasks") or LIGHT_EVAL_TASKS) < LIGHT_EVAL_TASKS:
            because["eval_tasks"] = "the held-out tasks of one evaluation, as without a budget"
        return replace(requested, because=because, **changes)

    def _ways_out(
        self, requested: ConfigChoices, render: Render, models: PlatformModels | None, whole: TrainingConfig
    ) -> list[dict[str, Any]]:
        """Return changes of the call with which the budget holds a config. Each is tried; none if none helps.

        In this order: choices of the caller that are left to the plan, the most tokens of a completion, a cheaper GPU
        type of the model's clusters, and other models that can be trained.
        """
        limit, needed = whole.max_completion_tokens or 0, self._context(whole).completion_tokens or 0
        types = models.trainable.get(whole.model, ()) if models is not None else ()
        price = models.price(whole.gpu_type) if models is not None else None
        cheaper = [
            kind
            for kind in types
            if kind != whole.gpu_type and models is not None and (models.price(kind) or math.inf) < (price or 0.0)
        ]
        others = [model for model in (models.trainable if models is not None else ()) if model != whole.model]
        named = _named_choices(requested)
        ways: tuple[list[dict[str, Any]], ...] = (
            [dict.fromkeys(named)] if named else [],
            [{"max_tokens": tokens} for tokens in _TOKENS_TRIED if COMPLETION_MARGIN * needed <= tokens < limit],
            [{"gpu_type": kind} for kind in cheaper],
            [{"model": model, **({"gpu_type": None} if requested.gpu_type else {})} for model in others],
        )
        held = (next((w for w in kind if self._holds(requested, w, render, models)), None) for kind in ways)
        return [way for way in held if way is not None]

    def _holds(
        self, requested: ConfigChoices, changed: Mapping[str, Any], render: Render, models: PlatformModels | None
    ) -> bool:
        """Whether the budget holds the smallest run of the choices with these changes."""
        asked = replace(requested, **changed)
        try:
            whole = render(asked)
            room = self._room(whole)
            comfortable, tight = self._variants(asked, whole)
            for changes in (*tight[::-1], *comfortable[::-1]):
                planned = render(self._with(asked, None, changes, whole))
                least = asked.steps or min(FEWEST_STEPS, planned.max_steps or FEWEST_STEPS)
                bound = self.bound(render(self._with(asked, least, changes, whole)), models)
                if _cost(bound) <= room:
                    return True
        except LabError:  # such a config cannot be written at all
            return False
        return False

    def _too_small(
        self,
        requested: ConfigChoices,
        config: TrainingConfig,
        bound: CostBound,
        aside: float,
        ways: Sequence[Mapping[str, Any]],
    ) -> BudgetError:
        """Return the error. Each way out in its fix works; the first one is the call to make next."""
        least, steps = math.ceil(_cost(bound) + aside), config.max_steps or 0
        beside = f" beside ${aside:.2f} of evaluations" if aside else ""
        which = "as asked" if requested.steps else "the fewest that are worth a start"
        size = f"{config.batch_size} rollouts in groups of {config.group_size}"
        if config.max_completion_tokens:
            size += f", up to {config.max_completion_tokens} tokens each,"
        within = Fix("Pass ")
        if ways:
            parts = [part for way in ways for part in (_call_of(way), f"{_effect(way)}, or ")]
            within = Fix("The budget holds a run with ", *parts, "pass ")
        return BudgetError(
            f"no config fits ${self.usd:.2f}{beside}: {count(steps, 'step')} ({which}) of {size} of {config.model} on "
            f"{count(config.gpus, 'GPU')} at ${bound.price_per_hour:.2f} an hour may cost ${_cost(bound):.2f} "
            f"({bound.why})",
            fix=Fix(
                within,
                SameCall(budget=least),
                "." if ways else ": no other model or GPU type that is offered makes it cheap enough.",
            ),
            least=least,
            ways=tuple(dict(way) for way in ways),
        )


_TOKENS_TRIED = (2048, 1024, 512)


def _named_choices(requested: ConfigChoices) -> list[str]:
    """Return the choices that the caller made larger than a budget would."""
    asked = (
        ("steps", requested.steps, FEWEST_STEPS),
        ("batch", requested.batch, FEWEST_ROLLOUTS),
        ("max_tokens", requested.max_tokens, FEWEST_TOKENS),
    )
    return [name for name, value, minimum in asked if (value or 0) > minimum]


def _call_of(way: Mapping[str, Any]) -> SameCall:
    """Return the call with a way out. A change to None leaves the argument out."""
    given = {name: value for name, value in way.items() if value is not None}
    if not given:
        text = SameCall.without(*way)
        return text.shown(f"{text.text} left out")
    call = SameCall(**given)
    call.left_out = tuple(way.keys() - given.keys())
    return call


def _effect(way: Mapping[str, Any]) -> str:
    """Return what a way out means for the run, in brackets; empty where the change says it."""
    return " (longer replies are cut off)" if way.get("max_tokens") else ""


def _dollars(forecast: CostForecast | None, case: int) -> float:
    return forecast.dollars[case] if forecast is not None and forecast.dollars is not None else math.inf


def _cost(bound: CostBound) -> float:
    return math.inf if bound.max_cost is None else bound.max_cost


def _most_steps(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The largest number that fits, by bisection; `low` fits."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
