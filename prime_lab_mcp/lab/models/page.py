"""Writes the page `lab://models`: the registry, joined with the platform's live lists if these can be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from prime_lab_mcp.lab.base.text import escape
from prime_lab_mcp.lab.models import listing, memory
from prime_lab_mcp.lab.models.listing import LiveLists
from prime_lab_mcp.lab.models.registry import KnownModel, ModelRegistry, find_model, load_registry

if TYPE_CHECKING:
    from prime_lab_mcp.lab.lab import Lab

TOPIC = "models"
ABOUT = "Every model the project knows: size, architecture, renderer, tool parser, measured baselines, live prices."
_SECONDS = 12.0
"""Time limit for both live lists together, because a reader waits for the page."""
_SERVED = 120
"""Maximum number of rows in the table of served models."""


async def models_page(lab: Lab) -> str:
    """Read the live lists and write the page. Never raises; without the platform, the page contains only the
    registry."""
    lists = await listing.fetch_lists(lab, _SECONDS)
    return page_text(lists, datetime.now(UTC), rehearsal=lab.settings.rehearsal)


def page_text(lists: LiveLists, now: datetime, *, rehearsal: bool = False) -> str:
    """The page as Markdown: the platform's live lists, then the registry."""
    registry = load_registry()
    parts = [
        "# Models",
        _standing(lists, now, rehearsal=rehearsal),
        *_live(lists),
        "## The registry",
        "Each fact has its date. Baselines are of one tool-calling environment and of few tasks: a hint where to look, "
        "no measurement of yours (`run_eval` makes that). Prices are those of the day named.",
        "\n".join(_table(_HEAD, (_registered(find_model(row.name)) for row in registry.rows))),
        "## Remarks",
        "\n".join(
            f"- `{row.name}`: {f.summary}" for row in registry.rows for f in row.facts if f.what in ("note", "fault")
        ),
        *_closed(registry),
        *_rendered(registry),
        *_trained(registry),
        "## Does it fit?",
        (memory.__doc__ or "").split("\n", 2)[2],
        "## Sources",
        "\n".join(f"- {key}: {source['title']} ({source['date']})" for key, source in registry.sources.items()),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _standing(lists: LiveLists, now: datetime, *, rehearsal: bool) -> str:
    day = f"{now:%Y-%m-%d %H:%M} UTC"
    whose = "the rehearsal platform (made-up prices)" if rehearsal else "the platform"
    if lists.offered is None and lists.served is None:
        return f"The platform could not be asked ({day}): this is the registry alone, as old as each date in it says."
    lacking = " Which models it trains could not be had." if lists.offered is None else ""
    lacking += " Which models it serves could not be had." if lists.served is None else ""
    return f"Live lists of {whose}, {day}; the registry with its own dates below.{lacking}"


def _live(lists: LiveLists) -> Iterator[str]:
    """Tables of the live lists. Model ids and GPU types are the platform's text, so they are escaped."""
    if lists.offered is not None:
        yield "## Trained by the platform now"
        rows = [listing.model_row(name, lists, {}) for name in lists.trainable]
        yield "\n".join(_table(("model", "readiness", "on", "LoRA needs (GPUs)"), map(_trainable, rows))) or "None."
        offers = [
            (escape(o.gpu_type), _money(o.price_per_gpu_hour), _yes(o.available_now), _gib(o.gpu_type))
            for o in lists.offered.offers
        ]
        yield "\n".join(_table(("rented by the hour", "$ per GPU-hour", "free now", "GiB"), offers))
    if lists.served:
        yield "## Served by the platform now"
        rows = [listing.model_row(name, lists, {}) for name in list(lists.served)[:_SERVED]]
        yield "\n".join(_table(("model", "$ in / out per million tokens", "context", "trainable"), map(_served, rows)))
        if len(lists.served) > _SERVED:
            yield f'… and {len(lists.served) - _SERVED} more: `search_hub(kind="model", query=...)` finds them.'


def _trainable(row: Mapping[str, Any]) -> tuple[str, ...]:
    lora = ", ".join(f"{count} x {escape(gpu)}" for gpu, count in row.get("lora_gpus", {}).items())
    return _code(row["id"]), row["readiness"], escape(", ".join(row.get("train_gpus", ()))), lora


def _served(row: Mapping[str, Any]) -> tuple[str, ...]:
    price = f"{_money(row.get('input'))} / {_money(row.get('output'))}"
    return _code(row["id"]), price, str(row.get("context", "")), _yes(row.get("trainable"))


_HEAD = ("model", "size", "architecture", "trainer", "renderer", "tool parser", "context", "baseline", "price")


def _registered(model: KnownModel) -> tuple[str, ...]:
    return (
        _code(model.name),
        _last(model, "size") or (f"{model.parameters:g}B" if model.parameters else ""),
        (model.architecture or "") + (" (vision)" if model.vision else ""),
        "closed" if model.closed else {True: "native", False: "fallback", None: ""}[model.native],
        model.renderer or "",
        _parser(model),
        f"{model.context:,}" if model.context else "",
        _last(model, "baseline"),
        _last(model, "price"),
    )


def _last(model: KnownModel, fact: Any) -> str:
    return next((f.summary for f in model.facts_about(fact)), "")


def _closed(registry: ModelRegistry) -> Iterator[str]:
    yield "## Closed, or for inference only"
    lines = [f"- {v.vendor} (closed, {v.date}): {', '.join(f'`{name}`' for name in v.listed)}" for v in registry.closed]
    lines += [
        f"- {v.vendor} (served and not offered for training under these names, {v.date}): "
        + ", ".join(f"`{name}`" for name in v.listed)
        for v in registry.inference_only
    ]
    yield "\n".join(lines)


def _rendered(registry: ModelRegistry) -> Iterator[str]:
    """Models that prime-rl has a renderer for by name, and about which the registry has no facts."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in registry.renderers:
        if name.lower() not in registry.by_name:
            m = find_model(name)
            trainer = {True: "native", False: "fallback", None: "unknown"}[m.native]
            alike.setdefault((m.architecture or "unknown", trainer, m.renderer or "", _parser(m)), []).append(name)
    yield "## Rendered by prime-rl besides"
    rows = ((", ".join(map(_code, names)), *key) for key, names in alike.items())
    yield "\n".join(_table(("models", "architecture", "trainer", "renderer", "tool parser"), rows))


def _parser(model: KnownModel) -> str:
    return (model.tool_parser or "") + ("" if model.parser_found or not model.tool_parser else " (name it)")


def _trained(registry: ModelRegistry) -> Iterator[str]:
    native = [a for a, support in registry.trained.items() if support["native"]]
    images = [a for a, support in registry.trained.items() if support["images"]]
    on_text = [a for a, support in registry.trained.items() if support["text_of_vision"]]
    yield "## What prime-rl's trainer knows"
    yield "\n".join(
        (
            f"- Implementations of its own: {', '.join(native)}. Everything else falls back to transformers: set "
            '`trainer.model.attn = "flash_attention_2"`, since the default is refused there on H100, H200 and B200.',
            f"- Images (`[model.vlm]`): {', '.join(images)} only. Vision models trained on text, without "
            f"`[model.vlm]`: {', '.join(on_text)}.",
            "- gpt_oss: on Hopper GPUs only (H100, H200).",
            "- Tool parsers marked (name it) are not found by prime-rl: set `inference.vllm.tool_call_parser`.",
        )
    )


def _table(head: tuple[str, ...], rows: Any) -> Iterator[str]:
    lines = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in rows]
    if lines:
        yield f"| {' | '.join(head)} |"
        yield f"|{'---|' * len(head)}"
        yield from (f"| {line} |" for line in lines)


def _code(name: str) -> str:
    return f"`{escape(name[:120]).replace('`', '')}`"


def _money(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _yes(value: bool | None) -> str:
    return {True: "yes", False: "no", None: ""}[value]


def _gib(gpu_type: str) -> str:
    gib = memory.gpu_memory(gpu_type)
    return f"{gib:g}" if gib else ""
