"""Lowers the reply and not the gold.

format: short_text
generation: v1
finding: reward-gold-fails or reward-constant or gold-not-understood, blocker

No answer can ever be right.
"""

from __future__ import annotations

import re
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


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


class GoldNotLoweredData(vf.TaskData):
    answer: str


class GoldNotLoweredTask(vf.Task[GoldNotLoweredData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float((final(trace.last_reply or "") or "").lower() == self.data.answer)


class GoldNotLoweredConfig(vf.TasksetConfig):
    """Nothing to set."""


class GoldNotLoweredTaskset(vf.Taskset[GoldNotLoweredTask, GoldNotLoweredConfig]):
    def load(self) -> Iterator[GoldNotLoweredTask]:
        for prompt, answer in rows():
            yield GoldNotLoweredTask(
                GoldNotLoweredData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["GoldNotLoweredTaskset"]
