"""Parts of solutions, played in small games."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import anyio
import pytest

from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.rules.solution_parts import solution_part_paid
from prime_lab_mcp.lab.rewards.scripts import PlayedScript
from prime_lab_mcp.lab.rewards.solution_parts import play_parts
from prime_lab_mcp.lab.rewards.solutions import Solved, solution_script
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Component, RequestedRollout, RolloutResult, Rollouts

Game = Callable[[Sequence[str]], tuple[float, list[str]]]
"""Returns the reward of some turns, and what the game answers to each of them."""
WALKS = (
    ["EAST", "MEND", "EAST", "MEND", "EAST", "EAST", "MEND"],
    ["EAST", "EAST", "MEND", "EAST", "MEND", "EAST", "MEND"],
    ["EAST", "MEND", "EAST", "EAST", "MEND", "EAST", "MEND"],
)


class Table:
    """A stand-in for a worker that plays one game."""

    def __init__(self, game: Game) -> None:
        self.game = game

    async def rollout(self, plays: Sequence[RequestedRollout], **_: Any) -> Rollouts:
        return Rollouts(tuple(self.played(play.script["turns"]) for play in plays), "", False)

    def played(self, turns: Sequence[str]) -> RolloutResult:
        reward, answers = self.game(turns)
        messages = [
            {"role": role, "content": text}
            for turn, answer in zip(turns, answers, strict=True)
            for role, text in (("assistant", turn), ("user", answer))
        ]
        return RolloutResult(tuple(messages), reward, "ended", True, {"score": Component(reward, 1.0)}, ms=5.0)


def blockers(game: Game, solutions: Sequence[list[str]], prompt: str = "") -> list[str]:
    """What `test_reward` says of a game with these solutions."""
    table = Table(game)
    played = [PlayedScript(n, solution_script(True), table.played(turns)) for n, turns in enumerate(solutions)]
    parts = anyio.run(play_parts, cast("Worker", table), Solved(tuple(played)), dict.fromkeys(range(9), prompt))
    trial = Trial(rewards=(), style=None, form_requested=False, parts=parts)
    return [f.message.partition(":")[0] for f in solution_part_paid(trial) if f.severity == "blocker"]


def fences(once: bool) -> Game:
    """Fences that are broken where a walk mends them first; each walk tells its own."""

    def play(turns: Sequence[str]) -> tuple[float, list[str]]:
        at, mended, told = 0, [], []
        for turn in turns[:14]:
            at += turn == "EAST"
            mended += [at] if turn == "MEND" else []
            told.append(f"field {at}")
        told += [""] * (len(turns) - len(told))
        return min(1.0, len(set(mended) if once else mended) / 3), told

    return play


@pytest.mark.parametrize(("once", "said"), [(False, ["what was paid once is paid again"]), (True, [])])
def test_a_paid_turn_that_is_paid_again_blocks(once: bool, said: list[str]) -> None:
    assert blockers(fences(once), WALKS) == said


def hay(once: bool) -> Game:
    """Bales are brought to barns over ways of different lengths; each turn costs a little."""

    def play(turns: Sequence[str]) -> tuple[float, list[str]]:
        at, held, unloaded, told = 0, False, [], []
        for turn in turns[:40]:
            at += {"EAST": 1, "WEST": -1}.get(turn, 0)
            unloaded += [at] if turn == "UNLOAD" and held else []
            held = turn == "LOAD" or (held and turn != "UNLOAD")
            told.append(f"field {at}, {'with' if held else 'without'} a bale")
        told += [""] * (len(turns) - len(told))
        return len(set(unloaded) if once else unloaded) / 2 - 0.01 * min(40, len(turns)), told

    return play


@pytest.mark.parametrize(("once", "said"), [(False, ["what was paid once is paid again"]), (True, [])])
def test_a_long_way_before_the_paid_turn_hides_no_farming_where_turns_cost_something(
    once: bool, said: list[str]
) -> None:
    ways = [["LOAD", *["EAST"] * n, "UNLOAD", *["WEST"] * n, "LOAD", *["WEST"] * (9 - n), "UNLOAD"] for n in (5, 6, 3)]
    assert blockers(hay(once), [["WEST", "EAST"] * n + way for n, way in enumerate(ways)]) == said


@pytest.mark.parametrize(("of_all", "said"), [(False, ["a small part of the task is paid like all of it"]), (True, [])])
def test_a_share_of_what_was_tried_blocks(of_all: bool, said: list[str]) -> None:
    def quiz(turns: Sequence[str]) -> tuple[float, list[str]]:
        answers = list(turns)[:5]
        right = sum(turn.endswith(f"{place}0") for place, turn in enumerate(answers))
        return right / (5 if of_all else max(1, len(answers))), ["next"] * len(turns)

    assert blockers(quiz, [[f"ANSWER {n}{k}0" for k in range(5)] for n in range(1, 4)]) == said


@pytest.mark.parametrize("reads_sign", [True, False])
def test_negative_numbers_block_where_the_game_takes_them(reads_sign: bool) -> None:
    def shop(turns: Sequence[str]) -> tuple[float, list[str]]:
        bought = [int(n) for turn in turns for n in re.findall(r"BUY (-?\d+)" if reads_sign else r"BUY \D*(\d+)", turn)]
        return float(all(abs(n) < 9 for n in bought)), [f"you have {20 - sum(bought)}"] * len(turns)

    said = blockers(shop, [[f"BUY {n} nuts", "BUY 2 figs"] for n in range(3, 6)])
    assert said == (["negative numbers are taken"] if reads_sign else [])


@pytest.mark.parametrize("refused", [True, False])
def test_one_card_that_counts_as_a_pair_blocks(refused: bool) -> None:
    def memory(turns: Sequence[str]) -> tuple[float, list[str]]:
        pairs = [re.findall(r"\d+", turn) for turn in turns]
        found = [abs(int(a) - int(b)) == 2 or (a == b and not refused) for a, b in pairs]
        return float(sum(found) == 2), [f"{a} {b}" for a, b in pairs]

    said = blockers(memory, [[f"FLIP {n} {n + 2}", "FLIP 8 6"] for n in range(1, 4)])
    assert said == ([] if refused else ["one thing counts as two"])


def bank(refuses: bool) -> Game:
    """Coins move from one account to another, and only the last account is looked at."""

    def play(turns: Sequence[str]) -> tuple[float, list[str]]:
        coins, told = {"Ann": 30, "Bo": 30, "Cy": 0}, []
        for turn in turns:
            match = re.fullmatch(r"MOVE (\w+) (\w+) (-?\d+)", turn)
            if match is None or (refuses and not 0 < int(match[3]) <= coins[match[1]]):
                told.append("refused")
                continue
            coins[match[1]] -= int(match[3])
            coins[match[2]] += int(match[3])
            told.append(f"moved {match[3]}")
        return float(coins["Cy"] == 20), told

    return play


@pytest.mark.parametrize(
    ("refuses", "prompt", "said"),
    [
        (False, "", ["negative numbers are taken the other way round"]),
        (True, "", []),
        (False, "A negative number moves coins back.", []),
    ],
)
def test_a_negative_amount_the_other_way_round_blocks_where_no_sign_is_meant(
    refuses: bool, prompt: str, said: list[str]
) -> None:
    solutions = [["MOVE Ann Cy 20"], ["MOVE Bo Cy 20"], ["MOVE Ann Cy 5", "MOVE Bo Cy 15"]]
    assert blockers(bank(refuses), solutions, prompt) == said


LAMPS = "Commands: north, south, east, west, light (the room's lamp), douse (the lamp), wait. Reply `DO: command, ...`."


def lamps(taken_back: bool) -> Game:
    """A lamp stands in each of four rooms; a careless count grows with each lamp that is lit."""

    def play(turns: Sequence[str]) -> tuple[float, list[str]]:
        room, counted = "north", 0
        lit: set[str] = set()
        told: list[str] = []
        for turn in turns:
            for command in re.sub(r"DO: |</?program>", "", turn).split(", "):
                room = command if command in ("north", "south", "east", "west") else room
                counted += command == "light" and room not in lit
                lit = lit | {room} if command == "light" else lit - {room} if command == "douse" else lit
            told.append(f"You are {room}, {'burning' if room in lit else 'dark'}.")
        return min(1.0, (len(lit) if taken_back else counted) / 4), told

    return play


@pytest.mark.parametrize("form", ["DO: {}", "<program>{}</program>"])
@pytest.mark.parametrize(("taken_back", "said"), [(False, ["what was undone is paid again"]), (True, [])])
def test_a_step_that_is_undone_and_paid_again_blocks(taken_back: bool, said: list[str], form: str) -> None:
    rooms = ["south", "east", "north", "west"]
    walks = [[form.format(f"{room}, light") for room in rooms[n:] + rooms[:n]] for n in range(2)]
    walks += [["I look at the map first.", *walks[0]]]
    assert blockers(lamps(taken_back), walks, LAMPS) == said
