"""Advises on a training config: what its choices cost, what is unmeasured, and what the platform does not know yet."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, SourceMeasurement
from prime_lab_mcp.lab.configs.make import ConfigProposal
from prime_lab_mcp.lab.configs.own_gpus import gpu_not_free_finding
from prime_lab_mcp.lab.configs.plan.batching import usable_share_at_group
from prime_lab_mcp.lab.configs.plan.decide import near_models
from prime_lab_mcp.lab.configs.rules.run import few_held_out_tasks
from prime_lab_mcp.lab.configs.rules.step import usable_signal
from prime_lab_mcp.lab.distribution.sample import easy_first, suggested_curriculum
from prime_lab_mcp.lab.environment.credentials import FORWARDED_VARIABLES
from prime_lab_mcp.lab.state.arguments import arguments_summary


def advise_on_config(proposal: ConfigProposal, config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Yield advice on a written config.

    The advice is about its renderer, GPUs, environments without an evaluation, curriculum, secrets and held-out tasks.
    """
    yield from _renderer(proposal, context)
    yield from _hardware(proposal, context)
    yield from unmeasured_findings(config, context)
    yield from usable_signal(config, context)
    yield from _curriculum(proposal, config, context)
    yield from _secrets(config, context)
    yield from _not_evaluated(config)
    yield from few_held_out_tasks(config, context)


def _renderer(proposal: ConfigProposal, context: ConfigContext) -> Iterator[Finding]:
    renderer = proposal.plan.renderer
    if renderer is None or renderer.value != "default":
        return
    model = str(proposal.plan.model.value)
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


def _hardware(proposal: ConfigProposal, context: ConfigContext) -> Iterator[Finding]:
    plan = proposal.plan
    if plan.hardware.short:
        yield Finding(
            "config-gpu-memory",
            "warning",
            f"By our formula the GPUs are too few or too small: {plan.hardware.short}.",
            'Pass gpus= or gpu_type= with more memory, a shorter extra={"seq_len": ...}, or lora=true.',
            "deployment",
        )
    requested = plan.choices.gpu_type
    if plan.choices.target == "hosted" and requested is not None and context.models is not None:
        free = [o.gpu_type for o in context.models.offers if o.available_now]
        now = [o.available_now for o in context.models.offers if o.gpu_type == requested]
        # The platform does not say whether GPUs of its clusters, which are not rented by the hour, are free.
        in_clusters = any(requested in types for types in context.models.trainable.values())
        if False in now or not (now or in_clusters):
            yield gpu_not_free_finding(requested, free, "a GPU of a hosted run")
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


def unmeasured_findings(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Yield a finding for each environment that was not evaluated with the model and the arguments of the config.

    An environment that passed with other arguments only is a warning: the config trains on other tasks than were
    evaluated.
    """
    model = quote(config.model, limit=80)
    for source in {s.id: s for s in config.train_sources}.values():
        measurement = _measurement_of(context, source)
        name, other = quote(source.id, limit=100), measurement.evaluated_with
        if (measurement.sampled or 0) > (measurement.tasks or math.inf):
            folder = context.folders.get(source.id)
            yield Finding(
                "config-unmeasured",
                "warning",
                f"The evaluation of {name} has {measurement.sampled} tasks, and the files of that version here have "
                f"{measurement.tasks}: what was evaluated is not what is here, so sizes and passes may be wrong.",
                Fix(
                    "Call ",
                    NamedCall("run_eval", environment=folder, model=config.model),
                    " on the files that are here.",
                )
                if folder
                else "Ask the owner of the environment which of the two the platform runs.",
                "orchestrator.train.source",
            )
        if measurement.evaluation or measurement.usable is not None:
            continue
        if other is not None:
            yield Finding(
                "config-unmeasured",
                "warning",
                f"The config trains on {name} with {arguments_summary(source.args)}, and the evaluation of it was made "
                f"with {arguments_summary(other)}: other tasks than those that are trained on.",
                Fix(
                    "Call ",
                    NamedCall("write_training_config", environments=[source.id], env_args=dict(other)),
                    ", or evaluate what the config trains on: ",
                    _evaluation(config, context, source),
                    ".",
                ),
                "orchestrator.train.source",
            )
            continue
        chosen = f" and {arguments_summary(source.args)}" if source.args else ""
        yield Finding(
            "config-unmeasured",
            "info",
            f"No evaluation of {name} with {model}{chosen} is known here: token budget, group and batch size are "
            "guesses for it.",
            Fix("Call ", _evaluation(config, context, source), ", and write the config again."),
            "orchestrator",
        )


def _evaluation(config: TrainingConfig, context: ConfigContext, source: ConfigSource) -> NamedCall:
    """The evaluation that a source lacks: of its folder here, else by the platform."""
    folder = context.folders.get(source.id)
    where: dict[str, Any] = {"environment": folder} if folder else {"environment": source.hub_name or source.name}
    hosted = {} if folder or not source.owner else {"hosted": True}
    given = {"env_args": dict(source.args)} if source.args else {}
    return NamedCall("run_eval", **where, model=config.model, **hosted, **given)


def _curriculum(proposal: ConfigProposal, config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    if proposal.plan.choices.curriculum is not None:
        return
    for source in config.train_sources:
        measurement = _measurement_of(context, source)
        if measurement.usable is None or isinstance(source.table.get("curriculum"), dict):
            continue
        only = ConfigContext(usable=measurement.usable, usable_group=measurement.usable_group, mean=measurement.mean)
        share = usable_share_at_group(only, config.group_of(source)) or 0.0
        advised = suggested_curriculum(share, measurement.solved, measurement.unsolved)
        if advised in ("pools", "both") and (measurement.infinite or measurement.duplicates):
            advised = "gate" if advised == "both" else None  # difficulty pools need finite tasksets without duplicates
        if advised is None:
            continue
        dead = f"about {1 - share:.0%} of its groups would have no gradient"
        ends = f"{measurement.solved} of its tasks are mostly solved and {measurement.unsolved} mostly not"
        why = {"gate": dead, "pools": ends, "both": f"{dead}, and {ends}"}[advised]
        yield Finding(
            "config-curriculum-advised",
            "info",
            f"{quote(source.name, limit=60)}: {why}"
            + (f" (evaluation {measurement.evaluation})." if measurement.evaluation else "."),
            f'Pass curriculum="{advised}"; read_eval(view="difficulty") shows the tasks. '
            + easy_first(measurement.easiest),
            "orchestrator.train.source.curriculum",
        )


def _secrets(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Yield a warning for each secret that an environment reads. Only the names of secrets are known here."""
    for source in config.train_sources:
        for variable in _measurement_of(context, source).secrets:
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
    """Yield a note on environments without held-out tasks, if others have some.

    check_training_config warns about a run that evaluates nothing at all.
    """
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


def _measurement_of(context: ConfigContext, source: ConfigSource) -> SourceMeasurement:
    return context.each.get(source.id, SourceMeasurement())
