"""One migration from its first step to its last."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.configs.draft import Draft
from prime_lab_mcp.lab.configs.inherit import inherit
from prime_lab_mcp.lab.configs.migrate.comments import remarks
from prime_lab_mcp.lab.configs.migrate.environments import move_environments
from prime_lab_mcp.lab.configs.migrate.header import Header, read_header
from prime_lab_mcp.lab.configs.migrate.leftovers import drop_leftovers
from prime_lab_mcp.lab.configs.migrate.rows import KEPT, Change, Rows, index, leaves, told
from prime_lab_mcp.lab.configs.migrate.shared import share
from prime_lab_mcp.lab.configs.migrate.tables import move_tables
from prime_lab_mcp.lab.configs.plan import Choices, Curriculum
from prime_lab_mcp.lab.configs.read import Config, Target
from prime_lab_mcp.lab.errors import BadInput


@dataclass(frozen=True, slots=True)
class Migration:
    """`draft` holds the old file's settings in today's shape; `choices` the same as far as a plan decides on them.

    `rows` has one for every key of the old file; `moved` is False when the file was of today's shape already.
    """

    draft: Draft
    choices: Choices
    rows: tuple[Change, ...]
    header: Header
    moved: bool

    @property
    def changes(self) -> tuple[Change, ...]:
        """The rows of keys that did not stay as they were."""
        return tuple(row for row in self.rows if row.to != KEPT)


def migrate(config: Config, target: Target = "hosted") -> Migration:
    """Raises BadInput for a config of supervised fine-tuning, which has no environments."""
    if config.shape == "sft":
        raise BadInput(
            f"{config.path.name} is a config for supervised fine-tuning; there is nothing in it to migrate",
            fix="Edit it directly, or write an RL config with environments=[...].",
            code="config-not-rl",
        )
    mover = Mover(config, target)
    header = mover.move()
    choices = inherit(mover.draft, config.path.name, target, lora=True if config.shape == "shared-lora" else None)
    rows = mover.rows.all(mover.draft)
    moved = any(row.to != KEPT for row in rows)
    return Migration(mover.draft, replace(choices, curriculum=mover.kind), rows, header, moved)


class Mover:
    """One migration in progress. Steps use `place` and `drop`, which write the rows."""

    def __init__(self, config: Config, target: Target) -> None:
        self.draft = Draft(copy.deepcopy(dict(config.table)))
        self.rows = Rows(config.table)
        self.target = target
        self.name = config.path.name
        self.curriculum: set[str] = set()
        self._remarks = remarks(config.text, config.table)

    @property
    def kind(self) -> Curriculum | None:
        if self.curriculum == {"gate", "pools"}:
            return "both"
        return "gate" if "gate" in self.curriculum else "pools" if "pools" in self.curriculum else None

    def move(self) -> Header:
        header = self._header()
        if isinstance(self.draft.get("model"), str):
            self.to("model", "model.name", "the model is a table now")
        move_tables(self)
        move_environments(self)
        share(self)
        drop_leftovers(self)
        for path, _ in leaves(self.draft.table):
            self.draft.reasons.setdefault(path, f"from {self.name}")
        self._travel()
        return header

    def place(self, old: str, new: str, value: Any, why: str, was: Any = None) -> None:
        """Put a value that is out of its old place already into its new one; what stands there stays."""
        present = self.draft.get(new)
        if present is not None and not (isinstance(present, dict) and isinstance(value, dict)):
            self.rows.dropped(old, value if was is None else was, why, f"dropped ({told(new, present)} stands)")
            return
        if isinstance(value, dict) and value:
            for key, inner in value.items():
                self.place(f"{old}.{key}", f"{new}.{key}", inner, why)
            return
        self.draft.put(new, value, f"from {self.rows.origin(old)} of {self.name}")
        self.rows.moved(old, new, value, why, was)

    def to(self, old: str, new: str, why: str) -> None:
        self.place(old, new, self.draft.pop(old), why)

    def drop(self, key: str, value: Any, why: str) -> None:
        self.rows.dropped(key, value, why)

    def _header(self) -> Header:
        if not isinstance(self.draft.get("config"), Mapping):
            return Header()
        table = self.draft.pop("config")
        header, swallowed = read_header(table)
        for key, value in table.items():
            if key not in swallowed:
                to = "comments of the new file, and configs/registry.json"
                self.rows.dropped(f"config.{key}", value, "prime-rl refuses tables it does not know", to)
        for key, value in swallowed.items():
            why = "it stood below [config], where it was no setting of the run; meant for the top of the file"
            if self.draft.get(key) is None:
                self.place(f"config.{key}", key, value, why)
            else:
                self.drop(f"config.{key}", value, f"[config] is lineage only, and {key} is set outside it")
        return header

    def _travel(self) -> None:
        """A person's remark behind an old value goes with the value."""
        places = index(self.draft.table)
        for row in self.rows.all(self.draft):
            if (said := self._remarks.get(row.key)) and row.place in places:
                path = places[row.place]
                self.draft.reasons[path] = f"{self.draft.reasons.get(path, '')}: {said}"
