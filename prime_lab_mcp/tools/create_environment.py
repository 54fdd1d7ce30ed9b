"""`create_environment`: a complete package from a template fitted to a dataset, or one pulled from the Hub."""

from __future__ import annotations

from typing import Annotated, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.authoring import numeric
from prime_lab_mcp.lab.authoring.names import Names, names_for
from prime_lab_mcp.lab.authoring.placing import building
from prime_lab_mcp.lab.datasets.inspection import Inspection, inspect
from prime_lab_mcp.lab.datasets.reading import Request
from prime_lab_mcp.lab.datasets.source import LocalFiles
from prime_lab_mcp.lab.errors import BadInput, LabError
from prime_lab_mcp.lab.report import Finding, Next, Outcome
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.lab.workspace import HUB_NAME
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

MOST_ROWS = 200_000
"""Rows of files that are packaged with an environment at most."""
Name = Annotated[str | None, Field(max_length=200)]


class Args(Arguments):
    name: Annotated[str, Field(min_length=1, max_length=64, description="Of the new folder under environments/.")]
    dataset: Annotated[str | None, Field(max_length=500, description="As for inspect_dataset.")] = None
    task: Annotated[str | None, Field(max_length=2000, description="Instruction to the model, before the format.")] = (
        None
    )
    api: Literal["v1", "v0"] = "v1"
    hub: Annotated[str | None, Field(max_length=300, description="owner/name[@version] to pull instead.")] = None
    config: Name = None
    split: Name = None
    eval_split: Name = None
    revision: Name = None
    prompt_column: Name = None
    answer_column: Name = None


async def run(call: Call, args: Args) -> Outcome:
    names = names_for(args.name)
    target = call.lab.workspace.new_environment(names.module)
    _refuse_what_is_not_there(args)
    if args.hub is not None:
        return await _pull(call, args, args.hub, names)
    assert args.dataset is not None
    request = Request(args.dataset, args.config, args.split, args.eval_split, args.revision, MOST_ROWS, whole=True)
    await call.progress(0, 2, "inspecting the dataset")
    found = await inspect(call.lab, request, prompt_column=args.prompt_column, answer_column=args.answer_column)
    findings = _standing(found)
    blockers = [f for f in findings if f.severity == "blocker"]
    if blockers:
        return _refused(found, args, findings, f"{count(len(blockers), 'flaw')} of the dataset must be mended first")
    if found.format not in numeric.FORMATS:
        findings = (*findings, _without_template(found.format))
        return _refused(found, args, findings, f"there is no template yet for answers in the form {found.format}")
    await call.progress(1, 2, "writing the package")

    def write() -> numeric.Made:
        with building(target) as folder:
            template = call.lab.settings.templates / "numeric"
            return numeric.build(template, folder, names, found, args.task)

    made = await anyio.to_thread.run_sync(write)
    return _created(call, names, found, (*findings, *made.findings), made)


def _refuse_what_is_not_there(args: Args) -> None:
    if args.api == "v0":
        raise BadInput(
            "environments for the old API (v0) are not generated: the platform cannot train on them",
            fix='Leave api at "v1"; to port an old environment, follow lab://guide/migration.',
            code="v0-not-offered",
        )
    if (args.dataset is None) == (args.hub is None):
        raise BadInput(
            "give either dataset (to build from a template) or hub (to pull an environment)",
            fix='For example dataset="openai/gsm8k" or dataset="data/train.jsonl".',
            code="bad-argument",
        )


def _standing(found: Inspection) -> tuple[Finding, ...]:
    """The inspection's findings that creating the package does not mend."""
    mended = set(numeric.MENDED) if isinstance(found.table.source, LocalFiles) else {"unpinned-dataset"}
    return tuple(f for f in found.findings if f.code not in mended)


def _without_template(format: str | None) -> Finding:
    return Finding(
        "format-without-template",
        "blocker",
        f"the templates so far fit numbers ({', '.join(sorted(numeric.FORMATS))}); one for {format} is to come.",
        "By hand: create an environment from any numeric dataset, then with edit_environment change rows.py (where the "
        "questions come from) and numbers.py (how golds and replies are read and compared), and call test_reward.",
    )


def _refused(found: Inspection, args: Args, findings: tuple[Finding, ...], why: str) -> Outcome:
    given = {"dataset": args.dataset, "config": args.config, "revision": args.revision}
    return Outcome(
        "failed",
        f"Nothing was created: {why}.",
        findings,
        {"inspection": found.as_json() | {"columns": []}},
        next=(Next("inspect_dataset", "shows it in full", {k: v for k, v in given.items() if v is not None}),),
    )


def _created(call: Call, names: Names, found: Inspection, findings: tuple[Finding, ...], made: numeric.Made) -> Outcome:
    folder = call.lab.workspace.environments / names.module
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    data = {
        "environment": names.module,
        "path": f"environments/{names.module}",
        "api": "v1",
        "template": "numeric",
        "files": files,
        "rows": made.rows,
        "dataset": found.as_json()["dataset"],
        "fingerprint": found.table.main.fingerprint,
        "format": found.format,
    }
    tasks = f" with {count(made.rows['train'], 'task')}" if "train" in made.rows else ""
    return Outcome("passed", f"Created environments/{names.module}{tasks}.", findings, data, next=_then(names.module))


def _then(environment: str) -> tuple[Next, ...]:
    named = {"environment": environment}
    return (Next("test_reward", "checks the environment and proves its reward, without a model", named),)


async def _pull(call: Call, args: Args, hub: str, names: Names) -> Outcome:
    if not HUB_NAME.match(hub):
        raise BadInput(
            f"{quote(hub)} is no environment of the Hub",
            fix="Give owner/name or owner/name@version.",
            code="bad-argument",
        )
    target = call.lab.workspace.new_environment(names.module)
    with building(target) as folder:
        await call.lab.prime.env_pull(hub, folder)
        if not (folder / "pyproject.toml").is_file():
            raise LabError(
                f"what the Hub holds for {hub} has no pyproject.toml, so it is no environment package",
                fix="Check the name with search_hub.",
                code="hub-no-package",
            )
    files = sorted(p.relative_to(target).as_posix() for p in target.rglob("*") if p.is_file())
    data = {"environment": names.module, "path": f"environments/{names.module}", "hub": hub, "files": files[:100]}
    return Outcome("passed", f"Pulled {hub} to environments/{names.module}.", (), data, next=_then(names.module))


TOOL = Tool(
    name="create_environment",
    title="Create environment",
    description="A complete environment fitted to a dataset (inspected first), or one pulled from the Hub.",
    args=Args,
    run=run,
    effect="writes",
    idempotent=False,
    open_world=True,
)
