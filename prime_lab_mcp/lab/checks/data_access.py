"""Checks of how an environment gets its data: pinned, without foreign code, and not while it is imported."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from prime_lab_mcp.lab.checks.code import SourceFile, dotted
from prime_lab_mcp.lab.checks.package import Check, Package
from prime_lab_mcp.lab.checks.secrets import constants
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

_LOADERS = frozenset({"load_dataset", "load_dataset_builder", "snapshot_download", "hf_hub_download"})
_LOCAL = frozenset({"json", "csv", "parquet", "text", "arrow", "pandas", "imagefolder", "audiofolder", "webdataset"})
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_NETWORK = re.compile(
    r"^(?:requests|httpx)\.(?:get|post|put|request|head|stream)$|(?:^|\.)urlopen$|^urllib\.request\.urlretrieve$"
)


def unpinned_dataset(package: Package) -> Iterator[Finding]:
    """A data set that changes under a tested environment makes every proof about it stale unnoticed."""
    for file in package.code.files:
        named = _names(file)
        for name, call in file.calls():
            if name.rsplit(".", 1)[-1] not in _LOADERS or not (call.args or call.keywords):
                continue
            given = {k.arg: k.value for k in call.keywords}
            first = call.args[0] if call.args else given.get("path", given.get("repo_id"))
            source = _text(first, named)
            if source in _LOCAL or _is_path(first, source) or None in given:
                continue
            shown = f"{name.rsplit('.', 1)[-1]}({quote(source or '...', 80)})"
            revision = _text(given.get("revision"), named)
            if "revision" not in given and not {"data_files", "data_dir"} & set(given):
                yield Finding(
                    "unpinned-dataset", "warning", f"{shown} names no revision",
                    "Add revision=COMMIT; inspect_dataset shows the present one.", file.at(call.lineno),
                )  # fmt: skip
            elif revision is not None and not _COMMIT.fullmatch(revision) and revision in ("main", "master", ""):
                yield Finding(
                    "unpinned-dataset", "warning", f"{shown} names the branch {quote(revision, 40)}, which moves",
                    "Name a commit; inspect_dataset shows the present one.", file.at(call.lineno),
                )  # fmt: skip
            if _is_true(given.get("trust_remote_code")):
                yield Finding(
                    "trust-remote-code", "warning",
                    f"{shown} runs code of the data set's repository; datasets 4 refuses it",
                    "Use a data set in a plain format (Parquet, JSONL), or its revision refs/convert/parquet.",
                    file.at(call.lineno),
                )  # fmt: skip


def network_at_import(package: Package) -> Iterator[Finding]:
    """Every worker that imports the environment pays for it, and none works without the network."""
    for file in package.code.files:
        for node in _at_import(file.tree) if file.tree is not None else ():
            name = dotted(node.func) or ""
            if name.rsplit(".", 1)[-1] in _LOADERS or _NETWORK.search(name):
                yield Finding(
                    "network-at-import", "warning", f"{name}() runs while the module is imported",
                    "Call it inside load() (v1) or load_environment (v0).", file.at(node.lineno),
                )  # fmt: skip
                break


def _at_import(node: ast.AST) -> Iterator[ast.Call]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _is_main(child):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from _at_import(child)


def _is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test))


def _names(file: SourceFile) -> dict[str, str]:
    """Module-level names that stand for one string."""
    found: dict[str, str] = {}
    for node in file.tree.body if file.tree is not None else ():
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found |= {t.id: node.value.value for t in targets if isinstance(t, ast.Name)}
    return found


def _text(node: ast.expr | None, named: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return named.get(node.id)
    return next(constants(node), None) if isinstance(node, ast.Constant) else None


def _is_path(node: ast.expr | None, text: str | None) -> bool:
    """A path of this machine, given literally or computed from one."""
    if text is not None:
        return text.startswith((".", "/", "~")) or text.endswith((".json", ".jsonl", ".csv", ".parquet"))
    seen = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} if node is not None else set()
    return bool(seen & {"Path", "__file__", "str"})


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


DATA_CHECKS: tuple[Check, ...] = (unpinned_dataset, network_at_import)
