"""Tests the reward of an environment.

Probes are completions of known quality, such as a right or a wrong answer. `trial` scores probes with the environment's
reward, and rules judge the rewards that the probes earn.
"""

ENTRY = (
    "calibration",
    "cases",
    "comparison",
    "comparison_findings",
    "findings",
    "judge_relay",
    "judged_scoring",
    "observations",
    "probes.answer_formats",
    "probes.asked_forms",
    "probes.catalogue",
    "probes.row_fields",
    "reward_source",
    "rules.amounts",
    "rules.judges",
    "rules.known_answers",
    "rules.rollouts",
    "rules.scoring",
    "rules.solutions",
    "scripts",
    "search.attacker",
    "search.reward_search",
    "smells.hints",
    "solutions",
    "surroundings",
    "surroundings_report",
    "thresholds",
    "trial",
)
"""Modules that other packages may import."""
