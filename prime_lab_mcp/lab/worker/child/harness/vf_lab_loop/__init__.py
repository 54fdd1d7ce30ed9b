"""A variant of the harness `vf-lab-chat` that also runs the tool loop in this process. Used with a scripted model.

For a task with tools, `vf-lab-chat` starts a chat program of verifiers, whose imports take seconds for each rollout.
This harness runs the same loop here, with verifiers' MCP client. It starts the program only if a hook of the task
intercepts tool calls. In the place of the harness `bash`, it also offers the tools of that harness, which work in the
runtime of the rollout.
"""

from __future__ import annotations

import json
import secrets
from contextlib import AsyncExitStack
from itertools import takewhile
from typing import Any

import aiohttp
from verifiers.v1.dialects.chat import message_to_wire  # type: ignore[import-untyped, unused-ignore]
from verifiers.v1.runtimes import ProgramResult, Runtime  # type: ignore[import-untyped, unused-ignore]
from verifiers.v1.runtimes.container import ContainerRuntime  # type: ignore[import-untyped, unused-ignore]
from vf_lab_chat import LabChatHarness, LabChatHarnessConfig  # type: ignore[import-not-found, unused-ignore]

__all__ = ["LabLoopHarness", "LabLoopHarnessConfig"]


class LabLoopHarnessConfig(LabChatHarnessConfig):  # type: ignore[misc, unused-ignore]
    """The settings of `vf-lab-chat`, and which tools of the harness `bash` are offered."""

    shell: bool = False
    edit: bool = False


class LabLoopHarness(LabChatHarness):  # type: ignore[misc, unused-ignore]
    """A chat harness that calls the model and the tools from this process."""

    async def launch(
        self,
        ctx: Any,
        trace: Any,
        runtime: Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: Any,
        tool_interception_url: str | None = None,
    ) -> ProgramResult:
        shell = _ShellTools(runtime, self.config.shell, self.config.edit)
        if not (mcp_urls or shell.offered) or tool_interception_url:
            return await super().launch(ctx, trace, runtime, endpoint, secret, mcp_urls, data, tool_interception_url)
        # Imported here, because a task without tools does not need this module.
        from verifiers.v1.harnesses.utils import mcp  # type: ignore[import-untyped, unused-ignore]

        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        elif prompt is not None:
            messages += [message_to_wire(message) for message in prompt]
        config = {"mcpServers": {name: {"url": url, "timeout": 30.0} for name, url in mcp_urls.items()}}
        async with AsyncExitStack() as stack:
            session = await stack.enter_async_context(aiohttp.ClientSession(trust_env=False))
            tools, dispatch, servers = await mcp.connect_mcp(config, stack, shell.names) if mcp_urls else ([], {}, {})
            tools = [*shell.offered, *tools]
            while True:
                body = {"model": ctx.model, "messages": messages, **({"tools": tools} if tools else {})}
                headers = {"Authorization": f"Bearer {secret}"}
                async with session.post(f"{endpoint}/chat/completions", json=body, headers=headers) as answer:
                    if answer.status >= 400:
                        return ProgramResult(1, "", f"HTTP {answer.status}: {(await answer.text())[-2000:]}")
                    reply = (await answer.json())["choices"][0]["message"]
                messages.append({k: v for k, v in reply.items() if v is not None})
                if not reply.get("tool_calls"):
                    return ProgramResult(0, "", "")
                results: list[str] = []
                for number, call in enumerate(reply["tool_calls"]):
                    name, given = call["function"]["name"], call["function"]["arguments"]
                    results = results or await shell.run_together(reply["tool_calls"][number:])
                    result = (
                        results.pop(0) if results else await _tool_result(mcp, servers, dispatch, shell, name, given)
                    )
                    returned = {"role": "tool", "tool_call_id": call["id"], "content": result, "name": name}
                    messages.append(shell.bounded(returned))


class _ShellTools:
    """The tools of verifiers' harness `bash` (harnesses/utils/core.py), which work in the runtime of the rollout."""

    def __init__(self, runtime: Runtime, shell: bool, edit: bool) -> None:
        self._runtime = runtime
        self.offered: list[dict[str, Any]] = []
        if shell:
            from verifiers.v1.harnesses.utils import core  # type: ignore[import-untyped, unused-ignore]

            self.offered = [core.BASH_TOOL, *([core.EDIT_TOOL] if edit else [])]
        self.names = {tool["function"]["name"] for tool in self.offered}

    def bounded(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a tool, cut as the program of the harness cuts it."""
        if not self.offered:
            return message
        from verifiers.v1.harnesses.utils import compaction  # type: ignore[import-untyped, unused-ignore]

        return dict(compaction.bound_tool_message(message))

    async def run_together(self, calls: list[dict[str, Any]]) -> list[str]:
        """Run the commands with which a list of calls begins in one program of the container. Returns their results.

        Each program that starts in a container costs tenths of a second. Calls without a result are made by themselves:
        all if fewer than two commands come first, and those from the command on that ends the program.
        """
        commands = [*takewhile(lambda command: command is not None, map(_command, calls))]
        if len(commands) < 2 or "bash" not in self.names or not isinstance(self._runtime, ContainerRuntime):
            return []
        mark = f"--{secrets.token_hex(8)}--"
        done = await self._runtime.run(["bash", "-c", _TOGETHER, mark, *(str(c) for c in commands)], {})
        outputs, errors = (text.split(f"{mark}\n")[:-1] for text in (done.stdout, done.stderr))
        return [output + error for output, error in zip(outputs, errors)]  # noqa: B905

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call one of these tools. Failures are returned as text, as the program of the harness does."""
        if name == "bash":
            done = await self._runtime.run(["bash", "-c", str(arguments.get("command", ""))], {})
            return str(done.stdout + done.stderr)
        path, old, new = (arguments.get(key) for key in ("path", "old_str", "new_str"))
        if not isinstance(path, str) or not path:
            return "error: 'path' is required"
        if not isinstance(old, str) or not isinstance(new, str):
            return "error: 'old_str' and 'new_str' must be strings"
        if not old:
            return "error: 'old_str' must be a non-empty string"
        try:
            content = (await self._runtime.read(path)).decode()
        except Exception as error:
            return f"error: could not read {path}: {error}"
        number = content.count(old)
        if number != 1:
            return f"error: old_str must appear exactly once in {path} (found {number})"
        await self._runtime.write(path, content.replace(old, new, 1).encode())
        return f"Edited {path}"


_TOGETHER = 'for one in "$@"; do bash -c "$one"; echo "$0"; echo "$0" >&2; done'
"""Runs commands one after the other. The mark behind the output of each is the name of this program."""


def _command(call: dict[str, Any]) -> str | None:
    """Return the command of a valid call of the tool `bash`; None for another call."""
    try:
        arguments = json.loads(call["function"]["arguments"] or "{}")
    except json.JSONDecodeError:
        return None
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return command if call["function"]["name"] == "bash" and isinstance(command, str) else None


async def _tool_result(mcp: Any, servers: Any, dispatch: Any, shell: _ShellTools, name: str, given: str) -> Any:
    """Call a tool and return its output. For an invalid call, return the error text of verifiers' chat program."""
    try:
        arguments = json.loads(given or "{}")
    except json.JSONDecodeError as error:
        return f"error: invalid JSON in tool arguments ({error}); resend the call with valid JSON"
    if not isinstance(arguments, dict):
        return f"error: tool arguments must be a JSON object, got {type(arguments).__name__}; resend as an object"
    if name in shell.names and name not in dispatch:
        return await shell.call(name, arguments)
    if name not in dispatch:
        return f"error: unknown tool {name!r}"
    return await mcp.call_mcp(servers, dispatch, name, arguments)
