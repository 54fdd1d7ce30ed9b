"""Registers the prompts of the server."""

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

    @server.prompt(title="Mend a reward")
    def debug_reward(environment: str, symptom: str = "") -> str:
        """From a finding or a symptom to a reward that is mended and tested again."""
        return text("debug_reward", environment=environment, symptom=symptom)

    @server.prompt(title="Review an environment")
    def review_environment(environment: str, model: str = "") -> str:
        """Read, check, test and report, without changing anything."""
        return text("review_environment", environment=environment, model=model)

    @server.prompt(title="Port a v0 environment to v1")
    def migrate_environment(environment: str, name: str = "") -> str:
        """A v1 package next to the v0 one, with equal rewards proven on the same completions."""
        return text("migrate_environment", environment=environment, name=name)

    @server.prompt(title="Compare models on an environment")
    def benchmark_models(environment: str, models: str = "") -> str:
        """Which model to train: rewards, usable groups and cost side by side."""
        return text("benchmark_models", environment=environment, models=models)

    @server.prompt(title="Watch a run")
    def watch_run(run: str = "") -> str:
        """Follow an evaluation or a training run until it ends, and say what has to be decided."""
        return text("watch_run", run=run)
