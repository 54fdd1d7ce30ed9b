"""GPUs for rent and pods that run, as `prime` 0.18.0 lists them. Nothing here rents, stops or ends one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from prime_lab_mcp.lab.prime import refusals
from prime_lab_mcp.lab.prime.answers import number
from prime_lab_mcp.lab.prime.program import Program, parse
from prime_lab_mcp.lab.prime.refusals import Refusal
from prime_lab_mcp.lab.text import quote

_SECONDS = 40
_PRICED = 5
"""Pods asked for their price, each with a program start of its own; the list itself names none."""
_MEMORY = re.compile(r"(\d+)\s*GB\b")
_WORD = re.compile(r"[\w .:,+/()-]{1,60}")
_OVER = frozenset({"TERMINATED", "TERMINATING"})


@dataclass(frozen=True, slots=True)
class GpuOffer:
    """One row of `prime availability list`: what a pod of it would cost. `memory_gb` is of one GPU."""

    id: str
    gpu_type: str
    gpus: int
    memory_gb: int
    price_per_hour: float
    """US dollars for all of its GPUs."""
    provider: str
    location: str
    stock: str
    spot: bool


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that is not terminated, so it is billed. `price_per_hour` is None where it was not told."""

    id: str
    name: str
    gpu: str
    status: str
    created_at: str
    price_per_hour: float | None = None


async def gpu_offers(program: Program, gpus: int) -> tuple[GpuOffer, ...]:
    """Priced offers of exactly so many GPUs, cheapest first. Raises Refusal."""
    doing = "listing GPUs for rent"
    arguments = ["availability", "list", "--gpu-count", str(gpus), "--output", "json"]
    text = await program.text(arguments, timeout=_SECONDS, doing=doing)
    if "Error fetching availability" in text:  # prime prints this, lists nothing, and ends with 0
        raise refusals.of(refusals.GARBLED, doing, refusals.clean(text)[:200])
    rows = parse(text, doing).get("gpu_resources") or ()
    found = [offer for row in rows if isinstance(row, Mapping) and (offer := _offer(row)) is not None]
    return tuple(sorted(found, key=lambda o: (o.price_per_hour, o.id)))


async def pods(program: Program) -> tuple[Pod, ...]:
    """Pods of this account that are not terminated, oldest first, the first few with their price. Raises Refusal."""
    told = await program.json(["pods", "list", "--output", "json"], timeout=_SECONDS, doing="listing the pods")
    found = [_pod(row) for row in told.get("pods") or () if isinstance(row, Mapping)]
    found = [pod for pod in found if pod.status not in _OVER]
    prices: dict[str, float | None] = {}

    async def ask(id: str) -> None:
        try:
            told = await program.json(
                ["pods", "status", id, "--output", "json"], timeout=_SECONDS, doing="asking what a pod costs"
            )
        except Refusal:
            return
        prices[id] = number(told.get("cost_per_hour"))

    async with anyio.create_task_group() as asking:
        for pod in found[:_PRICED]:
            asking.start_soon(ask, pod.id)
    return tuple(Pod(p.id, p.name, p.gpu, p.status, p.created_at, prices.get(p.id)) for p in found)


def _offer(row: Mapping[str, Any]) -> GpuOffer | None:
    """None for a row without a price or a size."""
    price, gpus = number(row.get("price_value")), number(row.get("gpu_count"))
    kind = str(row.get("gpu_type") or "")
    # The type's name states the memory of one GPU; what `gpu_memory` counts for several is not documented.
    stated = _MEMORY.search(kind)
    memory = float(stated[1]) if stated else number(row.get("gpu_memory"))
    if price is None or not math.isfinite(price) or not gpus or not memory:
        return None
    return GpuOffer(
        id=_word(row.get("id")),
        gpu_type=_word(kind),
        gpus=int(gpus),
        memory_gb=int(memory),
        price_per_hour=price,
        provider=_word(row.get("provider")),
        location=_word(row.get("location")),
        stock=_word(row.get("stock_status")),
        spot=bool(row.get("is_spot")),
    )


def _pod(row: Mapping[str, Any]) -> Pod:
    fields = ("id", "name", "gpu", "status", "created_at")
    id, name, gpu, status, created = (_word(row.get(f)) for f in fields)
    return Pod(id, name or id, gpu, status, created)


def _word(value: object) -> str:
    """A name as the platform has it, quoted where it is more than a name."""
    text = "" if value is None else str(value)
    return text if not text or _WORD.fullmatch(text) else quote(text, limit=60)
