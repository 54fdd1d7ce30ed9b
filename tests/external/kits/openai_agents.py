"""openai-agents: an agent whose model is scripted walks through the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.mcp import MCPServerStdio
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from walk import COMMAND, GUIDE, NEW, PROMPT, SPENT, TASK, UNPROVEN, cancelled, say, text_of, token_in


class Scripted(Model):
    """Calls the tools that it was told to, one a turn, and remembers what it was given."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self.calls = list(calls)
        self.tools: list[Any] = []
        self.outputs: list[str] = []

    async def get_response(
        self, system_instructions: Any, input: Any, model_settings: Any, tools: Any, *rest: Any, **more: Any
    ) -> ModelResponse:
        self.tools = tools
        self.outputs = [
            text_of(item["output"])
            for item in input
            if not isinstance(item, str) and item.get("type") == "function_call_output"
        ]
        if len(self.outputs) < len(self.calls):
            name, arguments = self.calls[len(self.outputs)]
            return _answer(
                ResponseFunctionToolCall(
                    arguments=json.dumps(arguments), call_id=f"call{len(self.outputs)}", name=name, type="function_call"
                )
            )
        return _answer(
            ResponseOutputMessage(
                id="m",
                content=[ResponseOutputText(annotations=[], text="done", type="output_text")],
                role="assistant",
                status="completed",
                type="message",
            )
        )

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def _answer(item: Any) -> ModelResponse:
    return ModelResponse(output=[item], usage=Usage(), response_id=None)


async def main() -> None:
    set_tracing_disabled(True)
    params = {"command": COMMAND[0], "args": COMMAND[1:]}
    async with MCPServerStdio(params, client_session_timeout_seconds=120) as server:
        model = Scripted(("create_environment", NEW), ("push_environment", UNPROVEN), ("spend", {}))
        agent = Agent(name="a", model=model, mcp_servers=[server], mcp_config={"convert_schemas_to_strict": True})
        await Runner.run(agent, "go")
        say("list", names=[tool.name for tool in model.tools])
        say("convert", names=[tool.name for tool in model.tools if tool.strict_json_schema])
        created, refused, asked = model.outputs
        say("call", text=created)
        say("refuse", text=refused)
        confirming = Scripted(("spend", {"confirm": token_in(asked)}))
        await Runner.run(agent.clone(model=confirming), "yes")
        say("confirm", asked=asked, text=confirming.outputs[0], spent=SPENT.exists())
        page = await server.read_resource(GUIDE)
        say("read", text=page.contents[0].text)
        prompt = await server.get_prompt(PROMPT, {"task": TASK})
        say("prompt", text=prompt.messages[0].content.text)
        ended = await cancelled(lambda: server.call_tool("hang", {}))
        after = await server.call_tool("workflow_status", {})
        say("cancel", ended=ended, text=text_of(after))


asyncio.run(main())
