"""Scores probes in growing portions, so that a reward that hangs or ends its process is noticed after seconds.

Stress probes come last, because each may take many seconds: completions that make a regular expression backtrack, a
program that leaves a process behind, and a program that never ends. The worker limits the slow cases of one request in
addition (worker/child/request_loop.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from prime_lab_mcp.lab.datasets.task_golds import TaskGold
from prime_lab_mcp.lab.rewards.observations import ScoredProbe
from prime_lab_mcp.lab.rewards.probes import programs
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.worker.description import Message
from prime_lab_mcp.lab.worker.faults import NOT_RUN, ProblemCode
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Case, CaseError, Scored

FATAL_ERRORS = frozenset(
    {
        ProblemCode.TIMEOUT,
        ProblemCode.EXITED,
        ProblemCode.FLOOD,
        ProblemCode.MEMORY,
        ProblemCode.NONSENSE,
    }
)
"""Problems that each cost seconds, because the process hangs or has to be started again."""
PATIENCE = 3
"""Number of cases with a fatal error after which scoring stops, because more would add no information."""
SLOW_MS = 1000.0
"""Time for scoring one completion above which a reward slows down training (docs/validation.md, Reward tests)."""
VERY_SLOW_MS = 2000.0
"""Time for scoring one completion above which this time counts towards `SPENT_MS`."""
SLOW_ONCE = 10
"""Number of slow cases that are scored a second time (our choice: a busy machine slows a few of some hundred)."""
SPENT_MS = 60_000.0
"""Total time for cases slower than `VERY_SLOW_MS` after which scoring stops."""
_WAITED_MS = 1000.0
"""Time after which an unreachable judge counts as a costly wait."""
_PORTIONS = (1, 2, 16, 64)
"""Numbers of cases in the first requests to the worker."""


def _costs(scored: Scored) -> bool:
    """Whether a case hung, broke the worker's process, or waited for a judge that could not be reached."""
    waited = scored.has(ProblemCode.JUDGE_UNREACHABLE) and scored.ms > _WAITED_MS
    return waited or scored.has(*FATAL_ERRORS)


class Scorer:
    """Scores the cases of one trial, and stops after too many of them hung, broke the process or were slow."""

    def __init__(self, worker: Worker, *, case_timeout: float = 5) -> None:
        self.worker = worker
        self.case_timeout = case_timeout
        self.rest_of_group: Mapping[int, Sequence[Sequence[Message]]] = {}
        """Maps a task to the other completions of the group that a group reward receives."""
        self.before: Mapping[int, tuple[Message, ...]] = {}
        """Maps a task to the messages that precede every completion: the tool calls of its solution with the
        results."""
        self.faulty: list[tuple[Case, Scored]] = []
        """Every case that hung or broke the process, including those of the calibration."""
        self.slow: list[tuple[Case, Scored]] = []
        """Every case that took more than `VERY_SLOW_MS` without a judge, including those of the calibration."""
        self._left_out = False
        self._hangs = False
        self._slow_twice = False
        self._slow_once = 0

    @property
    def gave_up(self) -> bool:
        """Whether scoring has stopped, because too many cases hung, broke the process or were slow."""
        return self._left_out or len(self.faulty) >= PATIENCE or sum(s.ms for _, s in self.slow) >= SPENT_MS

    def prepared(self, probe: Probe) -> Probe:
        """Return the probe with the messages of `before` in front of its completion."""
        before = self.before.get(probe.row, ())
        return replace(probe, messages=(*before, *probe.messages), given=len(before)) if not probe.given else probe

    def _prepared_case(self, case: Case) -> Case:
        """Return the case with the messages of `before` and the group of `rest_of_group`."""
        before = self.before.get(case.row, ())
        if before and tuple(case.messages[: len(before)]) != before:
            case = replace(case, messages=(*before, *case.messages))
        return replace(case, rest_of_group=self.rest_of_group[case.row]) if case.row in self.rest_of_group else case

    async def score(self, cases: Sequence[Case], *, patience: int | None = None) -> list[Scored]:
        """Score cases, and return one result for each case, in order.

        A case that was left out has the problem `NOT_RUN`. With `patience`, cases are scored one at a time until that
        many of them hung or broke the process.
        """
        cases = [self._prepared_case(case) for case in cases]
        done: list[Scored] = []
        portion = 0
        enough = None if patience is None else len(self.faulty) + patience
        while len(done) < len(cases) and not self.gave_up and (enough is None or len(self.faulty) < enough):
            careful = portion < 3 or self.slow
            size = _PORTIONS[min(portion, len(_PORTIONS) - 1)] if careful else len(cases)
            asked = cases[len(done) : len(done) + (1 if self.faulty or enough is not None else size)]
            results = await self.worker.score(asked, case_timeout=self.case_timeout)
            results = [await self._timed_again(c, s) for c, s in zip(asked, results, strict=True)]
            self.faulty += [(c, s) for c, s in zip(asked, results, strict=True) if _costs(s)]
            self.slow += [(c, s) for c, s in zip(asked, results, strict=True) if s.ms > VERY_SLOW_MS and not s.judges]
            self._left_out = self._left_out or any(s.has(ProblemCode.NOT_RUN) for s in results)
            done += results
            portion += 1
        error = CaseError("not-run", "earlier cases hung, ended their process or took too long", "")
        return done + [Scored(case.id, None, errors=(error,), problems=NOT_RUN) for case in cases[len(done) :]]

    async def _timed_again(self, case: Case, scored: Scored) -> Scored:
        """Score a case again if it was slow or exceeded the time limit; after a timeout with a longer limit.

        The first scoring in a process may import modules or load a model, which takes long only once. If the second
        scoring is slow as well, the longer time limit stays, and the case is scored a third time. Once a case hangs
        with the longer limit too, later cases are not scored again.
        """
        if scored.ms > SLOW_MS and not scored.judges and not scored.has(*FATAL_ERRORS, ProblemCode.NOT_RUN):
            return await self._shorter_of_two(case, scored)
        if not scored.has(ProblemCode.TIMEOUT) or self._hangs or self.case_timeout >= SETUP_SECONDS:
            return scored
        limit = STRESS_SECONDS if _holds_program(case) else SETUP_SECONDS
        (patient,) = await self.worker.score([case], case_timeout=limit)
        if patient.has(*FATAL_ERRORS):
            self._hangs = True
            return scored
        if patient.ms <= 1000 * self.case_timeout:
            return patient
        if limit > SETUP_SECONDS:
            return patient  # A program that never ends was stopped in time; it says nothing about other completions.
        self.case_timeout = SETUP_SECONDS
        (again,) = await self.worker.score([case], case_timeout=SETUP_SECONDS)
        return again

    async def _shorter_of_two(self, case: Case, scored: Scored) -> Scored:
        """Score a slow case again, and return its result with the shorter of the two times.

        A fast reward is sometimes slow on a busy machine. If a case is slow twice, the reward is slow, and later cases
        are not scored again. They are not scored again either after `SLOW_ONCE` cases: a reward with a cache is fast
        only for completions that it has scored before.
        """
        if self._slow_twice or self._slow_once >= SLOW_ONCE:
            return scored
        self._slow_once += 1
        (again,) = await self.worker.score([case], case_timeout=self.case_timeout)
        if again.has(*FATAL_ERRORS) or again.ms > SLOW_MS:
            self._slow_twice = True
        return replace(scored, ms=min(scored.ms, again.ms)) if not again.has(*FATAL_ERRORS) else scored


SETUP_SECONDS = 15.0
"""Time limit for a completion that exceeded the usual time limit, in seconds."""
STRESS_SECONDS = 30.0
"""Seconds within which a reward must stop a program that never ends (docs/validation.md, Reward tests)."""
_VARIANTS = {Family.LEAVES_PROCESS: "leaves a process", Family.NEVER_ENDS: "never ends"}
_ENDLESS = "while True:\n    pass"


def _holds_program(case: Case) -> bool:
    """Whether the last message of a completion has a block of code, which the reward may run until its own limit."""
    return "```" in str(case.messages[-1].get("content") or "") if case.messages else False


def is_stress(probe: Probe) -> bool:
    """Whether a probe is made to be slow."""
    return probe.family is Family.BACKTRACKING


async def score_probes(scorer: Scorer, probes: Sequence[Probe]) -> tuple[ScoredProbe, ...]:
    """Score probes, and return them with their scores in the same order."""
    probes = [scorer.prepared(p) for p in probes]
    scored = await scorer.score([p.case for p in probes])
    return tuple(ScoredProbe(p, s) for p, s in zip(probes, scored, strict=True))


async def score_stress(
    scorer: Scorer, heavy: Sequence[Probe], style: AnswerStyle, gold: TaskGold
) -> tuple[ScoredProbe, ...]:
    """Score the stress probes `heavy` until one of them hangs.

    If golds are programs and none hung, also score a program that leaves a process behind and one that never ends, for
    the task of `gold`.
    """
    scored_probes: list[ScoredProbe] = []
    if not scorer.gave_up:
        heavy = [scorer.prepared(probe) for probe in heavy]
        for probe, scored in zip(heavy, await scorer.score([p.case for p in heavy], patience=1), strict=True):
            scored_probes.append(ScoredProbe(probe, scored))
    if not style.programs or scorer.faulty:
        return tuple(scored_probes)
    last = (
        (Family.LEAVES_PROCESS, programs.program_that_leaves_process(style.answer_text(gold))),
        (Family.NEVER_ENDS, _ENDLESS),
    )
    for family, program in last:
        draft = Draft(family, style.wrapper.wrap(program), _VARIANTS[family])
        probe = scorer.prepared(draft.probe(f"{gold.row}/{family}", gold.row))
        (scored,) = await scorer.worker.score([probe.case], case_timeout=STRESS_SECONDS)
        scored_probes.append(ScoredProbe(probe, scored))
        if _inside(scored):
            break
    return tuple(scored_probes)


def _inside(scored: Scored) -> bool:
    """Whether a program ran in the reward's own process or broke it. An endless program would then hang the reward."""
    return scored.has(ProblemCode.EVALUATED_OUTPUT, *FATAL_ERRORS)
