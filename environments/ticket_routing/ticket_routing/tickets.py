"""The tickets, and how many of each team are used.

Real tickets are lopsided: here more than a fifth go to one team, and a model that answers `delivery` to everything is
right that often. Accuracy over equally many tickets of each team is macro recall; such a habit gains nothing there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ticket_routing.teams import TEAMS

Split = Literal["train", "test"]
DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class Ticket:
    """One ticket and the team that solved it."""

    subject: str
    body: str
    team: str


def tickets(split: Split) -> Iterator[Ticket]:
    """All tickets of a split, as lopsided as they came in."""
    with (DATA / f"{split}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield Ticket(row["subject"], row["body"], row["team"])


def balanced(found: Iterable[Ticket], seed: int) -> Iterator[Ticket]:
    """As many tickets of each team as the smallest has. The teams take turns, so that every part is balanced."""
    by_team: dict[str, list[Ticket]] = {team: [] for team in TEAMS}
    for ticket in found:
        by_team[ticket.team].append(ticket)
    chosen = [sorted(members, key=lambda ticket: _digest(ticket, seed)) for members in by_team.values()]
    for turn in zip(*chosen, strict=False):
        yield from sorted(turn, key=lambda ticket: _digest(ticket, seed))


def _digest(ticket: Ticket, seed: int) -> str:
    return hashlib.sha256(f"{seed}\n{ticket.subject}\n{ticket.body}".encode()).hexdigest()
