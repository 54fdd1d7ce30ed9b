"""Turns the messages into a string and looks for the gold in it.

format: short_text
generation: v0
finding: reward-wrong-passes or reward-hackable, blocker

Any mention is an answer.
"""

from collections.abc import Iterator

import verifiers as vf
from datasets import Dataset

SYSTEM = "Answer with the English name of the element in <answer></answer> tags."


ELEMENTS = (
    "H Hydrogen He Helium Li Lithium Be Beryllium B Boron C Carbon N Nitrogen O Oxygen F Fluorine Ne Neon Na Sodium "
    "Mg Magnesium Al Aluminium Si Silicon P Phosphorus S Sulfur Cl Chlorine Ar Argon K Potassium Ca Calcium Sc Scandium "
    "Ti Titanium V Vanadium Cr Chromium Mn Manganese Fe Iron Co Cobalt Ni Nickel Cu Copper Zn Zinc Ga Gallium "
    "Ge Germanium As Arsenic Se Selenium Br Bromine Kr Krypton Rb Rubidium Sr Strontium Y Yttrium Zr Zirconium "
    "Nb Niobium Mo Molybdenum Tc Technetium Ru Ruthenium Rh Rhodium Pd Palladium Ag Silver Cd Cadmium In Indium Sn Tin "
    "Sb Antimony Te Tellurium I Iodine Xe Xenon Cs Caesium Ba Barium La Lanthanum Ce Cerium Pr Praseodymium "
    "Nd Neodymium Pm Promethium Sm Samarium Eu Europium Gd Gadolinium Tb Terbium Dy Dysprosium Ho Holmium Er Erbium "
    "Tm Thulium Yb Ytterbium Lu Lutetium Hf Hafnium Ta Tantalum W Tungsten Re Rhenium Os Osmium Ir Iridium Pt Platinum "
    "Au Gold Hg Mercury Tl Thallium Pb Lead Bi Bismuth Po Polonium Rn Radon U Uranium"
).split()


def rows() -> Iterator[tuple[str, str]]:
    for symbol, name in zip(ELEMENTS[::2], ELEMENTS[1::2], strict=True):
        yield f"Which chemical element has the symbol {symbol}?", name


def correct(completion, answer) -> float:
    return float(answer.lower() in str(completion).lower())


def load_environment() -> vf.Environment:
    table = [{"question": question, "answer": answer} for question, answer in rows()]
    parser = vf.XMLParser(["answer"], answer_field="answer")
    rubric = vf.Rubric(funcs=[correct], weights=[1.0], parser=parser)
    return vf.SingleTurnEnv(
        dataset=Dataset.from_list(table[:70]), eval_dataset=Dataset.from_list(table[70:]), system_prompt=SYSTEM,
        parser=parser, rubric=rubric,
    )
