"""Shortcuts and surviving state in small environments, played by the scripted model in this process.

Each environment is sound, and has one flaw if `leak` names it. `Rollouts` stands where a worker does: it plays the same
scripts with the same scripted model, without a process for each environment.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.datasets.task_golds import SampleGolds, TaskGold
from prime_lab_mcp.lab.rewards.copied_messages import reply_form
from prime_lab_mcp.lab.rewards.copied_places import find_place
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.probes.answer_formats import AnswerWrapper
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule
from prime_lab_mcp.lab.rewards.rules.leaked_answers import shortcut_is_paid, state_survives
from prime_lab_mcp.lab.rewards.rules.solutions import SOLUTION_RULES
from prime_lab_mcp.lab.rewards.shortcuts import play_file_shortcuts, play_shortcuts
from prime_lab_mcp.lab.rewards.solutions import Solved, calls_before_answer, play_solutions
from prime_lab_mcp.lab.worker.child.scripted_rollouts import ScriptedModel
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.scoring import OfferedTool, RolloutResult

pytestmark = pytest.mark.anyio
TASKS, MOST_TURNS = 60, 8
NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")
Calls = dict[str, Any]


def call(name: str, **arguments: str) -> Calls:
    return {"role": "assistant", "tool_calls": [{"name": name, "arguments": arguments}]}


def tool(name: str, *texts: str) -> dict[str, Any]:
    properties = {text: {"type": "string"} for text in texts}
    return {"name": name, "description": "", "parameters": {"properties": properties, "required": list(texts)}}


class Shop:
    """A question per shop, answered by one query. The reward asks for a query that worked."""

    def __init__(self, leak: str = "") -> None:
        self.leak = leak

    def gold(self, row: int) -> str:
        return str(100 + 37 * row % 611)

    def query(self, row: int) -> str:
        return f"SELECT count(*) FROM o WHERE city = 'c{row}'"

    def prompt(self, row: int) -> str:
        return f"ticket {row} | ref {self.gold(row) if self.leak == 'prompt' else 900 + 7 * row}\nHow many orders?"

    def tools(self) -> list[dict[str, Any]]:
        return [tool("describe"), tool("run_sql", "sql"), tool("check", "answer")]

    def solution(self, row: int) -> list[Any]:
        return [call("run_sql", sql=self.query(row)), f"<answer>{self.gold(row)}</answer>"]

    def result(self, state: dict[str, Any], name: str, given: dict[str, str]) -> str:
        row = state["row"]
        if name == "describe":
            return f"CREATE TABLE o;\n-- {f'expected {self.gold(row)}' if self.leak == 'describe' else f'{row} rows'}"
        if name == "check":
            told = f"wrong: {given['answer']} instead of {self.gold(row)}" if self.leak == "check" else "it is a number"
            return told if given["answer"].isdigit() else "error: digits, please"
        if given["sql"].startswith("SELECT count"):
            state["worked"] = True
            found = self.gold(row) if given["sql"] == self.query(row) else "7"
            return f"{found}\n-- checked: {self.gold(row)}" if self.leak == "every result" else found
        return f"error: syntax (expected {self.gold(row)})" if self.leak == "error" else "error: syntax"

    def response(self, state: dict[str, Any], text: str) -> str | None:
        return None

    def reward(self, state: dict[str, Any], last: str) -> float:
        return float(bool(state.get("worked")) and last == f"<answer>{self.gold(state['row'])}</answer>")


class SharedShop(Shop):
    """The same shop behind tools for all tasks, which are told the number of the shop."""

    def tools(self) -> list[dict[str, Any]]:
        tools = [tool("describe"), tool("run_sql", "sql")]
        for one in tools:
            one["parameters"]["properties"]["shop"] = {"type": "integer"}
            one["parameters"]["required"].append("shop")
        return tools

    def solution(self, row: int) -> list[Any]:
        query, answer = super().solution(row)
        query["tool_calls"][0]["arguments"]["shop"] = row
        return [query, answer]

    def result(self, state: dict[str, Any], name: str, given: dict[str, Any]) -> str:
        return super().result(state, name, given) if given["shop"] == state["row"] else "error: another shop"


class Files(Shop):
    """A tree of files, of which one answers the question."""

    def gold(self, row: int) -> str:
        return NAMES[3 * row % 7]

    def tools(self) -> list[dict[str, Any]]:
        return [tool("ls"), tool("read", "path")]

    def solution(self, row: int) -> list[Any]:
        path = f"services/{self.gold(row)}.conf"
        return [call("ls"), call("read", path=path), f"<answer>{self.gold(row)}</answer>"]

    def result(self, state: dict[str, Any], name: str, given: dict[str, str]) -> str:
        files = {f"services/{n}.conf": f"name = {n}\nport = {state['row']}{i}\n" for i, n in enumerate(NAMES)}
        files["tests/expected.txt"] = f"answer = {self.gold(state['row'])}" if self.leak else "format = a name"
        if name == "ls":
            return "\n".join(sorted(files))
        state["worked"] = given["path"] in files
        return files.get(given["path"], "error: no such file")


class CommandLine(Shop):
    """One command of a command-line tool, which the state keeps."""

    def gold(self, row: int) -> str:
        return f"{('sort', 'keep', 'drop')[row % 3]} -k {1 + row // 3 % 4}"

    def tools(self) -> list[dict[str, Any]]:
        return [tool("tab", "command")]

    def solution(self, row: int) -> list[Any]:
        return [call("tab", command=self.gold(row)), "Done."]

    def result(self, state: dict[str, Any], name: str, given: dict[str, str]) -> str:
        if given["command"].split()[0] not in ("sort", "keep", "drop"):
            return f"usage: tab COMMAND -k N\nexample: tab {self.gold(state['row']) if self.leak else 'sort -k 1'}"
        state["done"] = given["command"]
        return "ok"

    def reward(self, state: dict[str, Any], last: str) -> float:
        return float(state.get("done") == self.gold(state["row"]))


class Weather(Shop):
    """The task is to report what the one tool says."""

    def tools(self) -> list[dict[str, Any]]:
        return [tool("weather")]

    def solution(self, row: int) -> list[Any]:
        return [call("weather"), f"<answer>{self.gold(row)}</answer>"]

    def result(self, state: dict[str, Any], name: str, given: dict[str, str]) -> str:
        state["worked"] = True
        return f"It is {self.gold(state['row'])} degrees."


class Orders(Weather):
    """The task is to report a customer's order, whose number another call states. Each rollout has its own data."""

    def prompt(self, row: int) -> str:
        return f"Customer {NAMES[row % 7]}{row} asks what the order costs."

    def tools(self) -> list[dict[str, Any]]:
        return [tool("find", "customer"), tool("order", "number")]

    def solution(self, row: int) -> list[Any]:
        look = call("find", customer=f"{NAMES[row % 7]}{row}")
        return [look, call("order", number=str(5000 + row)), f"<answer>{self.gold(row)}</answer>"]

    def result(self, state: dict[str, Any], name: str, given: dict[str, str]) -> str:
        state["worked"] = True
        return (
            f"The order has the number {5000 + state['row']}." if name == "find" else f"cost: {self.gold(state['row'])}"
        )


class Lamp(Shop):
    """The task is to switch on what the prompt names, and to confirm it."""

    def gold(self, row: int) -> str:
        return NAMES[3 * row % 7]

    def prompt(self, row: int) -> str:
        return f"Room: {self.gold(row)}\nSwitch the lamp on."

    def tools(self) -> list[dict[str, Any]]:
        return [tool("lamp", "room")]

    def solution(self, row: int) -> list[Any]:
        return [call("lamp", room=self.gold(row)), f"<answer>{self.gold(row)}</answer>"]

    def result(self, state: dict[str, Any], name: str, given: dict[str, str]) -> str:
        state["worked"] = given["room"] == self.gold(state["row"])
        return "on" if state["worked"] else "error: another room"


class Desk(Shop):
    """The answer is handed in by a tool, whose server serves all rollouts."""

    def __init__(self, leak: str = "") -> None:
        super().__init__(leak)
        self.accepted: set[int] = set()

    def tools(self) -> list[dict[str, Any]]:
        return [tool("run_sql", "sql"), tool("submit", "answer")]

    def solution(self, row: int) -> list[Any]:
        return [call("run_sql", sql=self.query(row)), call("submit", answer=self.gold(row)), "Done."]

    def result(self, state: dict[str, Any], name: str, given: dict[str, str]) -> str:
        if name != "submit":
            return super().result(state, name, given)
        row, right = state["row"], given["answer"] == self.gold(state["row"])
        self.accepted |= {row} if right else set()
        state["right"] = right or (bool(self.leak) and row in self.accepted)
        return "accepted" if state["right"] else "not accepted"

    def reward(self, state: dict[str, Any], last: str) -> float:
        return float(state.get("right", False))


class Door(Shop):
    """A game of four moves without tools: fetch the key, open the door."""

    def __init__(self, leak: str = "") -> None:
        super().__init__(leak)
        self.unlocked: set[int] = set()

    def tools(self) -> list[dict[str, Any]]:
        return []

    def solution(self, row: int) -> list[Any]:
        return [f"<do>{text}</do>" for text in (f"go {1 + row % 9}", "take key", f"go {10 + row // 5}", "open door")]

    def response(self, state: dict[str, Any], text: str) -> str | None:
        row, move = state["row"], text.removeprefix("<do>").removesuffix("</do>")
        state["room"] = int(move[3:]) if move.startswith("go ") else state.get("room", 0)
        state["key"] = state.get("key") or (move == "take key" and state["room"] == 1 + row % 9)
        if move == "open door" and state["room"] == 10 + row // 5:
            state["out"] = state["key"] or (bool(self.leak) and row in self.unlocked)
            self.unlocked |= {row} if state["out"] else set()
        return None if state.get("out") else f"You are in room {state['room']}."

    def reward(self, state: dict[str, Any], last: str) -> float:
        return float(bool(state.get("out")))


class Box(Shop):
    """A question about a file, answered with the commands of a shell. Any right answer is paid.

    With `leak`, this file of each task holds the answer; `{}` in its name stands for the number of the task.
    """

    def __init__(self, root: Path, leak: str = "", content: str = "{}", read: str = "") -> None:
        super().__init__(leak)
        self.root, self.content, self.read = root, content, read

    def gold(self, row: int) -> str:
        return f"{100 + 37 * row % 611}.{row % 10}5" if row % 3 else f"red {row}.5; blue {row + 7}.25"

    def prompt(self, row: int) -> str:
        return f"What is the sum in sales_{row}.csv?"

    def tools(self) -> list[dict[str, Any]]:
        return [tool("bash", "command")]

    def solution(self, row: int) -> list[Any]:
        command = self.read or f"python3 -c 'print(sum([1, {row}]))'; head -n 1 sales_{row}.csv"
        return [call("bash", command=command), f"<answer>{self.gold(row)}</answer>"]

    def result(self, state: dict[str, Any], name: str, given: dict[str, str]) -> str:
        row = state["row"]
        folder = self.root / str(row)
        files = {f"sales_{row}.csv": f"n,total\n{row},7\n", "tool.py": "print('sum')\n"}
        files |= (
            {self.leak.replace("{}", f"case-{row}"): self.content.replace("{}", self.gold(row))} if self.leak else {}
        )
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        places = {"HOME": str(self.root / "home"), "TMPDIR": str(self.root / "home"), "PATH": os.environ["PATH"]}
        command = ["bash", "-c", given["command"]]
        done = subprocess.run(command, cwd=folder, env=places, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout + done.stderr

    def reward(self, state: dict[str, Any], last: str) -> float:
        return float(last == f"<answer>{self.gold(state['row'])}</answer>")


class Rollouts:
    """Plays scripts in an environment of this process."""

    def __init__(self, environment: Shop) -> None:
        self.environment = environment

    async def rollout(self, plays: Any, **_: Any) -> Any:
        results = [await self._play(play.row, dict(play.script)) for play in plays]
        return SimpleNamespace(results=results, unavailable="", by_design=False)

    async def _play(self, row: int, script: dict[str, Any]) -> RolloutResult:
        environment, state = self.environment, {"row": row}
        model = ScriptedModel(script, 2 * MOST_TURNS, lambda: environment.solution(row))
        model.offered(environment.tools())
        messages: list[dict[str, Any]] = [{"role": "user", "content": environment.prompt(row)}]
        for number in range(1, MOST_TURNS + 1):
            turn = await model.next(messages)
            if turn is None:
                break
            calls = [
                {"id": f"call_{number}_{n}", "function": {"name": name, "arguments": _as_text(given)}}
                for n, (name, given) in enumerate(turn.calls)
            ]
            messages.append({"role": "assistant", "content": turn.text, **({"tool_calls": calls} if calls else {})})
            messages += [
                {"role": "tool", "content": self._result(state, one["function"]), "tool_call_id": one["id"]}
                for one in calls
            ]
            if not calls:
                said = environment.response(state, turn.text or "")
                if said is None:
                    break
                messages.append({"role": "user", "content": said})
        offered = tuple(OfferedTool(t["name"], "", t["parameters"]) for t in environment.tools())
        reward = environment.reward(state, str(messages[-1]["content"] or ""))
        # A worker does not repeat the prompt.
        return RolloutResult(tuple(messages[1:]), reward, "ended", True, tools=offered, alone=reward)

    def _result(self, state: dict[str, Any], function: dict[str, Any]) -> str:
        try:
            return self.environment.result(state, function["name"], json.loads(function["arguments"]))
        except (ValueError, KeyError, IndexError) as error:
            return f"error: {error}"


def _as_text(given: Any) -> str:
    return given if isinstance(given, str) else json.dumps(given)


def tasks(environment: Shop) -> list[Row]:
    prompts = [{"role": "user", "content": environment.prompt(n)} for n in range(TASKS)]
    return [Row(n, str(n), (prompt,), None, None, {}) for n, prompt in enumerate(prompts)]


async def findings(
    environment: Shop, rules: Sequence[RewardRule] = (state_survives, shortcut_is_paid)
) -> list[tuple[str, str]]:
    return [(f.code, f.severity) for f in await found_in(environment, rules)]


async def found_in(environment: Shop, rules: Sequence[RewardRule]) -> list[Finding]:
    worker: Any = Rollouts(environment)
    loaded: Any = SimpleNamespace(turns=True, solutions=True)
    rows = tasks(environment)
    solved = await play_solutions(worker, loaded, rows)
    assert solved.best == 1.0
    shortcuts = await play_shortcuts(worker, reply_form(None, solved), solved, rows)
    trial = Trial((), None, form_requested=False, solved=solved, shortcuts=shortcuts, interactive=True)
    return [f for rule in rules for f in rule(trial)]


@pytest.mark.parametrize(
    "environment",
    [
        *map(Shop, ("prompt", "describe", "error", "check", "every result")),
        SharedShop("describe"),
        SharedShop("every result"),
        SharedShop("error"),
        Files("a file of every task"),
        CommandLine("its usage"),
    ],
    ids=lambda environment: f"{type(environment).__name__}, {environment.leak}",
)
async def test_an_answer_in_the_same_place_of_every_task_blocks(environment: Shop) -> None:
    assert await findings(environment) == [("reward-hackable", "blocker")]


@pytest.mark.parametrize("environment", [Desk("accepts"), Door("stays open")], ids=lambda e: type(e).__name__)
async def test_state_of_an_earlier_rollout_that_pays_a_part_of_a_solution_blocks(environment: Shop) -> None:
    assert await findings(environment) == [("reward-rollout-differs", "blocker")]


@pytest.mark.parametrize(
    "environment", [Shop(), SharedShop(), Files(), CommandLine(), Desk(), Door()], ids=lambda e: type(e).__name__
)
async def test_the_same_environments_without_the_flaw_have_no_finding(environment: Shop) -> None:
    assert await findings(environment) == []


@pytest.mark.parametrize("environment", [Weather(), Orders(), Lamp()], ids=lambda e: type(e).__name__)
async def test_to_look_up_and_report_or_to_do_as_the_prompt_says_is_a_task(environment: Shop) -> None:
    assert await findings(environment) == []


@pytest.mark.parametrize("environment", [CommandLine(), Desk()], ids=lambda e: type(e).__name__)
async def test_a_last_reply_that_is_the_same_in_every_task_is_no_answer_that_needs_a_tool(environment: Shop) -> None:
    assert await findings(environment, SOLUTION_RULES) == []


@pytest.mark.parametrize(("environment", "answers"), [(Desk(), False), (Shop(), True)], ids=["handed in", "said"])
async def test_other_replies_are_scored_after_the_calls_only_where_replies_state_answers(
    environment: Shop, answers: bool
) -> None:
    worker: Any = Rollouts(environment)
    loaded: Any = SimpleNamespace(turns=True, solutions=True)
    solved = await play_solutions(worker, loaded, tasks(environment))
    assert bool(calls_before_answer(solved)) is answers


@pytest.mark.parametrize(
    ("leak", "content"),
    [
        ("expected.txt", "{}"),
        (".check/given.json", '{"tolerance": 0, "gold": "{}"}'),
        ("cases/{}.txt", "the answer is {}.\n"),
        ("{}/gold", "{}"),
    ],
)
async def test_a_file_that_holds_the_gold_of_every_task_blocks_by_its_name(
    tmp_path: Path, leak: str, content: str
) -> None:
    environment: Shop = Box(tmp_path, leak, content)
    found = await found_in(environment, rules=(shortcut_is_paid,))
    assert [(f.code, f.severity) for f in found] == [("reward-hackable", "blocker")]
    assert found[0].message.startswith(f'the gold lies in "{leak.replace("{}", "case-*")}" in 8 of 8 tasks')


@pytest.mark.parametrize(("leak", "blocks"), [(".expected", True), ("", False)])
async def test_a_file_with_the_gold_blocks_where_only_a_look_into_the_files_of_the_task_is_paid(
    tmp_path: Path, leak: str, blocks: bool
) -> None:
    """The files of tasks have different names, so no command of another task's solution names one of this task."""

    class Looked(Box):
        def solution(self, row: int) -> list[Any]:
            return [call("bash", command=f"cat sales_{row}.csv"), f"<answer>{self.gold(row)}</answer>"]

        def result(self, state: dict[str, Any], name: str, given: dict[str, str]) -> str:
            words = given["command"].split()
            state["worked"] = state.get("worked") or any(fnmatchcase(f"sales_{state['row']}.csv", w) for w in words)
            return super().result(state, name, given)

        def reward(self, state: dict[str, Any], last: str) -> float:
            return super().reward(state, last) * float(bool(state.get("worked")))

    found = await found_in(Looked(tmp_path, leak), rules=(shortcut_is_paid,))
    assert [(f.code, f.severity) for f in found] == [("reward-hackable", "blocker")] * blocks
    assert all(f.message.startswith('the gold lies in ".expected" in 8 of 8 tasks') for f in found)


async def test_a_file_is_found_where_each_request_has_time_for_few_rollouts(tmp_path: Path) -> None:
    class Slow(Rollouts):
        async def rollout(self, plays: Any, **more: Any) -> Any:
            played = await super().rollout(plays[:2], **more)
            late = [RolloutResult((), None, "not-run", False) for _ in plays[2:]]
            return SimpleNamespace(results=[*played.results, *late], unavailable="", by_design=False)

    environment = Box(tmp_path, "expected.txt")
    loaded: Any = SimpleNamespace(turns=True, solutions=True)
    quick: Any = Rollouts(environment)
    solved = await play_solutions(quick, loaded, tasks(environment))
    slow: Any = Slow(environment)
    found = await play_shortcuts(slow, reply_form(None, solved), solved, tasks(environment))
    assert [(one.file, len(one.paid)) for one in found] == [("./expected.txt", 8)]


@pytest.mark.parametrize(("stalls", "played"), [(1, True), (2, False)])
async def test_solutions_are_played_again_where_the_machine_stood_still_in_the_middle(
    tmp_path: Path, stalls: int, played: bool
) -> None:
    class Stalled(Rollouts):
        requests = 0

        async def rollout(self, plays: Any, **more: Any) -> Any:
            self.requests += 1
            if self.requests > stalls:
                return await super().rollout(plays, **more)
            late = [RolloutResult((), None, "not-run", False) for _ in plays[1:]]
            results = [RolloutResult((), None, "slow", False, turns=2), *late]
            return SimpleNamespace(results=results, unavailable="", by_design=False)

    environment = Box(tmp_path)
    worker: Any = Stalled(environment)
    loaded: Any = SimpleNamespace(turns=True, solutions=True)
    solved = await play_solutions(worker, loaded, tasks(environment))
    assert (bool(solved.scored), solved.not_played == "") == (played, played)


async def test_files_without_the_gold_are_no_shortcut(tmp_path: Path) -> None:
    assert await findings(Box(tmp_path)) == []


async def test_a_file_that_solutions_read_is_the_task(tmp_path: Path) -> None:
    assert await findings(Box(tmp_path, "note.txt", "sum: {}\n", read="cat *.txt")) == []


@pytest.mark.parametrize(("leak", "blocks"), [("expected.txt", True), ("", False), ("sum", False)])
async def test_without_solutions_a_file_with_the_gold_that_no_prompt_names_blocks(
    tmp_path: Path, leak: str, blocks: bool
) -> None:
    environment = Box(tmp_path, leak)
    worker: Any = Rollouts(environment)
    golds = tuple(TaskGold(n, environment.gold(n), (environment.gold(n),)) for n in range(TASKS))
    style = AnswerStyle(SampleGolds("answer", "free_text", golds, ()), 0, AnswerWrapper("tag", "<answer>", "</answer>"))
    found = await play_file_shortcuts(worker, reply_form(style, Solved()), style, tasks(environment))
    assert [shortcut.file for shortcut in found] == (["./expected.txt"] if blocks else [])


async def test_a_prompt_that_states_the_gold_is_copied_whatever_form_the_golds_have(tmp_path: Path) -> None:
    class Told(Box):
        def prompt(self, row: int) -> str:
            return f"{super().prompt(row)} (The answer is {self.gold(row)}.)"

    found = await found_in(Told(tmp_path), rules=(shortcut_is_paid,))
    assert [(f.code, f.severity) for f in found] == [("reward-hackable", "blocker")]
    assert 'a model that copies what stands behind "' in found[0].message


@pytest.mark.parametrize("text", ["stock\n7\n-- checked: {}", "How many? (The export shows {}.)"])
def test_a_place_that_held_numbers_also_holds_the_words_of_another_task(text: str) -> None:
    place = find_place("prompt", [text.format(n) for n in ("163", "2.5", "40")], ["163", "2.5", "40"])
    assert place is not None
    assert place.piece([{"role": "user", "content": text.format("Fig Bar")}]) == "Fig Bar"
