"""`push_environment`: publishes exactly the validated files, once, and checks that the Hub has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from prime_lab_mcp.tools.argument_types import Slug, Text
from prime_lab_mcp.tools.tool import Arguments, Call, EnvironmentName, Plan, PlannedTool

if TYPE_CHECKING:
    from prime_lab_mcp.lab.state.outcome import Outcome
    from prime_lab_mcp.tools.planned_push import PushPlan

# What plans and sends a push is imported once the gates are open: no refusal and no recommended push needs it.


class Args(Arguments):
    environment: EnvironmentName
    owner: Annotated[Slug | None, Field(description="User or team to publish under.")] = None
    team: Slug | None = None
    visibility: Annotated[
        Literal["PUBLIC", "PRIVATE"] | None, Field(description="Default: as it is; PRIVATE when new.")
    ] = None
    bump: Annotated[
        Literal["patch", "minor", "major"] | None, Field(description="Raise the version when it is taken.")
    ] = None
    env_args: Annotated[dict[str, Any] | None, Field(description="Arguments that it was proven with.")] = None
    confirm: Annotated[Text | None, Field(description="Token of an earlier answer.")] = None


async def plan(call: Call, args: Args) -> Plan[PushPlan]:
    from prime_lab_mcp.tools import planned_push

    return await planned_push.plan(call, args)


async def run(call: Call, plan: Plan[PushPlan]) -> Outcome:
    from prime_lab_mcp.tools import planned_push

    return await planned_push.run(call, plan)


TOOL = PlannedTool(
    name="push_environment",
    title="Push environment",
    description="Publish a validated environment to the Hub, then verify that the Hub holds exactly what was tested. "
    "Asks first. Repeating it sends nothing twice.",
    args=Args,
    plan=plan,
    run=run,
    effect="publishes",
    needs_verdicts=True,
    snapshot=True,
    records="environment",
    open_world=True,
)
