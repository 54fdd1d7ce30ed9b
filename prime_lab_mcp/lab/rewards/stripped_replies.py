"""Strips right replies down to what the reward reads, by leaving out words as long as the reply is paid.

A reward may only look for what must not be there, and count what must. A reply that consists of the counted parts alone
is then paid, although nothing of the text is left that the prompt asks to keep. It may also look only where the text
was changed, so that words that mean nothing are paid in the place of the right ones. Where so much is left out that the
few words that remain are paid on other tasks as well, the reply says nothing about its task. Words are left out in
halves, quarters and eighths (delta debugging), within the answer only: what stands before it may be anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher

from prime_lab_mcp.lab.rewards.knowing_nothing import answer_in
from prime_lab_mcp.lab.rewards.listed_entries import prompts_by_row
from prime_lab_mcp.lab.rewards.observations import ScoredProbe
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.reply_lists import CODE_FENCES
from prime_lab_mcp.lab.rewards.scorer import Scorer, score_probes
from prime_lab_mcp.lab.rewards.thresholds import EPSILON
from prime_lab_mcp.lab.worker.description import Row

KEPT_TEXT = "what it repeats of the prompt"
CHANGED_WORDS = "the right words in the place of those that are to be changed"
_JUNK, _MARKS, _WORD = "zzyzx", ".,;:!?\"'()", re.compile(r"[\w'-]+")
_MOST_TASKS, _FEWEST_TASKS, _OTHERS = 5, 3, 12
_FEWEST_WORDS, _SHORTEST_RUN = 12, 3
"""Smallest numbers of words of an answer, and of words that follow each other in the prompt (our choice)."""
_REPEATED_SHARE, _LEFT_SHARE = 0.5, 0.3
"""Share of an answer that the prompt must hold, and largest share of it that may be left of a stripped answer (our
choice)."""
_CHUNKS = (1, 2, 4, 8)
_KEEP = re.compile(
    r"(?i)\b(?:keep|leave|preserve|retain)\b[^.\n]{0,80}"
    r"\b(?:else|rest|other|as (?:it is|they are|written)|unchanged|exactly|same|intact|alone|untouched)\b"
    r"|\b(?:everything|anything|all) (?:else|other)\b|\b(?:word for word|verbatim)\b"
    r"|\b(?:otherwise|remains?|stays?|left) (?:unchanged|untouched|intact|the same)\b"
    r"|\bthe (?:whole|full|entire|complete|rest of the) (?:\w+ )?"
    r"(?:text|letter|memo|message|e?-?mail|note|paragraph|passage|document|sentence|file|page|article)\b"
    r"|\bdo(?:es)? not (?:change|alter|touch|reword|rewrite)\b"
)
"""Words of prompts that ask to keep a text."""
_FENCES = re.compile(r"```([\w+#-]+)[ \t]*\n")


async def score_stripped(scorer: Scorer, right: Mapping[int, str], rows: Sequence[Row]) -> tuple[ScoredProbe, ...]:
    """Score stripped right replies of some tasks, and the words that are left of one of them on other tasks."""
    texts = {row: text for row, text in right.items() if not any(n in CODE_FENCES for n in _FENCES.findall(text))}
    texts = dict(list(texts.items())[:_MOST_TASKS])
    if len(set(texts.values())) < _FEWEST_TASKS or scorer.gave_up:
        return ()
    prompts = prompts_by_row(rows)
    found: list[ScoredProbe] = []
    few: list[str] = []
    for row, text in texts.items():
        before, answer, after = answer_in(text)
        words = re.findall(r"\S+\s*", answer)
        if len(words) < _FEWEST_WORDS or row not in prompts:
            continue
        whole = await _reward(scorer, row, text)
        if whole is None or whole <= EPSILON:
            continue
        left = await _stripped(scorer, row, (before, words, after), whole)
        short = len(left) <= _LEFT_SHARE * len(words)
        if short:
            few.append(_text(before, [words[n] for n in left], after))
        kept = repeated_words([word.strip() for word in words], prompts[row])
        if _KEEP.search(prompts[row]) and len(kept) >= _REPEATED_SHARE * len(words):
            new = [word for n, word in enumerate(words) if n not in kept]
            draft = Draft(Family.STRIPPED, few[-1] if short else _text(before, new, after), KEPT_TEXT)
            junk = _with_junk(words, prompts[row])
            drafts = [draft, *([Draft(Family.STRIPPED, _text(before, junk, after), CHANGED_WORDS)] if junk else [])]
            found += await score_probes(scorer, [d.probe(f"stripped/{row}/{n}", row) for n, d in enumerate(drafts)])
    if len(few) < _FEWEST_TASKS:
        return tuple(found)
    others = [row.index for row in rows if row.index in prompts][:_OTHERS]
    shortest = min(few, key=len)
    probes = [Draft(Family.FEW_WORDS, shortest).probe(f"few/{row}", row) for row in others]
    return (*found, *await score_probes(scorer, probes))


def _with_junk(words: Sequence[str], prompt: str) -> list[str]:
    """Return an answer with a word that means nothing in the place of each word that the prompt does not have."""
    known = {word.strip(_MARKS).casefold() for word in prompt.split()}
    new = [word.strip(_MARKS + " \n").casefold() not in known for word in words]
    return [_WORD.sub(_JUNK, w, count=1) if n else w for w, n in zip(words, new, strict=True)] if any(new) else []


def repeated_words(words: Sequence[str], prompt: str) -> list[int]:
    """Return the places of words that stand in the prompt in runs of at least three words, in the same order."""
    matcher = SequenceMatcher(None, list(words), prompt.split(), autojunk=False)
    blocks = [block for block in matcher.get_matching_blocks() if block.size >= _SHORTEST_RUN]
    return [n for block in blocks for n in range(block.a, block.a + block.size)]


async def _stripped(scorer: Scorer, row: int, reply: tuple[str, list[str], str], whole: float) -> list[int]:
    """Return the places of the words of an answer that are left when others are left out while the reply is paid."""
    before, words, after = reply
    left = list(range(len(words)))
    for chunks in _CHUNKS:
        size = max(1, len(left) // chunks)
        for piece in [left[start : start + size] for start in range(0, len(left), size)]:
            shorter = [n for n in left if n not in piece]
            earned = await _reward(scorer, row, _text(before, [words[n] for n in shorter], after))
            if earned is not None and earned >= whole - EPSILON:
                left = shorter
    return left


def _text(before: str, words: Sequence[str], after: str) -> str:
    return f"{before}{''.join(words)}{after}"


async def _reward(scorer: Scorer, row: int, text: str) -> float | None:
    draft = Draft(Family.STRIPPED, text, KEPT_TEXT)
    (scored,) = await score_probes(scorer, [draft.probe(f"strip/{row}", row)])
    return scored.reward
