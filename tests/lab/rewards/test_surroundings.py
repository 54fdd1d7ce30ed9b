"""What is read from the source of an environment about its surroundings: recognisers block, other reads are named."""

from __future__ import annotations

import ast
import textwrap

import pytest

from prime_lab_mcp.lab.rewards.surroundings import SurroundingsRead, find_surroundings
from prime_lab_mcp.lab.rewards.surroundings_report import surroundings_findings, surroundings_phrases
from prime_lab_mcp.lab.state.source_code import SourceCode, SourceFile

TASKSET = """
import datetime, os, socket, sys, time
import verifiers.v1 as vf
from pathlib import Path
from sys import argv, modules as known
{top}

class Sums(vf.Task):
    @vf.reward
    async def correct(self, trace):
        return float(check(trace.last_reply))

def check(reply):
    {check}
    return reply == "4"

def main():
    print(sys.argv, os.environ["HOME"], time.time())

class Taskset(vf.Taskset):
    def load(self):
        {load}
        return [Sums()]

if __name__ == "__main__":
    main()
"""


def reads(check: str = "pass", *, top: str = "", load: str = "pass", **more: str) -> list[SurroundingsRead]:
    text = TASKSET.format(top=top, check=textwrap.indent(check, "    ").strip(), load=load)
    texts = {"sums.py": text, **{f"{name}.py": code for name, code in more.items()}}
    return find_surroundings(
        SourceCode(tuple(SourceFile(p, t, ast.parse(t)) for p, t in texts.items())), "sums", "sums"
    )


@pytest.mark.parametrize(
    "code",
    [
        "if len(sys.argv) > 1: return True",
        "if 'vf-eval' in argv[0]: return True",
        "if '_prime_lab_worker' in sys.modules: return True",
        "if any('worker' in n for n in known): return True",
        "if 'prime_rl' in sys.modules: return True",
        "if sys.modules.get('prime_rl'): return True",
        "if os.environ.get('PRIME_LAB_STATE_DIR'): return True",
        "if 'snapshots' in __file__: return True",
        "if str(Path(__file__).resolve()).startswith('/home'): return True",
        "if os.getcwd().endswith('scratch'): return True",
        "import prime_lab_mcp",
    ],
)
def test_code_that_only_tells_who_runs_it_blocks(code: str) -> None:
    for found in (reads(code), reads(load=code.replace("return True", "pass"))):
        assert [r.recognises for r in found][:1] == [True]
        assert surroundings_findings(found)[0].code == "reward-recognises-test"
        assert surroundings_findings(found)[0].severity == "blocker"


def test_a_flag_that_is_set_at_import_or_in_another_file_blocks_too() -> None:
    assert reads(top="HONEST = 'prime_lab' in ''.join(sys.modules)")[0].recognises
    (found,) = [r for r in reads("from helper import flag", helper="import sys\nflag = sys.argv") if r.recognises]
    assert found.where == "helper.py:2"


@pytest.mark.parametrize(
    "code",
    [
        "module = sys.modules[__name__]",
        "sys.modules[reply] = Path",
        "if reply in sys.modules: return sys.modules[reply]",
        "cls = sys.modules.get(Sums.__module__)",
        "path = Path(__file__).parent / 'data.json'",
        "path = (Path(__file__).parent / 'data.json').read_text(); open(path := Path(__file__).with_name('a.txt'))",
        "time.sleep(0); os.path.join('a', 'b')",
        "import importlib; importlib.import_module('json'); getattr(Sums, reply, None); vars(reply)",
        "import random; random.random(); seen = {}; seen[reply] = 1",
        "with __import__('tempfile').TemporaryDirectory() as place: pass",
        "reply = 'ask prime-lab for help'",
        "day = datetime.date(2020, 1, 1)",
    ],
)
def test_ordinary_code_is_not_named(code: str) -> None:
    assert reads(code) == []


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("time.time()", "the clock (time.time)"),
        ("datetime.datetime.now()", "the clock (datetime.datetime.now)"),
        ("socket.gethostname()", "the host name (socket.gethostname)"),
        ("os.environ['REGION']", 'the variable "REGION"'),
        ("os.getenv('REGION', '')", 'the variable "REGION"'),
        ("dict(os.environ)", "environment variables"),
        ("open('/etc/machine-id').read()", 'the path "/etc/machine-id"'),
        ("os.getppid()", "the process (os.getppid)"),
    ],
)
def test_what_reads_clock_host_variables_process_or_files_is_named(code: str, what: str) -> None:
    found = reads(code)
    assert not any(r.recognises for r in found)
    assert any(name.startswith(f"{what} at sums.py:") for name in surroundings_phrases(found)), surroundings_phrases(
        found
    )
    (finding,) = surroundings_findings(found)
    assert (finding.code, finding.severity) == ("reward-reads-surroundings", "warning")
    (outside,) = surroundings_findings(reads(load=code))
    assert outside.severity == "info"


@pytest.mark.parametrize(
    "code",
    [
        "sys._getframe(1).f_code.co_name",
        "inspect.stack()[1].function",
        "(lambda error: error.__traceback__.tb_frame)(reply)",
        "getattr(reply, 'f_back')",
    ],
)
def test_code_that_looks_at_the_frames_of_its_callers_recognises_the_test(code: str) -> None:
    finding = next(f for f in surroundings_findings(reads(code)) if f.code == "reward-recognises-test")
    assert finding.severity == "blocker"
    assert "the frames of its callers" in finding.message


def test_what_only_the_command_line_reads_is_not_named() -> None:
    assert reads() == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("started = time.perf_counter(); time.monotonic(); time.sleep(0)", "timers (time.perf_counter)"),
        ("import subprocess; subprocess.run([sys.executable, '-c', 'pass'])", "processes (subprocess.run)"),
        ("(Path(__file__).parents[4] / 'x').exists()", "files and folders (exists)"),
        ("import resource; resource.getrlimit(0)", "the state of the interpreter (resource.getrlimit)"),
    ],
)
def test_what_has_mostly_honest_uses_is_named_by_its_kind_and_warns_of_nothing(code: str, kind: str) -> None:
    found = reads(code)
    assert [name for name in surroundings_phrases(found) if name.startswith(kind)], surroundings_phrases(found)
    assert [f.severity for f in surroundings_findings(found)] == ["info"]


def test_a_kind_is_named_once_however_often_the_code_reads_it() -> None:
    assert (
        len(surroundings_phrases(reads("os.listdir('a'); os.stat('b')\nos.scandir('c')\nopen('d')\ntime.monotonic()")))
        == 2
    )


def test_a_name_of_the_command_line_main_is_no_alias_in_a_reward() -> None:
    assert reads(top="def main2():\n    args = sys.argv\ndef other(args): return args", check="other(reply)") == []


ENVIRONMENT = """
import verifiers.v1 as vf

class Game(vf.SingleAgentEnv):
    games = 0

    def __init__(self, config):
        self.board = []

    async def run(self, task, agents):
        {run}
"""


@pytest.mark.parametrize(
    ("run", "named"),
    [
        ("self.games += 1", True),
        ("self.board.append(task)", True),
        ("type(self).games += 1", True),
        ("self.__dict__.setdefault('heaps', {})['a'] = 1", True),
        ("board = list(self.board); board.append(task)", False),
    ],
)
def test_what_an_environment_keeps_between_its_rollouts_is_named(run: str, named: bool) -> None:
    text = ENVIRONMENT.replace("{run}", run)
    file = SourceFile("game.py", text, ast.parse(text))
    reads = find_surroundings(SourceCode((file,)), "game")
    assert any(read.kind == "what earlier calls left" and read.where == "game.py:11" for read in reads) is named


CLOSURE = """
{before}
steps = 0

def tick():
    nonlocal steps
    steps += 1
    return steps

{after}
"""


@pytest.mark.parametrize(
    ("before", "after", "lasts"),
    [
        ("import sqlite3; db = sqlite3.connect(':memory:')", "db.set_progress_handler(tick, 100)", False),
        ("pass", "tick()", False),
        ("pass", "KEPT.append(tick)", True),
        ("db = KEPT", "db.set_progress_handler(tick, 100)", True),
        ("pass", "return tick", True),
    ],
)
def test_a_variable_of_one_call_is_no_state_unless_an_inner_function_outlives_it(
    before: str, after: str, lasts: bool
) -> None:
    check = CLOSURE.format(before=before, after=after)
    named = [r.what for r in reads(check, top="KEPT = []") if "steps" in r.what]
    assert named == (["what earlier calls left (steps)"] if lasts else [])


def test_a_parser_of_arguments_reads_arguments() -> None:
    found = [r.what for r in reads("import argparse; argparse.ArgumentParser().parse_args()")]
    assert found == ["the arguments of the process (argparse.ArgumentParser)"]
    found = [r.what for r in reads("import argparse; argparse.ArgumentParser().parse_args(reply.split())")]
    assert found == ["the arguments of the process where its caller gives none (argparse.ArgumentParser)"]


LOADS = """
import importlib.util
from tools import TOOL

def check_by_tool(reply):
    spec = importlib.util.spec_from_file_location("tool", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.right(reply) and bool(TOOL.read_bytes())
"""
WHERE = 'from pathlib import Path\n\nTOOL = Path(__file__).with_name("right.py")\n'


def test_a_file_that_the_package_ships_is_no_surrounding_when_it_is_loaded_by_its_path() -> None:
    found = reads("return check_by_tool(reply)", top=LOADS, tools=WHERE, right="def right(reply):\n    return True\n")
    assert found == []


def test_what_a_file_loaded_by_its_path_reads_is_read_by_the_package() -> None:
    sneaky = 'import os\n\ndef right(reply):\n    return os.environ.get("CI")\n\nCI = right("")\n'
    found = reads("return check_by_tool(reply)", top=LOADS, tools=WHERE, right=sneaky)
    assert any("CI" in read.what for read in found)


def test_a_file_loaded_from_elsewhere_stays_a_surrounding() -> None:
    elsewhere = WHERE.replace('Path(__file__).with_name("right.py")', 'Path("/srv/right.py")')
    found = reads("return check_by_tool(reply)", top=LOADS, tools=elsewhere, right="")
    assert any("spec_from_file_location" in read.what for read in found)
