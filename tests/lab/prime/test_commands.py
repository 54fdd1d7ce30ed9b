"""Each method writes its command of `prime`, and reads what the command prints. A stand-in prints what a test wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.process import CompletedProcess
from prime_lab_mcp.lab.prime import client, program, refusals
from prime_lab_mcp.lab.prime.answers import Submitted
from prime_lab_mcp.lab.prime.client import Prime
from prime_lab_mcp.lab.prime.per_call import PlatformAnswers
from prime_lab_mcp.lab.prime.pods import GpuOffer, Pod
from prime_lab_mcp.lab.prime.program import PrimeProgram

from .test_client import NEW, real, stand_in

pytestmark = pytest.mark.anyio


class Told:
    """A `prime` that prints `answers` by the first word that its command has, and exits with `code`."""

    def __init__(self, folder: Path) -> None:
        self._asked, self._answers = folder / "asked", folder / "answers"
        self._folder = folder
        body = f"""
import json
with open({str(self._asked)!r}, "a") as asked:
    asked.write(json.dumps(sys.argv[1:]) + "\\n")
with open({str(self._answers)!r}) as file:
    answers = json.load(file)
answer, code = next(given for word, given in answers.items() if word in sys.argv or word == "*")
print(answer if isinstance(answer, str) else json.dumps(answer))
sys.exit(code)
"""
        stand_in(folder / "bin" / "a", NEW + body)

    def prime(self, **answers: object) -> Prime:
        """A client whose platform answers so. A pair is an answer and an exit code; `rest` is for every other word."""
        pairs = {word: given if isinstance(given, tuple) else (given, 0) for word, given in answers.items()}
        rest = pairs.pop("rest", ({}, 0))
        self._answers.write_text(json.dumps({**pairs, "*": rest}), encoding="utf-8")
        self._asked.write_text("", encoding="utf-8")
        return real(self._folder)

    def asked(self) -> list[str]:
        return [" ".join(json.loads(line)) for line in self._asked.read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return Told(tmp_path_factory.mktemp("told"))


Asking = Callable[[Prime], Awaitable[Any]]


@pytest.mark.parametrize(
    ("ask", "command", "printed", "result"),
    [
        (
            lambda p: p.env_secrets("o/n"),
            "env secret list o/n -o json",
            {"secrets": [{"name": "KEY"}, {"id": 1}]},
            ("KEY",),
        ),
        (lambda p: p.env_variables("o/n"), "env var list o/n -o json", {"variables": [{"name": "A"}]}, ("A",)),
        (lambda p: p.env_inspect("o/n", "a.py"), "env inspect o/n a.py -o json", {"content": "x"}, {"content": "x"}),
        (lambda p: p.train_pause("r"), "--plain train pause r -f", "Paused.", "Paused."),
        (lambda p: p.train_restart("r"), "--plain train restart r -f", "Restarted.", "Restarted."),
        (
            lambda p: p.train_logs("r", "env-server", 5, "o/n"),
            "--plain train logs r -c env-server -n 5 --env o/n",
            "line",
            "line\n",
        ),
        (
            lambda p: p.train_resume("r", secrets={"HF_TOKEN": "t"}),
            "train resume r -o json -y -e HF_TOKEN",
            {"run": {"runId": "r2"}},
            Submitted("r2", None, None),
        ),
        (
            lambda p: p.train_submit(Path("/tmp/c.toml"), resume_from="r:5", secrets={"WANDB_API_KEY": "k"}),
            "train run /tmp/c.toml -o json -y --resume-from r:5 -e WANDB_API_KEY",
            {"run": {"runId": "r3", "gpuType": "H100_80GB"}},
            Submitted("r3", None, None, "H100_80GB"),
        ),
        (
            lambda p: p.eval_hosted("o/n", model="m", num_examples=2, rollouts=3, name="e", env_args={"level": 1}),
            '--plain eval run o/n --hosted -m m -n 2 -r 3 --eval-name e -a {"level": 1}',
            "Evaluation ID: e1",
            "e1",
        ),
        (
            lambda p: p.eval_list(environment="o/n"),
            "eval list -n 100 -p 1 -e o/n -o json",
            {"evaluations": [{"name": "e"}], "total": 1},
            [{"name": "e"}],
        ),
        (lambda p: p.eval_get("e1"), "eval get e1 -o json", {"id": "e1"}, {"id": "e1"}),
        (
            lambda p: p.eval_samples("e1", 2, 5),
            "eval samples e1 -p 2 -n 5 -o json",
            {"samples": []},
            {"samples": []},
        ),
        (
            lambda p: p.eval_push(Path("/tmp"), "o/n", "e", into="e1"),
            "eval push /tmp -e o/n --name e --eval e1",
            "Evaluation ID: e1",
            "e1",
        ),
        (lambda p: p.eval_stop("e1"), "--plain eval stop e1", "Stopped.", "Stopped."),
    ],
)
async def test_a_method_writes_its_command_and_reads_its_answer(
    told: Told, ask: Asking, command: str, printed: object, result: object
) -> None:
    assert await ask(told.prime(rest=printed)) == result
    assert told.asked() == [command]


@pytest.mark.parametrize(
    "ask",
    [
        lambda p: p.eval_hosted("o/n", model="m", num_examples=2, rollouts=3, name="e"),
        lambda p: p.eval_push(Path("/tmp"), "o/n", "e"),
        lambda p: p.gpu_offers(1),
    ],
)
async def test_an_answer_that_does_not_say_what_was_done_is_garbled(told: Told, ask: Asking) -> None:
    with pytest.raises(refusals.PrimeRefusal) as refused:
        await ask(told.prime(rest="Error fetching availability: done"))
    assert (refused.value.code, refused.value.effect) == ("prime-failed", "unknown")


@pytest.mark.parametrize(
    ("printed", "words"),
    [("Done.", "pushing the environment: .*Done"), ("Successfully pushed o/n", "reading what the push wrote down")],
)
async def test_a_push_that_is_not_said_and_written_down_is_garbled(
    told: Told, tmp_path: Path, printed: str, words: str
) -> None:
    with pytest.raises(refusals.PrimeRefusal, match=words) as refused:
        await told.prime(rest=printed).env_push(tmp_path, tmp_path / "a.whl", runtime="v1")
    assert (refused.value.code, refused.value.effect) == ("prime-failed", "unknown")


async def test_runs_are_listed_page_by_page_until_all_or_none_are_left(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = {"name": "a"}
    assert await told.prime(rest={"runs": [row, row], "total": 5}).train_list("a", limit=3) == [row] * 3
    assert [asked.split(" -o")[0] for asked in told.asked()] == ["train list -n 100 -p 1", "train list -n 100 -p 2"]
    monkeypatch.setattr(client, "_MAX_PAGES", 2)
    assert await told.prime(rest={"runs": [row], "total": 9}).train_list() == [row] * 2
    assert await told.prime(rest={"evaluations": [row], "total": 9}).eval_list("b") == []
    assert len(told.asked()) == 2


async def test_a_validation_that_prints_no_json_was_not_made(told: Told) -> None:
    answer = await told.prime(rest=("no json", 1)).train_validate(Path("/tmp/c.toml"))
    assert answer.outcome == "unavailable"


async def test_a_log_that_cannot_be_read_is_refused_and_one_that_does_not_come_says_why(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(refusals.PrimeRefusal) as refused:
        await told.prime(rest=("Error: HTTP 404: no such run", 1)).train_logs("r")
    assert refused.value.code == "platform-not-found"

    async def hangs(*_: object, **__: object) -> CompletedProcess:
        raise refusals.refusal_of_kind(refusals.SLOW, "reading")

    monkeypatch.setattr(PrimeProgram, "_start", hangs)
    with pytest.raises(refusals.PrimeRefusal, match="within 3 seconds; a run that has not started has no log"):
        await told.prime().train_logs("r", seconds=3)


async def test_the_login_has_changed_where_its_file_or_a_variable_has(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PRIME_INFERENCE_URL", raising=False)
    prime = told.prime()
    nobody = await prime.login_stamp()
    assert await prime.login_stamp() == nobody
    (tmp_path / ".prime").mkdir()
    (tmp_path / ".prime" / "config.json").write_text("{}", encoding="utf-8")
    somebody = await prime.login_stamp()
    monkeypatch.setenv("PRIME_INFERENCE_URL", "https://models.example.com/v1/")
    assert len({nobody, somebody, await prime.login_stamp()}) == 3
    assert await prime.inference_url() == "https://models.example.com/v1"


OFFER = {
    "id": "b",
    "price_value": 2.0,
    "gpu_count": 1,
    "gpu_type": "H100_80GB",
    "provider": "x\n",
    "location": None,
    "stock_status": "High",
    "is_spot": True,
}


async def test_offers_without_a_price_or_memory_are_left_out_and_the_others_begin_with_the_cheapest(
    told: Told,
) -> None:
    rows = [
        OFFER,
        {**OFFER, "id": "a", "price_value": 1.5, "gpu_type": "A6000", "gpu_memory": 48},
        {**OFFER, "price_value": None},
        {**OFFER, "gpu_type": "A6000"},
        "none",
    ]
    offers = await told.prime(rest={"gpu_resources": rows}).gpu_offers(1)
    assert told.asked() == ["availability list --gpu-count 1 --output json"]
    assert [(offer.id, offer.memory_gb, offer.price_per_hour) for offer in offers] == [("a", 48, 1.5), ("b", 80, 2.0)]
    assert offers[1] == GpuOffer("b", "H100_80GB", 1, 80, 2.0, '"x\\n"', "", "High", True)


async def test_pods_that_are_billed_are_listed_and_their_price_is_unknown_if_it_cannot_be_asked(told: Told) -> None:
    pod = {"id": "p1", "name": "mine", "gpu": "H100", "status": "ACTIVE", "created_at": "2026-01-01"}
    rows = [pod, {**pod, "id": "p2", "name": None}, {**pod, "id": "p3", "status": "TERMINATED"}]
    prime = told.prime(list={"pods": rows}, p1={"cost_per_hour": "2.5"}, p2=("Error: HTTP 500: broken", 1))
    assert await prime.pods() == (
        Pod("p1", "mine", "H100", "ACTIVE", "2026-01-01", 2.5),
        Pod("p2", "p2", "H100", "ACTIVE", "2026-01-01", None),
    )
    assert sorted(told.asked()) == [
        "pods list --output json",
        "pods status p1 --output json",
        "pods status p2 --output json",
    ]


async def test_answers_are_asked_once_in_one_call(told: Told) -> None:
    prime = told.prime(models={"data": [{"id": "m"}]}, rest={"content": "x"})
    answers = PlatformAnswers(lambda: prime)

    async def ask() -> None:
        assert await answers.inference_models() == [{"id": "m"}]
        assert await answers.env_inspect("o/n") == {"content": "x"}

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
    await answers.ask_entries_ahead(["o/n"])
    assert told.asked() == ["inference models -o json", "env inspect o/n -o json"]


@pytest.mark.parametrize("printed", ["no json", "[1]", '[{"code": 0}, {"code": 0}]'])
async def test_commands_whose_common_answer_cannot_be_read_are_sent_one_by_one(
    told: Told, printed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    several = tmp_path / "several.py"
    several.write_text(f"print({printed!r})", encoding="utf-8")
    monkeypatch.setattr(program, "SEVERAL_COMMANDS", several)
    monkeypatch.setattr(program, "_python_of", lambda path: sys.executable)
    monkeypatch.setattr(program, "installed_version", lambda path: "0.18.0")
    prime = told.prime(wallet={"balance_usd": 3}, whoami="User ID   u1")
    async with prime.account_asked_ahead():
        assert (await prime.wallet()).balance == 3.0
    assert told.asked() == ["wallet -n 1 -o json"]
