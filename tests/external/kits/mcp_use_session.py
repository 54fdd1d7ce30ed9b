"""mcp-use: a session of its client, and its tools for LangChain."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.types import ElicitResult
from mcp_use import MCPClient
from mcp_use.agents.adapters import LangChainAdapter
from walk import COMMAND, GUIDE, NEW, PROMPT, SPENT, TASK, UNPROVEN, say, text_of


async def main() -> None:
    questions: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": True})

    config = {"mcpServers": {"lab": {"command": COMMAND[0], "args": COMMAND[1:]}}}
    client = MCPClient(config=config, elicitation_callback=answer)
    session = await client.create_session("lab")
    try:
        say("list", names=[tool.name for tool in await session.list_tools()])
        tools = {tool.name: tool for tool in await LangChainAdapter().create_tools(client)}
        say("convert", names=list(tools))
        say("call", text=text_of(await tools["create_environment"].ainvoke(NEW)))
        say("refuse", text=text_of(await tools["push_environment"].ainvoke(UNPROVEN)))
        spent = text_of(await tools["spend"].ainvoke({}))
        say("elicit", questions=questions, text=spent, spent=SPENT.exists())
        say("read", text=(await session.read_resource(GUIDE)).contents[0].text)
        say("prompt", text=(await session.get_prompt(PROMPT, {"task": TASK})).messages[0].content.text)
    finally:
        await client.close_all_sessions()


asyncio.run(main())
