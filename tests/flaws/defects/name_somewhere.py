"""Pays when the name occurs anywhere in the reply.

format: short_text
generation: v1
finding: reward-wrong-passes or reward-hackable, blocker

A list of all elements, or a guess that is taken back, is always right.
"""

from __future__ import annotations

from collections.abc import Iterator

import verifiers.v1 as vf

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


class NameSomewhereData(vf.TaskData):
    answer: str


class NameSomewhereTask(vf.Task[NameSomewhereData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float(self.data.answer.lower() in (trace.last_reply or "").lower())


class NameSomewhereConfig(vf.TasksetConfig):
    """Nothing to set."""


class NameSomewhereTaskset(vf.Taskset[NameSomewhereTask, NameSomewhereConfig]):
    def load(self) -> Iterator[NameSomewhereTask]:
        for prompt, answer in rows():
            yield NameSomewhereTask(
                NameSomewhereData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["NameSomewhereTaskset"]
