"""Reads a hosted evaluation from the platform: looks it up by name, parses its status and downloads its samples."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError, PrimeError
from prime_lab_mcp.lab.base.text import count, quote, text_or_none
from prime_lab_mcp.lab.prime.answers import finite_number
from prime_lab_mcp.lab.prime.client import Prime

ENDED_STATUSES = frozenset({"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"})
ENDED_WITHOUT_RESULT = ENDED_STATUSES - {"COMPLETED"} | {"DELETED", "STALLED"}
"""Final states without a result, after which the same request may start a new evaluation. DELETED means that the
platform no longer has it, STALLED that our supervisor stopped it because it made no progress."""
TRANSIENT_CODES = frozenset(
    {"platform-unreachable", "platform-failed", "platform-slow", "platform-busy", "prime-failed"}
)
"""Codes of failures after which a request is repeated."""
_PAGE = 100
_TRIES = 4
DownloadProgress = Callable[[int, int | None], Awaitable[None]]
"""Callback that gets the number of downloaded samples, and of all samples if known."""


@dataclass(frozen=True, slots=True)
class HostedStatus:
    """The status of an evaluation on the platform."""

    state: str
    """The platform's word for the state, in capitals, such as RUNNING or COMPLETED."""
    samples: int
    """Number of finished rollouts."""
    mean: float | None
    """Mean reward."""
    error_message: str | None
    """The platform's text about a failure. The text is not trusted."""
    url: str | None
    model: str | None
    planned: int | None


def status_of(answer: Mapping[str, Any]) -> HostedStatus:
    """Parse the answer of `prime eval get` or one row of `prime eval list`."""
    metadata = answer.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    metrics = answer.get("metrics")
    mean = finite_number(answer.get("avg_score"))
    if mean is None and isinstance(metrics, Mapping):
        mean = finite_number(metrics.get("reward"))
    examples, rollouts = (
        finite_number(metadata.get("num_examples")),
        finite_number(metadata.get("rollouts_per_example")),
    )
    return HostedStatus(
        state=str(answer.get("status") or "UNKNOWN").upper(),
        samples=int(finite_number(answer.get("total_samples")) or 0),
        mean=mean,
        error_message=text_or_none(answer.get("error_message")),
        url=text_or_none(answer.get("viewer_url")),
        model=text_or_none(answer.get("model_name") or answer.get("inference_model")),
        planned=int(examples * rollouts) if examples and rollouts else None,
    )


async def find_evaluation(prime: Prime, name: str, ref: str) -> str | None:
    """Return the id of the account's evaluation with exactly this name, or None. Raises PrimeError.

    `ref` is the `owner/name` of the environment.
    """
    for row in await prime.eval_list(name=name, environment=ref):
        if id := text_or_none(row.get("evaluation_id") or row.get("id")):
            return id
    return None


async def download_samples(prime: Prime, id: str, target: Path, progress: DownloadProgress, pause: float = 1.0) -> int:
    """Write every sample of an evaluation into `target`, one JSON record per line; return their number.

    `target` appears only when the file is complete. A page that fails is requested again, after `pause` seconds at
    first; a page that is too big is requested in smaller pages. Raises PrimeError.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_suffix(".part")
    downloaded, size, total = 0, _PAGE, None
    with temporary.open("wb") as sink:
        while True:
            try:
                answer = await _page(prime, id, downloaded // size + 1, size, pause)
            except LabError as error:
                if error.code != "prime-failed" or size == 1:
                    raise
                size = 1 if size % 10 else size // 10
                continue
            rows = [r for r in answer.get("samples") or () if isinstance(r, dict)]
            stated_total = finite_number(answer.get("total"))
            total = int(stated_total) if stated_total is not None else total
            for row in rows:
                sink.write(json.dumps(_as_record(row), ensure_ascii=False).encode() + b"\n")
            downloaded += len(rows)
            await progress(downloaded, total)
            if not rows or downloaded == total or (total is None and len(rows) < size):
                break
            if len(rows) < size:
                if downloaded > len(rows):
                    break  # a short page in the middle shifts all following pages
                size = len(rows)  # the platform returns smaller pages than requested
    if total is not None and downloaded != total:
        raise PrimeError(
            f"the platform gave {downloaded:,} of {count(total, 'sample')} of evaluation {quote(id, 80)}",
            fix="Call again; it downloads them anew.",
            code="hosted-samples-incomplete",
        )
    temporary.replace(target)
    return downloaded


async def _page(prime: Prime, id: str, page: int, size: int, pause: float) -> dict[str, Any]:
    for attempt in range(1, _TRIES + 1):
        try:
            return await prime.eval_samples(id, page, size)
        except LabError as error:
            if error.code not in TRANSIENT_CODES or attempt == _TRIES:
                raise
            await anyio.sleep(pause * 2 ** (attempt - 1))
    raise AssertionError("the last try returns or raises")


def _as_record(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sample with the field names of a rollout. The platform may use input, output and score instead."""
    record = dict(sample)
    for field, platform_field in (("reward", "score"), ("prompt", "input"), ("completion", "output")):
        if field not in record:
            record[field] = sample.get(platform_field)
    return record
