"""Answers in words: SQuAD, DROP, NQ, TriviaQA, HotpotQA, TruthfulQA, Alpaca, Dolly, OASST, ShareGPT, LMSYS."""

from __future__ import annotations

import pytest

from tests.lab.datasets.shapes.shape import Row, Shape, expected, inspected, pick, told

NAMES = ("Anna Berg", "the Rhine", "Lake Como", "Peter Vogt", "Oslo", "the old mill", "Marta Silva", "1889")


def name(n: int) -> str:
    return f"{NAMES[n % 8]} {n}"


def squad(n: int) -> Row:
    return {
        "id": f"5733be284776f41900661{n:03d}",
        "title": "University",
        "context": f"Architecturally, school {n} has a character. In front of it stands {name(n)}, made of stone.",
        "question": f"What stands in front of school {n}?",
        "answers": {"text": [name(n)], "answer_start": [53]},
    }


def squad_v2(n: int) -> Row:
    return squad(n) if n % 3 else squad(n) | {"answers": {"text": [], "answer_start": []}}


def drop(n: int) -> Row:
    spans = [name(n)] if n % 2 else [name(n), f"Halvard {n + 31}"]
    return {
        "section_id": f"nfl_{n}",
        "query_id": f"f37e81fa-ef7b-4583-b671-762fc433f{n:03d}",
        "passage": f"Hoping to rebound from their loss, team {n} stayed at home. {', '.join(spans)} scored "
        f"before the half.",
        "question": f"Who scored in game {n} before the half?",
        "answers_spans": {"spans": spans, "types": ["span"] * len(spans)},
    }


def nq_open(n: int) -> Row:
    return {
        "question": f"where did they film hot tub machine {n}",
        "answer": [name(n), f"{name(n)}, Canada"][: 1 + n % 2],
    }


def trivia_qa(n: int) -> Row:
    return {
        "question": f"Which American-born Sinclair {n} won the Prize for Literature?",
        "question_id": f"tc_{n}",
        "question_source": "http://www.example.org/",
        "entity_pages": {"doc_source": [], "filename": [], "title": [], "wiki_context": []},
        "search_results": {"description": [], "filename": [], "rank": [], "title": [], "url": [], "search_context": []},
        "answer": {
            "aliases": [name(n), f"Harry {name(n)}"],
            "normalized_aliases": [name(n).lower()],
            "matched_wiki_entity_name": "",
            "normalized_matched_wiki_entity_name": "",
            "normalized_value": name(n).lower(),
            "type": "WikipediaEntity",
            "value": name(n),
        },
    }


def hotpot_qa(n: int) -> Row:
    return {
        "id": f"5a7a06935542990198eaf{n:03d}",
        "question": f"Which magazine was started first, number {n} or First for Women?",
        "answer": name(n),
        "type": pick(n, "comparison", "bridge"),
        "level": "medium",
        "supporting_facts": {"title": ["One", "Two"], "sent_id": [0, 0]},
        "context": {
            "title": ["One", "Two"],
            "sentences": [[f"One {n} is a magazine.", " It is old."], ["Two is newer."]],
        },
    }


def truthful_generation(n: int) -> Row:
    return {
        "type": "Adversarial",
        "category": "Misconceptions",
        "question": f"What happens to you if you eat {n} watermelon seeds?",
        "best_answer": f"The {n} watermelon seeds pass through your digestive system, which takes a day or even "
        f"two of them",
        "correct_answers": ["Nothing happens", f"You eat {n} seeds"],
        "incorrect_answers": ["You grow watermelons in your stomach", f"You get sick {n} times"],
        "source": "https://example.org/swallowing-seeds/",
    }


def alpaca(n: int) -> Row:
    task, data = (
        f"Give {n} tips for staying healthy in the winter months.",
        "For a person of 30 years." if n % 3 == 0 else "",
    )
    output = (
        f"1. Eat a balanced diet with {n} vegetables and fruits every day.\n\n2. Exercise regularly to keep strong."
    )
    return {
        "instruction": task,
        "input": data,
        "output": output,
        "text": f"Below is an instruction that describes a task.\n\n### Instruction:\n{task}\n\n### "
        f"Response:\n{output}",
    }


def dolly(n: int) -> Row:
    return {
        "instruction": f"When did airline {n} start operating its first flights?",
        "context": f"The airline {n}, in short, was founded in the year 2000 by some people." if n % 4 == 0 else "",
        "response": f"The airline commenced its services on 31 August 2000 with {n} aircraft and many people on board.",
        "category": pick(n, "closed_qa", "open_qa", "brainstorming"),
    }


def oasst(n: int) -> Row:
    return {
        "message_id": f"6ab24d72-0181-4594-a9cd-deaf170242{n:02d}",
        "parent_id": None,
        "user_id": "c3fe8c76-fc30-4fa7-b7f8-c492f5967d18",
        "created_date": "2023-02-05T14:23:50.983374+00:00",
        "text": f"Can you write a short introduction about the relevance of the term number {n} in economics?",
        "role": pick(n, "prompter", "assistant"),
        "lang": "en",
        "review_count": 3,
        "review_result": True,
        "deleted": False,
        "rank": None,
        "synthetic": False,
        "model_name": None,
        "detoxify": {"toxicity": 0.0004, "severe_toxicity": 0.00003},
        "message_tree_id": f"6ab24d72-0181-4594-a9cd-deaf170242{n:02d}",
        "tree_state": "ready_for_export",
        "emojis": {"name": ["+1"], "count": [10]},
        "labels": {"name": ["spam", "quality"], "value": [0.0, 0.9], "count": [3, 3]},
    }


def sharegpt(n: int) -> Row:
    return {
        "id": f"QWJhYvA_{n}",
        "conversations": [
            {"from": "human", "value": f"Summarise the main ideas of chapter {n} of the book for me."},
            {"from": "gpt", "value": f"Here are the main ideas of chapter {n}: markets, prices, and what people want."},
        ],
    }


def lmsys(n: int) -> Row:
    return {
        "conversation_id": f"{n:032x}",
        "model": "wizardlm-13b",
        "conversation": [
            {
                "content": f"how can identity protection services help protect me against theft number {n}",
                "role": "user",
            },
            {
                "content": f"They can help in {n} ways, the first of which is to watch your accounts.",
                "role": "assistant",
            },
        ],
        "turn": 1,
        "language": "English",
        "openai_moderation": [{"categories": {"harassment": False}, "flagged": False}],
        "redacted": False,
    }


def openorca(n: int) -> Row:
    return {
        "id": f"niv.{n}",
        "system_prompt": "You are an assistant who answers so that a child of five can follow.",
        "question": f"Generate an approximately fifteen-word sentence that describes place {n} with its price range.",
        "response": f"Midsummer House {n} is a moderately priced restaurant with a high customer rating near "
        f"the river.",
    }


SHAPES = [
    Shape("squad", squad, ("context", "question"), "answers.text", "multi_answer", any_of=True),
    Shape(
        "squad_v2",
        squad_v2,
        ("context", "question"),
        "answers.text",
        "multi_answer",
        any_of=True,
        codes=frozenset({"empty-gold"}),
    ),
    Shape("drop", drop, ("passage", "question"), "answers_spans.spans", "multi_answer", any_of=False),
    Shape("nq_open", nq_open, ("question",), "answer", "multi_answer", any_of=True),
    Shape("trivia_qa", trivia_qa, ("question",), "answer.aliases", "multi_answer", any_of=True),
    Shape("hotpot_qa", hotpot_qa, ("context.sentences", "question"), "answer", "short_text"),
    Shape("truthful_qa generation", truthful_generation, ("question",), "best_answer", "free_text"),
    Shape("alpaca", alpaca, ("instruction", "input"), "output", "free_text"),
    Shape("dolly", dolly, ("context", "instruction"), "response", "free_text"),
    Shape("oasst1", oasst, ("text",), None, None, codes=frozenset({"empty-gold"})),
    Shape("ShareGPT", sharegpt, ("conversations",), "conversations", "chat_messages"),
    Shape("lmsys-chat-1m", lmsys, ("conversation",), "conversation", "chat_messages"),
    Shape("OpenOrca", openorca, ("system_prompt", "question"), "response", "free_text"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_answers_in_words_are_recognised(shape: Shape) -> None:
    found = inspected(shape)
    assert told(found) == expected(shape)
    assert shape.codes <= {f.code for f in found.findings}
