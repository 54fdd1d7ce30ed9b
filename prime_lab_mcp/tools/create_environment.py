"""`create_environment`: creates a package from a template and a dataset, ports a v0 package, or pulls one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.authoring.answer_form import other_form
from prime_lab_mcp.lab.authoring.assembly import template_names
from prime_lab_mcp.lab.authoring.build import (
    MENDED_CODES,
    BuiltEnvironment,
    build_environment,
    build_folder,
    build_sample,
)
from prime_lab_mcp.lab.authoring.naming import PackageNames, package_names
from prime_lab_mcp.lab.authoring.port.porting import port_environment
from prime_lab_mcp.lab.authoring.row_removal import MOST_REMOVED, lines_held_out, removal_call
from prime_lab_mcp.lab.authoring.template import EnvironmentKind, environment_kind
from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.base.untrusted_files import PlantedPath, read_below, remove_hidden, replace_below
from prime_lab_mcp.lab.datasets.inspection import TEMPLATES, Inspection
from prime_lab_mcp.lab.datasets.reading import inspect_source
from prime_lab_mcp.lab.datasets.scan import DatasetRequest, ScannedSplit
from prime_lab_mcp.lab.environment_status import due_call
from prime_lab_mcp.lab.hub.ownership import note_pulled
from prime_lab_mcp.lab.state.arguments import arguments_summary
from prime_lab_mcp.lab.state.open_warnings import record_port
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.workspace import HUB_NAME
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

MOST_ROWS = 200_000
"""Largest number of rows of a local file that is packaged with an environment."""
Name = Annotated[str | None, Field(max_length=200)]


class Args(Arguments):
    ONE_OF: ClassVar[tuple[str, ...]] = ("dataset", "hub", "port", "template")

    name: Annotated[str, Field(min_length=1, max_length=64, description="New folder under environments/.")]
    dataset: Annotated[str | None, Field(max_length=500, description="As for inspect_dataset.")] = None
    task: Annotated[str | None, Field(max_length=2000, description="What the model is told, before the format.")] = None
    api: Literal["v1", "v0"] = "v1"
    template: Annotated[
        str | None,
        Field(
            max_length=40,
            description="Default: by answer format. No dataset: procedural, tool_use (only reads), "
            "stateful_tools (changes data), sandboxed, game, simulated_user.",
        ),
    ] = None
    hub: Annotated[str | None, Field(max_length=300, description="owner/name[@version] to pull.")] = None
    port: Annotated[str | None, Field(max_length=300, description="v0 environment to port.")] = None
    config: Name = None
    split: Name = None
    eval_split: Name = None
    test_split: Annotated[str | None, Field(max_length=200, description="Third split, kept apart.")] = None
    revision: Name = None
    prompt_column: Name = None
    answer_column: Name = None
    labels: Annotated[list[str] | None, Field(max_length=200, description="Class names, by id.")] = None


async def run(call: Call, args: Args) -> Outcome:
    names = package_names(args.name)
    if args.port is not None:
        _refuse_port_over_itself(call, args.name, args.port, names)
    target = call.lab.workspace.new_environment(names.module)
    if args.port is not None:
        return await _port(call, args, args.port, names, target)
    if args.hub is not None and args.dataset is not None:
        raise BadInput("give a dataset or hub, not both", fix="Leave one of them out.", code="bad-argument")
    if args.hub is not None:
        return await _pull(call, args, args.hub, names)
    if args.dataset is None:
        return await _sample(call, args, names, target)
    inspection = await _inspected(call, args, args.dataset)
    findings = _standing(inspection)
    blockers = [f for f in findings if f.severity == "blocker"]
    if blockers:
        return _refused(
            args, findings, f"{count(len(blockers), 'flaw')} of the dataset must be mended first", inspection
        )
    wanted = args.template or TEMPLATES.get(inspection.format) if inspection.format is not None else args.template
    if wanted is None:
        findings = (*findings, _without_template(call, inspection.format))
        return _refused(args, findings, "the form of its answers fits no template", inspection)
    kind = environment_kind(call.lab.settings.templates, wanted, args.api)
    if kind.generates:
        raise BadInput(
            f"the template {kind.name} makes its own tasks and takes no dataset",
            fix=Fix("Leave ", SameCall.without("dataset"), " out, or template."),
            code="bad-argument",
        )
    third = await _third_split(call, args, args.dataset, inspection, kind)
    await call.progress(1, 1, "writing the package")

    def build(folder: Path) -> BuiltEnvironment:
        built = build_environment(kind, folder, names, inspection, args.task, args.labels or (), third)
        _require_one_form(folder, args.task, kind)
        return built

    built = await _write(target, build)
    findings = (*findings, *built.findings)
    if any(f.severity == "blocker" for f in built.findings):
        return _refused(args, findings, "its rows do not become tasks", inspection, built.fitting)
    return _created(call, names, kind, findings, built, inspection)


def _require_one_form(folder: Path, task: str | None, kind: EnvironmentKind) -> None:
    """Check that `task` asks for no other form of the answer than the new environment, whose own sentence follows it.

    Raises BadInput: a model that is asked for two forms is paid for one of them only.
    """
    other = other_form(folder, task)
    if other is None:
        return
    boxes = other.is_box and kind.name != "math"
    raise BadInput(
        f"the task asks for {quote(other.text, 60)}, and the template {kind.name} asks for a form of its own after "
        "that text: a reply in one of the two is not paid",
        fix=Fix(
            "Say in task what is to be done and leave the form out, or leave ",
            SameCall.without("task"),
            " out",
            *(("; ", SameCall(template="math"), " asks for a box") if boxes else ()),
            ".",
        ),
        code="reward-contradicts-prompt",
    )


async def _inspected(call: Call, args: Args, dataset: str) -> Inspection:
    if dataset.startswith("environment:"):
        raise BadInput(
            "an environment's own rows are no dataset to build another one from",
            fix="Name the dataset or the files that they come from.",
            code="bad-argument",
        )
    request = DatasetRequest(dataset, args.config, args.split, args.eval_split, args.revision, MOST_ROWS, whole=True)
    return await inspect_source(
        call.lab,
        request,
        prompt_column=args.prompt_column,
        answer_column=args.answer_column,
        progress=call.progress,
    )


async def _third_split(
    call: Call, args: Args, dataset: str, inspection: Inspection, kind: EnvironmentKind
) -> ScannedSplit | None:
    """The split that is neither trained on nor evaluated meanwhile. Raises BadInput for one that is used already."""
    if args.test_split is None:
        return None
    used = [inspection.table.main.name, *([inspection.table.held_out.name] if inspection.table.held_out else [])]
    if args.test_split in used or kind.api == "v0":
        why = "a v0 environment has two splits" if kind.api == "v0" else "that split is trained on or held out already"
        raise BadInput(
            f"test_split {quote(args.test_split, 60)} cannot be a third split: {why}",
            fix=Fix(
                "Leave ",
                SameCall.without("test_split"),
                " out, or name split, eval_split and test_split, three different ones.",
            ),
            code="bad-argument",
        )
    third = await _inspected(call, args.model_copy(update={"split": args.test_split, "eval_split": None}), dataset)
    return third.table.main


async def _write(target: Path, write: Callable[[Path], BuiltEnvironment]) -> BuiltEnvironment:
    """Write the package. If the new package has a blocker, nothing is put in place."""

    def placed() -> BuiltEnvironment:
        with build_folder(target) as folder:
            built = write(folder)
            if any(f.severity == "blocker" for f in built.findings):
                raise _NotCreated(built)
        return built

    try:
        return await anyio.to_thread.run_sync(placed)
    except _NotCreated as stopped:
        return stopped.environment


class _NotCreated(Exception):
    """Leaves `building` without putting anything in place, because the new package has a blocker."""

    def __init__(self, built: BuiltEnvironment) -> None:
        super().__init__()
        self.environment = built


async def _sample(call: Call, args: Args, names: PackageNames, target: Path) -> Outcome:
    templates = call.lab.settings.templates
    if args.template is None:
        raise BadInput(
            "give a dataset to build from, a template to begin with, or hub to pull an environment",
            fix=Fix(
                'For example dataset="openai/gsm8k"; or, without data, ',
                SameCall(template="procedural"),
                f" for generated tasks; or one of: {', '.join(template_names(templates))}.",
            ),
            code="bad-argument",
        )
    kind = environment_kind(templates, args.template, args.api)
    built = await _write(target, lambda folder: build_sample(kind, folder, names, args.task))
    return _created(call, names, kind, built.findings, built, None)


def _standing(inspection: Inspection) -> tuple[Finding, ...]:
    """The findings of the inspection that creating the package does not resolve."""
    if inspection.prompt is None or inspection.answer is None:
        return inspection.findings  # leaving out rows does not resolve a column that nobody named
    mended = MENDED_CODES | {"unpinned-dataset"} if inspection.table.origin == "hub" else MENDED_CODES
    return tuple(f for f in inspection.findings if f.code not in mended)


def _without_template(call: Call, format: str | None) -> Finding:
    return Finding(
        "format-without-template",
        "blocker",
        f"answers in the form {format or 'that was found'} have no template of their own",
        Fix(
            "Name the closest one with template and change it with ",
            NamedCall("edit_environment"),
            f"; there are: {', '.join(template_names(call.lab.settings.templates))}.",
        ),
    )


_INSPECTED = ("dataset", "config", "split", "eval_split", "revision", "prompt_column", "answer_column")
"""Arguments that inspect_dataset has as well: without the columns, it would guess others."""


def _refused(
    args: Args, findings: tuple[Finding, ...], why: str, inspection: Inspection, fitting: str | None = None
) -> Outcome:
    """`fitting` is the template to create the environment from instead, where one is known."""
    given = {name: getattr(args, name) for name in _INSPECTED}
    inspect = Next("inspect_dataset", "shows it in full", {k: v for k, v in given.items() if v is not None})
    asked = args.model_dump(mode="json", exclude_unset=True)
    calls = (
        (Next("create_environment", "with the template that these answers fit", {**asked, "template": fitting}),)
        if fitting is not None
        else ()
    )
    flaws = any(f.severity == "blocker" for f in inspection.findings)  # inspect_dataset shows no more flaws
    return Outcome(
        "failed",
        f"Nothing was created: {why}.",
        findings,
        {"inspection": inspection.as_json() | {"columns": []}},
        next=() if flaws else (*calls, inspect),
    )


def _created(
    call: Call,
    names: PackageNames,
    kind: EnvironmentKind,
    findings: tuple[Finding, ...],
    built: BuiltEnvironment,
    inspection: Inspection | None,
) -> Outcome:
    folder = call.lab.workspace.environments / names.module
    data: dict[str, Any] = {
        "environment": names.module,
        "path": f"environments/{names.module}",
        "api": kind.api,
        "template": kind.name,
        "files": _files(folder),
        "rows": dict(built.rows),
    }
    if inspection is not None:
        data["dataset"] = inspection.as_json()["dataset"]
        data["fingerprint"] = inspection.table.main.fingerprint
        data["format"] = inspection.format
        data["metadata"] = [quote(name, 60)[1:-1] for name in built.metadata]
    tasks = f" with {count(built.rows['train'], 'task')}" if "train" in built.rows else ""
    tasks += f" and {built.rows['eval']:,} that are held out" if tasks and built.rows.get("eval") else ""
    summary = f"Created environments/{names.module} from the template {kind.name}{tasks}.{built.left_out}"
    if built.example is not None:
        data["select"] = {"env_args": {"where": dict(built.example)}}
        chosen = arguments_summary({"where": built.example})
        summary += (
            " To train on some of them only, give every call from test_reward on the same env_args: for example, "
            f"{chosen} selects tasks by a column."
        )
    if kind.judged:  # the advice to take this template is followed, and its reason is said here
        findings = tuple(f for f in findings if f.code != "no-checkable-answer")
        summary += " Its reward asks a judge model, because no rule can compare free texts."
    return Outcome("passed", summary, findings, data, next=_then(names.module, inspection is None, kind.judged))


def _files(folder: Path) -> list[str]:
    """The package's files without `.prime`, the folder of the CLI's records."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in paths if path.parts[0] != ".prime")


def _then(environment: str, made_up: bool = False, judged: bool = False) -> tuple[Next, ...]:
    """`made_up`: the environment holds the tasks of the template, which have to be replaced first. `judged`: its reward
    asks a judge, without which nothing is known of it."""
    named = {"environment": environment}
    proves = Next("test_reward", "checks the environment and proves its reward, without a model", named)
    if judged:
        why = "checks the environment and how often its judge is right, at a preset such as prime or a URL"
        proves = Next("test_reward", why, {**named, "judge": "prime"})
    shows = Next("read_environment", "lists the files; replace the template's tasks with edit_environment", named)
    return (shows, proves) if made_up else (proves,)


def _refuse_port_over_itself(call: Call, name: str, old: str, names: PackageNames) -> None:
    """Raise BadInput (`environment-exists`) if a port has the name of the older environment; `next` has a free one."""
    folders = call.lab.workspace.environments
    if Path(old).name.replace("-", "_") != names.module or not (folders / names.module).exists():
        return
    free = call.lab.workspace.free_port_name(name)
    raise BadInput(
        f"a port is written beside environments/{names.module}, never over it, so that both can be compared",
        fix="Give the port a name of its own.",
        code="environment-exists",
        next=(Next("create_environment", "makes the port beside the older environment", {"name": free, "port": old}),),
    )


async def _port(call: Call, args: Args, old: str, names: PackageNames, target: Path) -> Outcome:
    """Port a v0 environment of the workspace. What could not be carried over is data and a finding."""
    others = [n for n in ("dataset", "template", "hub", "task") if getattr(args, n) is not None]
    if others or args.api == "v0":
        raise BadInput(
            f"port does not go with {others[0] if others else 'api=v0'}: a port keeps the older rows and prompts",
            fix="Leave it out.",
            code="bad-argument",
            next=(Next("create_environment", "makes the port alone", {"name": args.name, "port": old}),),
        )
    snapshot = await call.lab.snapshot(old)

    async def say(message: str) -> None:
        await call.progress(0.5, 1.0, message)

    done = await port_environment(call.lab, snapshot, target, names, say)
    comparison = {"same_as": snapshot.relative}
    if done.rendering is not None:
        comparison["rendering"] = done.rendering
    record_port(call.lab.ledger, call.lab.key, await call.lab.snapshot(names.module), done.findings, comparison)
    ported, given = done.ported, {"environment": names.module, **comparison}
    data: dict[str, Any] = {
        "environment": names.module,
        "path": f"environments/{names.module}",
        "api": "v1",
        "ported_from": snapshot.relative,
        "files": _files(target),
        "rows": dict(done.rows.counts),
        "rewards": [{"name": r.name, "weight": r.weight} for r in ported.rewards],
        "left": [part.as_json() for part in ported.left_parts],
        "metadata": [quote(name, 60)[1:-1] for name in done.rows.columns],
    }
    if ported.tools:
        data["tools"] = [tool.name for tool in ported.tools]
    if done.rendering is not None:
        data["rendering"] = done.rendering
    weighted = sum(bool(r.weight) for r in ported.rewards)
    summary = f"Ported {quote(snapshot.name, 80)} to environments/{names.module} with {count(weighted, 'reward')}"
    summary += ported.left_sentence
    then = [Next("test_reward", "compares each component with the older environment", given)]
    to_write = Next("read_environment", "shows the lines to write by hand", {"environment": snapshot.relative})
    if not weighted:
        then = [to_write]
    elif any(part.by_hand for part in ported.left_parts):
        then.append(to_write)
    findings = done.findings
    leaked = lines_held_out(done.rows.texts.get("train", ""), done.rows.texts.get("eval", ""))
    if leaked:
        summary += f" {count(len(leaked), 'training row')} of it are held out too, as in the older environment."
        findings = (*findings, _leak(names, leaked))
    if 0 < len(leaked) <= MOST_REMOVED:
        removed = removal_call(names.module, f"{names.module}/data/train.jsonl", leaked)
        why = "removes the training rows that are held out too, before rewards are compared"
        then.insert(0, Next("edit_environment", why, dict(removed.arguments)))
    return Outcome("passed", summary, findings, data, next=tuple(then))


def _leak(names: PackageNames, leaked: Sequence[int]) -> Finding:
    """The warning about training rows of a port that are held out too, which check_environment will fail for."""
    path = f"{names.module}/data/train.jsonl"
    fix: str = f"Remove these rows from {path}."
    if len(leaked) <= MOST_REMOVED:
        fix = Fix("Call ", removal_call(names.module, path, leaked), " before test_reward compares the rewards.")
    message = f"{count(len(leaked), 'row')} of {path} are in eval.jsonl too: check_environment fails with these files."
    return Finding("leak-exact", "warning", message, fix)


async def _pull(call: Call, args: Args, hub: str, names: PackageNames) -> Outcome:
    if not HUB_NAME.match(hub):
        raise BadInput(
            f"{quote(hub)} is no environment of the Hub",
            fix="Give owner/name or owner/name@version.",
            code="bad-argument",
        )
    target = call.lab.workspace.new_environment(names.module)
    with build_folder(target) as folder:
        await call.lab.prime.env_pull(hub, folder)
        hidden = await anyio.to_thread.run_sync(_without_hidden, folder)
        if not (folder / "pyproject.toml").is_file():
            raise LabError(
                f"what the Hub holds for {hub} has no pyproject.toml, so it is no environment package",
                fix=Fix("Check the name with ", NamedCall("search_hub", kind="environment", query=...).bare, "."),
                code="hub-no-package",
            )
    await note_pulled(call.lab, hub, target)
    files = _files(target)
    data = {"environment": names.module, "path": f"environments/{names.module}", "hub": hub, "files": files[:100]}
    due = await due_call(call.lab, names.module)
    proven = due is not None and due.tool not in ("check_environment", "test_reward")  # files that were proven before
    calls = (due,) if due is not None and proven else _then(names.module)
    summary = f"Pulled {hub} to environments/{names.module}."
    if hidden:
        data["hidden_left_out"] = [quote(path, 120) for path in hidden[:20]]
        summary += f" {count(len(hidden), 'hidden file or folder', 'hidden files and folders')} of it were left out."
    return Outcome("passed", summary, (), data, next=calls)


_RECORD = ".prime/.env-metadata.json"
"""The record of a pull that `prime` writes after it has unpacked the archive."""
_MOST_RECORD_BYTES = 1_000_000


def _without_hidden(folder: Path) -> list[str]:
    """Remove the hidden files of a pulled archive, but for the record of `prime`. Returns their paths.

    A push uploads no hidden file, so no honest archive holds one. git, editors and shells of the user would run what
    such files say, such as `core.fsmonitor` of `.git/config`.
    """
    record: bytes | None = None
    with suppress(OSError, PlantedPath):
        record = read_below(folder, _RECORD, _MOST_RECORD_BYTES)
    removed = [path for path in remove_hidden(folder) if path != PurePosixPath(_RECORD).parts[0]]
    if record is not None:
        replace_below(folder, _RECORD, record)
    return removed


TOOL = Tool(
    name="create_environment",
    title="Create environment",
    description="A complete environment: fitted to a dataset; from template and task; ported from v0; or pulled "
    "from the Hub.",
    args=Args,
    run=run,
    effect="writes",
    runs_environment_code=True,
    idempotent=False,
    open_world=True,
)
