"""Plans a whole config, and chooses its learning rate, LoRA, renderer, token limit and sequence length.

Other modules of this package choose the rest: batching.py the batch, the groups and the steps, hardware.py the GPUs. A
`ChosenValue` is a value with the reason that the written file gives for the value.

The learning rates come from prime-rl's recipes (1e-5 with LoRA at 4B parameters; with full fine-tuning 1e-6 from 1.5B
on, and 3e-6 at 0.6B) and from LoRA Without Regret (LoRA needs ten times the rate of full fine-tuning, and fifteen times
in runs of fewer than 100 steps).

The token limit of a completion is 1.25 times the measured 95th percentile (docs/validation.md, Training configs). An
evaluation measures all turns of a rollout together and counts tool output as prompt tokens, so its numbers cover a
whole sample. The stand-in of a rehearsal replies in a few words, which no limit may follow: the limits are then those
that hold without a measurement, unless even the stand-in's replies need more.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.configs.context import ConfigContext, SourceMeasurement
from prime_lab_mcp.lab.configs.plan.batching import choose_batching, choose_steps, own_group_sizes
from prime_lab_mcp.lab.configs.plan.choices import ChosenValue, ConfigChoices, round_up
from prime_lab_mcp.lab.configs.plan.hardware import Hardware, choose_gpu_type
from prime_lab_mcp.lab.configs.rules.run import EVALS_PER_RUN
from prime_lab_mcp.lab.configs.rules.step import COMPLETION_MARGIN
from prime_lab_mcp.lab.models.offered import DEFAULT_MODEL, or_smaller
from prime_lab_mcp.lab.models.registry import find_model

SHORT_RUN_STEPS = 100
"""Number of steps below which a run is short (LoRA Without Regret)."""
SMALL_MODEL_SIZE = 1.0
"""Largest size, in billions of parameters, for the learning rate of the 0.6B recipe (our judgement)."""


def choose_learning_rate(choices: ConfigChoices, lora: bool, model: str, steps: int) -> ChosenValue:
    """Choose the learning rate, trainer.optim.lr. prime-rl's default is 1e-6 even with LoRA."""
    if choices.lr is not None:
        return ChosenValue(choices.lr, choices.because.get("lr", "as asked"))
    size = find_model(model).parameters
    small = size is not None and size <= SMALL_MODEL_SIZE
    full = 3e-6 if small else 1e-6
    purpose = "for a model this small (reverse-text recipe)" if small else "of full fine-tuning (recipes from 1.5B on)"
    if not lora:
        return ChosenValue(full, f"the rate {purpose}")
    times = 15 if steps < SHORT_RUN_STEPS else 10
    runs = f"runs below {SHORT_RUN_STEPS} steps" if times == 15 else "runs"
    why = f"{times} times {full:g}, the rate {purpose}: the rate for {runs} with LoRA"
    return ChosenValue(float(f"{times * full:.6g}"), why)


def choose_lora(choices: ConfigChoices) -> tuple[ChosenValue, ChosenValue]:
    """Choose rank and alpha of LoRA."""
    why = choices.because
    rank = choices.lora_rank or 16
    return (
        ChosenValue(rank, why.get("lora_rank", "as asked" if choices.lora_rank else "8 to 32 is enough for RL")),
        ChosenValue(
            float(choices.lora_alpha or 2 * rank),
            why.get("lora_alpha", "as asked" if choices.lora_alpha else "twice the rank, as in the recipes"),
        ),
    )


def choose_renderer(choices: ConfigChoices, context: ConfigContext, model: str) -> ChosenValue | None:
    """Choose the renderer. None for a model that prime-rl renders without a setting."""
    if choices.renderer is not None:
        return ChosenValue(choices.renderer, choices.because.get("renderer", "as asked"))
    if model in context.renderers:
        return None
    if renderer := find_model(model).renderer:
        return ChosenValue(
            renderer, "prime-rl does not know the model by this name; this is the renderer of its family"
        )
    return ChosenValue(
        "default", "the model is not among those prime-rl knows: its own chat template is used, without tools"
    )


def near_models(model: str, context: ConfigContext) -> list[str]:
    """Return up to three known models whose names are close to a misspelt one."""
    folded = {name.lower(): name for name in _text_models(context.renderers, model)}
    return [folded[m] for m in difflib.get_close_matches(model.lower(), list(folded), n=3, cutoff=0.75)]


def _text_models(names: Iterable[str], model: str) -> list[str]:
    """Return the names without vision models, unless `model` is a vision model or is named like one."""
    if find_model(model).vision or _VISION.search(model):
        return list(names)
    return [name for name in names if not find_model(name).vision and not _VISION.search(name)]


_VISION = re.compile(r"(?i)(^|[-_/.])(vl|vlm|vision|visual)([-_/.]|$)")


def require_open_model(model: str) -> None:
    """Raise BadInput for a model whose weights are not published, because it cannot be trained."""
    vendor = find_model(model).closed
    if vendor is not None:
        raise BadInput(
            f"{quote(model, limit=100)} cannot be trained: {quote(vendor, limit=60)} publishes no weights of it",
            fix=Fix(
                "Pass ",
                SameCall(model=DEFAULT_MODEL),
                ", or another that ",
                NamedCall("search_hub", kind="model"),
                " lists as trainable.",
            ),
            code="model-closed",
        )


ASSUMED_PROMPT = 1024
"""Tokens that are reserved for a prompt if no prompt was measured."""
TRUNCATED_SHARE = 0.05
"""Share of truncated rollouts above which the measured percentile only shows the token limit of the evaluation."""
_THINKING, _DIRECT = 4096, 1024
"""Token limits without a measurement, for models that think first and for others (our judgement)."""


def choose_completion_budget(choices: ConfigChoices, context: ConfigContext, model: str) -> ChosenValue:
    """Choose the token limit of a completion, max_completion_tokens. Prompt and completion fit the model's context."""
    if choices.max_tokens is not None:
        return ChosenValue(choices.max_tokens, choices.because.get("max_tokens", "as asked"))
    known_model = find_model(model)
    budget = _measured_budget(context) if context.completion_tokens else None
    size, purpose = (_THINKING, "a model that thinks first") if known_model.thinks else (_DIRECT, "a short derivation")
    if budget is None:
        budget = ChosenValue(size, f"not measured: room for {purpose}; run_eval tells")
    elif context.stand_in and budget.value < size:
        tokens = f"the {context.completion_tokens} tokens (p95) that the eval measured are those of the rehearsal"
        budget = ChosenValue(size, f"room for {purpose}: {tokens}; run_eval on the platform tells")
    if known_model.context is None:
        return budget
    room = known_model.context - (context.prompt_tokens or ASSUMED_PROMPT)
    if budget.value <= room:
        return budget
    return ChosenValue(
        max(1, room),
        f"what the context of {known_model.context} tokens leaves beside the prompt; {budget.value} were wanted",
    )


def _measured_budget(context: ConfigContext) -> ChosenValue:
    tokens = context.completion_tokens or 0
    evidence = f", {context.evidence_summary}" if context.evidence_summary else ""
    if context.truncated is not None and context.truncated > TRUNCATED_SHARE:
        return ChosenValue(
            round_up(2 * tokens, 128),
            f"twice the {tokens} tokens (p95) of the eval{evidence}: it cut {context.truncated:.0%} of rollouts off, "
            "so that is its limit and no length",
        )
    size = round_up(int(COMPLETION_MARGIN * tokens) + 1, 128)
    measured = f"{COMPLETION_MARGIN} times the {tokens} tokens (p95) that the eval measured{evidence}"
    return ChosenValue(size, f"{measured}, rounded up to a multiple of 128")


def choose_sequence_length(choices: ConfigChoices, context: ConfigContext, budget: int, model: str) -> ChosenValue:
    """Choose the token limit of a whole sample, seq_len. `budget` is the token limit of a completion.

    Raises BadInput if a requested length cannot hold the prompt and the completion.
    """
    prompt = context.prompt_tokens or ASSUMED_PROMPT
    is_measured = bool(context.prompt_tokens and context.completion_tokens)
    turns = max(s.turns for s in choices.sources)
    longest = max(budget, context.longest or 0) if is_measured else budget * turns
    needed = prompt + longest
    if choices.seq_len is not None:
        if choices.seq_len < budget + (context.prompt_tokens or 0):
            raise BadInput(
                f"seq_len {choices.seq_len} does not hold {budget} completion tokens beside the prompt",
                fix=f"Pass seq_len={round_up(needed, 1024)} or a smaller max_tokens.",
                code="config-budget-exceeds-seq-len",
            )
        return ChosenValue(choices.seq_len, choices.because.get("seq_len", "as asked"))
    kind = "p99 of the eval, with tool output" if context.prompt_tokens else "assumed"
    kind += ", in rollouts of the rehearsal" if context.prompt_tokens and context.stand_in else ""
    times = f" x {turns} turns" if turns > 1 and not is_measured else ", all turns together" if is_measured else ""
    completion = f"{longest}{times}" if not is_measured or longest == budget else f"{longest} (p99{times})"
    size = max(LEAST_SAMPLE, round_up(needed, 1024))
    longest_context = find_model(model).context
    if longest_context is not None and size > longest_context >= prompt + budget:
        return ChosenValue(
            longest_context, f"the context of the model; {prompt} + {completion} tokens would take {size}"
        )
    least = f" to {LEAST_SAMPLE}, the default of prime-rl" if needed <= LEAST_SAMPLE - 1024 else ""
    return ChosenValue(size, f"{prompt} prompt tokens ({kind}) + {completion}, rounded up{least}")


LEAST_SAMPLE = 2048
"""The least seq_len that is written: the default of prime-rl, below which nothing is saved."""

EVAL_TASKS = 128
"""Default number of held-out tasks in each evaluation of a run."""


@dataclass(frozen=True, slots=True)
class ConfigPlan:
    """The chosen values of a config."""

    choices: ConfigChoices
    model: ChosenValue
    steps: ChosenValue
    batch: ChosenValue
    group: ChosenValue
    own_groups: Mapping[int, ChosenValue]
    """Group size by index of the training source, for sources whose evaluation needs another than the shared one."""
    max_tokens: ChosenValue
    seq_len: ChosenValue
    temperature: ChosenValue
    lora_rank: ChosenValue | None
    lora_alpha: ChosenValue | None
    lr: ChosenValue
    gpu_type: ChosenValue | None
    """The GPU type. None if the platform chooses it, or for self-managed GPUs."""
    hardware: Hardware
    renderer: ChosenValue | None
    eval_interval: ChosenValue
    eval_tasks: ChosenValue
    ckpt_interval: ChosenValue

    @property
    def train_gpus(self) -> ChosenValue:
        """Number of training GPUs."""
        return self.hardware.train

    @property
    def infer_gpus(self) -> ChosenValue:
        """Number of inference GPUs."""
        return self.hardware.infer

    @property
    def hardware_summary(self) -> str:
        """The GPUs in a few words."""
        gpu_type = f" {self.gpu_type.value}" if self.gpu_type else ""
        return f"{self.hardware.gpus}{gpu_type} GPUs: {self.train_gpus.value} train, {self.infer_gpus.value} generate"


def plan_config(choices: ConfigChoices, context: ConfigContext) -> ConfigPlan:
    """Choose all values of a config. Raises BadInput if the choices name no environment or contradict each other."""
    if not choices.sources:
        raise BadInput(
            "no environment was named to train on",
            fix=Fix(
                'Pass environments=["owner/name@version"], or based_on=a config that names them; ',
                NamedCall("workflow_status"),
                " lists those of the workspace.",
            ),
            code="config-no-train-source",
        )
    why = choices.because
    model = choices.model or DEFAULT_MODEL
    require_open_model(model)
    lora = True if choices.lora is None else choices.lora
    group, batch = choose_batching(choices, context)
    length = choose_steps(choices, context, int(batch.value) // int(group.value))
    completion = choose_completion_budget(choices, context, model)
    sample = choose_sequence_length(choices, context, int(completion.value), model)
    gpu_type, hardware = choose_gpu_type(choices, context, model, lora, int(sample.value))
    rank, alpha = choose_lora(choices)
    trainable = context.models.trainable if context.models is not None else ()
    recipes = f"the model of two LoRA recipes of prime-rl{or_smaller(model, trainable)}"
    model_reason = "as asked" if choices.model else recipes
    return ConfigPlan(
        choices=choices,
        model=ChosenValue(model, why.get("model", model_reason)),
        steps=length,
        batch=batch,
        group=group,
        own_groups=own_group_sizes(choices, context, int(group.value), int(batch.value)),
        max_tokens=completion,
        seq_len=sample,
        temperature=ChosenValue(
            1.0 if choices.temperature is None else choices.temperature,
            why.get("temperature", "samples of the policy itself, as the gradient assumes"),
        ),
        lora_rank=rank if lora else None,
        lora_alpha=alpha if lora else None,
        lr=choose_learning_rate(choices, lora, model, int(length.value)),
        gpu_type=gpu_type,
        hardware=hardware,
        renderer=choose_renderer(choices, context, model),
        eval_interval=_interval(
            choices.eval_interval, int(length.value), 10, why.get("eval_interval"), "ten points a run", EVALS_PER_RUN
        ),
        eval_tasks=_eval_tasks(choices, context),
        ckpt_interval=_interval(
            choices.ckpt_interval,
            int(length.value),
            4,
            why.get("ckpt_interval"),
            "about four points a run, and its last step",
            2,
        ),
    )


def _eval_tasks(choices: ConfigChoices, context: ConfigContext) -> ChosenValue:
    """The tasks of each eval source: no more than there are, because the bound counts what is written."""
    tasks, why = choices.eval_tasks or EVAL_TASKS, "about one training batch of rollouts each time"
    measured = [context.each.get(s.id, SourceMeasurement()) for s in choices.sources if s.held_out is not None]
    known = [m.held_out_tasks for m in measured if m.held_out_tasks is not None]
    there = max(known) if known and len(known) == len(measured) else None
    if there is not None and there < tasks:
        return ChosenValue(there, f"all {count(there, 'held-out task')} that there are")
    return ChosenValue(tasks, choices.because.get("eval_tasks", why))


def _interval(
    requested: int | None, steps: int, parts: int, because: str | None, reason: str, fewest: int
) -> ChosenValue:
    """The steps between two evaluations or checkpoints. An older file's interval may be meant for a longer run: one
    that gives fewer than `fewest` points of this run is chosen anew. The budget's own choice stays."""
    if requested is not None and because and not because.startswith("the budget") and requested * fewest > steps:
        return ChosenValue(
            max(1, steps // max(parts, fewest)),
            f"{reason}; {requested} as in the older file fits no {count(steps, 'step')}",
        )
    if requested is not None:
        kept = min(requested, steps)
        if because and reason in because and steps // kept != parts:  # the older file had another number of steps
            because = f"as in the older file; {count(steps // kept, 'point')} of this run"
        return ChosenValue(kept, because or "as asked")
    return ChosenValue(max(1, steps // parts), reason)
