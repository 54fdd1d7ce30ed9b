"""google-adk: an agent whose model is scripted walks through the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.mcp_instruction_provider import McpInstructionProvider
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
from google.genai import types
from mcp import StdioServerParameters
from mcp.types import ElicitResult
from pydantic import Field
from walk import COMMAND, GUIDE, NEW, PROMPT, SPENT, TASK, UNPROVEN, cancelled, say, text_of

CONNECTION = StdioConnectionParams(
    server_params=StdioServerParameters(command=COMMAND[0], args=COMMAND[1:]), timeout=120
)


class Scripted(BaseLlm):
    """Calls the tools that it was told to, one a turn, and remembers what it was given."""

    model: str = "scripted"
    calls: list[tuple[str, dict[str, Any]]] = Field(default_factory=list)
    declared: list[str] = Field(default_factory=list)
    outputs: list[str] = Field(default_factory=list)
    instruction: str = ""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        config = llm_request.config
        self.instruction = text_of(config.system_instruction)
        declared = [one for tool in config.tools or [] for one in tool.function_declarations or []]
        self.declared = [one.name for one in declared if one.parameters or one.parameters_json_schema]
        parts = [part for content in llm_request.contents for part in content.parts or []]
        self.outputs = [text_of(part.function_response.response) for part in parts if part.function_response]
        if len(self.outputs) < len(self.calls):
            name, arguments = self.calls[len(self.outputs)]
            part = types.Part(function_call=types.FunctionCall(name=name, args=arguments))
        else:
            part = types.Part(text="done")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


async def run(agent: LlmAgent, state: dict[str, Any] | None = None) -> None:
    runner = InMemoryRunner(agent, app_name="walk")
    session = await runner.session_service.create_session(app_name="walk", user_id="user", state=state)
    message = types.Content(role="user", parts=[types.Part(text="go")])
    async for _ in runner.run_async(user_id="user", session_id=session.id, new_message=message):
        pass


async def main() -> None:
    questions: list[str] = []
    heard: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": True})

    async def hear(done: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    tools = McpToolset(connection_params=CONNECTION, elicitation_callback=answer, progress_callback=hear)
    model = Scripted(calls=[("create_environment", NEW), ("push_environment", UNPROVEN), ("spend", {})])
    agent = LlmAgent(name="a", model=model, tools=[tools], instruction=McpInstructionProvider(CONNECTION, PROMPT))
    await run(agent, {"task": TASK})
    say("prompt", text=model.instruction)
    say("list", names=[tool.name for tool in await tools.get_tools()])
    say("convert", names=model.declared)
    created, refused, spent = model.outputs
    say("call", text=created)
    say("refuse", text=refused)
    say("elicit", questions=questions, text=spent, spent=SPENT.exists())
    resources = [await tools.get_resource_info(name) for name in await tools.list_resources()]
    guide = next(one["name"] for one in resources if one["uri"] == GUIDE)
    say("read", text=text_of((await tools.read_resource(guide))[0]))
    ended = await cancelled(lambda: run(LlmAgent(name="b", model=Scripted(calls=[("hang", {})]), tools=[tools])))
    after = Scripted(calls=[("workflow_status", {})])
    await run(LlmAgent(name="c", model=after, tools=[tools]))
    say("progress", messages=heard)
    say("cancel", ended=ended, text=after.outputs[0])
    await tools.close()


asyncio.run(main())
