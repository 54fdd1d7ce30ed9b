"""The list of all tools in the order of the workflow. Schemas, the README table and tests are derived from it."""

from __future__ import annotations

from prime_lab_mcp.tools import (
    check_environment,
    check_reward_distribution,
    check_training_config,
    control_run,
    create_environment,
    edit_environment,
    inspect_dataset,
    preflight,
    push_environment,
    read_environment,
    read_eval,
    read_reference,
    run_eval,
    search_hub,
    submit_training,
    test_reward,
    watch_run,
    workflow_status,
    write_training_config,
)
from prime_lab_mcp.tools.tool import AnyTool

TOOLS: tuple[AnyTool, ...] = (
    workflow_status.TOOL,
    preflight.TOOL,
    search_hub.TOOL,
    inspect_dataset.TOOL,
    create_environment.TOOL,
    read_environment.TOOL,
    edit_environment.TOOL,
    check_environment.TOOL,
    test_reward.TOOL,
    run_eval.TOOL,
    check_reward_distribution.TOOL,
    read_eval.TOOL,
    push_environment.TOOL,
    write_training_config.TOOL,
    check_training_config.TOOL,
    submit_training.TOOL,
    watch_run.TOOL,
    control_run.TOOL,
    read_reference.TOOL,
)
