"""Whether a model is ready to be trained: one pure judgement over what is known of it and of the run."""

from __future__ import annotations

from prime_lab_mcp.lab.models import asked, gpus
from prime_lab_mcp.lab.models.known import Model
from prime_lab_mcp.lab.models.points import Point, Purpose, Verdict
from prime_lab_mcp.lab.text import quote

_WORDS = {
    "model-closed": "closed",
    "model-not-listed": "not listed",
    "model-name-unpublished": "its name",
    "model-no-renderer": "no renderer",
    "model-fallback": "trainer (no native implementation)",
    "model-vision": "vision",
    "model-no-tool-parser": "tool parser",
    "model-too-big": "memory",
    "model-wrong-gpu": "GPU type",
    "model-known-fault": "known fault",
}


def readiness(
    model: Model,
    *,
    listed: bool | None = None,
    gpu_type: str | None = None,
    train_gpus: int = 1,
    infer_gpus: int = 1,
    lora: bool = True,
    seq_len: int = 4096,
    tools: bool = False,
    vision_configured: bool = False,
    renderer: str | None = None,
    hosted: bool = True,
) -> tuple[Point, ...]:
    """Every point that applies, those that are fine too. `listed`: among what the platform trains; None: not asked."""
    run = Purpose(
        listed, hosted, gpu_type, train_gpus, infer_gpus, lora, seq_len, tools, vision_configured, renderer
    )  # fmt: skip
    if model.closed is not None:
        return (
            Point(
                "model-closed",
                "no",
                f"{quote(model.name, 100)} is closed: {model.closed} does not give out its weights, so it can be "
                "evaluated but not trained.",
                'Choose an open model: search_hub(kind="model") lists those the platform trains.',
                "model.name",
            ),
        )
    judged = (
        asked.listed, asked.named, asked.rendered, asked.trainer, asked.vision, asked.tools,
        gpus.gpus_hold, gpus.gpu_kind, asked.faults,
    )  # fmt: skip
    return tuple(point for judge in judged for point in judge(model, run))


def verdict(points: tuple[Point, ...]) -> Verdict:
    """The worst of them."""
    found = {p.verdict for p in points}
    return "no" if "no" in found else "doubt" if "doubt" in found else "ok"


def in_words(points: tuple[Point, ...]) -> str:
    """`ready`, or the first of the worst points in two or three words: `closed`, `no renderer`, `check vision`."""
    for wanted in ("no", "doubt"):
        codes = [p.code for p in points if p.verdict == wanted]
        if codes:
            plain = wanted == "no" or codes[0] == "model-not-listed"
            return _WORDS[codes[0]] if plain else f"check {_WORDS[codes[0]]}"
    return "ready"


_WORDS = {
    "model-closed": "closed",
    "model-not-listed": "not listed",
    "model-name-unpublished": "unknown name",
    "model-no-renderer": "renderer",
    "model-fallback": "slower trainer",
    "model-vision": "vision",
    "model-no-tool-parser": "tool parser",
    "model-too-big": "memory",
    "model-wrong-gpu": "GPU type",
    "model-known-fault": "known fault",
}
