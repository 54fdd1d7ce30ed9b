"""The next call for an environment, as a pure function of how it stands along the gates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.state.gates import Standing


def upcoming_call(
    environment: str, api: str | None, line: Sequence[Standing], env_args: Mapping[str, Any] | None = None
) -> Next:
    """The call that proves what is missing first; once everything is proven, what comes after a push.

    `env_args`: the arguments for which the line was computed, which the advice keeps.
    """
    step = next((found for found in line if found.why), None)
    here: dict[str, Any] = {"environment": environment}
    named = {**here, "env_args": dict(env_args)} if env_args else here
    if step is None and api == "v0":
        topic = {"topic": "guide/migration"}
        return Next("read_reference", "a v0 environment cannot be trained; how to port it", topic)
    if step is None:
        given: dict[str, Any] = {"environments": [environment]}
        given |= {"env_args": dict(env_args)} if env_args else {}
        return Next("write_training_config", "everything is proven and pushed", given)
    tool, failed = step.need.tool, step.why in ("failed", "inconclusive")
    if tool == "check_reward_distribution":
        return Next("read_eval", step.detail, {"view": "zeros"}) if failed else Next("run_eval", step.detail, named)
    if failed and tool != "push_environment":
        return Next("read_environment", f"{step.detail}; mend it with edit_environment", here)
    return Next(tool, step.detail, here if tool == "check_environment" else named)
