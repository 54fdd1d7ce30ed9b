"""What needs a person's answer before something is published or paid for, and which answers count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Finding, Next, Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.manifest import Manifest
from prime_lab_mcp.lab.state.pulled import PulledFiles, PulledUnconfined, unagreed_pull
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.server import approval
from prime_lab_mcp.server.approval import TOKEN_SECONDS, Answer, Request, approve, approve_foreign_code, over_cap
from prime_lab_mcp.tools.tool import Intent

pytestmark = pytest.mark.anyio
RUN = Intent("submit", "run-1", "Start the run?", 5.0)
PUSH = Intent("push", "push-1", "Publish?")
CALL = Request("submit_training", {"config": "run.toml", "note": None}, None, False)


class Person:
    """Answers questions, and remembers them."""

    def __init__(self, answer: Answer) -> None:
        self.answer: Answer = answer
        self.questions: list[str] = []

    async def ask(self, question: str) -> Answer:
        self.questions.append(question)
        return self.answer


class Desk:
    """Servers with settings of their own, each on a fresh state directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._labs: list[Lab] = []

    def lab(self, **settings: Any) -> Lab:
        at = self._folder / str(len(self._labs))
        (at / "workspace").mkdir(parents=True)
        self._labs.append(Lab(Settings(at / "workspace", at / "state", **settings)))
        return self._labs[-1]

    def close(self) -> None:
        for lab in self._labs:
            lab.ledger.close()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    opened = Desk(tmp_path)
    yield opened
    opened.close()


async def offered(lab: Lab, intent: Intent = RUN, request: Request = CALL) -> Report:
    """The report of a call that asks because nobody answered it."""
    report = await approve(lab, intent, request, None)
    assert report is not None
    assert report.status == "needs_confirmation", report
    return report


async def accepted(lab: Lab, token: object, intent: Intent = RUN, request: Request = CALL) -> bool:
    """Whether the intent may be sent with this token."""
    return await approve(lab, intent, replace(request, confirm=str(token)), None) is None


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


# The question


async def test_a_client_that_can_ask_gets_the_whole_question_and_its_answer_counts(desk: Desk) -> None:
    person = Person("approved")
    intent = replace(RUN, file="steps = 3\nname = 'a\u202eb'\n")
    request = replace(CALL, cautions=("the wallet is small",), evidence=("Evaluated by eval-1.",))
    assert await approve(desk.lab(), intent, request, person.ask) is None
    assert person.questions == [
        "Start the run? Evaluated by eval-1. Note: the wallet is small.\n\nsteps = 3\nname = 'a\\u202eb'"
    ]


async def test_a_question_without_a_file_ends_with_its_sentences(desk: Desk) -> None:
    person = Person("approved")
    await approve(desk.lab(), RUN, CALL, person.ask)
    assert person.questions == ["Start the run?"]


async def test_a_question_about_money_under_a_cap_says_what_was_committed(desk: Desk) -> None:
    lab = desk.lab(max_spend=20.0)
    lab.ledger.reserve("earlier", 2.5, "run", "prime", None)
    assert (await offered(lab)).data["question"] == "Start the run? Committed so far $2.50 of the cap of $20.00."
    assert (await offered(lab, PUSH)).data["question"] == "Publish?"


async def test_a_question_in_a_rehearsal_says_that_nothing_is_paid(desk: Desk) -> None:
    question = (await offered(desk.lab(rehearsal=True))).data["question"]
    assert question == "Start the run? This is a rehearsal: nothing is published and nothing is paid."


async def test_what_needs_no_approval_is_sent_without_a_question(desk: Desk) -> None:
    person = Person("declined")
    assert await approve(desk.lab(), replace(RUN, ask=False), CALL, person.ask) is None
    assert person.questions == []


# Declining


async def test_a_declined_question_sends_nothing_and_names_what_to_call_instead(desk: Desk) -> None:
    cheaper = Next("write_training_config", "fewer steps")
    for instead, next_tool in (((), "workflow_status"), ((cheaper,), "write_training_config")):
        report = await approve(desk.lab(), replace(RUN, instead=instead), CALL, Person("declined").ask)
        assert report is not None
        assert (report.status, [call.tool for call in report.next]) == ("needs_confirmation", [next_tool])
        assert "declined" in report.summary


async def test_a_declined_config_is_recorded_by_its_bytes(desk: Desk) -> None:
    lab = desk.lab()
    await approve(lab, RUN, CALL, Person("declined").ask)
    assert lab.ledger.evidence() == []
    await approve(lab, RUN, replace(CALL, config_sha256="c" * 64), Person("declined").ask)
    assert [row.config_sha256 for row in lab.ledger.evidence()] == ["c" * 64]


async def test_an_approved_or_unasked_config_is_not_recorded_as_declined(desk: Desk) -> None:
    lab = desk.lab()
    await approve(lab, RUN, replace(CALL, config_sha256="c" * 64), Person("approved").ask)
    await approve(lab, RUN, replace(CALL, config_sha256="c" * 64), Person("cannot-ask").ask)
    assert lab.ledger.evidence() == []


# Blockers


async def test_an_intent_with_a_blocker_is_refused_without_a_question(desk: Desk) -> None:
    warned = Finding("wallet-low", "warning", "the wallet is small", "Top up.")
    empty = Finding("payment-required", "blocker", "the wallet is empty", "Top up.")
    person = Person("approved")
    report = await approve(desk.lab(), replace(RUN, findings=(warned, empty)), CALL, person.ask)
    assert report is not None
    assert (report.status, report.summary, codes(report)) == (
        "blocked",
        "Refused: the wallet is empty.",
        ["wallet-low", "payment-required"],
    )
    assert [(call.tool, call.arguments) for call in report.next] == [("submit_training", CALL.arguments)]
    assert person.questions == []


async def test_a_warning_alone_refuses_nothing_and_is_shown_with_the_question(desk: Desk) -> None:
    warned = Finding("wallet-low", "warning", "the wallet is small", "Top up.")
    assert codes(await offered(desk.lab(), replace(RUN, findings=(warned,)))) == ["wallet-low"]


async def test_a_blocked_model_leads_to_the_search_for_models(desk: Desk) -> None:
    blocked = Finding("model-not-offered", "blocker", "not offered", "Choose another.")
    report = await approve(desk.lab(), replace(RUN, findings=(blocked,)), CALL, None)
    assert report is not None
    assert [(call.tool, call.arguments) for call in report.next] == [("search_hub", {"kind": "model"})]


# The cap


@pytest.mark.parametrize(
    ("cost", "allowed"), [(0.2, True), (0.3, True), (0.31, False), (1.0, False)], ids=["below", "at", "above", "far"]
)
async def test_the_committed_amounts_may_reach_the_cap_and_not_exceed_it(
    desk: Desk, cost: float, allowed: bool
) -> None:
    lab = desk.lab(max_spend=0.4)
    lab.ledger.reserve("earlier", 0.1, "run", "prime", None)
    report = await approve(lab, replace(RUN, max_cost=cost), replace(CALL, yes=True), None)
    assert (report is None) is allowed
    if report is not None:
        assert (report.status, codes(report)) == ("blocked", ["over-cap"])
        assert f"up to ${cost:.2f}; with $0.10 committed it exceeds the cap of $0.40" in report.summary


async def test_a_publication_is_not_counted_against_the_cap(desk: Desk) -> None:
    assert (await offered(desk.lab(max_spend=0.0), replace(PUSH, max_cost=5.0))).data["confirm"]


async def test_a_cap_of_nothing_refuses_everything_that_costs(desk: Desk) -> None:
    report = await approve(desk.lab(max_spend=0.0), RUN, CALL, Person("approved").ask)
    assert report is not None
    assert "with $0.00 committed it exceeds the cap of $0.00" in report.summary
    assert [call.tool for call in report.next] == ["workflow_status"]


async def test_an_unknown_price_is_refused_under_a_cap_and_asked_about_without_one(desk: Desk) -> None:
    unpriced = replace(RUN, max_cost=None)
    refused = await approve(desk.lab(max_spend=100.0), unpriced, replace(CALL, yes=True), None)
    assert refused is not None
    assert (refused.status, codes(refused)) == ("blocked", ["price-unknown"])
    assert [(call.tool, call.arguments) for call in refused.next] == [("search_hub", {"kind": "gpu", "query": ""})]
    await offered(desk.lab(), unpriced)


async def test_what_needs_no_question_and_has_no_price_is_sent_under_a_cap(desk: Desk) -> None:
    assert await approve(desk.lab(max_spend=100.0), replace(RUN, max_cost=None, ask=False), CALL, None) is None


@pytest.mark.parametrize(
    ("tool", "arguments", "tool_next", "arguments_next"),
    [
        (
            "submit_training",
            {"config": "run.toml", "yes": True},
            "write_training_config",
            {"based_on": "run.toml", "budget": 0.65},
        ),
        (
            "submit_training",
            {"environment": "sums", "steps": 90, "model": None},
            "submit_training",
            {"environment": "sums", "budget": 0.65},
        ),
        (
            "run_eval",
            {"environment": "sums", "num_examples": 9, "rollouts": 4, "config": "c.toml", "confirm": "t"},
            "run_eval",
            {"environment": "sums", "config": "c.toml", "budget": 0.65},
        ),
        ("control_training", {"id": "run-1"}, "workflow_status", None),
    ],
    ids=["config", "environment", "evaluation", "other"],
)
def test_a_refusal_for_the_cap_names_a_call_that_stays_within_the_rest(
    desk: Desk, tool: str, arguments: dict[str, object], tool_next: str, arguments_next: dict[str, object] | None
) -> None:
    lab = desk.lab(max_spend=3.0)
    lab.ledger.reserve("earlier", 2.345, "run", "prime", None)
    (call,) = over_cap(lab, 9.0, tool, arguments).next
    assert (call.tool, call.arguments) == (tool_next, arguments_next)


def test_where_nothing_is_left_of_the_cap_no_smaller_call_is_named(desk: Desk) -> None:
    lab = desk.lab(max_spend=3.0)
    lab.ledger.reserve("earlier", 3.0, "run", "prime", None)
    (call,) = over_cap(lab, 9.0, "run_eval", {"environment": "sums"}).next
    assert call.tool == "workflow_status"


# yes


async def test_yes_counts_under_a_cap_and_nowhere_else(desk: Desk) -> None:
    hasty = replace(CALL, yes=True)
    assert await approve(desk.lab(max_spend=10.0), RUN, hasty, None) is None
    await offered(desk.lab(), RUN, hasty)
    await offered(desk.lab(max_spend=10.0), RUN, CALL)


@pytest.mark.parametrize(
    ("settings", "request_"),
    [
        ({"approval": "always"}, CALL),
        ({}, replace(CALL, cautions=("the wallet is small",))),
        ({}, replace(CALL, personal=("the evidence is ceiling-only",))),
    ],
    ids=["approval always", "a caution", "a caution that needs a person"],
)
async def test_yes_does_not_answer_what_only_a_reader_of_the_question_can(
    desk: Desk, settings: dict[str, Any], request_: Request
) -> None:
    person = Person("approved")
    assert await approve(desk.lab(max_spend=10.0, **settings), RUN, replace(request_, yes=True), person.ask) is None
    assert len(person.questions) == 1


# Tokens


async def test_a_token_is_offered_with_everything_that_a_person_needs_to_agree(desk: Desk) -> None:
    report = await offered(desk.lab(), replace(RUN, file="steps = 3\n"))
    token = report.data["confirm"]
    assert report.data == {"confirm": token, "question": "Start the run?", "max_cost": 5.0, "file": "steps = 3"}
    assert report.summary.startswith("Not sent yet. Show the user the question")
    assert [(call.tool, call.arguments) for call in report.next] == [
        ("submit_training", {"config": "run.toml", "confirm": token})
    ]
    assert "file" not in (await offered(desk.lab())).data


@pytest.mark.parametrize(
    ("intent", "named"),
    [(PUSH, ["wait", "smaller", "bare"]), (RUN, ["smaller"])],
    ids=["a push names all", "a run names what fits the wallet"],
)
async def test_a_question_names_what_there_is_if_the_user_declines(
    desk: Desk, intent: Intent, named: list[str]
) -> None:
    instead = (
        Next("watch_run", "wait", {"id": "run-1"}),
        Next("write_training_config", "smaller", {"based_on": "run.toml", "budget": 4}),
        Next("preflight", "bare"),
    )
    report = await offered(desk.lab(), replace(intent, instead=instead))
    first, *others = report.next
    assert (first.arguments or {})["confirm"] == report.data["confirm"]
    assert [one.why for one in others] == [f"if the user declines: {why}" for why in named]


async def test_a_token_counts_for_exactly_its_intent(desk: Desk) -> None:
    lab = desk.lab()
    token = (await offered(lab)).data["confirm"]
    assert await accepted(lab, token)
    assert not await accepted(lab, token, replace(RUN, key="run-2"))
    assert not await accepted(lab, "no-such-token")


async def test_a_token_that_does_not_count_is_answered_with_another(desk: Desk) -> None:
    lab = desk.lab()
    report = await offered(lab, RUN, Request("submit_training", {}, confirm="no-such-token", yes=False))
    assert report.summary.startswith("That token is for something else, or too old. Not sent yet.")
    assert codes(report) == []
    assert await accepted(lab, report.data["confirm"])


async def test_a_token_of_the_rehearsal_counts_for_nothing_on_the_platform(desk: Desk) -> None:
    lab = desk.lab()
    assert not await accepted(lab, lab.ledger.offer(RUN.key, RUN.question, RUN.max_cost, "rehearsal"))
    assert await accepted(lab, lab.ledger.offer(RUN.key, RUN.question, RUN.max_cost, "prime"))


@pytest.mark.parametrize(
    ("agreed", "now", "covered"),
    [(5.0, 5.0, True), (5.0, 4.0, True), (5.0, 5.5, False), (None, None, True), (None, 4.0, False), (5.0, None, False)],
)
async def test_a_token_counts_up_to_the_price_that_its_question_named(
    desk: Desk, agreed: float | None, now: float | None, covered: bool
) -> None:
    lab = desk.lab()
    token = lab.ledger.offer(RUN.key, RUN.question, agreed, "prime")
    assert await accepted(lab, token, replace(RUN, max_cost=now)) is covered


@pytest.mark.parametrize("what", ["cautions", "evidence"])
async def test_a_token_counts_only_while_its_question_said_all_that_must_be_said(desk: Desk, what: str) -> None:
    lab = desk.lab()
    silent = (await offered(lab)).data["confirm"]
    request = replace(CALL, **{what: ("the wallet is small",)})
    told = (await offered(lab, RUN, request)).data["confirm"]
    assert not await accepted(lab, silent, RUN, request)
    assert await accepted(lab, told, RUN, request)


async def test_a_token_counts_for_an_hour(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = desk.lab()
    token = str((await offered(lab)).data["confirm"])
    offer = lab.ledger.approval(token)
    assert offer is not None
    assert TOKEN_SECONDS == 60 * 60
    for seconds, counts in ((TOKEN_SECONDS - 1, True), (TOKEN_SECONDS, False)):
        monkeypatch.setattr(approval, "time", SimpleNamespace(time=lambda at=offer.at + seconds: at))
        assert await accepted(lab, token) is counts


async def test_a_question_that_changed_since_the_token_says_so(desk: Desk) -> None:
    lab = desk.lab()
    changed = replace(CALL, changed=True)
    assert codes(await offered(lab, RUN, replace(changed, confirm="an-older-token"))) == ["intent-changed"]
    assert codes(await offered(lab, RUN, changed)) == []
    assert codes(await offered(lab, RUN, replace(CALL, confirm="an-older-token"))) == []


# A person's own answer


@pytest.mark.parametrize("personal", [False, True], ids=["approval always", "a caution that needs a person"])
async def test_where_a_person_must_answer_a_token_counts_only_once_approved_in_a_terminal(
    desk: Desk, personal: bool
) -> None:
    lab = desk.lab() if personal else desk.lab(approval="always")
    request = replace(CALL, personal=("the evidence is ceiling-only",)) if personal else CALL
    first = await offered(lab, RUN, request)
    token = str(first.data["confirm"])
    assert codes(first) == ["approval-in-terminal"]
    assert first.findings[0].fix.endswith(f"prime-lab-mcp approve {token}")
    assert "Only the user's own answer counts" in first.summary
    early = await offered(lab, RUN, replace(request, confirm=token))
    assert (early.data, codes(early)) == ({"confirm": token, "question": RUN.question}, ["approval-in-terminal"])
    assert early.findings[0].fix.endswith(f"prime-lab-mcp approve {token}")
    assert [call.arguments for call in early.next] == [{"config": "run.toml", "confirm": token}]
    lab.ledger.approve(token)
    assert await accepted(lab, token, RUN, request)


async def test_the_reason_for_a_persons_own_answer_is_a_finding_of_both_reports(desk: Desk) -> None:
    lab = desk.lab()
    request = replace(CALL, personal=("ceiling",), ceilings=("an endpoint of your own answered",))
    first = await offered(lab, RUN, request)
    again = await offered(lab, RUN, replace(request, confirm=str(first.data["confirm"])))
    for report in (first, again):
        assert codes(report) == ["approval-in-terminal", "evidence-ceiling-only"]
        assert report.findings[1].message == "an endpoint of your own answered"


# Another owner's code

PULLED = PulledFiles("them/sums@1.0", "5" * 64)
SNAPSHOT = Snapshot("sums", "environments/sums", Path(), PULLED.source, "c" * 64, "h" * 64, {}, (), Manifest())


async def asked_to_run(lab: Lab, person: Person | None) -> Report | None:
    refused = PulledUnconfined(PULLED, SNAPSHOT)
    arguments: dict[str, object] = {"environment": "sums"}
    return await approve_foreign_code(lab, refused, "test_reward", arguments, person.ask if person else None)


def agreed(lab: Lab) -> bool:
    rows = lab.ledger.evidence(tool="run_pulled")
    return [(row.data["pulled"], row.source) for row in rows] == [(PULLED.ref, PULLED.source)]


async def test_a_person_who_agrees_to_run_anothers_code_agrees_to_these_files(desk: Desk) -> None:
    lab, person = desk.lab(), Person("approved")
    assert await asked_to_run(lab, person) is None
    assert agreed(lab)
    assert unagreed_pull(lab.ledger, lab.key, SNAPSHOT) is None
    assert ["Run the code of them/sums@1.0 all the same?" in question for question in person.questions] == [True]


async def test_a_person_who_declines_to_run_anothers_code_has_not_agreed(desk: Desk) -> None:
    lab = desk.lab()
    report = await asked_to_run(lab, Person("declined"))
    assert report is not None
    assert (report.status, codes(report)) == ("needs_confirmation", ["pulled-unconfined"])
    assert "declined" in report.summary
    assert not agreed(lab)


async def test_without_a_client_that_asks_only_the_terminal_agrees_to_run_anothers_code(desk: Desk) -> None:
    lab = desk.lab()
    report = await asked_to_run(lab, None)
    assert report is not None
    assert codes(report) == ["pulled-unconfined", "approval-in-terminal"]
    assert report.status == "needs_confirmation"
    assert "can read and change every file" in str(report.data["question"])
    assert [(call.tool, call.arguments) for call in report.next] == [("test_reward", {"environment": "sums"})]
    assert not agreed(lab)
    lab.ledger.approve(str(report.data["confirm"]))
    assert await asked_to_run(lab, None) is None
    assert agreed(lab)
