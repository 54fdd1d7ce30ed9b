"""Builds an environment package from a template and an inspected dataset: constants, README, packaged or pinned rows.

A new environment appears as a whole or not at all: it is built in a temporary folder and then moved to its place.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from prime_lab_mcp.lab.authoring.assembly import Template
from prime_lab_mcp.lab.authoring.dropped_rows import DroppedRows, RowColumns
from prime_lab_mcp.lab.authoring.naming import PackageNames, rename_text
from prime_lab_mcp.lab.authoring.rows import (
    as_jsonl,
    selecting_example,
    split_rows,
    template_row_reader,
    with_metadata,
)
from prime_lab_mcp.lab.authoring.sentences import fitting_template, sentence_answers
from prime_lab_mcp.lab.authoring.template import (
    ConstantValue,
    EnvironmentKind,
    TemplateChanges,
    instantiate_template,
    section_of,
    template_requirements,
)
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.syntax import parse_python
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets.column_choice import metadata_columns
from prime_lab_mcp.lab.datasets.golds import normalised_text
from prime_lab_mcp.lab.datasets.inspection import Inspection
from prime_lab_mcp.lab.datasets.scan import ScannedSplit


@contextmanager
def build_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder. It is renamed to `target` if the block succeeds, and removed if the block fails.

    Raises BadInput (`environment-exists`) if `target` exists by then.
    """
    parent = target.parent
    new = not parent.exists()
    parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=parent, prefix=".creating-"))
    try:
        inside = scratch / target.name
        inside.mkdir()
        yield inside
        try:
            if target.exists():
                raise FileExistsError(target)
            os.rename(inside, target)
        except OSError as error:
            raise BadInput(
                f"environments/{target.name} could not be put in place: {error.strerror or 'it exists now'}",
                fix=Fix("Call ", NamedCall("create_environment"), " again with another name."),
                code="environment-exists",
            ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if new and not any(parent.iterdir()):
            parent.rmdir()


MENDED_CODES = frozenset({"duplicate-prompt", "leak-exact", "empty-gold", "gold-unparseable"})
"""Codes of dataset findings that do not prevent a build, because the rows with the fault are left out."""
_ROW_FILES = ("data/train.jsonl", "data/eval.jsonl")
_DATASETS_IMPORT = re.compile(r"(?m)^\s*(?:from|import) datasets\b")


@dataclass(frozen=True, slots=True)
class BuiltEnvironment:
    """A new environment. `rows` has the number of tasks of each split, if known. A blocker means that nothing was
    written."""

    rows: Mapping[str, int]
    findings: tuple[Finding, ...]
    metadata: tuple[str, ...] = ()
    """Further columns of the dataset that the tasks carry as metadata."""
    example: Mapping[str, Any] | None = None
    """A `where` that selects some of the tasks by such a column; None if no column groups them."""
    fitting: str | None = None
    """The template that a blocker names instead of the one that does not fit."""
    left_out: str = ""
    """A sentence about the rows that were left out, if they are a quarter or more."""


def build_environment(
    kind: EnvironmentKind,
    target: Path,
    names: PackageNames,
    inspection: Inspection,
    task: str | None,
    labels: Sequence[str],
    third: ScannedSplit | None = None,
) -> BuiltEnvironment:
    """Write the package into `target`. The inspection must have a prompt, and an answer if the format has one.

    `third` is a split that becomes the environment's split `test`. Its questions are removed from the other splits.
    """
    constants = _constants(inspection, task, labels) | {"TEST_SPLIT": third.name if third else None}
    _refuse_too_big(inspection)
    table = inspection.table
    columns = metadata_columns(table.main.rows, _columns_in_use(inspection))
    constants["METADATA_COLUMNS"] = columns
    read = with_metadata(template_row_reader(kind.answers or kind.base, constants), columns)
    held_out = table.held_out.rows if table.held_out else None
    dropped = _no_rows_dropped(kind, inspection)
    train, out, dropped = split_rows(table.main.rows, held_out, read, inspection.format or "", dropped)
    tests = split_rows(third.rows, (), read)[0] if third is not None else []
    test_questions = {normalised_text(row["question"]) for row in tests}
    train, out = (
        [row for row in rows if normalised_text(row["question"]) not in test_questions] for rows in (train, out)
    )
    findings = tuple(dropped.findings())
    if dropped.hopeless or not train:
        return BuiltEnvironment({}, findings or (_no_rows_finding(dropped),))
    fitting = fitting_template(kind.name, inspection.format)
    if (sentences := sentence_answers(kind.name, train, fitting)) is not None:
        return BuiltEnvironment({}, (*findings, sentences), fitting=fitting)
    packaged = table.origin == "files"
    changes = TemplateChanges(names, constants, description=f"Tasks made of {_one_line(table.id)}.")
    dataset = _files_section(inspection, names, len(train), len(out)) if packaged else _hub_section(inspection)
    if third is not None:
        dataset += f"\nSplit `{_one_line(third.name)}` is the environment's third split, `test`."
    example = selecting_example(train, columns) if columns else None
    dataset += _metadata_section(columns, kind, example)
    _write(kind, target, changes, dataset, packaged=packaged)
    if packaged:
        packed = {"train": train, "eval": out} | ({"test": tests} if third is not None else {})
        _write_rows(target / names.module / "data", **{split: as_jsonl(rows) for split, rows in packed.items()})
        numbers = {split: len(rows) for split, rows in packed.items()}
    else:
        numbers = {name: rows for name, rows in table.splits if rows is not None}
    return BuiltEnvironment(numbers, findings, columns, example, left_out=dropped.summary())


def _no_rows_dropped(kind: EnvironmentKind, inspection: Inspection) -> DroppedRows:
    """The count of dropped rows before a row is read."""
    columns = inspection.prompt.columns if inspection.prompt else ()
    answer = inspection.answer.path if inspection.answer else ""
    boxed = kind.name == "math" and inspection.format == "boxed"
    return DroppedRows("boxed" if boxed else kind.name, RowColumns(columns, answer))


def build_sample(kind: EnvironmentKind, target: Path, names: PackageNames, task: str | None) -> BuiltEnvironment:
    """Write the template with its sample rows or its task generator. The author replaces these with real tasks."""
    if kind.generates:
        return _build_generator(kind, target, names, task)
    section = f"Made-up examples in `{names.module}/data/`, to be replaced by real rows of the same shape."
    constants: dict[str, ConstantValue] = {"INSTRUCTION": task} if task else {}
    _write(kind, target, TemplateChanges(names, constants), section, packaged=True)
    rows = kind.answers or kind.base
    texts = {split: rows.text(f"{rows.names.module}/data/{split}.jsonl") for split in ("train", "eval")}
    _write_rows(target / names.module / "data", **texts)
    finding = Finding(
        "sample-rows",
        "warning",
        "no dataset was given: the environment holds the template's made-up examples",
        f"Replace the lines of {names.module}/data/train.jsonl and eval.jsonl by your own of the same shape.",
    )
    return BuiltEnvironment({split: text.count("\n") for split, text in texts.items()}, (finding,))


def _build_generator(kind: EnvironmentKind, target: Path, names: PackageNames, task: str | None) -> BuiltEnvironment:
    section = rename_text(section_of(kind.base.text("README.md"), "Dataset"), kind.base.names, names)
    constants: dict[str, ConstantValue] = {"INSTRUCTION": task} if task else {}
    _write(kind, target, TemplateChanges(names, constants), section, packaged=True)
    finding = Finding(
        "sample-rows",
        "warning",
        "the environment makes the template's own tasks, not the user's",
        f"Replace what {names.module}/generator.py makes with edit_environment, and describe it in README.md.",
    )
    return BuiltEnvironment({}, (finding,))


def _columns_in_use(inspection: Inspection) -> set[str]:
    """The names of the columns that hold question, answer or options; for a nested column, also its top-level name."""
    answer = (inspection.answer.path,) if inspection.answer else ()
    paths = (*(inspection.prompt.columns if inspection.prompt else ()), *answer, *inspection.option_columns)
    return {name for path in paths for name in (path, path.partition(".")[0])}


def _constants(inspection: Inspection, task: str | None, labels: Sequence[str]) -> dict[str, ConstantValue]:
    table, answer = inspection.table, inspection.answer
    constants: dict[str, ConstantValue] = {
        "DATASET": table.id,
        "CONFIG": table.config,
        "REVISION": table.revision or "",
        "TRAIN_SPLIT": table.main.name,
        "EVAL_SPLIT": table.held_out.name if table.held_out else None,
        "PROMPT_COLUMNS": inspection.prompt.columns if inspection.prompt else (),
        "ANSWER_COLUMN": answer.path if answer else "",
        "OPTION_COLUMNS": inspection.option_columns,
        "INDEX_BASE": inspection.index_base,
        "LABELS": tuple(labels) or inspection.labels,
        "ANY_OF": inspection.any_of is not False,
        "IN_A_BOX": inspection.format == "boxed",
    }
    return constants | ({"INSTRUCTION": task} if task else {})


# --- files -----------------------------------------------------------------------------------------------------------


def _write(kind: EnvironmentKind, target: Path, changes: TemplateChanges, dataset: str, *, packaged: bool) -> None:
    """Write the files of the base template. If the kind has `answers`, the answer modules come from that template."""
    base = kind.base
    files, answer_files = _template_files(base, packaged), []
    sections = {"Dataset": dataset}
    if kind.answers is not None:
        files = [f for f in files if f not in _answer_modules(base)]
        answer_files = [f for f in _template_files(kind.answers, packaged) if f in _answer_modules(kind.answers)]
        form = section_of(kind.answers.text("README.md"), "Input and output")
        sections["Input and output"] = rename_text(form, kind.answers.names, changes.names)
    needs_datasets = any(
        _imports_datasets(file, template.text(file))
        for template, names in ((base, files), (kind.answers or base, answer_files))
        for file in names
    )
    changes = replace(
        changes,
        sections=sections,
        instead={} if packaged else {f"{base.names.module}/hub_rows.py": f"{base.names.module}/rows.py"},
        more_requirements=_more_requirements(kind),
        drop_requirements=frozenset() if needs_datasets else frozenset({"datasets"}),
    )
    instantiate_template(base, target, changes, only=files)
    if kind.answers is not None:
        instantiate_template(kind.answers, target, changes, only=answer_files)


def _template_files(template: Template, packaged: bool) -> list[str]:
    """The template files that the package needs. `packaged` means that its rows are packaged, not loaded from
    the Hub."""
    module = template.names.module
    unneeded = {f"{module}/{name}" for name in (*_ROW_FILES, *(() if packaged else ("rows.py",)))}
    if packaged:
        unneeded |= {f"{module}/{name}.py" for name in _only_for_raw_rows(template)}
    return [f for f in template.sources if f not in unneeded]


def _only_for_raw_rows(template: Template) -> set[str]:
    """Names of the modules that serve only to read raw rows, including the reader itself."""
    module = template.names.module
    files = [path for path in template.sources if path.startswith(f"{module}/") and path.endswith(".py")]
    imports = {Path(path).stem: _siblings(template.text(path), module) for path in files}
    reading = _reachable({"hub_rows"}, imports)
    return reading - _reachable(imports.keys() - reading, imports)


def _siblings(source: str, package: str) -> set[str]:
    """Modules of the same package that a file imports."""
    names = set()
    for node in ast.walk(parse_python(source)):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{package}."):
            names.add(node.module.split(".")[1])
    return names


def _reachable(start: Set[str], imports: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    ahead = set(start)
    while ahead:
        reached |= ahead
        ahead = {other for name in ahead for other in imports.get(name, ()) if other in imports} - reached
    return reached


def _answer_modules(template: Template) -> list[str]:
    """Modules that do not import verifiers: those that read rows and compare answers."""
    module = template.names.module
    outer = {f"{module}/{name}" for name in ("__init__.py", "rows.py", "hub_rows.py")}
    pure = [f for f in template.sources if f.endswith(".py") and f not in outer]
    return [f for f in pure if "import verifiers" not in template.text(f)]


def _imports_datasets(path: str, text: str) -> bool:
    """Whether the file is a module that imports the package `datasets`."""
    return path.endswith(".py") and _DATASETS_IMPORT.search(text) is not None


def _more_requirements(kind: EnvironmentKind) -> tuple[str, ...]:
    if kind.answers is None:
        return ()
    return tuple(r for r in template_requirements(kind.answers) if Requirement(r).name not in ("verifiers", "datasets"))


def _write_rows(folder: Path, **texts: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, text in texts.items():
        (folder / f"{split}.jsonl").write_text(text, encoding="utf-8")


def _refuse_too_big(inspection: Inspection) -> None:
    for scanned in (inspection.table.main, inspection.table.held_out):
        if inspection.table.origin == "files" and scanned is not None and len(scanned.rows) < scanned.scanned:
            raise BadInput(
                f"the split {quote(scanned.name, 60)} is too big to be packaged with an environment",
                fix="Put the dataset on the Hugging Face Hub and name it by owner/name, or use fewer rows.",
                code="dataset-too-big",
            )


# --- README ----------------------------------------------------------------------------------------------------------


def _one_line(text: str) -> str:
    return quote(text, 120)[1:-1]


def _columns(inspection: Inspection) -> str:
    prompt = " and ".join(f"`{_one_line(c)}`" for c in (inspection.prompt.columns if inspection.prompt else ()))
    if inspection.answer is None:
        return f"The question is {prompt}."
    gold = f"`{_one_line(inspection.answer.path)}` ({inspection.answer.recognised.format})"
    return f"The question is {prompt}, the gold {gold}."


def _metadata_section(columns: Sequence[str], kind: EnvironmentKind, example: Mapping[str, Any] | None) -> str:
    if not columns:
        return ""
    listed = ", ".join(f"`{_one_line(name)}`" for name in columns)
    argument = "the config's `where`" if kind.api == "v1" else "`load_environment(where=...)`"
    [(name, values)] = (example or {columns[0]: ...}).items()
    selected = "[...]" if values is ... else json.dumps(values, ensure_ascii=False)
    return (
        f"\nTasks carry {listed} as metadata; {argument} selects by them, for example\n"
        f"`where = {{ {json.dumps(name)} = {selected} }}`."
    )


def _hub_section(inspection: Inspection) -> str:
    table = inspection.table
    config = f", config `{_one_line(table.config)}`" if table.config else ""
    held_out = (
        f"`{_one_line(table.held_out.name)}`"
        if table.held_out
        else "a tenth of the same split, chosen by a hash of the question"
    )
    return (
        f"`{_one_line(table.id)}` on the Hugging Face Hub{config}, at commit `{table.revision}`.\n"
        f"Split `{_one_line(table.main.name)}` to train on; held out: {held_out}.\n{_columns(inspection)}"
    )


def _files_section(inspection: Inspection, names: PackageNames, train: int, held_out: int) -> str:
    return (
        f"Made from `{_one_line(inspection.table.id)}` and packaged: {train:,} questions to train on in\n"
        f"`{names.module}/data/train.jsonl`, {held_out:,} held out in `{names.module}/data/eval.jsonl`.\n"
        f"{_columns(inspection)}"
    )


def _no_rows_finding(dropped: DroppedRows) -> Finding:
    return Finding(
        "no-rows",
        "blocker",
        f"none of the {dropped.of:,} rows is left for training: {dropped.number('leaked'):,} are held out "
        f"too, {dropped.number('conflicting'):,} contradict another, {dropped.unread:,} cannot be read.",
        "Name another split or mend the dataset.",
    )
