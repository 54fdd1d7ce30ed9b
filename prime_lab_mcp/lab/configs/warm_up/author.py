"""Writes a fine-tuning config `configs/sft/NAME.toml` with a reason for each value, and its conversations beside it.

No file is overwritten. `hosted_steps` lists the commands with which a person fine-tunes on the platform.

Recipes: prime-rl 559b4477, examples/basic: reverse-text (Qwen3-0.6B, lr 2e-5, 32 x 4096 tokens, 100 steps) and wordle
(Qwen3-1.7B, lr 1e-5, 64 x 1024 tokens, 20 steps), both before RL. LoRA at ten times the full rate: docs/validation.md,
Training configs. Commands and rules are those of prime 0.18.0 (`prime volumes`, `prime train --sft`), where volumes are
in closed beta.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.text import positive_int_or_none, quote
from prime_lab_mcp.lab.configs import registry
from prime_lab_mcp.lab.configs.author import ConfigRequest
from prime_lab_mcp.lab.configs.config import TrainingConfig, parse_config, read_config
from prime_lab_mcp.lab.configs.context import known_renderers
from prime_lab_mcp.lab.configs.draft import (
    ConfigDraft,
    ConfigLineage,
    equal_except_date,
    flat_values,
    safe_comment,
)
from prime_lab_mcp.lab.configs.own_gpus import LaunchStep
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices, require_config_name
from prime_lab_mcp.lab.configs.plan.decide import require_open_model
from prime_lab_mcp.lab.configs.schema import schema_problems
from prime_lab_mcp.lab.configs.warm_up.examples import WarmUpExamples, warm_up_examples
from prime_lab_mcp.lab.configs.write import finish_text
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models import memory
from prime_lab_mcp.lab.models.registry import find_model

EPOCHS = 3
"""Passes over the conversations: enough to learn a form of reply, too few to memorise them (our judgement)."""
_LEAST_STEPS = 4
_PREFERRED_STEPS = 20
"""The largest batch is chosen with which the run has at least this many steps. The warm-up of wordle has 20."""
_RECIPE_BATCH, _RECIPE_SEQ, _RECIPE_STEPS = 32, 4096, 100
"""Values of the reverse-text recipe, for a dataset whose size is unknown."""
_BATCHES = (64, 32, 16, 8, 4, 2, 1)
"""Batch sizes to choose among, in sequences."""
_GPU_GB = 80.0
"""Assumed gigabytes of a GPU, as for A100 and H100."""


@dataclass(frozen=True, slots=True)
class WarmUpSize:
    """Values of a warm-up that depend on each other."""

    gpus: int
    batch: int
    """Sequences per step."""
    seq_len: int
    """Tokens per sequence."""
    steps: int
    steps_reason: str
    """The reason for the number of steps."""


def compose_warm_up(choices: ConfigChoices, examples: WarmUpExamples, stem: str) -> ConfigDraft:
    """Return the draft of the config `configs/sft/STEM.toml`. Raises BadInput if the choices do not fit together."""
    draft, model = ConfigDraft(), warm_up_model(choices, examples)
    hosted = choices.target == "hosted"
    lora = bool(choices.lora)
    draft.put("name" if hosted else "run.name", stem, "name of the run")
    if hosted:
        draft.put("volume", volume_name(stem), "hosted fine-tuning reads its data from a volume and writes there")
        if choices.gpu_type:
            draft.put("gpu_type", choices.gpu_type, "as asked")
    sized = size_warm_up(choices, examples, model, lora)
    draft.put("max_steps", sized.steps, sized.steps_reason)
    draft.put("model.name", model, "as asked" if choices.model else "the model that was evaluated")
    if lora:
        draft.put("model.lora.rank", choices.lora_rank or 16, "8 to 32 is enough")
        draft.put("model.lora.alpha", float(choices.lora_alpha or 32), "twice the rank")
    if renderer := warm_up_renderer(choices, model):
        draft.put("renderer.name", renderer, "prime-rl does not know the model by this name; the one of its family")
    draft.put("deployment.num_train_gpus", sized.gpus, _gpus_reason(choices, model))
    draft.put("data.name", data_name(choices, examples, stem), examples.source_summary)
    draft.put("data.seq_len", sized.seq_len, _seq_len_reason(examples))
    draft.put("data.batch_size", sized.batch, f"sequences of {sized.seq_len} tokens a step, filled with conversations")
    if choices.lr is not None:
        draft.put("optim.lr", choices.lr, "as asked")
    elif lora:
        draft.put("optim.lr", 1e-4, "ten times the rate of full fine-tuning, as for LoRA")
    else:
        draft.put("optim.lr", 1e-5, "as the warm-up of wordle; reverse-text has 2e-5")
    draft.put("ckpt.keep_last", 1, "one checkpoint, at the end: RL begins from it")
    if choices.wandb:
        draft.put("monitors.wandb.project", choices.wandb, "the key is passed beside this file, as WANDB_API_KEY")
    draft.merge(choices.extra, "as asked")
    return draft


def warm_up_model(choices: ConfigChoices, examples: WarmUpExamples) -> str:
    """Return the model to fine-tune: the requested or else the evaluated one.

    Raises BadInput if there is none, or if its weights are not published.
    """
    model = choices.model or examples.model
    if model is None or (choices.model is None and find_model(model).parameters is None):
        reason = f"{quote(model, limit=100)} is not known to have weights to train" if model else "no model was named"
        raise BadInput(
            f"{reason}, so it is open which model is to be warmed up",
            fix='Pass model="OWNER/NAME" of Hugging Face: the model that RL will train.',
            code="sft-no-model",
        )
    require_open_model(model)
    return model


def warm_up_renderer(choices: ConfigChoices, model: str) -> str | None:
    """Return the renderer to set in the config, or None if prime-rl or the request names it.

    Raises BadInput if no renderer is known that tells the model's tokens from the others.
    """
    requested = dict(flat_values(choices.extra)).get(("renderer", "name"))
    if requested is None and model in known_renderers():
        return None
    family = find_model(model).renderer
    renderer = requested or family
    if renderer in (None, "auto", "default"):
        raise BadInput(
            f"prime-rl has no renderer for {quote(model, limit=100)} that tells the model's tokens from the others, "
            "which fine-tuning needs",
            fix=Fix(
                "Pass ",
                SameCall(extra={"renderer.name": "qwen3"}),
                " with the renderer of the model it was tuned from, if its chat template is the same; or a model that ",
                NamedCall("search_hub", kind="model"),
                " lists with a renderer.",
            ),
            code="config-sft-renderer",
        )
    return None if requested else family


def size_warm_up(choices: ConfigChoices, examples: WarmUpExamples, model: str, lora: bool) -> WarmUpSize:
    """Choose GPUs, batch, sequence length and steps. Raises BadInput if the batch does not divide among the GPUs."""
    extra = choices.extra
    seq_len = choices.seq_len or positive_int_or_none(extra.get("data.seq_len")) or _seq_len(examples)
    gpus = choices.gpus or _gpus(model, lora, seq_len)
    if examples.rows is None:
        batch = choices.batch or _RECIPE_BATCH
        reason = "as the warm-up of reverse-text; its length should follow the dataset"
        steps, reason = (choices.steps, "as asked") if choices.steps else (_RECIPE_STEPS, reason)
    else:
        sequences = EPOCHS * examples.tokens / seq_len
        batch = choices.batch or next((b for b in _BATCHES if sequences / b >= _PREFERRED_STEPS), 1)
        batch = batch if choices.batch else -(-batch // gpus) * gpus
        steps = choices.steps or max(_LEAST_STEPS, round(sequences / batch))
        passes = steps * batch * seq_len / max(1, examples.tokens)
        reason = "as asked" if choices.steps else f"about {passes:.0f} passes over {examples.tokens:,} tokens"
    if batch % gpus:
        raise BadInput(
            f"a batch of {batch} sequences does not divide among {gpus} GPUs",
            fix=Fix("Pass ", SameCall(batch=-(-batch // gpus) * gpus), "."),
            code="config-batch-group",
        )
    return WarmUpSize(gpus, batch, seq_len, steps, reason)


def data_name(choices: ConfigChoices, examples: WarmUpExamples, stem: str) -> str:
    """Return the value of `data.name`: the folder with train.jsonl on the volume or beside the config, or the
    dataset."""
    if choices.target == "hosted":
        return f"datasets/{stem}"
    return examples.name if examples.rows is None else f"configs/sft/{stem}"


def volume_name(stem: str) -> str:
    """Return a valid name of a volume: lowercase letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "warm-up"


def _gpus(model: str, lora: bool, seq_len: int) -> int:
    known_model = find_model(model)
    if known_model.parameters is None:
        return 1
    state = "lora" if lora else "offloaded"
    return memory.fewest_gpus(known_model.parameters, known_model.active, _GPU_GB, seq_len=seq_len, state=state) or 8


def _gpus_reason(choices: ConfigChoices, model: str) -> str:
    if choices.gpus:
        return "as asked"
    parameters = find_model(model).parameters
    return f"judged by {parameters:g}B parameters on GPUs of 80 GB" if parameters else "the size is not known"


def _seq_len(examples: WarmUpExamples) -> int:
    if examples.rows is None:
        return _RECIPE_SEQ
    return min(32_768, -(-examples.longest // 128) * 128)


def _seq_len_reason(examples: WarmUpExamples) -> str:
    if examples.rows is None:
        return "as the warm-up of reverse-text; longer conversations are cut off"
    return f"the longest conversation has about {examples.longest:,} tokens; longer ones would be cut off"


def hosted_steps(config: TrainingConfig, path: str, dataset: str | None) -> tuple[LaunchStep, ...]:
    """Return the steps with which a person fine-tunes on the platform. `path` is the config in the workspace.

    `dataset` is the name of a dataset on Hugging Face. None means that the conversations are in the folder beside the
    config that has its name.
    """
    volume, target = shlex.quote(str(config.at("volume"))), shlex.quote(str(config.at("data.name")))
    file = shlex.quote(path)
    return (
        LaunchStep(
            "volume", f"prime volumes create {volume} --size 50Gi", "where data and checkpoints lie; closed beta"
        ),
        *(_uploaded(volume, path) if dataset is None else _downloaded(volume, dataset, target)),
        LaunchStep("look", f"prime volumes ls {volume} {target}", "train.jsonl or Parquet files must be there"),
        LaunchStep("judge", f"prime train validate {file} --sft", "no run is created"),
        LaunchStep("start", f"prime train {file} --sft", "a person runs it: it names the price and asks"),
        LaunchStep(
            "fetch", f"prime volumes get {volume} runs/RUN_ID .", "once `prime train get RUN_ID` says COMPLETED"
        ),
    )


def _uploaded(volume: str, path: str) -> tuple[LaunchStep, ...]:
    folder = shlex.quote(path.removesuffix(".toml"))
    return (LaunchStep("upload", f"prime volumes put {volume} {folder} datasets/", "the run reads files only there"),)


def _downloaded(volume: str, dataset: str, target: str) -> tuple[LaunchStep, ...]:
    get = f"hf download {shlex.quote(dataset)} --repo-type dataset --local-dir {target}"
    return (
        LaunchStep("open volume", f"prime volumes ssh {volume} --read-write", "a session on the volume"),
        LaunchStep("download", get, "in that session, as the trainer downloads nothing; then leave it"),
    )


WARM_UP_FOLDER = "configs/sft"
DATA_FILE = "train.jsonl"
"""Name of the file with the conversations. With this name, the folder is a dataset with a split `train`, which the
trainer loads."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """A written fine-tuning config and its conversations.

    `relative` is its path in the workspace, and `data` the folder of the conversations, None for a dataset on Hugging
    Face. `existed` is True if an identical config existed already.
    """

    config: TrainingConfig
    relative: str
    version: int
    existed: bool
    examples: WarmUpExamples
    data: str | None


def write_warm_up(lab: Lab, request: ConfigRequest, source: str, today: date) -> WarmUp:
    """Write the fine-tuning config of a request, and its conversations from `source`.

    Raises BadInput for a request that cannot be met, without writing anything.
    """
    _require_no_rl_arguments(request)
    registry.load_registry(lab.workspace.resolve(registry.REGISTRY))
    examples = warm_up_examples(lab, source, request.held_out)
    name = request.name or _name(examples, request)
    require_config_name(name)
    extra = {".".join(map(str, path)): value for path, value in flat_values(request.extra)}
    choices = replace(request.choices, extra={**request.choices.extra, **extra})
    version = 0
    while True:
        version += 1
        stem = name if version == 1 else f"{name}-v{version}"
        path = lab.workspace.resolve(f"{WARM_UP_FOLDER}/{stem}.toml")
        draft = compose_warm_up(choices, examples, stem)
        _require_known_keys(draft)
        text, config = _text(
            draft, ConfigLineage(stem, version, today, choices.target, _environments(examples), source), path
        )
        data = path.with_suffix("") / DATA_FILE
        if not path.exists() and not data.exists():
            break
        if _is_equal_config(path, text) and _are_equal_rows(data, examples):
            return _warm_up(lab, read_config(path), path, version, True, examples)
    if examples.rows is not None:
        registry.replace_text(data, _lines(examples))
    registry.replace_text(path, text)
    relative = path.relative_to(lab.workspace.root).as_posix()
    entry = registry.RegistryEntry(
        name=f"sft/{name}",
        version=version,
        path=relative,
        created=today.isoformat(),
        model=config.model,
        target=choices.target,
        environments=_environments(examples),
        sha256=config.sha256,
        based_on=None,
        notes=f"warm-up on {examples.source_summary}",
    )
    registry.add_entry(lab.workspace.resolve(registry.REGISTRY), entry)
    return _warm_up(lab, config, path, version, False, examples)


def _warm_up(
    lab: Lab, config: TrainingConfig, path: Path, version: int, existed: bool, examples: WarmUpExamples
) -> WarmUp:
    relative = path.relative_to(lab.workspace.root).as_posix()
    data = relative.removesuffix(".toml") if examples.rows is not None else None
    return WarmUp(config, relative, version, existed, examples, data)


def _require_no_rl_arguments(request: ConfigRequest) -> None:
    choices = request.choices
    rl_only = {
        "environments": request.environments,
        "env_args": request.env_args,
        "based_on": request.based_on,
        "group": choices.group,
        "max_tokens": choices.max_tokens,
        "curriculum": choices.curriculum,
    }
    if refused := [name for name, value in rl_only.items() if value]:
        raise BadInput(
            f"{', '.join(refused)} says nothing about supervised fine-tuning, which plays no environment",
            fix="Leave it out beside sft; write the RL config after it with another call.",
            code="bad-argument",
        )


def _require_known_keys(draft: ConfigDraft) -> None:
    for problem in schema_problems(draft.table, "sft"):
        raise BadInput(
            f"{quote(problem.key, limit=120)} {problem.problem}",
            fix=f"Did you mean {problem.near}?"
            if problem.near
            else 'Give extra as dotted keys of the SFT config, e.g. {"data.seq_len": 8192}.',
            code="config-unknown-key",
        )


def _text(draft: ConfigDraft, lineage: ConfigLineage, path: Path) -> tuple[str, TrainingConfig]:
    text, _ = finish_text(draft, lineage, path)
    usage = (
        "a person starts it with `prime train this-file --sft`"
        if lineage.target == "hosted"
        else "run it with `uv run sft @ this-file` where prime-rl is installed"
    )
    first = "# " + safe_comment(f"{lineage.name}: a prime-rl config for supervised fine-tuning before RL; {usage}.")
    text = "\n".join([first, *text.split("\n")[1:]])
    return text, parse_config(text, path)


def _environments(examples: WarmUpExamples) -> tuple[str, ...]:
    return (examples.environment,) if examples.environment else ()


def _name(examples: WarmUpExamples, request: ConfigRequest) -> str:
    stem = examples.environment or Path(examples.name).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem.replace("_", "-")).strip("-._")[:50] or "warm-up"


def _lines(examples: WarmUpExamples) -> str:
    return "".join(row.line + "\n" for row in examples.rows or ())


def _is_equal_config(path: Path, text: str) -> bool:
    try:
        return equal_except_date(path.read_text(encoding="utf-8"), text)
    except (OSError, UnicodeDecodeError):
        return False


def _are_equal_rows(data: Path, examples: WarmUpExamples) -> bool:
    if examples.rows is None:
        return True
    try:
        return data.read_text(encoding="utf-8") == _lines(examples)
    except (OSError, UnicodeDecodeError):
        return False
