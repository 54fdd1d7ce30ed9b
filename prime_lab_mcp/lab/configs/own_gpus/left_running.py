"""Pods that are still billed: said wherever somebody looks, as nobody else does."""

from __future__ import annotations

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.pods import Pod
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count, quote

_SHOWN = 10


async def running(lab: Lab) -> tuple[Finding, ...]:
    """A warning that names every pod of the account; nothing where there is none or the account cannot be asked."""
    try:
        return pods_running(await lab.prime.pods())
    except LabError:
        return ()


def pods_running(pods: tuple[Pod, ...]) -> tuple[Finding, ...]:
    """The same of pods already listed."""
    if not pods:
        return ()
    prices = [p.price_per_hour for p in pods]
    known = [p for p in prices if p is not None]
    least = "at least " if len(known) < len(prices) else ""
    cost = f", {least}${sum(known):.2f} per hour together" if known else ", at a price that was not told"
    rows = tuple(
        {
            "id": p.id, "name": p.name, "gpu": p.gpu, "status": p.status, "price_per_hour": p.price_per_hour,
            "since": p.created_at,
        }
        for p in pods[:_SHOWN]
    )  # fmt: skip
    return (
        Finding(
            "pods-running",
            "warning",
            f"{count(len(pods), 'pod')} of this account {'is' if len(pods) == 1 else 'are'} running{cost}: "
            + ", ".join(quote(p.name, limit=40) for p in pods[:3])
            + (" and more" if len(pods) > 3 else ""),
            "If nothing runs on it, ask the user to run `prime pods terminate POD_ID`; this server ends no pod.",
            rows=rows,
        ),
    )
