"""pydantic-ai: an agent whose model is a function walks through the server."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset, StdioTransport
from pydantic_ai.messages import ModelMessage, ModelResponse, RetryPromptPart, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from walk import COMMAND, GUIDE, NEW, PROMPT, SPENT, TASK, UNPROVEN, cancelled, say, text_of


class Scripted:
    """Calls the tools that it was told to, one a turn, and remembers what it was given."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = list(calls)
        self.tools: list[str] = []
        self.outputs: list[str] = []

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.tools = [tool.name for tool in info.function_tools]
        parts = [part for message in messages for part in message.parts]
        self.outputs = [text_of(part.content) for part in parts if isinstance(part, ToolReturnPart | RetryPromptPart)]
        if len(self.outputs) < len(self.calls):
            name, arguments = self.calls[len(self.outputs)]
            return ModelResponse(parts=[ToolCallPart(name, arguments)])
        return ModelResponse(parts=[TextPart("done")])


async def main() -> None:
    questions: list[str] = []
    heard: list[str] = []

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        questions.append(message)
        return {"approve": True}

    async def hear(done: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    transport = StdioTransport(command=COMMAND[0], args=COMMAND[1:])
    tools = MCPToolset(transport, elicitation_handler=answer, progress_handler=hear, init_timeout=120, read_timeout=120)
    model = Scripted(("create_environment", NEW), ("push_environment", UNPROVEN), ("spend", {}))
    async with tools:
        await Agent(FunctionModel(model), toolsets=[tools], retries=3).run("go")
        created, refused, spent = model.outputs
        say("list", names=model.tools)
        say("call", text=created)
        say("refuse", text=refused)
        say("elicit", questions=questions, text=spent, spent=SPENT.exists())
        say("read", text=text_of(await tools.read_resource(GUIDE)))
        say("prompt", text=text_of((await tools.get_prompt(PROMPT, {"task": TASK})).messages[0].content))
        ended = await cancelled(lambda: tools.direct_call_tool("hang", {}))
        after = await tools.direct_call_tool("workflow_status", {})
        say("progress", messages=heard)
        say("cancel", ended=ended, text=text_of(after))


asyncio.run(main())
