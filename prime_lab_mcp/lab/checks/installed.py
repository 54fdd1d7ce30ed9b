"""Loads the environment from its wheel alone, with nothing importable but what the package requires, and scores tasks
rebuilt from their data there: what an installation for training does, without making one.

What it proves: the wheel holds what loading opens, the declared requirements bring what loading imports, and v1 tasks
score from their data. What it does not: that the requirements resolve to the same versions elsewhere, and what a
reward imports or opens only later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.errors import WorkerError
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.lab.worker.cases import Case, Loaded, LoadFailed, Scored, Traits
from prime_lab_mcp.lab.worker.host import Worker

SLOW = 20.0
"""Seconds of loading from which it is not done a second time."""
_ROWS = 2
_CASE_SECONDS = 3.0
_STEADY = 5
"""Repetitions without a difference after which a reward counts as deterministic: a coin passes one in two."""
_COSTLY_MS = 1000.0
_NAMES = ("answer", "gold", "target", "expected", "label", "ground_truth", "solution", "reference")


@dataclass(slots=True)
class Second:
    """What the second load showed. `loads` is None where it was not tried."""

    findings: list[Finding] = field(default_factory=list)
    loads: bool | None = None


async def load_again(worker: Worker, first: Loaded, hidden: Sequence[str], *, timeout: float) -> Second:
    """Load from the wheel and compare with what the folder yields."""
    try:
        loaded = await worker.load(timeout=timeout)
    except LoadFailed as error:
        return Second([_failed(error, hidden)], False)
    except WorkerError as error:
        finding = Finding("wheel-does-not-load", "blocker", f"installed from its wheel, {error.message}", error.fix)
        return Second([finding], False)
    if None not in (first.tasks, loaded.tasks) and first.tasks != loaded.tasks:
        finding = Finding(
            "wheel-differs", "blocker",
            f"installed from its wheel it yields {count(loaded.tasks or 0, 'task')}, in the folder {first.tasks:,}",
            "Open data relative to __file__ inside the package, and let the build include all of it.",
        )  # fmt: skip
        return Second([finding], True)
    return Second([], True)


def _failed(error: LoadFailed, hidden: Sequence[str]) -> Finding:
    said = quote(f"{error.type}: {error.reason}", 300)
    lacking = next((m for m in hidden if f"'{m}'" in error.reason or f"'{m}." in error.reason), None)
    if lacking is not None and error.type in ("ModuleNotFoundError", "ImportError"):
        fix = f"Add the distribution that provides {lacking} to [project] dependencies; here it is installed by chance."
    elif error.type == "FileNotFoundError":
        fix = "Let the wheel include the file: packages = [...] under [tool.hatch.build.targets.wheel] takes all data."
    else:
        fix = "Make the package work without its folder: files inside of the module, every import declared."
    return Finding(
        "wheel-does-not-load", "blocker", f"installed from its wheel, with only what it requires, it raises {said}",
        fix, error.where,
    )  # fmt: skip


async def rebuilt(original: Worker, other: Worker, traits: Traits) -> list[Finding]:
    """Whether tasks score the same when they are rebuilt from their data where `load()` never ran (v1)."""
    if traits.lossy_total or traits.other_tasks or not traits.wire:
        return []
    pairs = [(data, case) for row, data in traits.wire[:_ROWS] for case in _cases(row, data)]
    before = await _scored_here(original, [case for _, case in pairs])
    if before is None:
        return []
    try:
        after = await other.serve(pairs, case_timeout=_CASE_SECONDS, timeout=_CASE_SECONDS * len(pairs) + 30)
    except LoadFailed as error:
        said = quote(f"{error.type}: {error.reason}", 300)
        return [_not_self_contained(f"a task rebuilt from its data raises {said}", error.where)]
    except WorkerError:
        return []
    changed = [(case, a, b) for (_, case), a, b in zip(pairs, before, after, strict=True) if _differs(a, b)]
    if not changed:
        return []
    for _ in range(_STEADY):
        again = await _scored_here(original, [case for case, _, _ in changed])
        if again is None or any(a.reward != b.reward for (_, a, _), b in zip(changed, again, strict=True)):
            return []  # the reward is not deterministic, which test_reward reports
    case, first, second = changed[0]
    if second.errors:
        told = second.errors[0]
        what = f"raises {quote(f'{told.type}: {told.message}', 200)}"
        return [_not_self_contained(f"the reward {quote(told.where, 60)} of a task rebuilt from its data {what}", None)]
    row = {"row": case.row, "completion": quote(str(case.messages[0]["content"]), 120)}
    what = f"scores {second.reward:g} where the loaded one scores {first.reward:g}"
    return [_not_self_contained(f"a task rebuilt from its data {what}", None, row)]


def _not_self_contained(what: str, where: str | None, row: Mapping[str, Any] | None = None) -> Finding:
    return Finding(
        "task-not-self-contained", "blocker", f"{what}; training sends the data only and never calls load()",
        "Put everything that rewards need into the TaskData, not into the taskset, a module variable or the Task.",
        where, rows=(row,) if row else (),
    )  # fmt: skip


async def _scored_here(worker: Worker, cases: Sequence[Case]) -> list[Scored] | None:
    """None where scoring is slow or fails by itself, so that a comparison would cost much and prove nothing."""
    found: list[Scored] = []
    for case in cases:
        (scored,) = await worker.score([case], case_timeout=_CASE_SECONDS)
        if scored.ms > _COSTLY_MS or "timeout" in scored.problems or (scored.broken and not found):
            return None
        found.append(scored)
    return found


def _differs(before: Scored, after: Scored) -> bool:
    if before.errors or before.reward is None:
        return False
    return bool(after.errors) or after.reward is None or abs(after.reward - before.reward) > 1e-9


def _cases(row: int, data: Mapping[str, Any]) -> list[Case]:
    """Replies that most rewards read something from: the gold in the usual forms, and none of it."""
    raw = next((data[n] for n in _NAMES if data.get(n) is not None), "")
    text = golds.as_text(raw).split("####")[-1].strip()
    gold = golds.boxed(text) or text
    said = (f"<answer>{gold}</answer>", f"The answer is \\boxed{{{gold}}}.", gold, "I do not know.")
    return [Case(f"{row}:{n}", row, [{"role": "assistant", "content": reply}]) for n, reply in enumerate(said)]


def is_slow(first: Loaded) -> bool:
    """Whether loading a second time would take too long."""
    return first.seconds > SLOW
