"""Judges whether a model can be trained: published weights, renderer, trainer support, tool parser, and GPU memory.

The verdict is a pure function of the facts about the model and the run. A `ReadinessPoint` is one requirement. Its code
is the code of the finding that reports an unmet requirement.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.models import memory
from prime_lab_mcp.lab.models.offered import NOT_TRAINED_FIX, not_trained_message
from prime_lab_mcp.lab.models.registry import KnownModel

ReadinessVerdict = Literal["ok", "doubt", "no"]


@dataclass(frozen=True, slots=True)
class ReadinessPoint:
    """One requirement that training has of a model. `code` is the finding's code if the verdict is not `ok`."""

    code: Code
    verdict: ReadinessVerdict
    why: str
    do: str = ""
    where: str | None = None

    def as_finding(self) -> Finding | None:
        """A blocker for `no`, a warning for `doubt`, None for `ok`."""
        if self.verdict == "ok":
            return None
        return Finding(self.code, "blocker" if self.verdict == "no" else "warning", self.why, self.do, self.where)


@dataclass(frozen=True, slots=True)
class TrainingPurpose:
    """The settings of the run that a model is judged for.

    `listed` says whether the platform lists the model as trainable. It is None if the platform did not answer, or if
    the run uses the user's own GPUs.
    """

    listed: bool | None = None
    hosted: bool = True
    gpu_type: str | None = None
    train_gpus: int = 1
    infer_gpus: int = 1
    lora: bool = True
    seq_len: int = 4096
    """Tokens of one packed sequence."""
    tools: bool = False
    """Whether the environment gives the model tools."""
    vision_configured: bool = False
    """Whether the config has a `[model.vlm]` table."""
    renderer: str | None = None
    """The renderer that the config names."""


def platform_lists_model(model: KnownModel, run: TrainingPurpose) -> Iterator[ReadinessPoint]:
    """Whether the platform lists the model as trainable, for a hosted run."""
    if not run.hosted:
        return
    if run.listed:
        yield ReadinessPoint("model-not-offered", "ok", "the platform trains it")
    elif run.listed is None:
        yield ReadinessPoint(
            "model-not-offered",
            "doubt",
            f"whether the platform trains {quote(model.name, 100)} is unknown: it could not be asked.",
            'Ask search_hub(kind="model") once the platform can be reached.',
            "model.name",
        )
    else:
        why = f"{not_trained_message(model.name)}."
        yield ReadinessPoint("model-not-offered", "no", why, NOT_TRAINED_FIX, "model.name")


def weights_published(model: KnownModel, run: TrainingPurpose) -> Iterator[ReadinessPoint]:
    """Whether the model's weights are published on Hugging Face."""
    if model.published is None:
        yield ReadinessPoint(
            "model-name-unpublished",
            "no",
            f"{quote(model.name, 100)} is no name on Hugging Face, from where the trainer loads weights.",
            "Write owner/name as on Hugging Face, e.g. Qwen/Qwen3-4B-Instruct-2507.",
            "model.name",
        )
    elif model.published != model.name:
        yield ReadinessPoint(
            "model-name-unpublished",
            "doubt",
            f"{quote(model.name, 100)} is a platform's name; the weights are published as {model.published}, and "
            "prime-rl knows renderer and tool parser by that name only.",
            f'Write [model] name = "{model.published}".',
            "model.name",
        )
    elif not model.is_known and run.listed is not True:
        yield ReadinessPoint(
            "model-name-unpublished",
            "doubt",
            f"nothing is known of {quote(model.name, 100)} but its name; whether it is published is not checked.",
            "Look it up on Hugging Face before it is paid for.",
            "model.name",
        )


def renderer_supported(model: KnownModel, run: TrainingPurpose) -> Iterator[ReadinessPoint]:
    """Whether prime-rl has a renderer for the model or the config names one."""
    if run.renderer not in (None, "auto"):
        yield ReadinessPoint("model-no-renderer", "ok", f"rendered by {quote(run.renderer, 60)}, as the config says")
    elif model.renderer is not None:
        yield ReadinessPoint("model-no-renderer", "ok", f'prime-rl renders its chats with "{model.renderer}"')
    else:
        yield ReadinessPoint(
            "model-no-renderer",
            "no",
            f"prime-rl has no renderer for {quote(model.name, 100)} and refuses to guess one.",
            'Set [orchestrator.renderer] name to the renderer of the model it was tuned from (e.g. "qwen3"), or to '
            '"default" to use its own chat template.',
            "orchestrator.renderer.name",
        )


def trainer_supports(model: KnownModel, run: TrainingPurpose) -> Iterator[ReadinessPoint]:
    """Whether prime-rl's trainer has its own implementation of the architecture."""
    if model.native:
        yield ReadinessPoint(
            "model-fallback", "ok", f"prime-rl trains {model.architecture} with an implementation of its own"
        )
    elif model.native is False:
        yield ReadinessPoint(
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
        yield ReadinessPoint(
            "model-fallback",
            "doubt",
            f"which architecture {quote(model.name, 100)} has is not known here, so neither is how prime-rl trains it.",
            "Compare model_type in its config.json with the native ones in lab://models.",
            "model.name",
        )


def vision_trainable(model: KnownModel, run: TrainingPurpose) -> Iterator[ReadinessPoint]:
    """Whether a vision model can be trained as configured."""
    where = "model.vlm"
    if run.vision_configured and not model.images:
        reason = f"{model.architecture} is none of them" if model.architecture else "this model is not known to be one"
        yield ReadinessPoint(
            "model-vision",
            "no" if model.architecture else "doubt",
            f"The config has [model.vlm], which prime-rl takes for qwen3_5 and qwen3_5_moe only; {reason}.",
            "Remove [model.vlm] to train on text, or choose a Qwen3.5 model for images.",
            where,
        )
    elif model.vision and run.vision_configured:
        yield ReadinessPoint("model-vision", "ok", "a vision model, configured for images")
    elif model.vision and model.text_of_vision:
        yield ReadinessPoint(
            "model-vision", "ok", "a vision model: without [model.vlm] it is trained on text, its eyes frozen"
        )
    elif model.vision:
        yield ReadinessPoint(
            "model-vision",
            "doubt",
            f"{quote(model.name, 100)} is a vision model of an architecture ({model.architecture}) that is not "
            "among the vision models prime-rl knows: whether it trains on text is untried.",
            "Run two steps first, or choose a text model, or one of Qwen3.5, Qwen3-VL, Gemma 4.",
            "model.name",
        )


def tools_parsed(model: KnownModel, run: TrainingPurpose) -> Iterator[ReadinessPoint]:
    """Whether the model's tool calls are parsed, if the environment offers tools."""
    if not run.tools:
        return
    where = "inference.vllm.tool_call_parser"
    if model.tool_parser is None:
        yield ReadinessPoint(
            "model-no-tool-parser",
            "doubt",
            f"which vLLM parser reads the tool calls of {quote(model.name, 100)} is not known: without the right one "
            "its calls stay text and every tool reward is zero.",
            "Set inference.vllm.tool_call_parser to the parser of its family (lab://models); look at a few rollouts.",
            where,
        )
    elif model.parser_found:
        yield ReadinessPoint(
            "model-no-tool-parser", "ok", f'prime-rl reads its tool calls with "{model.tool_parser}" by itself'
        )
    else:
        yield ReadinessPoint(
            "model-no-tool-parser",
            "doubt",
            f"prime-rl does not know by itself that vLLM reads the tool calls of {quote(model.name, 100)} with "
            f'"{model.tool_parser}".',
            f'Set inference.vllm.tool_call_parser = "{model.tool_parser}".',
            where,
        )


def known_faults(model: KnownModel, run: TrainingPurpose) -> Iterator[ReadinessPoint]:
    """The faults that the registry records for the model."""
    for fact in model.facts_about("fault"):
        kind = fact.value["kind"]
        # These notes are outdated: prime-rl supports vision models now, and the registry has a table of names.
        if kind in ("vision", "name") or (kind in ("tools", "truncation") and not run.tools):
            continue
        yield ReadinessPoint(
            "model-known-fault",
            "doubt",
            f"Reported of {quote(model.name, 100)}: {fact.summary}.",
            "Evaluate it on your environment first (run_eval), and read some rollouts.",
            "model.name",
        )


def gpus_hold(model: KnownModel, run: TrainingPurpose) -> Iterator[ReadinessPoint]:
    """Whether the GPUs hold the model, by the memory estimate."""
    if run.gpu_type is None:
        return
    have = memory.gpu_memory(run.gpu_type)
    if have is None or model.parameters is None:
        lacking = "its size" if model.parameters is None else f"the memory of {quote(run.gpu_type, 60)}"
        yield ReadinessPoint(
            "model-too-big",
            "doubt",
            f"whether {quote(model.name, 100)} fits is not known: {lacking} is not.",
            "Compare the model's parameters with the memory of the GPUs before paying.",
            "deployment",
        )
        return
    yield _fits(model.name, "training", *_train_fit(model, run, have))
    if run.infer_gpus:
        need = memory.inference_memory(model.parameters, run.infer_gpus, seq_len=run.seq_len)
        fit = memory.memory_fit(need, have, memory.INFER_SHARE)
        yield _fits(model.name, "inference", fit, run.infer_gpus, "bf16 weights split over them (tensor_parallel_size)")


def _train_fit(model: KnownModel, run: TrainingPurpose, have: float) -> tuple[memory.MemoryFit, int, str]:
    size = model.parameters or 0.0
    states = {"lora": "LoRA"} if run.lora else {"full": "full fine-tuning", "offloaded": "Adam's state in CPU memory"}
    fits: list[tuple[memory.MemoryFit, int, str]] = []
    for state, words in states.items():
        need = memory.training_memory(size, model.active, max(1, run.train_gpus), seq_len=run.seq_len, state=state)
        fits.append((memory.memory_fit(need, have, memory.TRAIN_SHARE), max(1, run.train_gpus), words))
    return next((f for f in fits if f[0].verdict == "fits"), fits[-1])


def _fits(name: str, use: str, fit: memory.MemoryFit, gpus: int, words: str) -> ReadinessPoint:
    usage = f"about {fit.need:g} of {fit.have:g} usable GiB on each of {gpus} {use} GPU{'s' * (gpus != 1)} ({words})"
    where = "deployment.num_train_gpus" if use == "training" else "deployment.num_infer_gpus"
    if fit.verdict == "fits":
        return ReadinessPoint("model-too-big", "ok", usage)
    more = "LoRA instead of full fine-tuning, a shorter seq_len, " if use == "training" else ""
    return ReadinessPoint(
        "model-too-big",
        "no" if fit.verdict == "no" else "doubt",
        f"{quote(name, 100)} {'does not fit' if fit.verdict == 'no' else 'barely fits'}: {usage}.",
        f"Give it more {use} GPUs or ones with more memory ({more}or a smaller model).",
        where,
    )


def gpu_kind(model: KnownModel, run: TrainingPurpose) -> Iterator[ReadinessPoint]:
    """Whether the GPU type is one that prime-rl trains the model on."""
    if model.hopper and run.gpu_type is not None and not memory.is_hopper(run.gpu_type):
        yield ReadinessPoint(
            "model-wrong-gpu",
            "no",
            f"prime-rl trains {model.architecture} on Hopper GPUs only (H100, H200), and {quote(run.gpu_type, 60)} is "
            "none.",
            "Choose an H100 or H200 type: gpu_type.",
            "gpu_type",
        )


def readiness_points(
    model: KnownModel,
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
) -> tuple[ReadinessPoint, ...]:
    """Judge every requirement that applies to a run, including those that are met."""
    run = TrainingPurpose(
        listed, hosted, gpu_type, train_gpus, infer_gpus, lora, seq_len, tools, vision_configured, renderer
    )
    if model.closed is not None:
        return (
            ReadinessPoint(
                "model-closed",
                "no",
                f"{quote(model.name, 100)} is closed: {model.closed} does not give out its weights, so it can be "
                "evaluated but not trained.",
                Fix(
                    "Choose an open model: ",
                    NamedCall("search_hub", kind="model"),
                    " lists those the platform trains.",
                ),
                "model.name",
            ),
        )
    requirements = (
        platform_lists_model,
        weights_published,
        renderer_supported,
        trainer_supports,
        vision_trainable,
        tools_parsed,
        gpus_hold,
        gpu_kind,
        known_faults,
    )
    return tuple(point for judge in requirements for point in judge(model, run))


def readiness_verdict(points: tuple[ReadinessPoint, ...]) -> ReadinessVerdict:
    """The worst verdict of the points."""
    verdicts = {p.verdict for p in points}
    return "no" if "no" in verdicts else "doubt" if "doubt" in verdicts else "ok"


def readiness_words(points: tuple[ReadinessPoint, ...]) -> str:
    """Return `ready`, or the worst requirement in two or three words, such as `closed`, `renderer` or `check
    vision`."""
    for verdict in ("no", "doubt"):
        codes = [p.code for p in points if p.verdict == verdict]
        if codes:
            bare = verdict == "no" or codes[0] == "model-not-offered"
            return _REQUIREMENT_NAMES[codes[0]] if bare else f"check {_REQUIREMENT_NAMES[codes[0]]}"
    return "ready"


_REQUIREMENT_NAMES = {
    "model-closed": "closed",
    "model-not-offered": "not listed",
    "model-name-unpublished": "unknown name",
    "model-no-renderer": "renderer",
    "model-fallback": "slower trainer",
    "model-vision": "vision",
    "model-no-tool-parser": "tool parser",
    "model-too-big": "memory",
    "model-wrong-gpu": "GPU type",
    "model-known-fault": "known fault",
}
"""Short names of the requirements, by code, for `readiness_words`."""
