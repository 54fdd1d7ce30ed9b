"""Every value of a config for supervised fine-tuning, with its reason.

Recipes: prime-rl 559b4477, examples/basic: reverse-text (Qwen3-0.6B, lr 2e-5, 32 x 4096 tokens, 100 steps) and wordle
(Qwen3-1.7B, lr 1e-5, 64 x 1024 tokens, 20 steps), both before RL. LoRA at ten times the full rate: facts 4.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from prime_lab_mcp.lab.configs.draft import Draft
from prime_lab_mcp.lab.configs.observed import known_renderers
from prime_lab_mcp.lab.configs.plan import Choices
from prime_lab_mcp.lab.configs.warm_up.examples import Examples
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.models import find, memory
from prime_lab_mcp.lab.text import quote

EPOCHS = 3
"""Over so few conversations: enough for a form, before they are learned by heart."""
_LEAST_STEPS = 4
_WANTED_STEPS = 20
_RECIPE_BATCH, _RECIPE_SEQ, _RECIPE_STEPS = 32, 4096, 100
_BATCHES = (64, 32, 16, 8, 4, 2, 1)
_GPU_GB = 80.0
"""Of a GPU whose type is not known: A100 and H100 have it."""


@dataclass(frozen=True, slots=True)
class Sized:
    """Values that hang together: GPUs, sequences a step, tokens a sequence, steps."""

    gpus: int
    batch: int
    seq_len: int
    steps: int
    why_steps: str


def compose(choices: Choices, examples: Examples, stem: str) -> Draft:
    """A draft of `configs/sft/STEM.toml`. Raises BadInput where the batch does not divide among the GPUs."""
    draft, model = Draft(), model_of(choices, examples)
    hosted = choices.target == "hosted"
    lora = bool(choices.lora)
    draft.put("name" if hosted else "run.name", stem, "name of the run")
    if hosted:
        draft.put("volume", volume_name(stem), "hosted fine-tuning reads its data from a volume and writes there")
        if choices.gpu_type:
            draft.put("gpu_type", choices.gpu_type, "as asked")
    sized = size(choices, examples, model, lora)
    draft.put("max_steps", sized.steps, sized.why_steps)
    draft.put("model.name", model, "as asked" if choices.model else "the model that was evaluated")
    if lora:
        draft.put("model.lora.rank", choices.lora_rank or 16, "8 to 32 is enough")
        draft.put("model.lora.alpha", float(choices.lora_alpha or 32), "twice the rank")
    if model not in known_renderers():
        draft.put("renderer.name", "default", "prime-rl does not know the model: its own chat template is used")
    draft.put("deployment.num_train_gpus", sized.gpus, _why_gpus(choices, model))
    draft.put("data.name", data_name(choices, examples, stem), examples.said)
    draft.put("data.seq_len", sized.seq_len, _why_seq_len(examples))
    draft.put("data.batch_size", sized.batch, f"sequences of {sized.seq_len} tokens a step, filled with conversations")
    if choices.lr is not None:
        draft.put("optim.lr", choices.lr, "as asked")
    elif lora:
        draft.put("optim.lr", 1e-4, "LoRA wants ten times the full rate")
    else:
        draft.put("optim.lr", 1e-5, "as the warm-up of wordle; reverse-text has 2e-5")
    draft.put("ckpt.keep_last", 1, "one checkpoint, at the end: RL begins from it")
    if choices.wandb:
        draft.put("monitors.wandb.project", choices.wandb, "the key is passed beside this file, as WANDB_API_KEY")
    for path, value in choices.extra.items():
        draft.put(path, value, "as asked")
    return draft


def model_of(choices: Choices, examples: Examples) -> str:
    """Raises BadInput where nobody named a model whose weights there are."""
    model = choices.model or examples.model
    if model is None or (choices.model is None and find(model).parameters is None):
        said = f"{quote(model, limit=100)} is not known to have weights to train" if model else "no model was named"
        raise BadInput(
            f"{said}, so it is open which model is to be warmed up",
            fix='Pass model="OWNER/NAME" of Hugging Face: the model that RL will train.',
            code="sft-no-model",
        )
    return model


def size(choices: Choices, examples: Examples, model: str, lora: bool) -> Sized:
    """GPUs, batch, sequence length and steps."""
    extra = choices.extra
    seq_len = choices.seq_len or _whole(extra.get("data.seq_len")) or _seq_len(examples)
    gpus = choices.gpus or _gpus(model, lora, seq_len)
    if examples.rows is None:
        batch = choices.batch or _RECIPE_BATCH
        why = "as the warm-up of reverse-text; its length should follow the dataset"
        steps, why = (choices.steps, "as asked") if choices.steps else (_RECIPE_STEPS, why)
    else:
        sequences = EPOCHS * examples.tokens / seq_len
        batch = choices.batch or next((b for b in _BATCHES if sequences / b >= _WANTED_STEPS), 1)
        batch = batch if choices.batch else -(-batch // gpus) * gpus
        steps = choices.steps or max(_LEAST_STEPS, round(sequences / batch))
        passes = steps * batch * seq_len / max(1, examples.tokens)
        why = "as asked" if choices.steps else f"about {passes:.0f} passes over {examples.tokens:,} tokens"
    if batch % gpus:
        raise BadInput(
            f"a batch of {batch} sequences does not divide among {gpus} GPUs",
            fix=f"Pass batch={-(-batch // gpus) * gpus}.",
            code="config-batch-group",
        )
    return Sized(gpus, batch, seq_len, steps, why)


def data_name(choices: Choices, examples: Examples, stem: str) -> str:
    """What `data.name` says: a folder with train.jsonl, on the volume or beside the config; else the dataset."""
    if choices.target == "hosted":
        return f"datasets/{stem}"
    return examples.name if examples.rows is None else f"configs/sft/{stem}"


def volume_name(stem: str) -> str:
    """Volumes are named in lowercase letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "warm-up"


def _gpus(model: str, lora: bool, seq_len: int) -> int:
    known = find(model)
    if known.parameters is None:
        return 1
    state = "lora" if lora else "offloaded"
    return memory.fewest(known.parameters, known.active, _GPU_GB, seq_len=seq_len, state=state) or 8


def _why_gpus(choices: Choices, model: str) -> str:
    if choices.gpus:
        return "as asked"
    known = find(model).parameters
    return f"judged by {known:g}B parameters on GPUs of 80 GB" if known else "the size is not known"


def _seq_len(examples: Examples) -> int:
    if examples.rows is None:
        return _RECIPE_SEQ
    return min(32_768, -(-examples.longest // 128) * 128)


def _why_seq_len(examples: Examples) -> str:
    if examples.rows is None:
        return "as the warm-up of reverse-text; longer conversations are cut off"
    return f"the longest conversation has about {examples.longest:,} tokens; longer ones would be cut off"


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
