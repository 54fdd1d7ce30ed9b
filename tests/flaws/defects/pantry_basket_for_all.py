"""One tool server for all rollouts, and the basket is an attribute of the server.

format: tool_call
generation: v1
finding: reward-rollout-differs, blocker

What earlier rollouts have put into the basket is still there, so that the right calls of a later one end with too much and earn nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf

SYSTEM = "You pack the basket for a recipe with the tools of the pantry. Put in exactly what the recipe needs, call check_out once, and then say: Done."
PANTRY = {"flour": "g", "sugar": "g", "butter": "g", "milk": "ml", "rice": "g", "lentils": "g", "oats": "g", "cocoa": "g"}


def recipes() -> Iterator[tuple[str, dict[str, int]]]:
    draw = random.Random("pantry")
    for n in range(80):
        wanted = {name: 25 * draw.randrange(2, 20) for name in draw.sample(sorted(PANTRY), 3)}
        listed = ", ".join(f"{amount} {PANTRY[name]} of {name}" for name, amount in wanted.items())
        yield f"Recipe {n + 1} needs {listed}.", wanted


class PantryBasketForAllData(vf.TaskData):
    wanted: dict[str, int]


class PantryBasketForAllToolset(vf.Toolset[vf.SharedToolsetConfig]):
    TOOL_PREFIX = None

    async def setup(self) -> None:
        self.basket: dict[str, int] = {}

    @vf.tool
    def put_in(self, ingredient: str, amount: int) -> str:
        """Put an amount (g or ml) of an ingredient such as "rice" into the basket."""
        if ingredient not in PANTRY or not 0 < amount <= 1000:
            return "error: not in the pantry"
        self.basket[ingredient] = self.basket.get(ingredient, 0) + amount
        return "ok"

    @vf.tool
    def check_out(self) -> str:
        """Close the basket and list what is in it."""
        return "\n".join(f"{name}: {amount}" for name, amount in sorted(self.basket.items())) or "empty"


class PantryBasketForAllTask(vf.Task[PantryBasketForAllData]):
    def solution(self) -> list[Any]:
        calls = [("put_in", {"ingredient": name, "amount": amount}) for name, amount in self.data.wanted.items()]
        turns = [{"role": "assistant", "tool_calls": [{"name": name, "arguments": given}]} for name, given in [*calls, ("check_out", {})]]
        return [*turns, "Done."]

    @vf.reward(weight=1.0)
    async def packed(self, trace: vf.Trace) -> float:
        lists = [str(message.content) for message in trace.tool_messages if ":" in str(message.content) and "error" not in str(message.content)]
        wanted = "\n".join(f"{name}: {amount}" for name, amount in sorted(self.data.wanted.items()))
        return float(bool(lists) and all(line in lists[-1].split("\n") for line in wanted.split("\n")))


class PantryBasketForAllConfig(vf.TasksetConfig):
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class PantryBasketForAllTaskset(vf.Taskset[PantryBasketForAllTask, PantryBasketForAllConfig]):
    @classmethod
    def toolsets(cls, config: PantryBasketForAllConfig) -> list[vf.Toolset]:
        return [PantryBasketForAllToolset(config.tools)]

    def load(self) -> Iterator[PantryBasketForAllTask]:
        for text, wanted in recipes():
            yield PantryBasketForAllTask(PantryBasketForAllData(prompt=text, system_prompt=SYSTEM, wanted=wanted), self.config.task)


class PantryBasketForAllEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig(), max_turns=8
    )


class PantryBasketForAllEnv(vf.SingleAgentEnv, vf.Env[PantryBasketForAllEnvConfig]):
    """Makes the plain chat the default."""


__all__ = ["PantryBasketForAllEnv", "PantryBasketForAllTaskset"]


if __name__ == "__main__":
    PantryBasketForAllToolset.run()
