"""Lists GPUs for rent and running pods with `prime` 0.18.0. This module never rents, stops or terminates a pod."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.prime import refusals
from prime_lab_mcp.lab.prime.answers import finite_number
from prime_lab_mcp.lab.prime.program import PrimeProgram, parse_json
from prime_lab_mcp.lab.prime.refusals import PrimeRefusal

_SECONDS = 40
_PRICED = 5
"""Number of pods whose price is requested. Each price takes one start of `prime`, because the list has no prices."""
_MEMORY = re.compile(r"(\d+)\s*GB\b")
_WORD = re.compile(r"[\w .:,+/()-]{1,60}")
_ENDED = frozenset({"TERMINATED", "TERMINATING"})


@dataclass(frozen=True, slots=True)
class GpuOffer:
    """One row of `prime availability list`: a pod for rent. `memory_gb` is the memory of one GPU."""

    id: str
    gpu_type: str
    gpus: int
    memory_gb: int
    price_per_hour: float
    """US dollars for all GPUs of the pod."""
    provider: str
    location: str
    stock: str
    spot: bool


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that is not terminated and therefore billed. `price_per_hour` is None if unknown."""

    id: str
    name: str
    gpu: str
    status: str
    created_at: str
    price_per_hour: float | None = None


async def gpu_offers(program: PrimeProgram, gpus: int) -> tuple[GpuOffer, ...]:
    """Offers with a price and exactly this number of GPUs, cheapest first. Raises PrimeRefusal."""
    doing = "listing GPUs for rent"
    arguments = ["availability", "list", "--gpu-count", str(gpus), "--output", "json"]
    text = await program.text(arguments, timeout=_SECONDS, doing=doing)
    if "Error fetching availability" in text:  # prime prints this and still exits with 0
        raise refusals.refusal_of_kind(refusals.GARBLED, doing, refusals.clean_output(text)[:200])
    rows = parse_json(text, doing).get("gpu_resources") or ()
    offers = [offer for row in rows if isinstance(row, Mapping) and (offer := _offer(row)) is not None]
    return tuple(sorted(offers, key=lambda o: (o.price_per_hour, o.id)))


async def pods(program: PrimeProgram) -> tuple[Pod, ...]:
    """Pods of this account that are not terminated, oldest first; only the first few have a price.

    Raises PrimeRefusal.
    """
    answer = await program.json(["pods", "list", "--output", "json"], timeout=_SECONDS, doing="listing the pods")
    listed = [_pod(row) for row in answer.get("pods") or () if isinstance(row, Mapping)]
    listed = [pod for pod in listed if pod.status not in _ENDED]
    prices: dict[str, float | None] = {}

    async def ask(id: str) -> None:
        try:
            answer = await program.json(
                ["pods", "status", id, "--output", "json"], timeout=_SECONDS, doing="asking what a pod costs"
            )
        except PrimeRefusal:
            return
        prices[id] = finite_number(answer.get("cost_per_hour"))

    async with anyio.create_task_group() as asking:
        for pod in listed[:_PRICED]:
            asking.start_soon(ask, pod.id)
    return tuple(Pod(p.id, p.name, p.gpu, p.status, p.created_at, prices.get(p.id)) for p in listed)


def _offer(row: Mapping[str, Any]) -> GpuOffer | None:
    """Parse a row of the list; None if it has no price, GPU count or memory size."""
    price, gpus = finite_number(row.get("price_value")), finite_number(row.get("gpu_count"))
    kind = str(row.get("gpu_type") or "")
    # The GPU type names the memory of one GPU. Whether `gpu_memory` is per GPU is not documented.
    stated = _MEMORY.search(kind)
    memory = float(stated[1]) if stated else finite_number(row.get("gpu_memory"))
    if price is None or not math.isfinite(price) or not gpus or not memory:
        return None
    return GpuOffer(
        id=_safe_name(row.get("id")),
        gpu_type=_safe_name(kind),
        gpus=int(gpus),
        memory_gb=int(memory),
        price_per_hour=price,
        provider=_safe_name(row.get("provider")),
        location=_safe_name(row.get("location")),
        stock=_safe_name(row.get("stock_status")),
        spot=bool(row.get("is_spot")),
    )


def _pod(row: Mapping[str, Any]) -> Pod:
    fields = ("id", "name", "gpu", "status", "created_at")
    id, name, gpu, status, created = (_safe_name(row.get(f)) for f in fields)
    return Pod(id, name or id, gpu, status, created)


def _safe_name(value: object) -> str:
    """Return a name of the platform, quoted if it contains unusual characters."""
    text = "" if value is None else str(value)
    return text if not text or _WORD.fullmatch(text) else quote(text, limit=60)
