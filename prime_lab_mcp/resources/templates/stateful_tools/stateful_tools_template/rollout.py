"""What the taskset and the tool server both know of a rollout: the data of its task, and its state.

It is a module of its own because the server is another process, which imports its tools and not the taskset.
"""

from __future__ import annotations

import verifiers.v1 as vf


class StatefulToolsTemplateData(vf.TaskData):
    """One task. The server makes the database of the `workshop`; only the reward reads `goal`, only the solution
    `statements`."""

    workshop: str
    level: str
    statements: list[str]
    goal: str


class StatefulToolsTemplateState(vf.State):
    """What the tool notes for the reward. The reward reads `trace.state`, after the server is gone."""

    fingerprint: str = ""
    """The fingerprint of the database after the last statement that worked; empty before the first."""
    statements: int = 0
    failed: int = 0
