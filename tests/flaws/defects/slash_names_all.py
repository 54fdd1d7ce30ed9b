"""One of several right words is enough, and a slash may stand between them.

format: multi_answer
generation: v1
finding: reward-hackable or reward-wrong-passes, blocker

The reward asks whether any of the given words is right, and nobody counts the others: all six prepositions, with the
slashes that the prompt allows, are right for every verb.
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
SYSTEM = """Name the preposition that follows an English verb (of, on, in, for, to, from or with). Close with

Preposition: <preposition>

Where a verb takes several, one is enough; you may also give them with a slash, like of/from."""
LINE = re.compile(r"^preposition:\s*([a-z]+(?:\s*/\s*[a-z]+)*)\s*$", re.IGNORECASE | re.MULTILINE)


class VerbData(vf.TaskData):
    verb: str
    prepositions: list[str]


class VerbTask(vf.Task[VerbData]):
    @vf.reward(weight=1.0)
    async def fits(self, trace: vf.Trace) -> float:
        lines = LINE.findall(trace.last_reply or "")
        if not lines:
            return 0.0
        given = [word.strip().lower() for word in lines[-1].split("/")]
        return float(any(word in self.data.prepositions for word in given))


class VerbTaskset(vf.Taskset[VerbTask, vf.TasksetConfig]):
    def load(self) -> Iterator[VerbTask]:
        table = {verb: [preposition] for verb, preposition in VERBS.items()} | BOTH
        for verb in sorted(table):
            data = VerbData(prompt=f"to {verb} ...", system_prompt=SYSTEM, verb=verb, prepositions=table[verb])
            yield VerbTask(data, self.config.task)


__all__ = ["VerbTaskset"]
