"""The zeros of an evaluation: counts, whose they are, the rows behind them, the advised token limit."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any, get_args

import pytest

from prime_lab_mcp.lab.evals.views.columns import FinishedEvaluation
from prime_lab_mcp.lab.evals.views.zeros import zeros_view
from prime_lab_mcp.lab.evals.zeros.advice import ADVICE, advice_for_zero
from prime_lab_mcp.lab.evals.zeros.reply_lengths import ReplyLengths
from prime_lab_mcp.lab.evals.zeros.turns import ZEROS, Cause
from prime_lab_mcp.lab.rollouts.rollout import Rollout
from prime_lab_mcp.tools import (
    preflight,
    read_environment,
    read_eval,
    run_eval,
    test_reward,
)
from tests.lab.evals.records import ADD, call, document, result, said, v1
from tests.lab.evals.test_spec import SPEC

WRONG = said("<answer>4</answer>")
PAID = v1([WRONG], {"correct": 1.0})
"""A rollout that was paid: where none is, nothing is said of the answers."""
LONG = "x" * 5000


def seen(rollouts: Sequence[Rollout], **more: Any) -> FinishedEvaluation:
    spec = dataclasses.replace(SPEC, **{"max_tokens": 100} | more)
    return FinishedEvaluation("eval-1", spec, lambda: iter(rollouts))


def everything() -> list[Rollout]:
    """One rollout of each class, with texts as long as they get."""
    error = {"ok": False, "rewards": {}}
    judge = {"errors": [{"type": "TaskError", "message": f"judge returned no yes/no verdict: {LONG}"}]}
    down = {"errors": [{"type": "ProviderError", "message": LONG, "status_code": 503}]}
    return [
        v1([said(f"{LONG}<answer>4</answer>")]),
        v1([said(LONG)], {"correct": 0.0, "answer_format": 0.0}),
        v1([said(LONG, finish="length", tokens=100)]),
        v1([said(LONG)], tools=[ADD]),
        v1([said("", call('{"first" 1}')), result("error"), said(LONG)], tools=[ADD]),
        v1([said("", call('"{\\"first\\": 1}"')), result("error"), said(LONG)], tools=[ADD]),
        v1([said("", call("{}", LONG)), result("error"), said(LONG)], tools=[ADD]),
        v1([said("", call(json.dumps({LONG: 1}))), result("error"), said(LONG)], tools=[ADD]),
        v1([said("", call('{"first": 1}')), result(f"error: timed out {LONG}"), said(LONG)], tools=[ADD]),
        v1([said("")]),
        v1([said(LONG)], **judge, **error),
        v1([said(LONG)], **down, **error),
    ]


def test_every_class_has_its_count_its_rows_and_advice_in_few_words() -> None:
    found = zeros_view(seen(everything() * 3 + [v1([WRONG], {"correct": 1.0})]))

    assert found.data["zeros"] == dict.fromkeys(ZEROS, 3)
    assert found.data["rollouts"] == 37
    assert list(found.data["examples"]) == list(ZEROS)
    assert {row["class"] for row in found.data["advice"]} == set(ZEROS)
    assert found.data["whose"] == {"model": 21, "setup": 15}
    assert len(json.dumps(found.data)) < 8_000
    assert found.summary == (
        "36 of 37 rollouts earned nothing for an answer: 21 by what the model can do, 15 by limits, endpoint, server "
        "or environment."
    )


def test_more_rows_are_shown_on_request() -> None:
    found = zeros_view(seen([v1([WRONG])] * 9), rows=5)

    assert len(found.data["examples"]["wrong"]) == 5
    assert found.data["examples"]["wrong"][0]["id"] == "t1"


def test_no_zeros_need_no_advice() -> None:
    found = zeros_view(seen([v1([WRONG], {"correct": 1.0})]))

    assert (found.data["zeros"], found.data["advice"]) == (dict.fromkeys(ZEROS, 0), [])
    assert found.next == ()
    assert found.summary == "All 1 rollout earned something for their answers."


def test_replies_in_the_form_that_the_prompt_asks_for_are_the_setups_where_no_reply_of_all_was_in_form() -> None:
    unread = [v1([said("<answer>4</answer>")], {"correct": 0.0, "answer_format": 0.0})] * 6
    bare = [v1([said("4 or so")], {"correct": 0.0, "answer_format": 0.0})] * 2

    found = zeros_view(seen([*unread, *bare]))

    assert found.data["whose"] == {"model": 2, "setup": 6}
    assert found.data["zeros"]["unparsed"] == 8
    causes = {row.get("cause"): (row["whose"], row["rollouts"], row["tool"]) for row in found.data["advice"]}
    assert causes == {"asked": ("setup", 6, "test_reward"), None: ("model", 2, "read_environment")}
    assert "6 more are in the form that the prompt asks for" in found.summary
    # `rendering` is then the form of the prompt too: whoever compared it with the prompt saw no difference.
    [told] = [row["advice"] for row in found.data["advice"] if row.get("cause") == "asked"]
    assert "where they were not, that is the form of the prompt, and the code of the reward" in told
    paid = v1([said("<answer>3</answer>")], {"correct": 1.0, "answer_format": 1.0})
    assert zeros_view(seen([*unread, *bare, paid])).data["whose"] == {"model": 8, "setup": 0}


def test_cut_replies_are_set_apart_and_a_limit_is_advised() -> None:
    whole = [v1([said("<answer>3</answer>", tokens=n)], {"correct": 1.0}) for n in range(40, 80)]
    cut = [v1([said("<answer>", finish="length", tokens=100)], {"correct": 0.0})] * 20
    paid = v1([said("<answer>3</answer> so", finish="length", tokens=100)], {"correct": 1.0})

    found = zeros_view(seen([*whole, *cut, paid], model="m/1"))

    budget = found.data["budget"]
    assert (budget["cap"], budget["cut"], budget["finished"]) == (100, 21, 40)
    assert (budget["finished_p50"], budget["finished_p95"]) == (59, 77)
    assert found.data["truncated_but_rewarded"] == 1
    assert found.data["mean_reward_of"] == {"complete": 1.0, "cut": round(1 / 21, 4), "truncated": 0.0}
    [advice] = found.data["advice"]
    assert (advice["tool"], advice["whose"]) == ("run_eval", "setup")
    assert advice["arguments"]["max_tokens"] == budget["advised_max_tokens"] > 100
    assert found.next[0].tool == "run_eval"


def test_replies_that_run_on_far_beyond_all_others_are_no_matter_of_the_limit() -> None:
    whole = [v1([said("<answer>3</answer>", tokens=n)], {"correct": 1.0}) for n in range(10, 40)]
    cut = [v1([said("again " * 9, finish="length", tokens=2048)], {"correct": 0.0})] * 3

    found = zeros_view(seen([*whole, *cut], max_tokens=2048))

    assert found.data["budget"]["advised_max_tokens"] is None
    [advice] = found.data["advice"]
    assert (advice["tool"], advice["arguments"]["where"]) == ("read_eval", "truncated")


def test_replies_that_were_cut_far_below_the_limit_met_another_limit() -> None:
    whole = [v1([said("<answer>3</answer>", tokens=n)], {"correct": 1.0}) for n in range(10, 40)]
    cut = [v1([said("Checking the", finish="length", tokens=15)], {"correct": 0.0})] * 3

    found = zeros_view(seen([*whole, *cut], max_tokens=2048))

    [advice] = found.data["advice"]
    assert "another limit held" in advice["advice"]
    assert advice["arguments"]["where"] == "truncated"


def test_replies_that_answer_with_the_reference_answer_are_the_rewards_fault() -> None:
    right = v1([said("<answer>3</answer>")], {"correct": 0.0}, task={"key": "k1", "data": {"idx": 0, "answer": "3"}})

    found = zeros_view(seen([right] * 3 + [v1([WRONG])] * 5 + [PAID]))

    assert found.data["whose"] == {"model": 5, "setup": 3}
    assert found.summary.endswith("; 3 answer with the reference answer, which the reward does not pay.")
    assert found.next[0].tool == "test_reward"
    why = next(row["why"] for row in found.data["examples"]["wrong"])
    assert why == 'the reply answers "3", the reference answer'


def test_a_number_whose_gold_has_a_unit_and_latex_is_the_rewards_fault() -> None:
    weighed = {"key": "k1", "data": {"idx": 0, "answer": "$969$ kg"}}
    right = v1([said("<answer>969</answer>")], {"correct": 0.0}, task=weighed)
    other = v1([said("<answer>970</answer>")], {"correct": 0.0}, task=weighed)

    found = zeros_view(seen([right] * 3 + [other] * 2 + [PAID]))

    assert found.data["whose"] == {"model": 2, "setup": 3}
    why = next(row["why"] for row in found.data["examples"]["wrong"])
    assert why == 'the reply answers "969"; the reference answer is "$969$ kg"'


def test_a_right_answer_in_a_form_that_no_prompt_names_is_the_rewards_fault() -> None:
    sorted_words = {"key": "k1", "data": {"idx": 0, "answer": "alder, beech"}}
    unread = {"correct": 0.0, "answer_format": 0.0}
    right = v1([said("By letters. Answer: alder, beech")], unread, task=sorted_words, prompt="Sort: beech, alder")
    other = v1([said("Answer: beech, alder")], unread, task=sorted_words, prompt="Sort: beech, alder")

    found = zeros_view(seen([right] * 3 + [other] * 2))

    assert found.data["whose"] == {"model": 2, "setup": 3}
    assert found.next[0].tool == "test_reward"


def test_wrong_answers_that_are_the_number_alone_that_the_prompt_asks_for_are_no_form_error_of_the_model() -> None:
    asked = {"prompt": "What is 13 * 13 - 35? Write the number only."}
    bare = [v1([said("133")], {"correct": 0.0, "answer_format": 0.0}, **asked)] * 6
    hedged = [v1([said("It should be about 133 or so")], {"correct": 0.0, "answer_format": 0.0}, **asked)] * 2

    found = zeros_view(seen([*bare, *hedged]))

    assert found.data["whose"] == {"model": 2, "setup": 6}
    assert "6 more are in the form that the prompt asks for" in found.summary


def test_right_answers_outside_of_the_form_that_is_paid_name_that_form_come_first_and_are_counted_once() -> None:
    task = {"key": "k1", "data": {"idx": 0, "answer": "134"}}
    asked = {"task": task, "prompt": "What is 13 * 13 - 35? Write the number only."}
    right = v1([said("134")], {"correct": 0.0}, **asked)
    other = v1([said("133")], {"correct": 0.0}, **asked)

    found = zeros_view(seen([other] * 3 + [right] * 5), paid_form="<answer>…</answer>")

    assert "0 by limits, endpoint" in found.summary
    assert '5 answer with the reference answer, which the reward does not pay: it reads "<answer>' in found.summary
    assert "which none of them has" in found.summary
    advice = next(row for row in found.data["advice"] if row.get("cause") == "gold")["advice"]
    assert "none of them has the form that the reward reads" in advice
    assert "LaTeX" not in advice
    assert [(n.tool, n.arguments) for n in found.next] == [("read_environment", {"environment": "sums"})]
    assert [row["tail"] for row in found.data["examples"]["wrong"]] == ['"134"', '"134"']
    unknown = zeros_view(seen([right] * 5), paid_form="…")
    assert "it reads" not in unknown.summary


def test_right_answers_outside_of_the_form_that_the_prompts_ask_for_do_not_lead_to_asking_for_it() -> None:
    asked = {
        "task": {"key": "k1", "data": {"idx": 0, "answer": "134"}},
        "prompt": "What is 13 * 13 - 35? End with Total: N",
    }
    found = zeros_view(seen([v1([said("134")], {"correct": 0.0}, **asked)] * 5), paid_form="Total: …")
    assert 'it reads "Total: …", which none of them has, although the prompts ask for it' in found.summary
    advice = next(row for row in found.data["advice"] if row.get("cause") == "gold")["advice"]
    assert "Ask for that form" not in advice
    assert "that the prompts ask for" in advice


def test_wrong_answers_are_read_not_judged_again() -> None:
    found = zeros_view(seen([v1([WRONG])] * 3 + [PAID]))

    assert (found.next[0].tool, found.next[0].arguments["where"]) == ("read_eval", "zero")


def test_answers_of_an_evaluation_that_paid_none_are_nobodys_fault_yet() -> None:
    found = zeros_view(seen([v1([WRONG])] * 3))

    assert found.data["whose"] == {"model": 0, "setup": 0, "unknown": 3}
    assert found.next[0].tool == "test_reward"
    assert "what training changes" not in json.dumps(found.data)


def test_memory_does_not_grow_with_the_rollouts() -> None:
    one = [v1([WRONG]), v1([said("<answer>", finish="length", tokens=100)]), v1([said("4")], tools=[ADD])]

    def many() -> Iterator[Rollout]:
        for number in range(4_000):
            yield one[number % len(one)]

    evaluated = FinishedEvaluation("eval-1", dataclasses.replace(SPEC, max_tokens=100), many)
    tracemalloc.start()
    found = zeros_view(evaluated)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert sum(found.data["zeros"].values()) == 4_000
    assert peak < 1_000_000


def test_the_longest_with_an_open_end_are_found_where_nothing_says_how_they_ended() -> None:
    short = [document(f"It is <answer>{n}</answer>.") for n in range(199)]

    found = zeros_view(seen([*short, document("and then " * 50 + "<answer>1</answer> and")]))

    assert (found.data["zeros"]["truncated"], found.data["zeros"]["wrong"]) == (1, 199)


def test_every_class_and_cause_has_advice_whose_call_exists() -> None:
    known = {
        "run_eval": run_eval.Args,
        "read_environment": read_environment.Args,
        "preflight": preflight.Args,
        "test_reward": test_reward.Args,
        "read_eval": read_eval.Args,
    }
    for kind in ZEROS:
        for cause in get_args(Cause):
            advice = advice_for_zero(kind, cause)
            fields = known[advice.tool].model_fields
            assert set(advice.arguments) <= set(fields), kind
            needed = {name for name, field in fields.items() if field.is_required()}
            assert needed <= set(advice.arguments), f"{kind}: the call lacks what {advice.tool} needs"
    assert {kind for kind, _ in ADVICE} == set(ZEROS)


def lengths(count: int, spread: float, cap: int, seed: int = 1) -> ReplyLengths:
    rng, found = random.Random(seed), ReplyLengths()
    for _ in range(count):
        tokens = round(rng.lognormvariate(math.log(400), spread))
        found.add(min(tokens, cap), cut=tokens >= cap, exact=True)
    return found


@pytest.mark.parametrize(("spread", "cap"), [(0.4, 500), (0.4, 800), (0.8, 700), (0.8, 1500), (1.0, 1000)])
def test_the_advised_limit_lets_nearly_all_finish(spread: float, cap: int) -> None:
    advised = lengths(2000, spread, cap).advised(cap)

    assert advised is not None
    assert advised % 256 == 0
    truth = 400 * math.exp(2.326 * spread)
    assert 0.75 * truth < advised < 1.5 * truth + 256


def test_a_limit_that_lets_all_finish_is_left_alone() -> None:
    assert lengths(1000, 0.4, 4000).advised(4000) is None
    assert ReplyLengths().advised(100) is None
    assert lengths(1000, 0.4, 4000).advised(None) is None


def test_where_most_were_cut_the_next_try_is_a_multiple() -> None:
    assert lengths(400, 0.4, 300).advised(300) == math.ceil(300 * 4 / 256) * 256
