"""Tools and a prompt of the official conformance suite that ask the client.

They ask for answers of its user, a text of its model, or its folders. Clients of the older protocol answer a request of
the server within the call. In protocol 2026-07-28 the questions are the result of the call, under names of the suite's
choice, and the client repeats the call with the answers.
"""

from __future__ import annotations

from typing import Any

from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListRootsRequest,
    MissingRequiredClientCapabilityErrorData,
    SamplingCapability,
    SamplingMessage,
)

from tests.external.conformance_fixtures import text

ASKS_BY_KEY = "test_input_required_result_elicitation"
QUESTIONS: dict[str, dict[str, Any]] = {
    "test_elicitation_sep1034_defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [{"const": f"value{i}", "title": f"{n} Option"} for i, n in enumerate(("First", "Second"), 1)],
        },
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [{"const": f"value{i}", "title": f"{n} Choice"} for i, n in enumerate(("First", "Second"), 1)]
            },
        },
    },
}
"""Forms of older clients."""
PERSON = {
    "username": {"type": "string", "description": "User's response"},
    "email": {"type": "string", "description": "User's email address"},
}


def form(message: str, **properties: str) -> ElicitRequest:
    """Ask the user for required values of these types."""
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(words: str) -> CreateMessageRequest:
    """Ask the client's model."""
    message = SamplingMessage(role="user", content=text(words))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


ROUNDS: dict[str, tuple[dict[str, Any], ...]] = {
    ASKS_BY_KEY: ({"user_name": form("What is your name?", name="string")},),
    "test_input_required_result_sampling": ({"capital_question": sample("What is the capital of France?")},),
    "test_input_required_result_list_roots": ({"client_roots": ListRootsRequest()},),
    "test_input_required_result_request_state": ({"confirm": form("Please confirm", ok="boolean")},),
    "test_input_required_result_multiple_inputs": (
        {
            "user_name": form("What is your name?", name="string"),
            "greeting": sample("Generate a greeting"),
            "client_roots": ListRootsRequest(),
        },
    ),
    "test_input_required_result_multi_round": (
        {"step1": form("Step 1: What is your name?", name="string")},
        {"step2": form("Step 2: What is your favorite color?", color="string")},
    ),
}
"""What a tool asks, round by round."""
NEEDS_STATE = frozenset(ROUNDS) - {ASKS_BY_KEY}
"""Tools that take answers only with the state that came with the questions."""


def add_questions(server: MCPServer[Any], without: tuple[str, ...]) -> None:
    """Register the tools (but those named in `without`) and the prompt."""
    for name in ROUNDS.keys() - set(without):
        server.add_tool(_asking(name), name=name, description="Of the suite.")
    for name, properties in QUESTIONS.items():
        server.add_tool(_asking_within_the_call(properties), name=name, description="Of the suite.")

    @server.tool(description="Of the suite.")
    async def test_elicitation(message: str, context: Context[Any, Any]) -> str:
        return f"User response: {await _elicit(context, message, PERSON, list(PERSON))}"

    @server.tool(description="Of the suite.")
    async def test_sampling(prompt: str, context: Context[Any, Any]) -> str:
        message = SamplingMessage(role="user", content=text(prompt))
        answer = await context.session.create_message([message], max_tokens=100, related_request_id=context.request_id)
        return f"LLM response: {answer.content}"

    @server.tool(description="Of the suite.")
    async def test_missing_capability(context: Context[Any, Any]) -> str:
        _require_sampling(context)
        return "The client has a model."

    @server.tool(description="Of the suite.")
    async def test_input_required_result_capabilities(
        context: Context[Any, Any],
    ) -> CallToolResult | InputRequiredResult:
        if context.input_responses:
            return CallToolResult(content=[text("answered")])
        can = context.client_capabilities or ClientCapabilities()
        requests: dict[str, Any] = {}
        if can.sampling is not None:
            requests["model"] = sample("Say something")
        if can.elicitation is not None:
            requests["user"] = form("Say something", words="string")
        return InputRequiredResult(input_requests=requests)

    @server.prompt(description="Of the suite.")
    async def test_input_required_result_prompt(context: Context) -> Any:
        # mcp 2.0 gives a prompt whose context is `Context[...]` a copy without the answers.
        if "user_context" in (context.input_responses or {}):
            return f"In the context of: {context.input_responses}"
        return InputRequiredResult(
            input_requests={"user_context": form("What context should the prompt use?", context="string")}
        )


def _asking(name: str) -> Any:
    """A tool that returns the questions of one round after the other."""
    rounds = ROUNDS[name]

    async def tool(context: Context[Any, Any]) -> CallToolResult | InputRequiredResult:
        answers = context.input_responses or {}
        done = int(context.request_state or 0)
        if name not in NEEDS_STATE and rounds[0].keys() <= answers.keys():
            done = len(rounds)
        elif context.request_state is not None and done < len(rounds) and rounds[done].keys() <= answers.keys():
            done += 1
        if done < len(rounds):
            return InputRequiredResult(input_requests=rounds[done], request_state=str(done))
        return CallToolResult(content=[text(f"{name}: state-ok, {sorted(answers)}")])

    return tool


def _asking_within_the_call(properties: dict[str, Any]) -> Any:
    async def tool(context: Context[Any, Any]) -> str:
        return f"Elicitation completed: {await _elicit(context, 'Please answer', properties, [])}"

    return tool


async def _elicit(context: Context[Any, Any], message: str, properties: dict[str, Any], required: list[str]) -> str:
    wanted = {"type": "object", "properties": properties, "required": required}
    answer = await context.session.elicit_form(message, wanted, related_request_id=context.request_id)
    return f"action={answer.action}, content={answer.content}"


def _require_sampling(context: Context[Any, Any]) -> None:
    capabilities = context.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        needed = MissingRequiredClientCapabilityErrorData(
            required_capabilities=ClientCapabilities(sampling=SamplingCapability())
        )
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "This tool needs a client with a model.",
            needed.model_dump(by_alias=True, mode="json", exclude_none=True),
        )
