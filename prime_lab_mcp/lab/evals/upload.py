"""Uploading a finished local evaluation to the platform: only when asked, privately, at most once.

`prime eval push` creates the evaluation, sends the samples and finalizes it. Its name ends in eight hex digits of what
is uploaded, so that after a lost answer the platform itself says whether it is there.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab import hub
from prime_lab_mcp.lab.errors import BadInput, EvalError, LabError, PrimeError
from prime_lab_mcp.lab.evals import upload_layout
from prime_lab_mcp.lab.evals.hosted.platform import status_of
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.refusals import Refusal
from prime_lab_mcp.lab.publish import IN_FLIGHT_SECONDS
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.report import Finding, Outcome
from prime_lab_mcp.lab.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What the platform holds. `sent` False: it was there already."""

    id: str
    url: str
    ref: str
    samples: int
    sent: bool

    def as_json(self) -> dict[str, Any]:
        shown = {"id": self.id, "url": self.url, "environment": self.ref, "samples": self.samples}
        return {**shown, "deduplicated": not self.sent}


async def target(lab: Lab, snapshot: Snapshot) -> str:
    """`owner/name` that results of these files belong to. Raises LabError before anything runs."""
    pushes = lab.ledger.pushes(source=snapshot.source, platform=lab.platform)
    if not pushes:
        raise BadInput(
            f"{snapshot.name} as it is now was not published, and an upload belongs to a published environment",
            fix="Run it without upload, call push_environment, then make this call with upload=true: what finished is "
            "uploaded, and not evaluated again.",
            code="upload-unpublished",
        )
    entry = await hub.look_up(lab.prime, pushes[0].owner, pushes[0].name)
    if entry.exists is True:
        return entry.ref
    raise entry.problem or PrimeError(
        f"the Hub does not hold {entry.ref}", fix="Call push_environment, then again.", code="platform-not-found"
    )


def question(ref: str) -> str:
    """What a person is asked beside the evaluation itself."""
    return f"Its rollouts (prompts, completions, rewards) are then uploaded to the platform, privately, under {ref}."


async def reported(lab: Lab, job: Job, ref: str, found: Outcome) -> Outcome:
    """The outcome of a finished evaluation with what came of its upload; a failure of that takes nothing from it."""
    try:
        sent = await upload(lab, job, ref)
    except LabError as error:
        failed = Finding("upload-failed", "warning", f"its results were not uploaded: {error.message}", error.fix)
        return replace(found, findings=(*found.findings, failed))
    return replace(found, data={**found.data, "upload": sent.as_json()})


async def upload(lab: Lab, job: Job, ref: str) -> Uploaded:
    """Send the results of a finished job, unless the platform has them. Raises LabError."""
    expected = job.progress.get("results_sha256")
    results = lab.evals.files(job.id).results()
    if results is None or expected is None:
        raise EvalError(f"evaluation {job.id} has no results", fix="Run run_eval again.", code="results-missing")
    key = hashlib.sha256(json.dumps(["eval-upload", expected, ref, lab.platform]).encode()).hexdigest()
    name = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', job.environment)[:48]}-{key[:8]}"
    claim = lab.ledger.claim(key, "eval-upload", lab.platform)
    if claim.state == "done":
        told = claim.result
        return Uploaded(str(told["id"]), str(told["url"]), ref, int(told["samples"]), False)
    if claim.state == "sent" and not claim.mine and time.time() - claim.at < IN_FLIGHT_SECONDS:
        raise PrimeError(
            f"another server is uploading evaluation {job.id} right now", fix="Call again in ten minutes.",
            code="upload-outcome-unknown",
        )  # fmt: skip
    spec, folder = lab.evals.spec(job), lab.evals.files(job.id).root / "upload"
    facts = {"prime_lab_eval": job.id, "source": job.source, "results_sha256": expected}
    number = await anyio.to_thread.run_sync(upload_layout.write, spec, results, folder, ref, facts)
    if claim.state == "sent" and (there := await _there(lab, folder, name, ref, number)) is not None:
        return _settled(lab, key, there, sent=False)
    try:
        id = await lab.prime.eval_push(folder, ref, name)
    except Refusal as refused:
        # It has several steps, so that even a refusal may leave something behind.
        there = await _there(lab, folder, name, ref, number, refused)
        if there is None:
            lab.ledger.release(key, lab.platform)
            raise
        return _settled(lab, key, there, sent=True)
    return _settled(lab, key, await _whole(lab, id, ref, number), sent=True)


def _settled(lab: Lab, key: str, found: Uploaded, *, sent: bool) -> Uploaded:
    lab.ledger.settle(key, lab.platform, {"id": found.id, "url": found.url, "samples": found.samples})
    return Uploaded(found.id, found.url, found.ref, found.samples, sent)


async def _there(
    lab: Lab, folder: Path, name: str, ref: str, number: int, refused: Refusal | None = None
) -> Uploaded | None:
    """What an earlier attempt left on the platform, made whole where it has no sample yet; None: nothing.

    Raises PrimeError where it cannot be told, or holds a part that sending again would double.
    """
    try:
        rows = await lab.prime.eval_list(name=name, environment=ref)
    except LabError as error:
        if refused is not None and refused.effect == "none":
            raise refused from error  # the next call looks before it sends
        raise PrimeError(
            f"whether the upload {name} arrived is not known: {(refused or error).message}",
            fix="Make the same call again when the platform answers; it looks before it sends.",
            code="upload-outcome-unknown",
        ) from error
    if not rows:
        return None
    id = str(rows[0].get("evaluation_id") or rows[0].get("id"))
    if number and status_of(await lab.prime.eval_get(id)).samples == 0:
        await lab.prime.eval_push(folder, ref, name, into=id)
    return await _whole(lab, id, ref, number)


async def _whole(lab: Lab, id: str, ref: str, number: int) -> Uploaded:
    """What the platform holds, once it is exactly what was sent: prime itself repeats a batch whose answer was lost."""
    status = status_of(await lab.prime.eval_get(id))
    if status.samples != number or status.word != "COMPLETED":
        raise PrimeError(
            f"evaluation {id} on the platform is {status.word} and holds {status.samples} rollouts, not the {number} "
            "of this one",
            fix="Ask the user to delete it on its page, then make the same call again.",
            code="upload-incomplete",
        )
    return Uploaded(id, status.url or "", ref, number, True)
