"""Loads an environment twice for `check_environment`: from the snapshot while its wheel is built, then from the wheel.

In the second load only the package's declared requirements are importable. The second load also scores tasks that are
rebuilt from their data (v1). An environment that loads there, yields the same tasks and gives the same rewards also
works where training runs.

The second load proves that the wheel contains the files that loading opens, that the declared requirements provide the
imports of loading, and that v1 tasks score from their data. It does not prove that the requirements resolve to the same
versions elsewhere, nor does it cover what a reward imports or opens later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError, WorkerError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Say
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.environment import requirements, wheel, wheel_contents
from prime_lab_mcp.lab.environment.loaded_checks import LoadedObservations
from prime_lab_mcp.lab.environment.package import EnvironmentPackage
from prime_lab_mcp.lab.environment.requirements import wheel_references, wheel_requirements
from prime_lab_mcp.lab.interpreter import interpreter_requirements
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import LOAD_SECONDS, LoadedEnvironment, open_environment, require_agreement
from prime_lab_mcp.lab.state.snapshot import code_tree
from prime_lab_mcp.lab.worker.description import SAMPLED_TASKS, Loaded, Row, Rows, Traits
from prime_lab_mcp.lab.worker.faults import LoadFailed, ProblemCode
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Case, Scored

SLOW_LOAD_SECONDS = 20.0
"""Seconds. If the first load takes longer, there is no second load."""
_ROWS = 2
"""Number of tasks to which all completions are given; the others get those of `_GENERAL`."""
_GENERAL = slice(3, 6)
"""A reply without an answer, a wrong one in many words, and the first one in a form that the environment names."""
_QUICK_MS = 100.0
"""Milliseconds of each scoring below which the other tasks are scored too."""
_CASE_SECONDS = 3.0
_PATIENCE = 10
"""How many times as long a completion may take that failed at first in a new process."""
_REPETITIONS = 5
"""Repetitions with equal rewards after which a reward counts as deterministic. A reward that tosses a fair coin passes
with a probability of 1/32."""
_SLOW_MS = 1000.0
_FORMS = 4
"""Largest number of forms in which answers are tried."""
_ANSWERS = ("example", "17")
_GOLD_FIELDS = ("answer", "gold", "target", "expected", "label", "ground_truth", "solution", "reference")


@dataclass(slots=True)
class SecondLoad:
    """The result of loading from the wheel. `loads` is None if that was not tried."""

    findings: list[Finding] = field(default_factory=list)
    loads: bool | None = None


async def load_again(worker: Worker, first: Loaded, hidden: Sequence[str], *, timeout: float) -> SecondLoad:
    """Load the environment from its wheel, and compare the number of tasks with the first load from the folder.

    `hidden` are the modules that the worker cannot import, and `timeout` is in seconds.
    """
    try:
        loaded = await worker.load(timeout=timeout)
    except LoadFailed as error:
        return SecondLoad([_load_failed_finding(error, hidden)], False)
    except WorkerError as error:
        finding = Finding("wheel-does-not-load", "blocker", f"installed from its wheel, {error.message}", error.fix)
        return SecondLoad([finding], False)
    if None not in (first.tasks, loaded.tasks) and first.tasks != loaded.tasks:
        finding = Finding(
            "wheel-differs",
            "blocker",
            f"installed from its wheel it yields {count(loaded.tasks or 0, 'task')}, in the folder {first.tasks:,}",
            "Open data relative to __file__ inside the package, and let the build include all of it.",
        )
        return SecondLoad([finding], True)
    return SecondLoad([], True)


def _load_failed_finding(error: LoadFailed, hidden: Sequence[str]) -> Finding:
    cause = quote(f"{error.type}: {error.reason}", 300)
    lacking = next((m for m in hidden if f"'{m}'" in error.reason or f"'{m}." in error.reason), None)
    if lacking is not None and error.type in ("ModuleNotFoundError", "ImportError"):
        fix = f"Add the distribution that provides {lacking} to [project] dependencies; here it is installed by chance."
    elif error.type == "FileNotFoundError":
        fix = "Let the wheel include the file: packages = [...] under [tool.hatch.build.targets.wheel] takes all data."
    else:
        fix = "Make the package work without its folder: files inside of the module, every import declared."
    return Finding(
        "wheel-does-not-load",
        "blocker",
        f"installed from its wheel, with only what it requires, it raises {cause}",
        fix,
        error.where,
    )


Wrap = Callable[[str], str]
"""Writes an answer in a form that the prompts or the code of an environment name."""
AskedForms = Callable[[Sequence[Row]], Sequence[Wrap]]
"""Returns the forms of the answers to some tasks."""


async def rebuilt_task_findings(
    original: Worker, other: Worker, traits: Traits, wraps: Sequence[Wrap] = (), *, beside_readme: bool = False
) -> list[Finding]:
    """Report tasks that score differently if they are rebuilt from their data in a process without `load()` (v1).

    Answers in the forms `wraps` are scored as well, because a reward may look something up only for a reply in its
    form. With `beside_readme`, `other` has the README and the whole pyproject.toml, which `original` lacks.
    """
    if traits.lossy_total or traits.other_tasks or not traits.sent_tasks:
        return []
    pairs = [(data, case) for row, data in traits.sent_tasks[:_ROWS] for case in _cases(row, data, wraps)]
    before = await _scored_here(original, [case for _, case in pairs])
    if before is None:
        return []
    if all(scored.ms < _QUICK_MS for scored in before):
        # Code can tell the first tasks from the others by their place.
        rest = [(data, case) for row, data in traits.sent_tasks[_ROWS:] for case in _cases(row, data, wraps)[_GENERAL]]
        later = await _scored_here(original, [case for _, case in rest])
        if later is not None:
            pairs, before = [*pairs, *rest], [*before, *later]
    try:
        after = await other.serve(pairs, case_timeout=_CASE_SECONDS, timeout=_CASE_SECONDS * len(pairs) + 30)
    except LoadFailed as error:
        if beside_readme:
            return []
        cause = quote(f"{error.type}: {error.reason}", 300)
        return [_not_self_contained(f"a task rebuilt from its data raises {cause}", error.where)]
    except WorkerError:
        return []
    failed = [i for i, scored in enumerate(after) if scored.reward is None and _differs(before[i], scored)]
    if failed:
        # A new process sets up what the reward uses, which can take longer than one completion may.
        patient = _CASE_SECONDS * _PATIENCE
        try:
            repeated = await other.serve(
                [pairs[i] for i in failed], case_timeout=patient, timeout=patient * len(failed) + 30
            )
        except WorkerError:
            return []
        for i, scored in zip(failed, repeated, strict=True):
            after[i] = scored
    changed = [(case, a, b) for (_, case), a, b in zip(pairs, before, after, strict=True) if _differs(a, b)]
    if not changed:
        return []
    for _ in range(_REPETITIONS):
        again = await _scored_here(original, [case for case, _, _ in changed])
        if again is None or any(a.reward != b.reward for (_, a, _), b in zip(changed, again, strict=True)):
            return []  # The reward is not deterministic. test_reward reports that.
    case, first, second = changed[0]
    if beside_readme:
        return [_reads_readme(first, second)]
    if second.errors:
        problem = second.errors[0]
        effect = f"raises {quote(f'{problem.type}: {problem.message}', 200)}"
        return [
            _not_self_contained(f"the reward {quote(problem.where, 60)} of a task rebuilt from its data {effect}", None)
        ]
    row = {"row": case.row, "completion": quote(str(case.messages[0]["content"]), 120)}
    effect = f"scores {second.reward:g} where the loaded one scores {first.reward:g}"
    return [_not_self_contained(f"a task rebuilt from its data {effect}", None, row)]


def _reads_readme(without: Scored, beside: Scored) -> Finding:
    effect = f"scores {beside.reward:g}" if beside.reward is not None else "fails"
    return Finding(
        "wheel-differs",
        "blocker",
        f"beside its README and its version a completion {effect}, and {without.reward:g} without them; the code reads "
        "one of them in a way that is not seen, and no test was made with them",
        "Keep what decides rewards in a module or data file of the package.",
    )


def _not_self_contained(message: str, where: str | None, row: Mapping[str, Any] | None = None) -> Finding:
    return Finding(
        "task-not-self-contained",
        "blocker",
        f"{message}; training sends the data only and never calls load()",
        "Put everything that rewards need into the TaskData, not into the taskset, a module variable or the Task.",
        where,
        rows=(row,) if row else (),
    )


async def _scored_here(worker: Worker, cases: Sequence[Case]) -> list[Scored] | None:
    """Score the cases in the first worker. None if scoring is slow or fails, so that nothing can be compared."""
    scores: list[Scored] = []
    for case in cases:
        (scored,) = await worker.score([case], case_timeout=_CASE_SECONDS)
        if scored.ms > _SLOW_MS or scored.has(ProblemCode.TIMEOUT) or (scored.broken and not scores):
            return None
        scores.append(scored)
    return scores


def _differs(before: Scored, after: Scored) -> bool:
    if before.errors or before.reward is None:
        return False
    return bool(after.errors) or after.reward is None or abs(after.reward - before.reward) > 1e-9


def _cases(row: int, data: Mapping[str, Any], wraps: Sequence[Wrap]) -> list[Case]:
    """Return completions for a task: the gold and other answers in usual answer formats and in the forms `wraps`, and
    a reply without the gold."""
    raw = next((data[n] for n in _GOLD_FIELDS if data.get(n) is not None), "")
    whole = golds.gold_text(raw)
    text = golds.worked_answer(whole) or whole.split("####")[-1].strip()
    gold = golds.boxed_content(text) or text
    replies = (
        f"<answer>{gold}</answer>",
        f"The answer is \\boxed{{{gold}}}.",
        gold,
        "I do not know.",
        "<answer>17</answer> or \\boxed{17}, because of many reasons. " * 40,
        *(wrap(answer) for wrap in wraps[:_FORMS] for answer in dict.fromkeys((gold, *_ANSWERS)) if answer),
    )
    return [Case(f"{row}:{n}", row, [{"role": "assistant", "content": reply}]) for n, reply in enumerate(replies)]


def is_slow(first: Loaded) -> bool:
    """Return whether the first load took so long that there is no second load."""
    return first.seconds > SLOW_LOAD_SECONDS


_HELD_OUT_SECONDS = 30.0
"""Time limit for loading the held-out split."""
_QUICK_SECONDS = 10.0
"""Seconds. The held-out split of a v1 taskset is loaded only if the first load was not slower than that."""


@dataclass(slots=True)
class WheelResult:
    """The result of checking the wheel. `state` is "loads", "built" (but not loaded), "fails" or "not checked"."""

    state: str = "not checked"
    findings: list[Finding] = field(default_factory=list)
    shipped: frozenset[str] | None = None
    """The Python files of the snapshot that are part of the wheel; None if no wheel was built."""


@dataclass(frozen=True, slots=True)
class LoadCheck:
    """A loaded environment with all observations.

    `held_out` names the held-out split, or says why it was not compared.
    """

    opened: LoadedEnvironment
    observed: LoadedObservations
    held_out: str
    wheel: WheelResult


async def check_loading(
    lab: Lab, package: EnvironmentPackage, *, with_wheel: bool, progress: Say, forms: AskedForms = lambda rows: ()
) -> LoadCheck:
    """Load the environment and observe it. Raises the errors of `open_environment`.

    Rebuilt tasks are compared with answers in `forms`.
    """
    require_agreement(lab, package.snapshot)  # Must precede the build, which runs concurrently with loading.
    building = _Building(lab, package)
    failed: Exception | None = None
    check: LoadCheck | None = None
    async with anyio.create_task_group() as group:
        if with_wheel:
            group.start_soon(building.run)
        # The error is caught here, because the task group would wrap it in an ExceptionGroup.
        try:
            async with open_environment(lab, package.snapshot, progress=progress) as environment:
                check = await _observe(environment)
                if with_wheel:
                    await building.finished.wait()
                    check.wheel.state, more = await _from_wheel(lab, package, building, check, forms)
                    check.wheel.findings += more
                    if building.wheel is not None:
                        check.wheel.shipped = wheel_contents.shipped_code(package.snapshot, building.wheel)
        except LabError as error:
            failed = error
            group.cancel_scope.cancel()
    if failed is not None:
        raise failed
    assert check is not None
    return check


class _Building:
    """Builds the wheel concurrently with the first load."""

    def __init__(self, lab: Lab, package: EnvironmentPackage) -> None:
        self.finished = anyio.Event()
        self.wheel: wheel.UnpackedWheel | None = None
        self.hidden: tuple[str, ...] = ()
        self.failed: LabError | None = None
        self._lab = lab
        self._package = package

    async def run(self) -> None:
        manifest, api = self._package.snapshot.manifest, self._package.generation.api
        try:
            interpreter = await self._lab.interpreters.for_package(manifest.table, api=api)
            needed = interpreter_requirements(manifest.table, api)
            self.hidden = await anyio.to_thread.run_sync(
                requirements.hidden_modules, interpreter.python, interpreter.key, tuple(needed)
            )
            self.wheel = await wheel.build_wheel(self._lab.settings, self._package.snapshot, interpreter)
        except LabError as error:
            self.failed = error
        finally:
            self.finished.set()


async def _observe(environment: LoadedEnvironment) -> LoadCheck:
    worker, loaded = environment.worker, environment.loaded
    sample = await worker.rows(limit=SAMPLED_TASKS)
    traits = await worker.facts()
    held_out, note = None, "none"
    if traits.held_out is not None:
        held_out, note = await _held_out(
            worker, traits.held_out, loaded.api == "v1" and loaded.seconds > _QUICK_SECONDS
        )
    return LoadCheck(environment, LoadedObservations(loaded, sample, traits, held_out), note, WheelResult())


async def _held_out(worker: Worker, name: str, slow: bool) -> tuple[Rows | None, str]:
    if slow:
        return None, f"{name}: not loaded, because loading takes long"
    try:
        rows = await worker.rows(limit=SAMPLED_TASKS, split="eval", timeout=_HELD_OUT_SECONDS)
    except (LoadFailed, WorkerError) as error:
        return None, f"{name}: not compared, because loading it failed ({error.code})"
    if not rows.rows:
        return None, f"{name}: it has no rows"
    return rows, f"{name}: {len(rows.rows):,} tasks compared"


async def _from_wheel(
    lab: Lab, package: EnvironmentPackage, building: _Building, check: LoadCheck, forms: AskedForms
) -> tuple[str, list[Finding]]:
    if building.wheel is None:
        return _not_built(building.failed)
    lacking = [
        *wheel_contents.missing_from_wheel(package, building.wheel),
        *wheel_contents.untested_files(package, building.wheel),
        *wheel_contents.entry_points(package),
        *wheel_references(building.wheel.tree),
        *wheel_requirements(package, building.wheel.tree),
    ]
    if any(f.severity == "blocker" for f in lacking):
        return "fails", lacking
    first, manifest = check.observed.loaded, package.snapshot.manifest
    if is_slow(first):
        slow = Finding(
            "wheel-not-checked",
            "info",
            f"loading takes {first.seconds:.0f} seconds, so it was not done again from the wheel; its files are there",
            "Nothing to do; name a small sample by [tool.prime-lab] check_args to have it checked.",
            "pyproject.toml",
        )
        return "built", [*lacking, slow]
    key = f"wheel-{package.snapshot.content}"
    options: dict[str, Any] = {
        "api": first.api,
        "module": manifest.module,
        "env_args": check.opened.env_args,
        "hidden": building.hidden,
        "variables": check.opened.variables,
        "data_key": package.snapshot.source,
    }
    async with lab.workers.open(building.wheel.tree, key, check.opened.interpreter, **options) as worker:
        again = await load_again(worker, first, building.hidden, timeout=LOAD_SECONDS)
        if again.loads and not again.findings and first.api == "v1":
            wraps = forms(check.observed.rows)
            again.findings += await _rebuilt(check.opened.worker, worker, check.observed.traits, wraps)
        await worker.close()  # No later call uses this worker.
    if again.loads and not again.findings and first.api == "v1":
        again.findings += await _beside_readme(lab, package, check, options)
    return "fails" if again.loads is False else "loads", [*lacking, *again.findings]


async def _beside_readme(
    lab: Lab, package: EnvironmentPackage, check: LoadCheck, options: Mapping[str, Any]
) -> list[Finding]:
    """Compare the rewards with those of a process that has the files which `source` leaves out."""
    snapshot = package.snapshot
    if code_tree(snapshot) == snapshot.tree:
        return []
    key = f"whole-{snapshot.content}"
    async with lab.workers.open(snapshot.tree, key, check.opened.interpreter, **options) as worker:
        try:
            return await rebuilt_task_findings(check.opened.worker, worker, check.observed.traits, beside_readme=True)
        except (LoadFailed, WorkerError):
            return []
        finally:
            await worker.close()


async def _rebuilt(original: Worker, other: Worker, traits: Traits, wraps: Sequence[Wrap]) -> list[Finding]:
    try:
        return await rebuilt_task_findings(original, other, traits, wraps)
    except (LoadFailed, WorkerError):
        return []  # Scoring ended the process of the first worker. test_reward reports why.


def _not_built(failed: LabError | None) -> tuple[str, list[Finding]]:
    if isinstance(failed, wheel.WheelFailed):
        return "fails", [Finding("wheel-build-failed", "blocker", failed.message, failed.fix, "pyproject.toml")]
    why = failed.message if failed is not None else "it was not built"
    fix = failed.fix if failed is not None else Fix("Call ", NamedCall("check_environment"), " again.")
    return "not checked", [Finding("wheel-not-checked", "blocker", f"the wheel was not checked: {why}", fix)]
