"""`lab://models`: the registry alone, or joined with what the platform lists."""

from __future__ import annotations

from datetime import UTC, datetime

from prime_lab_mcp.lab.models import listing
from prime_lab_mcp.lab.models.listing import LiveLists
from prime_lab_mcp.lab.models.page import page_text
from prime_lab_mcp.lab.models.registry import load_registry
from prime_lab_mcp.lab.prime.answers import HostedGpuOffer, PlatformModels

NOW = datetime(2026, 11, 22, 4, 0, tzinfo=UTC)
OFFERED = PlatformModels(
    {"zai-org/GLM-4.5-Air": ("H200_141GB",), "somebody/Odd|Name": ()}, (HostedGpuOffer("H200_141GB", 3.5, True, False),)
)
SERVED = {
    "z-ai/glm-4.5-air": {"id": "z-ai/glm-4.5-air", "serving": "hosted", "pricing": {"input_usd_per_mtok": 0.2}},
    "x/`y`\u202e": {"id": "x"},
}
LISTS = LiveLists(SERVED, OFFERED, (), {listing.folded_name(name): name for name in OFFERED.trainable})


def test_without_the_platform_it_is_the_registry_alone_and_says_so() -> None:
    page = page_text(LiveLists(None, None), NOW)
    assert "could not be asked (2026-11-22 04:00 UTC): this is the registry alone" in page
    assert "Trained by the platform now" not in page
    assert [row.name for row in load_registry().rows if f"`{row.name}`" not in page] == []
    for key in load_registry().sources:
        assert f"- {key}: " in page


def test_live_lists_are_joined_under_any_spelling_and_dated() -> None:
    page = page_text(LISTS, NOW)
    assert "Live lists of the platform, 2026-11-22 04:00 UTC" in page
    assert "| `z-ai/glm-4.5-air` | 0.2 /  | 131072 | yes |" in page
    assert "| H200_141GB | 3.5 | yes | 141 |" in page


def test_a_served_spelling_is_trained_under_its_published_name() -> None:
    row = listing.model_row("z-ai/glm-4.5-air", LISTS, {})
    assert (row["trainable"], row["train_as"], row["readiness"]) == (True, "zai-org/GLM-4.5-Air", "ready")
    assert listing.listed_names(LISTS) == ["z-ai/glm-4.5-air", "x/`y`\u202e", "somebody/Odd|Name"]


def test_foreign_names_cannot_break_out_of_their_cell() -> None:
    page = page_text(LISTS, NOW)
    assert "\u202e" not in page
    assert "somebody/Odd\\|Name" in page
