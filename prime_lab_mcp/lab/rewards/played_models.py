"""Plays models that know nothing, copy, repeat or remember, and returns what the rewards of their rollouts show.

Only environments with tools, turns or a set-up have such rollouts. Each kind of model has a module of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from prime_lab_mcp.lab.base.report import Say
from prime_lab_mcp.lab.rewards import reward_source
from prime_lab_mcp.lab.rewards.accepted_replies import AcceptedGame, play_accepted
from prime_lab_mcp.lab.rewards.capped_lists import CappedList, find_capped_list
from prime_lab_mcp.lab.rewards.constant_commands import ConstantCommand, play_commands, winning_messages
from prime_lab_mcp.lab.rewards.copied_messages import (
    CHATTERS,
    REMEMBERED,
    CopyingRule,
    copying_script,
    play_copying,
    reply_form,
)
from prime_lab_mcp.lab.rewards.emptied_tables import EmptiedTables, play_emptied
from prime_lab_mcp.lab.rewards.interleaving import MixedRollouts, find_mixed_rollouts
from prime_lab_mcp.lab.rewards.listed_entries import prompts_by_row
from prime_lab_mcp.lab.rewards.parrots import play_parrots
from prime_lab_mcp.lab.rewards.probes.answer_formats import AnswerWrapper
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.replays import Replay, replay
from prime_lab_mcp.lab.rewards.said_values import play_said_values
from prime_lab_mcp.lab.rewards.scripts import PlayedScript
from prime_lab_mcp.lab.rewards.shell_files import shell_tools
from prime_lab_mcp.lab.rewards.shortcuts import Shortcut, play_file_shortcuts, play_shortcuts
from prime_lab_mcp.lab.rewards.solution_parts import SolutionParts, play_parts, spoken_turns
from prime_lab_mcp.lab.rewards.solutions import Solved
from prime_lab_mcp.lab.rewards.to_and_fro import PaidWalk, play_to_and_fro
from prime_lab_mcp.lab.rewards.tool_exploration import (
    AnswerKey,
    LastingWrite,
    find_answer_key,
    find_lasting_writes,
    offered_tools,
)
from prime_lab_mcp.lab.rewards.trial_and_error import ThoughtlessModel, play_thoughtless
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import OfferedTool


@dataclass(frozen=True, slots=True)
class PlayedModels:
    """What models that do not solve tasks earned, and which state survived their rollouts."""

    copying: tuple[CopyingRule, ...] = ()
    shortcuts: tuple[Shortcut, ...] = ()
    accepted: tuple[AcceptedGame, ...] = ()
    replays: tuple[Replay, ...] = ()
    lasting: LastingWrite | None = None
    mixed: MixedRollouts | None = None
    answer_key: AnswerKey | None = None
    commands: tuple[ConstantCommand, ...] = ()
    thoughtless: tuple[ThoughtlessModel, ...] = ()
    walk: PaidWalk | None = None
    parts: SolutionParts = field(default_factory=SolutionParts)
    capped: CappedList | None = None
    emptied: EmptiedTables | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """Where models play: the tasks, what is known of them, and the rollouts that were played before.

    `form` is the form of a reply that the prompts or the code name. `grouped` says that rollouts of a task are paid
    together. `source` is the environment's code.
    """

    worker: Worker
    rows: Sequence[Row]
    style: AnswerStyle | None
    form: AnswerWrapper
    source: str
    solved: Solved
    rollouts: Sequence[PlayedScript]
    grouped: bool

    @property
    def tools(self) -> Sequence[OfferedTool]:
        """The tools that models are offered."""
        return offered_tools((*self.solved.scored, *self.rollouts))


async def play_models(stage: Stage, hacks: bool, say: Say) -> PlayedModels:
    """Play all kinds of models. Without `hacks`, only whether state survives rollouts is tried."""
    found = PlayedModels()
    if hacks:
        await say("playing models that copy from messages, prompts and calls")
        found = await _copying_models(stage)
    await say("playing rollouts again in fresh processes")
    if hacks and not stage.grouped:
        found = replace(found, accepted=await play_accepted(stage.worker, stage.solved))
    found = await _surviving_state(stage, found)
    if hacks and stage.style is not None:
        key = await find_answer_key(stage.worker, stage.style, stage.rows, stage.tools)
        found = replace(found, answer_key=key)
    if hacks and not stage.grouped:
        await say("playing models that do the same in every task")
        found = await _constant_models(stage, found)
    if hacks:
        capped = await find_capped_list(stage.worker, stage.style, stage.rows, stage.tools, stage.source)
        emptied = await play_emptied(stage.worker, stage.style, stage.rows, stage.tools)
        found = replace(found, capped=capped, emptied=emptied)
    return found


async def _copying_models(stage: Stage) -> PlayedModels:
    """Play models that copy messages, or files where a shell is offered."""
    worker, rows, solved = stage.worker, stage.rows, stage.solved
    copying = await play_copying(worker, stage.style, solved, stage.rollouts, rows, stage.form)
    if not copying and not stage.grouped:
        copying = await play_said_values(worker, rows, stage.form)
    form = reply_form(stage.style, solved)
    shortcuts = await play_shortcuts(worker, form, solved, rows) or await play_parrots(worker, solved, rows)
    shell = next(shell_tools(offered_tools(stage.rollouts)), None)
    if not solved.scored and stage.style is not None and shell:
        shortcuts = await play_file_shortcuts(worker, form, stage.style, rows)
    return PlayedModels(copying=copying, shortcuts=shortcuts)


async def _surviving_state(stage: Stage, found: PlayedModels) -> PlayedModels:
    """Play rollouts again, and in turns, to find state that survives or that rollouts share."""
    worker, rows, solved = stage.worker, stage.rows, stage.solved
    form = reply_form(stage.style, solved)
    copies = [copying_script(CHATTERS, kind, form) for kind in REMEMBERED]
    ends = [end for game in found.accepted for end in game.ends]
    found = replace(found, replays=await replay(worker, (*solved.scored, *stage.rollouts), copies, ends))
    if any(r.severe for r in found.replays):
        return found
    found = replace(found, lasting=await find_lasting_writes(worker, rows, stage.tools))
    if found.lasting or stage.grouped:
        return found
    recorded = (*stage.rollouts, *solved.scored)
    return replace(found, mixed=await find_mixed_rollouts(worker, rows, stage.form, stage.source, recorded))


async def _constant_models(stage: Stage, found: PlayedModels) -> PlayedModels:
    """Play models that do the same in every task, and parts of solutions."""
    worker, rows, solved, source = stage.worker, stage.rows, stage.solved, stage.source
    listed, said = reward_source.rewarded_words(source), spoken_turns(solved)
    winning = winning_messages((*solved.scored, *stage.rollouts))
    verdicts = dict.fromkeys((*winning, *reward_source.spoken_sentences(source)))
    return replace(
        found,
        commands=await play_commands(worker, rows, listed, said, tuple(verdicts), few=bool(stage.tools)),
        thoughtless=await play_thoughtless(worker, rows, stage.tools, stage.form),
        walk=await play_to_and_fro(worker, rows, stage.tools, stage.form, source),
        parts=await play_parts(worker, solved, prompts_by_row(rows)),
    )
