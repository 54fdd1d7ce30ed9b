"""What to do about a push that the platform refused."""

from __future__ import annotations

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.refusals import Refusal
from prime_lab_mcp.lab.text import quote

_READ_ONLY = frozenset({"VIEWER", "GUEST"})
"""Roles of a team that the platform lets no member publish with."""


async def explained(lab: Lab, owner: str, name: str, refused: Refusal) -> Refusal:
    """The refusal with what to do about it in a push: which owners would do, or what stands in the way."""
    if refused.code in ("platform-forbidden", "platform-not-found"):
        fix = f"{quote(owner, 80)} is not yours to publish under. {await _owners(lab)}"
    elif refused.code == "platform-conflict":
        fix = (
            f"The Hub holds this content, or the name {quote(name, 80)}, elsewhere (search_hub shows it). "
            "Change the files, or [project].name in pyproject.toml, then call check_environment and push_environment."
        )
    elif refused.code == "payment-required":
        fix = f"{refused.fix} Nothing was published; call push_environment again afterwards."
    else:
        return refused
    return Refusal(refused.message, fix=fix, code=refused.code, effect=refused.effect, problems=refused.problems)


async def _owners(lab: Lab) -> str:
    """A sentence that names the owners this account may publish under."""
    try:
        account, teams = await lab.prime.account(), await lab.prime.teams()
    except LabError:
        return "Pass no owner for the user's own, or a team of theirs (preflight shows them)."
    named = [f"owner={account.user}"] if account.user else []
    named += [f"team={t.slug}" for t in teams if t.role.upper() not in _READ_ONLY]
    return f"Pass one of: {quote(', '.join(named), 200)}; or ask the user for the right." if named else (
        "This account has no owner to publish under yet; ask the user to choose a user name on the platform."
    )  # fmt: skip
