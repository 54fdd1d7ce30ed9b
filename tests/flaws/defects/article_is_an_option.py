"""The first single letter of the reply is taken for the option.

format: choice_letter
generation: v1
finding: reward-too-strict or reward-gold-fails or reward-hackable, warning

The article in 'a moment' is read as option A, so reasoning decides the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

SYSTEM = 'Choose the right option and reply with its letter.'


def rows() -> Iterator[tuple[str, str]]:
    for n in range(80):
        options = [str(n + 3), str(n + 5), str(n + 8), str(n + 11)]
        right = n % 4
        listed = "\n".join(f"{letter}. {text}" for letter, text in zip("ABCD", options, strict=True))
        yield f"What is {options[right]} minus 0 plus {n} minus {n}?\n{listed}", "ABCD"[right]



class ArticleIsAnOptionData(vf.TaskData):
    answer: str


class ArticleIsAnOptionTask(vf.Task[ArticleIsAnOptionData]):
    @vf.reward(weight=1.0)
    async def chosen(self, trace: vf.Trace) -> float:
        found = re.search(r"\b([a-dA-D])\b", trace.last_reply or "")
        return float(found is not None and found[1].upper() == self.data.answer)



class ArticleIsAnOptionConfig(vf.TasksetConfig):
    """Nothing to set."""


class ArticleIsAnOptionTaskset(vf.Taskset[ArticleIsAnOptionTask, ArticleIsAnOptionConfig]):
    def load(self) -> Iterator[ArticleIsAnOptionTask]:
        for prompt, answer in rows():
            data = ArticleIsAnOptionData(prompt=prompt, system_prompt=SYSTEM, answer=answer)
            yield ArticleIsAnOptionTask(data, self.config.task)


__all__ = ["ArticleIsAnOptionTaskset"]
