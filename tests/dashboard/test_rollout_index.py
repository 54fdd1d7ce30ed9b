"""The browser of rollouts: filters, order, search and pages, on files that grow and on files of 100,000 rollouts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from prime_lab_mcp.dashboard import rollout_index
from prime_lab_mcp.dashboard.rollout_index import RolloutIndex, RolloutQuery
from prime_lab_mcp.lab.base.untrusted_files import open_results
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from tests.lab.evals.finished import episode, finished

MANY = 100_000


def write(path: Path, episodes: list[dict[str, Any]], mode: str = "w") -> Path:
    with path.open(mode, encoding="utf-8") as file:
        file.writelines(json.dumps(one) + "\n" for one in episodes)
    return path


def index_of(path: Path) -> RolloutIndex:
    index = RolloutIndex(path, {"correct": 1.0})
    index.update()
    return index


@pytest.fixture
def index(tmp_path: Path) -> RolloutIndex:
    rewards = [0.0, 1.0, 0.5, None, 1.0, 0.0]
    episodes = [episode(number // 2, reward, f"reply {number} ÄÖ") for number, reward in enumerate(rewards)]
    episodes[5]["traces"][0]["num_output_tokens"] = 99
    return index_of(write(tmp_path / "traces.jsonl", episodes))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (RolloutQuery(), [0, 1, 2, 3, 4, 5]),
        (RolloutQuery("passed"), [1, 2, 4]),
        (RolloutQuery("zero"), [0, 5]),
        (RolloutQuery("error"), [3]),
        (RolloutQuery("truncated"), []),
        (RolloutQuery(order="-reward"), [1, 4, 2, 0, 5, 3]),
        (RolloutQuery(order="reward"), [0, 5, 2, 1, 4, 3]),
        (RolloutQuery(order="-tokens"), [5, 0, 1, 2, 3, 4]),
        (RolloutQuery(task=1), [2, 3]),
        (RolloutQuery(text="REPLY 4"), [4]),
        (RolloutQuery(text="4 ÄÖ"), [4]),
        (RolloutQuery("passed", text='"'), []),
        (RolloutQuery(text="nowhere"), []),
    ],
)
def test_a_query_selects_and_orders(index: RolloutIndex, query: RolloutQuery, expected: list[int]) -> None:
    assert list(index.find(query)) == expected


def test_rollouts_are_read_at_their_place_and_missing_positions_left_out(index: RolloutIndex) -> None:
    read = index.rollouts([4, 0, 77, -1])
    assert [(position, rollout.completion_text) for position, rollout in read] == [
        (4, "reply 4 ÄÖ"),
        (0, "reply 0 ÄÖ"),
    ]


def test_a_file_that_grows_is_read_from_where_the_reading_ended(tmp_path: Path) -> None:
    path = write(tmp_path / "traces.jsonl", [episode(0, 1.0)])
    index = index_of(path)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(episode(1, 0.0))[:80])
    index.update()
    assert len(index) == 1  # half a line is no rollout yet
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text(lines[0] + "\n", encoding="utf-8")
    write(path, [episode(1, 0.0), episode(2, 1.0)], "a")
    index.update()
    assert [rollout.task for _, rollout in index.rollouts(range(9))] == ["k0", "k1", "k2"]
    assert list(index.find(RolloutQuery("passed"))) == [0, 2]


def test_a_file_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "traces.jsonl", [episode(n, 1.0) for n in range(3)])
    index = index_of(path)
    write(tmp_path / "new", [episode(9, 0.0)]).replace(path)
    index.update()
    assert [rollout.task for _, rollout in index.rollouts([0, 1])] == ["k9"]


def test_a_broken_line_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "traces.jsonl", [episode(0, 1.0)])
    with path.open("a", encoding="utf-8") as file:
        file.write("{broken\n\n")
    write(path, [episode(1, 0.0)], "a")
    assert [rollout.task for _, rollout in index_of(path).rollouts(range(5))] == ["k0", "k1"]


class CountingFile:
    """A results file that counts the bytes that are read from it."""

    read = 0

    def __init__(self, path: Path) -> None:
        self._file = open_results(path)

    def _counted(self, line: bytes) -> bytes:
        CountingFile.read += len(line)
        return line

    def __iter__(self) -> Iterator[bytes]:
        return map(self._counted, self._file)

    def readline(self, most: int = -1) -> bytes:
        return self._counted(self._file.readline(most))

    def seek(self, to: int) -> None:
        self._file.seek(to)

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()


@pytest.mark.anyio
async def test_pages_of_100_000_rollouts_read_their_own_lines_only(
    lab: Lab, page: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = finished(lab, [episode(0, 1.0)])
    path = EvaluationJobs(lab).files(job.id).results()
    assert path is not None
    line = json.dumps(episode(0, 1.0))
    with path.open("w", encoding="utf-8") as file:
        for number in range(MANY):
            text = line.replace('"k0"', f'"k{number // 8}"').replace('"id": "t0-', f'"id": "t{number}-')
            if number % 2:
                text = text.replace('"score": 1.0', '"score": 0.0')
            file.write(text + "\n")
    size = path.stat().st_size
    monkeypatch.setattr(rollout_index, "open_results", CountingFile)
    address = f"/api/evaluations/{job.id}/rollouts"
    first = (await page.get(address)).json()
    assert (first["total"], first["matching"], first["pages"], len(first["rows"])) == (MANY, MANY, MANY // 50, 50)
    assert CountingFile.read >= size
    CountingFile.read = 0
    for query in ("page=2000", "page=1000&order=-reward", "outcome=zero&page=999", f"task={MANY // 8 - 1}"):
        answer = await page.get(f"{address}?{query}")
        assert (answer.status_code, len(answer.content) < 100_000) == (200, True)
        assert answer.json()["rows"], query
    assert (await page.get(f"{address}/99999")).json()["task_key"] == f"k{MANY // 8 - 1}"
    assert CountingFile.read < size / 100
