"""The environment: a group of two, each with its own system prompt, tasks and rubric. Golds decide which."""

from __future__ import annotations

import verifiers as vf
from datasets import Dataset

from v0_group_template.answers import FORMAT, MEMBERS, Member, ask, gold_of, member_of
from v0_group_template.rewards import V0GroupTemplateParser, rubric
from v0_group_template.rows import rows

INSTRUCTION = "Solve the problem step by step."
HINTS: dict[Member, str] = {
    "whole": "The answer is a whole number.",
    "measured": "The answer is a decimal number; give at least four digits.",
}


def load_environment() -> vf.Environment:
    """The group. A member without training tasks is left out."""
    train, held_out = _tasks("train"), _tasks("eval")
    members = [member for member in MEMBERS if train[member]]
    return vf.EnvGroup(
        envs=[_member(member, train[member], held_out[member]) for member in members], env_names=list(members)
    )


def _member(member: Member, train: list[dict[str, str]], held_out: list[dict[str, str]]) -> vf.Environment:
    parser = V0GroupTemplateParser()
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(train),
        eval_dataset=Dataset.from_list(held_out) if held_out else None,
        system_prompt=f"{INSTRUCTION} {HINTS[member]}\n{FORMAT}",
        parser=parser,
        rubric=rubric(member, parser),
    )


def _tasks(split: str) -> dict[Member, list[dict[str, str]]]:
    found: dict[Member, list[dict[str, str]]] = {member: [] for member in MEMBERS}
    for row in rows(split):
        gold = gold_of(row)
        if gold is not None:
            found[member_of(gold)].append({"question": ask(row), "answer": gold})
    return found
