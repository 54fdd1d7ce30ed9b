"""The five intents where one earlier fault each was: dead holders, hosted starts, and ledgers of an earlier day."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.configs.config import read_config
from prime_lab_mcp.lab.evals.hosted.following import HostedStart
from prime_lab_mcp.lab.evals.upload import EvalUpload
from prime_lab_mcp.lab.hub import publish
from prime_lab_mcp.lab.hub.lookup import HubEntry
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.once import Once, reserved
from prime_lab_mcp.lab.training import submission
from prime_lab_mcp.lab.training.bound import CostBound
from prime_lab_mcp.lab.training.resumption import submission_at
from prime_lab_mcp.lab.training.submission import write_sent_copy
from tests.support.evaluations import hosted_spec
from tests.support.wheels import quick_wheel
from tests.tools.loopback import CONFIG, MODULE, PYPROJECT
from tests.tools.stand_in_prime import StandInPrime, server

pytestmark = pytest.mark.anyio
KEY = "cd" * 32


@pytest.fixture(autouse=True)
def wheels_without_a_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "build_pushed_wheel", quick_wheel)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def claimed_and_killed(ledger: Path, key: str, kind: str, *, sending: bool = True) -> None:
    """Another server claims an intent, begins to send unless `sending` is False, and is killed."""
    program = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom prime_lab_mcp.lab.state.ledger.ledger import Ledger\n"
        "ledger = Ledger(Path(sys.argv[1]))\nclaim = ledger.claim(sys.argv[2], sys.argv[3], 'rehearsal')\n"
        "noted = {'phase': 'sending', 'since': claim.at}\n"
        "if sys.argv[4:]:\n    ledger.note(sys.argv[2], 'rehearsal', claim.attempt, noted)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    arguments = [str(ledger), key, kind, *(["sending"] if sending else [])]
    done = subprocess.run([sys.executable, "-c", program, *arguments], check=False)
    assert done.returncode == -9


# A killed server


async def pushed(lab: Lab) -> tuple[str, Any]:
    folder = lab.workspace.root / "environments" / "tiny_sums"
    (folder / "tiny_sums").mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (folder / "README.md").write_text("# sums\n", encoding="utf-8")
    (folder / "tiny_sums" / "__init__.py").write_text(MODULE, encoding="utf-8")
    taken = await lab.snapshot("tiny_sums")
    target = publish.PublishTarget("me", "tiny-sums", "0.1.0", None, "PRIVATE", HubEntry("me", "tiny-sums", False))
    key = publish.publish_key(lab, taken, target)
    return key, lambda: publish.send_push(lab, taken, target, key, "v1", publish.PublishRequest())


async def test_after_a_kill_in_the_middle_of_a_push_the_next_call_pushes_at_once(tmp_path: Path) -> None:
    prime = StandInPrime()
    lab = server(tmp_path, prime)
    key, push = await pushed(lab)
    claimed_and_killed(lab.settings.ledger, key, "push")
    published = await push()
    assert (published.was_sent, prime.sent) == (True, ["push"])
    lab.ledger.close()


async def test_a_push_of_a_server_that_lives_is_not_repeated(tmp_path: Path) -> None:
    prime = StandInPrime()
    lab = server(tmp_path, prime)
    key, push = await pushed(lab)
    other = Ledger(lab.settings.ledger)
    other.claim(key, "push", "rehearsal")
    with pytest.raises(LabError) as caught:
        await push()
    assert (caught.value.code, prime.sent) == ("push-in-flight", [])
    other.close()
    lab.ledger.close()


async def test_after_a_kill_in_the_middle_of_an_upload_the_next_call_uploads(tmp_path: Path) -> None:
    prime = StandInPrime()
    lab = server(tmp_path, prime)
    intent = EvalUpload(lab, tmp_path, key=KEY, name="sums-cdcdcdcd", ref="me/sums", number=3)
    claimed_and_killed(lab.settings.ledger, KEY, "eval-upload")
    with pytest.raises(LabError) as caught:
        await Once(lab.ledger).send(intent)
    assert caught.value.code == "upload-outcome-unknown"
    lab.ledger.now = lambda clock=lab.ledger.now: clock() + intent.delays.landing  # type: ignore[misc]
    settled = await Once(lab.ledger).send(intent)
    assert settled is not None
    assert (settled.sent, settled.value.samples, prime.sent) == (True, 3, ["upload"])
    lab.ledger.close()


# Hosted evaluations


def hosted(lab: Lab) -> HostedStart:
    return HostedStart(
        lab.prime, lab.ledger, lab.platform, hosted_spec(), key=KEY, name="sums-cdcdcdcd", job="eval-1", workspace="w"
    )


async def test_of_two_supervisors_that_find_a_lost_hosted_start_only_one_starts_it_again(tmp_path: Path) -> None:
    prime = StandInPrime()
    labs = [server(tmp_path, prime), server(tmp_path, prime)]
    claimed_and_killed(labs[0].settings.ledger, KEY, "eval")
    with pytest.raises(LabError):
        await Once(labs[0].ledger).send(hosted(labs[0]))  # what was sent may still arrive
    values: list[str] = []

    async def start(lab: Lab) -> None:
        lab.ledger.now = lambda clock=lab.ledger.now: clock() + 60  # type: ignore[misc]
        settled = await Once(lab.ledger).send(hosted(lab))
        assert settled is not None
        values.append(settled.value)

    async with anyio.create_task_group() as both:
        for lab in labs:
            both.start_soon(start, lab)
    assert (values, prime.sent) == (["ev-0", "ev-0"], ["hosted"])
    for lab in labs:
        lab.ledger.close()


async def test_a_start_that_was_claimed_and_never_sent_is_sent_at_once(tmp_path: Path) -> None:
    prime = StandInPrime()
    lab = server(tmp_path, prime)
    claimed_and_killed(lab.settings.ledger, KEY, "eval", sending=False)
    settled = await Once(lab.ledger).send(hosted(lab))
    assert settled is not None
    assert (settled.sent, prime.sent) == (True, ["hosted"])
    lab.ledger.close()


# An older ledger


async def test_a_ledger_from_an_older_backup_starts_no_second_run_of_the_same_name(tmp_path: Path) -> None:
    prime = StandInPrime()
    lab = server(tmp_path, prime)
    path = lab.workspace.root / "run.toml"
    path.write_text(CONFIG, encoding="utf-8")
    config, cost = read_config(path), CostBound(4.0, 10.0, 2.5, "")

    async def submitted(lab: Lab) -> str | None:
        at = await submission.run_standing(lab, config)
        started = None
        if at.state == "fresh":
            started = await submission.submit_run(
                lab, submission_at(lab, config, at, cost, write_sent_copy(lab, config, at.name, at.key), None)
            )
        return started.id if started is not None else (await submission.run_standing(lab, config)).id

    first = await submitted(lab)
    lab.ledger.close()
    for file in lab.settings.ledger.parent.glob(f"{lab.settings.ledger.name}*"):
        file.unlink()
    restored = server(tmp_path, prime)
    assert await submitted(restored) == first
    assert prime.sent == ["submit"]
    assert restored.ledger.spent("rehearsal") == 10.0
    restored.ledger.close()


async def test_a_sender_whose_claim_was_taken_over_meanwhile_sends_nothing(tmp_path: Path) -> None:
    """A machine that slept between its look and its sending wakes up when another one has sent."""
    prime = StandInPrime()
    lab = server(tmp_path, prime)
    other, intent = Ledger(lab.settings.ledger), hosted(lab)

    async def taken_meanwhile(**options: Any) -> list[dict[str, Any]]:
        other.claim(KEY, "eval", "rehearsal", after=1)
        return []

    prime.eval_list = taken_meanwhile  # type: ignore[method-assign, assignment]
    with pytest.raises(LabError) as caught:
        await Once(lab.ledger).send(intent)
    assert (caught.value.code, prime.sent) == ("hosted-outcome-unknown", [])
    known = lab.ledger.intent(KEY, "rehearsal")
    assert known is not None
    assert (known.state, known.attempt) == ("sent", 2)
    other.close()
    lab.ledger.close()


# Money


def test_what_certainly_had_no_effect_is_not_counted_and_what_may_have_had_one_is(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l.sqlite3")
    with reserved(ledger, "a", "prime", 30.0, "a", 50.0) as fits:
        assert fits
    assert ledger.spent("prime") == 0.0
    with reserved(ledger, "b", "prime", 30.0, "b", 50.0) as fits:
        assert fits
        ledger.claim("b", "submit", "prime")
    assert ledger.spent("prime") == 30.0
    with reserved(ledger, "c", "prime", 30.0, "c", 50.0) as fits:
        assert not fits
    # The same intent once more is not counted twice.
    with reserved(ledger, "b", "prime", 40.0, "b", 50.0) as fits:
        assert fits
    assert ledger.spent("prime") == 40.0
    ledger.close()
