"""All that can be told of a config offline: every rule, and the one call that applies them.

A rule is a pure function of the parsed file and of what was observed; it yields findings whose codes start with
`config-` (and `migration` for a shape that the platform retired).
"""

from __future__ import annotations

from prime_lab_mcp.lab.configs import (
    rules_batch,
    rules_course,
    rules_environment,
    rules_form,
    rules_hosted,
    rules_model,
    rules_signal,
    rules_sources,
    rules_speed,
    rules_tokens,
    rules_trainer,
)
from prime_lab_mcp.lab.configs.observed import Observed, Rule
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.report import Finding

_TOPICS = (
    rules_form,
    rules_sources,
    rules_environment,
    rules_hosted,
    rules_model,
    rules_trainer,
    rules_tokens,
    rules_batch,
    rules_course,
    rules_signal,
    rules_speed,
)
RULES: tuple[Rule, ...] = tuple(rule for topic in _TOPICS for rule in topic.RULES)

_SEVERITY = {"blocker": 0, "warning": 1, "info": 2}


def judge(config: Config, seen: Observed | None = None) -> tuple[Finding, ...]:
    """Findings of every rule that applies to this shape of file, blockers first."""
    seen = seen or Observed()
    if config.shape == "shared-lora":
        rules: tuple[Rule, ...] = (rules_form.lenient_toml, rules_form.retired_shape, rules_form.secrets)
    elif config.shape == "sft":
        rules = (*rules_form.SFT_RULES, *rules_hosted.SFT_RULES, *rules_trainer.RULES, rules_course.steps)
    else:
        rules = RULES
    findings = [finding for rule in rules for finding in rule(config, seen)]
    return tuple(sorted(findings, key=lambda f: _SEVERITY[f.severity]))
