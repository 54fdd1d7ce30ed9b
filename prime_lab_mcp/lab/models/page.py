"""`lab://models`: the registry as a page, joined with the platform's live lists where they can be had."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from prime_lab_mcp.lab.models import listing, memory
from prime_lab_mcp.lab.models.data import Registry, registry
from prime_lab_mcp.lab.models.known import Model, find
from prime_lab_mcp.lab.models.listing import Lists
from prime_lab_mcp.lab.text import escape

if TYPE_CHECKING:
    from prime_lab_mcp.lab.lab import Lab

TOPIC = "models"
ABOUT = "Every model the project knows: size, architecture, renderer, tool parser, measured baselines, live prices."
_SECONDS = 12.0
"""For both live lists together: a page is read while somebody waits."""
_KEEP_SECONDS = 60.0
"""How long a page with both lists is shown again, so that its second half is of the same text."""
_SERVED = 120
"""Rows of the list of served models."""
_KEPT: WeakKeyDictionary[Lab, tuple[float, str]] = WeakKeyDictionary()


async def page(lab: Lab) -> str:
    """The page as it stands now. Never raises: without the platform it is the registry alone, and says so."""
    kept = _KEPT.get(lab)
    if kept is None or time.monotonic() - kept[0] >= _KEEP_SECONDS:
        lists = await listing.ask(lab, _SECONDS)
        kept = (time.monotonic(), text(lists, datetime.now(UTC), rehearsal=lab.settings.rehearsal))
        if lists.offered is not None and lists.served is not None:
            _KEPT[lab] = kept
    return kept[1]


def text(lists: Lists, now: datetime, *, rehearsal: bool = False) -> str:
    known = registry()
    parts = [
        "# Models",
        _standing(lists, now, rehearsal=rehearsal),
        *_live(lists),
        "## The registry",
        "Each fact has its date. Baselines are of one tool-calling environment and of few tasks: a hint where to look, "
        "no measurement of yours (`run_eval` makes that). Prices are those of the day named.",
        "\n".join(_table(_HEAD, (_registered(find(row.name)) for row in known.rows))),
        "## Remarks",
        "\n".join(f"- `{row.name}`: {f.said}" for row in known.rows for f in row.facts if f.what in ("note", "fault")),
        *_closed(known),
        *_rendered(known),
        *_trained(known),
        "## Does it fit?",
        (memory.__doc__ or "").split("\n", 2)[2],
        "## Sources",
        "\n".join(f"- {key}: {told['title']} ({told['date']})" for key, told in known.sources.items()),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _standing(lists: Lists, now: datetime, *, rehearsal: bool) -> str:
    day = f"{now:%Y-%m-%d %H:%M} UTC"
    whose = "the rehearsal platform (made-up prices)" if rehearsal else "the platform"
    if lists.offered is None and lists.served is None:
        return f"The platform could not be asked ({day}): this is the registry alone, as old as each date in it says."
    lacking = " Which models it trains could not be had." if lists.offered is None else ""
    lacking += " Which models it serves could not be had." if lists.served is None else ""
    return f"Live lists of {whose}, {day}; the registry with its own dates below.{lacking}"


def _live(lists: Lists) -> Iterator[str]:
    """Foreign text: model ids and GPU types are the platform's."""
    if lists.offered is not None:
        yield "## Trained by the platform now"
        rows = [listing.row(name, lists, {}) for name in lists.trainable]
        yield "\n".join(_table(("model", "readiness", "on", "LoRA needs (GPUs)"), map(_trainable, rows))) or "None."
        offers = [
            (escape(o.gpu_type), _money(o.price_per_gpu_hour), _yes(o.available_now), _gib(o.gpu_type))
            for o in lists.offered.offers
        ]
        yield "\n".join(_table(("rented by the hour", "$ per GPU-hour", "free now", "GiB"), offers))
    if lists.served:
        yield "## Served by the platform now"
        rows = [listing.row(name, lists, {}) for name in list(lists.served)[:_SERVED]]
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


def _registered(model: Model) -> tuple[str, ...]:
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


def _last(model: Model, what: Any) -> str:
    return next((f.said for f in model.told(what)), "")


def _closed(known: Registry) -> Iterator[str]:
    yield "## Closed, or for inference only"
    lines = [f"- {v.vendor} (closed, {v.date}): {', '.join(f'`{name}`' for name in v.listed)}" for v in known.closed]
    lines += [
        f"- {v.vendor} (served and not offered for training under these names, {v.date}): "
        + ", ".join(f"`{name}`" for name in v.listed)
        for v in known.inference_only
    ]
    yield "\n".join(lines)


def _rendered(known: Registry) -> Iterator[str]:
    """The models that prime-rl renders by name and about which the registry has no facts of its own."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in known.renderers:
        if name.lower() not in known.by_name:
            m = find(name)
            trainer = {True: "native", False: "fallback", None: "unknown"}[m.native]
            alike.setdefault((m.architecture or "unknown", trainer, m.renderer or "", _parser(m)), []).append(name)
    yield "## Rendered by prime-rl besides"
    rows = ((", ".join(map(_code, names)), *key) for key, names in alike.items())
    yield "\n".join(_table(("models", "architecture", "trainer", "renderer", "tool parser"), rows))


def _parser(model: Model) -> str:
    return (model.tool_parser or "") + ("" if model.parser_found or not model.tool_parser else " (name it)")


def _trained(known: Registry) -> Iterator[str]:
    native = [a for a, told in known.trained.items() if told["native"]]
    images = [a for a, told in known.trained.items() if told["images"]]
    on_text = [a for a, told in known.trained.items() if told["text_of_vision"]]
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
    found = memory.gpu_memory(gpu_type)
    return f"{found:g}" if found else ""
