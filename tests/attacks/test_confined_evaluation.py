"""Environment code inside the real `vf-eval`: what it tries is refused, noted, and no fault of the environment."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import pytest

from prime_lab_mcp.lab.evals import verdict
from prime_lab_mcp.lab.evals.runner import endings
from prime_lab_mcp.lab.evals.runner.attempt import JobAttempt
from prime_lab_mcp.lab.evals.runner.command import JobFiles
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay.endpoints import Endpoint
from prime_lab_mcp.lab.sandbox import kernel_support
from prime_lab_mcp.lab.sandbox.kernel_support import linux_support, present_support
from prime_lab_mcp.lab.state.ledger.rows import Job
from tests.lab.evals.conftest import write_environment
from tests.lab.evals.finished import episode, finished
from tests.lab.evals.scripted import adds, serving

pytestmark = pytest.mark.anyio
needs_processes = pytest.mark.skipif(present_support().processes != "confined", reason="needs Landlock 6 and seccomp")

_SEEN = 'Path("seen.json").write_text(json.dumps(dict(os.environ)))'
_TRIES = """
        import ctypes, signal
        def trace(pid):
            assert ctypes.CDLL(None).ptrace(0x4206, pid, None, None) == 0  # PTRACE_SEIZE does not stop the process
        found = {}
        for name, code in json.loads(ATTEMPTS).items():
            try:
                exec(code)
                found[name] = True
            except BaseException:
                found[name] = False
        Path("seen.json").write_text(json.dumps(found))
"""


def _attempts(lab: Lab) -> dict[str, str]:
    state = lab.settings.state_dir
    return {
        "ledger": f"open({str(lab.settings.ledger)!r}, 'ab').close()",
        "state": f"os.listdir({str(state)!r})",
        "secret": f"open({str(state / 'secret')!r}).read()",
        "kill": f"os.kill({os.getpid()}, signal.SIGCONT)",
        "trace": f"trace({os.getpid()})",
        "udp": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "unix": "import socket; socket.socket(socket.AF_UNIX)",
    }


async def _evaluated(lab: Lab, attempts: dict[str, str]) -> tuple[dict[str, bool], list[str]]:
    """Which attempts succeeded in a reward, and what was noted as refused."""
    lab.settings.state_dir.mkdir(parents=True, exist_ok=True)
    (lab.settings.state_dir / "secret").write_text("secret", encoding="utf-8")
    taskset = write_environment(lab.settings.workspace) / "sums_v1" / "taskset.py"
    hostile = taskset.read_text(encoding="utf-8").replace(f"        {_SEEN}\n", _TRIES)
    taskset.write_text(f"ATTEMPTS = {json.dumps(attempts)!r}\n{hostile}", encoding="utf-8")
    snapshot = await lab.snapshot("sums_v1")
    with serving(adds) as model:
        spec = EvalSpec(
            environment=snapshot.name,
            source=snapshot.source,
            content=snapshot.content,
            tree=snapshot.tree,
            api="v1",
            module="sums_v1",
            python=Path(sys.executable),
            program=Path(sys.executable).parent / "vf-eval",
            verifiers="0.4.0",
            model="scripted",
            endpoint=Endpoint("url", model.url),
            num_examples=1,
            rollouts=1,
            tasks=40,
            max_tokens=64,
        )
        files = JobFiles(lab.settings.evals / "eval-00000001")
        attempt = JobAttempt("eval-00000001", spec, files, lab.ledger, time.time() + 120, ())
        ending = await attempt.run(None)
    assert ending.state == "finished", (ending, files.errors.read_text(encoding="utf-8"))
    (seen,) = files.root.rglob("seen.json")
    return json.loads(seen.read_text(encoding="utf-8")), endings.refusals(files.refused)


def _job(lab: Lab, id: str) -> Job:
    job = lab.ledger.job(id)
    assert job is not None
    return job


@pytest.mark.slow
@needs_processes
async def test_environment_code_in_an_evaluation_is_refused_and_the_refusal_is_noted(lab: Lab) -> None:
    found, noted = await _evaluated(lab, _attempts(lab) | {"own": "open('own', 'w').close()"})
    assert {name for name, succeeded in found.items() if succeeded} == {"own"}, found
    assert noted == [f'"{lab.settings.ledger}"', f'"{lab.settings.state_dir / "secret"}"']


@pytest.mark.slow
async def test_without_confinement_the_same_attempts_succeed_in_an_evaluation(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: the attempts are real ones."""
    nothing = linux_support(0, False)
    monkeypatch.setattr(kernel_support, "_read_kernel_support", lambda: nothing)
    attempts = _attempts(lab)
    found, noted = await _evaluated(lab, attempts)
    failed = {name for name, succeeded in found.items() if not succeeded}
    assert failed <= {"trace"}, found  # the system's own rules (ptrace_scope) may forbid that
    assert noted == []


async def test_a_failed_evaluation_whose_code_was_refused_something_is_inconclusive(lab: Lab) -> None:
    job = finished(lab, [episode(task, 0.0) for task in range(40) for _ in range(4)])
    assert verdict.judge_job(lab, job).status == "failed"
    lab.ledger.update_job(job.id, progress=dict(job.progress) | {"refused": ['"/root/.ssh/id_ed25519"']})
    judged = verdict.judge_job(lab, _job(lab, job.id))
    assert judged.status == "inconclusive"
    assert [(f.code, f.severity) for f in judged.findings if f.code == "confined"] == [("confined", "blocker")]


async def test_rollouts_that_fail_by_a_refusal_are_confined_and_no_errors_of_the_environment(lab: Lab) -> None:
    job = finished(lab, [episode(task, 0.0) for task in range(40) for _ in range(4)])
    rows = [{"error": "PermissionError: [Errno 13] Permission denied: '/root/x'", "rollouts": 12}]
    lab.ledger.update_job(job.id, progress=dict(job.progress) | {"errors": 12, "rollout_errors": rows})
    judged = verdict.judge_job(lab, _job(lab, job.id))
    codes = {f.code for f in judged.findings}
    assert (judged.status, "confined" in codes, "eval-rollouts-raise" in codes) == ("inconclusive", True, False)


def test_an_evaluation_that_ends_by_a_refusal_is_confined(tmp_path: Path) -> None:
    errors = "Traceback\nPermissionError: [Errno 13] Permission denied: '/root/x'\n"
    ended = endings.ending_of_exit(1, errors, tmp_path, 0)
    assert ended is not None
    assert ended.cause == "confined"


def test_the_notes_of_refusals_are_no_way_to_read_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    assert endings.refusals(tmp_path / "link") == endings.refusals(tmp_path / "pipe") == []
