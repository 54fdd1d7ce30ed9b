"""Tasks, rewards and the game: the environment marks each guess, lets the opponent guess, and asks for the next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf

from game_template.duel import FORMAT, MAX_ROUNDS, RULES, Duel, Game, good_guesses, guess_of, played
from game_template.generator import games

INSTRUCTION = "You play a guessing game against an opponent, and you want to win."


class GameTemplateData(vf.TaskData):
    """A game. The secret code and the opponent's seed are part of the trace, and never of what the model reads."""

    answer: str
    level: str
    opponent: int

    @property
    def game(self) -> Game:
        return Game(self.answer, self.level, self.opponent)


class GameTemplateTask(vf.Task[GameTemplateData]):
    """Pays for winning; a little for replies that are guesses.

    Both rewards play the replies of the trace again and read nothing else, so a stored game can be scored again.
    """

    def solution(self) -> list[str]:
        """How the game is won: guesses that fit all marks. `test_reward` plays them against the real opponent."""
        return [f"<guess>{guess}</guess>" for guess in good_guesses(self.data.game)]

    @vf.reward(weight=1.0)
    async def won(self, trace: vf.Trace) -> float:
        """1 when the model guessed the code before the opponent did."""
        return float(played(self.data.game, _replies(trace)).winner == "player")

    @vf.reward(weight=0.1)
    async def guess_format(self, trace: vf.Trace) -> float:
        """Share of the replies that tag one possible code."""
        replies = _replies(trace)
        return sum(guess_of(reply) is not None for reply in replies) / len(replies) if replies else 0.0

    @vf.metric
    async def rounds(self, trace: vf.Trace) -> float:
        """How many replies the game took."""
        return float(len(_replies(trace)))

    @vf.metric
    async def lost_to_opponent(self, trace: vf.Trace) -> float:
        """1 when the opponent guessed the code first; neither this nor `won` is 1 where the guesses ran out."""
        return float(played(self.data.game, _replies(trace)).winner == "opponent")

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the game can be won without luck; `vf-validate` asks."""
        return bool(good_guesses(self.data.game))


def _replies(trace: vf.Trace) -> list[str]:
    return [message.content or "" for message in trace.assistant_messages][:MAX_ROUNDS]


class GameTemplateConfig(vf.TasksetConfig):
    """Which games, against how strong an opponent, and how many."""

    split: Literal["train", "eval"] = "train"
    level: Literal["all", "easy", "medium", "hard"] = "all"
    size: int = 240
    seed: int = 0


class GameTemplateTaskset(vf.Taskset[GameTemplateTask, GameTemplateConfig]):
    """Generated games. No code is in both splits."""

    def load(self) -> Iterator[GameTemplateTask]:
        for game in games(self.config.split, self.config.level, self.config.size, self.config.seed):
            data = GameTemplateData(
                prompt=f"{Duel(game).opening()} What do you guess?",
                system_prompt=f"{INSTRUCTION}\n{RULES}\n{FORMAT}",
                answer=game.code,
                level=game.level,
                opponent=game.seed,
            )
            yield GameTemplateTask(data, self.config.task)


class GameTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class GameTemplateEnv(vf.SingleAgentEnv, vf.Env[GameTemplateEnvConfig]):
    """Plays the opponent and keeps the secret. What happens in a game stands in `Duel`, one for each rollout."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        duel = Duel(task.data.game)
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            while not turn.terminated:
                said = duel.play(turn.last_reply)
                if said is None:
                    return
                turn = await interaction.turn(said)
