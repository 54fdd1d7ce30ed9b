"""Registers the prompts of the server, and checks the arguments of a request for a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp import MCPError
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp_types import INVALID_PARAMS

from prime_lab_mcp.lab.base.text import quote
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

    @server.prompt(title="When the model solves almost nothing")
    def solve_something(environment: str, model: str = "") -> str:
        """Easier levels, honest partial credit, other limits or a stronger model, in the order to try them."""
        return text("solve_something", environment=environment, model=model)

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
    def follow_run(run: str = "") -> str:
        """Follow an evaluation or a training run until it ends, and say what has to be decided."""
        return text("follow_run", run=run)


def require_arguments(prompt: Prompt, given: Mapping[str, object] | None) -> None:
    """Refuse a request whose arguments do not fit the prompt.

    The SDK (mcp 2.0 to 2.3) reports such a request as an internal error, and first formats a traceback on the event
    loop, which takes seconds. Raises MCPError (-32602) for an unknown argument, and for a missing or empty required
    one.
    """
    known = prompt.arguments or []
    names = {argument.name for argument in known}
    missing = [a.name for a in known if a.required and not str((given or {}).get(a.name, "")).strip()]
    unknown = sorted(set(given or {}) - names)
    if not missing and not unknown:
        return
    wrong = [f"needs {', '.join(missing)}"] if missing else []
    wrong += [f"has no {', '.join(quote(name) for name in unknown)}"] if unknown else []
    takes = ", ".join(f"{a.name} (required)" if a.required else a.name for a in known)
    raise MCPError(INVALID_PARAMS, f"The prompt {prompt.name} {' and '.join(wrong)}. Its arguments: {takes}.")
