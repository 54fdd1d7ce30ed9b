"""Advice about a config that was just written: its basis, what is missing, and what would be better."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, SourceMeasurement
from prime_lab_mcp.lab.configs.make import MadeConfig
from prime_lab_mcp.lab.configs.plan.batching import usable_share_at_group
from prime_lab_mcp.lab.configs.plan.decide import near_models
from prime_lab_mcp.lab.distribution.sample import suggested_curriculum
from prime_lab_mcp.lab.environment.credentials import FORWARDED_VARIABLES


def advise_on_config(made: MadeConfig, config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    yield from _renderer(made, context)
    yield from _hardware(made, context)
    yield from _unmeasured(config, context)
    yield from _curriculum(made, config, context)
    yield from _secrets(config, context)
    yield from _not_evaluated(config)


def _renderer(made: MadeConfig, context: ConfigContext) -> Iterator[Finding]:
    renderer = made.plan.renderer
    if renderer is None or renderer.value != "default":
        return
    model = str(made.plan.model.value)
    near = near_models(model, context)
    hint = f" Did you mean {' or '.join(near)}?" if near and model not in near else ""
    yield Finding(
        "config-default-renderer",
        "warning",
        f"{quote(model, limit=100)} is none of the models that prime-rl knows how to render; its own chat template "
        f"is used, which does not work with tools.{hint}",
        'If it was tuned from a known model, pass extra={"orchestrator.renderer.name": "qwen3"} with the renderer of '
        "that family; else leave it.",
        "orchestrator.renderer.name",
    )


def _hardware(made: MadeConfig, context: ConfigContext) -> Iterator[Finding]:
    plan = made.plan
    if plan.hardware.short:
        yield Finding(
            "config-gpu-memory",
            "warning",
            f"By our formula the GPUs are too few or too small: {plan.hardware.short}.",
            'Pass gpus= or gpu_type= with more memory, a shorter extra={"seq_len": ...}, or lora=true.',
            "deployment",
        )
    if plan.choices.target == "hosted" and plan.gpu_type is None and context.models is not None:
        offers = ", ".join(
            f"{o.gpu_type} at {o.price_per_gpu_hour:g}"
            for o in context.models.offers
            if o.price_per_gpu_hour is not None
        )
        yield Finding(
            "config-gpu-type-open",
            "info",
            "No GPU type that fits is free now, so the file names none and the platform chooses"
            + (f" (offered, in dollars a GPU-hour: {quote(offers, limit=160)})." if offers else "."),
            'Pass gpu_type= to wait for a certain one; search_hub(kind="gpu") lists them with prices.',
            "gpu_type",
        )


def _unmeasured(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    without = [s for s in config.train_sources if not _of(context, s).evaluation and _of(context, s).usable is None]
    if not without:
        return
    names = quote(", ".join(s.id for s in without[:4]), limit=160)
    yield Finding(
        "config-unmeasured",
        "info",
        f"No evaluation of {names} with {quote(config.model, limit=80)} is known here: token budget, group and batch "
        "size are guesses for it.",
        f'Call run_eval(model="{quote(config.model, limit=80)[1:-1]}") on it and write the config again.',
        "orchestrator",
    )


def _curriculum(made: MadeConfig, config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    if made.plan.choices.curriculum is not None:
        return
    for source in config.train_sources:
        found = _of(context, source)
        if found.usable is None or isinstance(source.table.get("curriculum"), dict):
            continue
        only = ConfigContext(usable=found.usable, usable_group=found.usable_group, mean=found.mean)
        share = usable_share_at_group(only, config.group_of(source)) or 0.0
        advised = suggested_curriculum(share, found.solved, found.unsolved)
        if advised in ("pools", "both") and (found.infinite or found.duplicates):
            advised = "gate" if advised == "both" else None  # a difficulty pool takes neither
        if advised is None:
            continue
        dead = f"about {1 - share:.0%} of its groups would have no gradient"
        ends = f"{found.solved} of its tasks are mostly solved and {found.unsolved} mostly not"
        why = {"gate": dead, "pools": ends, "both": f"{dead}, and {ends}"}[advised]
        yield Finding(
            "config-curriculum-advised",
            "info",
            f"{quote(source.name, limit=60)}: {why}"
            + (f" (evaluation {found.evaluation})." if found.evaluation else "."),
            f'Pass curriculum="{advised}"; read_eval(view="difficulty") shows the tasks and what else would help.',
            "orchestrator.train.source.curriculum",
        )


def _secrets(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Findings about secrets by name. No value of a secret reaches this module."""
    for source in config.train_sources:
        for variable in _of(context, source).secrets:
            if config.target == "self-managed":
                fix = f"Export {variable} where prime-rl runs."
            elif variable in FORWARDED_VARIABLES:
                fix = f"Set {variable} where the server runs, or name a file with it in env_files; both are passed on."
            else:
                hub = source.hub_name or "OWNER/NAME"
                fix = (
                    f"Have a person run `prime env secret create {hub} -n {variable}`, which asks for the value, or "
                    f"`prime env secret link GLOBAL_ID {hub}`."
                )
            yield Finding(
                "config-secret-needed",
                "warning",
                f"{quote(source.id, limit=100)} reads {variable}, without which its rollouts fail.",
                fix,
                "orchestrator.train.source",
            )


def _not_evaluated(config: TrainingConfig) -> Iterator[Finding]:
    """Silent where the run evaluates nothing at all, because check_training_config warns of that."""
    evaluated = {s.env_name for s in config.eval_sources}
    without = [s.name for s in config.train_sources if s.env_name not in evaluated]
    if evaluated and without:
        yield Finding(
            "config-source-without-eval",
            "info",
            f"{quote(', '.join(without), limit=160)} is trained on, not evaluated: its folder shows no held-out split.",
            'Give the taskset a split argument, or pass eval={"split": "..."} with keys that fit every environment.',
            "orchestrator.eval.source",
        )


def _of(context: ConfigContext, source: ConfigSource) -> SourceMeasurement:
    return context.each.get(source.id, SourceMeasurement())
