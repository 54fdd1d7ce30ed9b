"""Migrates one config: runs the steps in order, and moves a person's comments together with their values.

`choices_of_file` turns the values of the migrated file into choices, so that a new plan does not change them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.configs.config import ConfigTarget, TrainingConfig, taskset_identity
from prime_lab_mcp.lab.configs.draft import ConfigDraft
from prime_lab_mcp.lab.configs.migrate.rows import (
    UNCHANGED,
    KeyChange,
    LineageHeader,
    MigrationRows,
    dotted_key,
    key_index,
    key_with_value,
    leaf_values,
    read_header,
)
from prime_lab_mcp.lab.configs.migrate.steps import drop_leftovers, move_environments, move_tables, share_settings
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices, SourceChoice
from prime_lab_mcp.lab.distribution.sample import Curriculum


def value_comments(text: str, table: Any) -> dict[str, str]:
    """Return the comment behind each value of a TOML text, by dotted key.

    `table` is the parsed text. Comments on lines of their own are not returned.
    """
    import tomlkit  # not needed until a config is written

    try:
        # tomlkit fails on some texts that tomllib reads, and only when asked for some tables that are out of order.
        items = list(_items(tomlkit.parse(text), ()))
    except Exception:
        return {}
    comments = {}
    for path, item in items:
        comment = str(getattr(getattr(item, "trivia", None), "comment", "")).lstrip("# ").strip()
        if comment:
            comments[dotted_key(path, table)] = comment
    return comments


def _items(container: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    from tomlkit.items import AoT, InlineTable, Table

    for key in list(container):
        item = container.item(key) if hasattr(container, "item") else container[key]
        full_path = (*path, str(key))
        if isinstance(item, AoT):
            for index, entry in enumerate(item):
                yield from _items(entry, (*full_path, index))
        elif isinstance(item, Table) or (hasattr(item, "keys") and not isinstance(item, InlineTable)):
            yield from _items(item, full_path)
        else:
            yield full_path, item


INHERITED_FIELDS: Mapping[str, tuple[str, type]] = {
    "model": ("model.name", str),
    "steps": ("max_steps", int),
    "batch": ("orchestrator.batch_size", int),
    "group": ("orchestrator.group_size", int),
    "max_tokens": ("orchestrator.train.sampling.max_completion_tokens", int),
    "seq_len": ("seq_len", int),
    "temperature": ("orchestrator.train.sampling.temperature", float),
    "lora_rank": ("trainer.model.lora.rank", int),
    "lora_alpha": ("trainer.model.lora.alpha", float),
    "lr": ("trainer.optim.lr", float),
    "gpu_type": ("gpu_type", str),
    "renderer": ("orchestrator.renderer.name", str),
    "wandb": ("monitors.wandb.project", str),
    "eval_interval": ("orchestrator.eval.interval", int),
    "eval_tasks": ("orchestrator.eval.num_examples", int),
    "ckpt_interval": ("ckpt.interval", int),
}
"""Dotted key and type of each field of ConfigChoices that a plain value of a config sets."""


def choices_of_file(draft: ConfigDraft, file: str, target: ConfigTarget, lora: bool | None = None) -> ConfigChoices:
    """Return the choices that the values of a migrated file make.

    `file` is its name, for the reasons. `lora` is given if the older shape implied it; None means to read it from the
    draft.
    """
    choices: dict[str, Any] = {}
    for field, (path, kind) in INHERITED_FIELDS.items():
        value = draft.get(path)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        unfit = value == "None" or (kind is int and field != "eval_tasks" and isinstance(value, int) and value < 1)
        if isinstance(value, kind) and not isinstance(value, bool) and not unfit:
            choices[field] = value
    because = {
        field: draft.reasons.get(tuple(INHERITED_FIELDS[field][0].split(".")), f"from {file}") for field in choices
    }
    train, infer = draft.get("deployment.num_train_gpus"), draft.get("deployment.num_infer_gpus")
    if isinstance(train, int) or isinstance(infer, int):
        choices["train_gpus"] = max(1, train if isinstance(train, int) else 1)
        choices["gpus"] = choices["train_gpus"] + max(1, infer if isinstance(infer, int) else 1)
        because["gpus"] = f"from {file}"
    if draft.get("deployment.type") == "multi_node" or choices.get("gpus", 2) > 8:
        choices = {k: v for k, v in choices.items() if k not in ("gpus", "train_gpus")}
    if "group" in choices and choices["group"] < 2:
        choices.pop("group")  # a group of one rollout has no advantage, so the plan chooses the size
    choices["lora"] = isinstance(draft.get("trainer.model.lora"), Mapping) if lora is None else lora
    if choices.get("renderer") == "auto":
        choices.pop("renderer")
    return ConfigChoices(sources=draft_sources(draft), target=target, because=because, **choices)


def draft_sources(draft: ConfigDraft) -> tuple[SourceChoice, ...]:
    """Return the training sources of a draft as choices."""
    entries = draft.get("orchestrator.train.source")
    return tuple(_source(entry) for entry in entries if isinstance(entry, Mapping)) if isinstance(entries, list) else ()


def _source(entry: Mapping[str, Any]) -> SourceChoice:
    env = entry.get("env")
    taskset = env.get("taskset") if isinstance(env, Mapping) else None
    args = dict(taskset) if isinstance(taskset, Mapping) else {}
    id = str(args.pop("id", "") or (env.get("id", "") if isinstance(env, Mapping) else ""))
    agent = env.get("agent") if isinstance(env, Mapping) else None
    parts = {key: agent.get(key) for key in ("harness", "runtime")} if isinstance(agent, Mapping) else {}
    tables = {key: part for key, part in parts.items() if isinstance(part, Mapping)}
    return SourceChoice(
        id=id,
        args=args,
        name=str(entry.get("name") or taskset_identity(id)[1]),
        harness=_text(tables.get("harness", {}).get("id")),
        runtime=_text(tables.get("runtime", {}).get("type")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class ConfigMigration:
    """A finished migration.

    `draft` has the settings in the present shape, and `choices` those that a plan decides on. `rows` has one row for
    every key of the older file. `moved` is False if the file had the present shape already.
    """

    draft: ConfigDraft
    choices: ConfigChoices
    rows: tuple[KeyChange, ...]
    header: LineageHeader
    moved: bool

    @property
    def changes(self) -> tuple[KeyChange, ...]:
        """The rows of the keys that changed."""
        return tuple(row for row in self.rows if row.to != UNCHANGED)


def migrate_config(config: TrainingConfig, target: ConfigTarget = "hosted") -> ConfigMigration:
    """Migrate a config to the present shape. Raises BadInput for a config of supervised fine-tuning."""
    if config.shape == "sft":
        raise BadInput(
            f"{config.path.name} is a config for supervised fine-tuning; there is nothing in it to migrate",
            fix="Edit it directly, or write an RL config with environments=[...].",
            code="config-not-rl",
        )
    mover = ConfigMover(config, target)
    header = mover.move()
    choices = choices_of_file(
        mover.draft, config.path.name, target, lora=True if config.shape == "shared-lora" else None
    )
    rows = mover.rows.all(mover.draft)
    moved = any(row.to != UNCHANGED for row in rows)
    return ConfigMigration(
        mover.draft, replace(choices, curriculum=mover.kind, thresholds=mover.thresholds), rows, header, moved
    )


class ConfigMover:
    """A migration in progress. Its steps call `place`, `to` and `drop`, which change the draft and record the rows."""

    def __init__(self, config: TrainingConfig, target: ConfigTarget) -> None:
        self.draft = ConfigDraft(copy.deepcopy(dict(config.table)))
        self.rows = MigrationRows(config.table)
        self.target = target
        self.name = config.path.name
        self.curriculum: set[str] = set()
        self.thresholds: dict[str, float] = {}
        self._comments = value_comments(config.text, config.table)

    @property
    def kind(self) -> Curriculum | None:
        """The curriculum that replaces the difficulty buffer and filters of the older file; None without one."""
        if self.curriculum == {"gate", "pools"}:
            return "both"
        return "gate" if "gate" in self.curriculum else "pools" if "pools" in self.curriculum else None

    def move(self) -> LineageHeader:
        """Run all steps of the migration, and return the lineage that the older file stated."""
        header = self._header()
        if isinstance(self.draft.get("model"), str):
            self.to("model", "model.name", "the model is a table now")
        move_tables(self)
        move_environments(self)
        share_settings(self)
        drop_leftovers(self)
        for path, _ in leaf_values(self.draft.table):
            self.draft.reasons.setdefault(path, f"from {self.name}")
        self._move_comments()
        return header

    def place(self, old: str, new: str, value: Any, why: str, was: Any = None) -> None:
        """Put a value that was removed from its old key under its new key, and record the move.

        If the new key has a value already, that value stays. `was` is the older value if it differs from `value`.
        """
        present = self.draft.get(new)
        if present is not None and not (isinstance(present, dict) and isinstance(value, dict)):
            self.rows.dropped(
                old, value if was is None else was, why, f"dropped ({key_with_value(new, present)} stands)"
            )
            return
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                self.place(f"{old}.{key}", f"{new}.{key}", inner, why)
            return
        self.draft.put(new, value, f"from {self.rows.origin(old)} of {self.name}")
        self.rows.moved(old, new, value, why, was)

    def to(self, old: str, new: str, why: str) -> None:
        """Move the value of a key to another key."""
        self.place(old, new, self.draft.pop(old), why)

    def drop(self, key: str, value: Any, why: str) -> None:
        """Record that a removed key has no successor."""
        self.rows.dropped(key, value, why)

    def _header(self) -> LineageHeader:
        if not isinstance(self.draft.get("config"), Mapping):
            return LineageHeader()
        table = self.draft.pop("config")
        header, run_keys = read_header(table)
        for key, value in table.items():
            if key not in run_keys:
                to = "comments of the new file, and configs/registry.json"
                self.rows.dropped(f"config.{key}", value, "prime-rl refuses tables it does not know", to)
        for key, value in run_keys.items():
            why = "it stood below [config], where it was no setting of the run; meant for the top of the file"
            if self.draft.get(key) is None:
                self.place(f"config.{key}", key, value, why)
            else:
                self.drop(f"config.{key}", value, f"[config] is lineage only, and {key} is set outside it")
        return header

    def _move_comments(self) -> None:
        """Append a person's comment on an older value to the reason of the moved value."""
        places = key_index(self.draft.table)
        for row in self.rows.all(self.draft):
            if (comment := self._comments.get(row.key)) and row.place in places:
                path = places[row.place]
                self.draft.reasons[path] = f"{self.draft.reasons.get(path, '')}: {comment}"
