"""`submit_training`: starts a hosted run of a checked config, at most once per intent, after approval of the price."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.configs.config import TrainingConfig, read_config
from prime_lab_mcp.tools.argument_types import Dollars, Slug, Text
from prime_lab_mcp.tools.tool import Arguments, Call, Plan, PlannedTool

if TYPE_CHECKING:
    from prime_lab_mcp.lab.state.outcome import Outcome
    from prime_lab_mcp.tools.planned_submission import SubmissionPlan

# What plans and sends a run is imported once the gates are open: 0.2 s that no refusal needs.


class Args(Arguments):
    ONE_OF: ClassVar[tuple[str, ...]] = ("config", "environment")

    environment: Annotated[Text | None, Field(description="Without config: name or owner/name@version.")] = None
    config: Annotated[Text | None, Field(description="TOML path.")] = None
    model: Annotated[Text | None, Field(description="To train, without config.")] = None
    steps: Annotated[int | None, Field(ge=1, description="Without config.")] = None
    batch: Annotated[int | None, Field(ge=1, description="Rollouts a step, without config.")] = None
    group: Annotated[int | None, Field(ge=2, description="Rollouts a task, without config.")] = None
    max_tokens: Annotated[int | None, Field(ge=1, description="Per completion, without config.")] = None
    budget: Annotated[Dollars | None, Field(description="US dollars at most.")] = None
    resume_from: Annotated[Slug | None, Field(description="Id of a PAUSED run.")] = None
    again: Annotated[bool, Field(description="Start once more after the last run ended.")] = False
    yes: Annotated[bool, Field(description="Skip the question; needs --max-spend.")] = False
    confirm: Annotated[Text | None, Field(description="Token of an earlier answer.")] = None


SIZES = ("steps", "batch", "group", "max_tokens")
"""Arguments that only a call without a config takes."""


async def config(call: Call, args: Args) -> Path:
    """The config of the call. If none is named, a config for `environment` is written, unless one exists."""
    if args.config is not None:
        if args.environment or args.model or any(getattr(args, name) is not None for name in SIZES):
            raise BadInput(
                "a config says itself which environment, model, steps, batch, group and tokens it has",
                fix=Fix(
                    "Pass config alone, or write a changed one with ",
                    NamedCall("write_training_config", based_on=...),
                    ".",
                ),
            )
        return _existing(call, args.config)
    if args.environment is None:
        raise BadInput("neither a config nor an environment was named", fix="Pass config or environment.")
    from prime_lab_mcp.tools import planned_submission

    return await planned_submission.written_config(call, args, args.environment)


def _existing(call: Call, path: str) -> Path:
    workspace = call.lab.workspace
    for candidate in (path, f"configs/rl/{path}", f"configs/rl/{path}.toml"):
        config = workspace.resolve(candidate)
        if config.is_file():
            require_hosted(read_config(config))
            return config
    return workspace.resolve(path, must_exist=True)


def require_hosted(config: TrainingConfig) -> None:
    """Raise BadInput for a config that hosted training does not take, and whose checks are others."""
    name = config.path.name
    if config.shape == "sft":
        raise BadInput(
            f"{name} is supervised fine-tuning: whether its data lie on the volume cannot be checked from here",
            fix=Fix(
                f"Ask the user to run `prime train {name} --sft` in its folder; ",
                NamedCall("write_training_config", sft=...),
                " lists what goes before it.",
            ),
            code="sft-by-hand",
        )
    if config.target != "hosted":
        raise BadInput(
            f"{name} is written for GPUs of one's own; its checks are not those of hosted training",
            fix=Fix("Write a hosted one with ", NamedCall("write_training_config", based_on=..., target="hosted"), "."),
            code="config-not-hosted",
        )


async def plan(call: Call, args: Args) -> Plan[SubmissionPlan]:
    from prime_lab_mcp.tools import planned_submission

    return await planned_submission.plan(call, args)


async def run(call: Call, plan: Plan[SubmissionPlan]) -> Outcome:
    from prime_lab_mcp.tools import planned_submission

    return await planned_submission.run(call, plan)


TOOL = PlannedTool(
    name="submit_training",
    title="Submit training",
    description="Start a hosted run of a checked config (or one written for `environment`). Asks first, with price and "
    "bound. A live run of the same config is returned, not repeated.",
    args=Args,
    plan=plan,
    run=run,
    effect="spends",
    needs_verdicts=True,
    records="config",
    config=config,
    open_world=True,
)
