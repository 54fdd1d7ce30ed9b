"""What a report says beside a config for one's own GPUs: how to run it, what could be rented, what still runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anyio

from prime_lab_mcp.lab.configs.own_gpus.launch import Step, on_a_pod, rentable, run_steps
from prime_lab_mcp.lab.configs.own_gpus.left_running import pods_running
from prime_lab_mcp.lab.configs.own_gpus.memory import needed_gb
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.pods import GpuOffer
from prime_lab_mcp.lab.report import Finding

_OFFERS = 5


@dataclass(frozen=True, slots=True)
class Guidance:
    """`data` holds `launch` and `gpu_offers`."""

    data: dict[str, Any]
    findings: tuple[Finding, ...]


async def guidance(
    lab: Lab, config: Config, path: str, *, shared: bool = False, conversations: str | None = None
) -> Guidance:
    """Never fails for the account: then the offers are said to be unknown. `path` is relative to the workspace."""
    gpus = 1 if shared else config.gpus
    offers: list[GpuOffer] = []
    unknown: list[str] = []
    findings: list[Finding] = []

    async def ask_offers() -> None:
        try:
            offers.extend(await lab.prime.gpu_offers(rentable(gpus)))
        except LabError as error:
            unknown.append(f"{error.message}. {error.fix}")

    async def ask_pods() -> None:
        try:
            findings.extend(pods_running(await lab.prime.pods()))
        except LabError:
            return  # the offers say that the account could not be asked

    async with anyio.create_task_group() as asking:
        asking.start_soon(ask_offers)
        asking.start_soon(ask_pods)
    need = needed_gb(config, shared=shared)
    fitting = [o for o in offers if need is None or o.memory_gb >= need][:_OFFERS]
    run = run_steps(config, path, shared=shared, data=conversations)
    steps = on_a_pod(run, gpus, fitting[0].id if fitting else None)
    return Guidance({"launch": _shown(steps), "gpu_offers": _offered(fitting, offers, unknown, need)}, tuple(findings))


def _shown(steps: tuple[Step, ...]) -> list[dict[str, str]]:
    return [step.as_json() for step in steps]


def _offered(fitting: list[GpuOffer], offers: list[GpuOffer], unknown: list[str], need: float | None) -> dict[str, Any]:
    if unknown:
        return {"known": False, "why": unknown[0]}
    told: dict[str, Any] = {"known": True, "offers": [_row(o) for o in fitting], "of": len(offers)}
    told["needs_gb_per_gpu"] = None if need is None else round(need)
    if need is None:
        told["note"] = "the size of the model is not known, so nothing was left out"
    return told


def _row(offer: GpuOffer) -> dict[str, Any]:
    return {
        "id": offer.id, "gpu": offer.gpu_type, "gpus": offer.gpus, "memory_gb": offer.memory_gb,
        "price_per_hour": offer.price_per_hour, "provider": offer.provider, "location": offer.location,
        "stock": offer.stock,
    }  # fmt: skip
