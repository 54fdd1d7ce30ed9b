"""Which key of a local environment's taskset selects held-out tasks: read from its source, never by running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_SPLITS = ("validation", "valid", "val", "dev", "eval", "evaluation", "heldout", "held_out", "test")
_LIMIT = 400_000


def held_out_keys(folder: Path) -> dict[str, Any] | None:
    """`{"split": "eval"}` for a taskset config whose literal `split` has such a value; None when none is found."""
    for file in [*sorted(folder.glob("*.py")), *sorted(folder.glob("*/*.py"))]:
        if file.is_symlink() or file.stat().st_size > _LIMIT:
            continue
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError):
            continue
        for values in _literal_splits(tree):
            chosen = next((s for s in _SPLITS if s in values), None)
            if chosen is not None:
                return {"split": chosen}
    return None


def _literal_splits(tree: ast.Module) -> Iterator[list[str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or not any("TasksetConfig" in ast.unparse(b) for b in node.bases):
            continue
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.target.id == "split":
                default = item.value.value if isinstance(item.value, ast.Constant) else None
                constants = [n.value for n in ast.walk(item.annotation) if isinstance(n, ast.Constant)]
                yield [c for c in constants if isinstance(c, str) and c != default]
