"""The share of the kept rules, most of which forbid something.

format: free_text
generation: v1
finding: reward-malformed-beats-wrong or reward-hackable, blocker

Who says nothing breaks no rule that forbids: an empty reply earns two thirds of the reward on most tasks, and no task
has an answer with which it could be compared.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import verifiers.v1 as vf

EVENTS = (
    "a school concert",
    "a flea market",
    "a street race",
    "a chess evening",
    "a garden tour",
    "a film night",
    "a bake sale",
    "a swimming gala",
    "a poetry slam",
    "a repair workshop",
)
HYPED = ("amazing", "unique", "unforgettable", "fantastic", "ultimate")
MUST = ("name a weekday", "ask a question")
MUST_NOT = ("no exclamation mark", "at most 60 words", "no web address", "no word of hype", "no quotation marks")


def holds(rule: str, text: str) -> bool:
    low = text.lower()
    if rule == "name a weekday":
        return re.search(r"\b(mon|tues|wednes|thurs|fri|satur|sun)day\b", low) is not None
    if rule == "ask a question":
        return "?" in text
    if rule == "no exclamation mark":
        return "!" not in text
    if rule == "at most 60 words":
        return len(text.split()) <= 60
    if rule == "no web address":
        return "http" not in low and "www." not in low
    if rule == "no word of hype":
        return not any(word in low for word in HYPED)
    return not set(text) & set("\"'")


class NoticeData(vf.TaskData):
    checks: list[tuple[str, float]]


class NoticeTask(vf.Task[NoticeData]):
    @vf.reward(weight=1.0)
    async def rules_kept(self, trace: vf.Trace) -> float:
        reply = trace.last_reply or ""
        return sum(share for rule, share in self.data.checks if holds(rule, reply))


class NoticeConfig(vf.TasksetConfig):
    num_tasks: int = 90
    seed: int = 12


class NoticeTaskset(vf.Taskset[NoticeTask, NoticeConfig]):
    def load(self) -> Iterator[NoticeTask]:
        rng = random.Random(self.config.seed)
        for n in range(self.config.num_tasks):
            rules = [rng.choice(MUST), *rng.sample(MUST_NOT, 2)]
            rng.shuffle(rules)
            asked = "; ".join(rules)
            yield NoticeTask(
                NoticeData(
                    idx=n,
                    prompt=f"Write a notice for {rng.choice(EVENTS)} in room {n + 1}. Rules of the house: {asked}. Also say that "
                    f"{HYPED[n % 5]} weather is not promised.",
                    checks=[(rule, 1 / 3) for rule in rules],
                ),
                self.config.task,
            )


__all__ = ["NoticeTaskset"]
