"""Findings on the tasks of a loaded environment.

Its rows get the same checks as the rows of a dataset in `inspect_dataset`, including the comparison with the held-out
split.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from prime_lab_mcp.lab.base.report import Finding
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
from prime_lab_mcp.lab.worker.description import Row

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
        instructions=_instructions(rows),
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


def _instructions(rows: Sequence[Row]) -> str:
    """Return what the prompts of all tasks share: the lines that `_prompts` leaves out, and the system prompt."""
    texts = [prompt_of(row) for row in rows]
    shared = texts[0].replace(_without_shared_text(texts)[0], "\n", 1)
    return "\n".join([*(message_text(m) for m in rows[0].prompt if m.get("role") == "system"), shared])


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
