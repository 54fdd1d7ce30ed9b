"""Replies that break the protocol, which environment code could write itself: each is an error, and the child ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import LabError, WorkerError
from prime_lab_mcp.lab.base.load_deadline import shared_load_deadline
from prime_lab_mcp.lab.sandbox.containers.access import ContainerAccess
from prime_lab_mcp.lab.worker import description, host, scoring
from prime_lab_mcp.lab.worker.faults import ProblemCode
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Case, RequestedRollout, StoredRollout, TaskPlace, WantedTasks
from tests.support.scoring import problems

from .conftest import said
from .scripted_child import LOADED, SCORED, answering, worker_of

pytestmark = pytest.mark.anyio

CASES = [said(1, "2", "a"), said(1, "3", "b")]
STORED = StoredRollout("s", 4, {"prompt": "x"}, turns=True, fresh_runtime=False)
LOCATED = {"places": [{"row": 3, "why": "", "task": {"q": 1}}], "unfit": "", "grouped": True, "asked": ["f"]}
ROLLOUTS: dict[str, Any] = {"rollouts": [], "unavailable": "no container", "by_design": True}


@contextmanager
def refused(code: str, words: str) -> Iterator[None]:
    with pytest.raises(WorkerError, match=words) as raised:
        yield
    assert raised.value.code == code
    assert raised.value.fix


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({"result": LOADED, "id": 99}, "99"),
        ({"result": {**LOADED, "rewards": 3}}, "rewards"),
        ({"failed": "in words"}, "in words"),
    ],
)
async def test_a_reply_of_another_form_is_nonsense_and_ends_the_child(
    tmp_path: Path, reply: dict[str, Any], words: str
) -> None:
    with worker_of(tmp_path, answering(load=[reply])) as (worker, _):
        with refused("worker-nonsense", words):
            await worker.load()
        assert not worker.warm
        await worker.close()


async def test_a_line_without_end_is_a_flood(tmp_path: Path) -> None:
    flood = answering(load=[b"x" * 5000])
    with worker_of(tmp_path, flood, limit=1000) as (worker, _), refused("worker-flood", "loading"):
        await worker.load()


async def test_a_child_that_ends_before_its_first_request_is_told(tmp_path: Path) -> None:
    with worker_of(tmp_path, "has ended") as (worker, _), refused("worker-exited", "starting, with exit code 3.*bye"):
        await worker.load()


async def test_a_call_that_is_cancelled_while_it_sends_ends_the_child(tmp_path: Path) -> None:
    with worker_of(tmp_path, "never reads", big="x" * (4 << 20)) as (worker, _):
        with anyio.move_on_after(0.1) as scope:
            await worker.load()
        assert scope.cancelled_caught
        assert list(tmp_path.iterdir()) == []  # the scratch folder is gone with the child


async def test_unfinished_loads_of_one_call_share_their_time(tmp_path: Path) -> None:
    with worker_of(tmp_path, answering(load=[])) as (worker, _), shared_load_deadline(0.6) as deadline:
        with refused("worker-timeout", "within 0.6 seconds"):
            await worker.load()
        assert deadline.limit(60) == 0.5


async def test_loads_that_end_cost_none_of_the_time_of_a_call(tmp_path: Path) -> None:
    described = {"args": [], "held_out": None}
    with worker_of(tmp_path, answering(facts=[{"result": described}])) as (worker, _):
        with shared_load_deadline(30) as deadline:
            assert (await worker.facts()).args == ()
        assert deadline.limit(60) == 30
        await worker.close()


async def test_a_scored_case_is_that_of_its_number_and_form(tmp_path: Path) -> None:
    replies = iter(
        [
            [{"case": 0, "result": SCORED}, {"case": 7, "result": SCORED}],
            [{"case": 0, "result": {"reward": "?"}}],
            [{"case": 0, "result": SCORED}, {}],
        ]
    )
    cases = [*CASES, said(1, "4", "c"), Case("d", 2, [], verdict="yes")]
    with worker_of(tmp_path, lambda r: [{"result": LOADED}] if r["op"] == "load" else next(replies)) as (
        worker,
        zygote,
    ):
        scored = await worker.score(cases)
        await worker.close()
    assert [(s.id, s.reward) for s in scored] == [("a", 1.0), ("b", None), ("c", None), ("d", 1.0)]
    assert [problems(s) for s in scored[1:3]] == [("nonsense",)] * 2
    assert scored[0].details(ProblemCode.WROTE_FILES) == ["/tmp/x"]
    assert [case["verdict"] for case in zygote.requests[-1]["cases"]] == ["yes"]


async def test_what_confinement_refuses_of_the_scoring_itself_is_no_problem_of_one_case(tmp_path: Path) -> None:
    failed = {"type": "PermissionError", "message": "m", "traceback": "", "where": "s.py:3", "refused": "to fork"}
    with worker_of(tmp_path, answering(score=[{"failed": failed}])) as (worker, _), refused("confined", "to fork"):
        await worker.score(CASES)


async def test_stored_rollouts_are_found_and_scored_as_they_were_stored(tmp_path: Path) -> None:
    replies = answering(
        locate=[{"result": LOCATED}],
        rescore=[{"case": 0, "result": SCORED}, {}],
        solutions=[{"result": {"solutions": [[{"text": "a", "calls": [["f", {}]]}], None], "functions": [2]}}],
    )
    with worker_of(tmp_path, replies) as (worker, zygote):
        located = await worker.locate(WantedTasks([{"q": 1}], whole=True))
        scored = await worker.rescore([STORED])
        stated = await worker.solutions([1, 2], seconds=5)
        await worker.close()
    assert (located.places, located.grouped) == ((TaskPlace(3, "", {"q": 1}),), True)
    assert [s.reward for s in scored] == [1.0]
    assert (list(stated.turns), stated.functions) == ([1], (2,))
    asked = {request["op"]: request for request in zygote.requests}
    assert asked["rescore"]["cases"] == [{"id": "s", "row": 4, "record": {"prompt": "x"}}]
    assert (asked["rescore"]["turns"], asked["locate"]["whole"]) == (True, True)


@pytest.mark.parametrize("reply", ["none", [], [SCORED, SCORED]])
async def test_rebuilt_tasks_have_one_score_each(tmp_path: Path, reply: object) -> None:
    with worker_of(tmp_path, answering(serve=[{"result": reply}])) as (worker, _), refused("worker-nonsense", "serve"):
        await worker.serve([({"answer": "1"}, CASES[0])])


async def test_rebuilt_tasks_are_asked_for_as_the_trainer_sends_them(tmp_path: Path) -> None:
    replies = answering(task_data=[{"result": [{"q": 1}, None]}], serve_rollouts=[{"result": ROLLOUTS}])
    asked = RequestedRollout(0, {"turns": ["a"], "then": "repeat"})
    with worker_of(tmp_path, replies) as (worker, zygote):
        data = await worker.task_data([3, 4])
        played = await worker.serve_rollouts([{"q": 1}], [asked], seconds=5)
        await worker.close()
    assert data == [{"q": 1}, None]
    assert (played.unavailable, played.by_design) == ("no container", True)
    requests = {request["op"]: request for request in zygote.requests}
    assert requests["task-data"]["rows"] == [3, 4]
    assert requests["serve-rollouts"]["data"] == [{"q": 1}]
    assert len(requests["serve-rollouts"]["rollouts"]["rollouts"]) == 1


async def test_data_of_tasks_are_one_for_each_row(tmp_path: Path) -> None:
    replies = answering(task_data=[{"result": [{"q": 1}]}])
    with worker_of(tmp_path, replies) as (worker, _), refused("worker-nonsense", "task-data"):
        await worker.task_data([3, 4])


@pytest.mark.parametrize(
    ("decode", "reply"),
    [
        (lambda r: scoring.decode_scored(r, "x"), {**SCORED, "problems": [{"code": "?", "detail": ""}]}),
        (lambda r: scoring.decode_side_effects(r, CASES), [{"alone": 1.0}]),
        (scoring.decode_rollouts, {**ROLLOUTS, "rollouts": [{"end": "never"}]}),
        (lambda r: scoring.decode_stated([1, 2], r), {"solutions": [], "functions": []}),
        (scoring.decode_located, {**LOCATED, "places": [{"row": "x", "why": "", "task": None}]}),
        (description.decode_rows, {"rows": [{"index": 1}], "total": 1}),
        (description.decode_traits, {"args": [{"name": "x"}]}),
    ],
)
async def test_a_field_of_another_type_is_nonsense(decode: Callable[[Any], object], reply: Any) -> None:
    with refused("worker-nonsense", "answered nonsense"):
        decode(reply)


async def test_rollouts_of_one_worker_share_a_broker_of_containers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bool] = []

    @asynccontextmanager
    async def broker(label: str, **limits: Any) -> AsyncIterator[ContainerAccess]:
        opened.append(True)
        if len(opened) == 1:
            raise LabError("Podman does not work", fix="Mend it.", code="eval-needs-sandbox")
        yield ContainerAccess(4711, "token")
        opened.clear()

    monkeypatch.setattr(host, "container_broker", broker)
    monkeypatch.setattr(host, "podman_is_installed", lambda: True)
    with worker_of(tmp_path, answering(rollout=[{"result": ROLLOUTS}])) as (worker, zygote):
        results = [await rolled(worker) for _ in range(3)]
        assert len(opened) == 2
        await worker.close()
    assert {(r.unavailable, r.by_design) for r in results} == {("no container", True)}
    variables = [request.get("containers", {}) for request in zygote.requests if request["op"] == "rollout"]
    assert [v.get("PRIME_LAB_CONTAINERS") for v in variables] == [None, "4711 token", "4711 token"]
    assert opened == []


def rolled(worker: Worker) -> Awaitable[scoring.Rollouts]:
    return worker.rollout([RequestedRollout(1, {})], seconds=5)
