"""Runs one trial of a reward: scores golds, probes, repetitions and supplied cases with one loaded worker.

If the reward asks a judge, the trial scores fewer completions, because each question takes seconds and may cost money.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any, Protocol

from prime_lab_mcp.lab.base.report import Say
from prime_lab_mcp.lab.datasets.task_golds import (
    TaskGold,
    classes_without_name,
    gold_candidates,
    message_text,
    prompt_of,
    whole_prompt,
)
from prime_lab_mcp.lab.rewards import reward_source, scripted_rollouts, side_effects
from prime_lab_mcp.lab.rewards.accepted_replies import AcceptedGame, play_accepted
from prime_lab_mcp.lab.rewards.calibration import (
    Calibration,
    calibrate,
    calibrate_stated,
    forms_of_replies,
    instruction_texts,
    mean_share,
    prompts_and_systems,
)
from prime_lab_mcp.lab.rewards.capped_lists import CappedList, find_capped_list
from prime_lab_mcp.lab.rewards.case_skeletons import (
    crossed_probes,
    failing_program_probes,
    repeated_probes,
    right_replies,
    skeleton_probes,
)
from prime_lab_mcp.lab.rewards.cases import SuppliedCase, place_cases
from prime_lab_mcp.lab.rewards.constant_commands import ConstantCommand, play_commands, winning_messages
from prime_lab_mcp.lab.rewards.copied_messages import (
    CHATTERS,
    REMEMBERED,
    CopyingRule,
    copying_script,
    play_copying,
    reply_form,
)
from prime_lab_mcp.lab.rewards.goldless import goldless_probes, program_probes
from prime_lab_mcp.lab.rewards.interleaving import Mixed, find_mixed_rollouts
from prime_lab_mcp.lab.rewards.listed_entries import changed_probes, entry_probes, prompts_by_row
from prime_lab_mcp.lab.rewards.observations import (
    Expected,
    JudgeUse,
    OtherProcessScore,
    PromptedGolds,
    RepeatedScore,
    ScoredCase,
    ScoredProbe,
    Trial,
    Witnessed,
)
from prime_lab_mcp.lab.rewards.parrots import first_reply_in_prompts, play_parrots
from prime_lab_mcp.lab.rewards.probes.answer_formats import (
    BARE,
    AnswerWrapper,
    requested_wrappers,
)
from prime_lab_mcp.lab.rewards.probes.asked_forms import answer_comes_alone, answer_comes_last
from prime_lab_mcp.lab.rewards.probes.catalogue import (
    ELSEWHERE,
    AnswerStyle,
    Draft,
    Probe,
    assistant_message,
    build_probes,
    gold_probe,
    group_by_task,
)
from prime_lab_mcp.lab.rewards.probes.families import Family, Kind, label_of
from prime_lab_mcp.lab.rewards.probes.row_fields import GoldRendering, lacks_answer
from prime_lab_mcp.lab.rewards.probes.wrong_answers import clearly_wrong_answer, spread_over_answers
from prime_lab_mcp.lab.rewards.related_replies import score_related
from prime_lab_mcp.lab.rewards.replays import Replay, replay
from prime_lab_mcp.lab.rewards.scorer import Scorer, is_stress, score_probes, score_stress
from prime_lab_mcp.lab.rewards.shell_files import shell_tools
from prime_lab_mcp.lab.rewards.shortcuts import Shortcut, play_file_shortcuts, play_shortcuts
from prime_lab_mcp.lab.rewards.shown_tests import find_shown_tests
from prime_lab_mcp.lab.rewards.side_effects import ComparedScores, compare_with_witness
from prime_lab_mcp.lab.rewards.solution_parts import SolutionParts, play_parts, spoken_turns
from prime_lab_mcp.lab.rewards.solutions import Solved, calls_before_answer, play_solutions, stated_replies
from prime_lab_mcp.lab.rewards.stand_in_judge import find_misread_verdict
from prime_lab_mcp.lab.rewards.task_maximum import TASKS_OF_LEVEL, lower_levels, solution_maxima, task_maxima
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE
from prime_lab_mcp.lab.rewards.to_and_fro import PaidWalk, play_to_and_fro
from prime_lab_mcp.lab.rewards.tool_exploration import (
    AnswerKey,
    LastingWrite,
    find_answer_key,
    find_lasting_writes,
    offered_tools,
)
from prime_lab_mcp.lab.rewards.trial_and_error import ThoughtlessModel, play_thoughtless, play_without_answer
from prime_lab_mcp.lab.worker.description import JudgeInfo, Loaded, Row, Rows
from prime_lab_mcp.lab.worker.faults import ProblemCode
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.pool import OTHER_SEEDS
from prime_lab_mcp.lab.worker.scoring import Case, Scored
from prime_lab_mcp.lab.worker.witness import Witness

JUDGED_CASE_SECONDS = 60.0
"""Time limit in seconds for scoring one completion if the reward asks a judge."""
JUDGED_GOLDS = 24
"""Largest number of golds that a judge scores (docs/validation.md, Reward tests, requires 20)."""
JUDGED_REPEATS = 24
"""Largest number of completions that a judge scores again."""
_LONGEST = 12_000
"""Longest completion that a judge scores, in characters, because a judge costs money by the token."""
_TASKS: dict[Kind, int] = {"gold": 8, "wrong": 8, "cross": 20, "verbose": 4, "half-right": 2}
"""Number of tasks on which a judge scores completions of a kind. It is one for all other kinds."""
_WRONGS = 2
"""Number of wrong answers to each task that a judge scores."""
_PERSUASIONS = 3
"""Number of tasks on which the persuasions of a judge are tried. With ten texts this gives more than the 20 pairs that
docs/validation.md, Reward tests, requires."""


class RelayCounts(Protocol):
    """A relay to a judge: the endpoint's host, the relay's own address, and the number of refused questions."""

    @property
    def host(self) -> str: ...
    @property
    def local(self) -> str: ...
    @property
    def capped(self) -> int: ...
    @property
    def stand_in(self) -> bool: ...


def asks_judge(loaded: Loaded, scored: Iterable[Scored] = ()) -> bool:
    """Whether a reward asks a judge: its configuration says so, or one of these scorings did."""
    return bool(loaded.judges) or any(s.judges or s.has(ProblemCode.JUDGE_UNREACHABLE) for s in scored)


def probes_worth_asking(probes: Sequence[Probe]) -> list[Probe]:
    """Choose the probes that a judge scores: right and wrong answers to several tasks, all other kinds on one task."""
    tasks: dict[str, list[int]] = {}
    taken: Counter[tuple[int, str]] = Counter()
    chosen = []
    for probe in probes:
        if len(probe.completion) > _LONGEST:
            continue
        persuades = probe.family is Family.PERSUASION
        allowed = _TASKS.get(probe.kind, 1)
        if persuades:
            allowed = 1 if probe.bare else _PERSUASIONS
        group = f"{probe.kind}{'/persuasion' if persuades else ''}{'/bare' if persuades and probe.bare else ''}"
        known = tasks.setdefault(group, [])
        if probe.row not in known:
            if len(known) >= allowed:
                continue
            known.append(probe.row)
        taken[probe.row, probe.kind] += 1
        if probe.kind == "wrong" and taken[probe.row, "wrong"] > _WRONGS:
            continue
        chosen.append(probe)
    return chosen


def judge_use(
    loaded: Loaded, scored_probes: Iterable[ScoredProbe], stated: str, relay: RelayCounts | None
) -> JudgeUse | None:
    """Return the judges that were asked, and configured ones that were not; None if no reward asks a judge.

    `stated` is the text in which the package may name a judge's model: its code and arguments.
    """
    asked = dict.fromkeys(j for s in scored_probes for j in s.scored.judges)
    failed = any(s.scored.has(ProblemCode.JUDGE_UNREACHABLE) for s in scored_probes)
    if not asked and not loaded.judges and not failed:
        return None
    models = {j.model for j in asked}
    judges = [*asked, *(j for j in loaded.judges if j.model not in models)]
    if relay is not None:
        judges = [_through(j, relay) for j in judges]
    named = frozenset(j.model for j in judges if j.model and j.model in stated)
    through, capped = (None, 0) if relay is None else (relay.host, relay.capped)
    return JudgeUse(tuple(judges), named, through, capped, relay is not None and relay.stand_in)


def _through(judge: JudgeInfo, relay: RelayCounts) -> JudgeInfo:
    """Return the judge with the endpoint's host in place of the relay's address."""
    host = relay.host if judge.host == relay.local else judge.host
    return JudgeInfo(judge.name, judge.model, judge.temperature, host)


_SECONDS = 10.0
"""Time for scoring the golds. A slow reward scores fewer golds, but at least `_FEW`."""
_FEW = 24
_SLOW_CASE_MS = 700.0
"""Median time for scoring one completion above which only the probes for a judge are scored."""
_REPEAT_MS = 3000.0
"""Time for one repetition of ordinary completions. A slow reward repeats fewer, but at least `_REPEATED`."""
_REPEATED = 6


@dataclass(frozen=True, slots=True)
class TaskScores:
    """The scores of golds and probes.

    `picked` are the golds of the example tasks, on which probes are tried. `heavy` are the probes that are scored last,
    because they may hang a reward.
    """

    golds: tuple[ScoredProbe, ...] = ()
    scored_probes: tuple[ScoredProbe, ...] = ()
    repeats: tuple[RepeatedScore, ...] = ()
    picked: tuple[TaskGold, ...] = ()
    heavy: tuple[Probe, ...] = ()


async def score_tasks(
    scorer: Scorer,
    calibration: Calibration,
    rows: Sequence[Row],
    *,
    examples: int,
    hacks: bool,
    sparing: bool,
    also: Collection[int] = (),
) -> TaskScores:
    """Score the golds of all tasks and the probes of `examples` tasks, and of the tasks with the indices `also`.

    `hacks` includes exploits among the probes. `sparing` limits the probes, because each completion asks a judge.
    """
    golds = await _golds(scorer, calibration, sparing)
    picked = list(spread_over_answers(calibration.style.golds, examples, calibration.style.form))
    picked += [gold for gold in calibration.style.golds.golds if gold.row in also and gold not in picked]
    probes = build_probes(calibration.style, picked, {row.index: row for row in rows}, hacks=hacks)
    heavy = [p for p in probes if is_stress(p)]
    times = sorted(scored.ms for _, scored in calibration.scored)
    slow = bool(times) and times[len(times) // 2] > _SLOW_CASE_MS
    scored_probes, repeats = await _probe(scorer, [p for p in probes if p not in heavy], sparing or slow)
    scored_probes = (*scored_probes, *await _wrongs_of_levels(scorer, calibration.style, golds))
    if not (sparing or slow):
        scored_probes = (*scored_probes, *await _wrongs_elsewhere(scorer, calibration.style, golds, scored_probes))
    if not scorer.rest_of_group:  # A group reward may rightly differ between the calibration's group and this one.
        repeats = (*_repeated_golds(calibration, golds), *repeats)
    return TaskScores(golds, scored_probes, repeats, tuple(picked), tuple(heavy))


async def _wrongs_of_levels(
    scorer: Scorer, style: AnswerStyle, golds: Sequence[ScoredProbe]
) -> tuple[ScoredProbe, ...]:
    """Score one wrong answer to some tasks of each level, a lower reward that several golds earn (task_maximum.py)."""
    by_row = {gold.row: gold for gold in style.golds.golds}
    rows = [s.probe.row for level in lower_levels(golds).values() for s in level[:TASKS_OF_LEVEL]]
    if scorer.gave_up:
        return ()
    return await score_probes(scorer, [_wrong_probe(style, by_row[row], "of a lower level", "level") for row in rows])


def _wrong_probe(style: AnswerStyle, gold: TaskGold, variant: str, name: str) -> Probe:
    """Return one clearly wrong answer to the task of a gold."""
    wrong = style.wrapper.wrap(clearly_wrong_answer(style.golds, gold, style.form))
    return Draft(Family.WRONG, wrong, variant).probe(f"{gold.row}/{name}", gold.row)


async def _wrongs_elsewhere(
    scorer: Scorer, style: AnswerStyle, golds: Sequence[ScoredProbe], scored_probes: Sequence[ScoredProbe]
) -> tuple[ScoredProbe, ...]:
    """Score one wrong answer to each task without one, as many as the time allows.

    A reward can be honest on the few tasks with probes, which code can compute, and pay anything on the others.
    """
    by_row = {gold.row: gold for gold in style.golds.golds}
    probed = {s.probe.row for s in scored_probes if s.probe.family is Family.WRONG}
    paid = [s for s in golds if s.probe.row not in probed and (s.reward or 0.0) > EPSILON]
    if scorer.gave_up or style.programs or not paid:
        return ()
    each = max(0.1, sum(s.scored.ms for s in paid) / len(paid))
    affordable = paid[: int(_SECONDS * 1000 / each)]
    wrongs = [_wrong_probe(style, by_row[s.probe.row], ELSEWHERE, "elsewhere") for s in affordable]
    return await score_probes(scorer, wrongs)


def _repeated_golds(calibration: Calibration, golds: Sequence[ScoredProbe]) -> list[RepeatedScore]:
    """Return the golds that the calibration had already scored as repetitions."""
    later = {
        scored_probe.probe.row: scored_probe
        for scored_probe in golds
        if not scored_probe.scored.has(ProblemCode.NOT_RUN)
    }
    earlier = [(later[case.row], scored) for case, scored in calibration.scored if case.row in later]
    return [
        RepeatedScore(scored_probe.probe, scored, scored_probe.scored, scored_probe.scored)
        for scored_probe, scored in earlier
    ]


async def _golds(scorer: Scorer, calibration: Calibration, sparing: bool) -> tuple[ScoredProbe, ...]:
    """Score the golds of all tasks, or of as many as the time allows."""
    mean_ms = max(0.1, sum(s.ms for _, s in calibration.scored) / max(1, len(calibration.scored)))
    affordable = max(_FEW, int(_SECONDS * 1000 / mean_ms))
    if sparing and any(s.judges for _, s in calibration.scored):
        affordable = JUDGED_GOLDS
    golds: Sequence[TaskGold] = calibration.style.golds.golds
    if len(golds) > affordable:
        golds = spread_over_answers(calibration.style.golds, affordable, calibration.style.form)
    return await score_probes(scorer, [gold_probe(calibration.style, gold) for gold in golds])


async def _probe(
    scorer: Scorer, probes: Sequence[Probe], sparing: bool
) -> tuple[tuple[ScoredProbe, ...], tuple[RepeatedScore, ...]]:
    """Score probes, and score some of them two more times: in the same and in reverse order."""
    scored_probes = await score_probes(scorer, probes_worth_asking(probes) if sparing else probes)
    mixed = side_effects.mixed_probes(scored_probes)
    busy = sum(s.scored.ms for s in mixed)
    if busy > _REPEAT_MS:
        mixed = mixed[: max(_REPEATED, int(len(mixed) * _REPEAT_MS / busy))]
    if scorer.gave_up:
        return scored_probes, ()
    if sparing:
        return scored_probes, await _twice(scorer, scored_probes)
    return scored_probes, await _two_more_times(scorer, mixed)


async def _two_more_times(scorer: Scorer, some: Sequence[ScoredProbe]) -> tuple[RepeatedScore, ...]:
    """Score completions again: in the same and in reverse order. Those that were not run again are left out."""
    again = await scorer.score([s.probe.case for s in some])
    reverse = (await scorer.score([s.probe.case for s in reversed(some)]))[::-1]
    return tuple(
        RepeatedScore(s.probe, s.scored, a, r)
        for s, a, r in zip(some, again, reverse, strict=True)
        if not (a.has(ProblemCode.NOT_RUN) or r.has(ProblemCode.NOT_RUN))
    )


async def _twice(scorer: Scorer, scored_probes: Sequence[ScoredProbe]) -> tuple[RepeatedScore, ...]:
    """Score some right and wrong completions again. Those that asked no judge are also scored in reverse order."""
    kinds: dict[str, list[ScoredProbe]] = {}
    for scored_probe in scored_probes:
        if scored_probe.probe.kind in ("gold", "wrong", "cross", "verbose"):
            kinds.setdefault(scored_probe.probe.kind, []).append(scored_probe)
    some = [s for of_kind in kinds.values() for s in of_kind[: JUDGED_REPEATS // max(1, len(kinds))]]
    again = await scorer.score([s.probe.case for s in some])
    pairs = [(s, a) for s, a in zip(some, again, strict=True) if not a.has(ProblemCode.NOT_RUN)]
    comparable = [(s, a) for s, a in pairs if not (s.scored.judges or a.judges)]
    last = (await scorer.score([s.probe.case for s, _ in reversed(comparable)]))[::-1]
    third = {
        id(s): reverse for (s, _), reverse in zip(comparable, last, strict=True) if not reverse.has(ProblemCode.NOT_RUN)
    }
    return tuple(RepeatedScore(s.probe, s.scored, a, third.get(id(s), a)) for s, a in pairs)


async def _partly_right_again(
    scorer: Scorer,
    scored_probes: Sequence[ScoredProbe],
    supplied: Sequence[ScoredCase],
    repeats: Sequence[RepeatedScore],
) -> tuple[RepeatedScore, ...]:
    """Score some partly right replies and supplied cases two more times: in the same and in reverse order."""
    some = side_effects.partly_right_probes((*(s.scored_probe for s in supplied), *scored_probes), repeats)
    return await _two_more_times(scorer, some)


async def say_nothing(message: str) -> None:
    """Tell nobody what is tried."""


GOLD_TASKS = 500
"""Largest number of tasks whose gold is scored. A larger taskset is sampled with a seed."""
_NOTHING = "I do not know."
_JUDGED = "a judge scores these completions"
_PLAYED = "only whole rollouts earn this reward"
_RELOAD_SECONDS = 5.0
"""Loading time in seconds above which no other process is started, unless the source gives a reason
(reward_source.py)."""
Cases = Callable[[AnswerStyle | None], Sequence[SuppliedCase]]
"""Returns the caller's cases, given the answer style that the calibration has found."""


async def run_trial(
    worker: Worker,
    loaded: Loaded,
    sample: Rows,
    source: str,
    *,
    examples: int,
    hacks: bool,
    cases: Cases,
    rendering: GoldRendering | None = None,
    relay: RelayCounts | None = None,
    arguments: Mapping[str, Any] | None = None,
    own_raises: frozenset[str] = frozenset(),
    left_out: frozenset[str] = frozenset(),
    known_failures: Sequence[Probe] = (),
    say: Say = say_nothing,
) -> Trial:
    """Score golds, probes and the caller's `cases` with the environment's reward, and return all observations.

    `sample` has the tasks, and probes are tried on `examples` of them; `hacks` includes exploits. `source` is the
    environment's code, which is searched for tags and listed words. `rendering` is the caller's form of answers, if
    any. `relay` leads to the judge, if any. `arguments` are the environment's arguments, which may name the judge.
    `own_raises` are the places of `reward_source.raise_statements`. `left_out` are files of the folder that an
    installed package does not have, and which a witness therefore must not have either. `known_failures` are probes of
    an earlier trial, which are scored and judged like those of this one. `say` is told what is tried next.
    """
    sparing = asks_judge(loaded) or relay is not None
    async with AsyncExitStack() as stack:
        witness: Witness | None = None
        if sample.rows and not sparing:
            witness = await stack.enter_async_context(worker.witness(max(row.index for row in sample.rows), left_out))
        trial = await _observe(
            worker,
            loaded,
            sample,
            source,
            witness,
            examples,
            hacks,
            cases,
            rendering,
            relay,
            arguments,
            sparing,
            known_failures,
            say,
        )
    return replace(trial, own_raises=own_raises if loaded.api == "v1" else frozenset())


async def _observe(
    worker: Worker,
    loaded: Loaded,
    sample: Rows,
    source: str,
    witness: Witness | None,
    examples: int,
    hacks: bool,
    cases: Cases,
    rendering: GoldRendering | None,
    relay: RelayCounts | None,
    arguments: Mapping[str, Any] | None,
    sparing: bool,
    known_failures: Sequence[Probe],
    say: Say,
) -> Trial:
    """Make all observations of a trial, from the calibration to the stress probes; `run_trial` explains the arguments.

    `sparing` means that scoring asks a judge, so that fewer completions are scored.
    """
    played_before = worker.rollouts_played
    scorer = Scorer(worker, case_timeout=JUDGED_CASE_SECONDS) if sparing else Scorer(worker)
    rewards = tuple(loaded.rewards)
    several = reward_source.process_dependence(source) is not None
    if several:
        await side_effects.warm_other_process(worker)
    grouped = any(r.kind == "group" for r in rewards)
    if grouped:
        scorer.rest_of_group = {row.index: (assistant_message(_NOTHING), assistant_message("")) for row in sample.rows}
    calibration = await calibrate(scorer, sample.rows, source, rendering, sparing)
    if rendering is None and not (calibration is not None and (calibration.mean or 0.0) > EPSILON):
        calibration = await _as_in_cases(scorer, calibration, sample.rows, source, cases(None), sparing)
    sparing = sparing or (calibration is not None and asks_judge(loaded, (s for _, s in calibration.scored)))
    style = calibration.style if calibration is not None else None
    if style is not None and grouped:
        scorer.rest_of_group = group_by_task(style)
    probes, unmatched = place_cases(cases(style), sample.rows, style)
    solved = Solved()
    rows: Sequence[Row] = sample.rows
    if not scorer.gave_up:
        if loaded.turns:
            await say("playing solutions, and parts of them")
        solved = await play_solutions(worker, loaded, rows, scripted_rollouts.supplied_solutions(probes))
    if solved.unread and rendering is None and not _earns_all(calibration):
        of_solutions = await _stated_calibration(worker, scorer, rows, source)
        earned = calibration.mean or 0.0 if calibration is not None else 0.0
        if of_solutions is not None and (of_solutions.mean or 0.0) > earned + EPSILON:
            calibration, style, solved = of_solutions, of_solutions.style, Solved()
            probes, unmatched = place_cases(cases(style), sample.rows, style)
            if grouped:
                scorer.rest_of_group = group_by_task(style)
    replaced = loaded.turns and not grouped and solved.best > EPSILON and not _as_good(calibration, solved)
    if replaced:
        calibration, rows = await _after_calls(scorer, solved, calibration, rows, source, rendering, sparing)
        style = calibration.style if calibration is not None and scorer.before else style
    single = not (loaded.turns or grouped or sparing)
    goldless = calibration is None and single and not scorer.gave_up
    tried = TaskScores(golds=_calibration_golds(calibration))
    if calibration is not None and calibration.mean is not None and (scorer.before or not replaced):
        tried = await score_tasks(
            scorer,
            calibration,
            rows,
            examples=examples,
            hacks=hacks,
            sparing=sparing,
            also={p.row for p in known_failures},
        )
    elif goldless:
        tried = TaskScores(scored_probes=await score_probes(scorer, goldless_probes(rows)))
    doubtful = calibration is not None and mean_share(calibration) < HALF_SHARE
    if hacks and (goldless or (doubtful and single and not scorer.gave_up)):
        programs = await _programs(scorer, rows, source)
        tried = replace(tried, scored_probes=(*tried.scored_probes, *programs))
    golds, scored_probes, repeats = tried.golds, tried.scored_probes, tried.repeats
    if tried.picked and not scorer.gave_up:
        fresh = {(s.probe.row, s.probe.completion) for s in scored_probes}
        again = [probe for probe in known_failures if (probe.row, probe.completion) not in fresh]
        scored_probes = (*scored_probes, *await score_probes(scorer, again))
    if loaded.turns:
        await say("playing right, wrong and silent models")
    played = (
        await scripted_rollouts.play_scripts(worker, loaded, style, rows, _named_form(rows, source))
        if not scorer.gave_up
        else scripted_rollouts.PlayedRollouts()
    )
    replays: tuple[Replay, ...] = ()
    lasting: LastingWrite | None = None
    mixed: Mixed | None = None
    key: AnswerKey | None = None
    capped: CappedList | None = None
    copying: tuple[CopyingRule, ...] = ()
    shortcuts: tuple[Shortcut, ...] = ()
    commands: tuple[ConstantCommand, ...] = ()
    thoughtless: tuple[ThoughtlessModel, ...] = ()
    walk: PaidWalk | None = None
    parts = SolutionParts()
    accepted: tuple[AcceptedGame, ...] = ()
    if loaded.turns and not (sparing or scorer.gave_up or played.broken or played.unavailable):
        named = _named_form(sample.rows, source)
        if hacks:
            await say("playing models that copy from messages, prompts and calls")
            copying = await play_copying(worker, style, solved, played.rollouts, sample.rows, named)
        form = reply_form(style, solved)
        if hacks:
            shortcuts = await play_shortcuts(worker, form, solved, sample.rows) or await play_parrots(
                worker, solved, sample.rows
            )
            if not solved.scored and style is not None and next(shell_tools(offered_tools(played.rollouts)), None):
                shortcuts = await play_file_shortcuts(worker, form, style, sample.rows)
        await say("playing rollouts again in fresh processes")
        copies = [copying_script(CHATTERS, kind, form) for kind in REMEMBERED]
        if hacks and not grouped:
            accepted = await play_accepted(worker, solved)
        ends = [p for game in accepted for p in game.ends]
        replays = await replay(worker, (*solved.scored, *played.rollouts), copies, ends)
        tools = offered_tools((*solved.scored, *played.rollouts))
        remembered = any(r.severe for r in replays)
        if not remembered:
            lasting = await find_lasting_writes(worker, sample.rows, tools)
        if not (remembered or lasting or grouped):
            recorded = (*played.rollouts, *solved.scored)
            mixed = await find_mixed_rollouts(worker, sample.rows, named, source, recorded)
        if hacks and style is not None:
            key = await find_answer_key(worker, style, sample.rows, tools)
        if hacks and not grouped:
            await say("playing models that do the same in every task")
            listed, said = reward_source.rewarded_words(source), spoken_turns(solved)
            verdicts = dict.fromkeys(
                (*winning_messages((*solved.scored, *played.rollouts)), *reward_source.spoken_sentences(source))
            )
            commands = await play_commands(worker, sample.rows, listed, said, tuple(verdicts), few=bool(tools))
            thoughtless = await play_thoughtless(worker, sample.rows, tools, named)
            walk = await play_to_and_fro(worker, sample.rows, tools, named, source)
        if hacks and not grouped:
            parts = await play_parts(worker, solved, prompts_by_row(sample.rows))
        if hacks:
            capped = await find_capped_list(worker, style, sample.rows, tools, source)
        if hacks and style is not None and played.deciding_script is None and not replaced and tools:
            idle = await play_without_answer(worker, style, sample.rows, tools)
            played = replace(played, rollouts=(*played.rollouts, *idle))
    await say("scoring cases, and completions again")
    by_rollouts = replaced and not scorer.before
    supplied = await _supplied(scorer, probes)
    if hacks and not (sparing or loaded.turns or grouped):
        of_cases = failing_program_probes(probes)
        if style is None:
            of_cases += [*skeleton_probes(probes), *repeated_probes(probes), *crossed_probes(probes, rows)]
        scored_probes = (*scored_probes, *await score_probes(scorer, of_cases))
    if hacks and not (sparing or loaded.turns or grouped or scorer.gave_up):
        right: list[tuple[Probe, Expected]] = []
        if style is not None:
            right = [(gold_probe(style, gold), "high") for gold in tried.picked]
        scored_probes = (*scored_probes, *await score_probes(scorer, entry_probes([*probes, *right], rows)))
        scored_probes = (*scored_probes, *await score_probes(scorer, changed_probes(right, rows)))
        stated = {gold.row for gold in style.golds.golds} if style is not None and tried.picked else set()
        known = [*(s.scored_probe for s in supplied), *tried.golds[:_FEW]]
        scored_probes = (*scored_probes, *await score_related(scorer, probes, right, stated, rows, known))
    if by_rollouts:
        golds, scored_probes = scripted_rollouts.solution_probes(solved, played)
    elif not replaced and played.deciding_script is not None:
        by_rollouts = True
        golds, scored_probes = scripted_rollouts.rollout_probes(played)
    repeats = () if by_rollouts else repeats
    if not (by_rollouts or sparing or grouped or scorer.gave_up):
        repeats = (*repeats, *await _partly_right_again(scorer, scored_probes, supplied, repeats))
    scored_cases = {id(s) for s in supplied}
    if supplied and played.stateful and (by_rollouts or not any(s.reward for s in golds)):
        supplied = await scripted_rollouts.replay_cases(worker, supplied)
        witness = None
    elif loaded.turns:
        supplied = await scripted_rollouts.replay_calls(worker, supplied)
    # The reward of a case that was played belongs to its rollout. Scored without one, the case earns something else.
    scored_alone = [s.scored_probe for s in supplied if id(s) in scored_cases]
    known = [] if by_rollouts else [*scored_probes, *scored_alone]
    alive = bool(known) and not scorer.faulty and not sparing
    behaviour = await side_effects.observe_side_effects(worker, known) if alive else None
    other_process: tuple[OtherProcessScore, ...] = ()
    if alive and not grouped and (several or loaded.seconds < _RELOAD_SECONDS):
        other_process = await side_effects.score_in_other_processes(
            worker, known, repeats, OTHER_SEEDS if several else (None,)
        )
    compared = ComparedScores(Witnessed(skipped=_JUDGED if sparing else _PLAYED))
    if witness is not None and not sparing and not by_rollouts:
        compared = await compare_with_witness(witness, scorer, known or golds, repeats, sample.rows)
    if style is not None and tried.picked and hacks and not by_rollouts and not sparing:
        scored_probes = (*scored_probes, *await score_stress(scorer, tried.heavy, style, tried.picked[0]))
    if any(s.scored.has(ProblemCode.LEFT_PROCESSES) for s in (*golds, *scored_probes)):
        await worker.close()  # The pool reuses workers, and the processes that scoring left behind would live on.
    scored = [*golds, *scored_probes, *(s.scored_probe for s in supplied)]
    judging = judge_use(loaded, scored, f"{source}\n{arguments}", relay)
    misread = await find_misread_verdict(worker, style, sample.rows) if judging is not None and not grouped else None
    return Trial(
        judging=judging,
        misread=misread,
        rewards=rewards,
        style=style,
        form_requested=calibration is not None and calibration.requested,
        golds=golds,
        scored_probes=scored_probes,
        repeats=repeats,
        supplied=supplied,
        unmatched=tuple(unmatched),
        faults=tuple(_scored_probe(case, scored) for case, scored in (*scorer.faulty, *scorer.slow)),
        side_effects=behaviour,
        other_process=(*other_process, *compared.other_process),
        witnessed=compared.witnessed,
        rollouts=played.rollouts,
        rollouts_played=worker.rollouts_played - played_before,
        no_rollouts=played.unavailable,
        no_rollouts_by_design=played.by_design,
        rollouts_broke=played.broken,
        by_rollouts=by_rollouts,
        solved=solved,
        replays=replays,
        lasting=lasting,
        mixed=mixed,
        answer_key=key,
        classes=classes_without_name(sample.rows, style.golds) if style is not None else (),
        unnamed=_unnamed_golds(style, sample.rows),
        asked=whole_prompt(sample.rows[0]) if sample.rows else "",
        systems="\n".join(message_text(m) for m in sample.rows[0].prompt if m.get("role") == "system"),
        capped=capped,
        copying=copying,
        shortcuts=shortcuts,
        commands=commands,
        thoughtless=thoughtless,
        walk=walk,
        parts=parts,
        shown_tests=find_shown_tests(sample.rows, source) if hacks else None,
        accepted=accepted,
        hinted=first_reply_in_prompts(solved, sample.rows),
        after_calls=bool(scorer.before),
        interactive=loaded.turns,
        api=loaded.api,
        task_class=loaded.task_class,
        gave_up=scorer.gave_up,
        tasks=sample.total,
        answer_left_out=_answer_left_out(rendering, sample.rows),
        renderings=calibration.tried if calibration is not None else 0,
        prompted=_prompted(calibration),
        form_unmentioned=calibration is not None and calibration.unmentioned,
        listed_in_prompts=style is not None and _listed_in_prompts(style, sample.rows),
        answer_last=answer_comes_last(*prompts_and_systems(sample.rows)),
        answer_alone=answer_comes_alone(*prompts_and_systems(sample.rows)),
        levels={**task_maxima(golds, scored_probes), **(solution_maxima(solved) if by_rollouts else {})},
    )


async def _as_in_cases(
    scorer: Scorer,
    calibration: Calibration | None,
    rows: Sequence[Row],
    source: str,
    cases: Sequence[SuppliedCase],
    sparing: bool,
) -> Calibration | None:
    """Calibrate with the form in which right replies of the caller state golds, where no other form is paid."""
    shown = forms_of_replies(right_replies(place_cases(cases, rows, None)[0]), rows) if cases else []
    for form in shown:
        again = await calibrate(scorer, rows, source, GoldRendering(form), sparing)
        if again is not None and (again.mean or 0.0) > EPSILON:
            return again
    return calibration


def _unnamed_golds(style: AnswerStyle | None, rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    """Return prompt and gold of each task, if the name of the field does not tell that it holds the gold."""
    if style is None or any(golds.place == style.golds.place for golds in gold_candidates(rows)):
        return ()
    prompts = {row.index: prompt_of(row) for row in rows}
    return tuple((prompts[gold.row], style.answer_text(gold)) for gold in style.golds.golds if gold.row in prompts)


_LISTED_SHARE = 0.8


def _listed_in_prompts(style: AnswerStyle, rows: Sequence[Row]) -> bool:
    """Return whether golds are lists of several items, and nearly all prompts state all items of their own one."""
    prompts = {row.index: prompt_of(row).casefold() for row in rows}
    lists = [gold for gold in style.golds.golds if len(gold.parts) > 1]
    stated = sum(all(part.casefold() in prompts.get(gold.row, "") for part in gold.parts) for gold in lists)
    return 2 * len(lists) > len(style.golds.golds) and stated >= _LISTED_SHARE * len(lists)


def _named_form(rows: Sequence[Row], source: str) -> AnswerWrapper:
    """Return the form of a reply that the prompts or the code name first; without form if they name none."""
    return next((form for form in requested_wrappers(instruction_texts(rows), source) if not form.lead), BARE)


_PROGRAMS_MS = 15_000.0
_FEWEST_PROGRAMS = 12
"""Time for scoring programs that solve nothing, and the smallest number of them that are scored."""


async def _programs(scorer: Scorer, rows: Sequence[Row], source: str) -> tuple[ScoredProbe, ...]:
    """Score programs that solve nothing on tasks without a known right answer."""
    probes = program_probes(rows, source)
    first = await score_probes(scorer, probes[:_FEWEST_PROGRAMS])
    each = max(1.0, sum(s.scored.ms for s in first) / max(1, len(first)))
    rest = probes[_FEWEST_PROGRAMS : max(_FEWEST_PROGRAMS, int(_PROGRAMS_MS / each))]
    return (*first, *await score_probes(scorer, rest)) if not scorer.gave_up else first


def _answer_left_out(rendering: GoldRendering | None, rows: Sequence[Row]) -> str:
    """Return the field with the answers of which a rendering without GOLD has nothing; empty if there is none."""
    golds = next(iter(gold_candidates(rows)), None) if rendering is not None and rendering.composed else None
    return golds.place if golds is not None and rendering is not None and lacks_answer(rendering, golds, rows) else ""


def _earns_all(calibration: Calibration | None) -> bool:
    """Whether the golds earn all that the weights add up to."""
    return calibration is not None and mean_share(calibration) >= FULL_SHARE - EPSILON


async def _stated_calibration(worker: Worker, scorer: Scorer, rows: Sequence[Row], source: str) -> Calibration | None:
    """Calibrate with the replies that the tasks state as their solutions; None if they state none of one message."""
    replies = {} if scorer.gave_up else await stated_replies(worker, rows)
    return await calibrate_stated(scorer, rows, source, replies) if replies else None


def _as_good(calibration: Calibration | None, solved: Solved) -> bool:
    """Whether the gold without tool calls earns as much as the best solution."""
    return calibration is not None and (calibration.mean or 0.0) >= FULL_SHARE * solved.best - EPSILON


async def _after_calls(
    scorer: Scorer,
    solved: Solved,
    calibration: Calibration | None,
    rows: Sequence[Row],
    source: str,
    rendering: GoldRendering | None,
    sparing: bool,
) -> tuple[Calibration | None, Sequence[Row]]:
    """Calibrate again with golds that follow the tool calls of their task's solution.

    If these golds earn as much as the solutions, the new calibration and the tasks with a played solution are returned,
    and `scorer.before` keeps the calls. Otherwise the old calibration and all tasks are returned.
    """
    scorer.before = calls_before_answer(solved)
    few = [row for row in rows if row.index in scorer.before]
    again = await calibrate(scorer, few, source, rendering, sparing) if few else None
    if again is None or (again.mean or 0.0) < FULL_SHARE * solved.best - EPSILON:
        scorer.before = {}
        return calibration, rows
    return again, few


def _prompted(calibration: Calibration | None) -> PromptedGolds | None:
    """Return the golds in the form that the prompt asks for; None if they were not tried."""
    if calibration is None or calibration.prompted is None or calibration.mean is None:
        return None
    form = calibration.prompted
    scored_probes = tuple(_scored_probe(case, scored) for case, scored in form.scored)
    return PromptedGolds(form.shown, form.mean, calibration.mean, scored_probes, form.keys)


def _calibration_golds(calibration: Calibration | None) -> tuple[ScoredProbe, ...]:
    """Return the golds that the calibration has scored, as scored probes."""
    if calibration is None:
        return ()
    return tuple(_scored_probe(case, scored) for case, scored in calibration.scored)


def _scored_probe(case: Case, scored: Scored) -> ScoredProbe:
    return ScoredProbe(Probe(case.id, Family.GOLD, label_of(Family.GOLD), case.row, tuple(case.messages)), scored)


async def _supplied(scorer: Scorer, probes: Sequence[tuple[Probe, Expected]]) -> tuple[ScoredCase, ...]:
    """Score the supplied cases, without the solution's calls in front of them."""
    before, scorer.before = scorer.before, {}  # A supplied conversation is already complete.
    scored_probes = await score_probes(scorer, [probe for probe, _ in probes])
    scorer.before = before
    return tuple(
        ScoredCase(scored_probe, expected) for scored_probe, (_, expected) in zip(scored_probes, probes, strict=True)
    )
