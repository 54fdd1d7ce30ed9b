"""Checks of a loaded environment: its rewards, its tasks, and the rows that it really yields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.datasets.findings import PlainRow
from prime_lab_mcp.lab.datasets.findings import examine as examine_rows
from prime_lab_mcp.lab.datasets.golds import as_text
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.gold import candidates, options_of, prompt_of, text_of
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.lab.worker.cases import Loaded, LoadFailed, Row, Rows

_ROW_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class Observed:
    """A loaded environment and a sample of its tasks."""

    loaded: Loaded
    sample: Rows

    @property
    def rows(self) -> Sequence[Row]:
        return self.sample.rows


Check = Callable[[Observed], Iterator[Finding]]


def examine(seen: Observed) -> list[Finding]:
    """Every finding about a loaded environment."""
    return [finding for check in ENVIRONMENT_CHECKS for finding in check(seen)]


def load_failed(error: LoadFailed) -> Finding:
    """What the environment raised while it was loaded, with the fix that its kind of error suggests."""
    return Finding(
        "environment-does-not-load",
        "blocker",
        f"loading raised {quote(f'{error.type}: {error.reason}', 400)}",
        _fix(error),
        error.where,
        rows=({"traceback": quote(error.traceback[-900:], 900)},) if error.traceback.strip() else (),
    )


def _fix(error: LoadFailed) -> str:
    missing = re.search(r"No module named '([\w.]+)'", error.reason)
    if error.type == "ModuleNotFoundError" and missing:
        name = missing[1].split(".")[0]
        return f"Add the distribution that provides {name} to [project] dependencies, then call check_environment."
    if error.type == "ImportError":
        return "The installed version lacks that name: correct the import or the version bound in pyproject.toml."
    if error.type == "FileNotFoundError":
        return "Package the file inside the module's folder and open it relative to __file__; the push takes only that."
    variable = error.type == "KeyError" and re.search(r"[A-Z]{3,}", error.reason)
    if variable or error.type in ("MissingKeyError", "OpenAIError"):
        return "Loading needs a variable: read it in the reward instead, or start the server with --allow-env NAME."
    if "__all__" in error.reason:
        return "Name exactly one Taskset subclass (and at most one Env) in the module's __all__."
    if error.type in (
        "ConnectionError",
        "LocalEntryNotFoundError",
        "OfflineModeIsEnabled",
        "HTTPError",
        "ConnectError",
    ):
        return "Loading needs the network: check it, or package a small sample of the data and use it by check_args."
    return "Mend the code that raises, then call check_environment."


def rewards(seen: Observed) -> Iterator[Finding]:
    """Without a reward there is nothing to learn."""
    paying = [r for r in seen.loaded.rewards if r.kind != "metric" and r.weight]
    if not paying:
        yield Finding(
            "no-reward", "blocker", "the environment has no reward with a weight other than 0",
            "Add a method with @vf.reward(weight=1.0) to the Task." if seen.loaded.api == "v1"
            else "Give the Rubric at least one function with a weight.",
        )  # fmt: skip
    if seen.loaded.api == "v1":
        plain = [r.name for r in seen.loaded.rewards if not r.is_async]
        if plain:
            yield Finding(
                "reward-sync", "blocker",
                f"{', '.join(quote(n, 60) for n in plain[:5])} is no async function; the whole task gets no scores",
                "Write `async def` for every @vf.reward and @vf.metric.",
            )  # fmt: skip
    total = sum(r.weight for r in paying if r.weight > 0)
    if paying and total <= 0:
        yield Finding(
            "no-reward", "blocker", "no reward has a positive weight, so nothing a model does is ever worth anything",
            "Give the reward for a right answer a positive weight.",
        )  # fmt: skip


def tasks(seen: Observed) -> Iterator[Finding]:
    """What a model is asked."""
    if not seen.rows:
        yield Finding(
            "no-tasks", "blocker", "the environment yields no task",
            "Make load() (v1) or the dataset (v0) yield at least one row.",
        )  # fmt: skip
        return
    silent = [
        row.index for row in seen.rows if not any(text_of(m).strip() for m in row.prompt if m.get("role") != "system")
    ]
    if silent:
        yield Finding(
            "empty-prompt", "blocker" if len(silent) > 0.01 * len(seen.rows) else "warning",
            f"{count(len(silent), 'task')} of {len(seen.rows):,} have an empty prompt (first: task {silent[0]})",
            "Fill the prompt from the column that holds the question, or drop these rows.",
        )  # fmt: skip
    heavy = [row.index for row in seen.rows if len(json.dumps(row.fields, default=str)) > _ROW_BYTES]
    if heavy:
        yield Finding(
            "task-too-big", "warning", f"{count(len(heavy), 'task')} carry over a megabyte (first: task {heavy[0]})",
            "Keep large data in files or in the runtime; every rollout ships the task's data.",
        )  # fmt: skip
    keys = {row.key for row in seen.rows}
    if len(keys) < len(seen.rows):
        yield Finding(
            "duplicate-task", "warning", f"{count(len(seen.rows) - len(keys), 'task')} of the sample repeat another",
            "Remove the repetitions; difficulty pools refuse tasks with equal keys.",
        )  # fmt: skip


def shadowed(seen: Observed) -> Iterator[Finding]:
    """vf-eval and training look among the built-in tasksets first."""
    if seen.loaded.shadowed_by:
        yield Finding(
            "name-shadowed", "blocker", f"{seen.loaded.shadowed_by} has the same name and would be loaded instead",
            "Choose another project and module name.", "pyproject.toml",
        )  # fmt: skip


def not_trainable(seen: Observed) -> Iterator[Finding]:
    """Only v1 can be trained today."""
    if seen.loaded.api == "v0":
        yield Finding(
            "v0-not-trainable", "info",
            "this is a v0 environment: it can be tested, evaluated and pushed, but the platform trains v1 only",
            "Port it with the prompt migrate_environment when it is to be trained.",
        )  # fmt: skip


def rows(seen: Observed) -> Iterator[Finding]:
    """The findings of inspect_dataset, applied to the rows that the environment really yields."""
    found = candidates(seen.rows)
    golds = {g.row: g for g in found[0].golds} if found else {}
    prompts = _distinct([prompt_of(row) for row in seen.rows])
    plain = [
        PlainRow(
            prompt=prompt,
            answer=as_text(golds[row.index].raw) if row.index in golds else None,
            index=row.index,
            raw=golds[row.index].raw if row.index in golds else None,
            offered=bool(options_of(row)),
        )
        for row, prompt in zip(seen.rows, prompts, strict=True)
    ]
    if plain:
        yield from examine_rows(plain, format=found[0].format if found else None, answered=bool(found))


def _distinct(prompts: list[str]) -> list[str]:
    """Prompts less the instructions that all have in common, which say how to answer and are no data."""
    if len(set(prompts)) < 3:
        return prompts
    head = _common(prompts)
    head = head[: head.rfind("\n") + 1]
    tail = _common([p[::-1] for p in prompts])[::-1]
    tail = tail[tail.find("\n") :] if "\n" in tail else ""
    return [p[len(head) : len(p) - len(tail)] if len(head) + len(tail) < len(p) else p for p in prompts]


def _common(texts: list[str]) -> str:
    low, high = min(texts), max(texts)
    same = next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:same]


ENVIRONMENT_CHECKS: tuple[Check, ...] = (rewards, tasks, shadowed, not_trainable, rows)
