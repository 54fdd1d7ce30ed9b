"""The teams: what each is for, as the model reads it, and how a reply names one."""

from __future__ import annotations

import re

TEAMS = {
    "billing": "invoices, receipts, vouchers and ways to pay, as long as nobody contests that the money is owed",
    "billing_disputes": "the customer contests a claim: chargebacks, reversed debits, reminders, collection agencies",
    "delivery": "where an order is, when and to which address it comes",
    "returns": "goods to be sent back, exchanged or repaired, missing parts, and the money for them",
    "login": "the customer cannot get into the own account, or wants to change how",
    "security": "accounts taken over, fraud in our name, leaks, access of others, personal data",
    "product_advice": "which product fits, what it can do, how it is used, before or after the purchase",
}
FORMAT = "\n".join(
    (
        "Then give the name of one team, and nothing else, in answer tags: <answer>TEAM</answer>",
        "The teams:",
        *(f"- {team}: {task}" for team, task in TEAMS.items()),
    )
)
_TAG = re.compile(r"<answer>([^<]*)</answer>", re.I)
_OPEN, _CLOSE = re.compile(r"<answer>", re.I), re.compile(r"</answer>", re.I)
_THOUGHT_END, _THOUGHT_START = re.compile(r"</think(?:ing)?>", re.I), re.compile(r"<think(?:ing)?>", re.I)


def given(reply: str) -> str | None:
    """The team that a reply names; None when it names none, or several.

    The whole content of the tag must be the name: `billing` is also the beginning of `billing_disputes`.
    """
    said = _THOUGHT_START.split(_THOUGHT_END.split(reply)[-1])[0]
    found = _TAG.findall(said)
    if not len(found) == len(_OPEN.findall(said)) == len(_CLOSE.findall(said)):
        return None
    teams = {_team(content) for content in found if content.strip()}
    return teams.pop() if len(teams) == 1 else None


def _team(content: str) -> str | None:
    name = re.sub(r"[\s_-]+", "_", content.strip().strip("`*\"'").removesuffix(".").casefold())
    return name if name in TEAMS else None
