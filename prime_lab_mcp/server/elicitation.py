"""Asks the client's user a question through the SDK's `Resolve`/`Elicit`, which works in both protocol versions.

In the older protocol the answer arrives within the call. In protocol 2026-07-28 the SDK returns the question as the
result of the call, and the client repeats the call with the answer. `ClientMustAnswer` carries this result.
"""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, Resolve
from mcp.server.mcpserver.resolve import build_resolver_plans, resolve_arguments
from mcp_types import InputRequiredResult
from pydantic import BaseModel, Field

from prime_lab_mcp.server.approval import Answer, Ask, Suspended


class Approve(BaseModel):
    """The answer to one approval question."""

    approve: Annotated[bool, Field(description="Go ahead?")]


class ClientMustAnswer(Suspended):
    """Carries the SDK's result that asks the client (protocol 2026-07-28)."""

    def __init__(self, result: InputRequiredResult) -> None:
        super().__init__("waiting for the client's answer")
        self.result = result


def asker(context: Context[Any, Any]) -> Ask:
    """Return a function that asks the user of this request."""

    async def ask(question: str) -> Answer:
        if not _can_ask(context):
            return "cannot-ask"

        async def approval(ctx: Context[Any, Any]) -> Approve | Elicit[Approve]:
            return Elicit(question, Approve)

        approval.__annotations__ = {"ctx": Context, "return": Approve | Elicit[Approve]}
        wanted = {"approval": (Resolve(approval), True)}
        resolved = await resolve_arguments(wanted, build_resolver_plans(wanted, set()), {}, context)
        if isinstance(resolved, InputRequiredResult):
            raise ClientMustAnswer(resolved)
        answer = resolved["approval"]
        accepted = isinstance(answer, AcceptedElicitation) and answer.data.approve
        return "approved" if accepted else "declined"

    return ask


def _can_ask(context: Context[Any, Any]) -> bool:
    capabilities = context.client_capabilities
    form = capabilities.elicitation if capabilities is not None else None
    if form is None or (form.form is None and form.url is not None):
        return False
    modern = (context.protocol_version or "") >= "2026-07-28"
    return modern or context.session.can_send_request
