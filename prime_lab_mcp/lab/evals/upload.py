"""Uploads a finished local evaluation to the platform: only on request, privately, and at most once.

`write_upload` writes the results in the layout that `prime eval push` takes, which is that of verifiers 0.2:
metadata.json, and results.jsonl with one rollout per line. A rollout of v1 is reduced to the fields that the platform's
pages show: prompt, completion, answer, reward and metrics. Credentials are removed.

`prime eval push` creates the evaluation, sends the samples and finalizes the evaluation. The name of the evaluation
ends in eight hex digits of a hash of the results. If the response was lost, the evaluation is looked up by this name.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import BadInput, EvalError, LabError, PrimeError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.settings import Platform
from prime_lab_mcp.lab.base.text import redact
from prime_lab_mcp.lab.evals.hosted.platform import status_of
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.hub import lookup
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.refusals import PrimeRefusal, ended_by_force, had_no_effect
from prime_lab_mcp.lab.rollouts.conversation import conversation, gold, task_data
from prime_lab_mcp.lab.rollouts.reading import read_rollouts
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.once import AtMostOnce, Delays, Lookup, Once, PartlyDoneError
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot


def write_upload(spec: EvalSpec, results: Path, folder: Path, ref: str, facts: Mapping[str, Any]) -> int:
    """Write the results file `results` into `folder` as an upload; return the number of rollouts.

    `ref` is the `owner/name` of the environment on the Hub. `facts` are added to the metadata.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sums: dict[str, list[float]] = defaultdict(list)
    indices: dict[str, int] = {}
    number = 0
    with (folder / "results.jsonl").open("w", encoding="utf-8") as sink:
        for rollout in read_rollouts(results):
            row = _row(rollout, indices.setdefault(rollout.task, len(indices)))
            # The reply of a tool may contain a key that the environment received.
            sink.write(redact(json.dumps(_finite(row), ensure_ascii=False, default=str)) + "\n")
            number += 1
            scores = {"reward": rollout.reward, **rollout.metrics, **{k: v for k, (v, _) in rollout.components.items()}}
            for name, score in scores.items():
                if score is not None:
                    sums[name].append(score)
    metadata = {
        "env_id": ref,
        "env": ref,
        "model": spec.model,
        "num_examples": len(indices),
        "rollouts_per_example": spec.rollouts,
        "sampling_args": spec.sampling,
        "env_args": dict(spec.env_args),
        "framework": "verifiers",
        "verifiers_version": spec.verifiers,
        **facts,
        **{f"avg_{name}": math.fsum(numbers) / len(numbers) for name, numbers in sums.items()},
    }
    (folder / "metadata.json").write_text(redact(json.dumps(_finite(metadata), default=str)), encoding="utf-8")
    return number


def _row(rollout: Rollout, example: int) -> dict[str, Any]:
    messages = conversation(rollout)
    first = next((i for i, m in enumerate(messages) if m.role == "assistant"), len(messages))
    return {
        "example_id": example,
        "task": rollout.task,
        "rollout_id": rollout.id,
        "prompt": [m.as_chat_message() for m in messages[:first]],
        "completion": [m.as_chat_message() for m in messages[first:]],
        "answer": gold(rollout),
        "reward": rollout.reward,
        "error": rollout.error,
        "metrics": {**rollout.metrics, **{k: v for k, (v, _) in rollout.components.items()}},
        "is_truncated": rollout.truncated,
        "stop_condition": rollout.stop,
        "info": dict(task_data(rollout)),
        "num_input_tokens": rollout.prompt_tokens,
        "num_output_tokens": rollout.completion_tokens,
    }


def _finite(value: Any) -> Any:
    """Replace NaN and infinity by None, because JSON has neither and the platform refuses them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return value


DELAYS: Mapping[Platform, Delays] = {
    # prime takes at most 600 s; a second call, for an evaluation that the first left empty, takes as long.
    "prime": Delays(limit=1300.0, landing=60.0, landing_after_failure=60.0),
    "rehearsal": Delays(limit=1300.0, landing=2.0, landing_after_failure=0.0),
}


@dataclass(frozen=True, slots=True)
class Upload:
    """An uploaded evaluation: its id and page on the platform, and the number of its rollouts.

    `sent` is False if the platform already had the evaluation before this call.
    """

    id: str
    url: str
    ref: str
    samples: int
    sent: bool

    def as_json(self) -> dict[str, Any]:
        fields = {"id": self.id, "url": self.url, "environment": self.ref, "samples": self.samples}
        return {**fields, "deduplicated": not self.sent}


async def upload_target(lab: Lab, snapshot: Snapshot) -> str:
    """Return the `owner/name` on the Hub to which results of this snapshot belong.

    Raises LabError if this snapshot was not pushed or the Hub does not have the environment.
    """
    pushes = lab.ledger.pushes(source=snapshot.source, platform=lab.platform)
    if not pushes:
        raise BadInput(
            f"{snapshot.name} as it is now was not published, and an upload belongs to a published environment",
            fix=Fix(
                "Run it without upload, call ",
                NamedCall("push_environment"),
                ", then make this call with ",
                SameCall(upload=True),
                ": what finished is uploaded, and not evaluated again.",
            ),
            code="upload-unpublished",
        )
    entry = await lookup.look_up_environment(lab.prime, pushes[0].owner, pushes[0].name)
    if entry.exists is True:
        return entry.ref
    raise entry.problem or PrimeError(
        f"the Hub does not hold {entry.ref}",
        fix=Fix("Call ", NamedCall("push_environment"), ", then again."),
        code="platform-not-found",
    )


def upload_question(ref: str) -> str:
    """Return the sentence about the upload that is added to the question before the evaluation starts."""
    return f"Its rollouts (prompts, completions, rewards) are then uploaded to the platform, privately, under {ref}."


async def outcome_with_upload(lab: Lab, job: Job, ref: str, outcome: Outcome) -> Outcome:
    """Upload the results of a job and return its outcome with the upload. A failed upload only adds a warning."""
    try:
        upload = await upload_results(lab, job, ref)
    except LabError as error:
        failed = Finding("upload-failed", "warning", f"its results were not uploaded: {error.message}", error.fix)
        return replace(outcome, findings=(*outcome.findings, failed))
    return replace(outcome, data={**outcome.data, "upload": upload.as_json()})


async def upload_results(lab: Lab, job: Job, ref: str) -> Upload:
    """Upload the results of a finished job unless the platform has them already. Raises LabError."""
    expected = job.progress.get("results_sha256")
    results = EvaluationJobs(lab).files(job.id).results()
    if results is None or expected is None:
        raise EvalError(
            f"evaluation {job.id} has no results",
            fix=Fix("Run ", NamedCall("run_eval"), " again."),
            code="results-missing",
        )
    key = hashlib.sha256(json.dumps(["eval-upload", expected, ref, lab.platform]).encode()).hexdigest()
    name = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', job.environment)[:48]}-{key[:8]}"
    spec, folder = EvaluationJobs(lab).spec(job), EvaluationJobs(lab).files(job.id).root / "upload"
    earlier = lab.ledger.intent(key, lab.platform)
    number = 0
    if earlier is None or earlier.state != "done":
        facts = {"prime_lab_eval": job.id, "source": job.source, "results_sha256": expected}
        number = await anyio.to_thread.run_sync(write_upload, spec, results, folder, ref, facts)
    intent = EvalUpload(lab, folder, key=key, name=name, ref=ref, number=number)
    settled = await Once(lab.ledger).send(intent)
    if settled is None:
        raise intent.in_flight()
    return replace(settled.value, sent=settled.sent)


class EvalUpload(AtMostOnce[Upload]):
    """The intent to upload the `number` rollouts in `folder` as one evaluation named `name` of the environment `ref`.

    `key` identifies the intent in the ledger.
    """

    kind = "eval-upload"

    def __init__(self, lab: Lab, folder: Path, *, key: str, name: str, ref: str, number: int) -> None:
        super().__init__(key, lab.platform, DELAYS[lab.platform])
        self._lab, self._folder, self._name, self._ref, self._number = lab, folder, name, ref, number
        self._empty: str | None = None
        """Id of an evaluation that an earlier attempt created on the platform without any rollout."""

    async def send(self) -> Upload:
        try:
            id = await self._lab.prime.eval_push(self._folder, self._ref, self._name, into=self._empty)
        except PrimeRefusal as refused:
            # The first of several steps may have succeeded. Sending again would duplicate rollouts that are in flight.
            if self.delays.landing_after_failure or self.ended_by_force(refused):
                raise
            lookup_result = await self.look_up(None)
            if lookup_result.value is not None:
                return lookup_result.value
            if self._empty is None:
                raise
            id = await self._lab.prime.eval_push(self._folder, self._ref, self._name, into=self._empty)
        return await self._require_complete(id)

    async def look_up(self, before: Mapping[str, Any] | None) -> Lookup[Upload]:
        """Find the evaluation by name.

        Raises PartlyDoneError if the platform has some of its rollouts, which a second upload would duplicate.
        """
        rows = await self._lab.prime.eval_list(name=self._name, environment=self._ref)
        if not rows:
            return Lookup(None)
        id = str(rows[0].get("evaluation_id") or rows[0].get("id"))
        if self._number and status_of(await self._lab.prime.eval_get(id)).samples == 0:
            self._empty = id
            return Lookup(None)
        return Lookup(await self._require_complete(id))

    async def _require_complete(self, id: str) -> Upload:
        """Return the upload if the platform has exactly the rollouts that were sent. Raises PartlyDoneError otherwise.

        prime repeats a batch whose response was lost, so the platform may have too many rollouts.
        """
        status = status_of(await self._lab.prime.eval_get(id))
        if status.samples != self._number or status.state != "COMPLETED":
            raise PartlyDoneError(
                f"evaluation {id} on the platform is {status.state} and holds {status.samples} rollouts, not the "
                f"{self._number} of this one",
                fix="Ask the user to delete it on its page, then make the same call again.",
                code="upload-incomplete",
            )
        return Upload(id, status.url or "", self._ref, self._number, True)

    def had_no_effect(self, error: LabError) -> bool:
        return had_no_effect(error)

    def ended_by_force(self, error: LabError) -> bool:
        return ended_by_force(error)

    def as_result(self, value: Upload) -> Mapping[str, Any]:
        return {"id": value.id, "url": value.url, "samples": value.samples}

    def from_result(self, result: Mapping[str, Any]) -> Upload:
        return Upload(str(result["id"]), str(result["url"]), self._ref, int(result["samples"]), False)

    def in_flight(self) -> LabError:
        return PrimeError(
            f"another server is uploading {self._name} right now",
            fix="Make the same call again in a minute.",
            code="upload-outcome-unknown",
        )

    def unknown(self, why: str, seconds: float) -> LabError:
        return PrimeError(
            f"whether the upload {self._name} arrived is not known: {why}",
            fix="Make the same call again when the platform answers; it looks before it sends.",
            code="upload-outcome-unknown",
        )
