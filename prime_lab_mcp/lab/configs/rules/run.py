"""Rules about a whole run: its launch, folders and resuming, the learning rate, steps, checkpoints and evaluations.

The launch rules repeat validators of prime-rl (configs/rl.py, shared.py and trainer.py at `SCHEMA_COMMIT`). The
thresholds of the other rules come from prime-rl's checks, recipes and docs, or are our judgement, as their constants
say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.statistics import least_shown_rise
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule, SourceMeasurement
from prime_lab_mcp.lab.configs.schema import prime_rl_refuses

LR_LORA, LR_FULL = (3e-6, 2e-4), (1e-7, 1e-5)
"""Lowest and highest learning rate without a warning, for LoRA and for full fine-tuning. The ranges cover published
recipes; "LoRA Without Regret" recommends ten times the rate of full fine-tuning."""
MANY_PASSES = 10
"""Passes over the tasks above which a run gets a warning (our judgement)."""
EVALS_PER_RUN = 5
"""Least number of evaluations on held-out tasks in a run (our judgement)."""


def learning_rate(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The learning rate must suit LoRA or full fine-tuning. prime-rl's default of 1e-6 suits the latter only."""
    if config.at("trainer.optim.type") not in (None, "adamw"):
        return
    mode, (low, high), usual = ("LoRA", LR_LORA, 1e-5) if config.lora else ("Full fine-tuning", LR_FULL, 1e-6)
    if config.lora and config.lr is None:
        yield Finding(
            "config-lr-unset",
            "warning",
            "LoRA is on and the learning rate is not set: prime-rl's default 1e-6 is ten times too small for LoRA.",
            "Set trainer.optim.lr = 1e-5.",
            "trainer.optim.lr",
        )
    elif config.lr is not None and not low <= config.lr <= high:
        yield Finding(
            "config-lr-range",
            "warning",
            f"{mode} at learning rate {config.lr:g} is outside of {low:g} to {high:g}, the range that recipes use.",
            f"Set trainer.optim.lr = {usual:g}, unless you mean it.",
            "trainer.optim.lr",
        )


def step_limit(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The config must set max_steps, because a run without it never ends and is billed by the hour."""
    if config.max_steps is None or config.max_steps < 1:
        yield Finding(
            "config-no-max-steps",
            "blocker",
            "max_steps is not set: the run would go on, and be billed, until somebody stops it.",
            "Set max_steps, e.g. to 200.",
            "max_steps",
        )


def checkpoints(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The config should have the table [ckpt], without which no checkpoint of the model is saved."""
    saved = any(config.at(p) is not None for p in ("ckpt", "trainer.ckpt"))
    interval = config.number("ckpt.interval", config.number("trainer.ckpt.interval"))
    if not saved:
        yield Finding(
            "config-no-checkpoint",
            "warning",
            "There is no [ckpt] table: no checkpoint is saved, not even the last.",
            "Add [ckpt] with interval = 50 and keep_last = 2.",
            "ckpt",
        )
    elif interval is not None and interval < 1:
        yield Finding(
            "config-checkpoint-interval",
            "blocker",
            f"The checkpoint interval is {interval}; prime-rl wants 1 or more.",
            "Set ckpt.interval to 50, or remove it to save the last step only.",
            "ckpt.interval",
        )
    elif interval and config.max_steps and interval > config.max_steps:
        yield Finding(
            "config-checkpoint-interval",
            "info",
            f"Checkpoints every {interval} steps in a run of {config.max_steps}: only the last one is saved.",
            f"Set ckpt.interval to {max(1, config.max_steps // 4)}.",
            "ckpt.interval",
        )


def passes(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The run should not repeat few tasks so often that the model memorises them."""
    number = passes_over(config, context)
    if number is None or number <= MANY_PASSES:
        return
    yield Finding(
        "config-passes",
        "warning",
        f"{config.max_steps} steps pass {number:.1f} times over the {context.tasks} training tasks: they will be "
        "memorised.",
        "Lower max_steps, or add tasks.",
        "max_steps",
    )


OWN_SPLIT = (
    'Give the taskset in the folder here a field `split: Literal["train", "eval"]` with tasks of your own as "eval" '
    '(edit_environment): after the run, run_eval(env_args={"split": "eval"}, compare_base=true) of the checkpoint '
    "judges it by them, and nothing has to be published for that; an environment of yours that is pushed with them "
    "before the run is evaluated while it trains as well."
)
"""How a run comes to held-out tasks that the code of its environment does not have."""


def evaluation(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The run should evaluate on held-out tasks, several times.

    Only held-out tasks distinguish learning from memorising and reward hacking.
    """
    blind = [s.id for s in config.train_sources if s.id in context.without_held_out]
    if not config.eval_sources and blind:
        yield Finding(
            "config-no-eval",
            "warning",
            f"The code of {quote(', '.join(blind[:3]), limit=160)} has no held-out tasks, so this run cannot show "
            "whether the model gets better at tasks that it was not trained on: a rising reward could be memorising or "
            "hacking.",
            _own_split(blind, context) or f"{OWN_SPLIT} Or tell the user what the run will not show.",
            "orchestrator.eval",
        )
    elif not config.eval_sources:
        known = all(s.id in context.folders for s in config.train_sources)
        pull = "" if known else " The code of an environment on the Hub has them: create_environment(hub=...) pulls it."
        yield Finding(
            "config-no-eval",
            "warning",
            "The run evaluates nothing while it trains: a rising reward could be memorising or hacking.",
            'Call write_training_config(eval={"split": "..."}) with the keys that select held-out tasks.' + pull,
            "orchestrator.eval",
        )
    trained = [(s.env_name, _selection(s)) for s in config.train_sources]
    for source in config.eval_sources:
        if (source.env_name, _selection(source)) in trained:
            yield Finding(
                "config-eval-on-train",
                "warning",
                f"The eval source {quote(source.name, limit=60)} selects the very tasks that are trained on.",
                "Give its env.taskset the key that selects held-out tasks (e.g. split).",
                "orchestrator.eval.source",
            )
        interval = source.table.get("interval") or config.number("orchestrator.eval.interval", 100)
        if isinstance(interval, int) and config.max_steps and interval == config.max_steps:
            yield Finding(
                "config-eval-interval",
                "info",
                "Held-out tasks are evaluated before and after the run only, which shows whether it worked, not when.",
                f"Nothing, where a budget decides; else set orchestrator.eval.interval to "
                f"{max(1, config.max_steps // EVALS_PER_RUN)} or less.",
                "orchestrator.eval.interval",
            )
        elif isinstance(interval, int) and config.max_steps and interval * EVALS_PER_RUN > config.max_steps:
            yield Finding(
                "config-eval-interval",
                "warning",
                f"Evaluating every {interval} steps gives fewer than {EVALS_PER_RUN} points in a run.",
                f"Set orchestrator.eval.interval to {max(1, config.max_steps // EVALS_PER_RUN)} or less.",
                "orchestrator.eval.interval",
            )


SMALL_RISE = 0.25
"""A rise of the mean that evaluations of a run should show (our judgement): a run rarely gains more."""
_UNKNOWN_MEAN = 0.5
"""The mean of an environment that was not evaluated. It has the widest interval."""


def few_held_out_tasks(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The held-out tasks should be enough to show what a run usually gains."""
    for source in config.eval_sources:
        asked = source.table.get("num_examples") or config.number("orchestrator.eval.num_examples")
        there = context.each.get(source.id, SourceMeasurement()).held_out_tasks
        numbers = [n for n in (asked, there) if isinstance(n, int) and n > 0]
        if not numbers:
            continue
        tasks, mean = min(numbers), context.mean
        rise = least_shown_rise(min(1.0, max(0.0, mean)) if mean is not None else _UNKNOWN_MEAN, tasks)
        if rise <= SMALL_RISE:
            continue
        more = "set orchestrator.eval.num_examples higher" if there is None or there > tasks else "give that split more"
        yield Finding(
            "config-no-eval",
            "warning",
            f"{count(tasks, 'held-out task')}, each evaluated once, show a rise of the mean from {rise:.2f} of "
            "attainable on only: the run's own evaluations will call less than that chance.",
            f"After the run, run_eval(compare_base=true) of the checkpoint evaluates the same tasks several times and "
            f"pairs them, which shows less; for still less, {more}.",
            "orchestrator.eval",
        )


def _own_split(ids: Sequence[str], context: ConfigContext) -> Fix | None:
    """What to do after a run whose source has held-out tasks in the folder here only; None where no folder has any."""
    for id in ids:
        if id in context.own_splits:
            folder, keys = context.own_splits[id]
            return Fix(
                f"The folder {folder} has held-out tasks by now, which this run does not see. Before it ends, call ",
                NamedCall("test_reward", environment=folder, env_args=dict(keys)),
                "; after it, run_eval(compare_base=true) of the checkpoint with the same env_args judges it by them.",
            )
    return None


COURSE_RULES: tuple[ConfigRule, ...] = (
    learning_rate,
    step_limit,
    checkpoints,
    passes,
    evaluation,
    few_held_out_tasks,
)


def passes_over(config: TrainingConfig, context: ConfigContext) -> float | None:
    """Return how often the run trains on each task on average. None if the steps, batch or tasks are unknown."""
    if not (config.max_steps and config.batch_size and context.tasks) or context.infinite or config.group_size < 1:
        return None
    return config.max_steps * config.batch_size / config.group_size / context.tasks


def _selection(source: ConfigSource) -> str:
    """Return the taskset keys that select tasks, as text. The key `task` only says how tasks are scored."""
    return repr(sorted((k, repr(v)) for k, v in source.args.items() if k not in ("task", "system_prompt")))


_OWN_VARIABLES = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "PRL_RUN_ID",
        "PRL_RUN_NAME",
        "WANDB_RUN_ID",
        "WANDB_SHARED_MODE",
        "WANDB_SHARED_LABEL",
        "WANDB_SHARED_PRIMARY",
        "WANDB_SHARED_FINISHER",
    }
)
"""Variables that prime-rl's launcher sets itself."""
_LONGEST_TRACE = 10
"""Number of steps from which prime-rl refuses to trace a run."""


def resume_table(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """A checkpoint to resume from must be given by its step or by its folder `step_N`, not by both."""
    for where in ("resume", "trainer.resume", "orchestrator.resume"):
        table = config.at(where)
        if not isinstance(table, Mapping):
            continue
        folder = table.get("dir")
        if table.get("step") is not None and folder is not None:
            why, fix = "resume names a step and a folder", f"Remove {where}.step: the folder's name has the step."
        elif isinstance(folder, str) and not re.fullmatch(r"step_\d+", PurePosixPath(folder).name):
            why = f"{quote(folder, limit=100)} is no folder of a checkpoint's step"
            fix = f"Name the folder .../checkpoints/step_N in {where}.dir."
        else:
            continue
        yield prime_rl_refuses("config-resume", why, fix, where)


def output_folders(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Trainer and orchestrator must not have another output folder than that of the run."""
    name = config.at("run.dir") or config.at("run.name")
    run = PurePosixPath(str(config.at("output_dir") or "outputs")) / name if isinstance(name, str) else None
    for where in ("trainer.output_dir", "orchestrator.output_dir"):
        own = config.at(where)
        if isinstance(own, str) and (run is None or PurePosixPath(own) != run):
            why = f"{where} is {quote(own, limit=80)}, and the run writes to output_dir and the run's name below it"
            yield prime_rl_refuses("config-output-folder", why, f"Remove {where}; set output_dir and run.name.", where)


def launcher_variables(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The environment variables of a config must not include those that prime-rl's launcher sets."""
    tables = (
        "env_vars",
        "trainer.env_vars",
        "orchestrator.env_vars",
        "inference.env_vars",
        "inference.deployment.prefill_env_vars",
        "inference.deployment.decode_env_vars",
    )
    for where in tables:
        variables = config.at(where)
        if isinstance(variables, Mapping) and (reserved := sorted(_OWN_VARIABLES & set(variables))):
            why = f"{where} sets {', '.join(reserved)}, which the launcher sets itself"
            yield prime_rl_refuses(
                "config-launcher-variable", why, f"Remove {reserved[0]} from {where}.", f"{where}.{reserved[0]}"
            )


def logging(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """W&B must be online in an RL run, because its processes share one W&B run."""
    if config.target == "self-managed" and config.at("monitors.wandb.offline") is True:
        where = "monitors.wandb.offline"
        yield prime_rl_refuses(
            "config-wandb-offline",
            "monitors.wandb.offline = true does not work where trainer and orchestrator share one W&B run",
            f"Remove {where}, or set offline in trainer.monitors.wandb and orchestrator.monitors.wandb.",
            where,
        )


def tracing(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """A run with a trace must have fewer than `_LONGEST_TRACE` steps."""
    where = "trace_path" if config.shape == "sft" else "trainer.trace_path"
    steps = config.max_steps
    if config.at(where) is not None and (steps is None or steps >= _LONGEST_TRACE):
        why = f"a trace of {steps or 'unlimited'} steps is too large; {_LONGEST_TRACE - 1} are the most"
        yield prime_rl_refuses(
            "config-trace", why, f"Remove {where}, or set max_steps to {_LONGEST_TRACE - 1} or less.", where
        )


LAUNCH_RULES: tuple[ConfigRule, ...] = (resume_table, output_folders, launcher_variables, logging, tracing)
SFT_LAUNCH_RULES: tuple[ConfigRule, ...] = (resume_table, launcher_variables, tracing)
