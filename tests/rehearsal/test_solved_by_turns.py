"""The scripted model in conversations with tools and turns: it follows a solution with its stated skill."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from prime_lab_mcp.rehearsal.answers import AnswerBook, parse_row
from prime_lab_mcp.rehearsal.model import Conversation, answer

LOOK_UP: list[dict[str, Any]] = [
    {"text": None, "calls": [{"name": "find", "arguments": {"name": "Ada"}}]},
    {"text": "Now her age.", "calls": [{"name": "age", "arguments": {"id": 7}}]},
    {"text": "<answer>36</answer>", "calls": []},
]
GAME: list[dict[str, Any]] = [{"text": f"<guess>{word}</guess>", "calls": []} for word in ("crane", "slate")]
Message = dict[str, Any]


def book(turns: list[dict[str, Any]], gold: str, prompts: int, before: int = 0) -> AnswerBook:
    rows = [{"prompt": f"Task {n}", "answer": gold, "turns": turns, "before": before} for n in range(prompts)]
    return AnswerBook.of(map(parse_row, rows))


def result(call: dict[str, Any]) -> str:
    return "error: no JSON" if "raw" in call else "a row"


def conversation(
    model: str, known: AnswerBook, first: list[Message], nth: int, reply: Callable[[int], str | None]
) -> list[Message]:
    """One rollout: tools answer calls, and `reply` answers the texts until it returns None."""
    messages = list(first)
    for turn in range(8):
        said = answer(model, Conversation.of(messages), known, nth=nth, tools=True)
        calls = [
            {
                "id": f"c{turn}",
                "function": {"name": c["name"], "arguments": c.get("raw", json.dumps(c.get("arguments")))},
            }
            for c in said.calls
        ]
        messages.append({"role": "assistant", "content": said.text, **({"tool_calls": calls} if calls else {})})
        messages += [{"role": "tool", "tool_call_id": f"c{turn}", "content": result(c)} for c in said.calls]
        if not calls:
            more = reply(turn)
            if more is None:
                return messages
            messages.append({"role": "user", "content": more})
    raise AssertionError("the conversation does not end")


def calls_of(messages: list[Message]) -> list[tuple[str, str]]:
    functions = [c["function"] for m in messages for c in m.get("tool_calls") or ()]
    return [(f["name"], f["arguments"]) for f in functions]


def looked_up(model: str, prompts: int = 150, nth: int = 4) -> list[list[Message]]:
    known = book(LOOK_UP, "36", prompts)
    tasks = [[{"role": "user", "content": f"Task {n}"}] for n in range(prompts)]
    return [conversation(model, known, task, n, lambda _: None) for task in tasks for n in range(nth)]


def solved(messages: list[Message]) -> bool:
    wanted = [("find", '{"name": "Ada"}'), ("age", '{"id": 7}')]
    return calls_of(messages) == wanted and messages[-1]["content"] == "<answer>36</answer>"


@pytest.mark.parametrize(
    ("model", "skill"), [("skill-0", 0.0), ("skill-20", 0.2), ("skill-50", 0.5), ("skill-100", 1.0)]
)
def test_a_solution_is_followed_to_its_end_as_often_as_the_skill_says(model: str, skill: float) -> None:
    share = sum(map(solved, found := looked_up(f"rehearsal/{model}"))) / len(found)

    assert share == pytest.approx(skill, abs=0.06 if 0 < skill < 1 else 0)


def test_failures_skip_the_tool_call_it_wrongly_or_stop_early() -> None:
    failed = [messages for messages in looked_up("rehearsal/skill-50") if not solved(messages)]
    kinds = Counter(
        "broken"
        if any(m["content"] == "error: no JSON" for m in found)
        else "skipped"
        if not calls_of(found) and "<answer>" in found[-1]["content"]
        else "gave up"
        if "<answer>" not in found[-1]["content"]
        else "called"
        for found in failed
    )
    right = [found for found in failed if found[-1]["content"] == "<answer>36</answer>"]

    assert min(kinds[kind] for kind in ("broken", "skipped", "gave up", "called")) >= 5
    assert right
    assert not any(len(calls_of(found)) == 2 for found in right)


def test_turns_without_tools_are_followed_and_a_wrong_turn_is_never_taken_back() -> None:
    known = book(GAME, "slate", 100)
    tasks = [[{"role": "user", "content": f"Task {n}"}] for n in range(100)]
    games = [
        conversation("rehearsal/skill-50", known, task, n, lambda turn: "no, guess again" if turn == 0 else None)
        for task in tasks
        for n in range(4)
    ]
    texts = [[m["content"] for m in game if m["role"] == "assistant"] for game in games]
    won = sum(said == [turn["text"] for turn in GAME] for said in texts)

    assert won / len(texts) == pytest.approx(0.5, abs=0.07)
    assert all(said[0] == GAME[0]["text"] for said in texts if said[-1] == GAME[-1]["text"])


def test_replies_that_are_part_of_the_prompt_are_no_turns_of_the_model() -> None:
    scored_probes = [{"role": "user", "content": "An example"}, {"role": "assistant", "content": "<answer>1</answer>"}]
    known = book(LOOK_UP, "36", 1, before=1)
    messages = conversation(
        "rehearsal/skill-100", known, [*scored_probes, {"role": "user", "content": "Task 0"}], 0, lambda _: None
    )

    assert solved(messages)


def test_after_the_end_of_its_solution_the_model_says_that_it_is_done() -> None:
    messages = conversation(
        "rehearsal/skill-100",
        book(GAME[:1], "crane", 1),
        [{"role": "user", "content": "Task 0"}],
        0,
        lambda turn: "and now?" if turn == 0 else None,
    )

    assert [m["content"] for m in messages if m["role"] == "assistant"] == ["<guess>crane</guess>", "Done."]


def test_a_wrong_reply_of_several_fields_is_wrong_in_the_others_half_of_the_time() -> None:
    """A component that pays the other field was the same for every rollout, and the advice was to drop it."""
    whole = [{"text": "<queue>loans</queue>\n<urgency>\n3\n</urgency>", "calls": []}]
    known = book(whole, "loans", 100)
    replies = [
        conversation("rehearsal/skill-0", known, [{"role": "user", "content": f"Task {n}"}], nth, lambda _: None)
        for n in range(100)
        for nth in range(2)
    ]
    texts = [str(messages[-1]["content"]) for messages in replies]
    assert not any("<queue>loans</queue>" in text for text in texts)
    right = sum("<urgency>\n3\n</urgency>" in text for text in texts)
    assert right / len(texts) == pytest.approx(0.5, abs=0.1)
