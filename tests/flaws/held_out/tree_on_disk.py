"""Each rollout has its own server of the tools, but all of a task work in one folder on disk.

format: tool_call
generation: v1
finding: reward-rollout-differs or reward-nondeterministic or reward-order-dependent or reward-wrong-passes, blocker

After the first solved rollout the files are sorted: listing them is enough for the rest of the group.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import verifiers.v1 as vf

SYSTEM = "Sort the files with the tool mv, as the user says, and leave everything else where it is. Then say that you are done."
SHELVES = ("letters", "bills", "photos")


def trees() -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """(request, files, where each belongs)"""
    for n in range(60):
        draw = random.Random(f"shelf {n}")
        names = [f"{draw.choice(('may', 'june', 'july'))}-{k}.{draw.choice(('txt', 'pdf', 'png'))}" for k in range(4)]
        ending, shelf = ("txt", "pdf", "png")[n % 3], SHELVES[n // 3 % 3]
        names.append(f"august-9.{ending}")
        yield f"Tree {n}: move every .{ending} file into {shelf}.", names, {
            name: f"{shelf}/{name}" if name.endswith(ending) else name for name in names
        }


class TreeOnDiskState(vf.State):
    files: list[str] = []


class TreeOnDiskData(vf.TaskData):
    number: int
    names: list[str]
    wanted: dict[str, str]


class TreeOnDiskToolset(vf.Toolset[vf.ToolsetConfig, TreeOnDiskState]):
    TOOL_PREFIX = None

    async def setup_task(self, task: TreeOnDiskData) -> None:
        self.root = Path.home() / f"tree_on_disk-{task.number}"
        for shelf in SHELVES:
            (self.root / shelf).mkdir(parents=True, exist_ok=True)
        if not any(self.root.rglob("*.*")):
            for name in task.names:
                (self.root / name).write_text("text", encoding="utf-8")

    def _note(self) -> str:
        self.state.files = sorted(str(path.relative_to(self.root)) for path in self.root.rglob("*.*") if path.is_file())
        return "\n".join(self.state.files)

    @vf.tool
    def ls(self) -> str:
        """All files, one a line."""
        return self._note()

    @vf.tool
    def mv(self, name: str, shelf: str) -> str:
        """Move one file into letters, bills or photos."""
        path = self.root / Path(name).name
        if shelf not in SHELVES or not path.is_file():
            return "error: there is no such file, or no such shelf"
        path.rename(self.root / shelf / path.name)
        return self._note()


class TreeOnDiskTaskConfig(vf.TaskConfig):
    tools: vf.ToolsetConfig = vf.ToolsetConfig()


class TreeOnDiskTask(vf.Task[TreeOnDiskData, TreeOnDiskState, TreeOnDiskTaskConfig]):
    @classmethod
    def toolsets(cls, config: TreeOnDiskTaskConfig) -> list[vf.Toolset]:
        return [TreeOnDiskToolset(config.tools)]

    def solution(self) -> list[dict[str, Any]]:
        moved = [(name, path.partition("/")[0]) for name, path in self.data.wanted.items() if "/" in path]
        calls = [{"name": "mv", "arguments": {"name": name, "shelf": shelf}} for name, shelf in moved]
        return [*({"role": "assistant", "tool_calls": [call]} for call in calls), {"role": "assistant", "content": "Done."}]

    @vf.reward(weight=1.0)
    async def sorted_right(self, trace: vf.Trace) -> float:
        return float(trace.state.files == sorted(self.data.wanted.values()))


class TreeOnDiskConfig(vf.TasksetConfig):
    task: TreeOnDiskTaskConfig = TreeOnDiskTaskConfig()


class TreeOnDiskTaskset(vf.Taskset[TreeOnDiskTask, TreeOnDiskConfig]):
    def load(self) -> Iterator[TreeOnDiskTask]:
        for number, (request, names, wanted) in enumerate(trees()):
            data = TreeOnDiskData(prompt=request, system_prompt=SYSTEM, number=number, names=names, wanted=wanted)
            yield TreeOnDiskTask(data, self.config.task)


class TreeOnDiskEnvConfig(vf.SingleAgentEnvConfig):
    """A plain chat in a local process."""

    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig(), max_turns=8
    )


class TreeOnDiskEnv(vf.SingleAgentEnv, vf.Env[TreeOnDiskEnvConfig]):
    """Makes the plain chat the default."""


__all__ = ["TreeOnDiskEnv", "TreeOnDiskTaskset"]


if __name__ == "__main__":
    TreeOnDiskToolset.run()
