"""The prompt asks for a last line that starts with a phrase, and the reward reads that line.

format: short_text
generation: v1

The reward also reads the phrase in other cases, and a full stop after the words.
"""

import re

import verifiers.v1 as vf

WORDS = ("alder", "beech", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "poplar", "rowan", "willow")


class WordsData(vf.TaskData):
    answer: str


class WordsTask(vf.Task[WordsData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        found = re.search(r"(?im)^final answer:\s*(.*?)\.?\s*$", trace.last_reply)
        return float(found is not None and found[1].strip().lower() == self.data.answer)


class WordsTaskset(vf.Taskset[WordsTask, vf.TasksetConfig]):
    def load(self) -> list[WordsTask]:
        tasks = []
        for n in range(60):
            words = [WORDS[(n * 5 + k * 7) % 12] for k in range(3)]
            question = (
                f"Sort these words: {', '.join(words)}. Think first. Give the sorted words, with commas between them, on a "
                "last line of its own that starts with Final answer:\n"
            )
            tasks.append(WordsTask(WordsData(prompt=f"{question}List {n + 1}.", answer=", ".join(sorted(words))), self.config.task))
        return tasks


__all__ = ["WordsTaskset"]
