"""Runs one trial of a reward: scores golds, probes, repetitions and supplied cases with one loaded worker.

If the reward asks a judge, the trial scores fewer completions, because each question takes seconds and may cost money.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.base.report import Say
from prime_lab_mcp.lab.datasets.task_golds import (
    classes_without_name,
    gold_candidates,
    message_text,
    prompt_of,
    whole_prompt,
)
from prime_lab_mcp.lab.rewards import reward_source, scripted_rollouts, side_effects
from prime_lab_mcp.lab.rewards.calibration import (
    Calibration,
    calibrate,
    calibrate_stated,
    forms_of_replies,
    instruction_texts,
    mean_share,
    prompts_and_systems,
)
from prime_lab_mcp.lab.rewards.case_skeletons import (
    crossed_probes,
    failing_program_probes,
    repeated_probes,
    right_replies,
    skeleton_probes,
    unchanged_probes,
)
from prime_lab_mcp.lab.rewards.cases import SuppliedCase, place_cases
from prime_lab_mcp.lab.rewards.equal_orders import equal_order_probes
from prime_lab_mcp.lab.rewards.equal_paths import equal_path_probes
from prime_lab_mcp.lab.rewards.goldless import goldless_probes, nothing_probes
from prime_lab_mcp.lab.rewards.golds_alone import find_refused_golds
from prime_lab_mcp.lab.rewards.judged_scoring import JUDGED_CASE_SECONDS, RelayCounts, asks_judge, judge_use
from prime_lab_mcp.lab.rewards.listed_entries import changed_probes, entry_probes
from prime_lab_mcp.lab.rewards.observations import (
    Expected,
    JudgeUse,
    ObservedSideEffects,
    OtherProcessScore,
    PromptedGolds,
    RefusedGolds,
    RepeatedScore,
    ScoredCase,
    ScoredProbe,
    StatedForm,
    Trial,
    Witnessed,
)
from prime_lab_mcp.lab.rewards.parrots import first_reply_in_prompts
from prime_lab_mcp.lab.rewards.played_models import PlayedModels, Stage, play_models
from prime_lab_mcp.lab.rewards.probes.answer_formats import (
    BARE,
    AnswerWrapper,
    requested_wrappers,
)
from prime_lab_mcp.lab.rewards.probes.asked_forms import answer_comes_alone, answer_comes_last
from prime_lab_mcp.lab.rewards.probes.catalogue import (
    AnswerStyle,
    Probe,
    assistant_message,
    gold_probe,
    group_by_task,
)
from prime_lab_mcp.lab.rewards.probes.families import Family, label_of
from prime_lab_mcp.lab.rewards.probes.pattern_examples import code_patterns
from prime_lab_mcp.lab.rewards.probes.row_fields import GoldRendering, known_fields, lacks_answer
from prime_lab_mcp.lab.rewards.related_replies import score_related
from prime_lab_mcp.lab.rewards.scorer import Scorer, score_probes, score_stress
from prime_lab_mcp.lab.rewards.scripts import IGNORANCE
from prime_lab_mcp.lab.rewards.shown_tests import find_shown_tests
from prime_lab_mcp.lab.rewards.side_effects import ComparedScores, compare_with_witness
from prime_lab_mcp.lab.rewards.solutions import Solved, calls_before_answer, play_solutions, stated_replies
from prime_lab_mcp.lab.rewards.stand_in_judge import MisreadVerdict, find_misread_verdict
from prime_lab_mcp.lab.rewards.task_maximum import solution_maxima, task_maxima
from prime_lab_mcp.lab.rewards.task_scores import FEW_GOLDS, TaskScores, partly_right_again, score_programs, score_tasks
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE
from prime_lab_mcp.lab.rewards.trial_and_error import play_without_answer
from prime_lab_mcp.lab.worker.description import Loaded, Row, Rows
from prime_lab_mcp.lab.worker.faults import ProblemCode
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.pool import OTHER_SEEDS
from prime_lab_mcp.lab.worker.scoring import Case, Scored
from prime_lab_mcp.lab.worker.witness import Witness

GOLD_TASKS = 500
"""Largest number of tasks whose gold is scored. A larger taskset is sampled with a seed."""
UNKNOWN_TASKS = 100
"""Number of tasks of a larger taskset that are drawn besides, by a seed that code cannot know (sampling_secret.py). Of
a reward that pays anything on 5 % of the tasks, 100 tasks show one with a probability above 99 %."""
_JUDGED = "a judge scores these completions"
_PLAYED = "only whole rollouts earn this reward"
_RELOAD_SECONDS = 5.0
"""Loading time in seconds above which no other process is started, unless the source gives a reason
(reward_source.py)."""
Cases = Callable[[AnswerStyle | None], Sequence[SuppliedCase]]
"""Returns the caller's cases, given the answer style that the calibration has found."""


async def say_nothing(message: str) -> None:
    """Tell nobody what is tried."""


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
        request = _Request(
            worker, loaded, sample, source, witness, examples, hacks, cases, rendering, relay, arguments, sparing
        )
        trial = await _Observation(request, known_failures, say).trial()
    return replace(trial, own_raises=own_raises if loaded.api == "v1" else frozenset())


@dataclass(frozen=True, slots=True)
class _Request:
    """What one trial is about; `run_trial` explains the arguments.

    `sparing` means that scoring asks a judge, so that fewer completions are scored.
    """

    worker: Worker
    loaded: Loaded
    sample: Rows
    source: str
    witness: Witness | None
    examples: int
    hacks: bool
    cases: Cases
    rendering: GoldRendering | None
    relay: RelayCounts | None
    arguments: Mapping[str, Any] | None
    sparing: bool


class _Observation:
    """Makes all observations of a trial, from the calibration to the stress probes, in the order of its methods."""

    def __init__(self, request: _Request, known_failures: Sequence[Probe], say: Say) -> None:
        self.request, self.known_failures, self.say = request, known_failures, say
        worker, loaded = request.worker, request.loaded
        self.worker, self.loaded, self.source, self.hacks = worker, loaded, request.source, request.hacks
        self.sparing = request.sparing
        self.scorer = Scorer(worker, case_timeout=JUDGED_CASE_SECONDS) if self.sparing else Scorer(worker)
        self.several = reward_source.process_dependence(self.source) is not None
        """Whether the code gives a reason to score completions in several other processes."""
        self.grouped = any(r.kind == "group" for r in loaded.rewards)
        self.rows: Sequence[Row] = request.sample.rows
        self.named = _named_form(self.rows, self.source)
        self.calibration: Calibration | None = None
        self.stated: StatedForm | None = None
        self.style: AnswerStyle | None = None
        self.probes: list[tuple[Probe, Expected]] = []
        """The caller's cases."""
        self.unmatched: list[str] = []
        self.solved = Solved()
        self.replaced = False
        """Whether golds are judged after the calls of their solution, or by rollouts alone."""
        self.tried = TaskScores()
        self.golds: tuple[ScoredProbe, ...] = ()
        self.scored_probes: tuple[ScoredProbe, ...] = ()
        self.repeats: tuple[RepeatedScore, ...] = ()
        self.played = scripted_rollouts.PlayedRollouts()
        self.models = PlayedModels()
        self.supplied: tuple[ScoredCase, ...] = ()
        self.refused: RefusedGolds | None = None
        self.unstored: tuple[ScoredProbe, ...] = ()
        self.by_rollouts = False
        """Whether whole rollouts, and not completions, are judged."""

    @property
    def single_replies(self) -> bool:
        """Whether a rollout is one reply, whose score costs little and depends on no other rollout."""
        return not (self.sparing or self.loaded.turns or self.grouped)

    async def trial(self) -> Trial:
        played_before = self.worker.rollouts_played
        if self.several:
            await side_effects.warm_other_process(self.worker)
        await self._calibrate()
        await self._play_solutions()
        await self._score_tasks()
        await self._play_models()
        await self.say("scoring cases, and completions again")
        await self._score_cases()
        await self._judge_by_rollouts()
        behaviour, other_process, compared = await self._score_elsewhere()
        if self._answers_are_scored and self.hacks and self.style is not None:
            stress = await score_stress(self.scorer, self.tried.heavy, self.style, self.tried.picked[0])
            self.scored_probes = (*self.scored_probes, *stress)
        if any(s.scored.has(ProblemCode.LEFT_PROCESSES) for s in (*self.golds, *self.scored_probes)):
            # The pool reuses workers, and the processes that scoring left behind would live on.
            await self.worker.close()
        judging, misread = await self._judge_use()
        return replace(
            self._result(),
            judging=judging,
            misread=misread,
            rollouts_played=self.worker.rollouts_played - played_before,
            side_effects=behaviour,
            other_process=(*other_process, *compared.other_process),
            witnessed=compared.witnessed,
        )

    @property
    def _answers_are_scored(self) -> bool:
        """Whether answers to example tasks were scored as completions, at no cost."""
        return bool(self.tried.picked) and not (self.by_rollouts or self.sparing)

    async def _calibrate(self) -> None:
        """Find out how completions state the gold, and place the caller's cases."""
        request, scorer, rows = self.request, self.scorer, self.rows
        if self.grouped:
            scorer.rest_of_group = {row.index: (assistant_message(IGNORANCE), assistant_message("")) for row in rows}
        found = await calibrate(scorer, rows, self.source, request.rendering, self.sparing)
        if request.rendering is None and not (found is not None and (found.mean or 0.0) > EPSILON):
            found = await _as_in_cases(scorer, found, rows, self.source, request.cases(None), self.sparing)
        self.sparing = self.sparing or (found is not None and asks_judge(self.loaded, (s for _, s in found.scored)))
        self.calibration = found
        self.stated = await self._unpaid_form(found)
        self.style = found.style if found is not None else None
        if self.style is not None and self.grouped:
            scorer.rest_of_group = group_by_task(self.style)
        self.probes, self.unmatched = place_cases(request.cases(self.style), rows, self.style)

    async def _unpaid_form(self, found: Calibration | None) -> StatedForm | None:
        """Return the caller's form of fields that the prompts ask for, if no gold earns anything in it, with the form
        that the reward pays instead."""
        rendering, rows = self.request.rendering, self.rows
        if rendering is None or not rendering.composed or found is None or (found.mean or 0.0) > EPSILON:
            return None
        if not rendering.is_asked_for(rows):
            return None
        other = None if self.sparing else await calibrate(self.scorer, rows, self.source)
        paid = other if other is not None and (other.mean or 0.0) > EPSILON else None
        dots = "\N{HORIZONTAL ELLIPSIS}"
        shown = "" if paid is None else paid.style.wrapper.wrap(paid.style.golds.template or dots)
        mean = 0.0 if paid is None else paid.mean or 0.0
        return StatedForm(rendering.template, shown, mean, tuple(code_patterns(self.source)))

    async def _play_solutions(self) -> None:
        """Play the solutions of tasks. If only they are paid, calibrate again with golds after their calls."""
        if not self.scorer.gave_up:
            if self.loaded.turns:
                await self.say("playing solutions, and parts of them")
            supplied = scripted_rollouts.supplied_solutions(self.probes)
            self.solved = await play_solutions(self.worker, self.loaded, self.rows, supplied)
        if self.solved.unread and self.request.rendering is None and not _earns_all(self.calibration):
            await self._calibrate_by_stated()
        paid = self.loaded.turns and not self.grouped and self.solved.best > EPSILON
        self.replaced = paid and not _as_good(self.calibration, self.solved)
        if self.replaced:
            self.calibration, self.rows = await _after_calls(
                self.scorer,
                self.solved,
                self.calibration,
                self.rows,
                self.source,
                self.request.rendering,
                self.sparing,
            )
            if self.calibration is not None and self.scorer.before:
                self.style = self.calibration.style

    async def _calibrate_by_stated(self) -> None:
        """Take the replies that tasks state as their solutions for the right ones, if they earn more than the golds."""
        found = await _stated_calibration(self.worker, self.scorer, self.rows, self.source)
        earned = self.calibration.mean or 0.0 if self.calibration is not None else 0.0
        if found is None or (found.mean or 0.0) <= earned + EPSILON:
            return
        self.calibration, self.style, self.solved = found, found.style, Solved()
        self.probes, self.unmatched = place_cases(self.request.cases(self.style), self.rows, self.style)
        if self.grouped:
            self.scorer.rest_of_group = group_by_task(self.style)

    async def _score_tasks(self) -> None:
        """Score golds and probes, programs where no answer is known, and what failed in an earlier trial."""
        calibration, scorer, rows = self.calibration, self.scorer, self.rows
        single = self.single_replies and not scorer.gave_up
        goldless = calibration is None and single
        tried = TaskScores(golds=_calibration_golds(calibration))
        if calibration is not None and calibration.mean is not None and (scorer.before or not self.replaced):
            tried = await score_tasks(
                scorer,
                calibration,
                rows,
                examples=self.request.examples,
                hacks=self.hacks,
                sparing=self.sparing,
                also={p.row for p in self.known_failures},
            )
        elif goldless:
            tried = TaskScores(scored_probes=await score_probes(scorer, goldless_probes(rows)))
        doubtful = calibration is not None and mean_share(calibration) < HALF_SHARE
        scored_probes = tried.scored_probes
        if self.hacks and (goldless or (doubtful and single and not scorer.gave_up)):
            scored_probes = (*scored_probes, *await score_programs(scorer, rows, self.source))
        if tried.picked and not scorer.gave_up:
            fresh = {(s.probe.row, s.probe.completion) for s in scored_probes}
            again = [p for p in self.known_failures if (p.row, p.completion) not in fresh]
            scored_probes = (*scored_probes, *await score_probes(scorer, again))
        self.tried, self.golds, self.scored_probes, self.repeats = tried, tried.golds, scored_probes, tried.repeats
        if scorer.before and self.style is not None and not (self.sparing or self.grouped or scorer.gave_up):
            self.refused = await find_refused_golds(self.worker, self.style, self.request.sample.rows)

    async def _play_models(self) -> None:
        """Play right, wrong and silent models, and then those that do not solve tasks (played_models.py)."""
        if self.loaded.turns:
            await self.say("playing right, wrong and silent models")
        if self.scorer.gave_up:
            return
        form = _named_form(self.rows, self.source)
        played = await scripted_rollouts.play_scripts(self.worker, self.loaded, self.style, self.rows, form)
        self.played = played
        if not self.loaded.turns or self.sparing or self.scorer.gave_up or played.broken or played.unavailable:
            return
        if self.solved.too_slow and played.deciding_script is None and not _earns_all(self.calibration):
            return  # Nothing right is known, and other rollouts would be as slow.
        rows = self.request.sample.rows
        stage = Stage(
            self.worker, rows, self.style, self.named, self.source, self.solved, played.rollouts, self.grouped
        )
        self.models = await play_models(stage, self.hacks, self.say)
        undecided = played.deciding_script is None and not self.replaced
        if self.hacks and self.style is not None and undecided and stage.tools:
            idle = await play_without_answer(self.worker, self.style, rows, stage.tools)
            self.played = replace(played, rollouts=(*played.rollouts, *idle))

    async def _score_cases(self) -> None:
        """Score the caller's cases, and completions that are made of them and of right answers."""
        scorer, rows, style, probes = self.scorer, self.rows, self.style, self.probes
        self.supplied = await _supplied(scorer, probes)
        if style is not None and style.golds.empty and not self.sparing and not scorer.gave_up:
            self.unstored = await score_probes(scorer, nothing_probes(style, self.request.sample.rows))
        if not (self.hacks and self.single_replies):
            return
        of_cases = failing_program_probes(probes)
        if style is None:
            of_cases += [*skeleton_probes(probes), *repeated_probes(probes), *crossed_probes(probes, rows)]
            of_cases += unchanged_probes(probes, rows)
        await self._score_more(of_cases)
        if scorer.gave_up:
            return
        right: list[tuple[Probe, Expected]] = []
        if style is not None:
            right = [(gold_probe(style, gold), "high") for gold in self.tried.picked]
        await self._score_more(
            [*equal_path_probes([*probes, *right], rows), *equal_order_probes([*probes, *right], rows)]
        )
        await self._score_more(entry_probes([*probes, *right], rows))
        await self._score_more(changed_probes(right, rows))
        stated = {gold.row for gold in style.golds.golds} if style is not None and self.tried.picked else set()
        known = [*(s.scored_probe for s in self.supplied), *self.tried.golds[:FEW_GOLDS]]
        related = await score_related(scorer, probes, right, stated, rows, known)
        self.scored_probes = (*self.scored_probes, *related)

    async def _score_more(self, probes: Sequence[Probe]) -> None:
        self.scored_probes = (*self.scored_probes, *await score_probes(self.scorer, probes))

    async def _judge_by_rollouts(self) -> None:
        """Take rollouts for golds and probes where only they are paid; else score partly right completions again."""
        played, scorer = self.played, self.scorer
        self.by_rollouts = self.replaced and not scorer.before
        if self.by_rollouts:
            self.golds, self.scored_probes = scripted_rollouts.solution_probes(self.solved, played)
        elif not self.replaced and played.deciding_script is not None:
            self.by_rollouts = True
            self.golds, self.scored_probes = scripted_rollouts.rollout_probes(played)
        self.repeats = () if self.by_rollouts else self.repeats
        if not (self.by_rollouts or self.sparing or self.grouped or scorer.gave_up):
            partly = await partly_right_again(scorer, self.scored_probes, self.supplied, self.repeats)
            self.repeats = (*self.repeats, *partly)

    async def _score_elsewhere(
        self,
    ) -> tuple[ObservedSideEffects | None, tuple[OtherProcessScore, ...], ComparedScores]:
        """Score completions at once, in other processes and by a witness. Cases with calls are played first."""
        worker, scorer, supplied, witness = self.worker, self.scorer, self.supplied, self.request.witness
        scored_cases = {id(s) for s in supplied}
        if supplied and self.played.stateful and (self.by_rollouts or not any(s.reward for s in self.golds)):
            supplied = await scripted_rollouts.replay_cases(worker, supplied)
            witness = None
        elif self.loaded.turns:
            supplied = await scripted_rollouts.replay_calls(worker, supplied)
        self.supplied = supplied
        # The reward of a case that was played belongs to its rollout. Alone, the case earns something else.
        scored_alone = [s.scored_probe for s in supplied if id(s) in scored_cases]
        known = [] if self.by_rollouts else [*self.scored_probes, *scored_alone]
        alive = bool(known) and not scorer.faulty and not self.sparing
        behaviour = await side_effects.observe_side_effects(worker, known) if alive else None
        other_process: tuple[OtherProcessScore, ...] = ()
        if alive and not self.grouped and (self.several or self.loaded.seconds < _RELOAD_SECONDS):
            seeds = OTHER_SEEDS if self.several else (None,)
            other_process = await side_effects.score_in_other_processes(worker, known, self.repeats, seeds)
        compared = ComparedScores(Witnessed(skipped=_JUDGED if self.sparing else _PLAYED))
        if witness is not None and not self.sparing and not self.by_rollouts:
            golds, rows = known or self.golds, self.request.sample.rows
            compared = await compare_with_witness(witness, scorer, golds, self.repeats, rows)
        return behaviour, other_process, compared

    async def _judge_use(self) -> tuple[JudgeUse | None, MisreadVerdict | None]:
        """Return which judges were asked, and a verdict that the reward misreads."""
        scored = [*self.golds, *self.scored_probes, *(s.scored_probe for s in self.supplied)]
        stated = f"{self.source}\n{self.request.arguments}"
        judging = judge_use(self.loaded, scored, stated, self.request.relay)
        if judging is None or self.grouped:
            return judging, None
        return judging, await find_misread_verdict(self.worker, self.style, self.request.sample.rows)

    def _result(self) -> Trial:
        """Return the trial with all that was observed so far."""
        calibration, style, scorer, models = self.calibration, self.style, self.scorer, self.models
        rows, played, loaded = self.request.sample.rows, self.played, self.loaded
        asked = prompts_and_systems(rows)
        of_solutions = solution_maxima(self.solved) if self.by_rollouts else {}
        return Trial(
            rewards=tuple(loaded.rewards),
            style=style,
            form_requested=calibration is not None and calibration.requested,
            golds=self.golds,
            scored_probes=self.scored_probes,
            repeats=self.repeats,
            supplied=self.supplied,
            unstored=self.unstored,
            unmatched=tuple(self.unmatched),
            faults=tuple(_scored_probe(case, scored) for case, scored in (*scorer.faulty, *scorer.slow)),
            rollouts=played.rollouts,
            no_rollouts=played.unavailable,
            no_rollouts_by_design=played.by_design,
            rollouts_broke=played.broken,
            by_rollouts=self.by_rollouts,
            refused=self.refused,
            solved=self.solved,
            replays=models.replays,
            lasting=models.lasting,
            mixed=models.mixed,
            answer_key=models.answer_key,
            capped=models.capped,
            emptied=models.emptied,
            copying=models.copying,
            shortcuts=models.shortcuts,
            commands=models.commands,
            thoughtless=models.thoughtless,
            walk=models.walk,
            parts=models.parts,
            accepted=models.accepted,
            classes=classes_without_name(rows, style.golds) if style is not None else (),
            unnamed=_unnamed_golds(style, rows),
            asked=whole_prompt(rows[0]) if rows else "",
            systems="\n".join(message_text(m) for m in rows[0].prompt if m.get("role") == "system"),
            shown_tests=find_shown_tests(rows, self.source) if self.hacks else None,
            hinted=first_reply_in_prompts(self.solved, rows),
            after_calls=bool(scorer.before),
            interactive=loaded.turns,
            api=loaded.api,
            task_class=loaded.task_class,
            gave_up=scorer.gave_up,
            tasks=self.request.sample.total,
            stated=self.stated if not any(s.reward for s in self.golds) else None,
            fields=tuple(known_fields(rows)),
            answer_left_out=_answer_left_out(self.request.rendering, rows),
            renderings=calibration.tried if calibration is not None else 0,
            prompted=_prompted(calibration),
            form_unmentioned=calibration is not None and calibration.unmentioned,
            listed_in_prompts=style is not None and _listed_in_prompts(style, rows),
            answer_last=answer_comes_last(*asked),
            answer_alone=answer_comes_alone(*asked),
            levels={**task_maxima(self.golds, self.scored_probes), **of_solutions},
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
