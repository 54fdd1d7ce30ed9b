"""Probes belong to families, every family is judged, and no rule reads a label."""

from __future__ import annotations

import ast
import inspect
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp import lab
from prime_lab_mcp.lab.datasets.task_golds import gold_candidates
from prime_lab_mcp.lab.rewards import comparison, side_effects
from prime_lab_mcp.lab.rewards import findings as reward
from prime_lab_mcp.lab.rewards import judged_scoring as judged
from prime_lab_mcp.lab.rewards.cases import cases_behind
from prime_lab_mcp.lab.rewards.comparison_findings import comparison_findings
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes import catalogue, families
from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE, AnswerWrapper, tag_wrapper
from prime_lab_mcp.lab.rewards.probes.catalogue import MAKERS, AnswerStyle, _far_terms, build_probes, gold_probe
from prime_lab_mcp.lab.rewards.probes.families import HACKS, NEEDS_ANSWER, Family
from prime_lab_mcp.lab.rewards.smells import hints as smells
from prime_lab_mcp.lab.worker.description import RewardInfo, Row
from prime_lab_mcp.lab.worker.scoring import Component, Scored

REWARDS = Path(lab.__file__).parent / "rewards"
ELSEWHERE = {
    Family.SUPPLIED,
    Family.CROSS,
    Family.ENTRY_LEFT_OUT,
    Family.VALUES_UNREADABLE,
    Family.ENTRIES_CUT,
    Family.ENTRY_CHANGED,
    Family.CONSTANT_VALUES,
    Family.SHARED_WORDS,
    Family.WIDE_RANGE,
    Family.LOOSER_QUERY,
    Family.REORDERED,
    Family.REORDERED_CHANGED,
    Family.ENTRY_REPEATED,
    Family.PAIR_ALIKE,
    Family.INVENTED_WORD,
    Family.STRIPPED,
    Family.FEW_WORDS,
    Family.VALUES_SWAPPED,
    Family.ABSURD_NUMBER,
    Family.CHANGES_DATA,
    Family.EMPTY_NUMBERS,
    Family.ASKED_SPELLING,
    Family.OTHER_WAY,
    Family.LEAVES_PROCESS,
    Family.NEVER_ENDS,
    Family.SEARCHED,
}
"""Families of probes that belong to no example task: made where they are scored."""
TASKS: Mapping[str, Callable[[int], Any]] = {
    "numeric": lambda n: str(37 * n),
    "label": lambda n: ("positive", "negative", "neutral")[n % 3],
    "multi": lambda n: [f"a{n}", f"b{n}", f"c{n}"],
    "json": lambda n: json.dumps({"name": f"n{n}", "count": n}),
    "code": lambda n: f"def f(x):\n    return {n} * x + 1",
}


def rows(answer: Callable[[int], Any]) -> dict[int, Row]:
    return {
        n: Row(n, str(n), ({"role": "user", "content": f"Question {n}?"},), answer(n), None, {"answer": answer(n)})
        for n in range(6)
    }


@pytest.mark.parametrize("number", [0, 1, 2, 7, 10, 14, 97, 100, 3300, 21500, -7, -3300])
def test_an_expression_for_the_answer_has_no_number_near_it(number: int) -> None:
    more, less = _far_terms(number)
    assert more - less == number
    for term in (more, less):
        assert abs(term - number) >= 0.5 * abs(number)
        assert str(abs(number)) not in str(term)


def trial(answer: Callable[[int], Any], wrapper: AnswerWrapper, seed: int) -> Trial:
    """Every probe of some tasks, paid by chance."""
    known = rows(answer)
    golds = gold_candidates(list(known.values()))[0]
    style = AnswerStyle(golds, 0, wrapper, words=("therefore", "because"))
    chance = random.Random(seed)
    parts = {family: chance.random() for family in Family}

    def scored(probe: catalogue.Probe) -> ScoredProbe:
        right = probe.family in (Family.GOLD, Family.AFTER_REASONING, Family.SPELLING)
        paid = float(right) if chance.random() < parts[probe.family] else chance.choice([0.0, 0.4, 1.0, 1.5])
        return ScoredProbe(probe, Scored(probe.id, paid, {"correct": Component(paid, 1.0)}, ms=1.0))

    scored_probes = tuple(map(scored, build_probes(style, golds.golds[:4], known, hacks=True)))
    paid = tuple(ScoredProbe(gold_probe(style, gold), Scored("g", 1.0)) for gold in golds.golds)
    rewards = (RewardInfo("correct", 1.0, "reward", True),)
    return Trial(
        rewards=rewards, style=style, form_requested=True, golds=paid, scored_probes=scored_probes, tasks=len(known)
    )


def verdict(seen: Trial) -> list[Any]:
    """Everything that rules conclude, without the texts of labels."""
    findings = reward.reward_findings(seen)
    smelt = [smells.Smell(kind, "f.py:1", "") for kind in smells.SMELL_KINDS]
    hints = smells.hints(smelt, findings)
    chosen = side_effects.concurrent_probes(seen.scored_probes)
    return [
        [(f.code, f.severity, len(f.rows), [row["task"] for row in f.rows]) for f in findings],
        [hint.message for hint in hints],
        [case["expected"] for _, case in cases_behind(findings, seen)],
        [scored_probe.probe.id for group in chosen for scored_probe in group],
        [probe.id for probe in judged.probes_worth_asking([scored_probe.probe for scored_probe in seen.scored_probes])],
        [check.passed for check in reward.sanity_checks(seen)],
    ]


@pytest.mark.parametrize("kind", TASKS)
def test_verdicts_stay_the_same_when_every_label_is_another(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    label_of = families.label_of
    for wrapper in (BARE, tag_wrapper("answer")):
        for seed in range(4):
            monkeypatch.setattr(catalogue, "label_of", label_of)
            before = verdict(trial(TASKS[kind], wrapper, seed))
            monkeypatch.setattr(catalogue, "label_of", lambda *a, **k: f"renamed: {label_of(*a, **k)[::-1]}")
            assert verdict(trial(TASKS[kind], wrapper, seed)) == before
            assert before[0], "nothing was found, so nothing was compared"


def test_two_environments_are_compared_the_same_when_every_label_is_another() -> None:
    seen = trial(TASKS["numeric"], BARE, 1)

    def rows_of(label: str) -> list[Any]:
        scored_probes = [
            ScoredProbe(catalogue.Draft(s.probe.family, s.probe.completion, s.probe.variant).probe("x", 0), s.scored)
            for s in seen.scored_probes[:60]
        ]
        for scored_probe in scored_probes:
            object.__setattr__(scored_probe.probe, "label", label or scored_probe.probe.label)
        pairs = tuple(comparison.ComparedCompletion(scored_probe, Scored("x", 0.5)) for scored_probe in scored_probes)
        found = comparison_findings(
            comparison.RewardComparison("older", comparison.MatchedTasks({0: 0}, ()), pairs, 1.0, 1.0)
        )
        return [[(row["completion"], row["reward"]) for row in f.rows] for f in found]

    assert rows_of("") == rows_of("the same for all") != []


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(REWARDS.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def reads_label(node: ast.AST) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == "label" for n in ast.walk(node))


def decides(node: ast.AST) -> bool:
    """Whether this node compares a label, takes a label apart or looks one up."""
    if isinstance(node, ast.Compare):
        return reads_label(node)
    if isinstance(node, ast.Subscript):
        return reads_label(node.slice)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return isinstance(node.func.value, ast.Attribute) and node.func.value.attr == "label"
    return False


@pytest.mark.parametrize(
    "code",
    ["s.probe.label == 'a'", "'a' in s.probe.label", "s.probe.label.startswith('a')", "table[s.probe.label]"],
)
def test_reading_a_label_is_noticed(code: str) -> None:
    assert any(decides(node) for node in ast.walk(ast.parse(code)))


def test_no_rule_reads_a_label() -> None:
    found = [
        f"{path.name}:{node.lineno}"
        for path, tree in modules()
        for node in ast.walk(tree)
        if decides(node) and isinstance(node, ast.expr)
    ]
    assert found == []


def test_every_family_says_what_its_completions_have_in_common() -> None:
    lines = inspect.getsource(Family).splitlines()
    undocumented = [
        family
        for family in Family
        if not any(f"{family.name} = " in line and after.strip().startswith('"""') for line, after in pairwise(lines))
    ]
    assert undocumented == []
    assert {family for family in Family if not families.label_of(family, "x")} == set()


def test_every_family_is_made_once_and_judged() -> None:
    made = {family for maker in MAKERS for family in maker.families}
    assert made | ELSEWHERE == set(Family)
    judged_by_rules = {
        node.attr
        for path, tree in modules()
        if path.parent.name == "rules"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Family"
    }
    by_maker = {family for maker in MAKERS if maker.judged is not None for family in maker.families}
    unjudged = {f for f in Family if f.name not in judged_by_rules} - by_maker
    # Every family of a cheat must not be worth more than the right answer (hacks.above_gold); some are watched for
    # what scoring them does: time, exceptions, text that is run.
    assert unjudged - HACKS == {Family.SUPPLIED}


@pytest.mark.parametrize("kind", TASKS)
def test_families_whose_completions_hold_the_right_answer_are_named(kind: str) -> None:
    """The search takes its words from the other families (search/vocabulary.py), and the answer would leak."""
    list_all = {Family.EVERY_ANSWER, Family.EVERY_ANSWER_BACKWARDS}
    known = rows(TASKS[kind])
    golds = gold_candidates(list(known.values()))[0]
    style = AnswerStyle(golds, 0, tag_wrapper("answer"), words=("therefore",))
    answers = {gold.row: style.answer_text(gold) for gold in golds.golds}
    leaks = {
        probe.family
        for probe in build_probes(style, golds.golds[1:4], known, hacks=True)
        if re.search(rf"(?<![\w.-]){re.escape(answers[probe.row])}(?![\w.])", probe.completion) and not probe.knowing
    }
    assert leaks - list_all - NEEDS_ANSWER == set()


@pytest.mark.parametrize("kind", TASKS)
def test_makers_make_what_they_are_registered_for(kind: str) -> None:
    known = rows(TASKS[kind])
    golds = gold_candidates(list(known.values()))[0]
    for wrapper in (BARE, tag_wrapper("answer")):
        style = AnswerStyle(golds, 0, wrapper, words=("therefore",))
        for place, gold in enumerate(golds.golds[:2]):
            target = catalogue._target(style, gold, known[gold.row], place, style.programs, True)
            for maker in MAKERS:
                if maker.applies(target):
                    assert {draft.family for draft in maker.make(target)} <= maker.families


def test_all_answers_are_listed_with_the_marks_that_the_prompt_puts_between_two_of_them() -> None:
    def listed(system: str, answers: list[Any]) -> set[str]:
        messages = ({"role": "system", "content": system}, {"role": "user", "content": "Which?"})
        known = {n: Row(n, str(n), messages, a, None, {"answer": a}) for n, a in enumerate(answers)}
        golds = gold_candidates(list(known.values()))[0]
        style = AnswerStyle(golds, 0, BARE)
        probes = build_probes(style, golds.golds[:1], known, hacks=True)
        return {p.completion for p in probes if p.family is Family.EVERY_ANSWER}

    labels = ["red", "blue"] * 4
    assert listed("Say red or blue; red/blue counts too.", labels) >= {"red/blue", "red or blue", "red, blue"}
    assert "red/blue" not in listed("Say red or blue.", labels)
    lists = [["red"], ["blue"], ["red", "blue"]] * 4
    assert "blue/red" in listed("One is enough, or both, as in red/blue.", lists)
