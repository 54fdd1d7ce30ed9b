"""What training asks of a model beside memory: a name, a renderer, a trainer, eyes, a tool parser, a clean record."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.models.known import Model
from prime_lab_mcp.lab.models.points import Point, Purpose
from prime_lab_mcp.lab.text import quote


def listed(model: Model, run: Purpose) -> Iterator[Point]:
    if not run.hosted:
        return
    if run.listed:
        yield Point("model-not-listed", "ok", "the platform trains it")
    elif run.listed is None:
        yield Point(
            "model-not-listed",
            "doubt",
            f"whether the platform trains {quote(model.name, 100)} is unknown: it could not be asked.",
            'Ask search_hub(kind="model") once the platform can be reached.',
            "model.name",
        )
    else:
        yield Point(
            "model-not-listed",
            "doubt",
            f"{quote(model.name, 100)} is none of the models that the platform lists as trained; whether it takes it "
            "all the same, on GPUs rented by the hour, only the platform can say.",
            'Choose one that search_hub(kind="model") lists as trainable, or train on GPUs of your own '
            '(target="self-managed").',
            "model.name",
        )


def named(model: Model, run: Purpose) -> Iterator[Point]:
    if model.published is None:
        yield Point(
            "model-name-unpublished",
            "no",
            f"{quote(model.name, 100)} is no name on Hugging Face, from where the trainer loads weights.",
            "Write owner/name as on Hugging Face, e.g. Qwen/Qwen3-4B-Instruct-2507.",
            "model.name",
        )
    elif model.published != model.name:
        yield Point(
            "model-name-unpublished",
            "doubt",
            f"{quote(model.name, 100)} is a platform's name; the weights are published as {model.published}, and "
            "prime-rl knows renderer and tool parser by that name only.",
            f'Write [model] name = "{model.published}".',
            "model.name",
        )
    elif not model.known and run.listed is not True:
        yield Point(
            "model-name-unpublished",
            "doubt",
            f"nothing is known of {quote(model.name, 100)} but its name; whether it is published is not checked.",
            "Look it up on Hugging Face before it is paid for.",
            "model.name",
        )


def rendered(model: Model, run: Purpose) -> Iterator[Point]:
    if run.renderer not in (None, "auto"):
        yield Point("model-no-renderer", "ok", f"rendered by {quote(run.renderer, 60)}, as the config says")
    elif model.renderer is not None:
        yield Point("model-no-renderer", "ok", f'prime-rl renders its chats with "{model.renderer}"')
    else:
        yield Point(
            "model-no-renderer",
            "no",
            f"prime-rl has no renderer for {quote(model.name, 100)} and refuses to guess one.",
            'Set [orchestrator.renderer] name to the renderer of the model it was tuned from (e.g. "qwen3"), or to '
            '"default" to use its own chat template.',
            "orchestrator.renderer.name",
        )


def trainer(model: Model, run: Purpose) -> Iterator[Point]:
    if model.native:
        yield Point("model-fallback", "ok", f"prime-rl trains {model.architecture} with an implementation of its own")
    elif model.native is False:
        yield Point(
            "model-fallback",
            "doubt",
            f"prime-rl has no implementation of {model.architecture} of its own: it falls back to that of "
            "transformers, which is slower, less often tried, and has neither context nor expert parallelism. On "
            "H100, H200 and B200 the default attention becomes FlashAttention 3 or 4, which the fallback refuses.",
            'Set trainer.model.attn = "flash_attention_2", run two steps first, and watch the mismatch between '
            "trainer and inference (KL); or choose a model with a native implementation.",
            "trainer.model.attn",
        )
    else:
        yield Point(
            "model-fallback",
            "doubt",
            f"which architecture {quote(model.name, 100)} has is not known here, so neither is how prime-rl trains it.",
            "Compare model_type in its config.json with the native ones in lab://models.",
            "model.name",
        )


def vision(model: Model, run: Purpose) -> Iterator[Point]:
    where = "model.vlm"
    if run.vision_configured and not model.images:
        known = f"{model.architecture} is none of them" if model.architecture else "this model is not known to be one"
        yield Point(
            "model-vision",
            "no" if model.architecture else "doubt",
            f"The config has [model.vlm], which prime-rl takes for qwen3_5 and qwen3_5_moe only; {known}.",
            "Remove [model.vlm] to train on text, or choose a Qwen3.5 model for images.",
            where,
        )
    elif model.vision and run.vision_configured:
        yield Point("model-vision", "ok", "a vision model, configured for images")
    elif model.vision and model.text_of_vision:
        yield Point("model-vision", "ok", "a vision model: without [model.vlm] it is trained on text, its eyes frozen")
    elif model.vision:
        yield Point(
            "model-vision",
            "doubt",
            f"{quote(model.name, 100)} is a vision model of an architecture ({model.architecture}) that is not "
            "among the vision models prime-rl knows: whether it trains on text is untried.",
            "Run two steps first, or choose a text model, or one of Qwen3.5, Qwen3-VL, Gemma 4.",
            "model.name",
        )


def tools(model: Model, run: Purpose) -> Iterator[Point]:
    if not run.tools:
        return
    where = "inference.vllm.tool_call_parser"
    if model.tool_parser is None:
        yield Point(
            "model-no-tool-parser",
            "doubt",
            f"which vLLM parser reads the tool calls of {quote(model.name, 100)} is not known: without the right one "
            "its calls stay text and every tool reward is zero.",
            "Set inference.vllm.tool_call_parser to the parser of its family (lab://models); look at a few rollouts.",
            where,
        )
    elif model.parser_found:
        yield Point("model-no-tool-parser", "ok", f'prime-rl reads its tool calls with "{model.tool_parser}" by itself')
    else:
        yield Point(
            "model-no-tool-parser",
            "doubt",
            f'prime-rl does not know by itself that vLLM reads the tool calls of {quote(model.name, 100)} with '
            f'"{model.tool_parser}".',
            f'Set inference.vllm.tool_call_parser = "{model.tool_parser}".',
            where,
        )  # fmt: skip


def faults(model: Model, run: Purpose) -> Iterator[Point]:
    for fact in model.told("fault"):
        kind = fact.value["kind"]
        # The notes are older than prime-rl's support of vision models, and than our table of names.
        if kind in ("vision", "name") or (kind in ("tools", "truncation") and not run.tools):
            continue
        yield Point(
            "model-known-fault",
            "doubt",
            f"Reported of {quote(model.name, 100)}: {fact.said}.",
            "Evaluate it on your environment first (run_eval), and read some rollouts.",
            "model.name",
        )
