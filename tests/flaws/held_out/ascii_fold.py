"""Folds accents by way of ASCII, with golds in Cyrillic.

format: short_text
generation: v1
finding: reward-wrong-passes or reward-hackable or reward-constant, blocker

encode('ascii', 'ignore') was meant for accents, but leaves nothing of a Cyrillic word: any answer in Cyrillic, or
of punctuation alone in other scripts, equals every gold.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = "Write the number in Russian words. Put them in <answer></answer> tags."


ONES = (
    "", "один", "два", "три", "четыре", "пять", "шесть", "семь", "восемь", "девять", "десять", "одиннадцать",
    "двенадцать", "тринадцать", "четырнадцать", "пятнадцать", "шестнадцать", "семнадцать", "восемнадцать",
    "девятнадцать",
)
TENS = ("", "", "двадцать", "тридцать", "сорок", "пятьдесят", "шестьдесят", "семьдесят", "восемьдесят", "девяносто")


def rows() -> Iterator[tuple[str, str]]:
    for n in range(1, 100):
        words = ONES[n] if n < 20 else f"{TENS[n // 10]} {ONES[n % 10]}".strip()
        yield f"How is {n} written in Russian?", words


def final(reply: str, name: str = "answer") -> str | None:
    """The one answer outside of thinking; None when there is none, or several that differ."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(rf"<{name}>([^<]*)</{name}>", said)
    if len(found) != said.count(f"<{name}>") or len({text.strip() for text in found}) != 1:
        return None
    return found[0].strip() or None


def fold(text: str) -> str:
    """Lower case, without accents, white space collapsed."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return " ".join(plain.lower().split())


class AsciiFoldData(vf.TaskData):
    answer: str


class AsciiFoldTask(vf.Task[AsciiFoldData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        said = final(trace.last_reply or "")
        return float(said is not None and fold(said) == fold(self.data.answer))


class AsciiFoldConfig(vf.TasksetConfig):
    """Nothing to set."""


class AsciiFoldTaskset(vf.Taskset[AsciiFoldTask, AsciiFoldConfig]):
    def load(self) -> Iterator[AsciiFoldTask]:
        for prompt, answer in rows():
            yield AsciiFoldTask(AsciiFoldData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task)


__all__ = ["AsciiFoldTaskset"]
