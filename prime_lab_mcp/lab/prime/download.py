"""Downloads a published wheel from the address that `prime env info` prints. No key is sent."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

from prime_lab_mcp.lab.base.limited_answers import get_limited
from prime_lab_mcp.lab.prime import refusals
from prime_lab_mcp.lab.prime.answers import WheelPlace

_MAX_BYTES = 512 * 1024 * 1024
_SECONDS = 60.0
_LINK = re.compile(r"""href\s*=\s*["']([^"']+)["']""", re.I)


async def fetch_wheel(place: WheelPlace, target: Path, doing: str, *, trust_env: bool) -> Path:
    """Download a wheel to `target`. Raises PrimeRefusal. With `trust_env`, the proxies of the environment are used."""
    import httpx

    try:
        async with httpx.AsyncClient(timeout=_SECONDS, follow_redirects=True, trust_env=trust_env) as client:
            url = place.url if place.name is None else await _in_index(client, place, doing)
            size = 0
            async with client.stream("GET", url) as answer:
                answer.raise_for_status()
                with target.open("wb") as sink:
                    async for chunk in answer.aiter_bytes():
                        size += len(chunk)
                        if size > _MAX_BYTES:
                            raise refusals.refusal_of_kind(refusals.GARBLED, doing, "the wheel is too large")
                        sink.write(chunk)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise refusals.refusal_of_kind(refusals.SLOW, doing, f"{type(error).__name__}: {error}") from error
    return target


async def _in_index(client: Any, place: WheelPlace, doing: str) -> str:
    """Find the address of a wheel in a package index (PEP 503). Raises PrimeRefusal."""
    page_url = f"{place.url.rstrip('/')}/{re.sub(r'[-_.]+', '-', place.name or '').lower()}/"
    answer = await get_limited(client, page_url)
    answer.raise_for_status()
    module = re.sub(r"[-_.]+", "_", place.name or "").lower()
    for link in map(unescape, _LINK.findall(answer.text)):
        address = str(urljoin(str(answer.url), link)).partition("#")[0]
        file = unquote(address.partition("?")[0].rsplit("/", 1)[-1])
        parts = file.removesuffix(".whl").split("-")
        if file.endswith(".whl") and parts[0].lower() == module and len(parts) > 1 and parts[1] == place.version:
            return address
    raise refusals.refusal_of_kind(refusals.GARBLED, doing, "the index lists no such wheel")
