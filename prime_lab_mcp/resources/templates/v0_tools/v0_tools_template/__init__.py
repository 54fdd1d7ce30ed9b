"""A v0 environment whose questions take tools to answer."""

from v0_tools_template.environment import load_environment

__all__ = ["load_environment"]
