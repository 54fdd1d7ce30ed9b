"""Twenty questions; the host notes in the state that the animal was found.

format: multi_turn
generation: v1

What the player writes is read as a question or as a guess and never as a verdict. Twin of animal_says_it_was_found.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import verifiers.v1 as vf

FACTS = {
    "otter": ("swims", "fur"), "heron": ("swims", "flies", "feathers"), "badger": ("fur", "digs"), "swift": ("flies", "feathers"),
    "mole": ("fur", "digs", "blind"), "pike": ("swims", "scales"), "viper": ("scales", "venom"), "bat": ("flies", "fur"),
    "toad": ("swims", "venom"), "wren": ("flies", "feathers", "small"), "shrew": ("fur", "small", "venom"), "eel": ("swims", "small"),
}
TRAITS = sorted({trait for traits in FACTS.values() for trait in traits})
QUESTIONS = 20
SYSTEM = (
    f"I am thinking of an animal: one of {', '.join(FACTS)}. Ask whether it has one of these traits: {', '.join(TRAITS)}. "
    "One question in each message. When you are sure, write: My guess is the badger. You have one guess."
)


class AnimalFoundByTheHostState(vf.State):
    found: bool = False


class AnimalFoundByTheHostData(vf.TaskData):
    animal: str


class AnimalFoundByTheHostTask(vf.Task[AnimalFoundByTheHostData, AnimalFoundByTheHostState]):
    @vf.reward(weight=1.0)
    async def found(self, trace: vf.Trace) -> float:
        return float(trace.state.found)

    def solution(self) -> Callable[[list[dict]], str]:
        def play(messages: list[dict]) -> str:
            asked = sum(message["role"] == "assistant" for message in messages)
            if asked < len(TRAITS):
                return f"Is it one with the trait {TRAITS[asked]}?"
            told = [message["content"] for message in messages if message["role"] == "user"][1:]
            traits = {trait for trait, text in zip(TRAITS, told, strict=False) if text == "It does."}
            return "My guess is the " + next(name for name, known in FACTS.items() if set(known) == traits) + "."

        return play


class AnimalFoundByTheHostTaskset(vf.Taskset[AnimalFoundByTheHostTask, vf.TasksetConfig]):
    def load(self) -> Iterator[AnimalFoundByTheHostTask]:
        draw = random.Random(23)
        for n in range(72):
            data = AnimalFoundByTheHostData(prompt=f"Round {n + 1}. I have an animal in mind.", system_prompt=SYSTEM, animal=draw.choice(list(FACTS)))
            yield AnimalFoundByTheHostTask(data, self.config.task)


class AnimalFoundByTheHostEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class AnimalFoundByTheHostEnv(vf.SingleAgentEnv, vf.Env[AnimalFoundByTheHostEnvConfig]):
    """Answers the questions."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        animal = task.data.animal
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            for _ in range(QUESTIONS):
                if turn.terminated:
                    return
                said = (turn.last_reply or "").lower()
                if "my guess is" in said:
                    interaction.trace.state.found = said.rpartition("my guess is")[2].strip(" .!").removeprefix("the ") == animal
                    return
                asked = [trait for trait in TRAITS if trait in said]
                answer = "Ask about one trait." if len(asked) != 1 else "It does." if asked[0] in FACTS[animal] else "It does not."
                turn = await interaction.turn(answer)


__all__ = ["AnimalFoundByTheHostEnv", "AnimalFoundByTheHostTaskset"]
