"""Plans a new config: chooses every value with its reason, from the request, evaluations and published recipes."""

from prime_lab_mcp.lab.configs.plan.choices import (
    ChosenValue,
    ConfigChoices,
    SourceChoice,
    require_config_name,
)
from prime_lab_mcp.lab.configs.plan.decide import ConfigPlan, near_models, plan_config
from prime_lab_mcp.lab.distribution.sample import Curriculum

__all__ = [
    "ChosenValue",
    "ConfigChoices",
    "ConfigPlan",
    "Curriculum",
    "SourceChoice",
    "near_models",
    "plan_config",
    "require_config_name",
]
