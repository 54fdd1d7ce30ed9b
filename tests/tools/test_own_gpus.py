"""GPU offers and forgotten pods through the real prime against the rehearsal platform."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.configs.own_gpus import billed_pods_finding
from prime_lab_mcp.tools.write_training_config import TOOL
from tests.tools.loopback import Desk

pytestmark = pytest.mark.anyio


async def test_offers_and_forgotten_pods_are_what_prime_lists(at: Desk) -> None:
    await at.tell("/rehearsal/pods", name="old run", price=2.5)
    found = await at.call(TOOL, environments=["primeintellect/reverse-text@0.2.0"], target="self-managed", gpus=1)
    offers = found.data["gpu_offers"]
    prices = [o["price_per_hour"] for o in offers["offers"]]
    assert offers["known"]
    assert prices == sorted(prices)
    assert all(o["memory_gb"] >= offers["needs_gb_per_gpu"] for o in offers["offers"])
    assert "RTX4090 24GB" not in {o["gpu"] for o in offers["offers"]}
    (warned,) = [f for f in found.findings if f.code == "pods-running"]
    assert (warned.rows[0]["name"], warned.rows[0]["price_per_hour"]) == ("old run", 2.5)
    assert await at.requests("POST", "/api/v1/pods") == []


@pytest.mark.slow
async def test_a_platform_that_lists_no_offers_leaves_them_unknown(at: Desk) -> None:
    # prime prints the error, lists nothing and ends with 0.
    await at.fault("500", "/availability/gpus", times=3)
    found = await at.call(TOOL, environments=["primeintellect/reverse-text@0.2.0"], target="self-managed")
    assert found.data["gpu_offers"]["known"] is False


@pytest.mark.slow
async def test_no_pod_no_warning(at: Desk) -> None:
    await at.tell("/rehearsal/pods", name="another old run", price=1.5)
    assert [f.code for f in await billed_pods_finding(at.lab)] == ["pods-running"]
    for pod in await at.lab.prime.pods():
        await at.lab.prime._program.text(["pods", "terminate", pod.id, "--yes"], timeout=40, doing="ending it")
    assert await billed_pods_finding(at.lab) == ()
