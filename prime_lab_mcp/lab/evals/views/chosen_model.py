"""Chooses which of two evaluated models to train, by the rule of the prompt `benchmark_models`.

The order is: a verdict that passed; then the larger share of usable groups, also where the difference may be chance,
because somebody has to choose and nothing better is known. The sentence says which of the two it was. A config that
names no model takes its model by the same rule (`evaluated_model` in lab/configs/evidence.py). The model that earns
more is not the better one to train for that.
"""

from __future__ import annotations

from dataclasses import dataclass

from prime_lab_mcp.lab.base.report import Next, Verdict
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.evals.spec import EvalSpec


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that could be trained, with its evaluation. `verdict` is the one that the gates use, and `why_not` names
    the blockers of a verdict that did not pass."""

    spec: EvalSpec
    distribution: Distribution
    verdict: Verdict
    why_not: tuple[str, ...] = ()

    @property
    def standing(self) -> str:
        """The verdict with its blockers, such as `failed (distribution-at-floor)`."""
        return f"{self.verdict} ({', '.join(self.why_not[:3])})" if self.why_not else self.verdict


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The model to train and what decides. `model` is None where the evaluations do not decide."""

    environment: str
    model: str | None
    why: str

    def sentence(self) -> str:
        """The choice for the summary of a comparison."""
        if self.model is None:
            return f"Neither of them is one to train yet: {self.why}."
        return f"To train: {quote(self.model, 80)[1:-1]}, because {self.why}."

    def call(self) -> Next:
        """The call that goes on from the choice."""
        if self.model is None:
            return Next("workflow_status", "what is due for the environment", {"environment": self.environment})
        name = quote(self.model, 80)[1:-1]
        if "/" in self.environment.removeprefix("environments/"):
            given = {"environments": [self.environment], "model": self.model}
            return Next("write_training_config", f"a config to train {name}", given)
        why = f"the next step towards training {name}, which write_training_config takes as model"
        return Next("workflow_status", why, {"environment": self.environment})


def choose_model(here: Candidate, there: Candidate) -> ChosenModel:
    """Choose between the models of two evaluations of the same tasks."""
    spec, other = here.spec, there.spec
    environment = spec.environment
    passed = [one for one in (here, there) if one.verdict == "passed"]
    if not passed:
        open_one = next((one for one in (here, there) if one.verdict == "inconclusive"), None)
        changed = "neither verdict passed, so the tasks or the reward are changed first"
        if open_one is None:
            return ChosenModel(environment, None, changed)
        name = quote(open_one.spec.model, 80)[1:-1]
        why = f"no verdict passed, and that of {name} is {open_one.standing}, which more tasks or rollouts may decide"
        return ChosenModel(environment, None, why)
    if len(passed) == 1:
        lost = here if passed[0] is there else there
        why = f"its verdict passed, and that of the other is {lost.standing}"
        return ChosenModel(environment, passed[0].spec.model, why)
    usable, other_usable = here.distribution.usable_groups, there.distribution.usable_groups
    share, other_share = usable.share or 0.0, other_usable.share or 0.0
    if share == other_share:
        equal = quote(other.model, 80)[1:-1]
        why = f"both verdicts passed, with {share:.0%} usable groups each; {equal} is as good where it is cheaper"
        return ChosenModel(environment, spec.model, why)
    first = share > other_share
    more, less = (usable, other_usable) if first else (other_usable, usable)
    chance = "beyond chance" if (more.low or 0.0) > (less.high or 0.0) else "which may be chance"
    why = (
        f"both verdicts passed, and more of its groups of {usable.group_size} are usable "
        f"({more.share or 0:.0%} against {less.share or 0:.0%}, {chance})"
    )
    if chance != "beyond chance":
        why += "; nothing shows that the other would train worse"
    return ChosenModel(environment, spec.model if first else other.model, why)
