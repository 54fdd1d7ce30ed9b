"""A chat harness for verifiers v1 that runs inside the process of `vf-eval`. Its id is `vf-lab-chat`.

The harness behaves as the built-in `null` harness but is faster. For each rollout, `null` starts a `uv` script with
packages of its own. For a task without tools, this harness sends one POST request instead. For a task with tools, it
runs the script of `null` in this process. PYTHONPATH contains the folder of this package and no other module of this
project.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys
import tempfile
import traceback
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
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
            with tempfile.TemporaryDirectory(prefix="vf-lab-chat-") as folder:
                inside = _ThisProcess(runtime, Path(folder))
                return await super().launch(ctx, trace, inside, endpoint, secret, mcp_urls, data, tool_interception_url)
        system, prompt = self.resolve_prompt(data)
        messages = [{"role": "system", "content": system}] if system else []
        if isinstance(prompt, str):
            messages.append({"role": "user", "content": prompt})
        elif prompt is not None:
            messages += [message_to_wire(message) for message in prompt]
        return await _post_turn(f"{endpoint}/chat/completions", secret, {"model": ctx.model, "messages": messages})


_MARKS = ("\nasync def main() -> None:", "\ndef parse_args() -> argparse.Namespace:", '\nif __name__ == "__main__":')
"""Lines of a chat program that can be run in this process."""
_ARGUMENTS: ContextVar[Any] = ContextVar("arguments of the chat program")
"""The parsed arguments of the conversation that the present task runs."""


class _ThisProcess:
    """A runtime that runs the chat program of `null` in this process. Other programs run in the runtime it stands for.

    A process for each conversation takes seconds of CPU for its imports.
    """

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self._runtime = runtime
        self._folder = folder
        self._program: ModuleType | None = None
        self._messages: dict[str, bytes] = {}
        """The files that `null` writes and names in the program's arguments."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runtime, name)

    async def prepare_uv_script(
        self, script: str | bytes, env: dict[str, str] | None = None, *, activate: bool = True
    ) -> list[str]:
        text = script if isinstance(script, str) else script.decode()
        self._program = None if env else _chat_program(text)
        path = ".vf-lab-chat.py"
        if self._program is None:
            await self._runtime.write(path, text.encode())
        return [sys.executable, path]

    async def write(self, path: str, data: bytes) -> None:
        self._messages[path] = data

    async def run_program(self, argv: list[str], env: dict[str, str]) -> ProgramResult:
        if self._program is None:
            for path, data in self._messages.items():
                await self._runtime.write(path, data)
            return await self._runtime.run_program(argv, env)
        words = argv[2:]
        for path, data in self._messages.items():
            file = self._folder / path
            file.write_bytes(data)
            words = [word.replace(f"={path}", f"={file}") if word.endswith(f"={path}") else word for word in words]
        return await _conversation(self._program, words)


@functools.lru_cache(maxsize=4)
def _chat_program(text: str) -> ModuleType | None:
    """The chat program as a module whose arguments are those of the present task; None if it is another program."""
    if not all(line in text for line in _MARKS):
        return None
    program = ModuleType("vf_lab_chat_program")
    exec(compile(text, "vf_lab_chat_program.py", "exec"), program.__dict__)
    program.__dict__["parse_words"] = program.parse_args
    program.__dict__["parse_args"] = _ARGUMENTS.get
    return program


async def _conversation(program: ModuleType, words: list[str]) -> ProgramResult:
    """Run one conversation. The result is the one that the program's process would have."""
    try:
        # The program reads its arguments from `sys.argv`. Nothing else runs until they are parsed.
        whole, sys.argv = sys.argv, [program.__name__, *words]
        try:
            parsed = program.parse_words()
        finally:
            sys.argv = whole
        _ARGUMENTS.set(parsed)
        await program.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        return ProgramResult(code, "", traceback.format_exc()[-2000:])
    except Exception:
        return ProgramResult(1, "", traceback.format_exc()[-2000:])
    return ProgramResult(0, "", "")


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
