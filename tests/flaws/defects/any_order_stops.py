"""A hook that ends the rollout at any of several orders, whichever the task asks for.

format: multi_turn
generation: v1
finding: reward-wrong-passes, blocker

The reward asks how the rollout ended. One order, given on every task, ends each of them and earns the maximum.
"""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf

ORDERS = ("HALT_PUMP", "CLOSE_VALVE", "CUT_POWER", "SOUND_ALARM")
PLACES = "north east south west upper lower inner outer old new".split()


class AnyOrderStopsTask(vf.Task[vf.TaskData]):
    @vf.stop
    def ordered(self, response: vf.Response) -> bool:
        return any(order in (response.message.content or "") for order in ORDERS)

    @vf.reward(weight=1.0)
    async def obeyed(self, trace: vf.Trace) -> float:
        return float(trace.stop_condition == "ordered")


class AnyOrderStopsConfig(vf.TasksetConfig):
    """Nothing to set."""


class AnyOrderStopsTaskset(vf.Taskset[AnyOrderStopsTask, AnyOrderStopsConfig]):
    def load(self) -> Iterator[AnyOrderStopsTask]:
        for n in range(80):
            prompt = f"You watch hall {n} of the {PLACES[n % 10]} plant. Reply with exactly {ORDERS[n % 4]}."
            yield AnyOrderStopsTask(vf.TaskData(idx=n, prompt=prompt), self.config.task)


__all__ = ["AnyOrderStopsTaskset"]
