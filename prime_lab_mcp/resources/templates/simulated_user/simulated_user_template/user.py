"""The simulated user: what they want, and what they say to a reply. Pure: no model, no verifiers.

The user is code and no model: a user played by a model costs tokens in every rollout, is somebody else tomorrow, and
can be talked into anything. What they say follows from their wish and the assistant's replies, and from nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simulated_user_template.booking import booking_of, tries_to_book

MAX_REPLIES = 8
"""Replies of the assistant. A conversation that needs more ends without a booking."""
DETAILS = ("day", "time", "people", "place")
QUESTIONS = {
    "day": "Which day would you like to come?",
    "time": "At what time?",
    "people": "For how many people?",
    "place": "Would you like to sit inside or on the terrace?",
}
"""A question that the user understands, for each detail."""
_ASKED = {
    "day": re.compile(r"\b(day|date|when)\b", re.I),
    "time": re.compile(r"\b(time|when|hour|o'clock)\b", re.I),
    "people": re.compile(r"\b(people|persons?|guests?|how many|party|group)\b", re.I),
    "place": re.compile(r"\b(place|seats?|seated|seating|sit|inside|indoors?|outside|outdoors?|terrace|where)\b", re.I),
}
_SAYS = {
    "day": "On {}.",
    "time": "At {}.",
    "people": "We are {}.",
    "place": "{}, please.",
}


@dataclass(frozen=True)
class Wish:
    """What a user wants. `values` are right at the end; `mistaken` is what they say first of a detail that they correct
    once everything is said. A `terse` user answers one question at a time."""

    name: str
    values: Mapping[str, str | int]
    opening: str
    mistaken: Mapping[str, str | int]
    terse: bool


def first_message(wish: Wish) -> str:
    """How the user begins: with one detail."""
    return f"Hello, this is {wish.name}. I would like to book a table. {_said(wish, wish.opening, corrected=False)}"


def next_message(wish: Wish, replies: Sequence[str]) -> str | None:
    """What the user says to the last of these replies; None when the conversation is over."""
    told, message = {wish.opening}, ""
    for reply in replies:
        if booking_of(reply) is not None:
            return None
        complete = told >= set(wish.values)
        asked = [detail for detail in wish.values if _ASKED[detail].search(reply)]
        answered = asked[:1] if wish.terse else asked
        told.update(answered)
        message = " ".join(_said(wish, detail, corrected=complete) for detail in answered)
        if tries_to_book(reply):
            message = "I see no booking that I could read."
        elif not answered:
            message = "Please book it, if you know everything." if complete else "What else do you need to know?"
        elif not complete and told >= set(wish.values):
            corrections = [f"Sorry, I was wrong: {_said(wish, detail, corrected=True)}" for detail in wish.mistaken]
            message = " ".join([message, *corrections])
    return message if len(replies) < MAX_REPLIES else None


def _said(wish: Wish, detail: str, *, corrected: bool) -> str:
    value = wish.values[detail] if corrected else wish.mistaken.get(detail, wish.values[detail])
    text = _SAYS[detail].format(value)
    return text[:1].upper() + text[1:]
