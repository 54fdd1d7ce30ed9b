"""Resolves names of environments to taskset ids, for example a local folder to the name under which it was pushed.

`held_out_keys` finds the taskset key that selects held-out tasks, by parsing the environment's code without running it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.syntax import parse_python
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.context import ConfigContext, EnvironmentSchemas, SourceMeasurement
from prime_lab_mcp.lab.configs.evidence import hub_proof
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Push
from prime_lab_mcp.lab.state.pulled import PulledFiles, pull_of_folder, pulled_as
from prime_lab_mcp.lab.state.workspace import HUB_NAME, EnvironmentFolder

_SPLITS = ("validation", "valid", "val", "dev", "eval", "evaluation", "heldout", "held_out", "test")
_LIMIT = 400_000


def held_out_keys(folder: Path) -> dict[str, Any] | None:
    """Return the taskset key that selects held-out tasks, such as `{"split": "eval"}`, or None.

    The key is the field `split` of a taskset config class whose type lists a value of `_SPLITS`.
    """
    for file in [*sorted(folder.glob("*.py")), *sorted(folder.glob("*/*.py"))]:
        if file.is_symlink() or file.stat().st_size > _LIMIT:
            continue
        try:
            tree = parse_python(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError):
            continue
        for splits in _literal_splits(tree):
            split = next((s for s in _SPLITS if s in splits), None)
            if split is not None:
                return {"split": split}
    return None


def without_held_out(
    lab: Lab, context: ConfigContext, schemas: Mapping[str, EnvironmentSchemas] | None = None
) -> frozenset[str]:
    """Return the ids of the sources whose code is known and has no key that selects held-out tasks.

    `schemas` are those of the files that the sources name. They decide where the files of the workspace were edited
    since, so that their keys are not those of the source.
    """
    return frozenset(
        id
        for id, folder in context.folders.items()
        if not context.each.get(id, SourceMeasurement()).held_out
        and not _selects(lab.workspace.root / "environments" / folder, (schemas or {}).get(id))
    )


def own_splits(lab: Lab, context: ConfigContext) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return the folder here and the keys of held-out tasks that its files have now, by the id of a source of which the
    published version has none."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for id in context.without_held_out:
        folder = context.folders[id]
        keys = held_out_keys(lab.workspace.root / "environments" / folder)
        if keys:
            found[id] = (folder, keys)
    return found


def _selects(folder: Path, schemas: EnvironmentSchemas | None) -> bool:
    """Whether the code of a source has a key that selects held-out tasks."""
    keys = held_out_keys(folder)
    if keys is None or schemas is None or not schemas.exact or not schemas.taskset:
        return keys is not None
    return keys.keys() <= dict(schemas.taskset.get("properties", {})).keys()


def _literal_splits(tree: ast.Module) -> Iterator[list[str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or not any("TasksetConfig" in ast.unparse(b) for b in node.bases):
            continue
        for item in node.body:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and item.target.id == "split":
                default = item.value.value if isinstance(item.value, ast.Constant) else None
                constants = [n.value for n in ast.walk(item.annotation) if isinstance(n, ast.Constant)]
                yield [c for c in constants if isinstance(c, str) and c != default]


SourceProof = tuple[str, str, str]
"""Workspace, environment and source fingerprint of the files whose evidence counts for a source."""


@dataclass(frozen=True, slots=True)
class ResolvedSource:
    """An environment with the id that the config uses, its local folder if there is one, and findings about it."""

    id: str
    folder: Path | None = None
    findings: tuple[Finding, ...] = ()
    proof: SourceProof | None = None


async def resolve_source(lab: Lab, name: str, choices: ConfigChoices, lenient: bool = False) -> ResolvedSource:
    """Resolve a folder name or `owner/name[@version]` to a taskset id. Raises BadInput.

    With `lenient`, a name from an older file that cannot be resolved stays as it is, with a warning.
    """
    hosted = choices.target == "hosted"
    matched = HUB_NAME.match(name)
    if matched and not (lab.workspace.root / name).is_dir():
        return await _on_hub(lab, matched["owner"], matched["name"], matched["version"], hosted)
    try:
        folder = lab.workspace.environment(name)
    except BadInput:
        if not lenient:
            raise
        return ResolvedSource(name, findings=(_unpublished(name),) if hosted else ())
    source = (await lab.snapshot(folder.relative)).source
    push = _push_of(lab, folder, source)
    if push is not None:
        findings = (_v0(folder.name),) if push.api == "v0" else ()
        if hosted:
            return ResolvedSource(f"{push.owner}/{push.name}@{push.version}", folder.path, findings, _proof(push))
        return ResolvedSource(push.name, folder.path, findings, (lab.key, folder.name, source))
    pulled = pull_of_folder(lab.ledger, lab.key, folder.name) if hosted else None
    if pulled is not None and pulled.source == source and (matched := HUB_NAME.match(pulled.ref)):
        return await _on_hub(lab, matched["owner"], matched["name"], matched["version"], hosted)
    if hosted and not lenient:
        raise _not_published(folder.name, pulled)
    local = folder.name.replace("_", "-")
    checked = lab.ledger.evidence(lab.key, tool="check_environment", environment=folder.name, limit=1)
    findings = (
        *((_unpublished(name),) if hosted else ()),
        *((_v0(folder.name),) if checked and checked[0].data.get("api") == "v0" else ()),
    )
    return ResolvedSource(local, folder.path, findings, (lab.key, folder.name, source))


def _not_published(folder: str, pulled: PulledFiles | None) -> BadInput:
    name = quote(folder, 80)
    if pulled is not None:
        return BadInput(
            f"the environment {name} was pulled as {quote(pulled.ref, 100)} and edited since, and hosted training "
            "loads an environment from the Hub",
            fix=Fix(
                "Train on it as the Hub holds it: pass ",
                SameCall(environments=[pulled.ref]),
                "; or publish the edited files under a name of your own with ",
                NamedCall("push_environment", environment=folder),
                ".",
            ),
            code="environment-not-published",
        )
    return BadInput(
        f"the environment {name} is not published yet, and hosted training loads it from the Hub",
        fix=Fix(
            "Call ",
            NamedCall("push_environment", environment=folder),
            " first, or write for ",
            SameCall(target="self-managed"),
            ".",
        ),
        code="environment-not-published",
    )


def _push_of(lab: Lab, folder: EnvironmentFolder, source: str) -> Push | None:
    """Return the newest push of these files from any folder, or else of other files from a folder with this name."""
    same_files = lab.ledger.pushes(workspace=lab.key, source=source, platform=lab.platform)
    rows = same_files or lab.ledger.pushes(workspace=lab.key, environment=folder.name, platform=lab.platform)
    return rows[0] if rows else None


def _proof(push: Push) -> SourceProof:
    return push.workspace, push.environment, push.source


async def _on_hub(lab: Lab, owner: str, name: str, version: str | None, hosted: bool) -> ResolvedSource:
    push = lab.newest_push(owner, name, version)
    folder = None
    if push is not None:
        pushed = Path(push.workspace) / "environments" / push.environment
        folder = pushed if push.workspace == lab.key and pushed.is_dir() else None
        version = version or push.version
    elif (pulled := pulled_as(lab.ledger, lab.key, owner, name, version)) is not None:
        of_pull = lab.workspace.root / "environments" / pulled
        folder = of_pull if of_pull.is_dir() and await _is_as_pulled(lab, pulled) else None
    findings: tuple[Finding, ...] = (_v0(f"{owner}/{name}"),) if push is not None and push.api == "v0" else ()
    if version is None and hosted:
        from prime_lab_mcp.lab.hub.lookup import look_up_environment

        entry = await look_up_environment(lab.prime, owner, name)
        version = entry.version
        if version is None:
            reason = "the Hub has no such environment" if entry.exists is False else "the Hub could not be asked"
            findings = (*findings, _unpinned(f"{owner}/{name}", reason))
        elif entry.runtime == "v0":
            findings = (*findings, _v0(f"{owner}/{name}"))
    id = f"{owner}/{name}@{version}" if version else f"{owner}/{name}"
    return ResolvedSource(id, folder, findings, _proof(push) if push else hub_proof(lab, owner, name, version))


async def _is_as_pulled(lab: Lab, folder: str) -> bool:
    """Whether a folder still holds the files that were pulled into it, so that its code is that of the source."""
    pulled = pull_of_folder(lab.ledger, lab.key, folder)
    try:
        return pulled is not None and (await lab.snapshot(f"environments/{folder}")).source == pulled.source
    except LabError:
        return False


def _unpinned(id: str, reason: str) -> Finding:
    return Finding(
        "config-unpinned-source",
        "warning",
        f"{quote(id, limit=100)} is written without a version: {reason}.",
        'Name it as "owner/name@version" (search_hub lists versions); check_training_config wants it pinned.',
    )


def _unpublished(name: str) -> Finding:
    return Finding(
        "config-unpublished-source",
        "warning",
        f"{quote(name, limit=100)} is no environment on the Hub, from where hosted training loads it.",
        'Call push_environment, then write_training_config(environments=["owner/name@version"], based_on=...).',
    )


def _v0(name: str) -> Finding:
    return Finding(
        "v0-not-trainable",
        "warning",
        f"{quote(name, limit=100)} is a v0 environment, which the present platform cannot train.",
        "Port it with the migrate_environment prompt (lab://guide/migration), push it, and write the config again.",
    )
