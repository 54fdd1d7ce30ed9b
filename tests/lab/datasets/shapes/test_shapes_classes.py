"""Classes and yes or no: BoolQ, StrategyQA, PubMedQA, IMDB, AG News, SNLI, MNLI, Banking77, TREC."""

from __future__ import annotations

import pytest

from tests.lab.datasets.shapes.shape import Row, Shape, class_label, expected, inspected, pick, told

NLI = ("entailment", "neutral", "contradiction")
NEWS = ("World", "Sports", "Business", "Sci/Tech")
INTENTS = tuple(f"card_matter_{n:02d}" for n in range(77))
COARSE = ("ABBR", "ENTY", "DESC", "HUM", "LOC", "NUM")


def boolq(n: int) -> Row:
    return {
        "question": f"do iran and neighbour {n} speak the same language",
        "answer": pick(n, True, False, True),
        "passage": f"Persian {n} is one of the Western Iranian languages within the Indo-European family of languages.",
    }


def strategyqa(n: int) -> Row:
    return {
        "qid": f"{n:020x}",
        "term": "Albany, Georgia",
        "description": f"City {n} in Georgia, United States",
        "question": f"Will the town number {n} reach a hundred thousand people before the other one does?",
        "answer": pick(n, True, False),
        "facts": ["One has some people.", "The other has many."],
        "decomposition": ["What is the first?", "What is the second?"],
    }


def pubmed_qa(n: int) -> Row:
    return {
        "pubid": 21645374 + n,
        "question": f"Do mitochondria play a role in remodelling of leaf {n} during programmed cell death?",
        "context": {
            "contexts": [f"Cell death {n} is the regulated death of cells.", "The study shows how it goes on."],
            "labels": ["BACKGROUND", "RESULTS"],
            "meshes": ["Apoptosis", "Plants"],
            "reasoning_required_pred": ["y", "e", "s"],
        },
        "long_answer": f"Results depicted that mitochondria dynamics {n} follow the pattern of perforations closely.",
        "final_decision": pick(n, "yes", "no", "maybe", "yes", "no"),
    }


def imdb(n: int) -> Row:
    return {
        "text": f"I rented film {n} from my video store because of all the talk that was about it.",
        "label": int(n > 47),
    }


def ag_news(n: int) -> Row:
    return {"text": f"Wall St. Bears Claw Back {n} Into the Black (Reuters)", "label": pick(n, 0, 1, 2, 3)}


def snli(n: int) -> Row:
    return {
        "premise": f"A person on horse {n} jumps over a broken down airplane.",
        "hypothesis": f"A person {n} is training his horse for a competition.",
        "label": -1 if n % 40 == 7 else pick(n, 0, 1, 2),
    }


def mnli(n: int) -> Row:
    return {
        "premise": f"Conceptually cream skimming {n} has two basic dimensions, product and geography.",
        "hypothesis": f"Product {n} and geography are what make it work.",
        "label": pick(n, 0, 1, 2),
        "idx": n,
    }


def banking77(n: int) -> Row:
    return {"text": f"I am still waiting on my card number {n}, what is to be done?", "label": (n * 5) % 77}


def banking77_csv(n: int) -> Row:
    return {"text": f"I am still waiting on my card number {n}, what is to be done?", "category": INTENTS[(n * 5) % 77]}


def trec(n: int) -> Row:
    return {
        "text": f"How did serfdom develop in and then leave country {n} ?",
        "coarse_label": pick(n, 0, 1, 2, 3, 4, 5),
        "fine_label": (n * 7) % 50,
    }


def sst2_setfit(n: int) -> Row:
    label = pick(n, 0, 1)
    return {
        "text": f"a stirring, funny and finally transporting re-imagining {n}",
        "label": label,
        "label_text": ("negative", "positive")[label],
    }


def rte(n: int) -> Row:
    return {
        "sentence1": f"No weapons of mass destruction were found in country {n} yet.",
        "sentence2": f"Weapons of mass destruction were found in {n}.",
        "label": pick(n, 0, 1),
        "idx": n,
    }


SHAPES = [
    Shape("boolq", boolq, ("passage", "question"), "answer", "boolean"),
    Shape("strategyqa", strategyqa, ("question",), "answer", "boolean"),
    Shape(
        "pubmed_qa",
        pubmed_qa,
        ("context.contexts", "question"),
        "final_decision",
        "label",
        labels=("maybe", "no", "yes"),
    ),
    Shape(
        "imdb",
        imdb,
        ("text",),
        "label",
        "class_id",
        labels=("neg", "pos"),
        features={"label": class_label("neg", "pos")},
    ),
    Shape("imdb from a CSV file", imdb, ("text",), "label", "class_id", codes=frozenset({"class-names-unknown"})),
    Shape("ag_news", ag_news, ("text",), "label", "class_id", labels=NEWS, features={"label": class_label(*NEWS)}),
    Shape(
        "snli",
        snli,
        ("premise", "hypothesis"),
        "label",
        "class_id",
        labels=NLI,
        features={"label": class_label(*NLI)},
        codes=frozenset({"empty-gold"}),
    ),
    Shape(
        "snli without features",
        snli,
        ("premise", "hypothesis"),
        "label",
        "class_id",
        codes=frozenset({"empty-gold", "class-names-unknown"}),
    ),
    Shape(
        "mnli", mnli, ("premise", "hypothesis"), "label", "class_id", labels=NLI, features={"label": class_label(*NLI)}
    ),
    Shape(
        "banking77",
        banking77,
        ("text",),
        "label",
        "class_id",
        labels=INTENTS,
        features={"label": class_label(*INTENTS)},
    ),
    Shape("banking77 from CSV files", banking77_csv, ("text",), "category", "label", labels=INTENTS, rows=1001),
    Shape(
        "trec",
        trec,
        ("text",),
        "coarse_label",
        "class_id",
        labels=COARSE,
        features={"coarse_label": class_label(*COARSE), "fine_label": class_label(*map(str, range(50)))},
    ),
    Shape("sst2 of SetFit", sst2_setfit, ("text",), "label", "class_id", labels=("negative", "positive")),
    Shape(
        "rte",
        rte,
        ("sentence1", "sentence2"),
        "label",
        "class_id",
        labels=("entailment", "not_entailment"),
        features={"label": class_label("entailment", "not_entailment")},
    ),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_classes_are_recognised(shape: Shape) -> None:
    found = inspected(shape)
    assert told(found) == expected(shape)
    codes = {f.code for f in found.findings}
    assert shape.codes <= codes
    assert not codes & {"gold-unparseable", "mixed-format", "class-names-unknown"} - shape.codes
