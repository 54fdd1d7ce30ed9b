"""Rules about how a run starts: its folder, what it resumes from, its variables, its logging and tracing.

Each mirrors a validator of prime-rl (configs/rl.py, shared.py and trainer.py at `SCHEMA_COMMIT`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule
from prime_lab_mcp.lab.configs.rules.refusal import prime_rl_refuses

_OWN_VARIABLES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "PRL_RUN_ID",
        "PRL_RUN_NAME",
        "WANDB_RUN_ID",
        "WANDB_SHARED_MODE",
        "WANDB_SHARED_LABEL",
        "WANDB_SHARED_PRIMARY",
        "WANDB_SHARED_FINISHER",
    }
)
"""Variables that prime-rl's launcher sets itself."""
_LONGEST_TRACE = 10


def resume_table(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """A checkpoint is named by its step or by its folder, and the folder is one of a step."""
    for where in ("resume", "trainer.resume", "orchestrator.resume"):
        table = config.at(where)
        if not isinstance(table, Mapping):
            continue
        folder = table.get("dir")
        if table.get("step") is not None and folder is not None:
            why, fix = "resume names a step and a folder", f"Remove {where}.step: the folder's name has the step."
        elif isinstance(folder, str) and not re.fullmatch(r"step_\d+", PurePosixPath(folder).name):
            why = f"{quote(folder, limit=100)} is no folder of a checkpoint's step"
            fix = f"Name the folder .../checkpoints/step_N in {where}.dir."
        else:
            continue
        yield prime_rl_refuses("config-resume", why, fix, where)


def output_folders(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Trainer and orchestrator write into the folder of the run."""
    name = config.at("run.dir") or config.at("run.name")
    run = PurePosixPath(str(config.at("output_dir") or "outputs")) / name if isinstance(name, str) else None
    for where in ("trainer.output_dir", "orchestrator.output_dir"):
        own = config.at(where)
        if isinstance(own, str) and (run is None or PurePosixPath(own) != run):
            why = f"{where} is {quote(own, limit=80)}, and the run writes to output_dir and the run's name below it"
            yield prime_rl_refuses("config-output-folder", why, f"Remove {where}; set output_dir and run.name.", where)


def launcher_variables(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """No table of variables sets what the launcher sets."""
    tables = (
        "env_vars",
        "trainer.env_vars",
        "orchestrator.env_vars",
        "inference.env_vars",
        "inference.deployment.prefill_env_vars",
        "inference.deployment.decode_env_vars",
    )
    for where in tables:
        variables = config.at(where)
        if isinstance(variables, Mapping) and (taken := sorted(_OWN_VARIABLES & set(variables))):
            why = f"{where} sets {', '.join(taken)}, which the launcher sets itself"
            yield prime_rl_refuses(
                "config-launcher-variable", why, f"Remove {taken[0]} from {where}.", f"{where}.{taken[0]}"
            )


def logging(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """W&B of an RL run is online, because its processes share one W&B run."""
    if config.target == "self-managed" and config.at("monitors.wandb.offline") is True:
        where = "monitors.wandb.offline"
        yield prime_rl_refuses(
            "config-wandb-offline",
            "monitors.wandb.offline = true does not work where trainer and orchestrator share one W&B run",
            f"Remove {where}, or set offline in trainer.monitors.wandb and orchestrator.monitors.wandb.",
            where,
        )


def tracing(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """A traced run is short."""
    where = "trace_path" if config.shape == "sft" else "trainer.trace_path"
    steps = config.max_steps
    if config.at(where) is not None and (steps is None or steps >= _LONGEST_TRACE):
        why = f"a trace of {steps or 'unlimited'} steps is too large; {_LONGEST_TRACE - 1} are the most"
        yield prime_rl_refuses(
            "config-trace", why, f"Remove {where}, or set max_steps to {_LONGEST_TRACE - 1} or less.", where
        )


LAUNCH_RULES: tuple[ConfigRule, ...] = (resume_table, output_folders, launcher_variables, logging, tracing)
SFT_LAUNCH_RULES: tuple[ConfigRule, ...] = (resume_table, launcher_variables, tracing)
