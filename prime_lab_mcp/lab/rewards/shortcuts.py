"""Plays a model that copies an answer from a fixed place: of the prompt, or of what a fixed call returns.

A solution of a task shows what has to be found out: the answer of its last reply, or an argument of a call. On a few
tasks the module looks for these texts in the prompt, in the environment's reply to chatter, and in what every tool
returns to calls whose arguments are the same in all tasks: idle ones, and those of another task's solution. With a
shell, it also looks into the files that a rollout can read (shell_files.py). Where the texts stand behind the same
words in all of these tasks, a scripted model copies what stands behind these words on other tasks. Calls with the same
arguments in every task, and a copy from the same place, need no understanding of the task. Where solutions do the same,
the task is to look something up and report it, and nothing is said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets.task_golds import message_text
from prime_lab_mcp.lab.rewards import scripts
from prime_lab_mcp.lab.rewards.copied_messages import ReplyForm, own_replies
from prime_lab_mcp.lab.rewards.copied_places import Place, find_place, same_text
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.shell_files import (
    FEWEST_CHARACTERS,
    ShellTool,
    common_paths,
    listed_files,
    reads_file,
    shell_tools,
)
from prime_lab_mcp.lab.rewards.solutions import Solved
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, HALF_SHARE
from prime_lab_mcp.lab.worker.child import copying
from prime_lab_mcp.lab.worker.child.scripted_rollouts import arguments
from prime_lab_mcp.lab.worker.description import Message, Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import OfferedTool

_LEARNING = 3
"""Number of tasks on which places are looked for."""
_JUDGING, _FEWEST = 8, 5
"""Largest and smallest number of other tasks on which a place is judged."""
_PAID = 0.9
"""Share of the judged tasks on which a shortcut must be paid. A place that is right on half of the tasks, such as the
first of two names in the prompt, passes by chance in less than one of 200 environments."""
_MOST = 3
"""Largest number of places that are tried."""
_SECONDS = 40.0
"""Time limit in seconds for one request of rollouts."""
_AGAIN = 4
"""Most times that rollouts without time left are requested again, as long as some of them are played."""
_LATE = ("slow", "not-run")
"""Ends of rollouts that say nothing about the environment: the time was up."""
_FILLS = ("example", "1", "--help", "ls", "SELECT name, sql FROM sqlite_master")
"""What a model that understands nothing gives a tool: nonsense, a number, and the usual ways to ask what there is."""
_MOST_TOOLS, _MOST_CALLS = 8, 24
"""Largest number of tools that are called, and of calls in one turn."""
_FOREIGN = 6
"""Largest number of calls of another task's solution that are made in every task."""
_MOST_NAMES = 12
"""Largest number of names in the output of tools that are given to tools: of files, tables or keys."""
_NAME = re.compile(r"\w[\w./-]{2,60}")


@dataclass(frozen=True, slots=True)
class _Target:
    """What a solution gives: the answer of its reply, or the text argument of a call of the tool `into`."""

    into: str
    texts: tuple[str, ...]
    """One for each learning task."""


@dataclass(frozen=True, slots=True)
class _Way:
    """A way to copy: turns that are the same in every task, then the text at a place."""

    how: str
    turns: tuple[Any, ...]
    place: Place
    target: _Target
    file: str = ""
    """The path of the file in which the text stands, if one of the calls reads it."""

    def script(self, form: ReplyForm) -> RolloutScript:
        data: dict[str, Any] = {"turns": list(self.turns), "then": "repeat", "copy": self.place.data}
        data |= {"before": form.before, "after": form.after}
        data |= {"into": self.target.into} if self.target.into else {}
        name = f"{self.how}copies {self.place.name}" + (f" into {self.target.into}" if self.target.into else "")
        return RolloutScript(name, "copied", data)


@dataclass(frozen=True, slots=True)
class Shortcut:
    """A way to copy that is paid, with its rollouts on tasks on which it was not found."""

    name: str
    """The behaviour, as the end of "a model that ..."."""
    tried: tuple[PlayedScript, ...]
    paid: tuple[PlayedScript, ...]
    """The rollouts that earned at least half of the best reward."""
    constant: float
    """The share of these tasks on which `compared` is paid."""
    compared: str = "the replies of another task's solution"
    """What a model without understanding says, with which the copy is compared."""
    file: str = ""
    """The path of the file that holds the answer, if the copy is made from one."""


async def play_shortcuts(worker: Worker, form: ReplyForm, solved: Solved, rows: Sequence[Row]) -> tuple[Shortcut, ...]:
    """Look for places that hold what solutions give. Return the first from which copying is paid on other tasks."""
    learning = _learning(solved, form)
    if len(learning) < _LEARNING:
        return ()
    targets = list(_targets(learning, form))
    prompts = _prompts(learning, rows)
    named = _named_in_prompts(learning, prompts)
    same_calls = _calls_of(learning[0], named)
    ways = list(_in_prompts(learning, targets, prompts))
    tools = next((p.result.tools for p in learning if p.result.tools), ())
    shell = next(shell_tools(tools), None)
    calls = _fixed_calls(tools, _FILLS, named)
    calls += [call for turn in same_calls[:_FOREIGN] for call in turn["calls"] if call not in calls]
    explored = await _explored(worker, learning, calls, _searches(shell, learning, targets))
    ways += _in_messages(explored, calls, targets)
    paths = _paths(explored) if shell else []
    names = _common_names(explored, learning, prompts)
    reads = [[name, dict(given)] for name, given in shell.reads(paths)] if shell else []
    others = [tool for tool in tools if shell is None or tool.name != shell.tool.name]
    if names:
        names += [f"SELECT * FROM {n}" for n in names if n.isidentifier()]
        reads += _fixed_calls(others, names, named)
    if reads:
        explored = await play_pairs(worker, [(p.row, _constant({"calls": reads})) for p in learning])
        ways += _in_messages(explored, reads, targets, paths)
    ways = [way for way in ways if not _is_task(way, learning, named, prompts)]
    return await _first_paid(worker, ways, _beside(same_calls, shell), form, solved, learning, rows)


async def play_file_shortcuts(
    worker: Worker, form: ReplyForm, style: AnswerStyle, rows: Sequence[Row]
) -> tuple[Shortcut, ...]:
    """Look for files of a shell that hold golds, where no solution shows how tasks are solved.

    A file that the prompts name is left out: to read it may be the task. Empty if a right reply alone earns nothing.
    """
    golds = list({style.answer_text(gold): gold for gold in style.golds.golds}.values())[:_LEARNING]
    said = await play_pairs(worker, [(gold.row, scripts.gold_script(style.render(gold))) for gold in golds])
    shell = next(shell_tools(next((p.result.tools for p in said if p.result.tools), ())), None)
    solved = Solved(tuple(said))
    learning = _learning(solved, form)
    if shell is None or len(learning) < _LEARNING:
        return ()
    targets = list(_targets(learning, form))
    paths = _paths(await _explored(worker, learning, [], _searches(shell, learning, targets)))
    prompts = "\n".join(message_text(m) for row in rows for m in row.prompt)
    paths = [path for path in paths if path.rsplit("/", 1)[-1] not in prompts]
    reads = [[name, dict(given)] for name, given in shell.reads(paths)]
    explored = await play_pairs(worker, [(p.row, _constant({"calls": reads})) for p in learning] if reads else [])
    ways = list(_in_messages(explored, reads, targets, paths))
    return await _first_paid(worker, ways, _beside((), shell), form, solved, learning, rows)


def _beside(same_calls: tuple[Any, ...], shell: ShellTool | None) -> list[tuple[Any, ...]]:
    """Return the turns that a way is tried with: none, the calls of one solution, and a look into all files.

    A reward may ask for a call that worked, or for one that names a file of the task.
    """
    looks = [({"calls": [[shell.tool.name, shell.reads_all()[1]]]},)] if shell is not None else []
    return [(), *([same_calls] if same_calls else []), *looks]


def _learning(solved: Solved, form: ReplyForm) -> list[PlayedScript]:
    """Return rollouts of paid solutions that differ, on which places are looked for.

    Those whose answers are too short to be searched in files come last: each of them would hide a file of all tasks.
    """
    right = [p for p in solved.scored if solved.best > EPSILON and (p.result.reward or 0.0) >= HALF_SHARE * solved.best]
    right.sort(key=lambda p: len(_answer_in(_given_reply(p), form)) < FEWEST_CHARACTERS)
    return list({_given_reply(p) + _arguments_text(p): p for p in right}.values())[:_LEARNING]


def _answer_in(reply: str, form: ReplyForm) -> str:
    """Return the answer that stands in a reply of this form."""
    inner = reply.partition(form.before)[2] if form.before else reply
    return (inner.partition(form.after)[0] if form.after else inner).strip()


def _prompts(learning: Sequence[PlayedScript], rows: Sequence[Row]) -> list[str]:
    by_row = {row.index: row for row in rows}
    return [copying.place_text("prompt", prompt_messages(by_row.get(p.row))) for p in learning]


async def _explored(
    worker: Worker,
    learning: Sequence[PlayedScript],
    calls: Sequence[list[Any]],
    searches: Mapping[int, list[list[Any]]],
) -> list[PlayedScript]:
    """Play the same calls in every task, with the search of each task as the last of them, and then chatter."""
    wanted: list[tuple[int, RolloutScript]] = []
    for p in learning:
        made = [*calls, *searches.get(p.row, ())]
        wanted.append((p.row, _constant(*([{"calls": made}] if made else ()), scripts.CHATTER)))
    return await play_pairs(worker, wanted)


def _paths(explored: Sequence[PlayedScript]) -> list[str]:
    """Return the paths that the searches of all rollouts have listed."""
    return common_paths([listed_files(_last_result(p)) for p in explored])


async def _first_paid(
    worker: Worker,
    ways: Sequence[_Way],
    beside: Sequence[tuple[Any, ...]],
    form: ReplyForm,
    solved: Solved,
    learning: Sequence[PlayedScript],
    rows: Sequence[Row],
) -> tuple[Shortcut, ...]:
    """Return the first of these ways that is paid on other tasks."""
    learned = {p.row for p in learning}
    others = [row.index for row in rows if row.index not in learned]
    judging = others[:: max(1, len(others) // _JUDGING)][:_JUDGING]
    for way in ways[:_MOST]:
        shortcut = await _judged(worker, way, beside, form, solved, learning, judging)
        if shortcut is not None:
            return (shortcut,)
    return ()


async def _judged(
    worker: Worker,
    way: _Way,
    beside: Sequence[tuple[Any, ...]],
    form: ReplyForm,
    solved: Solved,
    learning: Sequence[PlayedScript],
    judging: Sequence[int],
) -> Shortcut | None:
    """Return the way as a shortcut if it is paid on the learning tasks and on nearly all judged ones.

    The turns of `beside` are tried behind its own.
    """
    script = None
    for turns in beside:
        how = way.how or ("makes the same calls in every task and " if turns else "")
        tried_way = replace(way, turns=(*way.turns, *turns), how=how)
        known = await play_pairs(worker, [(p.row, tried_way.script(form)) for p in learning[1:]])
        if len(known) == _LEARNING - 1 and all(is_paid(p, solved) for p in known):
            script = tried_way.script(form)
            break
    if script is None:
        return None
    tried = await play_pairs(worker, [(row, script) for row in judging])
    paid = [p for p in tried if is_paid(p, solved)]
    if len(tried) < _FEWEST or len(paid) < _PAID * len(tried):
        return None
    other = scripts.replay_script("gives the replies of another task's solution", learning[0].result.messages)
    constant = await play_pairs(worker, [(p.row, other) for p in tried])
    return Shortcut(
        script.name,
        tuple(tried),
        tuple(paid),
        sum(is_paid(p, solved) for p in constant) / max(1, len(constant)),
        file=way.file,
    )


def _is_task(
    way: _Way, learning: Sequence[PlayedScript], named: Mapping[str, Mapping[str, str]], prompts: Sequence[str]
) -> bool:
    """Whether solutions copy in the same way, so that to look something up and report it is the task.

    They take the text from what the same calls return, or read the same file, or all of their calls come from the
    prompt as the reply does.
    """
    if way.file and all(reads_file(list(_stated_texts(p)), way.file) for p in learning):
        return True
    if way.place.of == "messages":
        copied = all(map(same_text, map(way.place.piece, _messages(learning)), way.target.texts))
        return copied and _ask_alike(learning, prompts, way.target.texts)
    stated = [
        [(name, {k: v for k, v in given.items() if k not in named}) for name, given in _calls(p)] for p in learning
    ]
    replies = [sum(m.get("role") == "assistant" and not m.get("tool_calls") for m in r) for r in _messages(learning)]
    return max(replies) < 2 and all(calls == stated[0] for calls in stated)


def _ask_alike(learning: Sequence[PlayedScript], prompts: Sequence[str], answers: Sequence[str]) -> bool:
    """Whether all solutions make the same calls, apart from what their rollout has told them or what they hand in."""
    made = [list(_own_arguments(p, *texts)) for p, *texts in zip(learning, prompts, answers, strict=True)]
    return all(calls == made[0] for calls in made)


def _own_arguments(played: PlayedScript, prompt: str, answer: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the calls of a rollout with the arguments that neither its messages so far nor its answer state."""
    read = f"{prompt}\n{answer}".casefold()
    for message in played.result.messages:
        for name, given in _calls_in(message):
            yield name, {key: value for key, value in given.items() if str(value).strip().casefold() not in read}
        read += f"\n{message.get('content') or ''}".casefold()


def _stated_texts(played: PlayedScript) -> Iterator[str]:
    """Yield the texts among the arguments of a rollout's calls."""
    for _, given in _calls(played):
        yield from (value for value in given.values() if isinstance(value, str))


def _searches(
    shell: ShellTool | None, learning: Sequence[PlayedScript], targets: Sequence[_Target]
) -> dict[int, list[list[Any]]]:
    """Map tasks to the call of a shell that lists the files with what their solutions give."""
    if shell is None:
        return {}
    found = {p.row: shell.search([target.texts[n] for target in targets]) for n, p in enumerate(learning)}
    return {row: [[made[0], dict(made[1])]] for row, made in found.items() if made is not None}


def _last_result(played: PlayedScript) -> str:
    """Return what the last call of a rollout returned."""
    results = [str(m.get("content") or "") for m in played.result.messages if m.get("role") == "tool"]
    return results[-1] if results else ""


def _messages(played: Sequence[PlayedScript]) -> Iterator[Sequence[Message]]:
    return (p.result.messages for p in played)


def _targets(learning: Sequence[PlayedScript], form: ReplyForm) -> Iterator[_Target]:
    """Yield what the solutions of the learning tasks give, where it differs between the tasks."""
    answers = [_answer_in(_given_reply(p), form) for p in learning]
    if all(answers) and len(set(answers)) > 1:
        yield _Target("", tuple(answers))
    given = [_text_arguments(p) for p in learning]
    for key in given[0]:
        texts = [one.get(key, "") for one in given]
        if all(len(text) > 1 for text in texts) and len(set(texts)) > 1:
            yield _Target(key[0], tuple(texts))


def _given_reply(played: PlayedScript) -> str:
    """Return the last reply that the solution itself has."""
    return (own_replies(played) or [""])[-1]


def _text_arguments(played: PlayedScript) -> dict[tuple[str, str], str]:
    """Map (tool, argument) to the text of the last such argument in a rollout."""
    texts: dict[tuple[str, str], str] = {}
    for name, given in _calls(played):
        texts |= {(name, key): value.strip() for key, value in given.items() if isinstance(value, str)}
    return texts


def _arguments_text(played: PlayedScript) -> str:
    return json.dumps([given for _, given in _calls(played)], sort_keys=True)


def _calls(played: PlayedScript) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for message in played.result.messages:
        yield from _calls_in(message)


def _calls_in(message: Message) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for call in message.get("tool_calls") or ():
        function = call.get("function") or call
        try:
            given = json.loads(function.get("arguments") or "{}")
        except ValueError:
            continue
        if isinstance(given, dict):
            yield str(function.get("name")), given


def _in_prompts(learning: Sequence[PlayedScript], targets: Sequence[_Target], prompts: Sequence[str]) -> Iterator[_Way]:
    """Yield the places of answers in prompts, for tasks that are solved by calls or in several turns."""
    if any(sum(m.get("role") == "assistant" for m in messages) < 2 for messages in _messages(learning)):
        return
    for target in targets:
        place = find_place("prompt", prompts, target.texts)
        if place is not None and not target.into:
            yield _Way("", (), place, target)


def _calls_of(played: PlayedScript, named: Mapping[str, Mapping[str, str]]) -> tuple[Any, ...]:
    """Return the calls of a rollout as turns of a script. Arguments in `named` come from the prompt of each task."""
    calls = [[name, {key: named.get(key, value) for key, value in given.items()}] for name, given in _calls(played)]
    return tuple({"calls": [call]} for call in calls[:_MOST_CALLS])


def _named_in_prompts(learning: Sequence[PlayedScript], prompts: Sequence[str]) -> dict[str, dict[str, str]]:
    """Map arguments of calls to the places of the prompt from which every solution takes them, such as an id."""
    given = [{key: value for _, stated in _calls(p) for key, value in stated.items()} for p in learning]
    named: dict[str, dict[str, str]] = {}
    for key, first in given[0].items():
        values = [one.get(key) for one in given]
        if isinstance(first, bool) or not all(isinstance(value, str | int) for value in values):
            continue
        place = find_place("prompt", prompts, [str(value) for value in values])
        if place is not None:
            named[key] = place.data | {"as": "text" if isinstance(first, str) else "number"}
    return named


def _fixed_calls(
    tools: Sequence[OfferedTool], texts: Sequence[str], named: Mapping[str, Mapping[str, str]]
) -> list[list[Any]]:
    """Return calls of every tool with every text, as a script has them. Arguments in `named` come from the prompt."""
    calls: list[list[Any]] = []
    for tool in tools[:_MOST_TOOLS]:
        known = tool.parameters.get("properties") or {}
        for text in texts:
            given = arguments(tool.parameters, text) | {n: place for n, place in named.items() if n in known}
            if [tool.name, given] not in calls:
                calls.append([tool.name, given])
    return calls[:_MOST_CALLS]


def _in_messages(
    explored: Sequence[PlayedScript], calls: Sequence[list[Any]], targets: Sequence[_Target], paths: Sequence[str] = ()
) -> Iterator[_Way]:
    """Yield the places of targets in what single calls return, or in the reply to chatter.

    The first calls read the files `paths`.
    """
    if len(explored) < _LEARNING:
        return
    answered = [dict(_answered(p)) for p in explored]
    for target in targets:
        for number in answered[0]:
            texts = [one[number] for one in answered if number in one]
            place = find_place("messages", texts, target.texts)
            if place is None:
                continue
            if number is None:
                yield _Way("chatters, then ", (scripts.CHATTER,), place, target)
            elif number < len(calls):
                name, given = calls[number]
                shown = {key: "(from the prompt)" if isinstance(v, dict) else v for key, v in given.items()}
                file = paths[number] if number < len(paths) else ""
                asked = str(next(iter(given.values()))) if file else json.dumps(shown)
                how = f"calls {name} with {quote(asked, 80)} and "
                yield _Way(how, ({"calls": [calls[number]]},), place, target, file)


def _answered(played: PlayedScript) -> Iterator[tuple[int | None, str]]:
    """Yield (number, text) for what each call returns, and (None, text) for the reply to the first text."""
    ids: list[str] = []
    said = False
    for message in played.result.messages:
        text = str(message.get("content") or "")
        if message.get("role") == "assistant":
            ids += [str(call.get("id")) for call in message.get("tool_calls") or ()]
            said = said or bool(text)
        elif message.get("role") == "tool" and message.get("tool_call_id") in ids:
            yield ids.index(str(message["tool_call_id"])), text
        elif message.get("role") == "user" and said:
            yield None, text
            return


def _common_names(
    explored: Sequence[PlayedScript], learning: Sequence[PlayedScript], prompts: Sequence[str]
) -> list[str]:
    """Return names that tools state in every learning task, such as those of files, and that no prompt or call has."""
    if len(explored) < _LEARNING:
        return []
    stated = [dict.fromkeys(n for _, text in _answered(p) for n in _NAME.findall(text)) for p in explored]
    written = [m for messages in _messages(learning) for m in messages if m.get("role") != "tool"]
    known = {n for m in written for n in _NAME.findall(str(m.get("content") or ""))}
    known |= {n for prompt in prompts for n in _NAME.findall(prompt)}
    known |= {n for p in learning for n in _NAME.findall(_arguments_text(p))}
    common = [n for n in stated[0] if all(n in names for names in stated) and not n.isdigit() and n not in known]
    common.sort(key=lambda name: not any(mark in name for mark in "./_"))
    return common[:_MOST_NAMES]


def prompt_messages(row: Row | None) -> list[dict[str, Any]]:
    """Return the prompt of a task, which the messages of a rollout do not repeat."""
    prompt = row.prompt if row is not None else ()
    return [{"role": m.get("role"), "content": message_text(m)} for m in prompt]


def _constant(*turns: Any) -> RolloutScript:
    """Return a script whose turns are the same in every task."""
    return RolloutScript("makes the same calls in every task", "copied", {"turns": list(turns), "then": "silence"})


def is_paid(played: PlayedScript, solved: Solved) -> bool:
    """Whether a rollout earned at least half of what the best solution earns."""
    return played.scored and (played.result.reward or 0.0) >= HALF_SHARE * solved.best - EPSILON


async def play_pairs(worker: Worker, wanted: Sequence[tuple[int, RolloutScript]]) -> list[PlayedScript]:
    """Play pairs (task, script) and return those that were run."""
    if not wanted:
        return []
    try:
        results = list((await worker.rollout([scripts.as_play(s, row) for row, s in wanted], seconds=_SECONDS)).results)
        late = [n for n, result in enumerate(results) if result.end in _LATE]
        begins = len(late) < len(results) or scripts.began_slowly(results)
        for _ in range(_AGAIN if begins else 0):  # A busy machine, or rollouts in containers, which start slowly.
            plays = [scripts.as_play(wanted[n][1], wanted[n][0]) for n in late]
            again = (await worker.rollout(plays, seconds=_SECONDS)).results if plays else ()
            for n, result in zip(late, again, strict=False):
                results[n] = result
            still = [n for n in late if results[n].end in _LATE]
            if len(still) == len(late):
                break
            late = still
    except LabError:
        return []  # The rules about rollouts report an error that breaks the process.
    pairs = zip(wanted, results, strict=False)
    return [PlayedScript(row, script, result) for (row, script), result in pairs if result.end not in _LATE]
