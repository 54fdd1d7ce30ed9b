"""A v0 environment whose tools remember what was stored in the rollout."""

from v0_stateful_tools_template.environment import load_environment

__all__ = ["load_environment"]
