"""The admin routes of the rehearsal: answers for the model, faults, wallet, clock, and recorded requests."""

from __future__ import annotations

from prime_lab_mcp.rehearsal import account, faults, inference, training
from prime_lab_mcp.rehearsal.answers import parse_row
from prime_lab_mcp.rehearsal.call import Answer, PlatformCall, PlatformRoute, Refusal
from prime_lab_mcp.rehearsal.store import Body


def add_answers(call: PlatformCall) -> Answer:
    rows = call.body.get("answers")
    if not isinstance(rows, list):
        raise Refusal(422, [{"loc": ["body", "answers"], "msg": "a list is required"}])
    for index, row in enumerate(rows):
        try:
            gold = parse_row(row)
        except ValueError as error:
            raise Refusal(422, [{"loc": ["body", "answers", index], "msg": str(error)}]) from None
        call.session.put("answer", gold["id"], gold)
    call.session.add(inference.ANSWERS_VERSION)
    return {"stored": len(rows), "total": call.session.count("answer")}


def count_answers(call: PlatformCall) -> Answer:
    return {"total": call.session.count("answer")}


def remove_answers(call: PlatformCall) -> Answer:
    call.session.add(inference.ANSWERS_VERSION)
    return {"removed": call.session.remove("answer")}


def order_fault(call: PlatformCall) -> Answer:
    id = call.body.get("run")
    if id is None:
        return faults.order(call.session, call.body)
    run = call.session.get("run", str(id))
    if run is None:
        raise Refusal(404, f"Run {id} not found")
    fault = faults.order(call.session, call.body | {"scope": "run"})
    call.session.remove("fault", fault["id"])
    run["faults"][fault["kind"]] = faults.options(fault)
    call.session.put("run", run["id"], run)
    return fault


def list_faults(call: PlatformCall) -> Answer:
    return {"faults": call.session.all("fault")}


def remove_faults(call: PlatformCall) -> Answer:
    return {"removed": call.session.remove("fault", call.path.get("id"))}


def get_account(call: PlatformCall) -> Answer:
    return {"user": account.USER, "balance_usd": account.balance(call.session)}


def set_account(call: PlatformCall) -> Answer:
    wanted = call.body.get("balance_usd")
    if not isinstance(wanted, int | float):
        raise Refusal(422, [{"loc": ["body", "balance_usd"], "msg": "a number is required"}])
    call.session.add(account.SPENT_ELSEWHERE, account.balance(call.session) - wanted)
    return get_account(call)


def set_platform(call: PlatformCall) -> Answer:
    """Set how POST /training/runs/prepare answers: `prepare` is one of `training.PREPARATIONS`, or true or false for
    the first two. `trains` is a list of models that the platform trains besides its own."""
    trained = call.body.get("trains", [])
    if not isinstance(trained, list) or not all(isinstance(name, str) for name in trained):
        raise Refusal(422, [{"loc": ["body", "trains"], "msg": "a list of model names is required"}])
    for name in trained:
        call.session.put("model", name, {"name": name})
    wanted = call.body.get("prepare", True)
    named = training.PREPARATIONS[0 if wanted else 1] if isinstance(wanted, bool) else wanted
    if named not in training.PREPARATIONS:
        known = ", ".join(training.PREPARATIONS)
        raise Refusal(422, [{"loc": ["body", "prepare"], "msg": f"one of {known}"}])
    chosen = float(training.PREPARATIONS.index(named))
    call.session.add(training.PREPARE, chosen - call.session.value(training.PREPARE))
    return {"prepare": named}


def move_clock(call: PlatformCall) -> Answer:
    """Move the clock forward by `advance` seconds. With `hold` the clock then stands still until a call with
    `hold=false`, so that what a run has reached does not depend on how fast this machine is."""
    hold, seconds = call.body.get("hold"), call.body.get("advance", 0)
    if not isinstance(hold, bool | None):
        raise Refusal(422, [{"loc": ["body", "hold"], "msg": "true or false"}])
    if not isinstance(seconds, int | float) or seconds < 0:
        raise Refusal(422, [{"loc": ["body", "advance"], "msg": "seconds, not negative"}])
    if hold is not None:
        call.session.hold_clock(hold)
    return {"now": call.session.advance_clock(seconds)}


def requests(call: PlatformCall) -> Answer:
    requests = call.session.requests(call.query.get("path", ""))
    method = call.query.get("method")
    return {"requests": [r for r in requests if method in (None, r["method"])]}


def health(call: PlatformCall) -> Answer:
    counts: Body = {kind: call.session.count(kind) for kind in ("environment", "run", "answer")}
    return {"rehearsal": True, "speed": call.store.speed, "now": call.session.now()} | counts


ENDPOINTS = (
    PlatformRoute("GET", "/rehearsal/health", health, public=True),
    PlatformRoute("POST", "/rehearsal/answers", add_answers),
    PlatformRoute("GET", "/rehearsal/answers", count_answers),
    PlatformRoute("DELETE", "/rehearsal/answers", remove_answers),
    PlatformRoute("POST", "/rehearsal/faults", order_fault),
    PlatformRoute("GET", "/rehearsal/faults", list_faults),
    PlatformRoute("DELETE", "/rehearsal/faults", remove_faults),
    PlatformRoute("DELETE", "/rehearsal/faults/{id}", remove_faults),
    PlatformRoute("GET", "/rehearsal/account", get_account),
    PlatformRoute("POST", "/rehearsal/account", set_account),
    PlatformRoute("POST", "/rehearsal/platform", set_platform),
    PlatformRoute("POST", "/rehearsal/clock", move_clock),
    PlatformRoute("GET", "/rehearsal/requests", requests),
)
