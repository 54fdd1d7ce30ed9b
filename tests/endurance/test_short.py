"""The short form of `python -m tests.endurance`: a few hundred messages, a few kills."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.endurance.__main__ import inspect_places
from tests.endurance.fuzzing import break_pipes, fuzz_http, fuzz_stdio
from tests.endurance.killing import Kills
from tests.endurance.load import load_servers
from tests.endurance.servers import Place
from tests.endurance.tally import Tally

pytestmark = [pytest.mark.slow, pytest.mark.cold, pytest.mark.rotate(share=3, group="endurance")]
SEED = 5


def test_fuzzed_messages_over_stdio_are_answered(tmp_path: Path) -> None:
    tally, place = Tally(), Place(tmp_path)
    fuzz_stdio(place, tally, SEED, lambda sent: sent < 400, warm=200)
    inspect_places([place], tally)
    assert tally.sound, tally.summary()


def test_fuzzed_messages_over_http_are_answered(tmp_path: Path) -> None:
    tally, place = Tally(), Place(tmp_path)
    fuzz_http(place, tally, SEED, lambda sent: sent < 200, warm=100)
    inspect_places([place], tally)
    assert tally.sound, tally.summary()


def test_kills_and_broken_pipes_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    tally, place = Tally(), Place(tmp_path)
    Kills(place, tally, SEED, dear=False).rounds(lambda done: done < 2, clients=2)
    break_pipes(place, tally, 1)
    inspect_places([place], tally)
    assert tally.sound, tally.summary()


def test_a_steady_load_is_answered_and_nothing_grows(tmp_path: Path) -> None:
    tally, place = Tally(), Place(tmp_path)
    load_servers(place, tally, SEED, lambda calls: calls < 60, lambda calls: calls < 30, clients=1, pause=0)
    inspect_places([place], tally)
    assert tally.sound, tally.summary()
    assert tally.tried["calls of the steady load"] >= 60


@pytest.mark.parametrize(("answered", "sound"), [(0, True), (1, False)])
def test_a_ledger_without_tables_lost_what_was_answered_and_nothing_else(
    tmp_path: Path, answered: int, sound: bool
) -> None:
    """A server that is killed while it starts leaves such a file."""
    tally, place = Tally(), Place(tmp_path)
    kills = Kills(place, tally, SEED, dear=False)
    kills.acknowledged["test_reward"] = answered
    place.state.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(place.state / "ledger.sqlite3")) as database:
        database.execute("PRAGMA journal_mode=WAL")
    kills.rounds(lambda done: done < 1, servers=0)
    assert tally.sound is sound, tally.summary()
