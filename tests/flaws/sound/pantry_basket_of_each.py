"""One tool server for all rollouts, and the basket is in the state of the rollout.

format: tool_call
generation: v1

Each rollout begins with an empty basket. Twin of pantry_basket_for_all.
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


class PantryBasketOfEachData(vf.TaskData):
    wanted: dict[str, int]


class PantryBasketOfEachState(vf.State):
    basket: dict[str, int] = {}


class PantryBasketOfEachToolset(vf.Toolset[vf.SharedToolsetConfig, PantryBasketOfEachState]):
    TOOL_PREFIX = None

    @vf.tool
    def put_in(self, ingredient: str, amount: int) -> str:
        """Put an amount (g or ml) of an ingredient such as "rice" into the basket."""
        if ingredient not in PANTRY or not 0 < amount <= 1000:
            return "error: not in the pantry"
        self.state.basket[ingredient] = self.state.basket.get(ingredient, 0) + amount
        return "ok"

    @vf.tool
    def check_out(self) -> str:
        """Close the basket and list what is in it."""
        return "\n".join(f"{name}: {amount}" for name, amount in sorted(self.state.basket.items())) or "empty"


class PantryBasketOfEachTask(vf.Task[PantryBasketOfEachData, PantryBasketOfEachState]):
    def solution(self) -> list[Any]:
        calls = [("put_in", {"ingredient": name, "amount": amount}) for name, amount in self.data.wanted.items()]
        turns = [{"role": "assistant", "tool_calls": [{"name": name, "arguments": given}]} for name, given in [*calls, ("check_out", {})]]
        return [*turns, "Done."]

    @vf.reward(weight=1.0)
    async def packed(self, trace: vf.Trace) -> float:
        return float(trace.state.basket == self.data.wanted)


class PantryBasketOfEachConfig(vf.TasksetConfig):
    tools: vf.SharedToolsetConfig = vf.SharedToolsetConfig()


class PantryBasketOfEachTaskset(vf.Taskset[PantryBasketOfEachTask, PantryBasketOfEachConfig]):
    @classmethod
    def toolsets(cls, config: PantryBasketOfEachConfig) -> list[vf.Toolset]:
        return [PantryBasketOfEachToolset(config.tools)]

    def load(self) -> Iterator[PantryBasketOfEachTask]:
        for text, wanted in recipes():
            yield PantryBasketOfEachTask(PantryBasketOfEachData(prompt=text, system_prompt=SYSTEM, wanted=wanted), self.config.task)


class PantryBasketOfEachEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig(), max_turns=8
    )


class PantryBasketOfEachEnv(vf.SingleAgentEnv, vf.Env[PantryBasketOfEachEnvConfig]):
    """Makes the plain chat the default."""


__all__ = ["PantryBasketOfEachEnv", "PantryBasketOfEachTaskset"]


if __name__ == "__main__":
    PantryBasketOfEachToolset.run()
