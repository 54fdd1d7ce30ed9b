"""Rules about the model that is trained: where its weights are, what of it is trained, and whether its tools are read.

What is known of a model comes from `lab.models`; of what is not known nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.configs.observed import Observed, Rule
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.models import find
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

_NATIVE_ATTENTION = frozenset({"flash_attention_3", "flash_attention_4"})


def model_published(config: Config, seen: Observed) -> Iterator[Finding]:
    """Hosted training downloads weights from Hugging Face: `owner/name`."""
    name = config.model
    if config.target == "hosted" and (name.count("/") != 1 or name.startswith(("/", ".", "~"))):
        yield Finding(
            "config-model-name",
            "blocker",
            f"{quote(name, limit=100)} is no name on Hugging Face (owner/name), where Hosted Training looks for it.",
            'Name a published model: search_hub(kind="model") lists those that the platform trains.',
            "model.name",
        )


def vision_model(config: Config, seen: Observed) -> Iterator[Finding]:
    """Without `[model.vlm]` prime-rl freezes the vision part, and ends the run at the first image."""
    model = find(config.model)
    configured = config.at("model.vlm") is not None or config.at("trainer.model.vlm") is not None
    if model.vision and not configured:
        yield Finding(
            "config-vision-model",
            "info",
            f"{quote(config.model, limit=100)} also sees images; without [model.vlm] it is trained on text alone: its "
            "vision part is frozen, and a task with an image would end the run.",
            "Nothing to do where all tasks are text; else add [model.vlm] with vision_encoder_attr and "
            "language_model_attr.",
            "model.vlm",
        )
    elif configured and (model.vision is False or (model.vision and model.native is False)):
        yield Finding(
            "config-vlm",
            "blocker",
            f"[model.vlm] is set, and prime-rl has no vision implementation of {quote(config.model, limit=100)}.",
            "Remove [model.vlm] to train on text, or choose a vision model that prime-rl implements.",
            "model.vlm",
        )


def native_model(config: Config, seen: Observed) -> Iterator[Finding]:
    """An architecture that prime-rl's trainer does not have runs on that of transformers."""
    if find(config.model).native is not False:
        return
    attention = config.at("trainer.model.attn")
    if attention in _NATIVE_ATTENTION:
        yield Finding(
            "config-implementation",
            "blocker",
            f"{quote(config.model, limit=100)} has no implementation of prime-rl's own, and attn = {quote(attention)} "
            "needs one.",
            "Remove trainer.model.attn.",
            "trainer.model.attn",
        )
    yield Finding(
        "config-model-fallback",
        "info",
        f"prime-rl has no implementation of its own for {quote(config.model, limit=100)}: it is trained with that of "
        "transformers, which is slower and needs more memory.",
        "Nothing to do; start with a few steps, or choose a model that search_hub lists as native.",
        "trainer.model.impl",
    )


def tool_parser(config: Config, seen: Observed) -> Iterator[Finding]:
    """The renderer `default` reads no tool call unless it is told how (prime-rl: "does not support tools")."""
    renderer = config.at("orchestrator.renderer.name")
    if renderer != "default" or config.at("orchestrator.renderer.tool_parser") is not None:
        return
    with_tools = [s.id for s in config.train_sources if (shape := (seen.shapes or {}).get(s.id)) and shape.tools]
    unknown = [s.id for s in config.train_sources if s.id not in (seen.shapes or {})]
    known = find(config.model).tool_parser
    named = f'"{known}"' if known else 'the parser of its family, e.g. "hermes" or "qwen3_coder"'
    fix = f"Set [orchestrator.renderer] tool_parser = {named}, or name the renderer of its family instead of default."
    where = "orchestrator.renderer.tool_parser"
    if with_tools:
        yield Finding(
            "config-tool-parser",
            "blocker",
            f"{quote(with_tools[0], limit=80)} offers tools, and the renderer default reads no tool call without a "
            "tool_parser: every rollout would fail.",
            fix,
            where,
        )
    elif unknown and seen.shapes is not None:
        yield Finding(
            "config-tool-parser",
            "warning",
            f"The renderer default reads no tool call without a tool_parser, and whether {quote(unknown[0], limit=80)} "
            "offers tools is not known here.",
            f"{fix} Nothing to do where no environment has tools.",
            where,
        )


RULES: tuple[Rule, ...] = (model_published, vision_model, native_model, tool_parser)
