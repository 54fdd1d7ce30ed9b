"""An MCP server through which an agent builds, validates, publishes and trains RL environments."""

__version__ = "0.1.0"
