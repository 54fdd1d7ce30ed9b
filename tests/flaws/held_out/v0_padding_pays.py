"""A share of the reward for length, as a stand-in for thoroughness.

format: free_text
generation: v0
finding: reward-length-bonus or reward-hackable or reward-gold-fails or reward-wrong-passes, warning

Two fifths are paid for 800 characters of anything: a text that says all it should falls short of the maximum, and
the same text with padding reaches it.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Write a catalogue text of one or two sentences that gives the name, the colour, the material and the price."
NAMES = ("Alba", "Boreo", "Cirrus", "Delphi", "Etna", "Fjord", "Gala", "Helios")
COLOURS = ("red", "navy", "olive", "white", "grey")
MATERIALS = ("oak", "steel", "linen", "wool", "glass", "cork")
KINDS = ("chair", "lamp", "rug", "shelf")


def rows() -> Iterator[tuple[str, str, list[str]]]:
    for n in range(90):
        facts = [NAMES[n % 8], COLOURS[n % 5], MATERIALS[n % 6], f"{35 + 3 * n} euros"]
        kind = KINDS[n % 4]
        asked = f"A {kind}. Name: {facts[0]}. Colour: {facts[1]}. Material: {facts[2]}. Price: {facts[3]}."
        gold = f"The {kind} {facts[0]} comes in {facts[1]} and is made of {facts[2]}. It is yours for {facts[3]}."
        yield asked, gold, facts


def text_of(completion) -> str:
    """The last message, without its thought."""
    last = completion if isinstance(completion, str) else (completion[-1]["content"] if completion else "")
    return str(last or "").rpartition("</think>")[2].strip()


def facts_given(completion, info) -> float:
    text = text_of(completion).lower()
    return sum(fact.lower() in text for fact in info["facts"]) / len(info["facts"])


def thorough(completion) -> float:
    return min(1.0, len(text_of(completion)) / 800)


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer, "info": {"facts": facts}} for question, answer, facts in rows()]
    rubric = vf.Rubric(funcs=[facts_given, thorough], weights=[0.6, 0.4])
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:65]), eval_dataset=Dataset.from_list(table[65:]), system_prompt=SYSTEM,
        rubric=rubric,
    )
