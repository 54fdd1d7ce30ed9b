"""Obtains approval before something is published or paid for.

If the client can ask its user (elicitation, in both protocol versions), it asks. Otherwise the call returns a token
that is bound to the exact intent. A token does not prove that a person agreed: with `--approval always` only an
elicitation or `prime-lab-mcp approve TOKEN` in a terminal counts. An approval never opens a gate.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next, Report
from prime_lab_mcp.lab.base.text import escape, escape_lines
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.offered import model_listing_calls
from prime_lab_mcp.lab.state.pulled import record_agreement
from prime_lab_mcp.lab.training.declined import record_decline
from prime_lab_mcp.tools.tool import Intent

if TYPE_CHECKING:
    from prime_lab_mcp.lab.state.ledger.rows import Approval
    from prime_lab_mcp.lab.state.pulled import PulledUnconfined

Answer = Literal["approved", "declined", "cannot-ask"]
Ask = Callable[[str], Awaitable[Answer]]
"""Asks the user one question; returns `cannot-ask` if the client cannot ask."""


class Suspended(Exception):
    """The call ends without a result. The client repeats the call with the user's answer (protocol 2026-07-28)."""


TOKEN_SECONDS = 3600
"""Lifetime of a confirmation token in seconds."""


_BELOW = "\n\n"
"""Stands between a question, which is one line, and the file below."""


@dataclass(frozen=True, slots=True)
class Request:
    """The call that needs approval, and the answer that the caller has given so far."""

    tool: str
    arguments: dict[str, object]
    confirm: str | None
    yes: bool
    cautions: tuple[str, ...] = ()
    personal: tuple[str, ...] = ()
    """Those of `cautions` that need a person's own answer: an elicitation, or `approve` in a terminal."""
    ceilings: tuple[str, ...] = ()
    """Those of `personal` that say why evidence is ceiling-only."""
    evidence: tuple[str, ...] = ()
    """Sentences that name the evaluations that support the intent."""
    config_sha256: str | None = None
    """The training config that would be sent, so that a refusal of the user is recorded with it."""
    changed: bool = False
    """True if an earlier call with these arguments asked about another intent."""


async def approve(lab: Lab, intent: Intent, request: Request, ask: Ask | None) -> Report | None:
    """Return None if the intent may be sent, else a report that states what is missing."""
    request = replace(
        request,
        cautions=tuple(escape(caution) for caution in request.cautions),
        evidence=tuple(escape(sentence) for sentence in request.evidence),
    )
    intent = _with_details(lab, intent, request)
    refusal = _refused_by_blocker(intent, request) or _over_cap(lab, intent, request)
    if refusal is not None:
        return refusal
    if not intent.ask:
        return None
    always = lab.limits.always or bool(request.personal)
    if request.confirm is not None:
        return _confirmed(lab, intent, request, request.confirm, always)
    if request.yes and lab.settings.max_spend is not None and not always and not request.cautions:
        return None
    answer: Answer = await ask(_with_file(intent)) if ask is not None else "cannot-ask"
    if answer == "approved":
        return None
    if answer == "declined":
        if request.config_sha256 is not None:
            record_decline(lab, request.config_sha256, "the user, whom the client asked")
        return Report(
            "needs_confirmation",
            "The user declined when the client asked; nothing was sent. Ask the user what to change.",
            next=intent.instead or (Next("workflow_status", "where everything stands, and what else can be done"),),
        )
    return _offer(lab, intent, request, always)


async def approve_foreign_code(
    lab: Lab, refused: PulledUnconfined, tool: str, arguments: dict[str, object], ask: Ask | None
) -> Report | None:
    """Ask a person to let another owner's code run unconfined. Returns None once they agreed, and records the
    agreement.

    A token that is passed back does not count: only an elicitation or `approve` in a terminal does.
    """
    pulled = refused.pulled
    intent = f"run {pulled.ref} {pulled.source}"
    question = escape(
        f"{refused.message}: it can read and change every file of yours. Run the code of {pulled.ref} all the same?"
    )
    if not lab.ledger.approved(intent):
        answer: Answer = await ask(question) if ask is not None else "cannot-ask"
        if answer == "declined":
            return Report("needs_confirmation", "The user declined; the code was not run.", (refused.as_finding(),))
        if answer == "cannot-ask":
            token = lab.ledger.offer(intent, question, None, lab.platform)
            return Report(
                "needs_confirmation",
                "Not run yet. Only the user's own answer counts: ask them to run `prime-lab-mcp approve` with the "
                "token in a terminal, then call again.",
                findings=(refused.as_finding(), _terminal_finding(token)),
                data={"confirm": token, "question": question},
                next=(Next(tool, "once the user approved it in a terminal", arguments),),
            )
    record_agreement(lab.ledger, lab.key, pulled)
    return None


def _with_details(lab: Lab, intent: Intent, request: Request) -> Intent:
    """Complete the question with the evidence, the cautions, the committed amount, the cap and the platform."""
    parts = [intent.question, *request.evidence, *(f"Note: {caution}." for caution in request.cautions)]
    cap = lab.limits.max_spend
    if cap is not None and intent.max_cost is not None:
        spent = lab.ledger.spent(lab.platform)
        parts.append(f"Committed so far ${spent:.2f} of the cap of ${cap:.2f}.")
    if lab.settings.rehearsal:
        parts.append("This is a rehearsal: nothing is published and nothing is paid.")
    # The question contains foreign names of models, environments and files. Escaping shows a person what they are.
    return replace(intent, question=escape(" ".join(parts)))


def _refused_by_blocker(intent: Intent, request: Request) -> Report | None:
    """The refusal of an intent with blockers, which needs no question; None without blockers."""
    blockers = [f for f in intent.findings if f.severity == "blocker"]
    if not blockers:
        return None
    message = f"Refused: {blockers[0].message}."
    again = Next(request.tool, "once that is mended", request.arguments)
    return Report("blocked", message, intent.findings, next=model_listing_calls(blockers) or (again,))


def _over_cap(lab: Lab, intent: Intent, request: Request) -> Report | None:
    cap = lab.limits.max_spend
    if cap is None or intent.kind == "push":
        return None
    if intent.max_cost is None and intent.ask:
        return _refused(
            "price-unknown",
            "no price is known for this, and the server was started with a spending cap",
            Fix(
                "Choose a GPU type with a listed price (",
                NamedCall("search_hub", kind="gpu").shown("search_hub kind=gpu"),
                "), or ask the user to run it themselves.",
            ),
            Next("search_hub", "GPU types with their prices", {"kind": "gpu", "query": ""}),
        )
    if intent.max_cost is not None and lab.ledger.spent(lab.platform) + intent.max_cost > cap + 1e-9:
        return over_cap(lab, intent.max_cost, request.tool, request.arguments)
    return None


def over_cap(lab: Lab, amount: float, tool: str, arguments: Mapping[str, object]) -> Report:
    """The refusal of an amount above the cumulative cap, with a call that stays below the cap."""
    cap, spent = lab.limits.max_spend or 0.0, lab.ledger.spent(lab.platform)
    return _refused(
        "over-cap",
        f"this may cost up to ${amount:.2f}; with ${spent:.2f} committed it exceeds the cap of ${cap:.2f}",
        "Use fewer steps, a smaller batch or cheaper GPUs, or ask the user to raise --max-spend.",
        _cheaper(math.floor(100 * (cap - spent)) / 100, tool, arguments),
    )


def _cheaper(left: float, tool: str, arguments: Mapping[str, object]) -> Next:
    """The next call, within the rest of the cap (US dollars)."""
    if left <= 0 or tool not in ("run_eval", "submit_training"):
        return Next("workflow_status", "what was committed so far")
    why = f"what fits the ${left:.2f} that are left"
    if tool == "submit_training" and arguments.get("config"):
        return Next("write_training_config", why, {"based_on": arguments["config"], "budget": left})
    open_again = ("num_examples", "rollouts", "steps", "batch", "group", "confirm", "yes")
    unchanged = {k: v for k, v in arguments.items() if k not in open_again and v is not None}
    return Next(tool, why, {**unchanged, "budget": left})


def _refused(code: Code, message: str, fix: str, next: Next) -> Report:
    return Report(
        "blocked",
        f"Refused: {message}.",
        findings=(Finding(code, "blocker", message, fix),),
        next=(next,),
    )


def _confirmed(lab: Lab, intent: Intent, request: Request, token: str, always: bool) -> Report | None:
    approval = lab.ledger.approval(token)
    if approval is None or not _is_about(approval, lab, intent, request):
        return _offer(lab, intent, request, always, "That token is for something else, or too old. ")
    if always and approval.approved_at is None:
        return Report(
            "needs_confirmation",
            "A person must approve this in a terminal first.",
            data={"confirm": token, "question": intent.question, **_file_of(intent)},
            findings=(_terminal_finding(token), *map(_ceiling_finding, request.ceilings)),
            next=(_call_with_token(request, token),),
        )
    return None


def _is_about(approval: Approval, lab: Lab, intent: Intent, request: Request) -> bool:
    """True if the question of a token said everything that this intent's question says, not long ago.

    What stands in the file below the question was written by the agent, and says nothing.
    """
    said = approval.question.partition(_BELOW)[0]
    return (
        approval.intent == intent.key
        and approval.platform == lab.platform
        and _covers(approval.max_cost, intent.max_cost)
        and all(sentence in said for sentence in (*request.cautions, *request.evidence))
        and time.time() - approval.at < TOKEN_SECONDS
    )


def _covers(agreed: float | None, now: float | None) -> bool:
    """True if the approved price covers the current one, which may be lower."""
    return agreed is None if now is None else agreed is not None and now <= agreed + 1e-9


def _offer(lab: Lab, intent: Intent, request: Request, always: bool, preface: str = "") -> Report:
    token = lab.ledger.offer(intent.key, _with_file(intent), intent.max_cost, lab.platform)
    changed = (_changed_finding(),) if request.changed and request.confirm is not None else ()
    findings = (
        *changed,
        *((_terminal_finding(token),) if always else ()),
        *map(_ceiling_finding, request.ceilings),
        *intent.findings,
    )
    instruction = (
        "Only the user's own answer counts: ask them to run `prime-lab-mcp approve` with the token in a terminal, and "
        "then pass the token back as confirm."
        if always
        else "Show the user the question and pass the token back as confirm when they agree."
    )
    return Report(
        "needs_confirmation",
        f"{preface}Not sent yet. {instruction}",
        findings=findings,
        data={
            "confirm": token,
            "question": intent.question,
            "max_cost": intent.max_cost,
            **_file_of(intent),
        },
        next=(_call_with_token(request, token), *_if_declined(intent)),
    )


def _if_declined(intent: Intent) -> Iterator[Next]:
    """What else there is where the user declines a push, or a run that may outlast the wallet; other calls follow a
    declined run once it was declined."""
    for one in intent.instead:
        if intent.kind != "push" and "budget" not in (one.arguments or {}):
            continue
        yield replace(one, why=f"if the user declines: {one.why}")


def _with_file(intent: Intent) -> str:
    """All that a person is shown, in whichever way they answer."""
    return f"{intent.question}{_BELOW}{_file_text(intent.file)}" if intent.file else intent.question


def _file_of(intent: Intent) -> dict[str, str]:
    return {"file": _file_text(intent.file)} if intent.file else {}


def _file_text(file: str) -> str:
    """The text of a file as it stands below a question: its line breaks stay, whatever else acts unseen is escaped."""
    return escape_lines(file.rstrip("\n"))


def _changed_finding() -> Finding:
    return Finding(
        "intent-changed",
        "warning",
        "what would be sent, its price or its cautions changed since the question was asked",
        "Show the user the new question; the earlier answer does not count for it.",
    )


def _terminal_finding(token: str) -> Finding:
    return Finding(
        "approval-in-terminal",
        "info",
        "this server accepts approval only from a person",
        f"Ask the user to run: prime-lab-mcp approve {token}",
    )


def _ceiling_finding(reason: str) -> Finding:
    return Finding(
        "evidence-ceiling-only",
        "warning",
        reason,
        "Evaluate the model to be trained, or ask the judge, at prime or at an endpoint that the user named "
        "(--endpoint); else only the user can answer.",
    )


def _call_with_token(request: Request, token: str) -> Next:
    repeated = {k: v for k, v in request.arguments.items() if v is not None}
    return Next(request.tool, "once the user agreed", {**repeated, "confirm": token})
