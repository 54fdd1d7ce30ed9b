"""Puts the decisions together: those that rest on others come after them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.configs.plan.batching import batching, own_groups, steps
from prime_lab_mcp.lab.configs.plan.choices import DEFAULT_MODEL, Choices, Value
from prime_lab_mcp.lab.configs.plan.hardware import Hardware
from prime_lab_mcp.lab.configs.plan.market import placed
from prime_lab_mcp.lab.configs.plan.rates import adapter, rate
from prime_lab_mcp.lab.configs.plan.renderer import renderer
from prime_lab_mcp.lab.configs.plan.tokens import budget, seq_len
from prime_lab_mcp.lab.errors import BadInput

EVAL_TASKS = 128


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that goes into the file."""

    choices: Choices
    model: Value
    steps: Value
    batch: Value
    group: Value
    own_groups: Mapping[int, Value]
    """By index of the training source, where its evaluation asks for another group than the shared one."""
    max_tokens: Value
    seq_len: Value
    temperature: Value
    lora_rank: Value | None
    lora_alpha: Value | None
    lr: Value
    gpu_type: Value | None
    """None: the platform chooses, or the GPUs are one's own."""
    hardware: Hardware
    renderer: Value | None
    eval_interval: Value
    eval_tasks: Value
    ckpt_interval: Value

    @property
    def train_gpus(self) -> Value:
        return self.hardware.train

    @property
    def infer_gpus(self) -> Value:
        return self.hardware.infer

    @property
    def told(self) -> str:
        """The hardware in a few words, for the registry."""
        of = f" {self.gpu_type.value}" if self.gpu_type else ""
        return f"{self.hardware.gpus}{of} GPUs: {self.train_gpus.value} train, {self.infer_gpus.value} generate"


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
    group, batch = batching(choices, seen)
    length = steps(choices, seen, int(batch.value) // int(group.value))
    completion = budget(choices, seen, model)
    sample = seq_len(choices, seen, int(completion.value), model)
    gpu_type, hardware = placed(choices, seen, model, lora, int(sample.value))
    rank, alpha = adapter(choices)
    named = "as asked" if choices.model else "the model of two LoRA recipes of prime-rl"
    return Plan(
        choices=choices,
        model=Value(model, why.get("model", named)),
        steps=length,
        batch=batch,
        group=group,
        own_groups=own_groups(choices, seen, int(group.value), int(batch.value)),
        max_tokens=completion,
        seq_len=sample,
        temperature=Value(
            1.0 if choices.temperature is None else choices.temperature,
            why.get("temperature", "samples of the policy itself, as the gradient assumes"),
        ),
        lora_rank=rank if lora else None,
        lora_alpha=alpha if lora else None,
        lr=rate(choices, lora, model, int(length.value)),
        gpu_type=gpu_type,
        hardware=hardware,
        renderer=renderer(choices, seen, model),
        eval_interval=_interval(
            choices.eval_interval, int(length.value), 10, why.get("eval_interval"), "ten points a run"
        ),
        eval_tasks=Value(
            choices.eval_tasks or EVAL_TASKS, why.get("eval_tasks", "about one training batch of rollouts each time")
        ),
        ckpt_interval=_interval(
            choices.ckpt_interval, int(length.value), 4, why.get("ckpt_interval"), "four points to go back to"
        ),
    )


def _interval(asked: int | None, steps: int, parts: int, because: str | None, reason: str) -> Value:
    if asked is not None:
        return Value(min(asked, steps), because or "as asked")
    return Value(max(1, steps // parts), reason)
