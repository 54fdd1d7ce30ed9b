"""Further public shapes, written after the rules. Names of some of their columns were known to the rules already.

At first 24 of 26 were right; RLVR-IFeval and MuSR (`narrative`) then got rules of their own.
"""

from __future__ import annotations

import json

import pytest

from tests.lab.datasets.shapes.shape import Row, Shape, class_label, expected, inspected, pick, told

MOODS = ("sadness", "joy", "love", "anger", "fear", "surprise")


def words(n: int, k: int = 0) -> str:
    return f"{('amber', 'birch', 'cedar', 'delta', 'ember', 'fjord', 'grove')[(n + 2 * k) % 7]} {n + k}"


def social_i_qa(n: int) -> Row:
    return {
        "context": f"Cameron {n} decided to have a barbecue and gathered her friends together in the garden.",
        "question": "How would Others feel as a result?",
        "answerA": f"like attending {n}",
        "answerB": f"like staying home {n}",
        "answerC": f"a good friend to have {n}",
        "label": pick(n, "1", "2", "3"),
    }


def medmcqa(n: int) -> Row:
    return {
        "id": f"e9ad821a-c438-4965-9f77-760819dfa{n:03d}",
        "question": f"Chronic obstruction of vessel {n} due to enlargement can cause all of these changes except",
        "opa": words(n),
        "opb": words(n, 1),
        "opc": words(n, 2),
        "opd": words(n, 3),
        "cop": pick(n, 0, 1, 2, 3),
        "choice_type": "single",
        "exp": "Chronic obstruction can lead to changes, as is said in the book at page 42.",
        "subject_name": "Anatomy",
        "topic_name": "Urinary tract",
    }


def medqa(n: int) -> Row:
    options = {letter: words(n, k) for k, letter in enumerate("ABCD")}
    right = pick(n, *"ABCD")
    return {
        "question": f"A {n + 20}-year-old comes to the physician because of burning. What is the best treatment "
        f"for it?",
        "answer": options[right],
        "options": options,
        "meta_info": "step2&3",
        "answer_idx": right,
        "metamap_phrases": ["year old", "burning"],
    }


def copa(n: int) -> Row:
    return {
        "premise": f"My body cast a shadow over the grass of meadow {n}.",
        "choice1": f"The sun was rising over {n}.",
        "choice2": f"The grass of {n} was cut.",
        "question": pick(n, "cause", "effect"),
        "idx": n,
        "label": pick(n, 0, 1),
    }


def race(n: int) -> Row:
    return {
        "example_id": f"high{n}.txt",
        "article": f"Last week I talked with some of my students about plan {n}, after they left the school.",
        "answer": pick(n, *"ABCD"),
        "question": f"We can know from passage {n} that the author works as a _ .",
        "options": [words(n, k) for k in range(4)],
    }


def commonsense_qa(n: int) -> Row:
    return {
        "id": f"{n:032x}",
        "question": f"The sanctions against school {n} were a punishing blow, and they seemed to what the efforts?",
        "question_concept": "punishing",
        "choices": {"label": list("ABCDE"), "text": [words(n, k) for k in range(5)]},
        "answerKey": pick(n, *"ABCDE"),
    }


def logiqa(n: int) -> Row:
    return {
        "context": f"In the planning of district {n} there are several facilities: hospitals, banks, and a park in it.",
        "query": f"Based on the above, which of the following is true of district {n}?",
        "options": [f"{words(n, k)} is in the north." for k in range(4)],
        "correct_option": pick(n, 0, 1, 2, 3),
    }


def cosmos_qa(n: int) -> Row:
    return {
        "id": f"3Q9SPIIRWJ{n}",
        "context": f"Good old war and person {n} : I saw both of these bands Wednesday night, and they blew me away.",
        "question": f"In the future, will person {n} go to see other bands play?",
        **{f"answer{k}": f"This person likes {words(n, k)}" for k in range(4)},
        "label": pick(n, 0, 1, 2, 3),
    }


def qnli(n: int) -> Row:
    return {
        "question": f"When did the third Digimon series number {n} begin?",
        "sentence": f"Unlike the two seasons before it, season {n} takes place in another world.",
        "label": pick(n, 0, 1),
        "idx": n,
    }


def emotion(n: int) -> Row:
    return {"text": f"i didnt feel humiliated on day {n} of my travels", "label": pick(n, 0, 1, 2, 3, 4, 5)}


def fever(n: int) -> Row:
    return {
        "id": 75397 + n,
        "label": pick(n, "SUPPORTS", "REFUTES", "NOT ENOUGH INFO"),
        "claim": f"Nikolaj number {n} worked with the Fox Broadcasting Company.",
        "evidence_annotation_id": 92206,
        "evidence_id": 104971,
        "evidence_wiki_url": "Nikolaj",
        "evidence_sentence_id": 7,
    }


def amazon_polarity(n: int) -> Row:
    return {
        "label": pick(n, 0, 1),
        "title": f"Stunning even for the non-gamer {n}",
        "content": f"This sound track number {n} was beautiful! It paints it all.",
    }


def pop_qa(n: int) -> Row:
    return {
        "id": 4222362 + n,
        "subj": f"George {n}",
        "prop": "occupation",
        "obj": words(n),
        "subj_id": 1850297,
        "prop_id": 22,
        "s_pop": 142,
        "o_pop": 25692,
        "question": f"What is George {n}'s occupation?",
        "possible_answers": json.dumps([words(n), f"the {words(n)}"]),
    }


def big_math(n: int) -> Row:
    return {
        "problem": f"If {n} men can do a job in 80 days, how many days will it take 10 men to do the same job?",
        "answer": str(8 * n),
        "source": "orca_math",
        "domain": ["Mathematics -> Algebra"],
        "llama8b_solve_rate": 0.5 + n / 1e3,
    }


def verl_gsm8k(n: int) -> Row:
    asked = f"Natalia sold clips to {n} of her friends, and half as many in May. How many did she sell altogether?"
    return {
        "data_source": "openai/gsm8k",
        "prompt": [
            {"content": f'{asked} Let\'s think step by step and output the final answer after "####".', "role": "user"}
        ],
        "ability": "math",
        "reward_model": {"ground_truth": str(n * 3), "style": "rule"},
        "extra_info": {"answer": f"She sold {n * 3}.\n#### {n * 3}", "index": n, "question": asked, "split": "train"},
    }


def reasoning_gym(n: int) -> Row:
    return {
        "question": f"Your task is to count how many legs there are in total when you have {n} sea slugs and 12 deers.",
        "answer": str(48 + n),
        "metadata": {
            "source_dataset": "leg_counting",
            "source_index": n,
            "animals": {"deer": 12},
            "total_legs": 48 + n,
        },
    }


def kod_code(n: int) -> Row:
    return {
        "version": "v1.1",
        "style": "instruct",
        "subset": "Leetcode",
        "question_id": f"Leetcode_{n}_I",
        "question": f"You are given an array of {n} integers. Find the largest rectangle that can be made of it.",
        "solution": "def largest(a):\n    return max(a)",
        "test": f"from solution import largest\n\ndef test_one():\n    assert largest([{n}]) == {n}",
        "test_info": [{"function_name": "largest", "function_declaration": "def largest(a)"}],
        "gpt_pass_sequence": [0, 1],
        "gpt_difficulty": "medium",
        "metadata": {"original_instruction": None},
    }


def synthetic_1(n: int) -> Row:
    case = {"type": "stdin_stdout", "fn_name": None, "input": f"{n}\n", "output": f"{n + 1}\n"}
    return {
        "source": "apps",
        "task_type": "verifiable_code",
        "in_source_id": str(n),
        "problem_id": f"vfc_{n}",
        "prompt": f"Solve the following coding problem using the programming language python: print the number "
        f"after {n}.",
        "gold_standard_solution": "print(int(input()) + 1)",
        "verification_info": json.dumps({"language": "python", "test_cases": [case]}),
        "metadata": "{}",
    }


def samsum(n: int) -> Row:
    return {
        "id": f"138180{n}",
        "dialogue": f"Amanda: I baked {n} cookies. Do you want some?\r\nJerry: Sure!\r\nAmanda: Great.",
        "summary": f"Amanda baked {n} cookies and will bring Jerry some tomorrow in the afternoon.",
    }


def cnn(n: int) -> Row:
    return {
        "article": f"LONDON, England (Reuters) -- Star number {n} gains access to a reported fortune as he turns 18.",
        "highlights": f"Star {n} gets the fortune as he turns 18 on Monday.\nThe actor says he will not waste it.",
        "id": f"{n:040x}",
    }


def hh_rlhf(n: int) -> Row:
    asked = f"\n\nHuman: What are {n} good words in english?\n\nAssistant:"
    return {"chosen": f"{asked} Here is a list of them, from the first one on.", "rejected": f"{asked} No."}


def ultrafeedback(n: int) -> Row:
    asked = f"how can i develop a habit of drawing {n} times a day"
    good = [
        {"content": asked, "role": "user"},
        {"content": f"Start with {n} minutes and keep a diary.", "role": "assistant"},
    ]
    bad = [{"content": asked, "role": "user"}, {"content": "You cannot.", "role": "assistant"}]
    return {
        "prompt": asked,
        "prompt_id": f"{n:064x}",
        "chosen": good,
        "rejected": bad,
        "messages": good,
        "score_chosen": 8.5,
        "score_rejected": 5.0,
    }


def rlvr_ifeval(n: int) -> Row:
    return {
        "messages": [
            {"role": "user", "content": f"Write about town {n}. Your response should have {n} paragraphs at least."}
        ],
        "ground_truth": json.dumps({"func_name": "verify_paragraph_count", "N": n, "quantifier": None}),
        "dataset": "ifeval",
        "constraint_type": "Number Paragraphs",
        "constraint": "Your response should have {N} paragraphs.",
    }


def bbh(n: int) -> Row:
    return {
        "input": f"Which statement is sarcastic in case {n}?\nOptions:\n(A) {words(n)} is good\n(B) "
        f"{words(n, 1)} is good",
        "target": pick(n, "(A)", "(B)"),
    }


def musr(n: int) -> Row:
    names = [words(n, k) for k in range(3)]
    return {
        "narrative": f"In the quiet of village {n} a man was found, and two people were seen near the place at night.",
        "question": f"Who is the most likely one in case {n}?",
        "choices": repr(names),
        "answer_index": pick(n, 0, 1, 2),
        "answer_choice": names[pick(n, 0, 1, 2)],
    }


def natural_instructions(n: int) -> Row:
    return {
        "task_name": "task001_quoref_question_generation",
        "id": f"task001-{n}",
        "definition": "In this task, you are given a passage and have to name what it is about, in a word or two.",
        "inputs": f"Passage {n}: the earthquake swarm was noted on October 12 in the evening.",
        "targets": words(n),
    }


SHAPES = [
    Shape(
        "social_i_qa",
        social_i_qa,
        ("context", "question"),
        "label",
        "choice_index",
        1,
        options=("answerA", "answerB", "answerC"),
    ),
    Shape(
        "medmcqa",
        medmcqa,
        ("question",),
        "cop",
        "choice_index",
        0,
        options=("opa", "opb", "opc", "opd"),
        features={"cop": class_label("a", "b", "c", "d")},
    ),
    Shape("MedQA-USMLE-4-options", medqa, ("question",), "answer", "choice_index", options=("options",)),
    Shape(
        "copa",
        copa,
        ("premise", "question"),
        "label",
        "choice_index",
        0,
        options=("choice1", "choice2"),
        features={"label": class_label("choice1", "choice2")},
    ),
    Shape("race", race, ("article", "question"), "answer", "choice_letter", options=("options",)),
    Shape("commonsense_qa", commonsense_qa, ("question",), "answerKey", "choice_letter", options=("choices",)),
    Shape("logiqa", logiqa, ("context", "query"), "correct_option", "choice_index", 0, options=("options",)),
    Shape(
        "cosmos_qa",
        cosmos_qa,
        ("context", "question"),
        "label",
        "choice_index",
        0,
        options=("answer0", "answer1", "answer2", "answer3"),
    ),
    Shape(
        "qnli",
        qnli,
        ("question", "sentence"),
        "label",
        "class_id",
        labels=("entailment", "not_entailment"),
        features={"label": class_label("entailment", "not_entailment")},
    ),
    Shape("emotion", emotion, ("text",), "label", "class_id", labels=MOODS, features={"label": class_label(*MOODS)}),
    Shape("fever", fever, ("claim",), "label", "label", labels=("NOT ENOUGH INFO", "REFUTES", "SUPPORTS")),
    Shape(
        "amazon_polarity",
        amazon_polarity,
        ("content",),
        "label",
        "class_id",
        labels=("negative", "positive"),
        features={"label": class_label("negative", "positive")},
    ),
    Shape("PopQA", pop_qa, ("question",), "possible_answers", "json"),
    Shape("Big-Math", big_math, ("problem",), "answer", "numeric"),
    Shape("gsm8k for verl", verl_gsm8k, ("prompt",), "reward_model.ground_truth", "numeric"),
    Shape("reasoning-gym", reasoning_gym, ("question",), "answer", "numeric"),
    Shape("KodCode", kod_code, ("question",), "test", "code_tests"),
    Shape("SYNTHETIC-1 code", synthetic_1, ("prompt",), "verification_info", "code_tests"),
    Shape("samsum", samsum, ("dialogue",), "summary", "free_text"),
    Shape("cnn_dailymail", cnn, ("article",), "highlights", "free_text"),
    Shape("hh-rlhf", hh_rlhf, None, "chosen", "free_text"),
    Shape("ultrafeedback_binarized", ultrafeedback, ("prompt",), "chosen", "chat_messages"),
    Shape("RLVR-IFeval", rlvr_ifeval, ("messages",), "ground_truth", "instruction_constraints"),
    Shape("bbh", bbh, ("input",), "target", "choice_letter"),
    Shape("MuSR", musr, ("narrative", "question"), "answer_index", "choice_index", 0, options=("choices",)),
    Shape("natural-instructions", natural_instructions, ("definition", "inputs"), "targets", "short_text"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_further_public_shapes_are_recognised(shape: Shape) -> None:
    assert told(inspected(shape)) == expected(shape)
