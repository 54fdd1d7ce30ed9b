"""Names the agents of a run for which verifiers rents a sandbox for each rollout, which no bound of the run holds.

verifiers starts the runtime of an agent with each rollout, whatever its harness (v1/rollout.py), and its default is a
sandbox of the platform (`AgentConfig.runtime` in v1/configs/agent.py). No price of sandboxes is known here.
"""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.training.episode_bound import runtimes_of

RENTED = frozenset({"prime", "modal", "e2b"})
"""Types of runtimes of verifiers 0.4 that cost money by the hour."""
_DEFAULT = "prime"
"""The runtime of an agent for which nothing names one (`PrimeConfig()`)."""


def rented_sandboxes(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Yield a finding for each source whose rollouts rent sandboxes, or may rent them because nothing says otherwise.

    `context.shapes` holds what the checks of the very files recorded.
    """
    said: set[str] = set()
    for source in config.sources:
        for agent, runtime in runtimes_of(source, context).items() if source.id else ():
            if runtime is not None and runtime not in RENTED:
                continue
            measured = context.each.get(source.id)
            needed = measured is not None and measured.container
            message = _message(source, agent, runtime, needed)
            if message in said:
                continue
            said.add(message)
            fix = (
                f'Set env.{agent}.runtime.type = "subprocess" of the source where no program of the model needs a '
                'sandbox (the harness "null" runs none); else tell the user what the sandboxes cost.'
            )
            if needed:
                fix = "Tell the user that the sandboxes cost extra; tasks that name an image cannot do without."
            yield Finding(
                "default-runtime",
                "warning",
                message,
                fix,
                f"orchestrator.{source.kind}.source.env.{agent}.runtime.type",
            )


def _message(source: ConfigSource, agent: str, runtime: str | None, needed: bool) -> str:
    who, outside = f"the agent {quote(agent, 40)} of {quote(source.id, 80)}", "what sandboxes cost is not in the bound"
    if needed:
        return f"the tasks of {quote(source.id, 80)} need a container: each rollout rents a sandbox, and {outside}"
    if runtime is not None:
        return f"each rollout of {who} runs in a rented sandbox ({quote(runtime, 40)}), and {outside}"
    return (
        f"neither the config nor a check here says where {who} runs: the default of verifiers is a rented sandbox for "
        f'each rollout ("{_DEFAULT}"), and {outside}'
    )
