"""The conversations of a warm-up, from solved rollouts of an evaluation, a file of the workspace, or a named dataset.

A row has the format of prime-rl's SFT trainer and of its exporter (prime-rl 559b4477, scripts/export_sft.py):
`messages` in OpenAI's chat format, and `tools` where some were offered, as JSON text because their schemas fit no
common column. A rollout with branches is not a single conversation and is left out, and so is a truncated rollout or
one with images.
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
"""Rollouts taken of one task. More would teach that task instead of the skill."""
_MOST = 20_000
_EPSILON = 1e-6
_CHARS_PER_TOKEN = 3.0
"""Characters per token where no endpoint counted. The value is low, so that a length is overestimated."""


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """One conversation as its line, with its length in tokens."""

    line: str
    tokens: int


@dataclass(frozen=True, slots=True)
class SolvedRollouts:
    """Conversations of solved rollouts. `played` and `tasks` count what was read; `left_out` counts omissions by
    reason."""

    rows: tuple[ConversationRow, ...]
    tasks: int
    played: int
    left_out: Mapping[str, int]


def solved_conversations(
    rollouts: Callable[[], Iterator[Rollout]], weights: Mapping[str, float], held_out: frozenset[str] = frozenset()
) -> SolvedRollouts:
    """Rollouts at the attainable reward, the first few of each task. Reads the results twice."""
    columns = Columns(weights)
    for rollout in rollouts():
        columns.add(rollout)
    best = columns.best
    rows: list[ConversationRow] = []
    rollouts_by_task: Counter[str] = Counter()
    lines: set[str] = set()
    left_out: Counter[str] = Counter()
    for rollout in rollouts():
        if rollout.error is not None or rollout.reward is None or rollout.reward < best * (1 - _EPSILON):
            continue
        reason = _refused(rollout, held_out, rollouts_by_task)
        row = None if reason else _row(rollout)
        if row is None or row.line in lines:
            left_out[reason or ("said before" if row else "no conversation")] += 1
        elif len(rows) < _MOST:
            rollouts_by_task[rollout.task] += 1
            lines.add(row.line)
            rows.append(row)
    return SolvedRollouts(tuple(rows), len(rollouts_by_task), len(columns), dict(left_out))


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
    row: dict[str, Any] = {"messages": [_wire(m) for m in messages]}
    if tools := _tools(rollout):
        row["tools"] = json.dumps(tools, ensure_ascii=False)
    line = json.dumps(row, ensure_ascii=False)
    return ConversationRow(line, _tokens(rollout, messages, len(line)))


def _tokens(rollout: Rollout, messages: list[Message], characters: int) -> int:
    """Tokens of a conversation: the counted number where there was one reply. With several turns, the endpoint counts a
    prompt again each turn, so the length is estimated."""
    tokens = rollout.prompt_tokens + rollout.completion_tokens
    if tokens and sum(m.role == "assistant" for m in messages) == 1:
        return tokens
    return int(characters / _CHARS_PER_TOKEN) + 1


def _wire(message: Message) -> dict[str, Any]:
    wire_message: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.reasoning:
        wire_message["reasoning_content"] = message.reasoning
    if message.calls:
        wire_message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in message.calls
        ]
    if message.answers:
        wire_message["tool_call_id"] = message.answers
    return wire_message


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
"""Conversations below which a model memorises the examples. Recipes of prime-rl warm up on about a thousand."""
LEAST_EXAMPLES = 8
"""Conversations of an evaluation below which no warm-up is written."""
_HUB = re.compile(r"[\w.-]+/[\w.-]+")
_LIMIT = 500_000_000
_HELD_EVALS = 20


@dataclass(frozen=True, slots=True)
class WarmUpExamples:
    """The conversations. `rows` is None for a Hugging Face dataset, which the trainer or a person loads by `name`."""

    rows: tuple[ConversationRow, ...] | None
    name: str
    source_summary: str
    """Their source, for the file's comments."""
    environment: str | None = None
    model: str | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def tokens(self) -> int:
        return sum(r.tokens for r in self.rows or ())

    @property
    def longest(self) -> int:
        return max((r.tokens for r in self.rows or ()), default=0)


def warm_up_examples(lab: Lab, source: str, held_out: Mapping[str, Any] | None) -> WarmUpExamples:
    """Read the conversations. Raises BadInput for a source that does not exist, has nothing solved, or is held out."""
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
            fix='Pass an eval id (watch_run lists them), a JSONL path, or a dataset as "owner/name".',
            code="sft-data",
        )
    return WarmUpExamples(None, source, f"dataset {source}")


def _of_evaluation(lab: Lab, job: Job, held_out: Mapping[str, Any] | None) -> WarmUpExamples:
    spec, results = EvaluationJobs(lab).spec(job), EvaluationJobs(lab).files(job.id).results()
    if results is None:
        raise BadInput(
            f"evaluation {job.id} has no finished rollout", fix="Wait for it with watch_run.", code="results-missing"
        )
    keys = held_out if held_out is not None else _held_out_keys(lab, job)
    if keys and _selects(spec.env_args, keys):
        raise BadInput(
            f"evaluation {job.id} played the held-out tasks, which must never be trained on",
            fix="Pass an evaluation of training tasks: run_eval without the held-out environment arguments.",
            code="sft-held-out",
        )
    solved = solved_conversations(lambda: read_rollouts(results), spec.weights, _held_tasks(lab, job, keys or {}))
    if len(solved.rows) < LEAST_EXAMPLES:
        raise BadInput(
            f"{len(solved.rows)} of the {count(solved.played, 'rollout')} of {job.id} can be learned from: too few "
            f"({_why_few(solved.left_out)})",
            fix="Evaluate a stronger model on these tasks with run_eval and pass that evaluation, or pass a dataset.",
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


def _held_tasks(lab: Lab, job: Job, keys: Mapping[str, Any]) -> frozenset[str]:
    """Tasks in evaluations of the held-out part, in case training and held-out part overlap."""
    if not keys:
        return frozenset()
    tasks: set[str] = set()
    for other in EvaluationJobs(lab).list(job.environment)[:_HELD_EVALS]:
        file = (
            EvaluationJobs(lab).files(other.id).results()
            if _selects(EvaluationJobs(lab).spec(other).env_args, keys)
            else None
        )
        if file is not None:
            tasks.update(rollout.task for rollout in read_scores(file))
    return frozenset(tasks)


def _why_few(left_out: Mapping[str, int]) -> str:
    reasons = ", ".join(f"{number} {why}" for why, number in left_out.items())
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
