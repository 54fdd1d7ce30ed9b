"""An environment whose tool changes a database: a server and a database per rollout, and the end of it is paid."""

from stateful_tools_template.taskset import StatefulToolsTemplateEnv, StatefulToolsTemplateTaskset

__all__ = ["StatefulToolsTemplateEnv", "StatefulToolsTemplateTaskset"]
