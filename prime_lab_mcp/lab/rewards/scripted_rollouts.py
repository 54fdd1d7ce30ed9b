"""Plays scripts in whole rollouts, and decides whether the reward must be tested by rollouts.

An environment with tools, several turns or a set-up may pay for something that a completion does not contain, such as a
value that a tool has stored. For such a reward, right and wrong answers are played in rollouts instead of being scored
as single completions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.datasets.task_golds import TaskGold, whole_prompt
from prime_lab_mcp.lab.rewards import scripts
from prime_lab_mcp.lab.rewards.goldless import echoes
from prime_lab_mcp.lab.rewards.observations import Expected, ScoredCase, ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE, AnswerWrapper
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.probes.wrong_answers import spread_over_answers
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript, ScriptPart
from prime_lab_mcp.lab.rewards.solutions import Change, Solved, SuppliedSolution, solution_script
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, HALF_SHARE
from prime_lab_mcp.lab.worker.description import Loaded, Row
from prime_lab_mcp.lab.worker.faults import NOT_RUN
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import SCORING, Scored

SCRIPTED_TASKS = 2
"""Number of tasks on which every script is played."""
DECIDING_TASKS = 8
"""Number of tasks for right, wrong and silent rollouts if rollouts decide (docs/validation.md, Reward tests)."""
SCRIPTED_SECONDS = 20.0
"""Time limit in seconds for one request of rollouts."""
_ELSEWHERE_SECONDS = 20.0
"""Time in seconds for right rollouts of more tasks, by what rollouts of other tasks took (our choice)."""
_FAMILIES: dict[ScriptPart, Family] = {"gold": Family.GOLD, "wrong": Family.WRONG, "silent": Family.EMPTY}


@dataclass(frozen=True, slots=True)
class PlayedRollouts:
    """The rollouts that were played.

    `unavailable` is the reason why rollouts cannot be run. `broken` is the error that ended the worker's process during
    the rollouts. `deciding_script` is the script with the right answer that earns most, if only rollouts can earn the
    reward; otherwise None.
    """

    rollouts: tuple[PlayedScript, ...] = ()
    unavailable: str = ""
    by_design: bool = False
    """The reason in `unavailable` follows from the environment's design and is not a flaw."""
    broken: str = ""
    deciding_script: RolloutScript | None = None

    @property
    def stateful(self) -> bool:
        """Whether a rollout left state besides its messages, which the reward may read."""
        return any(p.result.state for p in self.rollouts)


async def play_scripts(
    worker: Worker,
    loaded: Loaded,
    style: AnswerStyle | None,
    rows: Sequence[Row],
    form: AnswerWrapper = BARE,
) -> PlayedRollouts:
    """Play every script on `SCRIPTED_TASKS` tasks.

    `form` is the form of a reply that the prompt or the code names, for tasks without a gold.

    If the right answer earns too little without a rollout, right, wrong and silent rollouts are played on
    `DECIDING_TASKS` tasks. In a v0 environment with a single reply, only one rollout is played, to show whether
    rollouts can start: scoring completions tests everything else.
    """
    if not rows:
        return PlayedRollouts()
    if not loaded.turns:
        return await _play_one(worker, style, rows[0].index) if loaded.api == "v0" else PlayedRollouts()
    golds: Sequence[TaskGold] = (
        spread_over_answers(style.golds, SCRIPTED_TASKS, style.form) if style is not None else ()
    )
    wanted: list[tuple[int, RolloutScript]] = []
    if style is not None:
        wanted = [(g.row, s) for g in golds for s in scripts.usual_scripts(style, g)]
    if not wanted:
        tasks = echoes(rows, SCRIPTED_TASKS)
        wanted = [(row.index, s) for row, prompt, other in tasks for s in scripts.goldless_scripts(prompt, other)]
    played = await _play(worker, wanted)
    if style is None:
        return await _with_blind_replies(worker, played, form, rows)
    script = _deciding_script(played.rollouts)
    if script is None:
        return played
    known = {g.row for g in golds}
    more = [g for g in spread_over_answers(style.golds, DECIDING_TASKS, style.form) if g.row not in known]
    rest = await _play(worker, [(g.row, s) for g in more for s in _deciding(style, g, script)])
    return replace(played, rollouts=(*played.rollouts, *rest.rollouts), deciding_script=script)


_BLIND, _SILENT_TASKS = 4, 6
"""Number of rollouts of a task with blind replies, and of tasks on which these and silence are played."""
_VALUES = 6
"""Number of small numbers that are blind replies."""


async def _with_blind_replies(
    worker: Worker, played: PlayedRollouts, form: AnswerWrapper, rows: Sequence[Row]
) -> PlayedRollouts:
    """Add rollouts that show what giving up is worth, if silence was paid and replies have a form.

    In each of them the model says nothing, or some reply in the form in every turn: a number, or what the prompt shows.
    """
    silent = [p.result.reward or 0.0 for p in played.rollouts if p.script.part == "silent" and p.scored]
    if form.kind == "plain" or not silent or min(silent) <= EPSILON:
        return played
    prompt = whole_prompt(rows[0])
    values = list(dict.fromkeys([*form.shown_in(prompt)[:2], *map(str, range(1, _VALUES + 1))]))
    texts = [form.wrap(value) for value in values]
    known = {p.row for p in played.rollouts}
    more = [row for row in rows if row.index not in known][: _SILENT_TASKS - len(known)]
    wanted = [(row.index, scripts.silent_script()) for row in more]
    for row in (*more, *(row for row in rows if row.index in known)):
        wanted += [(row.index, scripts.blind_script(texts, _BLIND * row.index + n)) for n in range(_BLIND)]
    rest = await _play(worker, wanted)
    return replace(played, rollouts=(*played.rollouts, *rest.rollouts))


async def _play_one(worker: Worker, style: AnswerStyle | None, row: int) -> PlayedRollouts:
    """Play one rollout of a single reply, and return it only if it failed outside of scoring.

    v0 rejects some rows at the start of a rollout, such as rows with a text in a column `task` (verifiers 0.1.14 and
    newer). Scoring a completion does not show this error.
    """
    gold = None if style is None else next((g for g in style.golds.golds if g.row == row), None)
    script = scripts.silent_script() if style is None or gold is None else scripts.gold_script(style.render(gold))
    played = await _play(worker, [(row, script)])
    return PlayedRollouts(
        tuple(p for p in played.rollouts if p.failed and not all(e.where.startswith(SCORING) for e in p.result.errors))
    )


async def _play(worker: Worker, wanted: Sequence[tuple[int, RolloutScript]]) -> PlayedRollouts:
    """Play pairs (task, script). Scripts with tool calls are left out of the result if no tools were offered."""
    if not wanted:
        return PlayedRollouts()
    try:
        plays = [scripts.as_play(script, row) for row, script in wanted]
        rollouts = await scripts.play_started(worker, plays, seconds=SCRIPTED_SECONDS)
    except LabError as error:
        if error.code == "worker-timeout":  # the machine may be slow instead of the environment
            return PlayedRollouts(unavailable=error.message)
        return PlayedRollouts(broken=error.message)
    pairs = zip(wanted, rollouts.results, strict=False)
    performed = [PlayedScript(row, script, result) for (row, script), result in pairs]
    offered = any(p.result.tools for p in performed)
    usable = [p for p in performed if (offered or not p.script.tools) and p.result.end != "not-run"]
    return PlayedRollouts(tuple(usable), rollouts.unavailable, rollouts.by_design)


def _deciding_script(performed: Sequence[PlayedScript]) -> RolloutScript | None:
    """Return the script with the right answer that earned most, if the same reply without a rollout earns less than
    half of that; otherwise None."""
    right = [p for p in performed if p.script.part == "gold" and p.scored]
    best = max(right, key=lambda p: p.result.reward or 0.0, default=None)
    if best is None or (best.result.reward or 0.0) <= EPSILON:
        return None
    rewards = [p.result.alone for p in right if not p.script.tools and p.result.alone is not None]
    without_rollout = max(rewards, default=0.0)
    return best.script if without_rollout < HALF_SHARE * (best.result.reward or 0.0) else None


def _deciding(style: AnswerStyle, gold: TaskGold, script: RolloutScript) -> list[RolloutScript]:
    """Return right, wrong and silent scripts for a task that deliver the answer in the same way as `script`."""
    answer, text, wrong = style.answer_text(gold), style.render(gold), scripts.wrong_answer_to(style, gold)
    if not script.tools:
        return [scripts.gold_script(text), scripts.wrong_script(style.wrapper.wrap(wrong)), scripts.silent_script()]
    right = {s.delivery: s for s in scripts.usual_scripts(style, gold) if s.part == "gold"}
    answered = [right.get(script.delivery, scripts.tool_script("gold", answer, text))]
    return [*answered, scripts.tool_script("wrong", wrong, style.wrapper.wrap(wrong)), scripts.silent_script()]


def rollout_probes(played: PlayedRollouts) -> tuple[tuple[ScoredProbe, ...], tuple[ScoredProbe, ...]]:
    """Return the rollouts as scored probes: a tuple of those with the gold, and a tuple of all.

    Rollouts that deliver the gold in another way than the deciding script are left out.
    """
    assert played.deciding_script is not None
    probes = []
    for p in played.rollouts:
        family = _FAMILIES.get(p.script.part)
        other_delivery = family is Family.GOLD and p.script.delivery is not played.deciding_script.delivery
        if family is not None and not other_delivery and p.scored:
            probes.append(_scored_probe(p, family, f"rollout: {p.script.name}"))
    return tuple(s for s in probes if s.probe.family is Family.GOLD), tuple(probes)


def _scored_probe(performed: PlayedScript, family: Family, label: str) -> ScoredProbe:
    result = performed.result
    messages = tuple(result.messages)
    probe = Probe(f"rollout/{performed.row}", family, label, performed.row, messages, variant=performed.script.name)
    return ScoredProbe(probe, Scored(probe.id, result.reward, result.components, {}, result.errors, (), result.ms))


def rollout_probe(performed: PlayedScript) -> ScoredProbe:
    """Return a rollout as a scored probe. The part of its script decides the family."""
    family = _FAMILIES.get(performed.script.part, Family.SUPPLIED)
    return _scored_probe(performed, family, f"rollout: {performed.script.name}")


def supplied_solutions(probes: Sequence[tuple[Probe, Expected]]) -> list[SuppliedSolution]:
    """Return the supplied cases with tool calls or several turns that are expected to earn much as solutions, one for
    each task."""
    solutions: dict[int, SuppliedSolution] = {}
    for probe, expected in probes:
        high = expected == "high" or (isinstance(expected, int | float) and expected >= HALF_SHARE)
        if high and _is_played(probe):
            solutions.setdefault(probe.row, SuppliedSolution(probe.row, probe.messages))
    return list(solutions.values())


def _is_played(probe: Probe) -> bool:
    """Whether a case needs the environment's answers: it calls tools or has several turns."""
    replies = [m for m in probe.messages if m.get("role") == "assistant"]
    return len(replies) > 1 or any(m.get("tool_calls") for m in replies)


def solution_probes(solved: Solved, played: PlayedRollouts) -> tuple[tuple[ScoredProbe, ...], tuple[ScoredProbe, ...]]:
    """Return the rollouts of solutions as scored probes: a tuple of golds, and a tuple with wrong and silent rollouts
    as well."""
    golds = tuple(_scored_probe(p, Family.GOLD, f"rollout: {p.script.name}") for p in solved.scored)
    others = [
        _scored_probe(p, family, f"rollout: {p.script.name}")
        for p in played.rollouts
        if p.scored and (family := _FAMILIES.get(p.script.part)) not in (None, Family.GOLD)
    ]
    silent = [
        _scored_probe(p, Family.EMPTY, f"rollout: {p.script.name}")
        for change, p in solved.changed
        if change is Change.NOOP and p.scored
    ]
    return golds, (*golds, *others, *silent)


async def play_right_elsewhere(
    worker: Worker, trial: Trial, known: Sequence[PlayedScript], rows: Sequence[int]
) -> list[PlayedScript]:
    """Play the right rollout of the tasks `rows`: the stated solution, or the gold as it earns most in `known`.

    As many tasks as fit into `_ELSEWHERE_SECONDS` are played, by the median time of `known`; none where nothing right
    is known.
    """
    durations = sorted(p.result.ms for p in known)
    affordable = int(1000 * _ELSEWHERE_SECONDS / max(1.0, durations[len(durations) // 2]))
    chosen = rows[:: max(1, -(-len(rows) // max(1, affordable)))][:affordable]
    wanted: list[tuple[int, RolloutScript]] = []
    if trial.solved.scored and not trial.solved.supplied:
        wanted = [(row, solution_script(True)) for row in chosen]
    elif trial.style is not None:
        paid = [p for p in known if p.script.part == "gold"]
        best = max(paid, key=lambda p: p.result.reward or 0.0, default=None)
        golds = {gold.row: gold for gold in trial.style.golds.golds}
        for row in chosen if best is not None else ():
            right = scripts.usual_scripts(trial.style, golds[row]) if row in golds else ()
            wanted += [(row, s) for s in right if s.part == "gold" and best and s.delivery is best.script.delivery][:1]
    return [p for p in (await _play(worker, wanted)).rollouts if p.scored]


async def replay_calls(worker: Worker, supplied: Sequence[ScoredCase]) -> tuple[ScoredCase, ...]:
    """Play the supplied cases that call tools or have several turns, so that the environment itself answers."""
    chosen = [s for s in supplied if _is_played(s.scored_probe.probe)]
    replayed = dict(zip(map(id, chosen), await replay_cases(worker, chosen), strict=True)) if chosen else {}
    return tuple(replayed.get(id(s), s) for s in supplied)


async def replay_cases(worker: Worker, supplied: Sequence[ScoredCase]) -> tuple[ScoredCase, ...]:
    """Play the assistant messages of supplied cases in rollouts of the environment.

    A case whose rollout had not ended in time was not run: its messages alone are not what the environment rewards. A
    case whose rollout has no reward for another reason keeps its earlier score.
    """
    wanted = [
        (s.scored_probe.probe.row, scripts.replay_script(s.scored_probe.probe.label, s.scored_probe.probe.messages))
        for s in supplied
    ]
    played = await _play(worker, wanted)
    by_script = {id(p.script): p for p in played.rollouts}
    late = any(p.result.end == "slow" for p in played.rollouts)
    return tuple(_replayed(by_script.get(id(script)), s, late) for (_, script), s in zip(wanted, supplied, strict=True))


def _replayed(performed: PlayedScript | None, case: ScoredCase, late: bool) -> ScoredCase:
    """Return a case with the reward of its rollout. `late` says that another rollout had not ended in time, so that a
    case without a rollout was not begun."""
    if performed is not None and performed.scored:
        return ScoredCase(_scored_probe(performed, Family.SUPPLIED, case.scored_probe.probe.label), case.expected)
    if performed.result.end != "slow" if performed is not None else not late:
        return case
    probe = case.scored_probe.probe
    return ScoredCase(ScoredProbe(probe, Scored(probe.id, None, problems=NOT_RUN)), case.expected)
