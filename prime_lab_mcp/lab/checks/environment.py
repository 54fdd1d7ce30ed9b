"""Checks of a loaded environment: its rewards, its tasks, and the rows that it really yields."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.checks.package import Package
from prime_lab_mcp.lab.checks.rows import findings_of
from prime_lab_mcp.lab.checks.v0_traps import parser_missing
from prime_lab_mcp.lab.checks.v1_rules import excluded
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.rewards.gold import text_of
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.lab.worker.cases import Loaded, LoadFailed, Row, Rows, Traits

_ROW_BYTES = 1_000_000


_FORMAT = re.compile(r"format|tag|xml|style|length|parse", re.I)
_SANDBOXED = frozenset({"prime", "modal", "e2b"})
"""Runtimes that are rented by the hour elsewhere."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A loaded environment, a sample of its tasks, and of the tasks of its held-out split."""

    loaded: Loaded
    sample: Rows
    traits: Traits = field(default_factory=Traits)
    held_out: Rows | None = None

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


def needs_key() -> Finding:
    """It loaded with a key for an endpoint that is not there."""
    return Finding(
        "judge-needs-key",
        "warning",
        "loading makes an openai client, which needs OPENAI_API_KEY; it was loaded with a key that is none",
        "Make the client where the judge is asked; test_reward(judge=ENDPOINT) and run_eval give it a way to one.",
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


def weights(seen: Observed) -> Iterator[Finding]:
    """A format that pays well is learned instead of the task (seed: correctness at least 0.7, format 0.1 to 0.3)."""
    paying = [r for r in seen.loaded.rewards if r.kind != "metric" and r.weight > 0]
    form = [r for r in paying if _FORMAT.search(r.name)]
    share = sum(r.weight for r in form) / sum(r.weight for r in paying) if paying else 0.0
    if len(form) < len(paying) and share > 0.3:
        yield Finding(
            "reward-weights", "info",
            f"by their names, {', '.join(quote(r.name, 60) for r in form[:3])} pay for form, {share:.0%} of the total",
            "Give the right answer at least 0.7 of the sum of weights; test_reward measures what form alone earns.",
        )  # fmt: skip


def wire(seen: Observed) -> Iterator[Finding]:
    """Training ships a task as JSON and rebuilds it from the classes that the taskset declares (v1)."""
    traits = seen.traits
    for name in traits.excluded[:3]:
        yield excluded("the task data", name)
    if traits.other_tasks:
        shown = ", ".join(quote(name, 60) for name in traits.other_tasks[:3])
        yield Finding(
            "task-type", "blocker",
            f"load() yields {shown}, the taskset declares {quote(traits.declared_task, 60)}, which training rebuilds",
            "Write class YOURTaskset(vf.Taskset[YOURTask, YOURConfig]) with the one Task that load() yields.",
        )  # fmt: skip
    if traits.lossy_total and not traits.excluded:
        fields = ", ".join(dict.fromkeys(quote(x.field, 60) for x in traits.lossy if x.field))
        where = f" (field {fields})" if fields else ""
        yield Finding(
            "task-not-serialisable", "blocker",
            f"{count(traits.lossy_total, 'task')} of {traits.tried:,} do not come back equal from JSON{where}; "
            "training sends tasks that way",
            "Declare fields of JSON's types (str, int, float, bool, list, dict, nested models) in the data class "
            "that the Task names.",
            rows=tuple({"row": x.row, "field": x.field, "why": quote(x.why, 200)} for x in traits.lossy),
        )  # fmt: skip


def endless(seen: Observed) -> Iterator[Finding]:
    """What needs an end of the tasks refuses an infinite taskset."""
    if seen.loaded.infinite:
        yield Finding(
            "infinite-taskset", "info", "the taskset is infinite: shuffling and difficulty pools need a bounded one",
            "Pass -n to vf-eval; for a difficulty pool, load a fixed number of tasks from a seed.",
        )  # fmt: skip
    elif seen.loaded.api == "v1" and seen.loaded.tasks is None:
        yield Finding(
            "infinite-taskset", "warning", "load() went on after 200,000 tasks or 20 seconds, and INFINITE is not set",
            "Set INFINITE = True on the Taskset, or end load(); otherwise a run that counts tasks never starts.",
        )  # fmt: skip


def roles(seen: Observed) -> Iterator[Finding]:
    """Without an Env of its own, a run without flags uses the harness bash and a rented sandbox."""
    rented = [r for r in seen.traits.roles or () if r.runtime in _SANDBOXED]
    if rented:
        yield Finding(
            "default-runtime", "info",
            f"a run that names no harness and runtime gets {quote(rented[0].harness, 40)} in the paid sandbox "
            f"{quote(rented[0].runtime, 40)}",
            "Export an Env whose agent defaults to the harness null and SubprocessConfig (lab://guide/environments), "
            "unless the task needs the sandbox; run_eval names both by itself.",
        )  # fmt: skip


def parsers(seen: Observed) -> Iterator[Finding]:
    """What a v0 rubric really hands to its functions."""
    uses = seen.traits.parsers
    plain = [u for u in uses if u.given == "Parser" and u.environment not in ("Parser", "NoneType")]
    if plain:
        yield parser_missing([u.function for u in plain], None, plain[0].environment)


def system_messages(seen: Observed) -> Iterator[Finding]:
    """Two system messages are one too many for most chat templates."""
    twice = [row.index for row in seen.rows if sum(m.get("role") == "system" for m in row.prompt) > 1]
    if twice:
        yield Finding(
            "prompt-columns", "warning",
            f"{count(len(twice), 'task')} of {len(seen.rows):,} have two system messages (first: task {twice[0]})",
            "Leave the system message to system_prompt, or the rows' own and no system_prompt.",
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
    yield from findings_of(seen.rows, seen.held_out.rows if seen.held_out is not None else ())


def described(package: Package, seen: Observed) -> Iterator[Finding]:
    """A README that breaks the reward down names its parts."""
    named = [r.name for r in seen.loaded.rewards if r.kind != "metric" and r.weight]
    text = (package.readme or "").casefold()
    missing = [n for n in named if n.casefold() not in text and n.replace("_", " ").casefold() not in text]
    if package.readme is not None and len(named) > 1 and missing:
        yield Finding(
            "readme-rewards", "info", f"README.md does not mention {', '.join(quote(n, 60) for n in missing[:4])}",
            "Break the reward down: each name, its weight, and when it pays.", "README.md",
        )  # fmt: skip


ENVIRONMENT_CHECKS: tuple[Check, ...] = (
    rewards, weights, tasks, wire, endless, roles, parsers, system_messages, shadowed, not_trainable, rows,
)  # fmt: skip
