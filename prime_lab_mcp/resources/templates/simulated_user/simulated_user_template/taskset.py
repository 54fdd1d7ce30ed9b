"""Tasks, rewards and the conversation itself: a user who wants something, an assistant who has to find out what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf

from simulated_user_template.booking import FORMAT, booking_of, right, written
from simulated_user_template.generator import wishes
from simulated_user_template.user import MAX_REPLIES, QUESTIONS, Wish, first_message, next_message

INSTRUCTION = "You take bookings for a restaurant. Ask the user for what you do not know, and never guess."


class SimulatedUserTemplateData(vf.TaskData):
    """A user's wish. It is part of the trace, and the model reads only what the user says of it."""

    answer: str
    """The right booking, as JSON text."""
    level: str
    name_of_user: str
    values: dict[str, str | int]
    opening: str
    mistaken: dict[str, str | int]
    terse: bool

    @property
    def wish(self) -> Wish:
        return Wish(self.name_of_user, self.values, self.opening, self.mistaken, self.terse)


class SimulatedUserTemplateTask(vf.Task[SimulatedUserTemplateData]):
    """Pays for the booking that the user wants; a little for any booking in the right form.

    Both rewards read the last reply and nothing else, so a stored conversation can be scored again.
    """

    def solution(self) -> list[str]:
        """How the task is solved: a question for each detail, then the booking. `test_reward` plays this."""
        unknown = [detail for detail in self.data.values if detail != self.data.opening]
        return [*(QUESTIONS[detail] for detail in unknown), f"<booking>{self.data.answer}</booking>"]

    @vf.reward(weight=1.0)
    async def right_booking(self, trace: vf.Trace) -> float:
        """1 when the last reply books exactly what the user wants."""
        return float(right(trace.last_reply or "", self.data.answer))

    @vf.reward(weight=0.1)
    async def booking_format(self, trace: vf.Trace) -> float:
        """1 when the last reply holds one booking with the keys that are asked for, right or wrong."""
        booking = booking_of(trace.last_reply or "")
        return float(booking is not None and booking.keys() == self.data.values.keys())

    @vf.metric
    async def replies(self, trace: vf.Trace) -> float:
        """How many replies the conversation took. As a reward it would teach to guess."""
        return float(len(trace.assistant_messages))

    @vf.metric
    async def booked_too_early(self, trace: vf.Trace) -> float:
        """1 when a booking was made in fewer replies than there are unknown details, and is wrong."""
        early = len(trace.assistant_messages) < len(self.data.values) - 1
        reply = trace.last_reply or ""
        return float(early and booking_of(reply) is not None and not right(reply, self.data.answer))

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the user, asked as in the solution, says everything and waits for the booking."""
        *questions, last = self.solution()
        return right(last, self.data.answer) and None not in (
            next_message(self.data.wish, questions[: n + 1]) for n in range(len(questions))
        )


class SimulatedUserTemplateConfig(vf.TasksetConfig):
    """Which users, how hard and how many."""

    split: Literal["train", "eval"] = "train"
    level: Literal["all", "easy", "medium", "hard"] = "all"
    size: int = 240
    seed: int = 0


class SimulatedUserTemplateTaskset(vf.Taskset[SimulatedUserTemplateTask, SimulatedUserTemplateConfig]):
    """Generated wishes. No user is in both splits."""

    def load(self) -> Iterator[SimulatedUserTemplateTask]:
        for level, wish in wishes(self.config.split, self.config.level, self.config.size, self.config.seed):
            keys = ", ".join(wish.values)
            data = SimulatedUserTemplateData(
                prompt=first_message(wish),
                system_prompt=f"{INSTRUCTION}\n{FORMAT.replace('KEYS', keys)}",
                answer=written(wish.values),
                level=level,
                name_of_user=wish.name,
                values=dict(wish.values),
                opening=wish.opening,
                mistaken=dict(wish.mistaken),
                terse=wish.terse,
            )
            yield SimulatedUserTemplateTask(data, self.config.task)


class SimulatedUserTemplateEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class SimulatedUserTemplateEnv(vf.SingleAgentEnv, vf.Env[SimulatedUserTemplateEnvConfig]):
    """Plays the user: answers each reply, until a booking is made or the replies are used up. One agent, one trace."""

    async def run(self, task: vf.Task, agents: vf.Agents) -> None:
        replies: list[str] = []
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            while not turn.terminated and len(replies) < MAX_REPLIES:
                replies.append(turn.last_reply)
                said = next_message(task.data.wish, replies)
                if said is None:
                    return
                turn = await interaction.turn(said)
