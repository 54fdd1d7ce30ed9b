"""Rules about which environments a config names: that there are some, each once, and each at a version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from prime_lab_mcp.lab.configs.observed import Observed, Rule
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote


def sources_present(config: Config, seen: Observed) -> Iterator[Finding]:
    """The real validator accepts a config without any training source."""
    if not config.train_sources and config.at("trainer.data.fake") is None:
        yield Finding(
            "config-no-train-source",
            "blocker",
            "The config names no training environment: there is no [[orchestrator.train.source]].",
            "Add one, or call write_training_config(environments=[...], based_on=this file).",
            config.path.name,
        )
    if isinstance(config.at("orchestrator.eval"), Mapping) and not config.eval_sources:
        yield Finding(
            "config-no-eval-source",
            "blocker",
            "[orchestrator.eval] is there but names no [[orchestrator.eval.source]], which prime-rl refuses.",
            "Add an eval source with held-out tasks, or remove the [orchestrator.eval] table.",
            "orchestrator.eval",
        )


def source_names(config: Config, seen: Observed) -> Iterator[Finding]:
    """Names are unique within training and within evaluation, and `agg` is taken."""
    for kind, sources in (("train", config.train_sources), ("eval", config.eval_sources)):
        for source in sources:
            where = f"orchestrator.{kind}.source"
            if not source.id:
                yield Finding(
                    "config-source-without-id",
                    "blocker",
                    "A source names no environment: env.taskset.id is missing.",
                    'Set env.taskset.id = "owner/name@version".',
                    where,
                )
            elif source.name == "agg":
                yield Finding(
                    "config-source-name",
                    "blocker",
                    'A source may not be named "agg": prime-rl uses it for totals.',
                    "Give the source another name.",
                    where,
                )
        for name, count in Counter(s.name for s in sources if s.name).items():
            if count > 1:
                yield Finding(
                    "config-duplicate-source",
                    "blocker",
                    f"{count} {kind} sources are named {quote(name, limit=80)}; names must be unique.",
                    "Give each its own name = \"...\".",
                    f"orchestrator.{kind}.source",
                )  # fmt: skip


def source_pinned(config: Config, seen: Observed) -> Iterator[Finding]:
    """A source without version trains on whatever is newest when the run starts, not on what was checked."""
    if config.target != "hosted":
        return
    for source in config.sources:
        where = f"orchestrator.{source.kind}.source {quote(source.name, limit=60)}"
        if source.id and source.owner is None:
            yield Finding(
                "config-unpublished-source",
                "blocker",
                f"{quote(source.id, limit=80)} is no environment on the Hub: hosted training loads owner/name@version.",
                "Call push_environment first, then name it as owner/name@version.",
                where,
            )
        elif source.owner is not None and source.version in (None, "latest"):
            ours = source.hub_name in seen.ours
            yield Finding(
                "config-unpinned-source",
                "warning" if ours else "blocker",
                f"{quote(source.id, limit=80)} has no version: the run would take whatever is newest when it starts.",
                "Pin it: id = \"owner/name@version\" (search_hub lists the versions).",
                where,
            )  # fmt: skip


RULES: tuple[Rule, ...] = (
    sources_present,
    source_names,
    source_pinned,
)
