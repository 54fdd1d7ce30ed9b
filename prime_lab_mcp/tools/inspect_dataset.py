"""`inspect_dataset`: schema, samples, columns, answer format and flaws of a dataset, before any code is written."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from prime_lab_mcp.lab.datasets.inspection import Inspection, inspect
from prime_lab_mcp.lab.datasets.reading import Request
from prime_lab_mcp.lab.report import Next, Outcome, verdict_of
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

Name = Annotated[str | None, Field(max_length=200)]


class Args(Arguments):
    dataset: Annotated[
        str, Field(min_length=1, max_length=500, description="Hugging Face id, or file or folder in the workspace.")
    ]
    config: Name = None
    split: Annotated[str | None, Field(max_length=200, description="To train on; default train.")] = None
    eval_split: Name = None
    revision: Name = None
    prompt_column: Annotated[str | None, Field(max_length=200, description="Overrules the guess.")] = None
    answer_column: Annotated[str | None, Field(max_length=200, description="Overrules the guess; a.b reaches in.")] = (
        None
    )
    max_rows: Annotated[int, Field(ge=100, le=200_000, description="Rows judged, sampled over all.")] = 20_000


async def run(call: Call, args: Args) -> Outcome:
    request = Request(args.dataset, args.config, args.split, args.eval_split, args.revision, args.max_rows)
    found = await inspect(call.lab, request, prompt_column=args.prompt_column, answer_column=args.answer_column)
    status = verdict_of(found.findings)
    return Outcome(status, summary(found), found.findings, found.as_json(), next=_next(found, args, status == "passed"))


def summary(found: Inspection) -> str:
    """One sentence: rows, prompt, answer and its format."""
    rows = count(found.table.main.scanned, "row")
    if found.prompt is None or found.answer is None:
        missing = "prompt" if found.prompt is None else "answer"
        return f"{rows}; which column is the {missing} is not clear."
    prompt = " + ".join(quote(c, 40)[1:-1] for c in found.prompt.columns)
    blockers = sum(f.severity == "blocker" for f in found.findings)
    flaws = f"; {count(blockers, 'flaw')} must be mended" if blockers else ""
    answer = quote(found.answer.path, 40)[1:-1]
    return f"{rows}; prompt is {prompt}, answer is {answer} in the form {found.answer.recognised.format}{flaws}."


def _next(found: Inspection, args: Args, passed: bool) -> tuple[Next, ...]:
    given = {k: v for k, v in args.model_dump(exclude_none=True).items() if k != "max_rows"}
    if passed:
        name = args.dataset.rstrip("/").split("/")[-1].split(".")[0].replace("-", "_").lower() or "my_env"
        return (Next("create_environment", "builds the environment from this dataset", {"name": name, **given}),)
    return (Next("inspect_dataset", "again, once the blockers are mended", given),)


TOOL = Tool(
    name="inspect_dataset",
    title="Inspect dataset",
    description="First step with a dataset: columns, prompt and answer guesses, answer format, flaws, fitting reward.",
    args=Args,
    run=run,
    effect="reads",
    records="dataset",
    open_world=True,
)
