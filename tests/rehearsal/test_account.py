"""The real `prime` reads the account, and is refused as the real platform refuses."""

from __future__ import annotations

import json

import anyio
import pytest

from prime_lab_mcp.lab.base.process import CompletedProcess
from tests.rehearsal.conftest import Platform


@pytest.mark.anyio
async def test_the_account_is_the_rehearsal_one_and_the_users_home_stays_untouched(
    platform: Platform,
) -> None:
    done: dict[str, CompletedProcess] = {}

    async def call(name: str, *arguments: str, **variables: str) -> None:
        done[name] = await platform.prime(*arguments, **variables)

    async with anyio.create_task_group() as group:
        group.start_soon(call, "whoami", "whoami", "--plain")
        group.start_soon(call, "wallet", "wallet", "-o", "json")
        group.start_soon(call, "teams", "teams", "list", "-o", "json")
    refused = await platform.prime("whoami", PRIME_API_KEY="somebody-else")

    assert "Username  rehearsal" in done["whoami"].stdout
    assert json.loads(done["wallet"].stdout)["balance_usd"] == 100.0
    roles = {t["slug"]: t["role"] for t in json.loads(done["teams"].stdout)["teams"]}
    assert roles == {"rehearsal-lab": "ADMIN", "rehearsal-guests": "VIEWER"}
    assert refused.returncode == 1
    assert "API key unauthorized" in refused.stdout
    assert (platform.folder / "home" / ".prime" / "config.json").is_file()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("402", "Payment required"),
        ("404", "HTTP 404:"),
        ("422", "Validation failed:"),
        ("drop-before", "Request failed: RemoteProtocolError"),
    ],
)
async def test_an_ordered_http_fault_reaches_the_cli_once(platform: Platform, kind: str, said: str) -> None:
    await platform.tell("/rehearsal/faults", scope="http", kind=kind, path="/user/whoami")

    first = await platform.prime("whoami", "--plain")

    assert first.returncode == 1
    assert said in first.stdout
    assert (await platform.requests("GET", "/user/whoami"))[0]["fault"] == kind
    assert await platform.ask("/rehearsal/faults") == {"faults": []}


@pytest.mark.anyio
async def test_a_slow_answer_is_slow_and_right(platform: Platform) -> None:
    await platform.tell("/rehearsal/faults", kind="slow", path="/billing/wallet", seconds=2.5)

    done = await platform.prime("wallet", "-o", "json")

    assert done.seconds > 2.5
    assert json.loads(done.stdout)["currency"] == "USD"
