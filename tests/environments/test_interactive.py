"""The examples with tools and turns: their rules and data, and whole rollouts through the real `vf-eval`."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.conftest import EXAMPLES
from tests.templates.turns import Calls, earned, evaluate, said, talking

GAME = EXAMPLES / "guess_word"
STORE = EXAMPLES / "store_lookup"
UNITS = EXAMPLES / "unit_conversion_v0"


@pytest.fixture
def pure() -> Iterator[Any]:
    """Import a module of an example without running its package, which may need another verifiers."""
    opened: set[str] = set()

    def imported(folder: Path, module: str) -> ModuleType:
        name = folder.name
        if name not in opened:
            package = ModuleType(name)
            package.__path__ = [str(folder / name)]
            sys.modules[name] = package
            opened.add(name)
        return importlib.import_module(f"{name}.{module}")

    yield imported
    for loaded in [n for n in sys.modules if n.split(".")[0] in opened]:
        del sys.modules[loaded]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- guess_word -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guess", "word", "marks"),
    [
        ("crane", "crane", "====="),
        ("stamp", "maple", "--+++"),
        ("sheep", "eagle", "--++-"),
        ("allow", "label", "+++--"),
        ("geese", "eagle", "++--="),
        ("quick", "tempo", "-----"),
    ],
)
def test_a_letter_is_marked_as_often_as_the_word_has_it(pure: Any, guess: str, word: str, marks: str) -> None:
    assert pure(GAME, "game").marks(guess, word) == marks


@pytest.mark.parametrize(
    ("reply", "guess"),
    [
        ("I try <guess>Crane</guess>.", "crane"),
        ("<guess> **CRANE** </guess>", "crane"),
        ("<guess>crane</guess> or <guess>slate</guess>", None),
        ("<guess>crane</guess> yes <guess>CRANE</guess>", "crane"),
        ("<think><guess>slate</guess></think><guess>crane</guess>", "crane"),
        ("<think><guess>slate</guess>", None),
        ("<guess>cranes</guess>", None),
        ("<guess>cr ne</guess>", None),
        ("<guess>crané</guess>", None),
        ("<guess>crane", None),
        ("crane", None),
        ("", None),
    ],
)
def test_a_guess_is_one_tagged_word_of_five_letters(pure: Any, reply: str, guess: str | None) -> None:
    assert pure(GAME, "game").guess_of(reply) == guess


def test_a_found_word_is_worth_less_with_every_reply_before_it(pure: Any) -> None:
    worth = pure(GAME, "game").worth
    replies = ["no idea", *["<guess>slate</guess>"] * 6]
    earned_after = [worth([*replies[:n], "<guess>crane</guess>"], "crane") for n in range(7)]
    assert earned_after == pytest.approx([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.0])
    assert worth([], "crane") == 0.0


def test_the_words_are_distinct_and_no_word_is_in_both_splits(pure: Any) -> None:
    words = pure(GAME, "words")
    train, held_out = words.words_of("train"), words.words_of("eval")
    assert all(re.fullmatch("[a-z]{5}", word) for word in words.all_words())
    assert len({*train, *held_out}) == len(train) + len(held_out) == len(words.all_words())
    assert (len(train) >= 350, len(held_out) >= 60) == (True, True)


def test_openings_are_seeded_true_and_unlike_each_other(pure: Any) -> None:
    words, game = pure(GAME, "words").words_of("eval"), pure(GAME, "game")
    found = list(pure(GAME, "openings").openings(words, 0))
    assert found == list(pure(GAME, "openings").openings(list(reversed(words)), 0))
    assert found != list(pure(GAME, "openings").openings(words, 1))
    assert len({opening for _, opening in found}) == len(found) == len(words)
    for word, opening in found:
        guesses = ["".join(re.findall("[A-Z]", line)).lower() for line in opening.splitlines()]
        assert opening == "\n".join(game.shown(guess, word) for guess in guesses)
        assert word not in guesses


@pytest.mark.slow
def test_games_are_marked_until_the_word_is_found_or_no_guess_is_left(pure: Any, tmp_path: Path) -> None:
    openings = list(pure(GAME, "openings").openings(pure(GAME, "words").words_of("eval"), 0))[:2]

    def script(messages: list[dict[str, Any]]) -> str:
        (number,) = [n for n, (_, opening) in enumerate(openings) if opening in messages[1]["content"]]
        turn = sum(m["role"] == "assistant" for m in messages)
        if number == 0:
            return ("<guess>zzzzz</guess>", "hm", f"<guess>{openings[0][0]}</guess>")[turn]
        return "<guess>zzzzz</guess>"

    with talking(script) as model:
        won, lost = evaluate(GAME, tmp_path, model.url, tasks=2, split="eval")
    assert not model.failures
    assert [round(earned(t), 6) for t in (won, lost)] == [round(0.8 + 0.1 * 2 / 3, 6), 0.1]
    assert said(won)[3][1].endswith("5 guesses left.")
    assert said(won)[5][1] == "That is no guess: tag one word of 5 letters.\n4 guesses left."
    assert lost["metrics"] == {"guesses": 6.0, "repeated_guesses": 5.0}
    assert [role for role, _ in said(lost)].count("assistant") == 6


# --- store_lookup ---------------------------------------------------------------------------------------------------


def answered(question: str, products: dict[str, Any], suppliers: dict[str, Any]) -> Decimal | None:
    """The answer by other means than those that made the data; None for a kind of question not covered here."""
    if "cost together" in question:
        counts = re.findall(r"(\d+) pieces of the (\w+ (?:\w+ )?\w+?) (?=and|cost)", question)
        return sum((int(n) * Decimal(products[name]["price"]) for n, name in counts), Decimal(0))
    if question.startswith("How many days does the supplier"):
        name = re.findall(r"of the (.+) take", question)[0]
        return Decimal(suppliers[products[name]["supplier"]]["days"])
    if question.startswith("How many pieces"):
        first, second, branch = re.findall(r"of the (.+) and the (.+) does the branch (\w+) have", question)[0]
        return Decimal(products[first]["stock"][branch] + products[second]["stock"][branch])
    return None


def test_the_answers_of_the_store_follow_from_its_database(pure: Any) -> None:
    database = pure(STORE, "database")
    products = {p["name"]: p for p in database.table("products").values()}
    checked = 0
    for split in ("train", "eval"):
        for row in lines(STORE / "store_lookup" / "data" / f"{split}.jsonl"):
            answer = answered(row["question"], products, database.table("suppliers"))
            if answer is not None:
                checked += 1
                assert answer == Decimal(row["answer"]), row
    assert checked >= 60


def test_the_store_names_every_product_once_and_every_supplier(pure: Any) -> None:
    products, suppliers = (pure(STORE, "database").table(name) for name in ("products", "suppliers"))
    assert len(products) >= 100
    assert len({p["name"] for p in products.values()}) == len(products)
    assert {p["supplier"] for p in products.values()} <= set(suppliers)


def test_a_search_wants_all_words_and_ids_are_read_in_any_case(pure: Any) -> None:
    database = pure(STORE, "database")
    product = database.row("products", " p007 ")
    assert product is not None
    assert [p["id"] for p in database.search(product["name"].upper())] == ["P007"]
    assert database.search(f"{product['name']} nonsense") == database.search("") == []
    assert database.row("suppliers", "S99") is None


@pytest.mark.slow
def test_questions_of_the_store_are_answered_by_chains_of_look_ups(pure: Any, tmp_path: Path) -> None:
    rows = lines(STORE / "store_lookup" / "data" / "eval.jsonl")[:3]
    chained = rows[1]
    name = re.findall(r"of the (.+) take", chained["question"])[0]

    def script(messages: list[dict[str, Any]]) -> str | Calls:
        question = messages[1]["content"]
        results = [m["content"] for m in messages if m["role"] == "tool"]
        if question == rows[0]["question"]:
            return f"<answer>{rows[0]['answer']} euros</answer>"
        if question == rows[2]["question"]:
            return [("get_stock", {"product_id": "P999"})] if not results else "<answer>-1</answer>"
        if not results:
            return [("search_products", {"words": name})]
        if len(results) == 1:
            return [("get_product", {"product_id": results[0].split(":")[0]})]
        if len(results) == 2:
            return [("get_supplier", {"supplier_id": results[1].rpartition("supplier ")[2]})]
        return f"<answer>{re.findall(r'delivers in (.+?) days', results[2])[0]}</answer>"

    with talking(script) as model:
        guessed, found, wrong = evaluate(STORE, tmp_path, model.url, tasks=3, split="eval")
    assert not model.failures
    assert {t["function"]["name"] for t in model.tools} == {
        "search_products",
        "get_product",
        "get_stock",
        "get_supplier",
    }
    assert [round(earned(t), 6) for t in (guessed, found, wrong)] == [1.1, 1.1, 0.1]
    assert found["metrics"] == {"tool_calls": 3.0, "failed_tool_calls": 0.0, "guessed": 0.0}
    assert wrong["metrics"] == {"tool_calls": 1.0, "failed_tool_calls": 1.0, "guessed": 1.0}
    assert guessed["metrics"]["guessed"] == 1.0


# --- unit_conversion_v0 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "gold", "right"),
    [
        ("53.4379", "53.4379", True),
        ("53.44", "53.4379", True),
        ("53.5", "53.4379", False),
        ("1,204.5 km/h", "1204.5", True),
        ("1.2045e3", "1204.5", True),
        ("1.2045 x 10^3", "1204.5", True),
        ("1204.5 * 1", "1204.5", False),
        ("1200+4.5", "1204.5", False),
        ("-53.4379", "53.4379", False),
        ("nan", "53.4379", False),
        ("1e99", "53.4379", False),
        ("", "53.4379", False),
    ],
)
def test_a_conversion_is_right_within_its_tolerance(pure: Any, answer: str, gold: str, right: bool) -> None:
    assert pure(UNITS, "answers").right(answer, gold) is right


@pytest.mark.parametrize(
    ("unit", "other", "factor"),
    [
        ("miles", "kilometres", "1.609344"),
        ("feet", "metres", "0.3048"),
        ("pounds", "kilograms", "0.45359237"),
        ("acres", "hectares", "0.40468564224"),
        ("knots", "kilometres per hour", "1.852"),
    ],
)
def test_the_conversions_are_true(pure: Any, unit: str, other: str, factor: str) -> None:
    answers, checked = pure(UNITS, "answers"), 0
    for row in lines(UNITS / "unit_conversion_v0" / "data" / "train.jsonl"):
        for source, target, by in ((unit, other, Decimal(factor)), (other, unit, 1 / Decimal(factor))):
            given = re.findall(rf"([\d.]+) {source}(?=[ .?])", row["question"])
            if given and re.search(rf"(?:to|in) {target}[.?]", row["question"]):
                checked += 1
                assert answers.right(str(Decimal(given[0]) * by), row["answer"]), row
    assert checked >= 3
