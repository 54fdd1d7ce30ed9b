"""A chat harness for verifiers v1 that runs inside the process of `vf-eval`. Its id is `vf-lab-chat`.

The harness behaves as the built-in `null` harness but is faster. For each rollout, `null` starts a `uv` script with
packages of its own. For a task without tools, this harness sends one POST request instead. For a task with tools, it
runs the script of `null` with the current interpreter. PYTHONPATH contains the folder of this package and no other
module of this project.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import aiohttp
from verifiers.v1.dialects.chat import message_to_wire  # type: ignore[import-untyped, unused-ignore]
from verifiers.v1.harnesses.null import NullHarness, NullHarnessConfig  # type: ignore[import-untyped, unused-ignore]
from verifiers.v1.runtimes import ProgramResult, Runtime  # type: ignore[import-untyped, unused-ignore]

__all__ = ["LabChatHarness", "LabChatHarnessConfig"]

_RETRIED = frozenset({408, 409, 429, 500, 502, 503, 504})
_RETRY_SECONDS = (0.5, 1.5)
"""Seconds before the second and third attempt. The SDK in `null` also makes three attempts."""
_CONTEXT_OVERFLOW = ("context_length", "context length", "maximum context", "too many tokens", "prompt is too long")


class LabChatHarnessConfig(NullHarnessConfig):  # type: ignore[misc, unused-ignore]
    """The settings of `null`."""


class LabChatHarness(NullHarness):  # type: ignore[misc, unused-ignore]
    """The harness `null` without a process for each rollout."""

    async def setup(self, runtime: Runtime) -> None:
        """Do nothing: all packages that the harness needs come with verifiers."""

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
        if mcp_urls:
            return await super().launch(
                ctx, trace, _ThisInterpreter(runtime), endpoint, secret, mcp_urls, data, tool_interception_url
            )
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        elif prompt is not None:
            messages += [message_to_wire(message) for message in prompt]
        return await _post_turn(f"{endpoint}/chat/completions", secret, {"model": ctx.model, "messages": messages})


class _ThisInterpreter:
    """A runtime that runs scripts with the current interpreter, which has all packages that the scripts declare."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    async def prepare_uv_script(
        self, script: str | bytes, env: dict[str, str] | None = None, *, activate: bool = True
    ) -> list[str]:
        path = ".vf-lab-chat.py"
        await self._runtime.write(path, script.encode() if isinstance(script, str) else script)
        return [sys.executable, path]


async def _post_turn(url: str, secret: str, body: dict[str, Any]) -> ProgramResult:
    """Request one turn of the model. The exit code of the result is 0 for a reply and 1 for an error.

    verifiers' interception server, to which the request goes, records the reply.
    """
    payload = json.dumps(body).encode()
    status, text = 0, ""
    async with aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=None)) as session:
        for attempt in range(len(_RETRY_SECONDS) + 1):
            headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
            if attempt:
                await asyncio.sleep(_RETRY_SECONDS[attempt - 1])
                # The header marks a retry, so that the interception server does not record the turn twice.
                headers["x-stainless-retry-count"] = str(attempt)
            try:
                async with session.post(url, data=payload, headers=headers) as answer:
                    status, text = answer.status, await answer.text()
            except aiohttp.ClientError as error:
                status, text = 503, f"{type(error).__name__}: {error}"
            if status not in _RETRIED:
                break
    if status < 400:
        return ProgramResult(0, "", "")
    if status in (400, 413) and any(mark in text.casefold() for mark in _CONTEXT_OVERFLOW):
        # As in `null`, a full context ends the conversation and does not make the rollout fail.
        return ProgramResult(0, "", text[-2000:])
    return ProgramResult(1, "", f"HTTP {status}: {text[-2000:]}")
