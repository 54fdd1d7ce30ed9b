"""fastmcp: its client, in the newest protocol version that both speak."""

from __future__ import annotations

import asyncio
from typing import Any

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from walk import COMMAND, GUIDE, NEW, PROMPT, SPENT, TASK, UNPROVEN, cancelled, say, text_of


async def main() -> None:
    questions: list[str] = []
    heard: list[str] = []

    async def answer(message: str, response_type: Any, params: Any, context: Any) -> Any:
        questions.append(message)
        return ElicitResult(action="accept", content={"approve": True})

    async def hear(done: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    transport = StdioTransport(command=COMMAND[0], args=COMMAND[1:])
    async with Client(transport, elicitation_handler=answer, progress_handler=hear, timeout=120) as client:
        say("list", names=[tool.name for tool in await client.list_tools()], protocol=str(client.protocol_version))
        say("call", text=text_of((await client.call_tool("create_environment", NEW)).structured_content))
        refused = await client.call_tool("push_environment", UNPROVEN, raise_on_error=False)
        say("refuse", text=text_of(refused.structured_content))
        spent = await client.call_tool("spend", {})
        say("elicit", questions=questions, text=text_of(spent.structured_content), spent=SPENT.exists())
        say("read", text=(await client.read_resource(GUIDE))[0].text)
        say("prompt", text=(await client.get_prompt(PROMPT, {"task": TASK})).messages[0].content.text)
        ended = await cancelled(lambda: client.call_tool("hang", {}))
        after = await client.call_tool("workflow_status", {})
        say("progress", messages=heard)
        say("cancel", ended=ended, text=text_of(after.structured_content))


asyncio.run(main())
