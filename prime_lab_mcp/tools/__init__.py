"""The tools of the workflow, one module each.

`WORKFLOW` names them in order, `on_demand` imports each at its first use, and `registry` imports all of them.

`tool` defines what a tool is. Modules that `WORKFLOW` does not name are parts of tools.
"""

from __future__ import annotations

WORKFLOW: tuple[str, ...] = (
    "workflow_status",
    "preflight",
    "search_hub",
    "inspect_dataset",
    "create_environment",
    "read_environment",
    "edit_environment",
    "check_environment",
    "test_reward",
    "run_eval",
    "check_reward_distribution",
    "read_eval",
    "push_environment",
    "write_training_config",
    "check_training_config",
    "submit_training",
    "watch_run",
    "control_run",
    "read_reference",
)
"""All tools in the order of the workflow. Each is a module of this package that holds a `TOOL` of the same name.

The names stand here and not in `registry`, because listing the tools must not import their bodies
(`server/tool_descriptions.py`).
"""
