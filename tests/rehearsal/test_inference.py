"""The scripted model: its stated skill, its forms, its faults."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from prime_lab_mcp.rehearsal.answers import AnswerBook, Gold, normal, parse_row, solve, wrong
from prime_lab_mcp.rehearsal.model import Conversation, answer, form
from prime_lab_mcp.rehearsal.skill import chance
from prime_lab_mcp.rehearsal.store import Store
from tests.rehearsal.conftest import Platform

CHAT = "/inference/v1/chat/completions"
TAGS = "Put only the final number inside <answer></answer> tags."


def ask(question: str, system: str = TAGS, **more: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return {"model": "rehearsal/skill-50", "messages": messages, **more}


def said(answer: Any) -> str:
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text


def _share_right(model: str, prompts: int, calls: int) -> float:
    right = 0
    for i in range(prompts):
        messages = [
            {"role": "system", "content": TAGS},
            {"role": "user", "content": f"Task {i}: what is {i} + 7?"},
        ]
        talk = Conversation.of(messages)
        for nth in range(calls):
            right += answer(model, talk, AnswerBook(), nth=nth).text == f"<answer>{i + 7}</answer>"
    return right / (prompts * calls)


@pytest.mark.parametrize(
    ("model", "skill"),
    [
        ("rehearsal/skill-0", 0.0),
        ("Qwen/Qwen3-0.6B", 0.15),
        ("Qwen/Qwen3-4B-Instruct-2507", 0.45),
        ("rehearsal/skill-50", 0.5),
        ("rehearsal/skill-83", 0.83),
        ("rehearsal/skill-100", 1.0),
    ],
)
def test_a_model_solves_as_many_as_its_skill_says(model: str, skill: float) -> None:
    share = _share_right(model, prompts=300, calls=8)

    assert share == pytest.approx(skill, abs=0.0 if skill in (0.0, 1.0) else 0.05)


def test_prompts_differ_in_difficulty_and_groups_have_mixed_outcomes() -> None:
    chances = [chance(0.5, q / 100) for q in range(1, 100)]

    assert chances == sorted(chances)
    assert chances[5] < 0.15
    assert chances[-5] > 0.85


@given(st.floats(0.02, 0.98), st.floats(0.001, 0.999))
@settings(max_examples=60, deadline=None)
def test_a_chance_is_a_probability_and_never_falls_with_skill(skill: float, q: float) -> None:
    assert 0.0 <= chance(skill, q) <= chance(min(1.0, skill + 0.02), q) + 1e-6 <= 1.0 + 1e-5


def test_the_nth_call_of_a_prompt_always_gives_the_same_reply(client: TestClient, tmp_path: Any) -> None:
    from prime_lab_mcp.rehearsal.app import build

    other = TestClient(build(Store(tmp_path / "other")), base_url="http://127.0.0.1:1")
    other.headers.update(client.headers)
    here = [said(client.post(CHAT, json=ask("What is 12 * 3?"))) for _ in range(12)]
    there = [said(other.post(CHAT, json=ask("What is 12 * 3?"))) for _ in range(12)]

    assert here == there
    assert len(set(here)) > 1


def test_a_streamed_reply_equals_the_whole_one(client: TestClient) -> None:
    body = ask("What is 12 * 3?", temperature=0)
    whole = client.post(CHAT, json=body).json()

    body |= {"stream": True, "stream_options": {"include_usage": True}}
    lines = client.post(CHAT, json=body).text.split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]

    assert lines[-2] == "data: [DONE]"
    text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"])
    assert text == whole["choices"][0]["message"]["content"]
    assert chunks[-2]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert chunks[-1]["usage"] == whole["usage"]


@pytest.mark.parametrize(
    ("system", "reply"),
    [
        (TAGS, "<answer>72</answer>"),
        ("Reply with \\boxed{} around the number.", "\\boxed{72}"),
        ("End with #### and the number.", "\n#### 72"),
        ("Think in <think></think>, reply in <answer></answer>.", "</think>\n<answer>72</answer>"),
        ('Reply as JSON: {"result": <number>}', '{"result": "72"}'),
        ("Reply in a ```python block.", "```python\n72\n```"),
        ("Be brief.", "72"),
    ],
)
def test_a_registered_answer_is_given_in_the_form_that_is_asked_for(
    client: TestClient, system: str, reply: str
) -> None:
    question = "Natalia sold clips to 48 of her friends in April, and half as many in May."
    rows = [{"prompt": question, "answer": "48 / 2 = 24, 48 + 24 = 72\n#### 72"}]
    assert client.post("/rehearsal/answers", json={"answers": rows}).json()["stored"] == 1

    body = ask(f"Question:\n  {question}  How many?", system) | {"model": "rehearsal/skill-100"}

    assert said(client.post(CHAT, json=body)).endswith(reply)


def test_an_answer_that_is_no_text_is_kept_as_json() -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": [{"role": "user", "content": "List two primes."}], "answer": [2, 3]},
        {"prompt_sha256": "ab", "answer": 7},
    ]

    assert [parse_row(row)["answer"] for row in rows] == ["[2, 3]", "7"]
    with pytest.raises(ValueError, match="answer is required"):
        parse_row({"prompt": "x"})
    with pytest.raises(ValueError, match="prompt"):
        parse_row({"answer": "x"})


def test_answers_in_the_state_folder_count_too(client: TestClient, store: Store) -> None:
    row = {"prompt": "Which animal says moo?", "answer": "cow"}
    (store.folder / "answers.jsonl").write_text(json.dumps(row) + "\n{half", encoding="utf-8")

    body = ask("Which animal says moo?", "Be brief.") | {"model": "rehearsal/skill-100"}

    assert said(client.post(CHAT, json=body)) == "cow"


def test_a_tool_is_called_first_and_its_result_leads_to_the_answer(client: TestClient) -> None:
    call = {"name": "weather", "arguments": {"city": "Oslo"}}
    row = {"prompt": "Is it cold in Oslo today?", "answer": "yes", "tool_calls": [call]}
    client.post("/rehearsal/answers", json={"answers": [row]})
    body = ask("Is it cold in Oslo today?") | {"model": "rehearsal/skill-100", "tools": [{}]}

    first = client.post(CHAT, json=body).json()["choices"][0]
    made = first["message"]["tool_calls"]
    body["messages"] += [first["message"], {"role": "tool", "content": "-4", "tool_call_id": "0"}]

    assert first["finish_reason"] == "tool_calls"
    assert json.loads(made[0]["function"]["arguments"]) == {"city": "Oslo"}
    assert said(client.post(CHAT, json=body)) == "<answer>yes</answer>"


def test_a_reply_is_cut_at_the_token_limit(client: TestClient) -> None:
    body = ask("What is 2 + 2?", max_tokens=2) | {"model": "rehearsal/skill-100"}

    answered = client.post(CHAT, json=body).json()

    assert answered["choices"][0]["finish_reason"] == "length"
    assert answered["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("What is (3 + 4) * 2?", "14"),
        ("Compute 1,200 / 16.", "75"),
        ("7 × 8 - 6 =", "50"),
        ("No sum here, 3 apples", None),
    ],
)
def test_sums_in_a_prompt_are_solved_without_a_registered_answer(question: str, value: str | None) -> None:
    found = solve("", question)

    assert (found.answer if found else None) == value


@given(st.sampled_from(["7", "-3.5", "B", "true", "Yes", "\\frac{1}{2}", "cow", "two words"]))
def test_a_wrong_answer_is_never_the_right_one(right: str) -> None:
    import random

    for seed in range(20):
        given = wrong(right, ["cow", "horse", "two words"], random.Random(seed))
        assert normal(given).lower() != normal(right).lower()


def test_a_prompt_inside_another_is_found_only_where_nothing_longer_fits() -> None:
    rows = [
        {"prompt": "What is the capital?", "answer": "short"},
        {"prompt": "What is the capital? Of Norway, I mean.", "answer": "Oslo"},
    ]
    book = AnswerBook.of(map(parse_row, rows))

    assert book.find(["Q: What is the capital? Of Norway, I mean. A:"]) == Gold("Oslo")


@pytest.mark.parametrize("kind", ["429", "500", "503"])
def test_a_faulty_model_answers_with_its_error(client: TestClient, kind: str) -> None:
    by_name = client.post(CHAT, json=ask("1 + 1") | {"model": f"rehearsal/fault-{kind}"})
    client.post("/rehearsal/faults", json={"scope": "model", "kind": kind, "times": 1})
    ordered = [client.post(CHAT, json=ask("1 + 1")).status_code for _ in range(2)]

    assert by_name.status_code == int(kind)
    assert by_name.json()["error"]["message"]
    assert ordered == [int(kind), 200]


def test_a_share_of_calls_can_be_faulty(client: TestClient) -> None:
    client.post("/rehearsal/faults", json={"scope": "model", "kind": "empty", "share": 0.3})

    replies = [said(client.post(CHAT, json=ask("1 + 1"))) for _ in range(100)]

    assert 15 <= replies.count("") <= 45


def test_calls_are_charged_and_refused_when_the_wallet_is_empty(client: TestClient) -> None:
    client.post(CHAT, json=ask("1 + 1"))
    left = client.get("/rehearsal/account").json()["balance_usd"]
    client.post("/rehearsal/account", json={"balance_usd": 0})

    assert left < 100 or client.get("/api/v1/billing/wallet").json()["total_billings"] == 1
    assert client.post(CHAT, json=ask("1 + 1")).status_code == 402


@pytest.mark.anyio
async def test_the_cli_lists_models_with_prices(platform: Platform) -> None:
    listed = await platform.json("inference", "models", "-o", "json")

    prices = {m["id"]: m["pricing"]["output_usd_per_mtok"] for m in listed["data"]}
    assert prices["Qwen/Qwen3-4B-Instruct-2507"] > 0
    assert "rehearsal/skill-50" in prices


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        ("End your reply with one line: Total: NUMBER", "Total: 34"),
        ("Finish with a line of the form `Final count = <integer>`.", "Final count = 34"),
        ("The last line must be\nRESULT: [value]", "RESULT: 34"),
        ("Reply in this form:\nPrice: ...", "Price: 34"),
        ("Write down the number. Note: NASA is asked to say the total.", None),
        ("Give the sum for the room of Ann: the big one.", None),
    ],
)
def test_the_model_writes_the_line_that_an_instruction_shows(asked: str, line: str | None) -> None:
    talk = Conversation.of([{"role": "system", "content": asked}, {"role": "user", "content": "How many?"}])
    book = AnswerBook.of([{"id": "x", "prompt": "How many?", "answer": "34"}])
    reply = form(talk, book.pool[0], random.Random(0)).splitlines()[-1]
    assert reply == (line or "34")


def test_a_field_that_the_instructions_call_a_tag_is_written_as_a_tag() -> None:
    system = "Think in <thinking> tags. Then give the queue in <queue> tags and the urgency in <urgency> tags."
    talk = Conversation.of([{"role": "system", "content": system}, {"role": "user", "content": "A book is late."}])
    assert form(talk, "loans", random.Random(0)).endswith("</thinking>\n<queue>loans</queue>")
