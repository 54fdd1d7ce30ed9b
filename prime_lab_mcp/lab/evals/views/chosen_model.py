"""Chooses which of two evaluated models to train, by the rule of the prompt `benchmark_models`.

The order is: a verdict that passed; more usable groups, with intervals that do not overlap; then the room up to a
stronger model and the price, which two evaluations do not show. The model that earns more is not the better one to
train for that.
"""

from __future__ import annotations

from dataclasses import dataclass

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.evals.spec import EvalSpec

Candidate = tuple[EvalSpec, Distribution]
"""The specification of an evaluation, and the distribution of its rewards."""


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The model to train and what decides. `model` is None where the evaluations do not decide."""

    environment: str
    model: str | None
    why: str

    def sentence(self) -> str:
        """The choice for the summary of a comparison."""
        if self.model is None:
            return f"Which of them to train is not decided by these evaluations: {self.why}."
        return f"To train: {quote(self.model, 80)[1:-1]}, because {self.why}."

    def call(self) -> Next:
        """The call that goes on from the choice."""
        if self.model is None:
            return Next("search_hub", "prices and sizes of the models", {"kind": "model"})
        name = quote(self.model, 80)[1:-1]
        if "/" in self.environment.removeprefix("environments/"):
            given = {"environments": [self.environment], "model": self.model}
            return Next("write_training_config", f"a config to train {name}", given)
        why = f"the next step towards training {name}, which write_training_config takes as model"
        return Next("workflow_status", why, {"environment": self.environment})


def choose_model(here: Candidate, there: Candidate) -> ChosenModel:
    """Choose between the models of two evaluations of the same tasks."""
    (spec, judged), (other, other_judged) = here, there
    environment = spec.environment
    passed = [one.model for one, its in (here, there) if its.status == "passed"]
    if not passed:
        return ChosenModel(environment, None, "neither verdict passed, so the tasks or the reward are changed first")
    if len(passed) == 1:
        lost = judged if passed[0] == other.model else other_judged
        return ChosenModel(environment, passed[0], f"its verdict passed, and that of the other is {lost.status}")
    usable, other_usable = judged.usable_groups, other_judged.usable_groups
    shares = (usable.low, usable.high, other_usable.low, other_usable.high)
    if None not in shares:
        low, high, other_low, other_high = (share or 0.0 for share in shares)
        size = usable.group_size
        if low > other_high or other_low > high:
            model = spec.model if low > other_high else other.model
            return ChosenModel(environment, model, f"more of its groups of {size} are usable, beyond chance")
    why = (
        "both verdicts passed, and their usable groups do not differ beyond chance; the room up to a stronger model "
        "(compare both with one) and the lower price of training decide"
    )
    return ChosenModel(environment, None, why)
