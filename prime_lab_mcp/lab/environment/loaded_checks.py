"""Checks of a loaded environment: its rewards, its tasks, and its rows (task_findings.py)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, run_checks
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets.task_golds import (
    message_text,
)
from prime_lab_mcp.lab.environment.package import EnvironmentPackage
from prime_lab_mcp.lab.environment.task_findings import task_findings
from prime_lab_mcp.lab.environment.v0_rules import parser_missing
from prime_lab_mcp.lab.environment.v1_rules import excluded_field_finding
from prime_lab_mcp.lab.rollouts.components import is_about_form
from prime_lab_mcp.lab.worker.description import Loaded, Row, Rows, Traits
from prime_lab_mcp.lab.worker.faults import GET_THE_DATA, LoadFailed

_ROW_BYTES = 1_000_000
"""Most characters of a task's data as JSON. Every rollout sends the data."""


_SANDBOXED = frozenset({"prime", "modal", "e2b"})
"""Runtimes that cost money by the hour."""


@dataclass(frozen=True, slots=True)
class LoadedObservations:
    """A loaded environment, a sample of its tasks, and a sample of the tasks of its held-out split."""

    loaded: Loaded
    sample: Rows
    traits: Traits = field(default_factory=Traits)
    held_out: Rows | None = None

    @property
    def rows(self) -> Sequence[Row]:
        return self.sample.rows

    @property
    def tasks(self) -> int | None:
        """The number of tasks; None if neither loading nor sampling reached the end of them."""
        return self.loaded.tasks if self.loaded.tasks is not None else self.sample.total


LoadedCheck = Callable[[LoadedObservations], Iterator[Finding]]


def loaded_findings(observations: LoadedObservations) -> list[Finding]:
    """Run all checks of a loaded environment and return their findings."""
    return run_checks(ENVIRONMENT_CHECKS, observations)


def load_failed_finding(error: LoadFailed) -> Finding:
    """Return the finding for an error that the environment raised while loading, with a fix for this kind of error.

    If data or a host could not be reached, the code is `data-unreachable`, and there is no verdict on the environment.
    """
    raised = f"loading raised {quote(f'{error.type}: {error.reason}', 400)}"
    return Finding(
        "data-unreachable" if error.unreachable else "environment-does-not-load",
        "blocker",
        f"data or a host that loading needs could not be reached: {raised}" if error.unreachable else raised,
        GET_THE_DATA if error.unreachable else _fix(error),
        error.where,
        rows=({"traceback": quote(error.traceback[-900:], 900)},) if error.traceback.strip() else (),
    )


def needs_key_finding() -> Finding:
    """Return the finding for an environment that loads only if OPENAI_API_KEY is set."""
    return Finding(
        "judge-needs-key",
        "warning",
        "loading makes an openai client, which needs OPENAI_API_KEY; a made-up key was set for the load",
        "Make the client where the judge is asked; test_reward(judge=ENDPOINT) and run_eval give it a way to one.",
    )


def _fix(error: LoadFailed) -> str:
    missing = re.search(r"No module named '([\w.]+)'", error.reason)
    if error.type == "ModuleNotFoundError" and missing:
        name = missing[1].split(".")[0]
        return Fix(
            f"Add the distribution that provides {name} to [project] dependencies, then call ",
            NamedCall("check_environment"),
            ".",
        )
    if error.type == "ImportError":
        return "The installed version lacks that name: correct the import or the version bound in pyproject.toml."
    if error.type == "FileNotFoundError":
        return "Package the file inside the module's folder and open it relative to __file__; the push takes only that."
    variable = error.type == "KeyError" and re.search(r"[A-Z]{3,}", error.reason)
    if variable or error.type in ("MissingKeyError", "OpenAIError"):
        return "Loading needs a variable: read it in the reward instead, or start the server with --allow-env NAME."
    if "__all__" in error.reason:
        return "Name exactly one Taskset subclass (and at most one Env) in the module's __all__."
    return Fix("Mend the code that raises, then call ", NamedCall("check_environment"), ".")


def reward_checks(observations: LoadedObservations) -> Iterator[Finding]:
    """Check that the environment has a reward with a positive weight, and that v1 rewards are async."""
    paying = [r for r in observations.loaded.rewards if r.kind != "metric" and r.weight]
    if not paying and observations.loaded.own_run:
        yield Finding(
            "no-reward",
            "warning",
            "no reward is declared on the task; the environment's own Env may record rewards while a rollout runs",
            "Nothing to do where the Env calls trace.record_reward: run_eval shows what it pays. Otherwise "
            "add a method with @vf.reward(weight=1.0) to the Task.",
        )
    elif not paying:
        yield Finding(
            "no-reward",
            "blocker",
            "the environment has no reward with a weight other than 0",
            "Add a method with @vf.reward(weight=1.0) to the Task."
            if observations.loaded.api == "v1"
            else "Give the Rubric at least one function with a weight.",
        )
    if observations.loaded.api == "v1":
        not_async = [r.name for r in observations.loaded.rewards if not r.is_async]
        if not_async:
            yield Finding(
                "reward-sync",
                "blocker",
                f"{', '.join(quote(n, 60) for n in not_async[:5])} is no async function; the whole task gets no scores",
                "Write `async def` for every @vf.reward and @vf.metric.",
            )
    total = sum(r.weight for r in paying if r.weight > 0)
    if paying and total <= 0:
        yield Finding(
            "no-reward",
            "blocker",
            "no reward has a positive weight, so nothing a model does is ever worth anything",
            "Give the reward for a right answer a positive weight.",
        )


def task_checks(observations: LoadedObservations) -> Iterator[Finding]:
    """Check that there are tasks, and that none is empty, too large or a repetition."""
    if not observations.rows:
        yield Finding(
            "no-tasks",
            "blocker",
            "the environment yields no task",
            "Make load() (v1) or the dataset (v0) yield at least one row.",
        )
        return
    empty = [
        row.index
        for row in observations.rows
        if not any(message_text(m).strip() for m in row.prompt if m.get("role") != "system")
    ]
    if empty and not observations.loaded.own_run:  # Such an Env writes the prompts itself.
        yield Finding(
            "empty-prompt",
            "blocker" if len(empty) > 0.01 * len(observations.rows) else "warning",
            f"{count(len(empty), 'task')} of {len(observations.rows):,} have an empty prompt (first: task {empty[0]})",
            "Fill the prompt from the column that holds the question, or drop these rows.",
        )
    heavy = [row.index for row in observations.rows if len(json.dumps(row.fields, default=str)) > _ROW_BYTES]
    if heavy:
        yield Finding(
            "task-too-big",
            "warning",
            f"{count(len(heavy), 'task')} carry over a megabyte (first: task {heavy[0]})",
            "Keep large data in files or in the runtime; every rollout ships the task's data.",
        )
    keys = {row.key for row in observations.rows}
    if len(keys) < len(observations.rows):
        yield Finding(
            "duplicate-task",
            "warning",
            f"{count(len(observations.rows) - len(keys), 'task')} of the sample repeat another",
            "Remove the repetitions; difficulty pools refuse tasks with equal keys.",
        )


def generator_checks(observations: LoadedObservations) -> Iterator[Finding]:
    """Check that equal arguments give equal tasks, and that the arguments for seed and level change the tasks."""
    ignored = []
    for effect in observations.traits.generator:
        if effect.values[0] == effect.values[1] and not effect.same:
            yield Finding(
                "tasks-change",
                "blocker",
                "two loads with the same arguments give different tasks: "
                + ("its seed does not decide them" if effect.argument else "chance, a clock or an order decides them"),
                "Draw everything from one random.Random made from the arguments; use no clock, hash() or set order.",
            )
            return
        if effect.values[0] != effect.values[1] and effect.same:
            ignored.append(effect)
    for effect in ignored:
        one, other = (quote(value, 40) for value in effect.values)
        if effect.marked:
            yield Finding(
                "argument-ignored",
                "info",
                f"with {effect.argument}={one} and {effect.argument}={other} the prompts agree: the tasks differ only "
                f"in data that name the {effect.argument}",
                "Leave it so if a rollout reads these data, such as the strength of an opponent; else let the "
                "generator use the argument.",
            )
            continue
        yield Finding(
            "argument-ignored",
            "warning",
            f"{effect.argument}={one} and {effect.argument}={other} give the same tasks",
            "Let the generator use the argument, or remove it; levels that do not differ cannot make training easier.",
        )


def weight_checks(observations: LoadedObservations) -> Iterator[Finding]:
    """Check the weights of rewards for format. A model learns the format instead of the task if its weight is high.

    Correctness should have at least 0.7 of the total weight, and format 0.1 to 0.3.
    """
    paying = [r for r in observations.loaded.rewards if r.kind != "metric" and r.weight > 0]
    form = [r for r in paying if is_about_form(r.name)]
    share = sum(r.weight for r in form) / sum(r.weight for r in paying) if paying else 0.0
    if len(form) < len(paying) and share > 0.3:
        yield Finding(
            "reward-weights",
            "info",
            f"by their names, {', '.join(quote(r.name, 60) for r in form[:3])} pay for form, {share:.0%} of the total",
            "Give the right answer at least 0.7 of the sum of weights; test_reward measures what form alone earns.",
        )


def serialisation(observations: LoadedObservations) -> Iterator[Finding]:
    """Check that tasks survive serialisation.

    Training sends a task as JSON and rebuilds it from the declared classes.
    """
    traits = observations.traits
    for name in traits.excluded[:3]:
        yield excluded_field_finding("the task data", name)
    if traits.other_tasks:
        listed = ", ".join(quote(name, 60) for name in traits.other_tasks[:3])
        yield Finding(
            "task-type",
            "blocker",
            f"load() yields {listed}, the taskset declares {quote(traits.declared_task, 60)}, which training rebuilds",
            "Write class YOURTaskset(vf.Taskset[YOURTask, YOURConfig]) with the one Task that load() yields.",
        )
    if traits.lossy_total and not traits.excluded:
        fields = ", ".join(dict.fromkeys(quote(x.field, 60) for x in traits.lossy if x.field))
        where = f" (field {fields})" if fields else ""
        yield Finding(
            "task-not-serialisable",
            "blocker",
            f"{count(traits.lossy_total, 'task')} of {traits.tried:,} do not come back equal from JSON{where}; "
            "training sends tasks that way",
            "Declare fields of JSON's types (str, int, float, bool, list, dict, nested models) in the data class "
            "that the Task names.",
            rows=tuple({"row": x.row, "field": x.field, "why": quote(x.why, 200)} for x in traits.lossy),
        )


def infinite_taskset(observations: LoadedObservations) -> Iterator[Finding]:
    """Report an infinite taskset, and a v1 taskset that is too large to count but does not declare itself infinite."""
    if observations.loaded.infinite:
        yield Finding(
            "infinite-taskset",
            "warning",
            f"the taskset is infinite: checks and evaluations see its first tasks only ("
            f"{count(len(observations.rows), 'task')} here), test_reward some later ones too, and training goes on to "
            "others; shuffling and difficulty pools need a bounded one",
            "Load a fixed number of tasks from a seed, so that all of them can be tried.",
        )
    elif observations.loaded.api == "v1" and observations.tasks is None:
        yield Finding(
            "infinite-taskset",
            "warning",
            f"load() had not ended after 200,000 tasks or 20 seconds of processor time (30 on the clock), with "
            f"{count(len(observations.rows), 'task')} or more, and INFINITE is not set: whether it ends is not known",
            "If load() never ends, set INFINITE = True on the Taskset or end it; otherwise a run that counts tasks "
            "never starts. If it ends, make it faster, for example with tasks that a file of the package stores.",
        )


def paid_runtimes(observations: LoadedObservations) -> Iterator[Finding]:
    """Report agents that run in a paid sandbox by default."""
    rented = [r for r in observations.traits.roles or () if r.runtime in _SANDBOXED]
    if rented and observations.loaded.container:
        yield Finding(
            "default-runtime",
            "info",
            f"its tasks need a container: each rollout of a run rents a sandbox ({quote(rented[0].runtime, 40)})",
            "Leave it so, and tell the user that sandboxes cost extra; here, run_eval with runtime=podman rents none.",
        )
    elif rented:
        yield Finding(
            "default-runtime",
            "info",
            f"a run that names no harness and runtime gets {quote(rented[0].harness, 40)} in the paid sandbox "
            f"{quote(rented[0].runtime, 40)}",
            "Export an Env whose agent defaults to the harness null and SubprocessConfig (lab://guide/environments), "
            "unless the task needs the sandbox; run_eval names both by itself.",
        )


def default_parsers(observations: LoadedObservations) -> Iterator[Finding]:
    """Report v0 reward functions that get the default parser although the environment has another parser."""
    uses = observations.traits.parsers
    with_default = [u for u in uses if u.given == "Parser" and u.environment not in ("Parser", "NoneType")]
    if with_default:
        yield parser_missing([u.function for u in with_default], None, with_default[0].environment)


def system_messages(observations: LoadedObservations) -> Iterator[Finding]:
    """Warn about tasks with two system messages. Most chat templates accept only one."""
    twice = [row.index for row in observations.rows if sum(m.get("role") == "system" for m in row.prompt) > 1]
    if twice:
        yield Finding(
            "prompt-columns",
            "warning",
            f"{count(len(twice), 'task')} of {len(observations.rows):,} have two system messages "
            f"(first: task {twice[0]})",
            "Leave the system message to system_prompt, or the rows' own and no system_prompt.",
        )


def shadowed_name(observations: LoadedObservations) -> Iterator[Finding]:
    """Report a name of a built-in taskset of verifiers. vf-eval and training would load the built-in taskset."""
    if observations.loaded.shadowed_by:
        yield Finding(
            "name-shadowed",
            "blocker",
            f"{observations.loaded.shadowed_by} has the same name and would be loaded instead",
            "Choose another project and module name.",
            "pyproject.toml",
        )


def not_trainable(observations: LoadedObservations) -> Iterator[Finding]:
    """Report that the platform cannot train a v0 environment."""
    if observations.loaded.api == "v0":
        yield Finding(
            "v0-not-trainable",
            "info",
            "this is a v0 environment: it can be tested, evaluated and pushed, but the platform trains v1 only",
            "Port it with the prompt migrate_environment when it is to be trained.",
        )


def row_checks(observations: LoadedObservations) -> Iterator[Finding]:
    """Run the checks of `inspect_dataset` on the rows of the environment."""
    held_out = observations.held_out.rows if observations.held_out is not None else ()
    loaded = observations.loaded
    yield from task_findings(observations.rows, held_out, stateful=loaded.turns or loaded.own_run)


def rewards_in_readme(package: EnvironmentPackage, observations: LoadedObservations) -> Iterator[Finding]:
    """Report reward functions that the README does not mention, if there are several."""
    names = [r.name for r in observations.loaded.rewards if r.kind != "metric" and r.weight]
    text = (package.readme or "").casefold()
    missing = [n for n in names if n.casefold() not in text and n.replace("_", " ").casefold() not in text]
    if package.readme is not None and len(names) > 1 and missing:
        yield Finding(
            "readme-rewards",
            "info",
            f"README.md does not mention {', '.join(quote(n, 60) for n in missing[:4])}",
            "Break the reward down: each name, its weight, and when it pays.",
            "README.md",
        )


ENVIRONMENT_CHECKS: tuple[LoadedCheck, ...] = (
    reward_checks,
    weight_checks,
    task_checks,
    generator_checks,
    serialisation,
    infinite_taskset,
    paid_runtimes,
    default_parsers,
    system_messages,
    shadowed_name,
    not_trainable,
    row_checks,
)
