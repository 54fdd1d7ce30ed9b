"""The account of the caller, its teams and its wallet."""

from __future__ import annotations

from prime_lab_mcp.rehearsal import runs
from prime_lab_mcp.rehearsal.call import LABEL, Answer, PlatformCall, PlatformRoute, Refusal, iso
from prime_lab_mcp.rehearsal.store import Body, Session

USER = "rehearsal"
"""The owner of everything that is pushed without an owner."""
USER_ID = "user_rehearsal"
KEY_PREFIX = "rehearsal-key"
START_BALANCE = 100.0
SPENT_INFERENCE = "spent-inference"
SPENT_ELSEWHERE = "spent-elsewhere"
"""Counter of spending outside of existing runs: the cost of deleted runs, and withdrawals through the admin routes."""

TEAMS: tuple[Body, ...] = (
    {
        "teamId": "clrehearsallab0000000000a",
        "name": "Rehearsal Lab",
        "slug": "rehearsal-lab",
        "role": "ADMIN",
        "createdAt": "2026-01-05T09:00:00Z",
    },
    {
        "teamId": "clrehearsalguest00000000b",
        "name": "Rehearsal Guests (no rights)",
        "slug": "rehearsal-guests",
        "role": "VIEWER",
        "createdAt": "2026-02-01T09:00:00Z",
    },
)
_SCOPES = ("availability", "environments", "evaluations", "inference", "rft", "billing", "secrets")


def may_use_key(authorization: str) -> bool:
    kind, _, key = authorization.partition(" ")
    return kind.lower() == "bearer" and key.startswith(KEY_PREFIX)


def team(call: PlatformCall, *, id: str | None = None, slug: str | None = None) -> Body:
    """A team to which the user may write. Refuses with 404 or 403."""
    for team in TEAMS:
        if (id is not None and team["teamId"] == id) or (slug is not None and team["slug"] == slug):
            if team["role"] != "ADMIN":
                raise Refusal(403, f"You do not have permission to write to team {team['slug']}")
            return team
    raise Refusal(404, f"Team {slug or id} not found")


def balance(session: Session) -> float:
    now = session.now()
    spent = session.value(SPENT_INFERENCE) + session.value(SPENT_ELSEWHERE)
    spent += sum(runs.cost(run, runs.state(run, now)) for run in session.all("run"))
    return round(START_BALANCE - spent, 4)


def require_money(session: Session) -> None:
    if balance(session) <= 0:
        raise Refusal(402, "Payment required: the rehearsal wallet is empty")


def whoami(call: PlatformCall) -> Answer:
    rights = {"read": True, "write": True}
    return {
        "data": {
            "id": USER_ID,
            "email": "rehearsal@localhost",
            "name": "Rehearsal account",
            "slug": USER,
            "scope": dict.fromkeys(_SCOPES, rights),
            "account_limits": {"tunnel_limit": 5},
            "key_limits": None,
            LABEL: True,
        }
    }


def teams(call: PlatformCall) -> Answer:
    offset, limit = call.number("offset", 0), call.number("limit", 100)
    return {"data": list(TEAMS[offset : offset + limit]), "total_count": len(TEAMS)}


def wallet(call: PlatformCall) -> Answer:
    session = call.session
    entries = [_run_entry(run, session.now()) for run in session.all("run")]
    if inference := session.value(SPENT_INFERENCE):
        entries.append(
            {
                "id": "bill_inference",
                "created_at": iso(session.now()),
                "updated_at": iso(session.now()),
                "last_billed_at": None,
                "amount_usd": round(inference, 6),
                "currency": "USD",
                "resource_type": "INFERENCE",
                "resource_id": None,
            }
        )
    entries.reverse()
    offset, limit = call.number("offset", 0), call.number("limit", 20, low=1)
    return {
        "wallet_id": "wallet_rehearsal",
        "team_id": call.query.get("teamId"),
        "balance_usd": balance(session),
        "currency": "USD",
        "total_billings": len(entries),
        "recent_billings": entries[offset : offset + limit],
    }


def _run_entry(run: Body, now: float) -> Body:
    at = runs.state(run, now)
    return {
        "id": f"bill_{run['id']}",
        "created_at": iso(run["created"]),
        "updated_at": iso(at.updated),
        "last_billed_at": iso(at.updated),
        "amount_usd": runs.cost(run, at),
        "currency": "USD",
        "resource_type": "TRAINING_RUN",
        "resource_id": run["id"],
    }


ENDPOINTS = (
    PlatformRoute("GET", "/user/whoami", whoami),
    PlatformRoute("GET", "/user/teams", teams),
    PlatformRoute("GET", "/billing/wallet", wallet),
)
