"""Caches the platform's answers during one tool call, so that each request is sent once.

The gate, the plan and the second check of the gate share one `PlatformAnswers`. A plan that waits for a confirmation
keeps its cache as well. Facts that must be fresh at the moment of sending come from `Prime` itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio

from prime_lab_mcp.lab.prime.answers import Account, PlatformModels, Team, Wallet

T = TypeVar("T")


class PlatformReader(Protocol):
    """The read-only requests to the platform. `Prime` sends every request; `PlatformAnswers` sends each request
    once."""

    async def ask_ahead(self, refs: Sequence[str], pinned: Sequence[str], archives: Mapping[str, Path]) -> None: ...

    async def ask_entries_ahead(self, refs: Sequence[str]) -> None: ...

    async def account(self) -> Account: ...

    async def teams(self) -> tuple[Team, ...]: ...

    async def wallet(self) -> Wallet: ...

    async def models(self) -> PlatformModels: ...

    async def inference_models(self) -> list[dict[str, Any]]: ...

    async def env_status(self, ref: str) -> dict[str, Any]: ...

    async def env_versions(self, ref: str) -> dict[str, str]: ...

    async def env_inspect(self, ref: str, path: str | None = None) -> dict[str, Any]: ...


class PlatformAnswers:
    """A `PlatformReader` that caches answers. Failures are not cached, so the next caller asks the platform again."""

    def __init__(self, platform: Callable[[], PlatformReader]) -> None:
        """`platform` is called with the first request, because most calls send none and the client takes long to
        import."""
        self._platform = platform
        self._answers: dict[tuple[str | None, ...], Any] = {}
        self._asking: dict[tuple[str | None, ...], anyio.Lock] = {}

    async def ask_ahead(self, refs: Sequence[str], pinned: Sequence[str], archives: Mapping[str, Path]) -> None:
        """Send the requests that follow in one process. Only the first call of a tool call does so; later answers are
        cached."""
        await self._once(("ask_ahead",), lambda: self._platform().ask_ahead(refs, pinned, archives))

    async def ask_entries_ahead(self, refs: Sequence[str]) -> None:
        """Request the models, the wallet, and the entries that are not cached yet, in one process. Nothing is requested
        if `ask_ahead` did and no entry is missing."""
        missing = [ref for ref in refs if ("env_status", ref) not in self._answers]
        if missing or ("ask_ahead",) not in self._answers:
            await self._platform().ask_entries_ahead(missing)

    async def account(self) -> Account:
        return await self._once(("account",), lambda: self._platform().account())

    async def teams(self) -> tuple[Team, ...]:
        return await self._once(("teams",), lambda: self._platform().teams())

    async def wallet(self) -> Wallet:
        return await self._once(("wallet",), lambda: self._platform().wallet())

    async def models(self) -> PlatformModels:
        return await self._once(("models",), lambda: self._platform().models())

    async def inference_models(self) -> list[dict[str, Any]]:
        return await self._once(("inference_models",), lambda: self._platform().inference_models())

    async def env_status(self, ref: str) -> dict[str, Any]:
        return await self._once(("env_status", ref), lambda: self._platform().env_status(ref))

    async def env_versions(self, ref: str) -> dict[str, str]:
        return await self._once(("env_versions", ref), lambda: self._platform().env_versions(ref))

    async def env_inspect(self, ref: str, path: str | None = None) -> dict[str, Any]:
        return await self._once(("env_inspect", ref, path), lambda: self._platform().env_inspect(ref, path))

    async def _once(self, question: tuple[str | None, ...], ask: Callable[[], Awaitable[T]]) -> T:
        async with self._asking.setdefault(question, anyio.Lock()):
            if question not in self._answers:
                self._answers[question] = await ask()
            answer: T = self._answers[question]
            return answer
