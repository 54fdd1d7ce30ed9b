"""The template `numeric` fitted to an inspected dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.authoring.names import Names
from prime_lab_mcp.lab.authoring.rows import as_jsonl, split_rows
from prime_lab_mcp.lab.authoring.template import Fit, Value, instantiate
from prime_lab_mcp.lab.datasets.columns import AnswerGuess, PromptGuess
from prime_lab_mcp.lab.datasets.formats import NUMERIC
from prime_lab_mcp.lab.datasets.inspection import Inspection, plain_rows
from prime_lab_mcp.lab.datasets.source import HubDataset
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

FORMATS = NUMERIC
MENDED = frozenset({"duplicate-prompt", "leak-exact"})
"""Findings about files that need not be refused: the copied rows are free of them."""
_VERIFIERS = "verifiers>=0.4.0,<0.5"
_DATASETS = "datasets>=3.3,<6"
_ROWS, _HUB_ROWS = "numeric_template/rows.py", "numeric_template/hub_rows.py"
_DATA = ("numeric_template/data/train.jsonl", "numeric_template/data/eval.jsonl")


@dataclass(frozen=True, slots=True)
class Made:
    """`rows` are the tasks of each split where they are known."""

    rows: dict[str, int]
    findings: tuple[Finding, ...]


def build(template: Path, target: Path, names: Names, found: Inspection, task: str | None) -> Made:
    """Write the package into `target`. The inspection has a prompt and a numeric answer."""
    assert found.prompt is not None
    assert found.answer is not None
    told: dict[str, Value] = {"INSTRUCTION": task} if task else {}
    constants = {"numeric_template/taskset.py": told}
    description = f"Questions of {_one_line(found.table.id)} whose answer is a number."
    if isinstance(found.table.source, HubDataset):
        constants[_HUB_ROWS] = _hub_constants(found, found.prompt, found.answer)
        sections = {"Dataset": _hub_section(found)}
        fit = Fit(names, constants, sections, description, (_ROWS, *_DATA), {_HUB_ROWS: _ROWS}, (_VERIFIERS, _DATASETS))
        instantiate(template, target, fit)
        return Made({name: rows for name, rows in found.table.splits if rows is not None}, ())
    return _with_files(
        template, target, Fit(names, constants, {}, description, (_HUB_ROWS, *_DATA), {}, (_VERIFIERS,)), found
    )


def _with_files(template: Path, target: Path, fit: Fit, found: Inspection) -> Made:
    assert found.prompt is not None
    assert found.answer is not None
    for scanned in (found.table.main, found.table.held):
        if scanned is not None and len(scanned.rows) < scanned.scanned:
            raise BadInput(
                f"the split {quote(scanned.name, 60)} is too big to be packaged with an environment",
                fix="Put the dataset on the Hugging Face Hub and name it by owner/name, or use fewer rows.",
                code="dataset-too-big",
            )
    columns, path, format = found.prompt.columns, found.answer.path, found.answer.recognised.format
    held = plain_rows(found.table.held, columns, path, format) if found.table.held else None
    train, out, dropped = split_rows(plain_rows(found.table.main, columns, path, format), held, format)
    sections = {"Dataset": _files_section(found, fit.names, len(train), len(out))}
    instantiate(
        template, target, Fit(fit.names, fit.constants, sections, fit.description, fit.without, {}, fit.dependencies)
    )
    data = target / fit.names.module / "data"
    data.mkdir(parents=True, exist_ok=True)
    (data / "train.jsonl").write_text(as_jsonl(train), encoding="utf-8")
    (data / "eval.jsonl").write_text(as_jsonl(out), encoding="utf-8")
    return Made({"train": len(train), "eval": len(out)}, tuple(dropped.findings()))


def _hub_constants(found: Inspection, prompt: PromptGuess, answer: AnswerGuess) -> dict[str, Value]:
    table = found.table
    return {
        "DATASET": table.id,
        "CONFIG": table.config,
        "REVISION": table.revision or "",
        "TRAIN_SPLIT": table.main.name,
        "EVAL_SPLIT": table.held.name if table.held else None,
        "PROMPT_COLUMNS": prompt.columns,
        "ANSWER_COLUMN": answer.path,
    }


def _one_line(text: str) -> str:
    return quote(text, 120)[1:-1]


def _columns(found: Inspection) -> str:
    assert found.prompt is not None
    assert found.answer is not None
    prompt = " and ".join(f"`{_one_line(c)}`" for c in found.prompt.columns)
    return f"The question is {prompt}, the gold `{_one_line(found.answer.path)}` ({found.answer.recognised.format})."


def _hub_section(found: Inspection) -> str:
    table = found.table
    config = f", config `{_one_line(table.config)}`" if table.config else ""
    held = (
        f"`{_one_line(table.held.name)}`"
        if table.held
        else "a tenth of the same split, chosen by a hash of the question"
    )
    return (
        f"`{_one_line(table.id)}` on the Hugging Face Hub{config}, at commit `{table.revision}`.\n"
        f"Split `{_one_line(table.main.name)}` to train on; held out: {held}.\n{_columns(found)}"
    )


def _files_section(found: Inspection, names: Names, train: int, held: int) -> str:
    return (
        f"Made from `{_one_line(found.table.id)}` and packaged: {train:,} questions to train on in\n"
        f"`{names.module}/data/train.jsonl`, {held:,} held out in `{names.module}/data/eval.jsonl`.\n{_columns(found)}"
    )
