"""One of several right words is enough, and every word that is given must be right.

format: multi_answer
generation: v1

Words with a slash between them are read as a set, and one wrong word in it costs the reward, so naming all of them
earns nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf

VERBS = {
    "depend": "on",
    "consist": "of",
    "believe": "in",
    "apologise to somebody": "for",
    "wait": "for",
    "belong": "to",
    "insist": "on",
    "listen": "to",
    "succeed": "in",
    "rely": "on",
    "accuse somebody": "of",
    "object": "to",
    "participate": "in",
    "search": "for",
    "approve": "of",
    "refer": "to",
    "concentrate": "on",
    "specialise": "in",
    "pay": "for",
    "react": "to",
    "dispose": "of",
    "invest": "in",
    "beg": "for",
    "spend money": "on",
    "suffer": "from",
    "recover": "from",
    "abstain": "from",
    "differ": "from",
    "benefit": "from",
    "resign": "from",
    "agree": "with",
    "cope": "with",
    "comply": "with",
    "deal": "with",
    "interfere": "with",
    "coincide": "with",
}
BOTH = {"dream": ["of", "on"], "compare": ["to", "with"], "die": ["of", "from"], "hear": ["of", "from"]}
SYSTEM = """Which preposition follows this English verb: of, on, in, for, to, from or with? Close with

Preposition: <preposition>

Where a verb takes several, one is enough; you may also give them with a slash, like of/from."""
LINE = re.compile(r"^preposition:\s*([a-z]+(?:\s*/\s*[a-z]+)*)\s*$", re.IGNORECASE | re.MULTILINE)


class SlashData(vf.TaskData):
    verb: str
    prepositions: list[str]


class SlashTask(vf.Task[SlashData]):
    @vf.reward(weight=1.0)
    async def fits(self, trace: vf.Trace) -> float:
        lines = LINE.findall(trace.last_reply or "")
        if not lines:
            return 0.0
        given = [word.strip().lower() for word in lines[-1].split("/")]
        return float(set(given) <= set(self.data.prepositions))


class SlashTaskset(vf.Taskset[SlashTask, vf.TasksetConfig]):
    def load(self) -> Iterator[SlashTask]:
        table = {verb: [preposition] for verb, preposition in VERBS.items()} | BOTH
        for verb in sorted(table):
            data = SlashData(prompt=f"to {verb} ...", system_prompt=SYSTEM, verb=verb, prepositions=table[verb])
            yield SlashTask(data, self.config.task)


__all__ = ["SlashTaskset"]
