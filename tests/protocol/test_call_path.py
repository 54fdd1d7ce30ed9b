"""The call path through the SDK's own client, in memory, in both protocol eras."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult, ElicitResult

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.app import build_server
from tests.protocol.toys import TOYS

Era = Literal["legacy", "auto"]
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ["legacy", "auto"])]


@asynccontextmanager
async def connected(settings: Settings, era: Era, answer: str | None = None) -> AsyncIterator[Client]:
    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        if answer == "accept":
            return ElicitResult(action="accept", content={"approve": True})
        return ElicitResult(action="decline")

    options: dict[str, Any] = {"elicitation_callback": elicit} if answer else {}
    async with Client(build_server(Lab(settings), TOYS), mode=era, **options) as client:
        client.asked = asked  # type: ignore[attr-defined]
        yield client


def shown(result: CallToolResult) -> dict[str, Any]:
    assert result.structured_content is not None
    return result.structured_content


async def test_a_call_returns_the_report_as_structured_content_and_text(settings: Settings, era: Era) -> None:
    async with connected(settings, era) as client:
        result = await client.call_tool("echo", {"number": 3})
    assert shown(result)["data"] == {"number": 3, "names": None}
    assert result.content[0].text.startswith("passed: echoed")  # type: ignore[union-attr]
    assert not result.is_error


async def test_progress_reaches_the_client_and_increases(settings: Settings, era: Era) -> None:
    seen: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append(done)

    async with connected(settings, era) as client:
        await client.call_tool("echo", {}, progress_callback=progress)
    assert seen == sorted(set(seen))
    assert [value for value in seen if value >= 1] == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [({"task": 3}, "task"), ({"number": 99}, "number"), ({"number": "three"}, "number"), ({"names": [1]}, "names")],
)
async def test_bad_arguments_are_refused_by_name(
    settings: Settings, era: Era, arguments: dict[str, Any], named: str
) -> None:
    async with connected(settings, era) as client:
        result = await client.call_tool("echo", arguments)
    assert result.is_error
    assert shown(result)["findings"][0]["code"] == "bad-argument"
    assert named in shown(result)["findings"][0]["message"]


async def test_json_text_for_a_list_is_read_as_the_list(settings: Settings, era: Era) -> None:
    async with connected(settings, era) as client:
        result = await client.call_tool("echo", {"names": '["a", "b"]', "number": "2"})
    assert shown(result)["data"] == {"number": 2, "names": ["a", "b"]}


async def test_a_crash_is_reported_without_its_text(settings: Settings, era: Era) -> None:
    async with connected(settings, era) as client:
        result = await client.call_tool("crash", {})
        after = await client.call_tool("echo", {})
    assert result.is_error
    assert shown(result)["findings"][0]["code"] == "internal-error"
    assert "verysecret" not in str(result)
    assert shown(after)["status"] == "passed"


async def test_a_refusal_says_what_to_do_next(settings: Settings, era: Era) -> None:
    async with connected(settings, era) as client:
        result = await client.call_tool("refuse", {})
    assert shown(result)["status"] == "error"
    assert shown(result)["findings"][0]["fix"] == "Do the other thing."
    assert shown(result)["next"][0]["tool"] == "echo"


async def test_an_unknown_tool_is_an_error_that_lists_the_tools(settings: Settings, era: Era) -> None:
    async with connected(settings, era) as client:
        result = await client.call_tool("nope", {})
    assert result.is_error
    assert "echo" in shown(result)["findings"][0]["fix"]


async def test_results_are_capped_and_strict_json(settings: Settings, era: Era) -> None:
    import json

    async with connected(settings, era) as client:
        result = await client.call_tool("flood", {})
    assert len(json.dumps(shown(result), ensure_ascii=False, allow_nan=False)) <= 20_000
    assert len(result.content[0].text) <= 20_000  # type: ignore[union-attr]
    assert shown(result)["status"] == "failed"


async def test_spending_asks_the_user_once_where_the_client_can(settings: Settings, era: Era) -> None:
    async with connected(settings, era, answer="accept") as client:
        result = await client.call_tool("spend", {"amount": 3})
        assert client.asked == ["Spend $3.00?"]  # type: ignore[attr-defined]
    assert shown(result)["status"] == "passed"


async def test_a_declined_question_sends_nothing(settings: Settings, era: Era) -> None:
    async with connected(settings, era, answer="decline") as client:
        result = await client.call_tool("spend", {})
    assert shown(result)["status"] == "needs_confirmation"
    assert not (settings.state_dir / "spent").exists()


async def test_without_elicitation_a_token_for_exactly_this_intent_is_needed(settings: Settings, era: Era) -> None:
    async with connected(settings, era) as client:
        first = shown(await client.call_tool("spend", {"amount": 3}))
        token = first["data"]["confirm"]
        other = shown(await client.call_tool("spend", {"amount": 4, "confirm": token}))
        assert not (settings.state_dir / "spent").exists()
        right = shown(await client.call_tool("spend", {"amount": 3, "confirm": token}))
    assert (first["status"], other["status"], right["status"]) == ("needs_confirmation", "needs_confirmation", "passed")
    assert first["next"][0]["arguments"]["confirm"] == token


async def test_yes_is_honoured_only_under_a_spending_cap(settings: Settings, era: Era) -> None:
    async with connected(settings, era) as client:
        without = shown(await client.call_tool("spend", {"yes": True}))
    async with connected(replace(settings, max_spend=10), era) as client:
        under = shown(await client.call_tool("spend", {"yes": True}))
        over = shown(await client.call_tool("spend", {"amount": 11, "yes": True}))
    assert [r["status"] for r in (without, under, over)] == ["needs_confirmation", "passed", "blocked"]
    assert over["findings"][0]["code"] == "over-cap"


async def test_calls_at_once_stay_under_the_cap_together(settings: Settings, era: Era) -> None:
    statuses: list[str] = []

    async with connected(replace(settings, max_spend=10), era) as client:

        async def spend(amount: float) -> None:
            statuses.append(shown(await client.call_tool("spend", {"amount": amount, "yes": True}))["status"])

        async with anyio.create_task_group() as group:
            group.start_soon(spend, 6.0)
            group.start_soon(spend, 5.5)
    assert sorted(statuses) == ["blocked", "passed"]


async def test_what_was_not_sent_is_not_counted_against_the_cap(settings: Settings, era: Era) -> None:
    async with connected(replace(settings, max_spend=20), era) as client:
        failed = shown(await client.call_tool("spend", {"amount": 13, "yes": True}))
        after = shown(await client.call_tool("spend", {"amount": 19, "yes": True}))
    assert (failed["status"], after["status"]) == ("error", "passed")


async def test_approval_always_takes_no_token_that_no_person_approved(settings: Settings, era: Era) -> None:
    from prime_lab_mcp.cli.person import approve

    strict = replace(settings, approval="always", max_spend=10)
    async with connected(strict, era) as client:
        token = shown(await client.call_tool("spend", {"yes": True}))["data"]["confirm"]
        early = shown(await client.call_tool("spend", {"confirm": token}))
        approve(strict, token, assume_yes=True)
        late = shown(await client.call_tool("spend", {"confirm": token}))
    assert (early["status"], late["status"]) == ("needs_confirmation", "passed")


async def test_cancelling_a_call_kills_its_whole_process_group(settings: Settings, era: Era) -> None:
    marker = settings.state_dir / "hang.pid"
    async with connected(settings, era) as client:
        with anyio.move_on_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "hang", {})
                while not (marker.exists() and marker.read_text(encoding="utf-8").strip()):
                    await anyio.sleep(0.02)
                group.cancel_scope.cancel()
        pid = int(marker.read_text(encoding="utf-8"))
        with anyio.fail_after(5):
            while _group_alive(pid):
                await anyio.sleep(0.02)
        after = await client.call_tool("echo", {})
    assert shown(after)["status"] == "passed"


def _group_alive(pgid: int) -> bool:
    for stat in (process / "stat" for process in Path("/proc").glob("[0-9]*")):
        try:
            fields = stat.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == pgid and fields[0] != "Z":
            return True
    return False


async def test_an_import_that_fails_behind_the_answers_ends_no_server(
    settings: Settings, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, failed = build_server(Lab(settings)), anyio.Event()
    whole = server.calls

    async def half() -> object:
        failed.set()
        raise ImportError("the package is being replaced")

    monkeypatch.setattr(server, "calls", half)
    async with Client(server, mode=era) as client:
        await client.list_tools()
        with anyio.fail_after(20):
            await failed.wait()
        await anyio.sleep(0.05)
        monkeypatch.setattr(server, "calls", whole)
        result = await client.call_tool("read_reference", {"topic": "guide/workflow"})
    assert shown(result)["status"] == "passed"
