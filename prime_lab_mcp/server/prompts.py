"""Registers what an agent can be asked to do."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import MCPServer

from prime_lab_mcp.prompts.catalog import text


def add_prompts(server: MCPServer[Any]) -> None:
    """Register the prompts."""

    @server.prompt(title="Build an environment and train on it")
    def build_environment(task: str, dataset: str = "", model: str = "") -> str:
        """From a task in words (and a dataset, if there is one) to a submitted training run."""
        return text("build_environment", task=task, dataset=dataset, model=model)

    @server.prompt(title="Train on an environment that is already on the Hub")
    def train_existing(environment: str, model: str = "") -> str:
        """The fast path: owner/name on the Environments Hub straight to training."""
        return text("train_existing", environment=environment, model=model)
