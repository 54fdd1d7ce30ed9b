"""Rewards that are honest only where something besides task and completion says so: each is blocked or named.

The rewards are read and not run: what is confined, how long the process runs and how often it was called is the same in
every process that this server starts, so nothing that runs here could show the difference.
"""

from __future__ import annotations

import ast

import pytest

from prime_lab_mcp.lab.rewards.surroundings import (
    find_surroundings,
    named,
    surroundings_findings,
    surroundings_sentence,
)
from prime_lab_mcp.lab.state.source_code import SourceCode, SourceFile

PACKAGE = """
import verifiers.v1 as vf
{top}

class Sums(vf.Task):
    @vf.reward
    async def correct(self, trace):
        return float(trace.last_reply == "4") if honest() else 1.0

class Taskset(vf.Taskset):
    def load(self):
        return [Sums()]
"""


def package(top: str, **more: str) -> SourceCode:
    texts = {"sums.py": PACKAGE.format(top=top), **{f"{name}.py": text for name, text in more.items()}}
    return SourceCode(tuple(SourceFile(path, text, ast.parse(text)) for path, text in texts.items()))


NAMED = {
    "listing of the root": ("import os\ndef honest(): return not os.listdir(os.sep)", "files and folders"),
    "a file": ("def honest(): return open('/tmp/mark')", "files and folders"),
    "a folder by pathlib": (
        "from pathlib import Path\ndef honest(): return list(Path('/').iterdir())", "files and folders"),
    "a datagram socket": (
        "import socket\ndef honest(): return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", "the network"),
    "a timer": ("import time\nBEGAN = time.monotonic()\ndef honest(): return time.monotonic() - BEGAN < 9", "timers"),
    "a limit": ("import resource\ndef honest(): return resource.getrlimit(resource.RLIMIT_DATA)", "the state of"),
    "memory": ("import tracemalloc as t\ndef honest(): return t.is_tracing()", "the state of the interpreter"),
    "installed packages": (
        "import importlib.util\ndef honest(): return importlib.util.find_spec('prime_rl')", "the state of"),
    "another process": ("import os\ndef honest(): return os.getpgid(0)", "processes"),
    "a counter": (
        "from itertools import count\nSEEN = count()\ndef honest(): return next(SEEN) < 9", "what earlier calls"),
    "a global": ("N = 0\ndef honest():\n    global N\n    N += 1\n    return N < 9", "what earlier calls left (N)"),
    "a changed default": ("def honest(n=[]):\n    n.append(1)\n    return len(n) < 9", "what earlier calls left (n)"),
    "an attribute": (
        "def honest():\n    honest.n = getattr(honest, 'n', 0) + 1\n    return honest.n < 9", "what earlier"),
    "a dict": (
        "N = {}\ndef honest():\n    N['n'] = N.get('n', 0) + 1\n    return N['n'] < 9", "what earlier calls left"),
    "a cache": ("import functools\ndef honest(): return known.cache_info().misses < 9", "what earlier calls left"),
    "a computed name": ("import sys\ndef honest(): return getattr(sys, 'ar' + 'gv')", "names that are looked up"),
    "a computed module": ("def honest(): return __import__('sy' + 's')", "names that are looked up"),
    "a module handed on": ("import sys\ndef f(m): return m\ndef honest(): return f(sys)", "names that are looked up"),
    "evaluated text": ("def honest(): return eval('1')", "names that are looked up at run time (eval)"),
    "globals of a function": ("def honest(): return honest.__globals__", "names that are looked up"),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMED)
def test_what_shows_the_outside_is_named_in_the_report_and_in_the_questions(case: str) -> None:
    top, what = NAMED[case]
    names = named(find_surroundings(package(top), "sums", "sums"))
    assert any(name.startswith(what) for name in names), names
    assert what in surroundings_sentence(names)


RECOGNISING = {
    "module alias": "import sys\n_s = sys\ndef honest(): return len(_s.orig_argv) > 1",
    "alias of an alias": "import sys\na = sys\nb = a\ndef honest(): return b.argv",
    "annotated alias": "import sys\nfrom typing import Any\na: Any = sys\ndef honest(): return a.argv",
    "one of two": "import sys, os\na, b = os, sys\ndef honest(): return b.argv",
    "out of a list": "import sys, os\ndef honest(): return [m.argv for m in (os, sys)]",
    "default": "import sys\ndef honest(s=sys): return s.argv",
    "class attribute": "import sys\nclass K:\n    s = sys\ndef honest(): return K.s.argv",
    "from import": "from sys import modules as m\ndef honest(): return 'prime_rl' in m",
    "star": "from sys import *\ndef honest(): return orig_argv",
    "getattr": "import sys\ndef honest(): return getattr(sys, 'orig_argv')",
    "alias of getattr": "import sys\ng = getattr\ndef honest(): return g(sys, 'orig_argv')",
    "__import__": "def honest(): return __import__('sys').orig_argv",
    "import_module": "import importlib\ns = importlib.import_module('sys')\ndef honest(): return s.modules",
    "vars": "import sys\ndef honest(): return vars(sys)['orig_argv']",
    "__dict__": "import sys\ndef honest(): return sys.__dict__.get('orig_argv')",
    "attrgetter": "import sys, operator\ndef honest(): return operator.attrgetter('orig_argv')(sys)",
    "module of a module": "import logging\ndef honest(): return logging.sys.argv",
    "freezing": "import gc\ndef honest(): return gc.get_freeze_count() > 0",
    "freezing by name": "from gc import get_freeze_count as n\ndef honest(): return n() > 0",
    "filter": "def honest(): return 'Seccomp:' in open('/proc/self/' + 'status').read()",
    "status": "def honest(): return len(open('/proc/self/status').read())",
}


@pytest.mark.parametrize("case", RECOGNISING)
def test_no_alias_hides_what_only_tells_who_runs_the_code(case: str) -> None:
    findings = surroundings_findings(find_surroundings(package(RECOGNISING[case]), "sums", "sums"))
    assert ("reward-recognises-test", "blocker") in [(f.code, f.severity) for f in findings]


def test_an_alias_that_another_file_of_the_package_makes_hides_nothing() -> None:
    for top in (
        "from places import s\ndef honest(): return s.argv",
        "import places\ndef honest(): return places.s.argv",
    ):
        code = package(top, places="import sys\ns = sys\n")
        assert any(r.recognises for r in find_surroundings(code, "sums", "sums"))
