"""Chooses every value of a new config and says why: from what the caller asked, what evals measured, and recipes.

Recipes are prime-rl's own example configs (alphabet-sort, wiki-search, wordle: 200 steps, batch 128, groups of 8 to
16, learning rate 1e-5 with LoRA and 1e-6 without).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.configs.read import Target
from prime_lab_mcp.lab.configs.rules_course import MANY_PASSES
from prime_lab_mcp.lab.configs.rules_tokens import COMPLETION_MARGIN
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.text import quote

Curriculum = Literal["gate", "pools", "both"]

DEFAULT_MODEL = "Qwen/Qwen3-4B-Instruct-2507"
DEFAULT_STEPS, DEFAULT_BATCH, DEFAULT_GROUP = 200, 128, 16
ASSUMED_PROMPT = 1024
"""Tokens left for a prompt that nobody measured."""
EVAL_TASKS = 128
_GROUPS = (16, 8, 32, 12, 10, 6, 5, 4, 3, 2)
_SIZE = re.compile(r"(?<![A-Za-z\d.])(\d+(?:\.\d+)?)B\b")
_THINKS = re.compile(r"Thinking|DeepSeek-R1|gpt-oss|/Qwen3-[\d.]+B(-A\d+B)?$|/Qwen3\.[568]-(?!0\.8B|2B)")


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """An environment to train on as its taskset id; `args` are keys of its taskset, `held_out` of its eval source."""

    id: str
    args: Mapping[str, Any] = field(default_factory=dict)
    held_out: Mapping[str, Any] | None = None
    name: str | None = None
    ratio: float | None = None
    turns: int = 1
    harness: str | None = "null"
    runtime: str | None = "subprocess"


@dataclass(frozen=True, slots=True)
class Choices:
    """What was asked for. None: to be chosen. `because` gives the reason of a value that came from another file."""

    sources: tuple[SourceChoice, ...]
    model: str | None = None
    target: Target = "hosted"
    steps: int | None = None
    batch: int | None = None
    group: int | None = None
    max_tokens: int | None = None
    seq_len: int | None = None
    temperature: float | None = None
    lora: bool | None = None
    lora_rank: int | None = None
    lora_alpha: float | None = None
    lr: float | None = None
    gpus: int | None = None
    train_gpus: int | None = None
    gpu_type: str | None = None
    renderer: str | None = None
    wandb: str | None = None
    curriculum: Curriculum | None = None
    eval_interval: int | None = None
    eval_tasks: int | None = None
    ckpt_interval: int | None = None
    because: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further prime-rl keys by dotted path, which no plan decides on."""
    env_args: Mapping[str, Any] = field(default_factory=dict)
    """Taskset keys for every training source that an older file names."""
    held_out: Mapping[str, Any] | None = None
    """The same for eval sources; empty: no evaluation."""


@dataclass(frozen=True, slots=True)
class Value:
    """One chosen value and its reason."""

    value: Any
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that goes into the file."""

    choices: Choices
    model: Value
    steps: Value
    batch: Value
    group: Value
    max_tokens: Value
    seq_len: Value
    temperature: Value
    lora_rank: Value | None
    lora_alpha: Value | None
    lr: Value
    train_gpus: Value
    infer_gpus: Value
    renderer: Value | None
    eval_interval: Value
    eval_tasks: Value
    ckpt_interval: Value


def plan(choices: Choices, seen: Observed) -> Plan:
    """Raises BadInput for wishes that exclude each other."""
    if not choices.sources:
        raise BadInput(
            "no environment was named to train on",
            fix='Pass environments=["owner/name@version"], or based_on=a config that names them.',
            code="config-no-train-source",
        )
    why = choices.because
    model = choices.model or DEFAULT_MODEL
    lora = True if choices.lora is None else choices.lora
    group, batch = _batching(choices)
    steps = _steps(choices, seen, int(batch.value) // int(group.value))
    budget = _budget(choices, seen, model)
    train, infer = _gpus(choices, model, lora)
    return Plan(
        choices=choices,
        model=Value(
            model, why.get("model", "as asked" if choices.model else "the model of two LoRA recipes of prime-rl")
        ),
        steps=steps,
        batch=batch,
        group=group,
        max_tokens=budget,
        seq_len=_seq_len(choices, seen, int(budget.value)),
        temperature=Value(
            1.0 if choices.temperature is None else choices.temperature,
            why.get("temperature", "samples of the policy itself, as the gradient assumes"),
        ),
        lora_rank=Value(choices.lora_rank or 16, why.get("lora_rank", "8 to 32 is enough for RL")) if lora else None,
        lora_alpha=Value(
            float(choices.lora_alpha or 2 * (choices.lora_rank or 16)), why.get("lora_alpha", "twice the rank")
        )
        if lora
        else None,
        lr=_rate(choices, lora),
        train_gpus=train,
        infer_gpus=infer,
        renderer=_renderer(choices, seen, model),
        eval_interval=_interval(
            choices.eval_interval, int(steps.value), 10, why.get("eval_interval"), "ten points a run"
        ),
        eval_tasks=Value(
            choices.eval_tasks or EVAL_TASKS, why.get("eval_tasks", "about one training batch of rollouts each time")
        ),
        ckpt_interval=_interval(
            choices.ckpt_interval, int(steps.value), 4, why.get("ckpt_interval"), "four points to go back to"
        ),
    )


def _batching(choices: Choices) -> tuple[Value, Value]:
    why = choices.because
    group, batch = choices.group, choices.batch
    if group is None:
        group = DEFAULT_GROUP if batch is None else next((g for g in _GROUPS if batch % g == 0), 0)
        reason = "enough rollouts of one task to compare" + (", divides the batch" if batch else "")
    else:
        reason = why.get("group", "as asked")
    if batch is None:
        batch = max(1, round(DEFAULT_BATCH / group)) * group if group else DEFAULT_BATCH
        while batch < 64:
            batch += group
        size = Value(batch, "rollouts a step: the default size of prime-rl, a multiple of the group")
    else:
        size = Value(batch, why.get("batch", "as asked; rollouts a step"))
    if not group or batch % group:
        raise BadInput(
            f"a batch of {batch} rollouts is no multiple of "
            + (f"the group size {group}" if group else "any useful group size"),
            fix=f"Pass batch={max(1, round(batch / (group or DEFAULT_GROUP))) * (group or DEFAULT_GROUP)}.",
            code="config-batch-group",
        )
    return Value(group, reason), size


def _steps(choices: Choices, seen: Observed, groups: int) -> Value:
    if choices.steps is not None:
        return Value(choices.steps, choices.because.get("steps", "as asked"))
    if seen.tasks and not seen.infinite:
        most = MANY_PASSES * seen.tasks // groups
        if most < DEFAULT_STEPS:
            return Value(max(20, most), f"about {MANY_PASSES} passes over the {seen.tasks} tasks, not more")
    return Value(DEFAULT_STEPS, "length of the small recipes of prime-rl; look at step 50 whether the reward rises")


def _budget(choices: Choices, seen: Observed, model: str) -> Value:
    if choices.max_tokens is not None:
        return Value(choices.max_tokens, choices.because.get("max_tokens", "as asked"))
    if seen.completion_tokens:
        size = _up(int(COMPLETION_MARGIN * seen.completion_tokens) + 1, 128)
        return Value(
            size, f"{COMPLETION_MARGIN} times the {seen.completion_tokens} tokens (p95) that the eval measured"
        )
    if _THINKS.search(model):
        return Value(4096, "not measured: room for a model that thinks first; run_eval tells")
    return Value(1024, "not measured: room for a short derivation; run_eval tells")


def _seq_len(choices: Choices, seen: Observed, budget: int) -> Value:
    prompt = seen.prompt_tokens or ASSUMED_PROMPT
    turns = max(s.turns for s in choices.sources)
    needed = prompt + budget * turns
    if choices.seq_len is not None:
        if choices.seq_len < budget + (seen.prompt_tokens or 0):
            raise BadInput(
                f"seq_len {choices.seq_len} does not hold {budget} completion tokens beside the prompt",
                fix=f"Pass seq_len={_up(needed, 1024)} or a smaller max_tokens.",
                code="config-budget-exceeds-seq-len",
            )
        return Value(choices.seq_len, choices.because.get("seq_len", "as asked"))
    size = max(2048, _up(needed, 1024))
    kind = "measured" if seen.prompt_tokens else "assumed"
    times = f" x {turns} turns" if turns > 1 else ""
    return Value(size, f"{prompt} prompt tokens ({kind}) + {budget}{times}, rounded up")


def _rate(choices: Choices, lora: bool) -> Value:
    if choices.lr is not None:
        return Value(choices.lr, choices.because.get("lr", "as asked"))
    if lora:
        return Value(1e-5, "LoRA wants ten times the full rate; the default of 1e-6 would be too small")
    return Value(1e-6, "usual for full fine-tuning")


def _gpus(choices: Choices, model: str, lora: bool) -> tuple[Value, Value]:
    size = parameters(model)
    if choices.gpus is not None:
        total, reason = choices.gpus, choices.because.get("gpus", "as asked")
    elif size is None:
        total, reason = 2, "smallest pair; the name does not tell the size"
    else:
        total = 2 if size <= 5 else 4 if size <= 15 else 8
        reason = f"judged by {size:g}B parameters"
    train = choices.train_gpus or max(1, total // (4 if lora else 2))
    if choices.train_gpus:
        return Value(train, reason), Value(total - train, reason)
    return (
        Value(train, f"{reason}; {'LoRA trains light' if lora else 'half of them for optimizer states'}"),
        Value(total - train, "the rest generates, which takes most of a step"),
    )


def _renderer(choices: Choices, seen: Observed, model: str) -> Value | None:
    if choices.renderer is not None:
        return Value(choices.renderer, choices.because.get("renderer", "as asked"))
    if model in seen.renderers:
        return None
    return Value("default", "the model is not among those prime-rl knows: its own chat template is used, without tools")


def near_models(model: str, seen: Observed) -> list[str]:
    """Known models that a misspelt name may have meant."""
    folded = {name.lower(): name for name in seen.renderers}
    return [folded[m] for m in difflib.get_close_matches(model.lower(), list(folded), n=3, cutoff=0.75)]


def parameters(model: str) -> float | None:
    """Billions of parameters that a model's name states (`Qwen3-30B-A3B` has 30)."""
    found = _SIZE.search(model.rpartition("/")[2])
    return float(found[1]) if found else None


def _interval(asked: int | None, steps: int, parts: int, because: str | None, reason: str) -> Value:
    if asked is not None:
        return Value(min(asked, steps), because or "as asked")
    return Value(max(1, steps // parts), reason)


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def refuse_name(name: str) -> None:
    """A config's name becomes a file name and the name of a run. Raises BadInput."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise BadInput(
            f"{quote(name)} cannot name a config",
            fix="Use up to 64 letters, digits, dots, hyphens and underscores, starting with a letter or digit.",
            code="bad-name",
        )
