"""What the environment tells a model during a rollout, on plain values."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from prime_lab_mcp.lab.rewards.accepted_replies import AcceptedGame
from prime_lab_mcp.lab.rewards.capped_lists import CappedList
from prime_lab_mcp.lab.rewards.copied_messages import CopyingRule, ReplyForm, reply_form
from prime_lab_mcp.lab.rewards.findings import reward_findings
from prime_lab_mcp.lab.rewards.replays import Replay
from prime_lab_mcp.lab.rewards.rules.rollouts import rollout_lines
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript, ScriptPart
from prime_lab_mcp.lab.rewards.shortcuts import Shortcut
from prime_lab_mcp.lab.rewards.solutions import Change, Solved
from prime_lab_mcp.lab.worker.scoring import RolloutResult
from tests.lab.rewards.rules.trials import sound

WARNED, BLOCKED = ("gold-in-prompt", "warning"), ("reward-rollout-differs", "blocker")


def rollout(row: int, told: str, *, asked: str = "", part: ScriptPart = "taken-back", reward: float = 0.0) -> Any:
    """A rollout in which the environment says `told` between two turns. The gold of row N is N + 40."""
    call = {"function": {"name": "run_sql", "arguments": json.dumps({"sql": asked})}}
    messages = (
        {"role": "user", "content": f"Shop {row}: how many?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": told},
        {"role": "assistant", "content": f"<answer>{row + 40}</answer>"},
    )
    script = RolloutScript("tries it", part, {})
    return PlayedScript(row, script, RolloutResult(messages, reward, "ended", True, alone=reward, again=reward))


def codes(**more: Any) -> set[tuple[str, str]]:
    return {(f.code, f.severity) for f in reward_findings(sound(**more))}


def asked_wrongly(*told: str, asked: str = "no such SELECT") -> set[tuple[str, str]]:
    changed = tuple((Change.OTHER_TEXTS, rollout(row, text, asked=asked)) for row, text in enumerate(told))
    return codes(solved=Solved((rollout(5, "n\n45", reward=1.0),), changed))


def test_a_tool_that_states_the_answer_whatever_it_is_asked_warns() -> None:
    assert WARNED in asked_wrongly("error: syntax\n-- expected: 40", "error: syntax\n-- expected: 41")


def test_a_table_that_holds_one_of_the_answers_by_chance_is_no_finding() -> None:
    assert WARNED not in asked_wrongly("40 | 77", "12 | 77")
    assert WARNED not in asked_wrongly("error: syntax", "error: syntax")
    assert WARNED not in asked_wrongly("1.40 | 140", "1.41 | 141")


def test_what_the_call_itself_says_is_nothing_told() -> None:
    assert WARNED not in asked_wrongly("error: no table 40, 41", "error: no table 40, 41", asked="40 41")


def test_a_game_that_tells_the_number_in_its_reply_warns() -> None:
    told = [rollout(row, f"No, the number was {row + 40}. Try again.", part="wrong") for row in range(2)]
    fair = [rollout(row, "No, higher.", part="wrong") for row in range(2)]
    assert WARNED in codes(rollouts=tuple(told))
    assert WARNED not in codes(rollouts=tuple(fair))


def test_a_solution_that_was_slow_beside_others_that_ended_is_not_called_broken() -> None:
    ended = rollout(5, "n\n45", reward=1.0)
    slow = replace(ended, row=6, result=replace(ended.result, end="slow", ok=False, reward=None))
    found = codes(solved=Solved((ended, slow)))
    assert ("reward-partly-tested", "warning") in found
    assert ("reward-solution-broken", "blocker") not in found


def test_solutions_that_were_all_too_slow_leave_the_reward_undecided_and_are_not_called_broken() -> None:
    ended = rollout(5, "n\n45", reward=1.0)
    slow = replace(ended, result=replace(ended.result, end="slow", ok=False, reward=None))
    found = codes(solved=Solved((slow, replace(slow, row=6))), style=None, golds=())
    assert ("rollouts-too-slow", "blocker") in found
    mended = {"reward-solution-broken", "reward-no-gold", "gold-not-understood"}
    assert not {(code, "blocker") for code in mended} & found


def test_a_rollout_that_ended_before_the_second_turn_of_its_script_is_named_by_what_was_played() -> None:
    """One turn was named "gives the right answer, then a wrong one", which looked like a hole in the reward."""
    script = RolloutScript("gives the right answer, then a wrong one", "taken-back", {})
    played = [
        PlayedScript(0, script, RolloutResult((), 1.1, "ended", True, turns=turns, alone=1.1, again=1.1))
        for turns in (1, 2)
    ]
    assert [line["script"] for line in rollout_lines(sound(rollouts=tuple(played)))] == [
        "gives the right answer, after which the rollout ended",
        "gives the right answer, then a wrong one",
    ]


def test_a_tool_that_knows_the_answer_only_after_another_rollout_blocks() -> None:
    def kept(before: str, after: str) -> set[tuple[str, str]]:
        solved = (rollout(5, "n\n45", reward=1.0),)
        around = tuple(
            (rollout(row, before.format(row + 40)), rollout(row, "n", reward=1.0), rollout(row, after.format(row + 40)))
            for row in range(2)
        )
        return codes(solved=Solved(solved, state_checks=around))

    assert BLOCKED in kept("error: nothing yet", "last result: {}")
    assert BLOCKED not in kept("last result: {}", "last result: {}")
    assert BLOCKED not in kept("error: nothing yet", "error: nothing yet")


def test_an_incomplete_solution_that_is_paid_only_after_the_task_was_solved_blocks() -> None:
    def around(before: float, after: float) -> set[tuple[str, str]]:
        checks = tuple(
            (rollout(row, "n", reward=before), rollout(row, "n", reward=1.0), rollout(row, "n", reward=after))
            for row in range(2)
        )
        return codes(solved=Solved((rollout(5, "n\n45", reward=1.0),), state_checks=checks))

    assert BLOCKED in around(0.2, 1.0)
    assert BLOCKED not in around(0.0, 0.0)
    assert BLOCKED not in around(1.0, 1.0)
    assert BLOCKED not in around(1.0, 0.0)


def test_a_shortcut_blocks_unless_a_constant_is_as_good() -> None:
    def shortcut(constant: float) -> set[tuple[str, str]]:
        tried = tuple(rollout(row, "usage: 41", reward=1.0) for row in range(8))
        found = codes(shortcuts=(Shortcut("copies the help", tried, tried, constant),))
        return {found for found in found if found[0] == "reward-hackable"}

    assert shortcut(0.0) == {("reward-hackable", "blocker")}
    assert shortcut(0.9) == set()


def played(row: int, reward: float | None, *texts: str) -> PlayedScript:
    messages = [{"role": ("assistant", "user")[n % 2], "content": text} for n, text in enumerate(texts)]
    result = RolloutResult(tuple(messages), reward, "ended", True)
    return PlayedScript(row, RolloutScript("gives the solution's replies", "supplied", {}), result)


def test_later_rollouts_that_earn_or_end_otherwise_block_and_other_messages_warn() -> None:
    first = played(1, 1.0, "2", "I take 1. 3 left.", "3")

    def later(*replayed: PlayedScript) -> set[tuple[str, str]]:
        return codes(replays=tuple(Replay(first, other, 6) for other in replayed))

    assert BLOCKED in later(played(1, 0.0, "2", "I take 2. 2 left.", "3"))
    assert BLOCKED in later(played(1, 1.0, "2"))
    assert ("reward-rollout-differs", "warning") in later(played(1, 1.0, "2", "Game 7. I take 1. 3 left.", "3"))
    assert not {code for code, _ in later()} & {"reward-rollout-differs"}


def test_a_later_rollout_that_is_told_the_replies_that_win_blocks() -> None:
    def game(reward: float, *hints: str) -> PlayedScript:
        said = [f"I take one.{hint}" for hint in hints]
        return played(1, reward, "<move>A 1</move>", said[0], "<move>B 2</move>", said[1], "<move>C 3</move>")

    def found(first: PlayedScript, later: PlayedScript) -> set[tuple[str, str]]:
        return codes(replays=(Replay(first, later, 6),))

    told = (" Somebody won here with <move>B 2</move>.", " Somebody won here with <move>C 3</move>.")
    assert BLOCKED in found(game(1.0, "", ""), game(1.0, *told))
    warned = ("reward-rollout-differs", "warning")
    assert warned in found(game(1.0, "", ""), game(1.0, " Game 7.", " Game 8."))
    assert warned in found(game(1.0, "", ""), game(1.0, " Somebody won with B 2.", " Game 8."))
    assert warned in found(game(0.0, "", ""), game(0.0, *told))


def copies(paid: int, *, attempt: bool = False, constant: float = 0.2, copied: int = 0, solved: bool = True) -> Any:
    tried = tuple(played(row, float(row < paid), "hm", f"play {row}", f"{row}") for row in range(10))
    rule = CopyingRule("copies", attempt, tried, tried[:paid], constant, copied)
    found = codes(copying=(rule,), solved=Solved((rollout(5, "n", reward=1.0),)) if solved else Solved())
    return {severity for code, severity in found if code == "reward-hackable"}


def test_a_copy_of_the_messages_that_is_paid_on_most_tasks_blocks() -> None:
    assert copies(10) == {"blocker"}
    assert copies(10, copied=3) == {"blocker"}
    assert copies(10, attempt=True, solved=False) == {"blocker"}


def test_a_task_that_may_be_to_report_a_message_only_warns() -> None:
    assert copies(10, copied=1) == {"warning"}
    assert copies(10, solved=False) == {"warning"}


def test_copying_that_is_paid_like_a_constant_reply_or_by_chance_is_no_finding() -> None:
    assert copies(10, constant=0.9) == set()
    assert copies(3) == set()
    assert copies(10, constant=0.5) == set()


def test_replies_that_count_after_the_end_of_a_game_block_and_explain_what_copying_is_paid() -> None:
    ends = tuple(played(row, 1.0, "take 2", "I take 1. 0 left.", "take 99") for row in range(3))
    rule = CopyingRule("copies", False, ends, ends, 0.0, 0)
    games = tuple(AcceptedGame(ends[:1], (p, *ends)) for p in ends[:2])
    both = sound(accepted=games, copying=(rule,), solved=Solved((rollout(5, "n", reward=1.0),)))
    hacks = [f for f in reward_findings(both) if f.code == "reward-hackable"]
    assert [f.severity for f in hacks] == ["blocker"]
    assert "after the end of the game" in hacks[0].message
    assert '"take 99" after "take 2"' in hacks[0].message
    one = sound(accepted=(games[0], AcceptedGame(ends[:1])), solved=Solved((rollout(5, "n", reward=1.0),)))
    assert [f for f in reward_findings(one) if f.code == "reward-hackable"] == []


def test_the_form_of_a_reply_is_what_all_replies_of_solutions_share() -> None:
    solved = [played(row, 1.0, f"Move: <take>{n}</take>!") for row, n in enumerate((12, 13, 3))]
    assert reply_form(None, Solved(tuple(solved))) == ReplyForm("Move: <take>", "</take>!")
    assert reply_form(None, Solved((played(0, 1.0, "stop"), played(1, 1.0, "step")))) == ReplyForm()
    assert reply_form(None, Solved((solved[0],))) == ReplyForm()


def test_a_tool_that_cuts_its_lists_blocks_only_where_a_task_counts_more() -> None:
    capped = CappedList("find", 5, 9, 12, "find({})", ((3, "How many orders has Bo?", "8"),))
    assert ("reward-gold-fails", "blocker") in codes(capped=capped)
    assert ("reward-gold-fails", "warning") in codes(capped=replace(capped, unreachable=()))
    assert codes() == set()


def test_references_that_tell_the_answers_block_in_fields_that_only_the_reward_shows() -> None:
    texts = {"dns": "the host was not found again", "disk": "the volume of the shop is full"}
    classes = tuple(
        (f"Incident {cause[:2].upper()}-{4100 + 7 * n}. Since {('noon', 'night')[n % 3 % 2]}, {texts[cause]}.", cause)
        for n, cause in enumerate(list(texts) * 20)
    )
    assert ("gold-in-prompt", "blocker") in codes(classes=classes, systems="Name the cause.")
    assert WARNED in codes(classes=classes, systems="The prefix of an incident names its cause.")


def test_an_entry_of_the_prompts_that_holds_a_gold_without_a_name_blocks_where_it_is_to_be_worked_out() -> None:
    def told(ask: str) -> set[tuple[str, str]]:
        pairs = tuple((f"opening: {n}.00\nclosing: {7 * n + 90}.50\n{ask}", f"{7 * n + 90}.50") for n in range(30))
        return codes(unnamed=pairs)

    assert ("gold-in-prompt", "blocker") in told("What is left at the end? Show your work.")
    assert WARNED in told("What is left at the end?")
