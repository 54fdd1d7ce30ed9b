"""Any evaluation of the account by the platform's own id, read like one of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.evals.hosted import platform
from prime_lab_mcp.lab.evals.hosted.notes import FOREIGN
from prime_lab_mcp.lab.evals.hosted.platform import Status
from prime_lab_mcp.lab.evals.results import read
from prime_lab_mcp.lab.evals.spec import Endpoint, EvalSpec
from prime_lab_mcp.lab.evals.views.viewed import Evaluated
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.text import quote


async def fetch(lab: Lab, id: str) -> Evaluated:
    """Any evaluation of the account by the platform's id, its samples downloaded once it has ended. Raises LabError.

    One that a job of this workspace follows is that job's.
    """
    for run in lab.ledger.runs(id=id, platform=lab.platform, kind="hosted-eval"):
        job = lab.ledger.job(str(run.data.get("job")))
        if job is not None and job.workspace == lab.key and (found := lab.evals.files(job.id).results()):
            return Evaluated(job.id, lab.evals.spec(job), lambda: read(found))
    if not id.replace("_", "").replace("-", "").isalnum():
        raise BadInput(f"{quote(id, 80)} is no id of an evaluation", fix="Use an id from watch_run.")
    answer = await lab.prime.eval_get(id)
    status = platform.status_of(answer)
    target = lab.settings.evals / "platform" / lab.platform / f"{id}.jsonl"
    if status.word not in platform.ENDED or not target.is_file():
        await platform.download(lab.prime, id, target, _unheard)
    return Evaluated(id, _spec(answer, status), lambda: read(target))


async def _unheard(done: int, total: int | None) -> None:
    """For downloads that nobody follows."""


def _spec(answer: Mapping[str, Any], status: Status) -> EvalSpec:
    """As much of a specification as the platform tells of an evaluation that was started elsewhere."""
    names = answer.get("environment_names")
    name = str(names[0]) if isinstance(names, list) and names else "unknown"
    metadata = answer.get("metadata")
    told = metadata if isinstance(metadata, Mapping) else {}
    return EvalSpec(
        environment=name, source=f"{FOREIGN}{name}", content=f"{FOREIGN}{name}", tree=Path(), api="v1",
        module=name.rpartition("/")[2].replace("-", "_"), python=Path(), program=Path(), verifiers="",
        model=status.model or "unknown", endpoint=Endpoint("prime", "https://api.pinference.ai/api/v1"),
        num_examples=int(told.get("num_examples") or 0), rollouts=int(told.get("rollouts_per_example") or 1),
        hosted=name,
    )  # fmt: skip
