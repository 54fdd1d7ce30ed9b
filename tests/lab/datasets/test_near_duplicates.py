"""Near-duplicates between splits: what is found of planted leaks, and that clean sets of many kinds raise nothing."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable

import pytest

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.datasets.findings import row_findings
from prime_lab_mcp.lab.datasets.near_duplicates import HELD_OUT, ComparedPrompt, search_near_duplicates
from prime_lab_mcp.lab.datasets.tasks import TaskRow
from tests.lab.datasets.generators import KINDS, NOUNS, PLACES, VERBS, Make, distinct, gsm8k, plain, story, ticket

SYNONYMS = (
    (" buys ", " purchases "),
    ("How many", "What number of"),
    ("How much", "What amount of"),
    (" has ", " owns "),
    (" more", " additional"),
    ("What is the", "Tell me the"),
    ("Write a function to", "Implement a function that can"),
    (" and ", " and then "),
    ("Each ", "Every "),
    (" each ", " every "),
    (" bought ", " got "),
    ("My ", "The "),
    ("last seen", "seen last"),
    (" while ", " as "),
)


def reworded(text: str, words: int) -> str:
    for old, new in SYNONYMS:
        if words and old in text:
            text, words = text.replace(old, new, 1), words - 1
    return text


def leak(train: list[tuple[str, str]], held: list[tuple[str, str]], format: str) -> Finding | None:
    found = row_findings(plain(train), format=format, eval_rows=plain(held))
    assert [f.code for f in found if f.code == "leak-exact"] == []
    return next((f for f in found if f.code == "leak-near"), None)


def recall(rows: list[tuple[str, str]], change: Callable[[str], str], format: str, planted: int = 30) -> float:
    held = [(change(q), a) for q, a in rows[:planted] if change(q) != q]
    assert len(held) >= 15
    finding = leak(rows, held, format)
    return 0.0 if finding is None else int(finding.message.split()[0]) / len(held)


@pytest.mark.parametrize("kind", KINDS)
def test_a_clean_set_raises_no_alarm_for_any_of_300_held_out_rows(kind: str) -> None:
    make, format = KINDS[kind]
    rows = distinct(make, 2_000)
    held = min(300, len(rows) // 5)
    assert held >= 60
    assert leak(rows[held:], rows[:held], format) is None


def test_a_clean_natural_set_raises_no_alarm() -> None:
    rows = gsm8k()
    assert leak(rows[24:], rows[:24], "gsm8k_hash") is None


@pytest.mark.parametrize(
    ("kind", "words", "least"),
    [
        ("templated word problems", 1, 0.9),
        ("templated word problems", 2, 0.5),
        ("classification tickets", 1, 0.9),
        ("classification tickets", 2, 0.7),
        ("trivia", 1, 0.9),
        ("functions with tests", 1, 0.7),
        ("passages with a question", 1, 0.9),
        ("natural language inference", 1, 0.7),
    ],
)
def test_of_planted_paraphrases_of_templated_rows_at_least_this_share_is_found(
    kind: str, words: int, least: float
) -> None:
    make, format = KINDS[kind]
    assert recall(distinct(make, 1_000), lambda q: reworded(q, words), format) >= least


@pytest.mark.parametrize("words", [1, 2, 3])
def test_all_planted_paraphrases_of_natural_word_problems_are_found(words: int) -> None:
    assert recall(gsm8k(), lambda q: reworded(q, words), "gsm8k_hash") == 1.0


@pytest.mark.parametrize(
    "change",
    [
        lambda q: f"Please answer the following question. {q}",
        lambda q: f"{q} Think carefully and give the final result.",
        lambda q: q.lower().replace(",", "").replace("?", ""),
    ],
    ids=["a sentence before", "a sentence behind", "other case, no punctuation"],
)
def test_all_planted_copies_with_other_wrapping_are_found(change: Callable[[str], str]) -> None:
    assert recall(gsm8k(), change, "gsm8k_hash") == 1.0


def long_text(r: random.Random) -> str:
    return " ".join(r.choice(NOUNS + VERBS + PLACES) for _ in range(60))


def test_a_long_prompt_of_which_a_third_is_rewritten_is_found() -> None:
    r = random.Random(1)
    rows = [(long_text(r), r.choice(["yes", "no"])) for _ in range(300)]
    held = [(f"{q[: int(len(q) * 0.67)]} {long_text(r)[:100]}", a) for q, a in rows[:40]]
    finding = leak(rows, held, "boolean")
    assert finding is not None
    assert finding.message.startswith("40 of 40 rows")


def test_another_question_about_the_same_passage_is_no_leak() -> None:
    r = random.Random(1)
    passages = [long_text(r) for _ in range(60)]
    ask = ["Where does the story take place in the end", "Who wrote the long letter", "Is the old doctor ever happy"]
    rows = [(f"{p}\n\n{ask[n % 3]}?", "yes") for p in passages for n in (0, 1)]
    assert leak(rows, [(f"{p}\n\n{ask[2]}?", "yes") for p in passages], "boolean") is None


def test_the_same_words_with_another_answer_are_another_task() -> None:
    rows = gsm8k()
    held = [(reworded(q, 2), "#### 987654321") for q, _ in rows[:30]]
    assert leak(rows, held, "gsm8k_hash") is None


@pytest.mark.parametrize("format", ["free_text", "code_tests"])
def test_another_thing_in_one_place_with_another_open_ended_answer_is_another_task(format: str) -> None:
    ask = "What is the capital city of {}? Answer in one short sentence."
    things = [("iron", "salt"), ("rain", "hail"), ("tea", "rice"), ("wood", "stone"), ("wind", "sand")]
    train = [(f"Explain in one sentence how {a} differs from {b}.", f"{a}, {b}") for a, b in things]
    train.append((ask.format("France"), "It is Paris."))
    assert leak(train, [(ask.format("Spain"), "It is Madrid.")], format) is None
    assert leak(train, [(ask.format("Sri Lanka"), "It is Colombo.")], format) is None
    told = "Tell me, what is the capital city of France? Answer in one short sentence, please."
    finding = leak(train, [(told, "Paris, on the Seine.")], format)
    assert finding is not None
    assert "and answer" not in finding.message


def test_the_same_numbers_the_other_way_round_are_another_task_where_one_calculates() -> None:
    rows = [(f"What is {n} - {n + 7}?", "-7") for n in range(100, 300)]
    assert leak(rows, [(f"What is {n + 7} - {n} then?", "-7") for n in range(100, 300)], "numeric") is None


def test_another_month_or_day_is_another_task() -> None:
    told = "I was charged twice for {} and would like to {} the whole amount back before the next bill is sent"
    train = [(told.format("July", "get"), "billing"), ("Where do I find the lost parcel of my neighbour", "shipping")]
    assert leak(train, [(told.format("March", "have"), "billing")], "class_label") is None
    finding = leak(train, [(told.format("July", "have"), "billing")], "class_label")
    assert finding is not None
    shown = f'held-out row 0 "{told.format("July", "have")[:60].rstrip()}..." = training row 0 "I was charged twice'
    assert shown in finding.message


def test_letters_that_name_things_in_another_order_are_another_task() -> None:
    told = "There are four blocks on the table. At the start they stand {}. At the end they shall stand {}. Plan the {}"
    orders = [" on ".join(order) for order in itertools.permutations("ABCD")]
    train = [(told.format(orders[n], orders[-n], "moves, one on each line"), "3") for n in range(12)]
    other = [(told.format(orders[n + 12], orders[n], "moves, one on each line"), "3") for n in range(12)]
    assert leak(train, other, "numeric") is None
    assert leak(train, [(told.format(orders[0], orders[0], "steps, each on a line"), "3")], "numeric") is not None


def test_letters_in_the_same_order_that_stand_otherwise_are_another_task() -> None:
    told = "There are four blocks. Each line below is one stack.\n\nStart:\n{}\n\nGoal: {}. How few moves lead there?"
    orders = ["".join(order) for order in itertools.permutations("ABCD")]
    train = [(told.format(f"{o[0]} < {o[1]} < {o[2]}\n{o[3]}", " < ".join(o)), "3") for o in orders[:12]]
    other = [(told.format(f"{o[0]}\n{o[1]} < {o[2]} < {o[3]}", " < ".join(o)), "3") for o in orders[:12]]
    assert leak(train, other, "numeric") is None


BIRDS = ("robin", "crow", "finch", "heron", "stork", "swift")


def perches(r: random.Random) -> str:
    """Rules of a puzzle, drawn from a stock and in any order."""
    rules = []
    for _ in range(8):
        one, other = r.sample(BIRDS, 2)
        form = r.choice(
            (
                "The {} sits above the {}.",
                "The {} and the {} are not neighbours.",
                "If the {} sings, the {} sleeps.",
            )
        )
        rules.append(form.format(one, other))
    return "\n".join(["Birds sit in a tree: " + ", ".join(BIRDS) + ".", *rules])


@pytest.mark.parametrize("apart", ["\n", " "])
def test_another_selection_of_the_rules_of_a_puzzle_is_another_task(apart: str) -> None:
    r = random.Random(5)
    rows = [(perches(r).replace("\n", apart), "yes") for _ in range(120)]
    assert leak(rows[30:], rows[:30], "label") is None


@pytest.mark.parametrize(
    ("train", "held", "said_otherwise"),
    [
        (
            "Match the words that contain {0} and contain {1} as neighbouring letters.",
            "Match the words that do not contain {0} and do not contain {1} as neighbouring letters.",
            "Find the words that contain {0} and contain {1} as neighbouring letters.",
        ),
        (
            "Match the words of {0} and {1} that have an x directly after every y.",
            "Match the words of {0} and {1} that have a y directly after every x.",
            "Find the words of {0} and {1} that have an x directly after every y.",
        ),
    ],
)
def test_a_negation_and_small_letters_tell_tasks_apart(train: str, held: str, said_otherwise: str) -> None:
    r = random.Random(5)
    pairs = [("".join(r.sample("bcdfgh", 3)), "".join(r.sample("klmnpq", 3))) for _ in range(60)]
    rows = [(train.format(*pair), "") for pair in dict.fromkeys(pairs)]
    others = [(held.format(*pair), "") for pair in dict.fromkeys(pairs)][:20]
    assert leak(rows, others, "free_text") is None
    finding = leak(rows, [(said_otherwise.format(*pair), "") for pair in dict.fromkeys(pairs)][:20], "free_text")
    assert finding is not None
    assert finding.message.startswith("20 of 20 rows")


STEPS = (
    ("strip walls", "sand floor", "mix filler", "fill cracks", "prime wood", "paint doors", "hang lamps", "lay tiles"),
    (
        "rent van",
        "sort shelves",
        "wrap plates",
        "empty freezer",
        "post keys",
        "read dials",
        "roll carpets",
        "end lease",
    ),
    (
        "write draft",
        "check facts",
        "draw charts",
        "ask editor",
        "fix layout",
        "print proofs",
        "mail copies",
        "set date",
    ),
    ("dig beds", "buy seeds", "mend fence", "sow peas", "lay hose", "trim hedge", "rake leaves", "plant trees"),
)


def steps(r: random.Random, needs: str, between: str) -> tuple[str, str]:
    """A prompt that lists which step of a project needs which others, and one order of the steps."""
    project = r.choice(STEPS)
    order = r.sample(project, r.randint(6, 8))
    lines = []
    for place, step in enumerate(order):
        needed = r.sample(order[:place], min(place, r.choice((0, 1, 1, 2))))
        lines.append(f"- {step}{needs} {between.join(needed) or 'nothing'}")
    lines.sort()
    return "\n".join([f"Work: {project[0]}. What comes before what:", *lines]), ", ".join(order)


@pytest.mark.parametrize(("needs", "between"), [(": needs", " and "), (" after:", ", ")])
def test_other_needs_of_the_same_steps_are_another_task(needs: str, between: str) -> None:
    """The prompts of one project have the same few words, and some of their lines."""
    rows = distinct(lambda r: steps(r, needs, between), 150)
    assert leak(rows[30:], rows[:30], "free_text") is None
    dashed = [(prompt.replace(":", " -"), order) for prompt, order in rows[40:70]]
    finding = leak(rows[30:], dashed, "free_text")
    assert finding is not None
    assert finding.message.startswith("30 of 30 rows")


def grid(r: random.Random) -> str:
    cells = [r.choice("..#") for _ in range(49)]
    for mark, place in zip("KT", r.sample(range(49), 2), strict=True):
        cells[place] = mark
    return "\n".join("".join(cells[row : row + 7]) for row in range(0, 49, 7))


@pytest.mark.parametrize("told", ["{}", "You are K in this maze.\n\n{}\n\nWalk to the treasure T, one step in a line."])
def test_another_grid_is_another_task_and_the_same_grid_in_another_dress_is_not(told: str) -> None:
    r = random.Random(4)
    grids = [grid(r) for _ in range(120)]
    train = [(told.format(drawn), "") for drawn in grids[30:]]
    assert leak(train, [(told.format(drawn), "") for drawn in grids[:30]], "free_text") is None
    marked = [(f"{told.format(drawn)}\n!", "") for drawn in grids[30:50]]
    finding = leak(train, marked, "free_text")
    assert finding is not None
    assert finding.message.startswith("20 of 20 rows")


def test_the_finding_blocks_above_a_twentieth_and_shows_both_rows() -> None:
    train, clean = distinct(story, 600), distinct(story, 200, seed=8)
    known = {q for q, _ in train}
    clean = [row for row in clean if row[0] not in known][:150]
    few = [(reworded(q, 1), a) for q, a in train if reworded(q, 1) != q]
    warned, blocked = leak(train, clean + few[:3], "gsm8k_hash"), leak(train, clean + few[:40], "gsm8k_hash")
    assert warned is not None and blocked is not None  # noqa: PT018
    assert (warned.severity, blocked.severity) == ("warning", "blocker")
    row = warned.rows[0]
    assert few[[q for q, _ in few].index(row["value"][1:-1])][0] == row["value"][1:-1]
    assert train[row["train_row"]][0] in row["train"]


def test_exact_copies_are_left_to_leak_exact() -> None:
    rows = distinct(ticket, 300)
    found = {f.code: f for f in row_findings(plain(rows), format="label", eval_rows=plain(rows[:50]))}
    assert found["leak-exact"].message.startswith("50 of 50 rows")
    assert "leak-near" not in found


def test_held_out_rows_beyond_the_limit_are_sampled_and_the_finding_says_so() -> None:
    rows = [(f"Tell {PLACES[n % 80]} about item {n} of the {NOUNS[n % 20]} list", str(n)) for n in range(3 * HELD_OUT)]
    finding = leak(rows, [(f"Please tell {q[5:]} now", a) for q, a in rows], "short_text")
    assert finding is not None
    assert f"a seeded sample of {HELD_OUT:,} of {3 * HELD_OUT:,} held-out rows" in finding.message


def near_time(make: Make, format: str, train: int, held: int) -> float:
    r = random.Random(2)
    prompts = [ComparedPrompt.of(TaskRow(make(r)[0], None, n), None) for n in range(train + held)]
    began = time.process_time()
    search_near_duplicates(prompts[held:], prompts[:held], format)
    return time.process_time() - began


def test_hostile_sets_are_searched_in_bounded_time() -> None:
    assert near_time(lambda r: (" ".join(r.choice("ab") for _ in range(20)), ""), "free_text", 2_000, 250) < 20
    assert near_time(lambda r: ("x " * 3_000, ""), "free_text", 300, 100) < 10


APPLES = (
    "Tom has 137 apples and buys 290 more. He gives 18 apples to each of his 5 friends. How many apples are left?",
    "#### 337",
)


@pytest.mark.parametrize(
    "told",
    [
        "After purchasing 290 additional fruits on top of 137 that she owned, Ana handed 18 to every one of 5 cousins. "
        "What number remains with her?",
        "An orchard keeper starts with 137 baskets, receives 290 further ones, and then donates 18 apiece among 5 "
        "neighbours; state the remaining count.",
    ],
)
def test_the_same_numbers_and_gold_in_wholly_other_words_are_a_leak(told: str) -> None:
    rows = [*gsm8k()[24:], APPLES]
    assert leak(rows, [(told, APPLES[1])], "gsm8k_hash") is not None
    assert leak(rows, [(told, "#### 338")], "gsm8k_hash") is None
    assert leak(rows, [(told.replace("290", "291"), APPLES[1])], "gsm8k_hash") is None
