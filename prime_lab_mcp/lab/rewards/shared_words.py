"""Builds replies of nothing but what the prompts of all tasks have in common: placeholders, quotes, forms and examples.

Where no right answer is known, nothing shows how much a reply earns that answers another question. A reply that is the
same on every task needs no knowledge of any of them. A reward that only counts placeholders, looks for words of the
system prompt or checks a form may pay such a reply like a right one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets.task_golds import whole_prompt
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.worker.description import Row

FEWEST_TASKS = 5
"""Smallest number of tasks with different prompts on which the same reply has to be paid to say something."""
_MOST_TASKS, _MOST_QUOTES, _LONGEST = 6, 4, 400
_PLACEHOLDER = re.compile(
    r"\[[A-Z][A-Z0-9_ -]{0,30}\]|<[A-Z][A-Z0-9_-]{0,30}>|\{\{? ?[A-Za-z_]{1,30} ?\}?\}|<<\w{1,30}>>"
)
_QUOTED = re.compile(
    r"```\w*[ \t]*\n(?P<fenced>.*?)```|`(?P<code>[^`\n]+)`|\"(?P<plain>[^\"\n]+)\""
    r"|\N{LEFT DOUBLE QUOTATION MARK}(?P<typeset>[^\n]+?)\N{RIGHT DOUBLE QUOTATION MARK}",
    re.S,
)
_EXAMPLE = re.compile(
    r"(?im)^[ \t]*(?:for )?(?:example|e\.g\.)(?: (?:reply|answer|output|response))?[ \t]*:[ \t]*(\S[^\n]*)$"
)
_RANGE = re.compile(
    r"\b(?P<label>[A-Z][A-Za-z]{1,19}[:=][ \t]*|\[|\()?(?P<low>[<{]\w{1,20}[>}])"
    r"(?P<between>[ \t]*(?:,|-|to|\.\.|\N{EN DASH})[ \t]*)(?P<high>[<{]\w{1,20}[>}])(?P<end>[\])]?)"
)
"""A form with two bounds, such as `RANGE: <low> to <high>`."""
_WIDEST = (("1e-40", "1e40"), ("0", "1000000000000000"), ("-1000000000000", "1000000000000"))
_OFTEN = 3
"""How often each placeholder is repeated, because a reward may count them."""


def shared_word_probes(rows: Sequence[Row]) -> list[Probe]:
    """Return such replies for a few tasks, each the same on all of them; none if too few tasks differ."""
    different = list({whole_prompt(row): row for row in rows}.values())[:_MOST_TASKS]
    if len(different) < FEWEST_TASKS:
        return []
    shared = _shared_text(different)
    replies = [(Family.SHARED_WORDS, *one) for one in dict.fromkeys(_replies(shared))]
    replies += [(Family.WIDE_RANGE, *one) for one in dict.fromkeys(_wide_ranges(shared))]
    return [
        Draft(family, reply, what).probe(f"shared/{row.index}/{number}", row.index)
        for number, (family, what, reply) in enumerate(replies)
        for row in different
    ]


def _shared_text(rows: Sequence[Row]) -> str:
    """The lines and sentences that the prompts of all these tasks have, their system messages included."""
    prompts = [re.split(r"\n|(?<=[.?!])[ \t]+", whole_prompt(row)) for row in rows]
    others = [frozenset(parts) for parts in prompts[1:]]
    return "\n".join(part for part in prompts[0] if all(part in parts for parts in others))


def _replies(shared: str) -> Iterator[tuple[str, str]]:
    """Yield what each reply is, and the reply."""
    placeholders = list(dict.fromkeys(_PLACEHOLDER.findall(shared)))
    if placeholders:
        yield "each placeholder of the prompts once", " ".join(placeholders)
        yield f"each placeholder of the prompts {_OFTEN} times", " ".join(placeholders * _OFTEN)
    quotes = ("".join(filter(None, match.groups())) for match in _QUOTED.finditer(shared))
    texts = (text.strip() for text in (*quotes, *_EXAMPLE.findall(shared)))
    short = [text for text in dict.fromkeys(texts) if 0 < len(text) <= _LONGEST]
    for text in short[:_MOST_QUOTES]:
        yield f"{quote(text, 60)} as all prompts quote it", text
    if len(short) > 1:
        yield "every text that all prompts quote", "\n".join(short)


def _wide_ranges(shared: str) -> Iterator[tuple[str, str]]:
    """Yield what each range is, and the range in the form that the prompts show."""
    for match in list(_RANGE.finditer(shared))[:1]:
        for low, high in _WIDEST:
            reply = f"{match['label'] or ''}{low}{match['between']}{high}{match['end']}"
            yield f"a range from {low} to {high}", reply
