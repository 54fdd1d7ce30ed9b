"""Findings about whole rollouts, on plain values."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.datasets.task_golds import SampleGolds, TaskGold
from prime_lab_mcp.lab.rewards.findings import reward_findings
from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.rules.rollouts import rollout_lines
from prime_lab_mcp.lab.rewards.scripts import Delivery, PlayedScript, RolloutScript, ScriptPart
from prime_lab_mcp.lab.rewards.solutions import Change, Solved, solution_script
from prime_lab_mcp.lab.worker.scoring import CaseError, End, OfferedTool, RolloutResult
from tests.lab.rewards.rules.trials import found, sound

RAISED = (CaseError("IndexError", "list index out of range", "env_response, game.py:31"),)


def played(
    part: ScriptPart,
    reward: float | None,
    *,
    row: int = 0,
    tools: bool = False,
    end: End = "ended",
    errors: tuple[CaseError, ...] = (),
    tools_offered: tuple[OfferedTool, ...] = (),
    **more: Any,
) -> PlayedScript:
    script = RolloutScript(f"plays {part}", part, {}, Delivery.TOOLS_FIRST if tools else Delivery.SPOKEN)
    messages = ({"role": "assistant", "content": part},)
    told = {"alone": reward, "again": reward, "stop": "done", "turns": 2, "tools": tools_offered} | more
    return PlayedScript(
        row, script, RolloutResult(messages, reward, end, end == "ended" and not errors, errors=errors, **told)
    )


RIGHT, WRONG, SILENT = played("gold", 1.0), played("wrong", 0.0), played("silent", 0.0)


def only(*performed: PlayedScript, **more: Any) -> Finding:
    (finding,) = reward_findings(sound(rollouts=performed, **more))
    return finding


def only_about_tools(tools: tuple[OfferedTool, ...], asked: str) -> Finding:
    performed = (played("gold", 1.0, tools_offered=tools), WRONG, SILENT)
    told = reward_findings(sound(rollouts=performed, asked=asked))
    return next(f for f in told if f.code == "paid-without-tool")


def codes(*performed: PlayedScript) -> set[tuple[str, str]]:
    return found(sound(rollouts=performed))


def test_the_right_answer_paid_without_a_call_of_an_offered_tool_warns() -> None:
    tools = (OfferedTool("look_up", "", {}),)
    assert ("paid-without-tool", "warning") in codes(played("gold", 1.0, tools_offered=tools), WRONG, SILENT)
    may = only_about_tools(tools, "Answer the question. You may call look_up.")
    assert may.fix.endswith("leave it so.")
    must = only_about_tools(tools, "You must call look_up before you answer.")
    assert "leave it so" not in must.fix
    assert 'the task says "You must call look_up' in must.message
    called = played("gold", 1.0, tools=True, tools_offered=tools)
    assert ("paid-without-tool", "warning") not in codes(called, WRONG, SILENT)


def test_rollouts_that_end_and_are_paid_as_alone_have_no_finding() -> None:
    assert codes(RIGHT, WRONG, SILENT, played("faulty", 0.0)) == set()


def test_a_v0_rubric_pays_nothing_for_what_its_reward_cannot_read() -> None:
    """`for call in message.get("tool_calls", [])` where the key holds None is usual in real environments."""
    raised = (CaseError("TypeError", "'NoneType' object is not iterable", "scoring, calls_tools:env.py:9"),)
    silent = played("silent", 0.0, errors=raised)
    assert [(f.code, f.severity) for f in reward_findings(sound(rollouts=(RIGHT, silent), api="v0"))] == [
        ("reward-rollout-fails", "warning")
    ]
    assert only(RIGHT, silent).severity == "blocker"
    assert only(RIGHT, played("gold", None, errors=raised), api="v0").severity == "blocker"


@pytest.mark.parametrize("part", ["gold", "wrong", "silent"])
def test_an_error_in_a_rollout_with_sensible_turns_blocks(part: ScriptPart) -> None:
    finding = only(RIGHT, played(part, None, errors=RAISED))
    assert (finding.code, finding.severity) == ("reward-rollout-fails", "blocker")
    assert finding.where == "env_response, game.py:31"
    assert "IndexError" in finding.message


def test_an_error_after_a_faulty_call_warns() -> None:
    assert codes(RIGHT, played("faulty", None, errors=RAISED)) == {("reward-rollout-fails", "warning")}


def test_the_same_error_after_a_faulty_call_and_after_sensible_turns_is_told_once() -> None:
    both = (played("wrong", None, errors=RAISED), played("faulty", None, errors=RAISED))
    assert codes(RIGHT, *both) == {("reward-rollout-fails", "blocker")}


def test_what_only_the_machine_failed_in_is_partly_tested() -> None:
    error = (CaseError("SandboxError", "no space left", ""),)
    assert codes(RIGHT, played("wrong", None, errors=error)) == {("reward-partly-tested", "warning")}


def test_a_process_that_ended_in_rollouts_blocks() -> None:
    assert found(sound(rollouts_broke="it exited")) == {("reward-rollout-fails", "blocker")}


@pytest.mark.parametrize(
    ("why", "by_design", "severity"),
    [("its tasks need a container", True, "info"), ("its tool servers did not start", False, "warning")],
)
def test_rollouts_that_cannot_be_run_here_are_said(why: str, by_design: bool, severity: str) -> None:
    finding = only(no_rollouts=why, no_rollouts_by_design=by_design)
    assert (finding.code, finding.severity) == ("reward-partly-tested", severity)
    assert why in finding.message


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("endless", {("reward-rollout-endless", "blocker")}),
        ("slow", {("reward-partly-tested", "warning")}),
        ("cut", set()),
    ],
)
def test_a_rollout_without_an_end_blocks_and_a_long_one_does_not(end: End, code: set[tuple[str, str]]) -> None:
    assert codes(RIGHT, played("wrong", None, end=end)) == code


def test_the_same_rollout_scored_again_must_earn_the_same() -> None:
    finding = only(played("gold", 1.0, again=0.0), WRONG)
    assert (finding.code, finding.severity) == ("reward-rollout-differs", "blocker")
    assert "1, then 0" in finding.message


def test_a_reward_that_reads_the_state_of_the_rollout_is_no_flaw() -> None:
    finding = only(played("gold", 1.0, alone=0.0, state=("board",)), WRONG)
    assert (finding.code, finding.severity) == ("reward-rollout-differs", "warning")
    assert "board" in finding.message


@pytest.mark.parametrize("part", ["wrong", "silent", "faulty"])
def test_a_rollout_without_the_right_answer_must_not_earn_as_much(part: ScriptPart) -> None:
    assert codes(RIGHT, played(part, 1.0)) == {("reward-wrong-passes", "blocker")}
    assert codes(RIGHT, played(part, 1.0, row=1)) == set()


def test_where_the_right_answer_cannot_be_said_wrong_ones_are_not_judged_by_it() -> None:
    assert codes(played("gold", 0.0), WRONG) == set()
    assert codes(played("gold", 0.1), played("wrong", 0.1)) == set()


@pytest.mark.parametrize(("paid", "severity"), [(0.6, "blocker"), (0.3, "warning"), (0.1, None)])
def test_calling_tools_for_the_sake_of_it_must_not_be_paid(paid: float, severity: str | None) -> None:
    wanted = {("reward-hackable", severity)} if severity else set()
    assert codes(RIGHT, WRONG, played("wrong", paid, tools=True)) == wanted


def test_the_report_lists_rollouts_shortly() -> None:
    assert rollout_lines(sound(rollouts=(RIGHT, played("wrong", None, end="endless", stop=""))))[1] == {
        "task": 0,
        "script": "plays wrong",
        "turns": 2,
        "reward": None,
        "stop": "endless",
        "ok": False,
    }


def test_the_best_of_all_attempts_warns_when_both_orders_are_paid_in_full() -> None:
    late = played("late", 1.0)
    assert codes(RIGHT, WRONG, played("taken-back", 1.0), late) == {("reward-hackable", "warning")}
    assert codes(RIGHT, WRONG, played("taken-back", 0.0), late) == set()
    assert codes(RIGHT, WRONG, played("taken-back", 0.8), late) == set()


def test_a_game_that_ends_with_the_right_answer_may_pay_it_at_any_turn() -> None:
    assert codes(RIGHT, WRONG, played("taken-back", 1.0, turns=1), played("late", 1.0)) == set()


def test_the_best_of_all_attempts_blocks_where_guesses_run_through_a_small_set_of_answers() -> None:
    golds = SampleGolds("answer", "label", tuple(TaskGold(n, "abcd"[n % 4], ("abcd"[n % 4],)) for n in range(8)), ())
    rollouts = (RIGHT, WRONG, played("taken-back", 1.0), played("late", 1.0))
    style = AnswerStyle(golds, 0, BARE)
    assert ("reward-hackable", "blocker") in found(sound(rollouts=rollouts, style=style))


def test_an_exception_of_the_environments_own_choice_at_nonsense_warns_and_at_right_answers_blocks() -> None:
    own = frozenset({"environments/game/game.py:31"})
    nonsense = played("silent", None, errors=RAISED)
    assert {(f.code, f.severity) for f in reward_findings(sound(rollouts=(nonsense,), own_raises=own))} == {
        ("reward-rollout-fails", "warning")
    }
    right = played("gold", None, errors=RAISED)
    assert ("reward-rollout-fails", "blocker") in found(sound(rollouts=(right, nonsense), own_raises=own))
    assert ("reward-rollout-fails", "blocker") in found(sound(rollouts=(nonsense,)))


def test_untried_rollouts_name_the_arguments_that_help() -> None:
    late = only(RIGHT, WRONG, SILENT, played("late", None, end="slow"))
    assert late.code == "reward-partly-tested"
    assert "env_args" in late.fix
    assert "num_examples=5" in late.fix
    container = only(no_rollouts="its tasks need a container", no_rollouts_by_design=True)
    assert "env_args" not in container.fix


def solved_by_calls(alone: float, **earned: float) -> set[str]:
    """Codes of the findings about a solution with a tool call, whose messages earn `alone` without their rollout; the
    changed copies earn what is named."""
    call = {"id": "c", "type": "function", "function": {"name": "put", "arguments": '{"cents": 5}'}}
    messages = ({"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "assistant", "content": "Done."})

    def result(reward: float, alone: float) -> RolloutResult:
        return RolloutResult(messages, reward, "ended", True, alone=alone, again=reward)

    script = solution_script(True)
    copies = [(Change(name), PlayedScript(0, script, result(paid, min(paid, alone)))) for name, paid in earned.items()]
    solved = Solved((PlayedScript(0, script, result(1.0, alone)),), tuple(copies))
    return {f.code for f in reward_findings(sound(solved=solved, rollouts=(RIGHT, WRONG, SILENT)))}


def test_a_reward_of_what_calls_have_changed_may_ignore_every_reply_and_count_every_call() -> None:
    said: dict[str, float] = {"noop": 0.0, "bare-answer": 0.0, "answer-first": 1.0, "pasted-output": 1.0}
    assert not solved_by_calls(0.0, **said, **{"one-call-more": 0.0}) & {
        "paid-without-tool",
        "reward-hackable",
        "reward-too-strict",
    }


def test_a_reward_of_messages_that_takes_the_output_of_a_tool_for_the_answer_is_told() -> None:
    said: dict[str, float] = {"noop": 0.0, "bare-answer": 0.0, "answer-first": 1.0, "pasted-output": 1.0}
    assert {"paid-without-tool", "reward-hackable"} <= solved_by_calls(1.0, **said)
    assert "reward-too-strict" in solved_by_calls(1.0, **{"one-call-more": 0.0})


def test_a_reward_of_state_that_also_takes_the_bare_answer_is_told() -> None:
    said: dict[str, float] = {"noop": 0.0, "bare-answer": 1.0, "answer-first": 1.0, "pasted-output": 1.0}
    assert {"paid-without-tool", "reward-hackable"} <= solved_by_calls(0.0, **said)


def test_the_pay_for_the_form_of_a_reply_is_not_paid_without_a_tool() -> None:
    def codes_where_wrong_answers_earn(paid: float) -> set[str]:
        call = {"id": "c", "type": "function", "function": {"name": "look_up", "arguments": '{"id": 5}'}}
        messages = ({"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "assistant", "content": "7"})
        script = solution_script(True)

        def rollout(reward: float) -> PlayedScript:
            return PlayedScript(0, script, RolloutResult(messages, reward, "ended", True, alone=reward, again=reward))

        solved = Solved((rollout(1.0),), ((Change.NOOP, rollout(0.0)), (Change.BARE_ANSWER, rollout(0.1))))
        told = reward_findings(sound(solved=solved, rollouts=(RIGHT, played("wrong", paid), SILENT)))
        return {f.code for f in told}

    assert "paid-without-tool" not in codes_where_wrong_answers_earn(0.1)
    assert "paid-without-tool" in codes_where_wrong_answers_earn(0.0)


@pytest.mark.parametrize(
    ("unsaid", "bare", "blocks"),
    [(0.9, 1.0, True), (0.4, 1.0, False), (0.9, 0.1, False)],
    ids=["tools are read", "the last reply is read", "a state is read"],
)
def test_what_a_tool_has_said_is_not_paid_as_if_the_model_had_said_it(unsaid: float, bare: float, blocks: bool) -> None:
    call = {"id": "1", "function": {"name": "look", "arguments": "{}"}}

    def rollout(row: int, reward: float) -> PlayedScript:
        messages = (
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "assistant", "content": str(row)},
        )
        result = RolloutResult(messages, reward, "ended", True, alone=reward, again=reward)
        return PlayedScript(row, solution_script(True), result)

    copies = [(Change.NO_ANSWER, rollout(n, unsaid)) for n in range(2)]
    copies += [(Change.BARE_ANSWER, rollout(n, bare)) for n in range(2)]
    solved = Solved((rollout(0, 1.0), rollout(1, 1.0)), tuple(copies))
    told = [f.message for f in reward_findings(sound(solved=solved, rollouts=(RIGHT, WRONG, SILENT)))]
    assert any("what a tool has said is paid" in message for message in told) == blocks


def test_solutions_that_were_not_begun_count_beside_those_that_were_slow() -> None:
    solved = [played("gold", 1.0, row=n) for n in range(6)]
    late = [
        played("gold", None, row=6, end="slow"),
        *(played("gold", None, row=7 + n, end="not-run") for n in range(5)),
    ]
    told = reward_findings(sound(solved=Solved((*solved, *late))))
    (finding,) = [f for f in told if f.code == "reward-partly-tested"]
    assert finding.message == "1 solution of 12 had not ended in time, and 5 were not begun; 6 were played to their end"


def game(*earned: float, turns: tuple[int, ...], supplied: bool = False, bare: float = 1.0) -> set[tuple[str, str]]:
    """Findings about solutions of so many replies that earned so much, where the bare answer earns `bare`."""
    script = solution_script(True)

    def rollout(row: int, reward: float, replies: int) -> PlayedScript:
        messages = tuple({"role": "assistant", "content": f"guess {n}"} for n in range(replies))
        return PlayedScript(row, script, RolloutResult(messages, reward, "ended", True, alone=None, again=reward))

    played_solutions = tuple(rollout(row, e, n) for row, (e, n) in enumerate(zip(earned, turns, strict=True)))
    copies = ((Change.BARE_ANSWER, rollout(0, bare, 1)), (Change.NOOP, rollout(0, 0.0, 1)))
    solved = Solved(played_solutions, copies, supplied=supplied)
    return {(f.code, f.severity) for f in reward_findings(sound(solved=solved, rollouts=(RIGHT, WRONG, SILENT)))}


def test_solutions_of_a_game_may_earn_less_the_more_replies_they_need() -> None:
    assert ("reward-gold-fails", "blocker") not in game(0.9, 0.8, 0.9, 0.7, 0.8, turns=(2, 3, 2, 4, 3))
    assert ("reward-gold-fails", "blocker") in game(0.9, 0.8, 0.9, 0.7, 0.6, turns=(2, 3, 2, 4, 3))


def test_a_supplied_solution_need_not_be_the_best_play() -> None:
    assert ("reward-gold-fails", "blocker") not in game(0.95, 0.9, turns=(2, 2), supplied=True)
    assert ("reward-gold-fails", "blocker") in game(0.95, 0.9, turns=(2, 2))
    assert ("reward-gold-fails", "blocker") in game(0.95, 0.0, turns=(2, 2), supplied=True)
