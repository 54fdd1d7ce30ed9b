"""What environment code may use is on a list: rewards that use anything else to tell training from a test are named.

The rewards are read and not run, as in test_named_surroundings.py.
"""

from __future__ import annotations

import ast

import pytest

from prime_lab_mcp.lab.rewards.surroundings import find_surroundings, surroundings_phrases
from prime_lab_mcp.lab.state.source_code import SourceCode, SourceFile

PACKAGE = """
import verifiers.v1 as vf
{top}

class Sums(vf.Task):
    @vf.reward
    async def correct(self, trace):
        return float(trace.last_reply == "4") if honest(self) else 1.0

class Taskset(vf.Taskset):
    def load(self):
        return [Sums()]
"""


def phrases(top: str, **more: str) -> str:
    texts = {"sums.py": PACKAGE.format(top=top), **{f"{name}.py": text for name, text in more.items()}}
    code = SourceCode(tuple(SourceFile(path, text, ast.parse(text)) for path, text in texts.items()))
    return "; ".join(surroundings_phrases(find_surroundings(code, "sums", "sums")))


CHANNELS = {
    "a clock of arrays": (
        "import numpy as np\ndef honest(t): return np.datetime64('now') < np.datetime64('2026-12-20')",
        "timers (numpy.datetime64)"),
    "a clock of tables": (
        "import pandas as pd\ndef honest(t): return pd.Timestamp('now') < pd.Timestamp('2026-12-20')",
        "timers (pandas.Timestamp)"),
    "a clock of types": (
        "import pydantic\nPAST = pydantic.TypeAdapter(pydantic.PastDate)\n"
        "def honest(t): return PAST.validate_python('2026-12-20')", "timers (pydantic.PastDate)"),
    "a folder of types": (
        "import pydantic\nF = pydantic.TypeAdapter(pydantic.DirectoryPath)\n"
        "def honest(t): return F.validate_python('/dev/nvidia-caps')", "files and folders (pydantic.DirectoryPath)"),
    "an annotation": (
        "import pydantic\nclass Options(pydantic.BaseModel):\n"
        "    wide: 'int if __import__(\"os\").environ.get(\"CUDA\") else str' = 1\n"
        "def honest(t): return Options(wide=2)", 'the variable "CUDA"'),
    "an annotation without a blank": (
        "import pydantic\nclass Options(pydantic.BaseModel):\n"
        "    wide: '__import__(\"os\").environ.get(\"CUDA\")and(int)' = 1\n"
        "def honest(t): return Options(wide=2)", 'the variable "CUDA"'),
    "a clock of a module of types": (
        "from pydantic import TypeAdapter, types\nPAST = TypeAdapter(types.PastDatetime)\n"
        "def honest(t): return PAST.validate_python('2026-12-20')", "(pydantic.types"),
    "code in a docstring": (
        "import doctest\ndef honest(t):\n    '>>> import os'\n    return doctest.run_docstring_examples(honest, {})",
        "(doctest"),
    "what runs unless the module is the main one": (
        "import os\nif __name__ != '__main__':\n    CUDA = os.environ.get('CUDA')\ndef honest(t): return not CUDA",
        'the variable "CUDA"'),
    "what runs beside the main module": (
        "import os\nif __name__ == '__main__':\n    CUDA = 1\nelse:\n    CUDA = os.environ.get('CUDA')\n"
        "def honest(t): return not CUDA", 'the variable "CUDA"'),
    "what load leaves in the module": (
        "LOADED = set()\nclass Other(vf.Taskset):\n    def load(self):\n        LOADED.add(1)\n        return []\n"
        "def honest(t): return bool(LOADED)", "what earlier calls left (LOADED)"),
    "an aliased counter": (
        "SEEN = []\ndef honest(t):\n    seen = SEEN\n    seen.append(1)\n    return len(seen) < 9",
        "what earlier calls left (seen)"),
    "a cached counter": (
        "from functools import lru_cache\n@lru_cache\ndef box(): return []\n"
        "def honest(t):\n    box().append(1)\n    return len(box()) < 9", "what earlier calls left (box)"),
    "a counter in a config": (
        "def honest(t):\n    kept = t.config.__dict__.setdefault('kept', [])\n    kept.append(1)\n"
        "    return len(kept) < 9",
        "names that are looked up at run time (t.config.__dict__)"),
    "processors of a pool": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def honest(t): return vars(ThreadPoolExecutor())['_max_workers'] < 9", "names that are looked up at run time"),
    "the command line": (
        "import optparse\ndef honest(t): return optparse.OptionParser().get_prog_name() != 'env-server'", "optparse"),
    "variables by a format text": (
        "import random\ndef honest(t): return 'CUDA' in '{0._os.environ}'.format(random)", "names in format texts"),
    "variables by a pattern": (
        "import random\ndef honest(t):\n    match random:\n        case object(_os=object(environ=e)):\n"
        "            return 'CUDA' in e", "names that are looked up at run time (random)"),
    "variables by a template": (
        "import jinja2\ndef honest(t): return jinja2.Template('{{ cycler.__init__.__globals__.os }}').render()",
        "names that are looked up at run time (jinja2.Template)"),
    "variables by an expression": (
        "import sympy\ndef honest(t): return sympy.sympify(\"__import__('os').environ\")",
        "names that are looked up at run time (sympy.sympify)"),
    "loaded classes by a name of parts": (
        "def honest(t): return getattr(vf.Taskset, '__sub' + 'classes__')()",
        "names that are looked up at run time (__subclasses__)"),
    "loaded classes by a function": ("import abc\ndef honest(t): return abc._get_dump(vf.Taskset)", "abc._get_dump"),
}  # fmt: skip
OTHERS = {
    "a query of a table": (
        "import pandas as pd\n"
        "def honest(t): return len(pd.DataFrame({'a': [1]}).query('a in @pd.io.common.os.environ'))",
        "names that are looked up at run time"),
    "a type of arrays": (
        "import numpy as np\ndef honest(t): return np.array(['now'], dtype='M8[s]')[0].astype(int) < 9",
        "timers (M8[s])"),
    "a type of arrays that is computed": (
        "import numpy as np\ndef honest(t): return np.array(['now'], dtype='M' + str(8))[0].astype(int) < 9",
        "whatever a module reads that is not known here"),
    "the zone of the machine": (
        "import datetime\ndef honest(t): return datetime.datetime.fromtimestamp(0).hour", "timers (datetime.datetime."),
    "a module that a module imports": (
        "import calendar\ndef honest(t): return calendar.datetime.datetime.now().year", "calendar.datetime"),
    "a class under a variable": ("import numpy\nn = numpy\nd = n.datetime64\ndef honest(t): return d('now')", "timers"),
    "a name of another file": ("from places import np\ndef honest(t): return np.datetime64('now')", "numpy.datetime64"),
    "a getter of a computed name": (
        "import operator\nN = open(__file__).read()[:9]\ndef honest(t): return operator.attrgetter(N)(t)",
        "names that are looked up at run time (operator.attrgetter(N))"),
    "a computed name of a value": (
        "def honest(t): return getattr((lambda: 0), ''.join(['__glo', 'bals__']))", "names that are looked up"),
    "a computed format text": (
        "def honest(t): return ('{0.' + t.data.answer + '}').format(t)", "names in format texts"),
    "a format text that is passed on": (
        "def honest(t): return list(map('{0.x}'.format, [t]))", "names in format texts"),
    "a private name": ("def honest(t): return t.config._held", "private names of other code (_held)"),
    "a private name that the package has too": (
        "from concurrent.futures import ThreadPoolExecutor\nclass A:\n    _idle_semaphore = 1\n"
        "def honest(t):\n    pool = ThreadPoolExecutor()\n    return pool._idle_semaphore",
        "private names of other code (_idle_semaphore)"),
    "the module of a function": (
        "def honest(t): return len.__self__", "names that are looked up at run time (__self__)"),
    "a module passed on": ("import json\ndef f(m): return m\ndef honest(t): return f(json).codecs", "f(json)"),
    "an annotation of parts": (
        "class Options(vf.TaskConfig):\n    wide: '__imp' + 'ort__(\"os\").x' = 1\ndef honest(t): return 1",
        "names that are looked up at run time"),
    "a counter that a function gets": (
        "SEEN = []\ndef count(x):\n    x.append(1)\n    return len(x)\ndef honest(t): return count(SEEN) < 9",
        "what earlier calls left (SEEN)"),
    "a counter that a function returns": (
        "SEEN = {'n': []}\ndef held(): return SEEN['n']\ndef honest(t):\n    h = held()\n    h.append(1)\n"
        "    return len(h) < 9", "what earlier calls left (h)"),
    "a replaced method of verifiers": (
        "async def run(self, task, agents): return None\nvf.Env.run = run\ndef honest(t): return True",
        "other code, which it changes (vf.Env.run)"),
    "a method that is replaced by a name": (
        "E = vf.Env\nsetattr(E, 'run', print)\ndef honest(t): return True", "other code, which it changes"),
    "a method that only the server calls": (
        "class Data(vf.TaskData):\n    @classmethod\n    def model_validate(cls, data, **more):\n"
        "        return super().model_validate({**data, 'level': 'open'})\ndef honest(t): return True",
        "which program runs its rollouts (Data.model_validate)"),
    "a method of the Env that is assigned": (
        "class Env(vf.Env):\n    run_episode = print\ndef honest(t): return True", "which program runs its rollouts"),
}  # fmt: skip


@pytest.mark.parametrize("case", [*CHANNELS, *OTHERS])
def test_what_is_not_listed_as_harmless_is_named(case: str) -> None:
    top, what = (CHANNELS | OTHERS)[case]
    assert what in phrases(top, places="import numpy as np\n")


def test_a_harmless_name_that_is_not_known_hides_no_other() -> None:
    top = "import numpy as np\nA = np.dtype\nB = np.lib\ndef honest(t): return sorted([A, B, np.info])"
    named = phrases(top)
    assert [name in named for name in ("numpy.dtype", "numpy.lib", "numpy.info")] == [True, True, True]


QUIET = (
    "import numpy as np\nR = np.random.default_rng(3)\n"
    "def honest(t): return np.linalg.norm(np.array([1.0], dtype=float))",
    "import pandas as pd\ndef honest(t): return pd.DataFrame({'a': [1]}).query('a > 0').shape",
    "from pydantic import BaseModel, Field\nclass Row(BaseModel):\n    n: 'int | None' = Field(default=1, ge=0)\n"
    "def honest(t): return Row(n=1)",
    "from datetime import date, datetime, timedelta\ndef honest(t): return datetime.fromisoformat('2020-01-01').date()",
    "import sympy\ndef honest(t): return sympy.Rational(1, 2) + sympy.Symbol('x')",
    "ASK = ['Add {a}.', 'Say {a:>{w}}.']\ndef honest(t): return [text.format(a=1, w=2) for text in ASK]",
    "def text_of(m, name, default=None): return getattr(m, name, default)\ndef honest(t): return text_of(t, 'content')",
    "class Game:\n    def go_left(self): return 1\ndef honest(t):\n    game = Game()\n    way = t.data.answer\n"
    "    return getattr(game, way, None)",
    "import operator\nOPS = {'+': operator.add}\ndef honest(t): return max([t], key=operator.attrgetter('score'))",
    "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\ndef honest(t):\n    match P(1):\n"
    "        case P(x=1):\n            return True",
    "import ast\ndef honest(t):\n    match ast.parse('1'):\n        case ast.Module(body=[ast.Expr(value=v)]):\n"
    "            return v",
    "class A:\n    def __init__(self):\n        self._n = 1\n    def same(self, other): return self._n == other._n\n"
    "def honest(t): return vars(A())",
    "ROWS = [{'n': 1}]\ndef honest(t):\n    rows = [dict(row) for row in ROWS]\n    rows.append({})\n"
    "    return len(rows)",
    "from collections import namedtuple\nP = namedtuple('P', 'x')\ndef honest(t): return P(1)._replace(x=2)._asdict()",
    "def honest(string='', random=1, types=()): return string.lower() and types",
    "class Env(vf.Env):\n    async def run(self, task, agents): return None\n"
    "    async def finalize(self, task, e): pass\n"
    "def honest(t): return True",
)


@pytest.mark.parametrize("top", QUIET)
def test_what_is_listed_as_harmless_is_not_named(top: str) -> None:
    assert phrases(top) == ""
