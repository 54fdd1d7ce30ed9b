"""Checks of a loaded environment: its rewards, its tasks, and its rows.

The rows get the same checks as the rows of a dataset in `inspect_dataset`, including the comparison with the held-out
split.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from prime_lab_mcp.lab.base.report import Finding, run_checks
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets.findings import row_findings
from prime_lab_mcp.lab.datasets.golds import GOLD_NAMES, gold_text
from prime_lab_mcp.lab.datasets.task_golds import (
    SampleGolds,
    TaskGold,
    gold_candidates,
    golds_at,
    message_text,
    options_of,
    prompt_of,
)
from prime_lab_mcp.lab.datasets.tasks import TaskRow
from prime_lab_mcp.lab.environment.package import EnvironmentPackage
from prime_lab_mcp.lab.environment.v0_rules import parser_missing
from prime_lab_mcp.lab.environment.v1_rules import excluded_field_finding
from prime_lab_mcp.lab.rollouts.components import is_about_form
from prime_lab_mcp.lab.worker.description import Loaded, Row, Rows, Traits
from prime_lab_mcp.lab.worker.faults import GET_THE_DATA, LoadFailed

_FEW_SHOT_CHARACTERS = 40
"""Characters. A shorter prompt may occur in the system prompt by coincidence."""


def task_findings(rows: Sequence[Row], held_out: Sequence[Row] = (), *, stateful: bool = False) -> Iterator[Finding]:
    """Yield all findings about the rows. `held_out` are tasks of the other split; they must not repeat the rows.

    `stateful` says that a rollout may use all data of a task. Two tasks with the same prompt can then be different.
    """
    if not rows:
        return
    candidates = gold_candidates(rows)
    prompts = _prompts([*rows, *held_out])
    tasks = _as_tasks(rows, prompts[: len(rows)], candidates[0] if candidates else None, stateful)
    held_golds = golds_at(held_out, candidates[0].place) if candidates else None
    others = _as_tasks(held_out, prompts[len(rows) :], held_golds, stateful)
    findings = row_findings(
        tasks,
        format=candidates[0].format if candidates else None,
        eval_rows=others,
        answered=bool(candidates),
        stateful=stateful,
    )
    comparable = bool(candidates) and _one_comparison_serves(candidates[0])
    # For such golds, test_reward finds the answers that the reward cannot compare.
    findings = [f for f in findings if not (comparable and f.code in ("mixed-format", "gold-unparseable"))]
    if stateful and 2 * len(set(prompts[: len(rows)])) <= len(rows):
        # Most tasks share the rules of a game, and the gold may be the secret with which the environment answers.
        findings = [replace(f, severity="warning") if f.code in _SHARED_PROMPT else f for f in findings]
    yield from findings
    yield from few_shot_findings(rows)


_SHARED_PROMPT = frozenset({"conflicting-gold", "duplicate-prompt"})
_NAME_CHARACTERS = 80
"""Most characters of an answer that counts as a name."""


_COMPARED_AS_TEXT: frozenset[str] = frozenset({"numeric", "latex_math", "short_text", "label"})


def _one_comparison_serves(golds: SampleGolds) -> bool:
    """Return whether all golds are numbers or short names, so that one comparison can handle all of them.

    Such a comparison compares numbers by value and everything else as text. Questions about a table have such golds
    (years, names, shelf marks), and so have quantities with units that are not known here.
    """
    texts = [gold_text(gold.raw) for gold in golds.golds]
    working = ("####", "\\boxed", "\n", "<")
    return golds.format in _COMPARED_AS_TEXT and all(
        len(t) <= _NAME_CHARACTERS and not any(w in t for w in working) for t in texts
    )


def _as_tasks(rows: Sequence[Row], prompts: Sequence[str], golds: SampleGolds | None, stateful: bool) -> list[TaskRow]:
    by_row = {g.row: g for g in golds.golds} if golds is not None else {}
    tasks = []
    for row, prompt in zip(rows, prompts, strict=True):
        gold, options = by_row.get(row.index), options_of(row)
        tasks.append(
            TaskRow(
                prompt=prompt,
                answer=gold_text(gold.raw) if gold else None,
                index=row.index,
                raw=gold.raw if gold else None,
                offered=bool(options),
                options=tuple(options),
                gold_option=_gold_option(gold, options, golds),
                other_content=_other_content(row, stateful),
            )
        )
    return tasks


def _other_content(row: Row, stateful: bool) -> str:
    """Return a digest of the parts of a prompt that are not text, such as images; empty if there are none.

    With `stateful`, the digest includes the task's data without the gold.
    """
    contents = [message.get("content") for message in row.prompt]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    other_content: list[Any] = [
        part for part in parts if not (isinstance(part, Mapping) and part.get("type") == "text")
    ]
    if stateful:
        other_content.append({name: value for name, value in row.fields.items() if name not in GOLD_NAMES})
    return (
        hashlib.sha256(json.dumps(other_content, sort_keys=True, default=str).encode()).hexdigest()
        if other_content
        else ""
    )


def _gold_option(gold: TaskGold | None, options: Sequence[str], golds: SampleGolds | None) -> int | None:
    """Return the index of the option that the gold names by letter, index or text; None if there is no such option."""
    if gold is None or golds is None or not options:
        return None
    for form in gold.forms:
        if len(form) == 1 and form.isalpha() and golds.format in ("choice_letter", "choice_index"):
            at = ord(form.upper()) - ord("A")
            return at if at < len(options) else None
    texts = [option.strip().casefold() for option in options]
    matches = [texts.index(form.strip().casefold()) for form in gold.forms if form.strip().casefold() in texts]
    return matches[0] if matches else None


def _prompts(rows: Sequence[Row]) -> list[str]:
    """Return the prompt text of each task without the instructions that all tasks share.

    If the system prompts of the tasks differ, their differences are part of the texts.
    """
    prompts = _without_shared_text([prompt_of(row) for row in rows])
    systems = ["\n".join(message_text(m) for m in row.prompt if m.get("role") == "system") for row in rows]
    if len(set(systems)) <= 1:
        return prompts
    return [f"{own}\n{prompt}".strip() for own, prompt in zip(_without_shared_text(systems), prompts, strict=True)]


def _without_shared_text(prompts: list[str]) -> list[str]:
    """Return the prompts without the lines with which all of them begin and end.

    Such lines are instructions on how to answer, not data.
    """
    if len(set(prompts)) < 3:
        return prompts
    head = _common_prefix(prompts)
    head = head[: head.rfind("\n") + 1]
    tail = _common_prefix([p[::-1] for p in prompts])[::-1]
    tail = tail[tail.find("\n") :] if "\n" in tail else ""
    return [p[len(head) : len(p) - len(tail)] if len(head) + len(tail) < len(p) else p for p in prompts]


def _common_prefix(texts: list[str]) -> str:
    low, high = min(texts), max(texts)
    same = next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:same]


def few_shot_findings(rows: Sequence[Row]) -> Iterator[Finding]:
    """Report tasks that the system prompt contains as examples, because an example gives away the task's answer."""
    common = Counter(message_text(m) for row in rows for m in row.prompt if m.get("role") == "system").most_common(1)
    if not common or len(common[0][0]) < _FEW_SHOT_CHARACTERS:
        return
    system_prompt = " ".join(common[0][0].split())
    examples = [
        r
        for r in rows
        if len(prompt := " ".join(prompt_of(r).split())) >= _FEW_SHOT_CHARACTERS and prompt in system_prompt
    ]
    if examples:
        yield Finding(
            "few-shot-task",
            "warning",
            f"the system prompt holds {count(len(examples), 'task')} as examples, which gives their answers away",
            "Take the examples out of the tasks, or write others.",
            rows=tuple({"row": r.index, "value": quote(prompt_of(r), 160)} for r in examples[:3]),
        )


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
    return "Mend the code that raises, then call check_environment."


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
            "info",
            "the taskset is infinite: shuffling and difficulty pools need a bounded one",
            "Pass -n to vf-eval; for a difficulty pool, load a fixed number of tasks from a seed.",
        )
    elif observations.loaded.api == "v1" and observations.loaded.tasks is None:
        yield Finding(
            "infinite-taskset",
            "warning",
            "load() went on after 200,000 tasks or 20 seconds, and INFINITE is not set",
            "Set INFINITE = True on the Taskset, or end load(); otherwise a run that counts tasks never starts.",
        )


def paid_runtimes(observations: LoadedObservations) -> Iterator[Finding]:
    """Report agents that run in a paid sandbox by default."""
    rented = [r for r in observations.traits.roles or () if r.runtime in _SANDBOXED]
    if rented:
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
    solved = loaded.turns and loaded.solutions
    for finding in task_findings(observations.rows, held_out, stateful=loaded.turns or loaded.own_run):
        # In such an environment a prompt may name the state to reach. test_reward measures the reward of the bare gold.
        yield replace(finding, severity="warning") if solved and finding.code == "gold-in-prompt" else finding


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
