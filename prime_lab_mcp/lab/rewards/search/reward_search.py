"""Runs the search on a loaded environment: chooses tasks, scores completions with the worker, and judges finds.

The search scores completions by the same request to the worker as probes. The loop runs in the server, and only the
observer of branches runs in the environment's process.
"""

from __future__ import annotations

import math
import random
import re
import statistics
import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets.task_golds import SampleGolds, TaskGold
from prime_lab_mcp.lab.rewards.calibration import instruction_texts
from prime_lab_mcp.lab.rewards.observations import (
    HeldOutVerdict,
    Hole,
    ScoredProbe,
    SearchOutcome,
    Trial,
    differs_on_repeat,
)
from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE, requested_wrappers
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, Draft, assistant_message
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.probes.programs import output_markers
from prime_lab_mcp.lab.rewards.probes.wrong_answers import as_number, clearly_wrong_answer
from prime_lab_mcp.lab.rewards.reward_source import rewarded_words
from prime_lab_mcp.lab.rewards.rules.amounts import earned_in_full, gold_is_understood
from prime_lab_mcp.lab.rewards.scorer import FATAL_ERRORS, Scorer
from prime_lab_mcp.lab.rewards.search.attacker import ROUNDS, Attacker
from prime_lab_mcp.lab.rewards.search.guided import SEED, GuidedSearch, Limits, Payment, Tried
from prime_lab_mcp.lab.rewards.search.held_out import (
    CHECKS,
    FEWEST,
    ConstantAnswers,
    judge_find,
    judge_without_golds,
)
from prime_lab_mcp.lab.rewards.search.recipes import Recipe, SearchTask, search_task
from prime_lab_mcp.lab.rewards.search.vocabulary import build_vocabulary
from prime_lab_mcp.lab.rewards.trivial_policy import deserved_share
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.faults import ProblemCode
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Case, Scored

DEFAULT_SECONDS = 10
"""The default time limit of a search in seconds. A trial with a shorter search is not evidence for a gate."""
_REMEMBERED = 64
"""Number of outcomes that are remembered."""
TURNED_OFF = "searches are turned off here"
"""The reason for skipping a search if no completions are allowed (`MOST_COMPLETIONS` is 0)."""
SEARCHED, HELD_OUT = 6, 24
"""Largest numbers of tasks on which the search scores completions, and on which its finds are judged."""
MOST_COMPLETIONS = 2_400
"""Largest number of completions of a search, without those for shrinking and judging. 0 turns off all searches."""
_FEWEST_COMPLETIONS = 80
"""Number of completions that must be affordable; otherwise the search is skipped."""
_CASE_SECONDS = 2.0
"""Time limit in seconds for scoring one completion."""
_CONSTANTS = 8
"""Largest number of constant answers that are scored on the held-out tasks."""
_PORTION = 64
"""Largest number of completions in one request to the worker."""
_SEARCHING = 0.75
"""Share of the time limit for the search itself. The rest is for judging finds."""
_JUDGING_SECONDS = 2.0
"""Time for scoring constant answers. A slow reward scores fewer of them, but at least `_FEWEST_CONSTANTS`."""
_FEWEST_CONSTANTS = 3
_FIRST_PORTION, _CAREFUL = 8, 400
"""Largest number of completions in a request, for the first 400 completions. Several completions of one request may
hang before the search notices."""
_PORTION_SECONDS = 0.5
"""Time in seconds that one request to the worker should take, estimated from the preceding requests."""
_SHORT = 60
"""Longest answer in the list of other tasks' answers, in characters."""
_MOST_PROBES = 3
"""Number of completions that a hole shows."""
_MOST_SHOWN = 8
"""Largest number of recipes whose rewards the attacker is shown."""
_PROPOSAL_SECONDS = 4.0
"""Time in seconds for trying the proposals of each reply of the attacker after the first."""
_EDGES = re.compile(r"^[\s.\"'`$]+|[\s.\"'`$]+$")


def not_searched(trial: Trial, seconds: float) -> str:
    """Return the reason why a search of this reward is pointless or impossible; empty if it can be run.

    `seconds` is the time limit of the search.
    """
    if MOST_COMPLETIONS <= 0:
        return TURNED_OFF
    if seconds <= 0:
        return "it was not asked for (search=0)"
    if trial.judging is not None:
        return "a judge scores the completions, and a search never asks one"
    if trial.by_rollouts and trial.solved.scored:
        return (
            "only whole rollouts earn this reward, and a search scores single replies; turns of the solutions were "
            "played again, with other numbers and in other games, and what another strategy earns is not known"
        )
    if trial.goldless and (trial.interactive or trial.solved.scored or not _declared(trial)):
        return "no right answer is known, so what a completion deserves is not known either"
    if trial.by_rollouts or trial.after_calls:
        return "only whole rollouts earn this reward, and a search never calls tools"
    if any(reward.kind == "group" for reward in trial.rewards):
        return "a group reward compares the rollouts of a task"
    if trial.gave_up or trial.with_problem(*FATAL_ERRORS):
        return "completions hung or ended the process of the reward"
    if trial.with_problem(ProblemCode.CONFINED):
        return "the confinement refused something that the reward needs"
    if any(differs_on_repeat(repeat) for repeat in trial.repeats):
        return "the reward pays the same completion differently each time"
    if not trial.goldless and not gold_is_understood(trial):
        return "what was taken for the gold answer is not paid, so what a completion deserves is not known"
    took = median_ms(trial)
    if took * _FEWEST_COMPLETIONS > seconds * 1000:
        return f"scoring one completion takes {took:.0f} ms, too long for {_FEWEST_COMPLETIONS} in {seconds:g} s"
    return ""


def _declared(trial: Trial) -> bool:
    """Whether the environment declares a reward with a positive weight."""
    return any(reward.kind != "metric" and reward.weight > 0 for reward in trial.rewards)


def goldless_style(rows: Sequence[Row], source: str) -> AnswerStyle:
    """Return the style of answers to tasks without golds: the first form that the prompts or the code name."""
    forms = requested_wrappers(instruction_texts(rows), source) or [BARE]
    return AnswerStyle(
        SampleGolds("", "free_text", (), ()), 0, forms[0], output_markers(source), rewarded_words(source)
    )


def median_ms(trial: Trial) -> float:
    """Return the median time for scoring one completion, in milliseconds; 0 without a scored completion."""
    times = [s.scored.ms for s in trial.everything if not s.scored.has(ProblemCode.NOT_RUN)]
    return statistics.median(times) if times else 0.0


@dataclass(frozen=True, slots=True)
class _Tasks:
    """The tasks on which a search scores completions, and the held-out tasks on which its finds are judged."""

    searched: tuple[SearchTask, ...]
    held_out: tuple[SearchTask, ...]


def choose_tasks(trial: Trial, rows: Sequence[Row], seed: int = SEED) -> _Tasks:
    """Choose tasks at random among those whose right answer is paid in full, or among all if they have no golds.

    At most `SEARCHED` of them are searched and at most `HELD_OUT` others are held out.
    """
    style = trial.style
    paid = {s.probe.row for s in trial.golds if earned_in_full(s, trial)}
    paid = {row.index for row in rows} if trial.goldless else paid
    golds = {} if style is None else {gold.row: style.answer_text(gold) for gold in style.golds.golds}
    counts = Counter(answer for answer in golds.values() if len(answer) <= _SHORT)

    def others(row: int) -> tuple[str, ...]:
        """Return the short answers of other tasks. A task's own answer is included if another task has it as well."""
        return tuple(answer for answer, times in counts.items() if times - (golds.get(row) == answer) > 0)

    able = [search_task(row, others(row.index)) for row in rows if row.index in paid]
    random.Random(seed).shuffle(able)
    number = min(SEARCHED, max(2, len(able) // 3))
    return _Tasks(tuple(able[:number]), tuple(able[number : number + HELD_OUT]))


async def search_reward(
    worker: Worker,
    trial: Trial,
    rows: Sequence[Row],
    source: str,
    seconds: float,
    *,
    probes: bool = True,
    attacker: Attacker | None = None,
) -> SearchOutcome:
    """Search for completions that are paid without an answer, for about `seconds` at most.

    With `probes`, the search begins with the trial's probes as well. `attacker` proposes completions; the time for its
    replies does not count.
    """
    skipped = not_searched(trial, seconds)
    if skipped:
        return SearchOutcome(skipped=skipped)
    tasks = choose_tasks(trial, rows)
    if len(tasks.searched) < 2 or len(tasks.held_out) < FEWEST:
        number = len(tasks.searched) + len(tasks.held_out)
        return SearchOutcome(skipped=f"only {number} tasks with a paid gold answer; {2 + FEWEST} are needed")
    style = goldless_style(rows, source) if trial.style is None or trial.goldless else trial.style
    return await _Search(worker, trial, style, tasks, attacker).run(source, seconds, probes)


class _Search:
    """One search on a loaded environment."""

    def __init__(
        self, worker: Worker, trial: Trial, style: AnswerStyle, tasks: _Tasks, attacker: Attacker | None
    ) -> None:
        self.worker, self.trial, self.style, self.tasks = worker, trial, style, tasks
        self.attacker = attacker
        self.golds = {gold.row: gold for gold in style.golds.golds}
        self.constants: ConstantAnswers | None = None
        _numbers[0] += 1
        self.number = _numbers[0]
        self.stop = ""
        self.fatal: Case | None = None
        self.each = median_ms(trial) / 1000
        self.deadline = math.inf
        self.scored = 0
        self.asking = 0.0
        """Seconds that the search has waited for replies of the attacker."""

    async def run(self, source: str, seconds: float, probes: bool) -> SearchOutcome:
        """Run the search. `source` is the environment's code; with `probes`, the trial's probes are first recipes."""
        vocabulary = build_vocabulary(
            source,
            self.style,
            self.tasks.searched,
            self._answers(),
            [s.probe for s in self.trial.scored_probes] if probes else (),
        )
        limits = Limits(_SEARCHING * seconds, MOST_COMPLETIONS)
        search = GuidedSearch(self._score, vocabulary, self.tasks.searched, limits)
        try:
            holes = await self._rounds(search, source, _SEARCHING * seconds)
            ended = "a hole was found" if holes else self.stop or search.stop or "finds that did not hold"
        except LabError as error:
            return SearchOutcome(skipped=f"the process of the reward broke ({error.code})")
        took = search.seconds - self.asking
        return SearchOutcome(
            faults=await self._faults(),
            ended=ended,
            holes=tuple(holes),
            completions=search.completions,
            seconds=took,
            signals=search.branches,
            tasks=len(self.tasks.searched),
            held_out=len(self.tasks.held_out),
            seed=search.seed,
            attacker=None if self.attacker is None else self.attacker.outcome,
        )

    async def _rounds(self, search: GuidedSearch, source: str, seconds: float) -> list[Hole]:
        """Search in rounds until a hole is found. Before each round, the attacker (if there is one) proposes
        recipes."""
        if self.attacker is not None:
            search.propose(await self.attacker.propose(source, self.tasks.searched, ()))
        self.deadline = time.monotonic() + seconds
        holes, checks = await self._searched(search, CHECKS)
        for _ in range(ROUNDS - 1 if self.attacker is not None else 0):
            if holes or self.stop or self.attacker is None:
                break
            asked = time.monotonic()
            proposals = await self.attacker.propose(source, self.tasks.searched, search.best[:_MOST_SHOWN])
            if not proposals:
                break
            self.deadline = time.monotonic() + _PROPOSAL_SECONDS
            self.asking += time.monotonic() - asked
            search.propose(proposals, _PROPOSAL_SECONDS)
            holes, checks = await self._searched(search, checks)
        return holes

    async def _searched(self, search: GuidedSearch, checks: int) -> tuple[list[Hole], int]:
        """Search until a find is a hole or the search ends.

        `checks` is the number of finds that may be judged. Returns the holes, and the number of finds that may still be
        judged.
        """
        holes: list[Hole] = []
        while checks and not holes:
            tried = await search.run()
            if tried is None:
                break
            checks -= 1
            holes += await self._check(search, tried)
        for tried in search.candidates if not holes and not self.stop else ():
            if checks and _promising(tried):
                checks -= 1
                holes += await self._check(search, tried)
            if holes:
                break
        return holes, checks

    async def _faults(self) -> tuple[ScoredProbe, ...]:
        """Return the completion that hung or broke the process, if it does so again with the time limit of probes."""
        if self.fatal is None:
            return ()
        (scored,) = await Scorer(self.worker).score([self.fatal])
        text = str(self.fatal.messages[0]["content"])
        probe = Draft(Family.SEARCHED, text).probe(f"search/{self.number}/fault", self.fatal.row)
        return (ScoredProbe(probe, scored),) if scored.has(*FATAL_ERRORS) else ()

    def _answers(self) -> list[str]:
        """Return answers for the first recipes: frequent answers, the answers of the searched tasks, and wrong answers.

        Answers of held-out tasks are left out.
        """
        text = self.style.answer_text
        common = Counter(text(gold) for gold in self.style.golds.golds if gold.row not in self._held_rows)
        own = [self.golds[task.row] for task in self.tasks.searched if task.row in self.golds]
        wrong = [clearly_wrong_answer(self.style.golds, gold, self.style.form) for gold in own[:3]]
        return [*(answer for answer, times in common.most_common(4) if times > 1), *map(text, own), *wrong]

    @property
    def _held_rows(self) -> frozenset[int]:
        return frozenset(task.row for task in self.tasks.held_out)

    async def _check(self, search: GuidedSearch, tried: Tried) -> list[Hole]:
        """Shrink a find and judge it on the held-out tasks. A find that is not a hole is rejected."""
        small = await search.shrink(tried)
        verdict, scored_probes = await self._judged(small.recipe)
        if not verdict.counts and small.recipe != tried.recipe:
            verdict, scored_probes = await self._judged(tried.recipe)
            small = tried
        if not verdict.counts:
            search.reject(tried)
            return []
        best = sorted(
            scored_probes, key=lambda scored_probe: -self._share(scored_probe.reward, scored_probe.probe.row)
        )[:_MOST_PROBES]
        return [Hole(str(small.recipe), tried.recipe.steps, verdict, tuple(best), tried.number)]

    async def _judged(self, recipe: Recipe) -> tuple[HeldOutVerdict, list[ScoredProbe]]:
        """Score a recipe on the held-out tasks, and return the verdict with its scored completions."""
        texts = [recipe.render(task) for task in self.tasks.held_out]
        rows = [task.row for task in self.tasks.held_out]
        scored_probes = await self._scored_probes(list(zip(rows, texts, strict=True)))
        shares = [
            0.0 if self._states_answer(text, row) else self._share(scored_probe.reward, row)
            for scored_probe, row, text in zip(scored_probes, rows, texts, strict=True)
        ]
        if self.trial.goldless:
            return judge_without_golds(shares, constant=recipe.constant), scored_probes
        if self.constants is None:
            self.constants = await self._constant_answers()
        return judge_find(shares, self.constants), scored_probes

    async def _constant_answers(self) -> ConstantAnswers:
        """Score the most frequent answers of all tasks on the held-out tasks."""
        text, rows = self.style.answer_text, [task.row for task in self.tasks.held_out]
        counts = Counter(text(gold) for gold in self.style.golds.golds)
        affordable = int(_JUDGING_SECONDS / max(self.each * len(rows), 0.001))
        number = max(_FEWEST_CONSTANTS, min(_CONSTANTS, affordable))
        answers = [answer for answer, _ in counts.most_common(number)]
        scored_probes = await self._scored_probes(
            [(row, self.style.wrapper.wrap(answer)) for answer in answers for row in rows]
        )
        shares = [self._share(scored_probe.reward, scored_probe.probe.row) for scored_probe in scored_probes]
        width = len(rows)
        return ConstantAnswers(
            tuple(tuple(shares[n * width : (n + 1) * width]) for n in range(len(answers))),
            tuple(tuple(_same(answer, self.golds[row]) for row in rows) for answer in answers),
            deserved_share(self.trial, rows),
        )

    async def _scored_probes(self, wanted: Sequence[tuple[int, str]]) -> list[ScoredProbe]:
        """Score pairs (task, completion)."""
        probes = [
            Draft(Family.SEARCHED, text).probe(f"search/{self.number}/{number}", row)
            for number, (row, text) in enumerate(wanted)
        ]
        scored: list[Scored] = []
        for start in range(0, len(probes), _PORTION):
            portion = [probe.case for probe in probes[start : start + _PORTION]]
            scored += await self.worker.score(portion, case_timeout=_CASE_SECONDS)
        return [ScoredProbe(probe, s) for probe, s in zip(probes, scored, strict=True)]

    async def _score(self, wanted: Sequence[tuple[Recipe, SearchTask]]) -> list[Payment]:
        """Score recipes on tasks in portions, until the deadline or a reason to stop."""
        paid: list[Payment] = []
        while len(paid) < len(wanted):
            size = int(_PORTION_SECONDS / max(self.each, 0.001))
            most = _PORTION if self.scored >= _CAREFUL else _FIRST_PORTION
            portion = wanted[len(paid) : len(paid) + max(1, min(size, most))]
            started = time.monotonic()
            texts = [recipe.render(task) for recipe, task in portion]
            cases = [
                Case(f"search/{n}", task.row, assistant_message(text))
                for n, ((_, task), text) in enumerate(zip(portion, texts, strict=True))
            ]
            scored = await self.worker.score(cases, case_timeout=_CASE_SECONDS, search=self.number)
            paid += [self._payment(text, case.row, s) for text, case, s in zip(texts, cases, scored, strict=True)]
            self.scored += len(portion)
            self.each = max((time.monotonic() - started) / len(portion), self.each / 2)
            if self.stop or time.monotonic() > self.deadline:
                break
        return paid

    def _payment(self, text: str, row: int, scored: Scored) -> Payment:
        """Return the payment of a completion. A hang or a question to a judge stops the search."""
        if scored.has(*FATAL_ERRORS):
            self.fatal = Case("search/fault", row, assistant_message(text))
            self.stop = f"a completion hung or ended the process: {quote(text, 120)}"
        elif scored.judges or scored.has(ProblemCode.JUDGE_UNREACHABLE):
            self.stop = "a judge was asked"
        levels = (
            f"{name}={round(20 * part.score)}" for name, part in scored.components.items() if part.score is not None
        )
        share = 0.0 if self._states_answer(text, row) else self._share(scored.reward, row)
        return Payment(share, (*scored.branches, *levels), self.stop)

    def _share(self, reward: float | None, row: int) -> float:
        """Return a reward as a share of the maximum of its task, from 0 to 1."""
        maximum = self.trial.declared if self.trial.goldless else self.trial.maximum(row)
        return 0.0 if reward is None or maximum <= 0 else max(0.0, min(1.0, reward / maximum))

    def _states_answer(self, text: str, row: int) -> bool:
        """Whether a completion is by chance the right answer of its task and nothing else."""
        wrapper = self.style.wrapper
        inner = text.removeprefix(wrapper.lead).strip()
        if wrapper.open and inner.startswith(wrapper.open):
            inner = inner.removeprefix(wrapper.open).partition(wrapper.close)[0] if wrapper.close else inner
        inner = inner.removeprefix(wrapper.open)
        return row in self.golds and _same(inner, self.golds[row])


_numbers = [0]
"""Number of the latest search in this process."""


_PROMISING = 0.3
"""Share from which on a find is judged: what a find must exceed is `FORM` of held_out.py, or a margin above chance."""


def _promising(tried: Tried) -> bool:
    """Whether a recipe is paid on enough tasks, or enough on average, to be judged on the held-out tasks."""
    return tried.full >= _PROMISING or tried.mean > _PROMISING


def _same(text: str, gold: TaskGold) -> bool:
    """Whether a text is the gold. Case, quotes and the spelling of a number do not matter."""
    answer = _EDGES.sub("", text).casefold()
    number = as_number(answer)
    for form in gold.forms:
        if answer == _EDGES.sub("", form).casefold() or (number is not None and number == as_number(form)):
            return True
    return False


class RememberedSearches:
    """Remembers the outcomes of searches, because a search with the same inputs would have the same outcome.

    The key is made of the source, arguments, installed packages and time limit.
    """

    def __init__(self) -> None:
        self._outcomes: OrderedDict[str, SearchOutcome] = OrderedDict()

    def get(self, key: str) -> SearchOutcome | None:
        """Return the outcome of an earlier search, marked as remembered; None if there is none."""
        known = self._outcomes.get(key)
        return None if known is None else replace(known, remembered=True)

    def put(self, key: str, outcome: SearchOutcome) -> None:
        """Remember the outcome of a search that was run. Only the latest 64 outcomes are remembered."""
        if not outcome.skipped:
            self._outcomes[key] = outcome
            while len(self._outcomes) > _REMEMBERED:
                self._outcomes.popitem(last=False)
