"""Tasks, rewards and the game itself: the environment marks each guess and asks for the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf

from guess_word.game import FORMAT, MAX_GUESSES, RULES, guess_of, response, worth
from guess_word.openings import openings
from guess_word.words import words_of


class GuessWordData(vf.TaskData):
    """The hidden word. It is part of the trace, and never of what the model reads."""

    answer: str


class GuessWordTask(vf.Task[GuessWordData]):
    """Pays for finding the word, the more the earlier; a little for replies that are guesses.

    Both rewards read the messages of the trace and nothing else, so a stored game can be scored again.
    """

    @vf.reward(weight=1.0)
    async def found_word(self, trace: vf.Trace) -> float:
        """1 for the word in the first guess, 0.1 less for each guess before it, 0 when it is not found."""
        return worth(_replies(trace), self.data.answer)

    @vf.reward(weight=0.1)
    async def guess_format(self, trace: vf.Trace) -> float:
        """Share of the replies that tag one word of five letters."""
        replies = _replies(trace)
        return sum(guess_of(reply) is not None for reply in replies) / len(replies) if replies else 0.0

    @vf.metric
    async def guesses(self, trace: vf.Trace) -> float:
        """How many replies the game took."""
        return float(len(_replies(trace)))

    @vf.metric
    async def repeated_guesses(self, trace: vf.Trace) -> float:
        """How many guesses named a word that was guessed before: a sign that the marks are not read."""
        made = [guess for reply in _replies(trace) if (guess := guess_of(reply)) is not None]
        return float(len(made) - len(set(made)))

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the hidden word can be guessed at all; `vf-validate` asks."""
        return guess_of(f"<guess>{self.data.answer}</guess>") == self.data.answer


def _replies(trace: vf.Trace) -> list[str]:
    return [message.content or "" for message in trace.assistant_messages][:MAX_GUESSES]


class GuessWordConfig(vf.TasksetConfig):
    """Which words are to be found, and what is shown of them."""

    split: Literal["train", "eval"] = "train"
    seed: int = 0
    """Another seed shows other opening guesses for the same words."""


class GuessWordTaskset(vf.Taskset[GuessWordTask, GuessWordConfig]):
    """A game for every word of the split."""

    def load(self) -> Iterator[GuessWordTask]:
        for word, opening in openings(words_of(self.config.split), self.config.seed):
            prompt = f"Two guesses were made for you:\n{opening}\nWhat do you try first?"
            data = GuessWordData(prompt=prompt, system_prompt=f"{RULES}\n{FORMAT}", answer=word)
            yield GuessWordTask(data, self.config.task)


class GuessWordEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class GuessWordEnv(vf.SingleAgentEnv, vf.Env[GuessWordEnvConfig]):
    """Plays the user: marks each guess and asks for the next, until the word is found or no guess is left."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            for left in range(MAX_GUESSES - 1, 0, -1):
                if turn.terminated:
                    return
                said = response(turn.last_reply, task.data.answer, left)
                if said is None:
                    return
                turn = await interaction.turn(said)
