"""Rows as an environment yields them become rows that the dataset's findings understand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.environment.loaded_checks import LoadedObservations, loaded_findings
from prime_lab_mcp.lab.environment.task_findings import task_findings
from prime_lab_mcp.lab.worker.description import ArgumentEffect, Loaded, RewardInfo, Role, Row, Rows, Traits

NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eve")


def row(index: int, prompt: str, answer: Any, system: str | None = None, **fields: Any) -> Row:
    messages = [{"role": "system", "content": system}] if system is not None else []
    shown: Mapping[str, Any] = {"answer": answer, **fields}
    return Row(index, f"key{index}", (*messages, {"role": "user", "content": prompt}), answer, None, shown)


def sums(first: int, size: int = 80) -> list[Row]:
    return [
        row(
            n,
            f"{NAMES[n % 5]} buys {3 * n} red and {7 * n + 5} blue marbles at the fair. How many in all?",
            str(10 * n + 5),
        )
        for n in range(first, first + size)
    ]


def told(found: list[Finding], code: str) -> Finding:
    return next(f for f in found if f.code == code)


def test_sound_rows_have_no_finding() -> None:
    assert [f.code for f in task_findings(sums(0), sums(200, 20)) if f.severity != "info"] == []


def test_a_leak_into_the_held_out_split_names_the_rows_of_both() -> None:
    found = told(list(task_findings(sums(0), [*sums(300, 20), *sums(7, 1)])), "leak-exact")
    assert found.severity == "blocker"
    assert {"row": 7, "train_row": 7}.items() <= dict(found.rows[0]).items()


def test_instructions_that_all_prompts_share_are_no_leak_and_no_duplicate() -> None:
    head = "Read carefully. You are a patient teacher of arithmetic who explains every step.\n\n"
    plain = [*sums(0), *sums(200, 20)]
    asked = [row(r.index, head + str(r.prompt[0]["content"]), r.answer) for r in plain]
    assert [f.code for f in task_findings(asked[:80], asked[80:]) if f.severity != "info"] == []


def test_a_gold_in_a_system_prompt_of_the_task_s_own_is_found() -> None:
    rows = [row(r.index, str(r.prompt[0]["content"]), r.answer, f"Hint: the total is {r.answer}.") for r in sums(0)]
    assert told(list(task_findings(rows)), "gold-in-prompt").severity == "blocker"


def test_a_system_prompt_that_all_tasks_share_is_no_data() -> None:
    rows = [row(r.index, str(r.prompt[0]["content"]), r.answer, "Example: 2 + 3 is 5.") for r in sums(0)]
    assert [f.code for f in task_findings(rows) if f.severity != "info"] == []


def test_a_task_that_the_system_prompt_shows_as_an_example_is_named() -> None:
    example = f"Solve it. Example: {sums(4, 1)[0].prompt[0]['content']} The answer is 45."
    rows = [row(r.index, str(r.prompt[0]["content"]), r.answer, example) for r in sums(0)]
    found = told(list(task_findings(rows)), "few-shot-task")
    assert [r["row"] for r in found.rows] == [4]


def codewords(size: int = 40) -> list[Row]:
    """Tasks of a game: one prompt, and a secret that the rollout reveals."""
    return [row(n, "Here are two squares. Name the codeword.", f"word{n}", secret=[n, n + 1]) for n in range(size)]


def test_tasks_that_differ_in_hidden_state_are_no_duplicates_where_a_rollout_reads_it() -> None:
    codes = {f.code for f in task_findings(codewords(), stateful=True)}
    assert not codes & {"conflicting-gold", "duplicate-prompt"}
    assert {"conflicting-gold", "duplicate-prompt"} <= {f.code for f in task_findings(codewords())}


def games(secret: str, first: int = 0, size: int = 25) -> list[Row]:
    """Tasks of a game whose prompt has the game's number only; the gold is a secret that a tool compares."""
    return [row(n, f"Game {n}: guess", f"{secret}{31 * n + 100}") for n in range(first, first + size)]


def leaks(train: list[Row], held_out: list[Row], *, stateful: bool = True) -> list[str]:
    return [f.message for f in task_findings(train, held_out, stateful=stateful) if f.code == "leak-exact"]


@pytest.mark.parametrize("secrets", [("1", "2"), ("oak", "elm")], ids=["numbers", "words"])
def test_games_with_equal_prompts_and_other_secrets_are_no_leak(secrets: tuple[str, str]) -> None:
    assert leaks(games(secrets[0]), games(secrets[1])) == []


def test_games_with_equal_prompts_and_equal_secrets_are_a_leak() -> None:
    assert leaks(games("1"), games("1"))[0].startswith("25 of 25 rows")
    held_out = [*games("2", 0, 10), *games("1", 10, 10)]
    assert leaks(games("1"), held_out)[0].startswith("10 of 20 rows")


def test_a_prompt_that_most_tasks_share_identifies_no_task() -> None:
    def guesses(first: int) -> list[Row]:
        return [row(n, "Guess the number.", str(n % 30)) for n in range(first, first + 25)]

    assert leaks(guesses(0), guesses(20)) == []


def test_a_question_without_hidden_data_leaks_even_with_a_contradictory_gold() -> None:
    prompt = str(sums(7, 1)[0].prompt[0]["content"])
    held_out = [*sums(300, 20), row(400, prompt, "1")]
    assert leaks(sums(0), held_out, stateful=False)[0].startswith("1 of 21 rows")


def test_a_state_that_differs_in_the_gold_alone_is_a_conflict_all_the_same() -> None:
    rows = [row(n, "What is hidden?", f"word{n}") for n in range(40)]
    assert "conflicting-gold" in {f.code for f in task_findings(rows, stateful=True)}


def changes(shops: Sequence[str], goal: str) -> list[Row]:
    """Tasks without a gold: a change of a shop's database in words, and the database that results."""
    people = ("Ada", "Bram", "Cleo", "Daan", "Elif", "Finn")
    ways = (
        "returned everything that is open, and nothing that is overdue",
        "left, so delete what nobody else has",
    )
    told = [f"Shop: {shop}\n\n{one} has {way}." for shop in shops for one in people for way in ways]
    return [row(n, text, None, goal=f"{goal} {n}") for n, text in enumerate(told)]


def test_changes_of_other_databases_are_no_leak_and_the_same_in_other_words_is() -> None:
    def near(goal: str) -> list[str]:
        found = task_findings(
            changes(("Linden", "Abbey", "Mill"), "database"), changes(("Tower", "Canal", "Bridge"), goal), stateful=True
        )
        return [f.code for f in found if f.code == "leak-near"]

    assert near("another database") == []
    assert near("database") == ["leak-near"]


def test_tasks_with_other_images_are_other_tasks() -> None:
    def shown(index: int) -> Row:
        text = {"type": "text", "text": "Which animal is this?"}
        image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{index:08d}"}}
        return Row(index, f"key{index}", ({"role": "user", "content": [text, image]},), f"a{index}", None, {})

    codes = {f.code for f in task_findings([shown(n) for n in range(40)])}
    assert not codes & {"conflicting-gold", "duplicate-prompt"}


def played(**given: Any) -> LoadedObservations:
    loaded = Loaded("v1", "Poker", 3, False, (), (), None, "0.4.0", "3.11", 0.1, **given)
    rows = tuple(Row(n, f"key{n}", (), None, None, {"info": {"deal": n}}) for n in range(3))
    return LoadedObservations(loaded, Rows(rows, 3))


def test_an_env_that_plays_the_rollout_itself_needs_no_prompts_and_no_declared_reward() -> None:
    found = {f.code: f.severity for f in loaded_findings(played(turns=True, own_run=True))}
    assert found["no-reward"] == "warning"
    assert "blocker" not in found.values()


def test_without_such_an_env_empty_prompts_and_a_missing_reward_block() -> None:
    found = {f.code: f.severity for f in loaded_findings(played(turns=True))}
    assert {found["no-reward"], found["empty-prompt"]} == {"blocker"}


def test_names_beside_numbers_are_no_finding_because_one_comparison_serves_both() -> None:
    def mixed(other: str) -> set[tuple[str, str]]:
        rows = [row(n, f"Question {n} of the shop?", f"{other} {n}" if n % 3 == 0 else str(17 * n)) for n in range(90)]
        found = task_findings(rows, [])
        return {(f.code, f.severity) for f in found if f.code in ("mixed-format", "gold-unparseable")}

    assert mixed("oak lamp") == set()
    assert mixed("#### 7") == {("mixed-format", "blocker")}


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param(("1931", "D4-27", "Hana Mori", "3"), id="facts of a catalogue"),
        pytest.param(("4.2 kg", "9.81 m/s^2", "12 µmol/(L·h)", "7 °Bé"), id="units that are not known"),
    ],
)
def test_short_answers_of_several_kinds_are_no_finding(answers: Sequence[str]) -> None:
    rows = [row(n, f"Question {n} of the desk?", f"{answers[n % 4]}") for n in range(80)]
    assert not {f.code for f in task_findings(rows, [])} & {"mixed-format", "gold-unparseable"}


def test_options_reach_the_check_of_positions() -> None:
    rows = [
        row(
            n,
            f"Which of these is number {n}?\n" + "\n".join(f"{c}. item {n * 4 + i}" for i, c in enumerate("ABCD")),
            "A",
            options=[f"item {n * 4 + i}" for i in range(4)],
        )
        for n in range(120)
    ]
    assert {"position-bias", "majority-floor"} & {f.code for f in task_findings(rows)}


def generated(*effects: ArgumentEffect) -> list[Finding]:
    """What the checks say about a sound taskset whose arguments have these effects."""
    loaded = Loaded(
        "v1", "Sums", 80, False, (RewardInfo("right", 1.0, "reward", True),), ("answer",), None, "0.4.0", "3.11", 0.1
    )
    rows = Rows(tuple(sums(0)), 80)
    return loaded_findings(LoadedObservations(loaded, rows, Traits(generator=effects)))


def test_a_generator_that_does_not_follow_from_its_seed_blocks() -> None:
    found = told(generated(ArgumentEffect("seed", ("0", "0"), False)), "tasks-change")
    assert found.severity == "blocker"


def test_tasks_that_change_without_a_seed_are_named_too() -> None:
    found = told(generated(ArgumentEffect("", ("", ""), False)), "tasks-change")
    assert found.message.endswith("chance, a clock or an order decides them")


def test_a_generator_that_repeats_tasks_is_named() -> None:
    rewards = (RewardInfo("right", 1.0, "reward", True),)
    loaded = Loaded("v1", "Sums", 83, False, rewards, ("answer",), None, "0.4.0", "3.11", 0.1)
    repeated = (*sums(0), *(replace(task, index=80 + n) for n, task in enumerate(sums(0, 3))))
    found = loaded_findings(LoadedObservations(loaded, Rows(repeated, 83), Traits()))
    assert told(found, "duplicate-task").message == "3 tasks of the sample repeat another"


def test_a_seed_or_a_level_without_effect_is_named() -> None:
    steady = ArgumentEffect("seed", ("0", "0"), True)
    found = generated(
        steady, ArgumentEffect("seed", ("0", "1"), False), ArgumentEffect("level", ("easy", "hard"), True)
    )
    assert told(found, "argument-ignored").message.startswith('level="easy" and level="hard"')


def test_a_level_that_only_the_data_name_is_told_as_prompts_that_agree() -> None:
    finding = told(generated(ArgumentEffect("level", ("easy", "hard"), True, marked=True)), "argument-ignored")
    assert finding.severity == "info"
    assert "the prompts agree" in finding.message


def test_a_generator_whose_arguments_do_what_they_say_has_no_finding() -> None:
    found = generated(ArgumentEffect("seed", ("0", "0"), True), ArgumentEffect("level", ("easy", "hard"), False))
    assert {"tasks-change", "argument-ignored"}.isdisjoint(f.code for f in found)


@pytest.mark.parametrize(("container", "advice"), [(True, "Leave it so"), (False, "Export an Env")])
def test_a_paid_sandbox_is_to_be_avoided_only_where_no_task_needs_one(container: bool, advice: str) -> None:
    rewards = (RewardInfo("right", 1.0, "reward", True),)
    loaded = Loaded("v1", "Box", 80, False, rewards, ("answer",), None, "0.4.0", "3.11", 0.1, container=container)
    traits = Traits(roles=(Role("agent", "bash", "prime"),))
    finding = told(loaded_findings(LoadedObservations(loaded, Rows(tuple(sums(0)), 80), traits)), "default-runtime")
    assert finding.severity == "info"
    assert finding.fix.startswith(advice)


def test_a_gold_in_the_prompts_of_an_environment_with_solutions_is_left_to_what_the_reward_pays() -> None:
    loaded = Loaded(
        "v1", "Shelf", 80, False, (RewardInfo("right", 1.0, "reward", True),), ("answer",), None, "0.4.0", "3.11", 0.1,
        turns=True, solutions=True,
    )  # fmt: skip
    asked = [row(r.index, f"{r.prompt[0]['content']} Hint: the total is {r.answer}.", r.answer) for r in sums(0)]
    found = loaded_findings(LoadedObservations(loaded, Rows(tuple(asked), 80)))
    assert told(found, "gold-in-prompt").severity == "blocker"


@pytest.mark.parametrize(("stateful", "severity"), [(True, "warning"), (False, "blocker")])
def test_the_secret_of_a_game_may_make_a_task_where_all_tasks_share_the_rules(stateful: bool, severity: str) -> None:
    rows = [row(n, "Guess my number between 1 and 200.", str(7 * n + 3)) for n in range(40)]
    found = {f.code: f.severity for f in task_findings(rows, [], stateful=stateful)}
    assert {found["conflicting-gold"], found["duplicate-prompt"]} == {severity}


def test_tasks_with_prompts_of_their_own_conflict_also_where_rollouts_use_their_data() -> None:
    rows = [row(n, f"Which shelf has book {n // 2}?", f"A{n}") for n in range(8)]
    rows += [row(n, f"Which shelf has book {n}?", f"A{n}") for n in range(8, 40)]
    assert ("conflicting-gold", "blocker") in {(f.code, f.severity) for f in task_findings(rows, [], stateful=True)}


@pytest.mark.parametrize(("total", "said"), [(80, False), (None, True)])
def test_a_taskset_whose_end_was_reached_late_is_not_taken_for_an_infinite_one(total: int | None, said: bool) -> None:
    rewards = (RewardInfo("right", 1.0, "reward", True),)
    loaded = Loaded("v1", "Sums", None, False, rewards, ("answer",), None, "0.4.0", "3.11", 30.0)
    observed = LoadedObservations(loaded, Rows(tuple(sums(0)), total))
    found = [f for f in loaded_findings(observed) if f.code == "infinite-taskset"]
    assert (observed.tasks, len(found)) == (total, int(said))
    assert all("whether it ends is not known" in f.message for f in found)
