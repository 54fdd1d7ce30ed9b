"""One hosted evaluation as the platform tells of it: started once, found by name, its status, its samples."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.errors import LabError, PrimeError
from prime_lab_mcp.lab.prime import Prime
from prime_lab_mcp.lab.prime.answers import number
from prime_lab_mcp.lab.text import count, quote

ENDED = frozenset({"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"})
OVER = ENDED - {"COMPLETED"} | {"DELETED", "STALLED"}
"""Ended for good without a result: the same request may be started anew. STALLED: stopped by us for that."""
PASSING = frozenset({"platform-unreachable", "platform-failed", "platform-slow", "platform-busy", "prime-failed"})
"""Codes of failures that may be gone at the next try."""
_PAGE = 100
_TRIES = 4
Note = Callable[[int, int | None], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Status:
    """`word` in the platform's capitals; `samples` finished so far."""

    word: str
    samples: int
    mean: float | None
    said: str | None
    """Why it ended badly, in the platform's words (foreign)."""
    url: str | None
    model: str | None
    planned: int | None


def status_of(answer: Mapping[str, Any]) -> Status:
    """What `prime eval get` or one row of `prime eval list` says."""
    metadata = answer.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    metrics = answer.get("metrics")
    mean = number(answer.get("avg_score"))
    if mean is None and isinstance(metrics, Mapping):
        mean = number(metrics.get("reward"))
    examples, rollouts = number(metadata.get("num_examples")), number(metadata.get("rollouts_per_example"))
    return Status(
        word=str(answer.get("status") or "UNKNOWN").upper(),
        samples=int(number(answer.get("total_samples")) or 0),
        mean=mean,
        said=_text(answer.get("error_message")),
        url=_text(answer.get("viewer_url")),
        model=_text(answer.get("model_name") or answer.get("inference_model")),
        planned=int(examples * rollouts) if examples and rollouts else None,
    )


async def find(prime: Prime, name: str, ref: str) -> str | None:
    """Id of the account's evaluation of exactly this name. Raises PrimeError when the platform cannot be asked."""
    for row in await prime.eval_list(name=name, environment=ref):
        if id := _text(row.get("evaluation_id") or row.get("id")):
            return id
    return None


async def download(prime: Prime, id: str, target: Path, note: Note, pause: float = 1.0) -> int:
    """Write every sample of an evaluation, one record per line; `target` appears only when it is whole.

    Returns how many. A page that fails is asked for again, one that is too big in smaller pieces. Raises PrimeError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(".part")
    done, size, total = 0, _PAGE, None
    with part.open("wb") as sink:
        while True:
            try:
                answer = await _page(prime, id, done // size + 1, size, pause)
            except LabError as error:
                if error.code != "prime-failed" or size == 1:
                    raise
                size = 1 if size % 10 else size // 10
                continue
            rows = [r for r in answer.get("samples") or () if isinstance(r, dict)]
            told = number(answer.get("total"))
            total = int(told) if told is not None else total
            for row in rows:
                sink.write(json.dumps(_as_record(row), ensure_ascii=False).encode() + b"\n")
            done += len(rows)
            await note(done, total)
            if not rows or done == total or (total is None and len(rows) < size):
                break
            if len(rows) < size:
                if done > len(rows):
                    break  # a short page in the middle: whatever follows is not where it is looked for
                size = len(rows)  # the platform gives smaller pages than were asked for
    if total is not None and done != total:
        raise PrimeError(
            f"the platform gave {done:,} of {count(total, 'sample')} of evaluation {quote(id, 80)}",
            fix="Call again; it downloads them anew.",
            code="hosted-samples-incomplete",
        )
    part.replace(target)
    return done


async def _page(prime: Prime, id: str, page: int, size: int, pause: float) -> dict[str, Any]:
    for attempt in range(1, _TRIES + 1):
        try:
            return await prime.eval_samples(id, page, size)
        except LabError as error:
            if error.code not in PASSING or attempt == _TRIES:
                raise
            await anyio.sleep(pause * 2 ** (attempt - 1))
    raise AssertionError("the last try returns or raises")


def _as_record(sample: Mapping[str, Any]) -> dict[str, Any]:
    """A sample with the names that readers of results know; the platform also says input, output and score."""
    record = dict(sample)
    for ours, theirs in (("reward", "score"), ("prompt", "input"), ("completion", "output")):
        if ours not in record:
            record[ours] = sample.get(theirs)
    return record


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
