"""Reads the commands that a prompt lists or shows: `OFFER <euros>`, `MOVE <up|down> <steps>`, `say DONE`."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NUMBERS = ("1", "0", "1000")
"""What stands in the place of each placeholder."""
_MOST_TEXTS = 24
PLACE = r"(?:<[^<>\n]{1,30}>|\[[^\[\]\n]{1,30}\]|\{[^{}\n]{1,30}\})"
_COMMAND = re.compile(
    rf"^[\s*`\"'-]*(?P<verb>[A-Z][A-Z_]+|[a-z]{{2,15}})(?P<places>(?:[ \t]+{PLACE})*)(?=$|[\s`\"',:.])"
)
SHOWN = re.compile(
    r"(?:(?<=[\"'`])(?P<quoted>[a-z]{2,12})|(?:(?<=[\"'`])|(?<![\w-]))(?P<verb>[A-Z][A-Z_]+:?))"
    rf"(?P<places>(?:[ \t]+{PLACE})+)"
)
_SAID = re.compile(
    r"\b(?:[Ss]ay|[Rr]eply|[Ww]rite|[Aa]nswer|[Ss]end|[Uu]se|[Tt]ype|[Ww]ith|or)\s+(?:with\s+)?"
    r"[\"'`]?(?P<word>[A-Z]{3,}(?:_[A-Z]+)*)(?![\w:<]| <)"
)
"""A command without a placeholder, such as DONE in `say DONE when you are finished`."""
_WORDS = re.compile(r"\b[\w-]{1,20}(?:,\s+(?:and |or )?[\w-]{1,20}){3,}\b")
_THING = re.compile(r"\b(?:[Tt]he|[Aa]n?|[Yy]our)\s+([a-z]{3,12})\b")
_MOST_SHOWN, _MOST_THINGS = 4, 5


def commands_in(prompt: str) -> list[str]:
    """Return the commands of a prompt with numbers in their places; none if no line of it begins with a command.

    A list of commands has a placeholder in one of at least two lines that follow each other. Its words without one are
    in capitals.
    """
    lists: list[list[re.Match[str]]] = [[]]
    for line in prompt.split("\n"):
        match = _COMMAND.match(line)
        if match is not None and (match["places"] or match["verb"].isupper()):
            lists[-1].append(match)
        elif lists[-1]:
            lists.append([])
    found = [m for listed in lists if len(listed) > 1 and any(m["places"] for m in listed) for m in listed]
    texts = [_filled(m, number) for number in _NUMBERS for m in found if m["places"] or number == _NUMBERS[0]]
    return list(dict.fromkeys([*texts, *_shown_commands(prompt)]))[:_MOST_TEXTS]


def _shown_commands(prompt: str) -> Iterator[str]:
    """Yield the commands that a prompt shows in a sentence, with numbers or one of the shown words in their places."""
    yield from said_commands(prompt)[:_MOST_SHOWN]
    shown = list(SHOWN.finditer(prompt))[:_MOST_SHOWN]
    for match in shown:
        for number in _NUMBERS:
            yield _with_choices(match, number)
    things = list(dict.fromkeys(_THING.findall(prompt)))[:_MOST_THINGS]
    for match in (m for m in shown if m["quoted"]):
        yield from (_with_choices(match, thing) for thing in things)


def said_commands(prompt: str) -> list[str]:
    """Return the commands without a placeholder that a prompt names in a sentence."""
    return list(dict.fromkeys(match["word"] for match in _SAID.finditer(prompt)))


def _with_choices(command: re.Match[str], number: str) -> str:
    """Return a command with a number in each place, or the first of the words that the place names."""
    return re.sub(PLACE, lambda place: choices(place[0])[0] or number, command[0])


def choices(place: str) -> list[str]:
    """Return the words that a place such as `<up|down>` names; one empty text for any other place."""
    words = [word.strip() for word in re.split(r"[|/]", place[1:-1])]
    return words if len(words) > 1 else [""]


def word_list(prompt: str) -> list[str]:
    """Return the longest list of words with commas in a prompt."""
    found = [re.split(r",\s*(?:and |or )?", match[0]) for match in _WORDS.finditer(prompt)]
    return max(found, key=len, default=[])


def _filled(command: re.Match[str], number: str) -> str:
    return command["verb"] + re.sub(PLACE, number, command["places"])
