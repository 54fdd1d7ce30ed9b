"""google-genai: the SDK calls tools of a session that it is given as a tool, for a model whose answers are scripted."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, ClassVar

from google import genai
from google.genai import types
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult
from walk import COMMAND, GUIDE, NEW, PROMPT, SPENT, TASK, UNPROVEN, cancelled, say, text_of

CALLS: list[tuple[str, dict[str, Any]]] = [("create_environment", NEW), ("push_environment", UNPROVEN), ("spend", {})]


class ScriptedModel(BaseHTTPRequestHandler):
    """Gemini's `generateContent` with one call a turn; `requests` is what the SDK sent."""

    calls: ClassVar[list[tuple[str, dict[str, Any]]]] = list(CALLS)
    requests: ClassVar[list[dict[str, Any]]] = []

    def do_POST(self) -> None:
        self.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        done = len(outputs(self.requests[-1]))
        if done < len(self.calls):
            name, arguments = self.calls[done]
            part: dict[str, Any] = {"functionCall": {"name": name, "args": arguments}}
        else:
            part = {"text": "done"}
        answer = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def outputs(request: dict[str, Any]) -> list[str]:
    parts = [part for content in request["contents"] for part in content["parts"]]
    return [text_of(part["functionResponse"]["response"]) for part in parts if "functionResponse" in part]


async def main() -> None:
    questions: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": True})

    service = HTTPServer(("127.0.0.1", 0), ScriptedModel)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    options = types.HttpOptions(base_url=f"http://127.0.0.1:{service.server_port}")
    client = genai.Client(api_key="none", http_options=options)
    parameters = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
    async with (
        stdio_client(parameters) as streams,
        ClientSession(*streams, elicitation_callback=answer) as session,
    ):
        await session.initialize()
        # A GenerateContentConfig is copied deeply, which a session of the SDK 2.x refuses.
        config: types.GenerateContentConfigDict = {"tools": [session]}

        async def generate() -> None:
            await client.aio.models.generate_content(model="gemini-scripted", contents="go", config=config)

        await generate()
        declared = [one for tool in ScriptedModel.requests[-1]["tools"] for one in tool["functionDeclarations"]]
        say("list", names=[one["name"] for one in declared])
        say("convert", names=[one["name"] for one in declared if one["parameters"]["type"] == "OBJECT"])
        created, refused, spent = outputs(ScriptedModel.requests[-1])
        say("call", text=created)
        say("refuse", text=refused)
        say("elicit", questions=questions, text=spent, spent=SPENT.exists())
        say("read", text=text_of(await session.read_resource(GUIDE)))
        say("prompt", text=text_of((await session.get_prompt(PROMPT, {"task": TASK})).messages[0].content))
        ScriptedModel.calls = [("hang", {})]
        ended = await cancelled(generate)
        say("cancel", ended=ended, text=text_of(await session.call_tool("workflow_status", {})))
    service.shutdown()


asyncio.run(main())
