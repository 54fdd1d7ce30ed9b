"""Reads finished rollouts from the files of both generations, one at a time, so a million of them fit in memory.

v1 writes one episode per line (`traces.jsonl`), v0 one rollout per line (`results.jsonl`, with `metadata.json` beside
it); `prime train rollouts` and `prime eval samples` print one JSON document. Which it is shows in the first record.
A line that broke off when its writer died is skipped. All text in a Rollout is foreign.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import orjson

from prime_lab_mcp.lab.errors import EvalError

Layout = Literal["v1", "v0", "document"]

RESULT_FILES = ("traces.jsonl", "results.jsonl")
_LARGEST_DOCUMENT = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Rollout:
    """One finished rollout. `reward` is None where it failed (`error` says why) or is not a finite number."""

    task: str
    reward: float | None
    components: Mapping[str, tuple[float, float | None]] = field(default_factory=dict)
    """Name to (score, weight); the weight is None where the layout does not tell it (v0)."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    error: str | None = None
    truncated: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    completion_text: str = ""
    stop: str | None = None
    nonfinite: bool = False
    """The environment's reward was NaN or infinite."""
    id: str = ""
    record: Mapping[str, Any] = field(default_factory=dict)
    """The record as it was read, for whoever needs more of it."""


def locate(path: Path) -> Path:
    """The results file at `path`, or in the folder (or one of its run folders) at `path`. Raises EvalError."""
    if path.is_file():
        return path
    if path.is_dir():
        found = [p for name in RESULT_FILES for p in sorted(path.rglob(name)) if p.is_file()]
        if len(found) == 1:
            return found[0]
        if found:
            raise EvalError(
                f"{path.name} holds {len(found)} results files",
                fix="Name one of them: a traces.jsonl (v1) or a results.jsonl (v0).",
                code="results-ambiguous",
            )
    raise EvalError(
        f"there are no results at {path.name}",
        fix="Name a traces.jsonl, a results.jsonl, the folder of one, or run run_eval.",
        code="results-missing",
    )


def read(path: Path) -> Iterator[Rollout]:
    """Every rollout of a results file or run folder, in file order. Raises EvalError for what is no results file."""
    found = locate(path)
    records = _records(found)
    first = next(records, None)
    if first is None:
        return
    written_by = layout(first)
    yield from parse(first, written_by)
    for record in records:
        yield from parse(record, written_by)


def parse(record: Mapping[str, Any], written_by: Layout) -> Iterator[Rollout]:
    """The rollouts of one record: one, or one per trained agent of a v1 episode."""
    return _PARSERS[written_by](record)


def layout(record: Mapping[str, Any]) -> Layout:
    """Which generation wrote a record. Raises EvalError when none did."""
    if isinstance(record.get("traces"), list) or ("nodes" in record and "rewards" in record):
        return "v1"
    if "example_id" in record and "completion" in record and "timing" in record:
        return "v0"
    if "reward" in record:
        return "document"
    raise EvalError(
        "this is no results file: its first record is no v1 episode, v0 rollout or platform sample",
        fix="Name a traces.jsonl or results.jsonl that vf-eval wrote.",
        code="results-unreadable",
    )


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as source:
        seen = 0
        for line in source:
            stripped = line.strip()
            if not stripped:
                continue
            record = decode(stripped)
            if record is None and seen:
                continue
            if isinstance(record, dict) and not (seen == 0 and _holds_samples(record)):
                seen += 1
                yield record
            elif seen == 0:
                break
        else:
            return
    yield from _document(path)


def decode(line: bytes) -> Any:
    """One line as JSON, NaN and Infinity allowed (v0 writes them); None when it is broken."""
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        with suppress(ValueError):
            return json.loads(line)
    return None


def _document(path: Path) -> Iterator[dict[str, Any]]:
    """One JSON document over many lines: a list, or an object with a list of samples or rollouts."""
    if path.stat().st_size > _LARGEST_DOCUMENT:
        raise EvalError(
            f"{path.name} is one JSON document of more than {_LARGEST_DOCUMENT >> 20} MiB",
            fix="Save it with one record per line.",
            code="results-too-big",
        )
    whole = decode(path.read_bytes())
    if whole is None:
        if path.stat().st_size and path.suffix == ".jsonl" and path.name in RESULT_FILES:
            return
        raise EvalError(
            f"{path.name} is neither JSON nor one JSON record per line",
            fix="Name a traces.jsonl or results.jsonl that vf-eval wrote.",
            code="results-unreadable",
        )
    if isinstance(whole, dict):
        if "reward" in whole or "traces" in whole:
            whole = [whole]
        else:
            whole = next((whole[k] for k in _LISTS if isinstance(whole.get(k), list)), [])
    yield from (r for r in whole if isinstance(r, dict))


_LISTS = ("samples", "rollouts", "data", "items", "results")


def _holds_samples(record: Mapping[str, Any]) -> bool:
    return "reward" not in record and "traces" not in record and any(isinstance(record.get(k), list) for k in _LISTS)


# v1


def _from_v1(record: Mapping[str, Any]) -> Iterator[Rollout]:
    traces = record.get("traces", [record])
    task = record.get("task") or {}
    trained = [t for t in traces if (t.get("agent") or {}).get("trainable", True)] or traces
    if not trained:
        yield Rollout(_key(task), None, error=_told(record.get("errors")) or "no trace was recorded", record=record)
    for trace in trained:
        yield _trace(trace, record, several=len(trained) > 1)


def _trace(trace: Mapping[str, Any], episode: Mapping[str, Any], *, several: bool) -> Rollout:
    rewards = trace.get("rewards") or {}
    errors = _told(trace.get("errors")) or _told(episode.get("errors"))
    # A score of NaN is written as null; a reward whose hook raised is null as a whole.
    nonfinite = any(isinstance(r, dict) and _float(r.get("score")) is None for r in rewards.values())
    whole = bool(rewards) and all(isinstance(r, dict) for r in rewards.values())
    components = {
        n: (score, _float(r.get("weight", 1.0)) or 0.0)
        for n, r in rewards.items()
        if isinstance(r, dict) and (score := _float(r.get("score"))) is not None
    }
    if errors is None and not whole and not nonfinite:
        errors = "it was not scored" if rewards or not trace.get("ok", True) else "the environment gave it no reward"
    calls = trace.get("calls") or []
    replies = [
        n["message"] for n in trace.get("nodes") or [] if n.get("sampled") and isinstance(n.get("message"), dict)
    ]
    key = _key(trace.get("task") or episode.get("task") or {})
    name = (trace.get("agent") or {}).get("name")
    scored = errors is None and not nonfinite
    return Rollout(
        task=f"{key}/{name}" if several and name else key,
        reward=math.fsum(s * (w or 0.0) for s, w in components.values()) if scored else None,
        components=components,
        metrics={k: n for k, v in (trace.get("metrics") or {}).items() if (n := _float(v)) is not None},
        error=errors,
        truncated=bool(calls and calls[-1].get("finish_reason") == "length") or trace.get("stop_condition") in _CUT,
        prompt_tokens=_int(trace.get("num_input_tokens")),
        completion_tokens=_int(trace.get("num_output_tokens")),
        seconds=_span(trace.get("timing")),
        completion_text="\n".join(text for m in replies if (text := _text(m.get("content")))),
        stop=trace.get("stop_condition"),
        nonfinite=nonfinite and errors is None,
        id=str(trace.get("id") or episode.get("id") or ""),
        record=trace,
    )


_CUT = frozenset({"max_output_tokens", "max_total_tokens", "max_input_tokens", "context_length"})


def _key(task: Mapping[str, Any]) -> str:
    data = task.get("data") or {}
    return str(task.get("key") or data.get("idx") or task.get("hash") or "?")


def _told(errors: Any) -> str | None:
    if not isinstance(errors, Sequence) or isinstance(errors, str) or not errors:
        return None
    first = errors[0]
    if not isinstance(first, Mapping):
        return str(first)
    status = f" {first['status_code']}" if first.get("status_code") else ""
    return f"{first.get('type', 'error')}{status}: {first.get('message', '')}"


def _span(timing: Any) -> float:
    if not isinstance(timing, Mapping):
        return 0.0
    ends = [s["end"] for s in timing.values() if isinstance(s, Mapping) and isinstance(s.get("end"), int | float)]
    start = timing.get("start")
    return max(0.0, max(ends) - start) if ends and isinstance(start, int | float) else 0.0


# v0


def _from_v0(record: Mapping[str, Any]) -> Iterator[Rollout]:
    error = record.get("error")
    told = None
    if error:
        told = str(error.get("error_chain_str") or error.get("error")) if isinstance(error, Mapping) else str(error)
    reward = _float(record.get("reward"))
    usage = record.get("token_usage") or {}
    metrics = {k: n for k, v in (record.get("metrics") or {}).items() if (n := _float(v)) is not None}
    timing = record.get("timing") or {}
    completion = record.get("completion")
    yield Rollout(
        task=str(record.get("example_id")),
        reward=None if told else reward,
        components={k: (v, None) for k, v in metrics.items() if k not in _COUNTERS},
        metrics=metrics,
        error=told,
        truncated=bool(record.get("is_truncated")),
        prompt_tokens=_int(usage.get("input_tokens")),
        completion_tokens=_int(usage.get("output_tokens")),
        seconds=_float(timing.get("total")) or 0.0,
        completion_text=_said(completion),
        stop=record.get("stop_condition"),
        nonfinite=told is None and reward is None,
        id=str(record.get("rollout_id") or ""),
        record=record,
    )


_COUNTERS = frozenset({"num_turns", "total_tool_calls"})
"""Metrics that v0 records by itself, besides the reward functions."""


# Documents of the platform


def _from_document(record: Mapping[str, Any]) -> Iterator[Rollout]:
    task = next((record[k] for k in _TASK_KEYS if record.get(k) is not None), None)
    if task is None:
        prompt = record.get("prompt")
        task = _said(prompt) if isinstance(prompt, list) else str(prompt)
    reward = _float(record.get("reward"))
    error = record.get("error")
    info = record.get("info")
    metrics = record.get("metrics") or (info.get("metrics") if isinstance(info, Mapping) else None) or {}
    numbers = {k: n for k, v in metrics.items() if (n := _float(v)) is not None} if isinstance(metrics, Mapping) else {}
    yield Rollout(
        task=str(task),
        reward=None if error else reward,
        components={k: (v, None) for k, v in numbers.items() if k not in _COUNTERS},
        metrics=numbers,
        error=str(error) if error else None,
        truncated=bool(record.get("is_truncated") or record.get("truncated")),
        prompt_tokens=_int(record.get("prompt_tokens") or record.get("num_input_tokens")),
        completion_tokens=_int(record.get("completion_tokens") or record.get("num_output_tokens")),
        completion_text=_said(record.get("completion")),
        stop=record.get("stop_condition"),
        nonfinite=not error and reward is None,
        id=str(record.get("id") or record.get("sample_id") or ""),
        record=record,
    )


_TASK_KEYS = ("example_id", "task_key", "problem_id", "task_id", "exampleId", "taskId", "problemId")
_PARSERS = {"v1": _from_v1, "v0": _from_v0, "document": _from_document}


def _said(completion: Any) -> str:
    if isinstance(completion, str):
        return completion
    if not isinstance(completion, list):
        return ""
    said = [m for m in completion if isinstance(m, Mapping)]
    mine = [m for m in said if m.get("role") == "assistant"] or said
    return "\n".join(text for m in mine if (text := _text(m.get("content"))))


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(p.get("text", "")) for p in content if isinstance(p, Mapping))
    return ""


def _float(value: Any) -> float | None:
    """A finite number, else None; `True` is 1.0."""
    if not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def _int(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and math.isfinite(value) else 0
