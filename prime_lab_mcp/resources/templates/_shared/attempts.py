"""What the environment says after an attempt, and what an attempt is worth. Pure: no model, no verifiers."""

from __future__ import annotations

from collections.abc import Sequence

from shared_template.answers import in_form, score

MAX_TURNS = 4
TURN_COST = 0.15
"""What each attempt before the right one takes off its worth."""
RULES = (
    f"You have {MAX_TURNS} attempts. After a wrong one you are told so and may try again; "
    "a right answer is worth the more the earlier it comes."
)


def response(reply: str, gold: str, left: int) -> str | None:
    """The user's message after an attempt, with `left` more to come; None when the answer was right or none is left.

    It never says more than that an answer is wrong: a hint that gives the gold away would be learned as the solution.
    """
    if left < 1 or score(reply, gold):
        return None
    found = "That is not right." if in_form(reply) else "I found no answer in the asked form."
    return f"{found} {left} {'attempt' if left == 1 else 'attempts'} left."


def worth(replies: Sequence[str], gold: str) -> float:
    """1 for a right first attempt, less for each wrong one before it, 0 when none of the first MAX_TURNS is right."""
    right = (turn for turn, reply in enumerate(replies[:MAX_TURNS]) if score(reply, gold))
    turn = next(right, None)
    return 0.0 if turn is None else 1.0 - TURN_COST * turn
