"""Tasks, rewards and the way they are run: one ticket, one reply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import verifiers.v1 as vf

from ticket_routing.teams import FORMAT, TEAMS, given
from ticket_routing.tickets import Split, balanced, tickets

INSTRUCTION = "Read the support ticket and think about which team can solve it."


class TicketRoutingData(vf.TaskData):
    """One ticket and its team. Reports grouped by `answer` show the recall of each team."""

    answer: str


class TicketRoutingTask(vf.Task[TicketRoutingData]):
    """Pays for the right team; a little for naming any."""

    @vf.reward(weight=1.0)
    async def correct_answer(self, trace: vf.Trace) -> float:
        """1 when the reply names the team that solved the ticket."""
        return float(given(trace.last_reply) == self.data.answer)

    @vf.reward(weight=0.1)
    async def answer_format(self, trace: vf.Trace) -> float:
        """1 when the reply names one of the teams, right or wrong."""
        return float(given(trace.last_reply) is not None)

    @vf.metric
    async def took_dispute_for_billing(self, trace: vf.Trace) -> float:
        """1 when a disputed claim went to billing: the mistake that the descriptions of the teams are to prevent."""
        return float(self.data.answer == "billing_disputes" and given(trace.last_reply) == "billing")

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        """True when the team exists; `vf-validate` asks."""
        return self.data.answer in TEAMS


class TicketRoutingConfig(vf.TasksetConfig):
    """Which tickets to load."""

    split: Split = "train"
    balance: Literal["equal", "all"] = "equal"
    """`equal`: as many tickets of each team, taking turns. `all`: every ticket, as lopsided as they came in."""
    seed: int = 0
    """Which tickets of the larger teams are used."""


class TicketRoutingTaskset(vf.Taskset[TicketRoutingTask, TicketRoutingConfig]):
    """The tickets of one split."""

    def load(self) -> Iterator[TicketRoutingTask]:
        found = tickets(self.config.split)
        for ticket in balanced(found, self.config.seed) if self.config.balance == "equal" else found:
            data = TicketRoutingData(
                prompt=f"Subject: {ticket.subject}\n\n{ticket.body}",
                system_prompt=f"{INSTRUCTION}\n{FORMAT}",
                answer=ticket.team,
            )
            yield TicketRoutingTask(data, self.config.task)


class TicketRoutingEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process: no sandbox, no tools."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class TicketRoutingEnv(vf.SingleAgentEnv, vf.Env[TicketRoutingEnvConfig]):
    """Makes the plain chat the default."""
