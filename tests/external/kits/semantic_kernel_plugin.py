"""semantic-kernel: the server as a plugin of a kernel, with its tools and prompts as functions."""

from __future__ import annotations

import asyncio
from typing import Any

from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_calling_utils import kernel_function_metadata_to_function_call_format
from semantic_kernel.connectors.mcp import MCPStdioPlugin
from walk import COMMAND, NEW, PROMPT, SPENT, TASK, UNPROVEN, say, token_in


async def main() -> None:
    async with MCPStdioPlugin(name="lab", command=COMMAND[0], args=COMMAND[1:], request_timeout=120) as plugin:
        kernel = Kernel()
        functions = kernel.add_plugin(plugin).functions

        async def call(function: str, /, **arguments: Any) -> str:
            answer = await kernel.invoke(functions[function], **arguments)
            return "\n".join(map(str, answer.value))

        say("list", names=list(functions))
        schemas = [kernel_function_metadata_to_function_call_format(one.metadata) for one in functions.values()]
        say("convert", names=[schema["function"]["name"].removeprefix("lab-") for schema in schemas])
        say("call", text=await call("create_environment", **NEW))
        say("refuse", text=await call("push_environment", **UNPROVEN))
        asked = await call("spend")
        say("confirm", asked=asked, text=await call("spend", confirm=token_in(asked)), spent=SPENT.exists())
        # The kernel requires every argument of a prompt, also those that the server calls optional.
        blank = {one.name: "" for one in functions[PROMPT].parameters if one.name}
        say("prompt", text=await call(PROMPT, **{**blank, "task": TASK}))


asyncio.run(main())
