"""Tools are called without a solution: with arguments that descriptions and prompts name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.tool_exploration import find_answer_key, plausible_calls, sql_writes
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import OfferedTool, RequestedRollout, RolloutResult, Rollouts

TEXT = {"type": "string"}


def tool(name: str, description: str = "", **properties: dict[str, object]) -> OfferedTool:
    return OfferedTool(name, description, {"type": "object", "properties": properties, "required": list(properties)})


def test_values_come_from_the_description_of_a_parameter() -> None:
    move = tool("move", source=TEXT | {"description": 'a bin, "A1" or "B2"'}, number={"type": "integer"})
    calls = plausible_calls([move], ["Move 7 bolts."])
    assert calls[0][1]["source"] in ("A1", "B2")
    assert {given["number"] for _, given in calls} >= {7, 1}


def test_two_parameters_with_the_same_values_get_different_ones() -> None:
    shelf = TEXT | {"description": '"north" or "south"'}
    ((_, given), *_) = plausible_calls([tool("carry", source=shelf, target=shelf)], [""])
    assert given["source"] != given["target"]


def test_identifiers_come_from_the_prompt() -> None:
    ((_, given), *_) = plausible_calls([tool("look_up", order=TEXT)], ["Please refund order R-1042."])
    assert given["order"] == "R-1042"


def test_every_tool_is_called_before_any_is_called_again() -> None:
    calls = plausible_calls([tool("a", x=TEXT), tool("b", x=TEXT)], ["some words here"])
    assert [name for name, _ in calls[:2]] == ["a", "b"]


def test_a_tool_that_takes_sql_is_asked_to_write() -> None:
    run = tool("run_sql", "Run one SELECT.", sql=TEXT, shop={"type": "integer"})
    calls = sql_writes([run, tool("search", query=TEXT)], ["Shop 4: how many orders?"], ["orders"])
    assert {(name, given["shop"]) for name, given in calls} == {("run_sql", 4)}
    verbs = [given["sql"].split()[0] for _, given in calls]
    assert verbs == ["SELECT", "SELECT", "CREATE", "INSERT", "DELETE"]


def test_the_names_of_one_sentence_become_the_arguments_of_a_tool_in_their_order() -> None:
    move = tool("move", part=TEXT, source=TEXT, target=TEXT, number={"type": "integer"})
    calls = plausible_calls(
        [move], ["You keep the shelves.\nMove 3 bolt-m6 from B1 to C2.\nMove all nut-8 from C2 to A1."]
    )
    given = [arguments for _, arguments in calls]
    assert {"part": "bolt-m6", "source": "B1", "target": "C2", "number": 3} in given
    assert {"part": "nut-8", "source": "C2", "target": "A1", "number": 1} in given
    assert {"part": "bolt-m6", "source": "C2", "target": "B1", "number": 3} not in given


class Library:
    """A stand-in for a worker: one tool that finds the lines which hold all words."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines

    async def rollout(self, requested: Sequence[RequestedRollout], **_: Any) -> Rollouts:
        return Rollouts(tuple(self._played(asked.script["turns"][0]["calls"]) for asked in requested))

    def _played(self, calls: Sequence[tuple[str, Mapping[str, str]]]) -> RolloutResult:
        messages: list[dict[str, Any]] = [
            {"role": "assistant", "tool_calls": [{"id": f"c{n}"} for n in range(len(calls))]}
        ]
        for number, (_, given) in enumerate(calls):
            words = str(next(iter(given.values()), "")).split()
            found = [line for line in self.lines if all(word in line for word in words)]
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "\n".join(found)})
        return RolloutResult(messages, 0.0, "ended", True, {}, turns=2)


QUESTIONS = {n: f"How many grams does the parcel of customer {n} weigh on the scale of the shop?" for n in range(8)}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.parametrize(("lines", "keyed"), [("quiz", True), ("notes", False)])
async def test_data_that_hold_the_question_without_the_unit_of_the_prompt_are_an_answer_key(
    lines: str, keyed: bool
) -> None:
    told = {
        "quiz": [json.dumps({"question": question, "answer": 100 + n}) for n, question in QUESTIONS.items()],
        "notes": [f"customer {n} sent a parcel of {100 + n} grams" for n in QUESTIONS],
    }
    rows = [
        Row(n, str(n), ({"role": "user", "content": f"{question} (in grams)"},), None, None, {})
        for n, question in QUESTIONS.items()
    ]
    golds = [SimpleNamespace(row=n, forms=(str(100 + n),)) for n in QUESTIONS]
    style = cast(AnswerStyle, SimpleNamespace(golds=SimpleNamespace(golds=golds)))
    search = OfferedTool("search", "Find lines.", {"type": "object", "properties": {"words": {"type": "string"}}})
    key = await find_answer_key(cast(Worker, Library(told[lines])), style, rows, [search])
    assert (key is not None) == keyed


TOPICS = ("network", "printing", "accounts", "hardware")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("archive", "keyed"),
    [("the tickets", True), ("other tickets", False), ("other queues", False), ("what was asked", False)],
)
async def test_an_archive_that_lists_the_ticket_of_a_task_with_its_queue_is_an_answer_key(
    archive: str, keyed: bool
) -> None:
    """The archive showed the subject alone, which is one line of the prompt, and so was no answer key."""
    subjects = {n: f"The device of room {n} does not answer any more" for n in range(8)}
    queues = {n: TOPICS[n % len(TOPICS)] for n in subjects}
    listed = {
        "the tickets": [f"- {subjects[n]} -> {queues[n]}" for n in subjects],
        "other tickets": [f"- The device of floor {n} does not answer any more -> {queues[n]}" for n in subjects],
        "other queues": [f"- {subjects[n]} -> {queues[(n + 1) % 8]}" for n in subjects],
        "what was asked": [f"found for {subjects[n]} Please have a look: {queues[n]}" for n in subjects],
    }
    rows = [
        Row(n, str(n), ({"role": "user", "content": f"Subject: {subjects[n]}\n\nPlease have a look."},), None, None, {})
        for n in subjects
    ]
    style = cast(
        AnswerStyle,
        SimpleNamespace(golds=SimpleNamespace(golds=[SimpleNamespace(row=n, forms=(queues[n],)) for n in subjects])),
    )
    search = OfferedTool("search", "Find tickets.", {"type": "object", "properties": {"words": {"type": "string"}}})
    key = await find_answer_key(cast(Worker, Archive(listed[archive])), style, rows, [search])
    assert (key is not None) == keyed


class Archive(Library):
    """One tool that lists the three lines which share most words with what is searched."""

    def _played(self, calls: Sequence[tuple[str, Mapping[str, str]]]) -> RolloutResult:
        played = super()._played(calls)
        for message, (_, given) in zip(played.messages[1:], calls, strict=True):
            words = set(str(next(iter(given.values()), "")).split())
            best = sorted(self.lines, key=lambda line: -len(words & set(line.split())))
            message["content"] = "\n".join(best[:3])
        return played
