"""A chat harness for verifiers v1 that runs inside `vf-eval` itself, chosen by the id `vf-lab-chat`.

It behaves as the built-in `null` harness, which starts a `uv` script with its own packages for every rollout. A task
without tools is one POST per turn here; a task with tools runs the same program of verifiers, under this interpreter.
The folder that holds this package goes on PYTHONPATH; nothing else of ours is importable there.
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
_WAITS = (0.5, 1.5)
"""Seconds before the second and third attempt, as often as the SDK inside `null` tries."""
_OVERFLOW = ("context_length", "context length", "maximum context", "too many tokens", "prompt is too long")


class LabChatHarnessConfig(NullHarnessConfig):  # type: ignore[misc, unused-ignore]
    """No settings of its own."""


class LabChatHarness(NullHarness):  # type: ignore[misc, unused-ignore]
    """`null` without a process per rollout."""

    async def setup(self, runtime: Runtime) -> None:
        """Nothing to install: the packages of verifiers are enough."""

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
                ctx, trace, _Here(runtime), endpoint, secret, mcp_urls, data, tool_interception_url
            )
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        elif prompt is not None:
            messages += [message_to_wire(message) for message in prompt]
        return await _say(f"{endpoint}/chat/completions", secret, {"model": ctx.model, "messages": messages})


class _Here:
    """A runtime whose scripts run under this interpreter, which has every package that they declare."""

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


async def _say(url: str, secret: str, body: dict[str, Any]) -> ProgramResult:
    """One turn. The interception server records the reply or the error; the exit code tells it which it was."""
    payload = json.dumps(body).encode()
    status, text = 0, ""
    async with aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=None)) as session:
        for attempt in range(len(_WAITS) + 1):
            headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
            if attempt:
                await asyncio.sleep(_WAITS[attempt - 1])
                # Marks a repetition, so that the interception server never records one turn twice.
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
    if status in (400, 413) and any(mark in text.casefold() for mark in _OVERFLOW):
        # As in `null`: a full context ends the conversation, it does not fail the rollout.
        return ProgramResult(0, "", text[-2000:])
    return ProgramResult(1, "", f"HTTP {status}: {text[-2000:]}")
