"""Faults that a test or a person can order: of HTTP answers, of the model, of runs.

A fault is a document in the store. It therefore applies in every platform process on the folder, and exactly the
ordered number of times.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal, get_args

from prime_lab_mcp.rehearsal.call import Refusal
from prime_lab_mcp.rehearsal.runs import RUN_FAULTS
from prime_lab_mcp.rehearsal.skill import quantile
from prime_lab_mcp.rehearsal.store import Body, Session, new_id

Scope = Literal["http", "model", "run", "evaluation"]
HttpFault = Literal[
    "401",
    "402",
    "403",
    "404",
    "409",
    "422",
    "429",
    "500",
    "503",
    "slow",
    "garbage",
    "drop-before",
    "drop-after",
]
ModelFault = Literal["429", "500", "503", "slow", "garbage", "cut", "empty"]
EvaluationFault = Literal["fails", "times-out", "stall"]
_KINDS: dict[Scope, tuple[str, ...]] = {
    "http": get_args(HttpFault),
    "model": get_args(ModelFault),
    "run": RUN_FAULTS,
    "evaluation": get_args(EvaluationFault),
}
_STEP = re.compile(r"-(\d{1,4})(?![0-9a-f])")
"""The pattern excludes the eight hex digits at the end of run names."""


def order(session: Session, wanted: Body) -> Body:
    """Store an ordered fault. Refuses unknown scopes and kinds."""
    scope, kind = wanted.get("scope", "http"), str(wanted.get("kind", ""))
    if scope not in _KINDS:
        raise Refusal(422, [{"loc": ["body", "scope"], "msg": f"one of {', '.join(_KINDS)}"}])
    if kind not in _KINDS[scope]:
        known = ", ".join(_KINDS[scope])
        raise Refusal(422, [{"loc": ["body", "kind"], "msg": f"for {scope}: one of {known}"}])
    for pattern in ("path", "model", "name"):
        try:
            re.compile(wanted.get(pattern) or "")
        except re.error:
            raise Refusal(422, [{"loc": ["body", pattern], "msg": "not a pattern"}]) from None
    # Only HTTP faults are used up by default; faults of a model or a run are permanent.
    fault: Body = {"times": 1 if scope == "http" else None, "skip": 0, "share": 1.0} | wanted
    fault |= {"id": new_id("fault"), "scope": scope, "kind": kind}
    session.put("fault", fault["id"], fault, parent=str(scope))
    return fault


def claim(session: Session, scope: Scope, matches: Callable[[Body], bool]) -> Body | None:
    """Return the first fault that applies, and decrease its count. A fault with count 0 is removed."""
    for fault in session.all("fault", scope):
        if not matches(fault):
            continue
        number = session.add(f"seen-{fault['id']}")
        if number < fault["skip"] or quantile(fault["id"], str(int(number))) >= fault["share"]:
            continue
        if fault["times"] is not None:
            fault["times"] -= 1
            if fault["times"] <= 0:
                session.remove("fault", fault["id"])
            else:
                session.put("fault", fault["id"], fault, parent=scope)
        return fault
    return None


def for_request(session: Session, method: str, path: str) -> Body | None:
    def matches(fault: Body) -> bool:
        wanted = fault.get("method")
        return (wanted is None or wanted == method) and bool(re.search(fault.get("path") or "", path))

    return claim(session, "http", matches)


def in_name(name: str, scope: Scope) -> dict[str, Body]:
    """Faults that a name requests: `my-run-fault-collapse-8` has `collapse` from step 8."""
    fields: dict[str, Body] = {}
    longest_first = sorted(_KINDS[scope], key=len, reverse=True)
    for rest in name.split("fault-")[1:]:
        kind = next((k for k in longest_first if rest.startswith(k)), None)
        if kind is not None:
            step = _STEP.match(rest.removeprefix(kind))
            fields[kind] = {"step": int(step[1])} if step else {}
    return fields


def for_named(session: Session, scope: Scope, name: str) -> dict[str, Body]:
    """All faults of a new run or evaluation with this name."""
    fields = in_name(name, scope)
    while fault := claim(session, scope, lambda f: _named(f, name, fields)):
        fields[fault["kind"]] = options(fault)
    return fields


def _named(fault: Body, name: str, fields: dict[str, Body]) -> bool:
    pattern = fault.get("name")
    return fault["kind"] not in fields and (pattern is None or bool(re.search(pattern, name)))


def options(fault: Body) -> Body:
    return {k: fault[k] for k in ("step", "seconds", "cause", "as") if k in fault}
