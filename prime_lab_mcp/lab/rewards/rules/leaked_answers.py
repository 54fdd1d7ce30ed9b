"""Rules against environments that give answers away in their messages, or that remember earlier rollouts.

For `answer_leaked` and `state_survives`, a message states the gold if it contains the gold as a separate word or number
of at least two characters, and neither the prompt nor the arguments of a call contain it. On a single task this may be
a coincidence, because a table may contain any number. These findings therefore require that every tried task shows it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.statistics import binomial_tail
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets.gold_findings import leaking_labels, leaking_order, leaking_references
from prime_lab_mcp.lab.rewards.copied_messages import CopyingRule
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule, gold_is_understood
from prime_lab_mcp.lab.rewards.rules.rollouts import rollout_row
from prime_lab_mcp.lab.rewards.scripts import Delivery, PlayedScript
from prime_lab_mcp.lab.rewards.solutions import Change, last_reply
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, HALF_SHARE
from prime_lab_mcp.lab.rewards.trivial_policy import deserved_share
from prime_lab_mcp.lab.worker.description import Message

_TASKS = 2
"""Smallest number of tasks with different golds that a finding requires."""
_WRONG_CALLS = (Change.WRONG_ARGUMENT, Change.OTHER_TEXTS)
_SHORTEST, _LONGEST = 2, 200
"""Lengths in characters between which a gold is searched for."""
_MARGIN = 0.2
"""Share of tasks by which a copying rule must exceed a constant reply, as in the search."""
_CHANCE = 0.001 / 3
"""Largest probability that chance explains the number of paid tasks, as in the search (docs/validation.md, The search).
It is divided by three, because three copying rules are judged on the same tasks."""


def answer_leaked(trial: Trial) -> Iterator[Finding]:
    """No tool and no message of the environment may state the answer to a model that asks for something else."""
    tried: dict[str, list[PlayedScript]] = defaultdict(list)
    for change, p in trial.solved.changed:
        if change in _WRONG_CALLS:
            tried[p.script.name].append(p)
    for p in trial.rollouts:
        if p.script.part == "wrong" and p.script.delivery is not Delivery.TOOLS_FIRST:
            tried[p.script.name].append(p)
    for name, played in tried.items():
        known = [(p, _golds(trial, p.row)) for p in played if p.result.end != "not-run" and _golds(trial, p.row)]
        if len({golds for _, golds in known}) < _TASKS:
            continue
        if all(_states_gold(p.result.messages, golds) for p, golds in known):
            yield Finding(
                "gold-in-prompt",
                "warning",
                f"the environment states the answer to a model that {name}: after that, copying scores",
                "Let a tool or reply say only what was asked for; keep golds out of what tools and replies can reach.",
                rows=tuple(rollout_row(p, "an environment that does not state the answer") for p, _ in known[:2]),
            )
            return


def state_survives(trial: Trial) -> Iterator[Finding]:
    """Rollouts must not share state: an incomplete solution must not be paid, and a tool must not state an answer, only
    after another rollout has solved the task."""
    scripts: dict[str, list[tuple[PlayedScript, PlayedScript, PlayedScript]]] = defaultdict(list)
    for check in trial.solved.state_checks:
        scripts[check[0].script.name].append(check)
    for checks in scripts.values():
        if len({before.row for before, *_ in checks}) < _TASKS:
            continue
        paid = all(_pays_more(before, after, trial.solved.best) for before, _, after in checks)
        if not (paid or _states_later(trial, checks)):
            continue
        before, _, after = checks[0]
        yield Finding(
            "reward-rollout-differs",
            "blocker",
            f"state survives between rollouts: a model that {before.script.name} earns {before.result.reward:g} on a "
            f"fresh task, and {after.result.reward:g} after another rollout has solved it"
            if paid
            else "a tool states the answer after another rollout of the task has found it, and not before: state "
            "survives between rollouts",
            "Keep what a rollout changes with the rollout: a tool server of its own (Task.toolsets), folders and state "
            "that setup_task or setup_state makes anew.",
            rows=tuple(
                rollout_row(after, "what it earned before any rollout solved the task") for *_, after in checks[:2]
            ),
        )
        return


def _pays_more(before: PlayedScript, after: PlayedScript, best: float) -> bool:
    """Whether the same script earned at least half of the best reward more after the solution than before."""
    earned, later = before.result.reward, after.result.reward
    if not (before.scored and after.scored) or earned is None or later is None:
        return False
    return best > EPSILON and later - earned >= HALF_SHARE * best - EPSILON


def _states_later(trial: Trial, checks: Sequence[tuple[PlayedScript, PlayedScript, PlayedScript]]) -> bool:
    """Whether the environment states the answer of every task after its solution, and not before."""
    known = [(before, after, _answer(trial, solved)) for before, solved, after in checks]
    known = [check for check in known if check[2]]
    return len({golds for *_, golds in known}) >= _TASKS and all(
        _states_gold(after.result.messages, golds) and not _states_gold(before.result.messages, golds)
        for before, after, golds in known
    )


def remembers_rollouts(trial: Trial) -> Iterator[Finding]:
    """The same replies to the same task must lead to the same rollout, whichever rollouts were played before.

    A blocker if the rewards differ, the rollouts have different lengths, or a later rollout is told the replies that
    win. Otherwise a warning, because only the text of a message differs, such as a counter of games.
    """
    if not trial.replays:
        return
    worst = next((r for r in trial.replays if r.tells_replies), trial.replays[0])
    rewards = ["no reward" if p.result.reward is None else f"{p.result.reward:g}" for p in (worst.first, worst.later)]
    if worst.paid_differently:
        how = f"earns {rewards[0]} at first and {rewards[1]} later"
    elif worst.ends_differently:
        how = "is answered otherwise later, and the rollout ends elsewhere"
    elif worst.tells_replies:
        how = "is told later, before each of these replies but the first, what to reply next, and is not told at first"
    else:
        how = "is answered otherwise later"
    yield Finding(
        "reward-rollout-differs",
        "blocker" if worst.severe else "warning",
        f"the environment remembers earlier rollouts: a model that {worst.first.script.name} {how} "
        f"({count(worst.between, 'rollout')} between the two; so in two fresh processes with equal random numbers)",
        "Keep what a game changes in variables of Env.run or in the state of the rollout (v1: trace.state, v0: state), "
        "never on a class, a module, the environment or the taskset.",
        rows=(
            rollout_row(worst.first, "the same rollout whenever these replies are given"),
            rollout_row(worst.later, "the messages and the reward of the first rollout"),
        ),
    )


def writes_last(trial: Trial) -> Iterator[Finding]:
    """What a tool writes in one rollout must not be read by the next one.

    A blocker: the same call in a fresh rollout returns something else after another rollout than before it, so what is
    right depends on what other rollouts did.
    """
    lasting = trial.lasting
    if lasting is not None:
        yield Finding(
            "reward-rollout-differs",
            "blocker",
            f"state survives between rollouts: at the beginning of a rollout, {quote(lasting.call, 120)} returns "
            f"{quote(lasting.after, 120)} after another rollout has used the tools, and {quote(lasting.before, 120)} "
            "before",
            "Give each rollout its own deep copy of what tools change, made in setup_task (v1) or setup_state (v0). "
            "A database that all rollouts share must refuse writes (SQLite: PRAGMA query_only = ON and an authorizer).",
            rows=({"task": lasting.row, "call": lasting.call, "before": lasting.before, "after": lasting.after},),
        )


def rollouts_mix(trial: Trial) -> Iterator[Finding]:
    """The same replies to the same task must lead to the same rollout, whether others run at the same time or not.

    A blocker: training runs many rollouts at once, and then pays and answers a rollout by the state of another one.
    """
    mixed = trial.mixed
    if mixed is None:
        return
    alone, in_turns = mixed.messages
    rewards = ["nothing" if p.result.reward is None else f"{p.result.reward:g}" for p in (mixed.alone, mixed.in_turns)]
    how = f"is told {quote(in_turns, 160)}, and {quote(alone, 160)} when the rollouts follow each other"
    if not (alone or in_turns):
        how = f"earns {rewards[1]}, and {rewards[0]} when the rollouts follow each other"
    yield Finding(
        "reward-rollout-differs",
        "blocker",
        f"rollouts at once share state: a model that {mixed.alone.script.name} and takes turns with "
        f"{count(mixed.others, 'other rollout')} {how}",
        "Keep what a game changes in the state of the rollout (v0: state in setup_state; v1: variables of Env.run or "
        "trace.state), never on a class, a module, the environment or the taskset.",
        rows=(
            rollout_row(mixed.alone, "the same rollout whatever others do"),
            rollout_row(mixed.in_turns, "the messages and the reward of the rollout alone"),
        ),
    )


def key_is_readable(trial: Trial) -> Iterator[Finding]:
    """No tool may return the prompts of tasks with their answers.

    A blocker if the golds are understood, because one query then replaces the task; otherwise a warning.
    """
    key = trial.answer_key
    if key is not None:
        yield Finding(
            "gold-in-prompt",
            "blocker" if gold_is_understood(trial) or trial.solved.best > EPSILON else "warning",
            f"{quote(key.call, 120)} returns the prompts of {count(len(key.rows), 'task')} with their answers: a model "
            "that looks its own question up there solves nothing",
            "Keep questions and answers out of the database, files and services that tools reach.",
            rows=({"call": key.call, "tasks": list(key.rows[:8]), "returned": quote(key.excerpt, 300)},),
        )


def emptying_is_paid(trial: Trial) -> Iterator[Finding]:
    """A model that deletes the data must not be paid: it knows no answer. A blocker."""
    emptied = trial.emptied
    if emptied is not None:
        yield Finding(
            "reward-hackable",
            "blocker",
            f"a model that {emptied.paid[0].script.name} earned all on {len(emptied.paid)} of "
            f"{count(emptied.tried, 'task')}, and nothing without the deletions",
            "Compute what is right on data that no rollout can change, such as a database that is built anew, or open "
            "the tool's connection for reading only.",
            rows=tuple(rollout_row(p, "nothing") for p in emptied.paid[:3]),
        )


def copying_is_paid(trial: Trial) -> Iterator[Finding]:
    """Copying from the environment's messages must not be paid on many more tasks than a constant reply.

    A blocker if the messages give answers away: after an attempt to answer, in several turns, or to a model that does
    not ask as the solutions do. A warning if the task may be to report the content of a message.
    """
    if any(game.after_end for game in trial.accepted):
        return  # The messages are honest: the replies were paid because the game was over (`end_is_final`).
    counting = [(rule, chance) for rule in trial.copying if _exceeds(rule, chance := _constant_share(trial, rule))]
    counting.sort(key=lambda pair: not _gives_away(trial, pair[0]))
    for rule, chance in counting[:1]:
        given_away = _gives_away(trial, rule)
        yield Finding(
            "reward-hackable",
            "blocker" if given_away else "warning",
            f"the environment's messages give the answer away: a model that {rule.name} is paid on {len(rule.paid)} of "
            f"{count(len(rule.tried), 'task')} (a constant reply: {chance:.0%})",
            "Let messages say what happened, not what to answer next; pay nothing for an answer that was stated."
            if given_away
            else "If the task is to report what a message says, leave it so. Else say less, or pay less afterwards.",
            rows=tuple(rollout_row(p, "no more than a constant reply") for p in rule.paid[:3]),
        )


def end_is_final(trial: Trial) -> Iterator[Finding]:
    """No reply after the end of a game may count.

    A blocker: a model that plays any allowed moves until the game is over, and then says anything, is paid.
    """
    games = [game for game in trial.accepted if game.after_end]
    if len(games) < _TASKS or len(games) < len(trial.accepted):
        return
    first = games[0].after_end[0]
    replies = [str(m.get("content")) for m in first.result.messages if m.get("role") == "assistant"]
    yield Finding(
        "reward-hackable",
        "blocker",
        "replies count after the end of the game: once no reply of a solution is refused or answered any more, each of "
        f"{count(len(games[0].after_end), 'different last reply', 'different last replies')} wins, also "
        f"{quote(replies[-1], 60)} after {', '.join(quote(reply, 60) for reply in replies[:-1])}; so on "
        f"{count(len(games), 'task')}",
        "End the rollout as soon as the game is won or lost, whoever made the last move (v1: return from Env.run; v0: "
        "is_completed), and pay by who won first.",
        rows=tuple(rollout_row(game.after_end[0], "what the lost game earned before this reply") for game in games[:3]),
    )


def shortcut_is_paid(trial: Trial) -> Iterator[Finding]:
    """Copying from the prompt, or from what a fixed call returns, must not be paid in place of solving the task."""
    for shortcut in trial.shortcuts:
        chance = max(shortcut.constant, deserved_share(trial, [p.row for p in shortcut.tried]))
        if len(shortcut.paid) < (chance + _MARGIN) * len(shortcut.tried):
            continue
        paid = f"{len(shortcut.paid)} of {count(len(shortcut.tried), 'task')}"
        where = "the answer can be copied without understanding the task"
        fix = "Keep the answer out of prompts, replies, errors, help and listings, and of files that every task has."
        if shortcut.file:
            where = f"the gold lies in {quote(shortcut.file.removeprefix('./'), 80)} in {paid}"
            fix = (
                "Keep the gold out of what the model's commands can read: compare it in the reward, outside of the "
                "runtime (lab://guide/rewards), and write what a check needs only after the model has finished."
            )
        yield Finding(
            "reward-hackable",
            "blocker",
            f"{where}: a model that {shortcut.name} is paid on {paid} ({shortcut.compared}: {shortcut.constant:.0%})",
            fix,
            rows=tuple(rollout_row(p, f"no more than {shortcut.compared}") for p in shortcut.paid[:3]),
        )


def first_reply_is_stated(trial: Trial) -> Iterator[Finding]:
    """The prompt of a game must not state the first reply of its solution.

    A warning, because the later replies are left to the model: where they are stated too, `shortcut_is_paid` blocks.
    """
    stated = [p for p in trial.solved.scored if p.row in trial.hinted]
    if stated and not trial.shortcuts:
        yield Finding(
            "gold-in-prompt",
            "warning",
            f"the prompts of {count(len(stated), 'task')} state the first reply of the solution, in the same place of "
            "each: copying it takes no thought",
            "Take it out of the prompt, unless such a hint is meant; an example of a reply may be the same everywhere.",
            rows=tuple(rollout_row(p, "a prompt without the reply") for p in stated[:2]),
        )


def references_tell(trial: Trial) -> Iterator[Finding]:
    """References in the prompts must not tell the answers, where only the reward shows which field holds these."""
    if gold_is_understood(trial):
        yield from leaking_references(trial.classes, trial.systems)


def label_tells(trial: Trial) -> Iterator[Finding]:
    """An entry of the prompts must not hold the answers, where only the reward shows which field holds these."""
    if gold_is_understood(trial):
        yield from leaking_labels(trial.unnamed)


def items_are_in_order(trial: Trial) -> Iterator[Finding]:
    """The prompts must not list items in the right order, where only the reward shows which field holds this order."""
    if gold_is_understood(trial):
        yield from leaking_order(trial.unnamed)


def list_is_cut(trial: Trial) -> Iterator[Finding]:
    """A tool must not leave entries out without saying so.

    A blocker where a task asks how many entries there are and its gold counts more than the tool ever returns: an
    honest rollout states another number and is paid nothing. Otherwise a warning, because the entries that are left out
    may matter to no task.
    """
    capped = trial.capped
    if capped is None:
        return
    blocks = bool(capped.unreachable) and gold_is_understood(trial)
    yield Finding(
        "reward-gold-fails",
        "blocker" if blocks else "warning",
        f"the tool {quote(capped.tool, 60)} returns at most {capped.length} entries and does not say so: {capped.cut} "
        f"of {count(capped.answers, 'list')} have exactly {capped.length}"
        + (
            f", and {count(len(capped.unreachable), 'task')} with a larger right answer "
            f"{'asks' if len(capped.unreachable) == 1 else 'ask'} how many there are"
            if blocks
            else "; answers that count or compare all entries cannot be found"
        ),
        "Return all entries, or add a page argument and say in the answer how many there are; or tell the limit in the "
        "tool's description and compute the golds within it.",
        rows=tuple(
            {"task": row, "prompt": quote(prompt, 160), "gold": gold, "call": capped.call}
            for row, prompt, gold in capped.unreachable[:3]
        )
        or ({"call": capped.call, "entries": capped.length},),
    )


def _constant_share(trial: Trial, rule: CopyingRule) -> float:
    """Return the share of tasks on which a constant reply is paid or deserves to be."""
    return max(rule.constant, deserved_share(trial, [p.row for p in rule.tried]))


def _exceeds(rule: CopyingRule, chance: float) -> bool:
    """Whether a rule is paid on clearly more tasks than a share of `chance`."""
    return rule.share >= chance + _MARGIN and binomial_tail(len(rule.paid), len(rule.tried), chance) <= _CHANCE


def _gives_away(trial: Trial, rule: CopyingRule) -> bool:
    """Whether the messages give answers away: solutions do not just report one message, or the opening is an answer."""
    return rule.attempt or (bool(trial.solved.scored) and rule.solution_copies != 1)


def _golds(trial: Trial, row: int) -> tuple[str, ...]:
    """Return the spellings of a task's gold that are long enough for the search."""
    style = trial.style
    gold = next((g for g in style.golds.golds if g.row == row), None) if style is not None else None
    if style is None or gold is None:
        return ()
    forms = dict.fromkeys(form.strip() for form in (*gold.forms, style.answer_text(gold)))
    return tuple(form for form in forms if _SHORTEST <= len(form) <= _LONGEST)


def _answer(trial: Trial, solved: PlayedScript) -> tuple[str, ...]:
    """Return the answer in the last reply of a solution, as a tuple; empty if it is too short or too long."""
    before, _, after = trial.style.wrapper.wrap("\0").partition("\0") if trial.style is not None else ("", "", "")
    answer = last_reply(solved).partition(before)[2] if before else last_reply(solved)
    answer = (answer.partition(after)[0] if after else answer).strip()
    return (answer,) if _SHORTEST <= len(answer) <= _LONGEST else ()


def _states_gold(messages: Sequence[Message], golds: Sequence[str]) -> bool:
    """Whether the environment states a gold between the first and the last message of the model.

    A gold in the prompt or in the arguments of a call does not count.
    """
    turns = [n for n, m in enumerate(messages) if m.get("role") == "assistant"]
    if len(turns) < 2:
        return False
    before = [str(m.get("content") or "") for m in messages[: turns[0]]]
    asked = [
        str((call.get("function") or call).get("arguments") or "")
        for m in messages
        if m.get("role") == "assistant"
        for call in m.get("tool_calls") or ()
    ]
    between = [m for m in messages[turns[0] : turns[-1]] if m.get("role") != "assistant"]
    unknown = [gold for gold in golds if not _stated(gold, (*before, *asked))]
    return any(_stated(gold, [str(m.get("content") or "")]) for gold in unknown for m in between)


def _stated(gold: str, texts: Iterable[str]) -> bool:
    """Whether one of the texts contains the gold as a separate word or number."""
    alone = re.compile(rf"(?<![\w.]){re.escape(gold)}(?!\w|\.\d)", re.IGNORECASE)
    return any(alone.search(text) for text in texts)


LEAK_RULES: tuple[RewardRule, ...] = (
    answer_leaked,
    state_survives,
    remembers_rollouts,
    writes_last,
    rollouts_mix,
    key_is_readable,
    emptying_is_paid,
    end_is_final,
    copying_is_paid,
    shortcut_is_paid,
    first_reply_is_stated,
    references_tell,
    label_tells,
    items_are_in_order,
    list_is_cut,
)
