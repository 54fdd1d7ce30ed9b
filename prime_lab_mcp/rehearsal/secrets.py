"""Secrets that are linked to an environment on the Hub. Only names are stored; values are discarded.

The list of non-secret variables is always empty.
"""

from __future__ import annotations

import re

from prime_lab_mcp.rehearsal import hub
from prime_lab_mcp.rehearsal.call import Answer, PlatformCall, PlatformRoute, Refusal, iso
from prime_lab_mcp.rehearsal.store import Body, new_id

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")


def _environment(call: PlatformCall) -> Body:
    environment = call.session.get("environment", call.path["id"])
    if environment is None:
        raise Refusal(404, "Environment not found")
    if not hub.owned_by_caller(environment):
        raise Refusal(403, "You do not have permission to see the secrets of this environment")
    return environment


def listing(call: PlatformCall) -> Answer:
    return {"data": _environment(call).get("secrets", [])}


def variables(call: PlatformCall) -> Answer:
    _environment(call)
    return {"data": []}


def create(call: PlatformCall) -> Answer:
    environment = _environment(call)
    name = str(call.body.get("name", ""))
    if not _NAME.fullmatch(name) or not call.body.get("value"):
        raise Refusal(422, [{"loc": ["body", "name"], "msg": "an uppercase name and a value are required"}])
    held: list[Body] = environment.setdefault("secrets", [])
    if any(secret["name"] == name for secret in held):
        raise Refusal(409, f"A secret named {name} already exists")
    now = iso(call.session.now())
    secret: Body = {"id": new_id("secret"), "name": name, "source": "environment", "createdAt": now, "updatedAt": now}
    held.append(secret)
    call.session.put("environment", environment["id"], environment)
    return {"data": secret}


ENDPOINTS = (
    PlatformRoute("GET", f"{hub.HUB}/{{id}}/secrets", listing),
    PlatformRoute("POST", f"{hub.HUB}/{{id}}/secrets", create),
    PlatformRoute("GET", f"{hub.HUB}/{{id}}/variables", variables),
)
