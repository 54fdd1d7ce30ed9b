"""Finds the sentence of a task's text that says that its tools must be used, and whether that is to do something."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SENTENCE = re.compile(r"\n|(?<=[.!?;])\s")
_DEMAND = re.compile(
    r"\b(?:must|ha(?:s|ve) to|needs? to|only|always|never|by (?:running|calling|using|querying|executing)|with the)\b",
    re.I,
)
_MAY = re.compile(r"\b(?:may|can|could|might|optional(?:ly)?|if you (?:like|want|wish|need)|need not)\b", re.I)
_TOOL = r"tools?|shell|terminal|bash|command line|commands?|sandbox"
_USED = re.compile(
    r"\b(?:us(?:e|ed|ing)|run|runs|running|call(?:s|ed|ing)?|quer(?:y|ied|ying)|execut(?:e|ing)|look|with)\b", re.I
)
_COUNTS = re.compile(r"\bcounts? only\b", re.I)
_MOST = 160
_ACTIONS = frozenset(
    {"approve", "assign", "book", "buy", "cancel", "charge", "close", "create", "credit", "delete", "deliver",
     "deposit", "issue", "order", "pay", "refund", "reject", "remove", "reserve", "schedule", "sell", "send", "ship",
     "transfer", "update", "withdraw"}
)  # fmt: skip
"""Verbs of what changes the world of a task. Looking something up and computing it are none."""


def demanded_use(text: str, tools: Iterable[str]) -> str:
    """Return the first sentence of a task's text that demands that a tool is used; empty without one.

    `tools` are the names of the offered tools. A sentence that only permits a tool demands nothing.
    """
    named = "|".join([_TOOL, *(re.escape(name) for name in tools if len(name) > 2)])
    tool = re.compile(rf"\b(?:{named})\b", re.I)
    for sentence in _SENTENCE.split(text):
        demanded = _COUNTS.search(sentence) or (_DEMAND.search(sentence) and _USED.search(sentence))
        if tool.search(sentence) and demanded and not _MAY.search(sentence):
            return " ".join(sentence.split())[:_MOST]
    return ""


def is_action(tool: str) -> bool:
    """Whether a tool does something, by the first word of its name, such as `issue_refund`."""
    return re.split(r"[_\W]", tool.lower())[0] in _ACTIONS


def demands_action(sentence: str) -> bool:
    """Whether a sentence that demands the use of a tool names something to be done with the tool."""
    return not _ACTIONS.isdisjoint(re.findall(r"[a-z]+", sentence.lower()))
