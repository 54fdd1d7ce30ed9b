"""llama-index: function tools of a client that starts the server for every call."""

from __future__ import annotations

import asyncio

from llama_index.tools.mcp import BasicMCPClient, McpToolSpec
from walk import COMMAND, GUIDE, NEW, PROMPT, SPENT, TASK, UNPROVEN, cancelled, say, text_of, token_in


async def main() -> None:
    heard: list[str] = []

    async def hear(done: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    client = BasicMCPClient(COMMAND[0], COMMAND[1:], timeout=120)
    tools = {tool.metadata.name: tool for tool in await McpToolSpec(client).to_tool_list_async()}
    say("list", names=list(tools))
    say("convert", names=[tool.metadata.to_openai_tool()["function"]["name"] for tool in tools.values()])
    say("call", text=text_of((await tools["create_environment"].acall(**NEW)).content))
    say("refuse", text=text_of((await tools["push_environment"].acall(**UNPROVEN)).content))
    asked = text_of((await tools["spend"].acall()).content)
    spent = text_of((await tools["spend"].acall(confirm=token_in(asked))).content)
    say("confirm", asked=asked, text=spent, spent=SPENT.exists())
    say("read", text=text_of(await client.read_resource(GUIDE)))
    say("prompt", text=text_of((await client.get_prompt(PROMPT, {"task": TASK}))[0].content))
    ended = await cancelled(lambda: client.call_tool("hang", {}, progress_callback=hear))
    say("progress", messages=heard)
    say("cancel", ended=ended, text=text_of((await tools["workflow_status"].acall()).content))


asyncio.run(main())
