"""The evaluation whose stored replies can be scored with a reward that was mended since.

Scoring them again is free, but refused where the tasks ask something else now (checks.py). So the stored prompts are
compared with the present ones before anybody is led there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.datasets.task_golds import message_text
from prime_lab_mcp.lab.evals.rescore.checks import SHARE
from prime_lab_mcp.lab.evals.rescore.stored import record_format, stored_rollouts
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.rollouts.conversation import Message, conversation
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.worker.description import Rows

_TASKS = 64
"""Number of tasks of an evaluation whose prompts are compared."""
_FEWEST = 5.0
"""Number of compared tasks that a sample of the present tasks should hold before their absence means something."""

_Prompt = tuple[str, tuple[str, ...]]
"""A prompt without white space: the system prompt, and the other messages."""


def evaluation_to_rescore(lab: Lab, snapshot: Snapshot, named: Mapping[str, Any], present: Rows) -> Job | None:
    """Return the newest evaluation of the environment with these arguments, if its files were edited since and its
    tasks ask what they asked then; None otherwise. `present` are tasks of the environment."""
    jobs = [job for job in EvaluationJobs(lab).list(snapshot.name) if job.platform in (None, lab.platform)]
    fitting = [j for j in jobs if dict(j.spec.get("env_args") or {}) == dict(named) and not j.spec.get("hosted")]
    if not fitting or fitting[0].state != "finished" or fitting[0].source == snapshot.source:
        return None
    return None if _ask_otherwise(lab, fitting[0], present) else fitting[0]


def _ask_otherwise(lab: Lab, job: Job, present: Rows) -> bool:
    """Whether more stored prompts than may differ are certainly none of the present ones."""
    now = [_prompt((str(m.get("role")), message_text(m)) for m in row.prompt) for row in present.rows]
    now = [prompt for prompt in now if prompt[1]]
    stored: list[_Prompt] = []
    with suppress(LabError, OSError):
        stored = list(_stored_prompts(lab, job))
    if not now or not stored:
        return False
    gone = sum(not any(_is_asked_by(then, one) for one in now) for then in stored)
    covered = 1.0 if present.total is None else len(present.rows) / max(1, present.total)
    if covered >= 1:
        return gone > SHARE * len(stored)
    return gone == len(stored) and covered * len(stored) >= _FEWEST


def _is_asked_by(stored: _Prompt, present: _Prompt) -> bool:
    """Whether a stored conversation begins with a present prompt. A system prompt counts where both have one."""
    (was, asked), (is_now, asks) = stored, present
    return asked[: len(asks)] == asks and (not was or not is_now or was == is_now)


def _stored_prompts(lab: Lab, job: Job) -> Iterator[_Prompt]:
    """The prompts of the first tasks of an evaluation, each once."""
    spec, path = EvaluationJobs(lab).spec(job), EvaluationJobs(lab).files(job.id).results()
    seen: set[str] = set()
    for record in stored_rollouts(path, record_format(spec.api), spec.api) if path is not None else ():
        if record.task in seen:
            continue
        seen.add(record.task)
        opening: Sequence[Message] = list(takewhile(lambda m: m.role != "assistant", conversation(record.rollout)))
        prompt = _prompt((m.role, m.text) for m in opening)
        if prompt[1]:
            yield prompt
        if len(seen) >= _TASKS:
            return


def _prompt(messages: Iterator[tuple[str, str]]) -> _Prompt:
    read = [(role, "".join(text.split())) for role, text in messages]
    system = "".join(text for role, text in read if role == "system")
    return system, tuple(text for role, text in read if role != "system")
