"""`inspect_dataset`: reports schema, samples, columns, answer format and flaws of a dataset."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated

import anyio
from pydantic import Field

from prime_lab_mcp.lab.authoring.build import MENDED_CODES
from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Finding, Next, verdict_of
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets.inspection import JUDGED_FORMATS, Inspection
from prime_lab_mcp.lab.datasets.reading import inspect_source
from prime_lab_mcp.lab.datasets.scan import DatasetRequest
from prime_lab_mcp.lab.datasets.source import (
    ENVIRONMENT,
    HELD_OUT_SPLITS,
    TRAIN_SPLITS,
    DatabaseFile,
    HubDataset,
    locate_dataset,
)
from prime_lab_mcp.lab.datasets.unclear_answers import number_endings, possible_answers
from prime_lab_mcp.lab.hub import lookup
from prime_lab_mcp.lab.hub.lookup import HubEntry
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.workspace import HUB_NAME
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

Name = Annotated[str | None, Field(max_length=200)]
LOOKED_UP = 3.0
"""How long an inspection waits for the Hub's answer about an environment of the same name, in seconds."""


class Args(Arguments):
    dataset: Annotated[
        str,
        Field(
            min_length=1,
            max_length=500,
            description="Hugging Face id, file or folder in the workspace, or environment:NAME.",
        ),
    ]
    config: Name = None
    split: Annotated[str | None, Field(max_length=200, description="To train on; default train.")] = None
    eval_split: Name = None
    revision: Name = None
    prompt_column: Annotated[str | None, Field(max_length=200, description="Overrules the guess.")] = None
    answer_column: Annotated[str | None, Field(max_length=200, description="Overrules the guess; a.b reaches in.")] = (
        None
    )
    max_rows: Annotated[int, Field(ge=100, le=200_000, description="Rows judged, sampled from all.")] = 20_000


async def run(call: Call, args: Args) -> Outcome:
    entry, inspection = await _both(call, args)
    first = () if entry is None else (_also(entry),)
    if isinstance(inspection, DatabaseFile):
        message = (
            f"{quote(args.dataset, 80)} is a database: its tables are no prompts with answers. Nothing was judged."
        )
        return Outcome("inconclusive", message, (inspection.as_finding(),))
    if isinstance(inspection, LabError):
        if entry is None:
            raise inspection
        findings = (*first, inspection.as_finding())
        message = f"{entry.ref} is an environment on the Hub; as a dataset it could not be read."
        return Outcome("failed", message, findings, {}, next=(_look_at(entry),))
    findings = (*first, *inspection.findings)
    status = verdict_of(findings)
    next = (*_next(inspection, args, status == "passed"), *(() if entry is None else (_look_at(entry),)))
    return Outcome(status, summary(inspection), findings, inspection.as_json(), next=next)


async def _both(call: Call, args: Args) -> tuple[HubEntry | None, Inspection | LabError]:
    """Inspect the dataset, and at the same time ask the Hub for an environment of the same name."""
    request = DatasetRequest(args.dataset, args.config, args.split, args.eval_split, args.revision, args.max_rows)
    entries: list[HubEntry] = []
    asked = anyio.Event()

    async def ask(owner: str, name: str) -> None:
        entries.append(await lookup.look_up_environment(call.lab.prime, owner, name))
        asked.set()

    inspection: Inspection | LabError
    started = anyio.current_time()
    async with anyio.create_task_group() as beside:
        named = _hub_name(call, args)
        if named is None:
            asked.set()
        else:
            beside.start_soon(ask, *named)
        try:
            inspection = await inspect_source(
                call.lab,
                request,
                prompt_column=args.prompt_column,
                answer_column=args.answer_column,
                progress=call.progress,
            )
        except LabError as error:
            inspection = error
        with anyio.move_on_after(max(0.0, LOOKED_UP - (anyio.current_time() - started))):
            await asked.wait()
        beside.cancel_scope.cancel()
    exists = bool(entries) and entries[0].exists is True
    return (entries[0] if exists else None), inspection


def _hub_name(call: Call, args: Args) -> tuple[str, str] | None:
    """Owner and name if the argument is a name on a Hub and not a path in the workspace."""
    matched = HUB_NAME.match(args.dataset)
    try:
        on_hub = matched is not None and isinstance(
            locate_dataset(call.lab.workspace, args.dataset, args.config), HubDataset
        )
    except LabError:
        return None
    return (matched["owner"], matched["name"]) if matched is not None and on_hub else None


def _also(entry: HubEntry) -> Finding:
    return Finding(
        "also-an-environment",
        "warning",
        f"{entry.ref} is also an environment on the Environments Hub; what is inspected here is the Hugging Face "
        "dataset of that name.",
        "To train on the environment as it is, or to change it, no dataset is needed: see search_hub.",
    )


def _look_at(entry: HubEntry) -> Next:
    arguments = {"kind": "environment", "query": entry.ref}
    return Next("search_hub", "shows the environment of the same name", arguments)


def summary(inspection: Inspection) -> str:
    """One sentence: rows, prompt, answer and its format."""
    rows = count(inspection.table.main.scanned, "row")
    if inspection.prompt is None or inspection.answer is None:
        missing = "prompt" if inspection.prompt is None else "answer"
        return f"{rows}; which column is the {missing} is not clear."
    prompt = " + ".join(quote(c, 40)[1:-1] for c in inspection.prompt.columns)
    blockers = sum(f.severity == "blocker" for f in inspection.findings)
    flaws = f"; {count(blockers, 'flaw')} must be mended" if blockers else ""
    answer = quote(inspection.answer.path, 40)[1:-1]
    return f"{rows}; prompt is {prompt}, answer is {answer} in the form {inspection.answer.recognised.format}{flaws}."


def _next(inspection: Inspection, args: Args, passed: bool) -> tuple[Next, ...]:
    given = {k: v for k, v in args.model_dump(exclude_none=True).items() if k != "max_rows"}
    if inspection.table.origin == "environment":
        named = {"environment": args.dataset.removeprefix(ENVIRONMENT)}
        if passed:
            return (Next("test_reward", "shows whether the reward pays for the right thing", named),)
        return (Next("check_environment", "after mending the rows", named),)
    if passed:
        named = {"name": _name_for(args.dataset), **given}
        if inspection.format in JUDGED_FORMATS:
            judged = {**named, "template": "free_text"}
            builds = Next("create_environment", "builds the environment with a judge model as its reward", judged)
            if number_endings(inspection.table.main.rows, inspection.answer.path if inspection.answer else "") is None:
                return (builds,)
            why = "again, with a column of the numbers alone as answer_column: a rule can compare them"
            return (
                Next("inspect_dataset", why, given),
                replace(builds, why=f"{builds.why}, where a right reply is more than the number at the end"),
            )
        return (Next("create_environment", "builds the environment from this dataset", named),)
    if inspection.answer is None and inspection.prompt is not None:
        possible = possible_answers(inspection.columns, inspection.table.main.rows, inspection.prompt.columns)
        if len(possible) == 1:
            named = {**given, "answer_column": possible[0]}
            return (Next("inspect_dataset", "again, with the column that may hold the answers", named),)
        named = {"name": _name_for(args.dataset), "template": "free_text"}
        return (
            Next("inspect_dataset", "again, with the column that holds the answers as answer_column", given),
            Next("create_environment", "without answers: a package with a judge, whose sample rows you replace", named),
        )
    blocking = {f.code for f in inspection.findings if f.severity == "blocker"}
    if inspection.prompt is not None and inspection.answer is not None and blocking <= MENDED_CODES:
        named = {"name": _name_for(args.dataset), **given}
        return (Next("create_environment", "leaves these rows out; or mend the dataset first", named),)
    return (Next("inspect_dataset", "again, once the blockers are mended", given),)


def _name_for(dataset: str) -> str:
    """Suggest a name for the environment: the dataset's name, not its split or a folder called `data`."""
    parts = [part.split(".")[0] for part in dataset.rstrip("/").split("/")]
    words = [
        p for p in parts if p and p.lower() not in (*TRAIN_SPLITS, *HELD_OUT_SPLITS, "data", "datasets", "dataset")
    ]
    return re.sub(r"[^a-z0-9]+", "_", words[-1].lower()).strip("_") if words else "my_env"


TOOL = Tool(
    name="inspect_dataset",
    title="Inspect dataset",
    description="First step with a dataset: columns, prompt and answer guesses, answer format, flaws, fitting reward.",
    args=Args,
    run=run,
    effect="executes",  # environment:NAME loads the environment, in a process of its own
    records="dataset",
    open_world=True,
)
