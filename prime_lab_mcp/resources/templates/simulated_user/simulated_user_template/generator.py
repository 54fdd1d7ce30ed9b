"""Makes the users and their wishes. `_wish` is the part to replace; `wishes` keeps splits apart and repeats nothing.

A wish depends on the generator that is handed on and on nothing else: no clock, no order of a set.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

from simulated_user_template.user import DETAILS, Wish, first_message

LEVELS = ("easy", "medium", "hard")
"""easy: three details. medium: four. hard: four, one corrected at the end, by a user who answers one at a time."""
HELD_OUT = 5
"""One user in this many is held out."""
_FIRST = ("Ada", "Bram", "Cleo", "Daan", "Elif", "Finn", "Greta", "Hugo", "Ines", "Jonas", "Karim", "Lotte")
_LAST = ("Aerts", "Bogaert", "Claes", "Dewit", "Engels", "Fierens", "Goossens", "Hermans")
_VALUES: dict[str, tuple[str | int, ...]] = {
    "day": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "time": ("17:30", "18:00", "18:30", "19:00", "19:30", "20:00", "20:30", "21:00"),
    "people": (2, 3, 4, 5, 6, 7, 8, 9),
    "place": ("inside", "terrace"),
}


def wishes(split: str, level: str, size: int, seed: int) -> Iterator[tuple[str, Wish]]:
    """`size` wishes with their levels, the same for the same arguments, each with a beginning of its own; with level
    `all` the levels take turns.

    No user is in both splits, whatever the seeds: a hash of the name decides. Raises ValueError where there are not
    that many wishes.
    """
    draw = random.Random(f"{seed}/{split}")
    levels = LEVELS if level == "all" else (level,)
    everybody = [f"{first} {last}" for first in _FIRST for last in _LAST]
    names = [name for name in everybody if _held_out(name) == (split == "eval")]
    known: set[str] = set()
    for _ in range(20 * size):
        if len(known) == size:
            return
        chosen = levels[len(known) % len(levels)]
        wish = _wish(chosen, draw.choice(names), draw)
        if first_message(wish) not in known:
            known.add(first_message(wish))
            yield chosen, wish
    if len(known) < size:
        raise ValueError(f"there are only {len(known)} wishes of level {level}, and {size} are asked for")


def _wish(level: str, name: str, draw: random.Random) -> Wish:
    details = DETAILS[:3] if level == "easy" else DETAILS
    values = {detail: draw.choice(_VALUES[detail]) for detail in details}
    opening = draw.choice(DETAILS[:3])
    mistaken: dict[str, str | int] = {}
    if level == "hard":
        wrong = draw.choice([detail for detail in DETAILS[:3] if detail != opening])
        mistaken[wrong] = draw.choice([value for value in _VALUES[wrong] if value != values[wrong]])
    return Wish(name, values, opening, mistaken, level == "hard")


def _held_out(name: str) -> bool:
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % HELD_OUT == 0
