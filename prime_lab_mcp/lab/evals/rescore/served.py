"""Compares the rewards of an evaluation's own rollouts with those of processes that are built like training's.

Training scores replies of a model in the env server of verifiers (0.4.0, `verifiers.v1.serve.server`), which rebuilds
each task from its data and never calls `load()`. Code that knows the env server by that could pay honestly in every
other process. So a witness (lab/worker/witness.py), which is built that way, scores stored rollouts again. Where tools,
turns or the environment's own `Env` take part, stored replies are also played in a process that loaded the environment
and in one that did not.

The replies are the evaluation's own: an even sample, and the longest and shortest replies among those that earned most
and least, because code may pay only replies of a kind that no probe of `test_reward` has.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.evals.rescore.checks import stored_replay
from prime_lab_mcp.lab.evals.rescore.scoring import CASE_SECONDS, Scoring
from prime_lab_mcp.lab.evals.rescore.stored import StoredRecord
from prime_lab_mcp.lab.rewards.thresholds import same_reward
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Case, RequestedRollout, RolloutResult, Rollouts, Scored
from prime_lab_mcp.lab.worker.witness import SHIFTS, Witness, WitnessedScore

EXTREMES = 24
"""Largest number of rollouts beside the even sample (our choice: six of each kind)."""
EXTREMES_MS = 5_000.0
"""Milliseconds that scoring the even sample may take for the others to be scored too."""
STEADY = 2
"""Rollouts that must differ for a blocker, where no score varies by itself (one may be a matter of a time limit)."""
_QUICK_MS = 500.0
"""Milliseconds of a scoring beyond which a time limit may explain a difference (the shortest that rewards set is 1 s).
"""
REPLAYED = 6
"""Number of stored conversations that are played again."""
_REPLAY_SECONDS = 20.0
RARELY = 0.005
"""Probability below which a difference between stored and new rewards is not attributed to chance."""
Scores = Mapping[str, float | None]
"""The scores of a rollout: the reward under the empty name, and each component under its name."""
Triple = tuple[float | None, float | None, float | None]
_WITHOUT_LOAD = ", in which load() never ran, as in training"


def extreme_rollouts(
    scoring: Scoring, rollouts: Iterator[StoredRecord], taken: Sequence[StoredRecord]
) -> list[StoredRecord]:
    """Return rollouts beside those of `taken`, of different tasks where there are enough.

    They are the longest and the shortest of those that earned most, and of those that earned least.
    """
    number = EXTREMES // 4
    known = {stored.rollout.id for stored in taken}
    heaps: list[list[tuple[tuple[float, int], int, StoredRecord]]] = [[], [], [], []]
    for place, stored in enumerate(rollouts):
        reward = stored.rollout.reward
        if reward is None or stored.rollout.id in known or scoring.places[stored.task].row is None:
            continue
        length = len(stored.rollout.completion_text)
        for heap, key in zip(
            heaps, ((reward, length), (reward, -length), (-reward, length), (-reward, -length)), strict=True
        ):
            heapq.heappush(heap, (key, -place, stored))
            if len(heap) > 4 * number:
                heapq.heappop(heap)
    chosen: dict[str, StoredRecord] = {}
    for heap in heaps:
        best = [stored for _, _, stored in sorted(heap, reverse=True, key=lambda entry: entry[:2])]
        tasks = dict.fromkeys(stored.task for stored in best)
        firsts = [next(s for s in best if s.task == task) for task in tasks]
        rest = [s for s in best if s not in firsts]
        for stored in [*firsts, *rest][:number]:
            chosen.setdefault(stored.rollout.id, stored)
    return list(chosen.values())


def witness_cases(scoring: Scoring, stored: Sequence[StoredRecord]) -> list[Case]:
    """Return the cases of a witness for stored rollouts.

    A whole trace is scored as it is stored (v1). Otherwise the messages are scored, and no case is returned if one of
    the conversations branches.
    """
    cases = []
    for number, record in enumerate(stored):
        row, messages = scoring.places[record.task].row, scoring.form.reply_messages(record.record)
        if row is None or (messages is None and not scoring.form.whole):
            return []
        whole = scoring.form.payload(record.record) if scoring.form.whole else None
        cases.append(Case(str(number), row, [dict(m) for m in messages or ()], stored=whole))
    return cases


def witness_finding(
    passes: Sequence[Sequence[WitnessedScore]], first: Sequence[Scored], again: Sequence[Scored], *, rebuilt: bool
) -> Finding | None:
    """Return the finding on scores of a witness that differ from two scorings of a worker.

    `rebuilt` says that the witness rebuilds tasks from their data (v1).
    """
    scored = [n for n, one in enumerate(first) if one.reward is not None]
    for passed in passes:
        for name, named in _by_name(
            [(_witness_scores(passed[n]), first[n], again[n]) for n in scored if not passed[n].error]
        ):
            if is_apart(named):
                return _differs_there(name, _apart(named), len(named), rebuilt)
    quick = [n for n in scored if max(first[n].ms, again[n].ms) < _QUICK_MS and not any(p[n].error for p in passes)]
    for name, named in _by_name([(_agreed(passes, n), first[n], again[n]) for n in quick]):
        if all(same_reward(a, b) for _, a, b in named) and len(_apart(named)) >= STEADY:
            return _differs_there(name, _apart(named), len(named), rebuilt)
    return None


async def witnessed(
    witness: Witness, cases: Sequence[Case], first: Sequence[Scored], again: Sequence[Scored], *, rebuilt: bool
) -> Finding | str:
    """Compare the scores of a worker with those of a witness.

    Returns the finding on a difference, an empty text if there is none, or the reason why nothing was compared.
    """
    seconds = len(SHIFTS) * sum(s.ms for s in first) / 1000
    try:
        scores = await witness.score(cases, case_timeout=CASE_SECONDS, timeout=max(60.0, 3 * seconds))
    except LabError as error:
        return error.message
    silent = sum(all(p[n].error for p in scores.passes) for n in range(len(cases)))
    if 2 * silent > len(cases):
        return "scoring raises in a second process, which it does not here"
    return witness_finding(scores.passes, first, again, rebuilt=rebuilt) or ""


def _by_name(scores: Sequence[tuple[Scores, Scored, Scored]]) -> Iterator[tuple[str, list[Triple]]]:
    """Yield the names of the scores that the witness and the worker give, each with the scores of all rollouts."""
    triples = [(there, worker_scores(one), worker_scores(two)) for there, one, two in scores]
    for name in dict.fromkeys(name for there, _, _ in triples for name in there):
        yield name, [(w[name], a[name], b.get(name)) for w, a, b in triples if name in w and name in a]


def _agreed(passes: Sequence[Sequence[WitnessedScore]], number: int) -> Scores:
    """Return the scores of a rollout that are the same in every pass of the witness."""
    one, *others = [_witness_scores(passed[number]) for passed in passes]
    return {n: v for n, v in one.items() if all(n in other and same_reward(v, other[n]) for other in others)}


def _witness_scores(scored: WitnessedScore) -> Scores:
    return {"": scored.reward} | dict(scored.components)


def worker_scores(scored: Scored) -> Scores:
    return {"": scored.reward} | {n: c.score for n, c in scored.components.items()}


def _apart(scores: Sequence[Triple]) -> list[Triple]:
    return [t for t in scores if not (same_reward(t[0], t[1]) and same_reward(t[0], t[2]))]


def is_apart(scores: Sequence[Triple]) -> bool:
    """Whether the first scores of the triples differ from the others more often than chance explains.

    Three scores from one reward function are exchangeable, so the first one is the highest, the lowest, or different
    from two equal ones in at most a third of the triples on average.
    """
    varied = _apart(scores)
    odd = sum(same_reward(a, b) for _, a, b in varied)
    values = [tuple(-math.inf if v is None else v for v in t) for t in varied]
    highest = sum(s > max(a, b) for s, a, b in values)
    lowest = sum(s < min(a, b) for s, a, b in values)
    return any(_at_least(number, len(varied)) < RARELY for number in (odd, highest, lowest))


def _at_least(number: int, of: int) -> float:
    """Return the probability of at least `number` successes in `of` trials with a probability of 1/3 each."""
    return math.fsum(math.comb(of, k) * (1 / 3) ** k * (2 / 3) ** (of - k) for k in range(number, of + 1))


def _differs_there(name: str, apart: Sequence[Triple], of: int, rebuilt: bool) -> Finding:
    where = f"a process without this server{_WITHOUT_LOAD if rebuilt else ''}"
    subject = f"the score of {quote(name, 80)}" if name else "the reward"
    return _differs(
        f"{subject} of {len(apart)} of {count(of, 'rollout')} is another in {where} ({score_text(apart[0][1])} here, "
        f"{score_text(apart[0][0])} there), more often than the reward varies by itself"
    )


def _differs(message: str) -> Finding:
    return Finding("eval-rewards-differ", "blocker", message, MEND)


MEND = Fix(
    "Find the code of the environment that changes rewards outside of its reward functions, or that reads what load() "
    "left behind, mend it, and call ",
    NamedCall("run_eval"),
    " again.",
)


def score_text(value: float | None) -> str:
    return "no reward" if value is None else f"{value:.3g}"


async def compare_replays(worker: Worker, scoring: Scoring, stored: Sequence[StoredRecord]) -> Finding | str:
    """Play stored replies where the environment is loaded and where its tasks are rebuilt, and compare the rewards.

    Returns the finding on a difference that repeats itself, or the reason why nothing was compared. The text is empty
    if the rewards agree, and where no rollout can be played here at all.
    """
    plays = list(_plays(scoring, stored))
    try:
        data = await worker.task_data([play.row for play in plays]) if plays else []
        sent = [(play, one) for play, one in zip(plays, data, strict=True) if one is not None]
        here = await worker.rollout([p for p, _ in sent], seconds=_REPLAY_SECONDS, in_order=True, held=True)
        if not any(result.reward is not None for result in here.results):
            return ""
        async with worker.in_another_process() as other:
            there = await _served(other, sent)
            apart = [n for n, pair in enumerate(zip(here.results, there.results, strict=False)) if _differ(*pair)]
            if not apart:
                failed = here.results and not any(result.reward is not None for result in there.results)
                return _FAILS_THERE if failed else ""
            twice = await _served(other, sent)
        again = await worker.rollout([p for p, _ in sent], seconds=_REPLAY_SECONDS, in_order=True, held=True)
    except LabError as error:
        return f"{_FAILS_THERE}: {error.message}"
    steady = [n for n in apart if _same(here.results, again.results, n) and _same(there.results, twice.results, n)]
    if not steady:
        return ""
    one, other_reward = here.results[steady[0]].reward, there.results[steady[0]].reward
    return _differs(
        f"{len(steady)} of {count(len(sent), 'stored conversation')} that were played again earn something else in a "
        f"process with tasks that are rebuilt from their data{_WITHOUT_LOAD} ({score_text(one)} here, "
        f"{score_text(other_reward)} there)"
    )


_FAILS_THERE = "stored conversations could not be played with tasks that are rebuilt from their data"


async def _served(worker: Worker, sent: Sequence[tuple[RequestedRollout, Mapping[str, Any]]]) -> Rollouts:
    rebuilt = [RequestedRollout(n, play.script) for n, (play, _) in enumerate(sent)]
    return await worker.serve_rollouts([data for _, data in sent], rebuilt, seconds=_REPLAY_SECONDS)


def _differ(one: RolloutResult, two: RolloutResult) -> bool:
    """Whether two rollouts came to an end with different rewards."""
    return one.reward is not None and two.reward is not None and not same_reward(one.reward, two.reward)


def _same(one: Sequence[RolloutResult], two: Sequence[RolloutResult], number: int) -> bool:
    return number < min(len(one), len(two)) and same_reward(one[number].reward, two[number].reward)


def _plays(scoring: Scoring, stored: Sequence[StoredRecord]) -> Iterator[RequestedRollout]:
    """Yield short stored conversations, those that earned least and most first, at most one of each task."""
    by_reward = sorted((s for s in stored if s.rollout.reward is not None), key=lambda s: s.rollout.reward or 0.0)
    alternating = chain.from_iterable(zip(by_reward, reversed(by_reward), strict=True))
    number, tasks = 0, set[str]()
    for record in alternating:
        row, play = scoring.places[record.task].row, None
        if row is not None and record.task not in tasks:
            play = stored_replay(row, record, scoring.form)
        if play is not None and number < REPLAYED:
            number += 1
            tasks.add(record.task)
            yield play
