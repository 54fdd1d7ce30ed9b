"""What to know about a config that was just written: what it rests on, what it still needs, what would be better."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.checks.secrets import FORWARDED
from prime_lab_mcp.lab.configs.make import Made
from prime_lab_mcp.lab.configs.observed import Measured, Observed
from prime_lab_mcp.lab.configs.plan import near_models
from prime_lab_mcp.lab.configs.plan.groups import usable_at
from prime_lab_mcp.lab.configs.read import Config, Source
from prime_lab_mcp.lab.distribution.pools import curriculum
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote


def advise(made: Made, config: Config, seen: Observed) -> Iterator[Finding]:
    yield from _renderer(made, seen)
    yield from _hardware(made, seen)
    yield from _unmeasured(config, seen)
    yield from _curriculum(made, config, seen)
    yield from _secrets(config, seen)
    yield from _not_evaluated(config)


def _renderer(made: Made, seen: Observed) -> Iterator[Finding]:
    renderer = made.plan.renderer
    if renderer is None or renderer.value != "default":
        return
    model = str(made.plan.model.value)
    near = near_models(model, seen)
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


def _hardware(made: Made, seen: Observed) -> Iterator[Finding]:
    plan = made.plan
    if plan.hardware.short:
        yield Finding(
            "config-gpu-memory",
            "warning",
            f"By our formula the GPUs are too few or too small: {plan.hardware.short}.",
            "Pass gpus= or gpu_type= with more memory, a shorter extra={\"seq_len\": ...}, or lora=true.",
            "deployment",
        )  # fmt: skip
    if plan.choices.target == "hosted" and plan.gpu_type is None and seen.models is not None:
        offers = ", ".join(
            f"{o.gpu_type} at {o.price_per_gpu_hour:g}" for o in seen.models.offers if o.price_per_gpu_hour is not None
        )
        yield Finding(
            "config-gpu-type-open",
            "info",
            "No GPU type that fits is free now, so the file names none and the platform chooses"
            + (f" (offered, in dollars a GPU-hour: {quote(offers, limit=160)})." if offers else "."),
            'Pass gpu_type= to wait for a certain one; search_hub(kind="gpu") lists them with prices.',
            "gpu_type",
        )


def _unmeasured(config: Config, seen: Observed) -> Iterator[Finding]:
    without = [s for s in config.train_sources if not _of(seen, s).evaluation and _of(seen, s).usable is None]
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


def _curriculum(made: Made, config: Config, seen: Observed) -> Iterator[Finding]:
    if made.plan.choices.curriculum is not None:
        return
    for source in config.train_sources:
        found = _of(seen, source)
        if found.usable is None or isinstance(source.table.get("curriculum"), dict):
            continue
        only = Observed(usable=found.usable, usable_group=found.usable_group, mean=found.mean)
        share = usable_at(only, config.group_of(source)) or 0.0
        advised = curriculum(share, found.solved, found.unsolved)
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


def _secrets(config: Config, seen: Observed) -> Iterator[Finding]:
    """Names only: a value never comes near this file."""
    for source in config.train_sources:
        for variable in _of(seen, source).secrets:
            if config.target == "self-managed":
                fix = f"Export {variable} where prime-rl runs."
            elif variable in FORWARDED:
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


def _not_evaluated(config: Config) -> Iterator[Finding]:
    """Nothing is said where the run evaluates nothing at all: check_training_config warns of that."""
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


def _of(seen: Observed, source: Source) -> Measured:
    return seen.each.get(source.id, Measured())
