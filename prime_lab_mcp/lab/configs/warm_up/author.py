"""Writes `configs/sft/NAME.toml`, and its conversations beside it; nothing that exists is overwritten."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from prime_lab_mcp.lab.configs import registry
from prime_lab_mcp.lab.configs.author import Wish
from prime_lab_mcp.lab.configs.draft import Draft, Lineage, plain, same_but_for_date
from prime_lab_mcp.lab.configs.plan import refuse_name
from prime_lab_mcp.lab.configs.read import Config, parse, read
from prime_lab_mcp.lab.configs.schema import check
from prime_lab_mcp.lab.configs.warm_up.compose import compose
from prime_lab_mcp.lab.configs.warm_up.examples import Examples, examples
from prime_lab_mcp.lab.configs.write import finish
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.text import quote

FOLDER = "configs/sft"
DATA = "train.jsonl"
"""The name by which a folder of files has a split `train`, which the trainer loads."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """A config on disk and the conversations it trains on. `data` is their folder, None for a dataset by name."""

    config: Config
    relative: str
    version: int
    existed: bool
    examples: Examples
    data: str | None


def warm_up(lab: Lab, wish: Wish, source: str, today: date) -> WarmUp:
    """Raises BadInput for wishes that cannot be met; then nothing is written."""
    _refuse_rl_only(wish)
    registry.load(lab.workspace.resolve(registry.REGISTRY))
    found = examples(lab, source, wish.held_out)
    name = wish.name or _name(found, wish)
    refuse_name(name)
    choices = replace(wish.choices, extra={**wish.choices.extra, **wish.extra})
    version = 0
    while True:
        version += 1
        stem = name if version == 1 else f"{name}-v{version}"
        path = lab.workspace.resolve(f"{FOLDER}/{stem}.toml")
        draft = compose(choices, found, stem)
        _refuse_unknown(draft)
        text, config = _text(draft, Lineage(stem, version, today, choices.target, _environments(found), source), path)
        data = path.with_suffix("") / DATA
        if not path.exists() and not data.exists():
            break
        if _same(path, text) and _same_rows(data, found):
            return _warm_up(lab, read(path), path, version, True, found)
    if found.rows is not None:
        registry.replace(data, _lines(found))
    registry.replace(path, text)
    relative = path.relative_to(lab.workspace.root).as_posix()
    entry = registry.Entry(
        name=f"sft/{name}", version=version, path=relative, created=today.isoformat(), model=config.model,
        target=choices.target, environments=_environments(found), sha256=config.sha256, based_on=None,
        notes=f"warm-up on {found.said}",
    )  # fmt: skip
    registry.add(lab.workspace.resolve(registry.REGISTRY), entry)
    return _warm_up(lab, config, path, version, False, found)


def _warm_up(lab: Lab, config: Config, path: Path, version: int, existed: bool, found: Examples) -> WarmUp:
    relative = path.relative_to(lab.workspace.root).as_posix()
    data = relative.removesuffix(".toml") if found.rows is not None else None
    return WarmUp(config, relative, version, existed, found, data)


def _refuse_rl_only(wish: Wish) -> None:
    choices = wish.choices
    given = {
        "environments": wish.environments, "env_args": wish.env_args, "based_on": wish.based_on, "group": choices.group,
        "max_tokens": choices.max_tokens, "curriculum": choices.curriculum,
    }  # fmt: skip
    if named := [name for name, value in given.items() if value]:
        raise BadInput(
            f"{', '.join(named)} says nothing about supervised fine-tuning, which plays no environment",
            fix="Leave it out beside sft; write the RL config after it with another call.",
            code="bad-argument",
        )


def _refuse_unknown(draft: Draft) -> None:
    for problem in check(draft.table, "sft"):
        raise BadInput(
            f"{quote(problem.key, limit=120)} {problem.problem}",
            fix=f"Did you mean {problem.near}?"
            if problem.near
            else 'Give extra as dotted keys of the SFT config, e.g. {"data.seq_len": 8192}.',
            code="config-unknown-key",
        )


def _text(draft: Draft, lineage: Lineage, path: Path) -> tuple[str, Config]:
    text, _ = finish(draft, lineage, path)
    how = (
        "a person starts it with `prime train this-file --sft`"
        if lineage.target == "hosted"
        else "run it with `uv run sft @ this-file` where prime-rl is installed"
    )
    first = "# " + plain(f"{lineage.name}: a prime-rl config for supervised fine-tuning before RL; {how}.")
    text = "\n".join([first, *text.split("\n")[1:]])
    return text, parse(text, path)


def _environments(found: Examples) -> tuple[str, ...]:
    return (found.environment,) if found.environment else ()


def _name(found: Examples, wish: Wish) -> str:
    stem = found.environment or Path(found.name).stem
    return re.sub(r"[^A-Za-z0-9._-]+", "-", stem.replace("_", "-")).strip("-._")[:50] or "warm-up"


def _lines(found: Examples) -> str:
    return "".join(row.line + "\n" for row in found.rows or ())


def _same(path: Path, text: str) -> bool:
    try:
        return same_but_for_date(path.read_text(encoding="utf-8"), text)
    except (OSError, UnicodeDecodeError):
        return False


def _same_rows(data: Path, found: Examples) -> bool:
    if found.rows is None:
        return True
    try:
        return data.read_text(encoding="utf-8") == _lines(found)
    except (OSError, UnicodeDecodeError):
        return False
