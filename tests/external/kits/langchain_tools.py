"""langchain-mcp-adapters: the tools of LangChain over one session."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.prompts import load_mcp_prompt
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp.types import ElicitResult
from walk import COMMAND, GUIDE, NEW, PROMPT, SPENT, TASK, UNPROVEN, cancelled, say, text_of


async def main() -> None:
    questions: list[str] = []
    heard: list[str] = []

    async def answer(_: Any, params: Any, context: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": True})

    async def hear(done: float, total: float | None, message: str | None, context: Any) -> None:
        heard.append(message or "")

    callbacks = Callbacks(on_progress=hear, on_elicitation=answer)
    client = MultiServerMCPClient(
        {"lab": {"transport": "stdio", "command": COMMAND[0], "args": COMMAND[1:]}}, callbacks=callbacks
    )
    async with client.session("lab") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session, callbacks=callbacks, server_name="lab")}
        say("list", names=list(tools))
        say("convert", names=[convert_to_openai_tool(tool)["function"]["name"] for tool in tools.values()])
        say("call", text=text_of(await tools["create_environment"].ainvoke(NEW)))
        say("refuse", text=text_of(await tools["push_environment"].ainvoke(UNPROVEN)))
        spent = text_of(await tools["spend"].ainvoke({}))
        say("elicit", questions=questions, text=spent, spent=SPENT.exists())
        say("read", text=(await load_mcp_resources(session, uris=[GUIDE]))[0].as_string())
        say("prompt", text=text_of((await load_mcp_prompt(session, PROMPT, arguments={"task": TASK}))[0].content))
        await cancelled(lambda: tools["hang"].ainvoke({}), patience=0)  # the SDK 1.x under it tells the server nothing
        say("progress", messages=heard)


try:
    asyncio.run(main())
except* anyio.BrokenResourceError:
    pass  # the SDK 1.x raises this where the server still speaks of a call when the session ends
