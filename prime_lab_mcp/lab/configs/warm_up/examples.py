"""The conversations of a warm-up: from solved rollouts of an evaluation, a file of the workspace, or a named dataset.

A row has the format of prime-rl's SFT trainer and of its exporter (prime-rl 559b4477, scripts/export_sft.py):
`messages` in OpenAI's chat format, and `tools` as JSON text if tools were offered. Rollouts that are truncated, branch
into several conversations, or contain images are left out.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.configs.resolve import held_out_keys
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.views.columns import Columns
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.rollouts.conversation import Message, conversation
from prime_lab_mcp.lab.rollouts.reading import read_rollouts, read_scores
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.lab.state.ledger.rows import Job

PER_TASK = 2
"""Most conversations from one task. More would teach that task instead of the skill."""
_MOST = 20_000
"""Most conversations of a warm-up."""
_EPSILON = 1e-6
_CHARS_PER_TOKEN = 3.0
"""Assumed characters per token if no endpoint counted the tokens. The value is low, so lengths are overestimated."""


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """One conversation: its line in the JSONL file, and its length in tokens."""

    line: str
    tokens: int


@dataclass(frozen=True, slots=True)
class SolvedRollouts:
    """Conversations of the solved rollouts of an evaluation."""

    rows: tuple[ConversationRow, ...]
    tasks: int
    """Number of tasks with a conversation."""
    played: int
    """Number of all rollouts of the evaluation."""
    omitted: Mapping[str, int]
    """Numbers of solved rollouts that are no conversation of the warm-up, by reason."""


def solved_conversations(
    rollouts: Callable[[], Iterator[Rollout]], weights: Mapping[str, float], held_out: frozenset[str] = frozenset()
) -> SolvedRollouts:
    """Return the conversations of the rollouts with the attainable reward, at most `PER_TASK` of each task.

    `weights` are the weights of the environment's rewards, and `held_out` the keys of tasks to leave out. The results
    are read twice.
    """
    columns = Columns(weights)
    for rollout in rollouts():
        columns.add(rollout)
    best = columns.best
    rows: list[ConversationRow] = []
    rollouts_by_task: Counter[str] = Counter()
    lines: set[str] = set()
    omitted: Counter[str] = Counter()
    for rollout in rollouts():
        if rollout.error is not None or rollout.reward is None or rollout.reward < best * (1 - _EPSILON):
            continue
        reason = _refused(rollout, held_out, rollouts_by_task)
        row = None if reason else _row(rollout)
        if row is None or row.line in lines:
            omitted[reason or ("said before" if row else "no conversation")] += 1
        elif len(rows) < _MOST:
            rollouts_by_task[rollout.task] += 1
            lines.add(row.line)
            rows.append(row)
    return SolvedRollouts(tuple(rows), len(rollouts_by_task), len(columns), dict(omitted))


def _refused(rollout: Rollout, held_out: frozenset[str], rollouts_by_task: Mapping[str, int]) -> str | None:
    if rollout.task in held_out:
        return "held out"
    if rollout.truncated:
        return "cut off"
    if rollouts_by_task.get(rollout.task, 0) >= PER_TASK:
        return f"over {PER_TASK} of its task"
    return "branched" if _branches(rollout) else "with pictures" if _pictured(rollout) else None


def _row(rollout: Rollout) -> ConversationRow | None:
    messages = conversation(rollout)
    if not any(m.role == "assistant" and (m.text or m.calls) for m in messages) or messages[0].role == "assistant":
        return None
    row: dict[str, Any] = {"messages": [m.as_chat_message() for m in messages]}
    if tools := _tools(rollout):
        row["tools"] = json.dumps(tools, ensure_ascii=False)
    line = json.dumps(row, ensure_ascii=False)
    return ConversationRow(line, _tokens(rollout, messages, len(line)))


def _tokens(rollout: Rollout, messages: list[Message], characters: int) -> int:
    """Return the tokens of a conversation.

    With one reply, this is the number that the endpoint counted. With several, the endpoint counts the earlier messages
    again for each reply, so the length is estimated from the characters.
    """
    tokens = rollout.prompt_tokens + rollout.completion_tokens
    if tokens and sum(m.role == "assistant" for m in messages) == 1:
        return tokens
    return int(characters / _CHARS_PER_TOKEN) + 1


def _tools(rollout: Rollout) -> list[dict[str, Any]]:
    listed = rollout.record.get("tools") or rollout.record.get("tool_defs") or []
    tools = []
    for tool in listed if isinstance(listed, list) else ():
        inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
        if isinstance(inner, Mapping) and inner.get("name"):
            function = {k: inner[k] for k in ("name", "description", "parameters") if inner.get(k) is not None}
            tools.append({"type": "function", "function": function})
    return tools


def _branches(rollout: Rollout) -> bool:
    nodes = rollout.record.get("nodes")
    parents = [n.get("parent") for n in nodes if isinstance(n, Mapping)] if isinstance(nodes, list) else []
    return any(parent is not None and parent != index - 1 for index, parent in enumerate(parents))


def _pictured(rollout: Rollout) -> bool:
    record = rollout.record
    nodes = record.get("nodes")
    messages = [n.get("message") for n in nodes if isinstance(n, Mapping)] if isinstance(nodes, list) else []
    for part in (record.get("prompt"), record.get("completion")):
        messages += part if isinstance(part, list) else []
    contents = [m.get("content") for m in messages if isinstance(m, Mapping)]
    parts = [p for c in contents if isinstance(c, list) for p in c]
    return any(isinstance(p, Mapping) and p.get("type") not in (None, "text") for p in parts)


FEW_EXAMPLES = 100
"""Number of conversations below which a warm-up gets a warning. Recipes of prime-rl warm up on about a thousand."""
LEAST_EXAMPLES = 8
"""Least number of conversations from an evaluation for a warm-up."""
_HUB = re.compile(r"[\w.-]+/[\w.-]+")
_LIMIT = 500_000_000
"""Largest size of a file of conversations in bytes."""
_HELD_OUT_EVALS = 20
"""Number of the newest evaluations in which held-out tasks are looked up."""


@dataclass(frozen=True, slots=True)
class WarmUpExamples:
    """The conversations of a warm-up."""

    rows: tuple[ConversationRow, ...] | None
    """The conversations. None for a Hugging Face dataset, which the trainer or a person loads by its name."""
    name: str
    """Id of the evaluation, path of the file, or name of the dataset."""
    source_summary: str
    """The origin of the conversations in words."""
    environment: str | None = None
    """The environment that was evaluated."""
    model: str | None = None
    """The model that was evaluated."""
    findings: tuple[Finding, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens of all conversations."""
        return sum(r.tokens for r in self.rows or ())

    @property
    def longest(self) -> int:
        """Tokens of the longest conversation."""
        return max((r.tokens for r in self.rows or ()), default=0)


def warm_up_examples(lab: Lab, source: str, held_out: Mapping[str, Any] | None) -> WarmUpExamples:
    """Return the conversations of a source: an evaluation's id, a file of the workspace, or a dataset's name.

    `held_out` are the taskset keys that select held-out tasks. Raises BadInput for a source that does not exist, has
    too few solved rollouts, or is an evaluation of held-out tasks.
    """
    path = lab.workspace.resolve(source)
    if path.is_file():
        return _of_file(path, source)
    if source.startswith("eval-"):
        return _of_evaluation(lab, EvaluationJobs(lab).get(source), held_out)
    if path.is_dir():
        raise BadInput(
            f"{quote(source, limit=120)} is a folder",
            fix="Name the file of conversations in it, one JSON object a line.",
            code="sft-data",
        )
    if not _HUB.fullmatch(source):
        raise BadInput(
            f"{quote(source, limit=120)} is no evaluation, no file of the workspace and no dataset",
            fix=Fix(
                "Pass an eval id (", NamedCall("watch_run"), ' lists them), a JSONL path, or a dataset as "owner/name".'
            ),
            code="sft-data",
        )
    return WarmUpExamples(None, source, f"dataset {source}")


def _of_evaluation(lab: Lab, job: Job, held_out: Mapping[str, Any] | None) -> WarmUpExamples:
    spec, results = EvaluationJobs(lab).spec(job), EvaluationJobs(lab).files(job.id).results()
    if results is None:
        raise BadInput(
            f"evaluation {job.id} has no finished rollout",
            fix=Fix("Wait for it with ", NamedCall("watch_run"), "."),
            code="results-missing",
        )
    keys = held_out if held_out is not None else _held_out_keys(lab, job)
    if keys and _selects(spec.env_args, keys):
        raise BadInput(
            f"evaluation {job.id} played the held-out tasks, which must never be trained on",
            fix=Fix(
                "Pass an evaluation of training tasks: ",
                NamedCall("run_eval"),
                " without the held-out environment arguments.",
            ),
            code="sft-held-out",
        )
    solved = solved_conversations(lambda: read_rollouts(results), spec.weights, _held_out_tasks(lab, job, keys or {}))
    if len(solved.rows) < LEAST_EXAMPLES:
        raise BadInput(
            f"{len(solved.rows)} of the {count(solved.played, 'rollout')} of {job.id} can be learned from: too few "
            f"({_omission_summary(solved.omitted)})",
            fix=Fix(
                "Evaluate a stronger model on these tasks with ",
                NamedCall("run_eval"),
                " and pass that evaluation, or pass a dataset.",
            ),
            code="sft-nothing-solved",
        )
    summary = f"{count(len(solved.rows), 'solved rollout')} of {count(solved.tasks, 'task')} from {job.id}"
    return WarmUpExamples(solved.rows, job.id, summary, spec.environment, spec.model, _few(len(solved.rows)))


def _of_file(path: Path, source: str) -> WarmUpExamples:
    if path.stat().st_size > _LIMIT:
        raise BadInput(f"{quote(source, 120)} is too large to copy", fix="Publish it as a dataset.", code="sft-data")
    rows = []
    with path.open(encoding="utf-8", errors="strict") as lines:
        try:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    rows.append(_checked(line, number, source))
        except UnicodeDecodeError:
            raise _bad_row(source, len(rows) + 1, "is not UTF-8") from None
    if not rows:
        raise _bad_row(source, 1, "is missing: the file is empty")
    return WarmUpExamples(
        tuple(rows), source, f"{count(len(rows), 'conversation')} of {source}", findings=_few(len(rows))
    )


def _checked(line: str, number: int, source: str) -> ConversationRow:
    try:
        row = json.loads(line)
    except ValueError:
        raise _bad_row(source, number, "is no JSON") from None
    messages = row.get("messages") if isinstance(row, dict) else None
    split = isinstance(row, dict) and row.get("prompt") is not None and row.get("completion") is not None
    if messages is not None:
        turns = [m for m in messages if isinstance(m, Mapping)] if isinstance(messages, list) else []
        if not any(m.get("role") == "assistant" for m in turns):
            raise _bad_row(source, number, "has messages without a reply of the assistant")
    elif not split:
        raise _bad_row(source, number, "has neither messages nor prompt and completion")
    return ConversationRow(line.rstrip("\n"), int(len(line) / 3) + 1)


def _bad_row(source: str, number: int, problem: str) -> BadInput:
    return BadInput(
        f"line {number} of {quote(source, limit=120)} {problem}",
        fix='Give {"messages": [{"role": "user", "content": ...}, {"role": "assistant", ...}]}, one object a line.',
        code="sft-data",
        where=f"{source}:{number}",
    )


def _held_out_keys(lab: Lab, job: Job) -> Mapping[str, Any] | None:
    try:
        return held_out_keys(lab.workspace.environment(job.environment).path)
    except BadInput:
        return None


def _selects(args: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    return all(args.get(key) == value for key, value in keys.items())


def _held_out_tasks(lab: Lab, job: Job, keys: Mapping[str, Any]) -> frozenset[str]:
    """Return the tasks of evaluations on the held-out split, because it may overlap with the training split."""
    if not keys:
        return frozenset()
    tasks: set[str] = set()
    for other in EvaluationJobs(lab).list(job.environment)[:_HELD_OUT_EVALS]:
        file = (
            EvaluationJobs(lab).files(other.id).results()
            if _selects(EvaluationJobs(lab).spec(other).env_args, keys)
            else None
        )
        if file is not None:
            tasks.update(rollout.task for rollout in read_scores(file))
    return frozenset(tasks)


def _omission_summary(omitted: Mapping[str, int]) -> str:
    reasons = ", ".join(f"{number} {reason}" for reason, number in omitted.items())
    return f"solved but left out: {reasons}" if reasons else "no other one reached the full reward"


def _few(rows: int) -> tuple[Finding, ...]:
    if rows >= FEW_EXAMPLES:
        return ()
    return (
        Finding(
            "sft-few-examples",
            "warning",
            f"{count(rows, 'conversation')} can teach a form at best; the recipes of prime-rl use about a thousand",
            "Evaluate more training tasks with run_eval (a stronger model solves more), or pass a dataset.",
        ),
    )
