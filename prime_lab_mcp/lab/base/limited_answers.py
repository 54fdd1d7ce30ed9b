"""Reads answers over HTTP up to a size, because a server elsewhere decides how much it sends.

A compressed answer counts with its size after decoding: a megabyte of compressed blanks is a gigabyte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

LISTING_BYTES = 32 << 20
"""Most bytes of a list of models or of a page of a package index. That of OpenRouter had 0.7 MB in 2026."""


async def get_limited(
    client: httpx.AsyncClient, url: str, *, most: int = LISTING_BYTES, headers: Mapping[str, str] | None = None
) -> httpx.Response:
    """Request a page and return its status and content. Raises httpx.HTTPError, also for a page above `most` bytes."""
    import httpx

    async with client.stream("GET", url, headers=headers) as answer:
        content = await read_limited(answer, most)
        return httpx.Response(answer.status_code, content=content, request=answer.request)


async def read_limited(answer: httpx.Response, most: int) -> bytes:
    """Read the content of an open answer. Raises httpx.HTTPError, also for a content above `most` bytes."""
    content = bytearray()
    async for chunk in answer.aiter_bytes():
        content += chunk
        if len(content) > most:
            raise too_long(answer, most)
    return bytes(content)


def too_long(answer: httpx.Response, most: int) -> httpx.HTTPError:
    """The error for an answer above `most` bytes."""
    import httpx

    return httpx.DecodingError(f"the answer has more than {most >> 20} MiB", request=answer.request)
