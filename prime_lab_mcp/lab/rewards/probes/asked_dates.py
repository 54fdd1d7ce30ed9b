"""Writes dates in the form that a prompt asks for, such as `DD/MM/YYYY`, and with day and month swapped.

Only a prompt that names one form is followed. A reward that tries several forms in turn may read `04/03/2022` with day
and month swapped: it then refuses the right answer in the asked form, and pays a wrong one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

AMBIGUOUS_DATE = "the date form that the prompt asks for, and a day of at most 12"
CLEAR_DATE = "the date form that the prompt asks for"
"""Names of dates that can, and that cannot, be read with day and month swapped."""
_FIELD = r"(?:[Dd]{1,2}|[Mm]{1,2}|[Yy]{4}|%[dmY])"
_FORM = re.compile(rf"(?<![\w/%.-])({_FIELD})([/.-])({_FIELD})\2({_FIELD})(?![\w/%-]|\.\w)")
_NAMED = re.compile(
    r"(?<![\w/])(?:(D{1,2}|d{1,2}) (?:Month|month) (?:YYYY|yyyy)|(?:Month|month) (D{1,2}|d{1,2}),? (?:YYYY|yyyy))(?!\w)"
)
_OTHER_FORM = re.compile(r"\bISO\b|8601")
_OF_TEXT = re.compile(r"(?i)\b(?:dates?|days?|they|it) (?:(?:in|of|on) [^.\n]{1,30} )?(?:are|is|was|were)\b[^.\n]*$")
"""Words that ask for the form of golds, and words by which a form is that of the task's own dates."""
_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:T00:00(?::00)?)?")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DateForm:
    """The order of a date's fields (`d`, `m`, `Y`; `B` is the month's name) with what stands around them.

    A field with one letter, such as `D`, has no leading zero.
    """

    template: str

    def written(self, day: date) -> str:
        """Return a date in this form."""
        fields = {"dd": f"{day.day:02}", "d": str(day.day), "mm": f"{day.month:02}", "m": str(day.month)}
        fields |= {"Y": f"{day.year:04}", "B": _MONTHS[day.month - 1]}
        return re.sub(r"\{(\w+)\}", lambda field: fields[field[1]], self.template)

    @property
    def by_numbers(self) -> bool:
        """Whether day and month are both numbers and stand side by side, so that they can be mistaken."""
        return re.search(r"\{d{1,2}\}.\{m{1,2}\}|\{m{1,2}\}.\{d{1,2}\}", self.template) is not None


def asked_date_form(prompt: str) -> DateForm | None:
    """Return the only form of dates that a prompt names; None if it names none or several."""
    found = [(match, _template(match)) for match in _FORM.finditer(prompt)]
    found += [
        (match, f"{{{match[1].lower()}}} {{B}} {{Y}}" if match[1] else f"{{B}} {{{match[2].lower()}}}, {{Y}}")
        for match in _NAMED.finditer(prompt)
    ]
    templates = {template for _, template in found} - {""}
    if _OTHER_FORM.search(prompt) or any(_OF_TEXT.search(prompt[max(0, m.start() - 60) : m.start()]) for m, _ in found):
        return None
    return DateForm(templates.pop()) if len(templates) == 1 else None


def _template(match: re.Match[str]) -> str:
    """Return the template of three named fields; empty unless they are a day, a month and a year."""
    fields = [match[n].replace("%d", "dd").replace("%m", "mm").replace("%Y", "yyyy") for n in (1, 3, 4)]
    if {field[0].lower() for field in fields} != {"d", "m", "y"}:
        return ""
    return match[2].join("{Y}" if f[0] in "yY" else f"{{{f.lower()}}}" for f in fields)


def stored_date(text: str) -> date | None:
    """Return the date that a gold states as `YYYY-MM-DD`; None for any other text."""
    match = _ISO.fullmatch(text.strip())
    try:
        return date(*map(int, match.groups())) if match else None
    except ValueError:
        return None


def asked_date(prompt: str, stored: str) -> tuple[str, str] | None:
    """Return (name, date) as the prompt asks for it; None if the gold is no date, or is written so."""
    day, form = stored_date(stored), asked_date_form(prompt)
    if day is None or form is None or form.written(day) == stored.strip():
        return None
    return AMBIGUOUS_DATE if form.by_numbers and _swapped(day) else CLEAR_DATE, form.written(day)


def swapped_dates(prompt: str, stored: str) -> Iterator[str]:
    """Yield the date with day and month swapped, in the form that the prompt asks for. It is wrong for certain."""
    day, form = stored_date(stored), asked_date_form(prompt)
    other = _swapped(day) if day is not None else None
    if other is not None and form is not None and form.by_numbers:
        yield form.written(other)


def _swapped(day: date) -> date | None:
    """Return the date with day and month swapped; None if there is none, or if it is the same."""
    return date(day.year, day.day, day.month) if day.day <= 12 and day.day != day.month else None
