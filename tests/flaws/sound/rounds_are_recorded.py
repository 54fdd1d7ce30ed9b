"""A counting race that its own `Env.run` pays: a small share for each admissible round, and most for winning.

format: multi_turn
generation: v1

The rewards are recorded while the rollout runs, so that scoring the finished rollout again computes none of them. A player
without a thought earns the small share at most.
"""

import re

import verifiers.v1 as vf


class RaceConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig(harness={"id": "null"})


class RaceEnv(vf.Env[RaceConfig]):
    async def run(self, task, agents):
        goal, most = task.data.goal, task.data.most
        total, won, rounds = 0, 0.0, 0
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                found = re.fullmatch(r"\s*ADD (\d+)\s*", segment.last_reply)
                if not found or not 1 <= int(found[1]) <= most:
                    break
                rounds += 1
                total += int(found[1])
                if total >= goal:
                    won = float(total == goal)
                    break
                mine = (goal - total) % (most + 1) or 1
                total += mine
                if total >= goal:
                    break
                segment = await interaction.turn(f"I add {mine}. The sum is {total}.")
        interaction.trace.record_reward("won", won, 0.9)
        interaction.trace.record_reward("rounds", min(1.0, rounds / 3), 0.1)


class RaceData(vf.TaskData):
    goal: int
    most: int


class RaceTask(vf.Task[RaceData]):
    def solution(self, messages):
        """Leave the opponent a multiple of most + 1."""
        said = [int(n) for m in messages for n in re.findall(r"The sum is (\d+)\.", str(m.get("content") or ""))]
        return f"ADD {(self.data.goal - (said[-1] if said else 0)) % (self.data.most + 1)}"


class RaceTaskset(vf.Taskset[RaceTask, vf.TasksetConfig]):
    def load(self) -> list[RaceTask]:
        rules = "We count together from 0. In turn each of us adds 1 to {}; whoever reaches exactly {} wins. You begin. "
        return [
            RaceTask(RaceData(prompt=rules.format(most, goal) + "Reply with ADD <number>.", goal=goal, most=most), self.config.task)
            for most in (3, 4, 5, 6)
            for goal in range(17, 40)
            if goal % (most + 1)
        ]


__all__ = ["RaceEnv", "RaceTaskset"]
