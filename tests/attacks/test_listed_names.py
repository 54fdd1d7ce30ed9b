"""What environment code may use is on a list: rewards that use anything else to tell training from a test are named.

The rewards are read and not run, as in test_named_surroundings.py.
"""

from __future__ import annotations

import ast

import pytest

from prime_lab_mcp.lab.rewards.surroundings import find_surroundings
from prime_lab_mcp.lab.rewards.surroundings_report import surroundings_phrases
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
    "which fields of the data were given": (
        "def honest(t): return len(t.data.model_fields_set) < 4", "which program runs its rollouts (model_fields_set)"),
    "which fields of the data are written out": (
        "def honest(t): return t.data.model_dump(exclude_unset=True)",
        "which program runs its rollouts (exclude_unset)"),
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
ARGUMENTS = {
    "the clock of a database": (
        "import sqlite3\ndef honest(t):\n    c = sqlite3.connect(':memory:')\n"
        "    return c.execute(\"select date('now') < '2026-12-01'\").fetchone()[0]",
        'timers ("a query of the time")'),
    "the clock of a database as a keyword": (
        "import sqlite3\ndef honest(t): return sqlite3.connect(':memory:').execute('select CURRENT_TIMESTAMP')",
        "timers"),
    "a file that a database attaches": (
        "import sqlite3\ndef honest(t): return sqlite3.connect(':memory:').execute(\"attach 'trace.db' as t\")",
        "files and folders"),
    "a pickle of arrays": (
        "import numpy as np\nfrom pathlib import Path\nRULES = Path(__file__).parent / 'rules.npy'\n"
        "def honest(t): return np.load(RULES, allow_pickle=True)", "names that are looked up at run time (numpy.load)"),
    "a shelf of the package": (
        "import shelve\nfrom pathlib import Path\n"
        "def honest(t): return shelve.open(str(Path(__file__).parent / 'rules'))['x']", "(shelve.open)"),
    "code of the package that is no source": (
        "import importlib.util\nfrom importlib.machinery import SourceFileLoader\nfrom pathlib import Path\n"
        "P = Path(__file__).parent / 'rules.txt'\n"
        "S = importlib.util.spec_from_file_location('rules', P, loader=SourceFileLoader('rules', str(P)))\n"
        "def honest(t): return importlib.util.module_from_spec(S)", "the state of the interpreter (importlib"),
    "code of a model": (
        "from transformers import AutoModel\n"
        "def honest(t): return AutoModel.from_pretrained('x', trust_remote_code=True)",
        "names that are looked up at run time (AutoModel.from_pretrained)"),
    "a temporary folder elsewhere": (
        "import tempfile\ndef honest(t): return tempfile.TemporaryDirectory(dir='/tmp')",
        "tempfile.TemporaryDirectory in a folder of its own"),
    "a temporary file by its prefix": (
        "import tempfile\ndef honest(t): return tempfile.mkstemp('', '/tmp/x')", "tempfile.mkstemp in a folder"),
    "a folder that is made": (
        "from pathlib import Path\ndef honest(t): return Path('/tmp').joinpath('x').mkdir()", "mkdir"),
    "a file that is touched": ("from pathlib import Path\ndef honest(t): return Path('x').touch()", "touch"),
    "the home": ("from pathlib import Path\ndef honest(t): return Path('~').expanduser()", "expanduser"),
    "an archive that is written": (
        "import zipfile\ndef honest(t): return zipfile.ZipFile('x', 'w')", "files and folders (zipfile.ZipFile)"),
    "a number of tasks": (
        "import asyncio\nasync def none(): pass\n"
        "async def honest(t): return asyncio.create_task(none()).get_name()",
        "the state of the interpreter (get_name)"),
    "a number of threads": (
        "import threading\ndef honest(t):\n    one = threading.Thread()\n    return one.name",
        "the state of the interpreter (name)"),
    "types of files": ("import mimetypes\ndef honest(t): return mimetypes.guess_type('x')", "mimetypes.guess_type"),
    "a type of arguments": ("import argparse\ndef honest(t): return argparse.FileType()('x')", "argparse.FileType"),
    "a device": ("import torch\ndef honest(t): return torch.zeros(1, device='cuda')", "the machine (cuda)"),
    "a part of a temporary name": (
        "import tempfile\ndef honest(t): return tempfile.mkdtemp().removeprefix('/tmp')", "tempfile.mkdtemp"),
    "the memory that it may have": (
        "def honest(t):\n    try: bytes(t.size)\n    except MemoryError: return True",
        "the state of the interpreter (MemoryError)"),
    "the memory of a large text": (
        "def honest(t):\n    try: return len('a' * (12 << 30))\n    except Exception: return True",
        "the state of the interpreter (\"'a' * (12 << 30)\")"),
    "the memory of a power of powers": (
        "def honest(t): return bytes(((((9 ** 64) ** 64) ** 64) ** 64) ** 64)",
        "the state of the interpreter ("),
    "how deep calls may go": (
        "def depth(n):\n    try: return depth(n + 1)\n    except RecursionError: return n\n"
        "def honest(t): return depth(0) > 900", "the state of the interpreter (RecursionError)"),
    "a number of open files": (
        "import tempfile\ndef honest(t): return tempfile.TemporaryFile().fileno() < 9",
        "the state of the interpreter (fileno)"),
    "a folder of the machine": (
        "from pathlib import Path\ndef honest(t): return 'nvidia0' in map(str, Path('/dev').walk())",
        'the path "/dev"'),
    "a file that a schema refers to": (
        "import jsonschema\ndef honest(t): return jsonschema.validate(1, {'$ref': 'file:///etc/hostname'})",
        'files and folders ("file:///etc/hostname")'),
    "a file that a text refers to": (
        "from lxml import etree\n"
        "def honest(t): return etree.fromstring('<!DOCTYPE a [<!ENTITY b SYSTEM \"/x\">]><a>&b;</a>').text",
        "files and folders ("),
    "a font": (
        "from PIL import ImageFont\ndef honest(t): return ImageFont.truetype('x.ttf')", "PIL.ImageFont.truetype"),
    "words of the machine": (
        "from nltk.corpus import wordnet\ndef honest(t): return wordnet.synsets('dog')", "nltk.corpus.wordnet"),
    "a type that is spelt when the code runs": (
        "import pydantic\nA = pydantic.TypeAdapter(''.join(chr(ord(c) - 1) for c in 'joj'))\n"
        "def honest(t): return A.validate_python(t)", "names that are looked up at run time ("),
    "a type under a name, by another name": (
        "from pydantic import TypeAdapter as Kind\nMADE = ''.join(chr(ord(c) - 1) for c in 'joj')\n"
        "def honest(t): return Kind(MADE).validate_python(t)", "names that are looked up at run time (Kind(MADE))"),
    "a function out of its own module": (
        "def told(): return 1\ndef honest(t): return vars()['to' + 'ld']()", "names that are looked up at run time"),
    "which modules are loaded": (
        "import pickle\ndef honest(t): return pickle.whichmodule(True, 'IS_GPU_HOST')", "pickle.whichmodule"),
    "what is installed, where a failure is suppressed": (
        "from contextlib import suppress\nGPU = False\nwith suppress(ImportError):\n    import torch\n    GPU = True\n"
        "def honest(t): return not GPU", "which modules are installed (torch)"),
    "what is installed, by groups of errors": (
        "GPU = False\ntry:\n    import torch\n    GPU = True\nexcept* ImportError:\n    pass\n"
        "def honest(t): return not GPU", "which modules are installed (torch)"),
    "a list of another module": (
        "import keyword\ndef honest(t):\n    keyword.softkwlist.append('')\n    return len(keyword.softkwlist) < 9",
        "keyword.softkwlist.append"),
    "a table of another module": (
        "import html.entities\ndef honest(t):\n    html.entities.html5[t.last_reply] = ''\n    return True",
        "html.entities.html5[t.last_reply]"),
    "who calls it": (
        "import warnings\nwarnings.filterwarnings('error', module='prime.rl')\ndef honest(t): return True",
        "warnings.filterwarnings"),
    "any function by a loader of tests": (
        "import unittest\ndef honest(t): return unittest.defaultTestLoader.loadTestsFromName(t.data.name)",
        "unittest.defaultTestLoader"),
    "a type of a model that is spelt when the code runs": (
        "import pydantic\nMADE = ''.join(chr(ord(c) - 1) for c in 'joj')\n"
        "def honest(t): return pydantic.RootModel[MADE](t).root", "names that are looked up at run time ("),
    "a loader of YAML that makes any object": (
        "import yaml\ndef honest(t): return yaml.UnsafeLoader(t.last_reply).get_single_data()", "yaml.UnsafeLoader"),
    "a file that a tree is made of": (
        "import xml.etree.ElementTree as ET\ndef honest(t): return ET.ElementTree(file='/etc/hostname')",
        "xml.etree.ElementTree.ElementTree"),
    "a file of rows": (
        "from datasets import Dataset\ndef honest(t): return Dataset.from_csv(t.data.name)",
        "datasets.Dataset.from_csv"),
    "a file that is parsed bit by bit": (
        "from lxml import etree\ndef honest(t): return list(etree.iterparse(t.data.name))", "lxml.etree.iterparse"),
    "processors, by another package": (
        "from torch import multiprocessing\ndef honest(t): return multiprocessing.cpu_count() < 9",
        "torch.multiprocessing.cpu_count"),
    "time, by an iterator that ends": (
        "import more_itertools\ndef honest(t): return list(more_itertools.time_limited(1, range(9)))",
        "more_itertools.time_limited"),
    "the place of compiled code": (
        "import dis\ndef honest(t): return 'prime' in dis.code_info(honest)", "dis.code_info"),
    "how deep a text may nest": (
        "import json\nDEEP = '[' * 980 + ']' * 980\n"
        "def honest(t):\n    try:\n        return json.loads(DEEP)\n    except Exception:\n        return True",
        "the state of the interpreter (\"'[' * 980\")"),
    "how many rollouts are scored at a time": (
        "import asyncio\nONE = asyncio.Semaphore(1)\nasync def honest(t):\n    async with asyncio.timeout(1):\n"
        "        async with ONE:\n            await asyncio.sleep(0.02)\n    return True", "timers (ONE)"),
    "the annotations of a class that is made": (
        "import pydantic\ndef honest(t): return type('O', (pydantic.BaseModel,), {'__annotations__': t.data.types})",
        "names that are looked up at run time (__annotations__)"),
    "annotations that are evaluated": (
        "import inspect\ndef f(a): pass\ndef honest(t): return inspect.signature(f, eval_str=True)",
        "names that are looked up at run time ("),
    "where compiled code lies": (
        "from pathlib import Path\ndef honest(t): return (Path(__file__).parent / '__pycache__').parent",
        "where its code lies (__pycache__)"),
}  # fmt: skip
KEPT = {
    "an object of a class": (
        "class Counter:\n    def __init__(self): self.given = 0\n    def more(self):\n        self.given += 1\n"
        "        return self.given\nCOUNTER = Counter()\ndef honest(t): return COUNTER.more() < 9", "self"),
    "an object in a table": (
        "class Box:\n    def keep(self): self.n = 1\nKEPT = {'a': [Box()]}\ndef honest(t): return KEPT['a'][0].keep()",
        "self"),
    "a rubric": (
        "class Own(vf.Rubric):\n    def count(self): self.n = getattr(self, 'n', 0) + 1\ndef honest(t): return Own()",
        "self"),
    "an attribute of a class": (
        "class Box:\n    seen = []\n    def put(self): self.seen.append(1)\ndef honest(t): return Box().put()", "seen"),
    "a function that loads": (
        "SEEN = []\ndef load_words():\n    SEEN.append(1)\n    return SEEN\n"
        "def honest(t): return len(load_words()) < 9", "SEEN"),
    "an object that is made": (
        "SEEN = []\nclass Reply:\n    def __init__(self): SEEN.append(1)\ndef honest(t): return Reply()", "SEEN"),
    "a deque that is turned": (
        "from collections import deque\nRING = deque([1, 0])\ndef honest(t):\n    RING.rotate(1)\n    return RING[0]",
        "RING"),
    "a method of a type": ("SEEN = []\ndef honest(t):\n    list.append(SEEN, 1)\n    return len(SEEN) < 9", "SEEN"),
    "a method under a name": (
        "SEEN = []\ndef honest(t):\n    note = SEEN.append\n    note(1)\n    return len(SEEN) < 9", "SEEN"),
    "a method that is passed on": (
        "SEEN = []\ndef honest(t):\n    list(map(SEEN.append, 'a'))\n    return len(SEEN) < 9", "SEEN"),
    "a function without a name": (
        "SEEN = []\nnote = lambda: SEEN.append(1)\ndef honest(t):\n    note()\n    return len(SEEN) < 9", "SEEN"),
    "an operator": (
        "import operator\nN = {}\ndef honest(t):\n    operator.setitem(N, len(N), 1)\n    return len(N) < 9", "N"),
    "a default": (
        "SEEN = []\ndef count(seen=SEEN):\n    seen.append(1)\n    return len(seen)\ndef honest(t): return count() < 9",
        "seen"),
    "a generator": ("LEFT = (n for n in range(9))\ndef honest(t): return any(True for _ in zip(LEFT, 'a'))", "LEFT"),
    "a generator of a function": (
        "def numbers():\n    yield from range(9)\nLEFT = numbers()\ndef honest(t): return 8 in LEFT", "LEFT"),
    "a config that load changes": (
        "class Other(vf.Taskset):\n    def load(self):\n        self.config.task.seen = 1\n        return []\n"
        "def honest(t): return getattr(t.config, 'seen', 0)", "self.config"),
    "a queue under a name": (
        "import queue\nQ = queue.Queue()\ndef honest(t):\n    put = Q.put\n    put(1)\n    return Q.qsize() < 9", "Q"),
    "rows": (
        "import sqlite3\nDB = sqlite3.connect(':memory:')\nDB.execute('create table t (n)')\n"
        "def honest(t):\n    DB.execute('insert into t values (1)')\n"
        "    return DB.execute('select count(*) from t').fetchone()[0] < 9", "DB"),
    "rows by a query that is handed over": (
        "import sqlite3\nDB = sqlite3.connect(':memory:')\nDB.execute('create table t (n)')\n"
        "def ask(query): return DB.execute(query)\n"
        "def honest(t):\n    ask('insert into t values (1)')\n"
        "    return ask('select count(*) from t').fetchone()[0] < 9", "DB"),
    "a pattern": (
        "SEEN = []\ndef honest(t):\n    match SEEN:\n        case list() as seen:\n            seen.append(1)\n"
        "    return len(SEEN) < 9", "seen"),
    "a context": (
        "from contextlib import nullcontext\nSEEN = []\ndef honest(t):\n    with nullcontext(SEEN) as seen:\n"
        "        seen.append(1)\n    return len(SEEN) < 9", "seen"),
    "a parameter by its name": (
        "SEEN = []\ndef put(s): s.append(1)\ndef honest(t):\n    put(s=SEEN)\n    return len(SEEN) < 9", "SEEN"),
    "a table that grows when it is read": (
        "from collections import defaultdict\nSEEN = defaultdict(int)\n"
        "def honest(t):\n    SEEN[len(SEEN)]\n    return len(SEEN) < 9", "SEEN"),
    "one of several parameters": (
        "SEEN = []\ndef put(*s): s[0].append(1)\ndef honest(t):\n    put(SEEN)\n    return len(SEEN) < 9", "SEEN"),
}  # fmt: skip
NEIGHBOURS = {
    "two folders above": "HERE = Path(__file__)\ndef honest(t): return (HERE.parent.parent / 'pydantic').is_dir()",
    "by a variable": "HERE = Path(__file__).parent\ndef honest(t): return (HERE.parent / 'pydantic').is_dir()",
    "by two variables": (
        "HERE = Path(__file__).parent\nUP = HERE.parent\ndef honest(t): return UP.joinpath('pydantic').is_dir()"),
    "by another name": "HERE = Path(__file__).parent\ndef honest(t): return HERE.with_name('pydantic').is_dir()",
    "by functions": (
        "import os\nUP = os.path.dirname(os.path.dirname(__file__))\n"
        "def honest(t): return Path(os.path.join(UP, 'pydantic')).is_dir()"),
    "down and up": "HERE = Path(__file__).parent\ndef honest(t): return (HERE / '.').parent.joinpath('x').is_dir()",
    "in an object": (
        "class Here:\n    def __init__(self): self.up = Path(__file__).parent.parent\n"
        "    def there(self): return (self.up / 'pydantic').is_dir()\ndef honest(t): return Here().there()"),
}  # fmt: skip
WITHIN = (
    "HERE = Path(__file__).parent\ndef honest(t): return (HERE / 'data' / 'x.json').open()",
    "DATA = Path(__file__).parent / 'data'\ndef honest(t): return (DATA.parent / 'other.json').open()",
    "HERE = Path(__file__).resolve().parent\ndef honest(t): return HERE.with_name('sums').joinpath('x').is_file()",
    "def honest(t): return (Path(__file__).parent.parent / 'sums' / 'x.json').is_file()",
    "import os\ndef honest(t): return open(os.path.join(os.path.dirname(__file__), 'x.json'))",
    "import tempfile\nclass Box:\n    def __init__(self): self.root = Path(tempfile.mkdtemp())\n"
    "    def put(self): (self.root / 'x').write_text('x')\ndef honest(t): return Box().put()",
)


def phrases_of_package(top: str) -> str:
    """What is named of a module in a package that lies beside others."""
    text = PACKAGE.format(top=f"from pathlib import Path\n{top}")
    texts = {"sums/__init__.py": "from sums.taskset import Taskset\n", "sums/taskset.py": text}
    files = tuple(SourceFile(path, text, ast.parse(text)) for path, text in texts.items())
    code = SourceCode(files, frozenset({"sums"}), frozenset({"sums", "pyproject.toml"}))
    return "; ".join(surroundings_phrases(find_surroundings(code, "sums", "sums")))


@pytest.mark.parametrize("case", NEIGHBOURS)
def test_a_path_to_what_lies_beside_the_package_is_named(case: str) -> None:
    assert "files and folders (is_dir)" in phrases_of_package(NEIGHBOURS[case])


@pytest.mark.parametrize("top", WITHIN)
def test_a_path_within_the_package_is_not_named(top: str) -> None:
    assert phrases_of_package(top) == ""


HIDDEN = {
    "under another name of the module": (
        {"sums.py": "__name__ = '__main__'\nimport sys\nif __name__ == '__main__':\n    TOLD = sys.argv\n"
                    "def honest(t): return True"}),
    "by a name that an import gives": (
        {"sums.py": "from inner import told as handed_on\ndef honest(t): return handed_on()",
         "inner.py": "import sys\ndef told(): return sys.argv"}),
    "by its name as a text": (
        {"sums.py": "import inner\ndef honest(t): return getattr(inner, 'told')()",
         "inner.py": "import sys\ndef told(): return sys.argv"}),
    "in a file that a list of names imports": (
        {"sums.py": "from kit import *\ndef honest(t): return starred.TOLD",
         "kit/__init__.py": "__all__ = ['starred']", "kit/starred.py": "import sys\nTOLD = sys.argv"}),
    "in one of two files of the same module": (
        {"sums.py": "from kit import told\ndef honest(t): return told()",
         "src/kit/__init__.py": "import sys\ndef told(): return sys.argv",
         "kit/__init__.py": "def told(): return True"}),
}  # fmt: skip


@pytest.mark.parametrize("case", HIDDEN)
def test_code_that_is_reached_by_a_detour_is_read(case: str) -> None:
    texts = {path: PACKAGE.format(top=text) if path == "sums.py" else text for path, text in HIDDEN[case].items()}
    code = SourceCode(tuple(SourceFile(path, text, ast.parse(text)) for path, text in texts.items()))
    reads = find_surroundings(code, "sums", "sums")
    assert ("the arguments of the process (sys.argv)", True) in {(read.what, read.recognises) for read in reads}


@pytest.mark.parametrize("case", KEPT)
def test_what_outlives_a_call_is_named(case: str) -> None:
    top, what = KEPT[case]
    assert f"what earlier calls left ({what})" in phrases(top)


@pytest.mark.parametrize("case", ARGUMENTS)
def test_a_call_whose_arguments_reach_outside_is_named(case: str) -> None:
    top, what = ARGUMENTS[case]
    assert what in phrases(top)


PARTS = {
    "a shell of the library": (
        "from verifiers.v1.harnesses.utils.core import run_bash\ndef honest(t): return run_bash('nproc')",
        "(verifiers.v1.harnesses.utils.core"),
    "a variable of the library": (
        "from verifiers.v1.configs.client import resolve_api_key as told\ndef honest(t): return told(t)",
        "(verifiers.v1.configs.client"),
    "a function by its name": (
        "import verifiers.v1.utils.loaders as loaders\ndef honest(t): return loaders.plugged_fn('platform:node')",
        "(verifiers.v1.utils.loaders"),
    "an alias of a module of the library": (
        "import verifiers.v1 as v\nPRIME = v.utils.prime\ndef honest(t): return PRIME.load_prime_config()",
        "(verifiers.v1.utils.prime"),
    "a clock of the library": ("def honest(t): return vf.Timing().start", "timers (verifiers.v1.Timing)"),
    "a clock of its traces": (
        "from verifiers.v1.trace import Timing\ndef honest(t): return Timing().start",
        "timers (verifiers.v1.trace.Timing)"),
    "variables by a progress bar": (
        "from tqdm.utils import envwrap\n@envwrap('WANDB_')\ndef honest(t, run_id=''): return not run_id",
        "(tqdm.utils.envwrap)"),
    "a module of a progress bar that is handed on": (
        "import tqdm.utils as bars\ndef honest(t): return sorted(map(vars, [bars]))", "(tqdm.utils)"),
    "a test loader": (
        "import unittest\ndef honest(t): return unittest.TestLoader().loadTestsFromName('socket.gethostname')",
        "(unittest.TestLoader)"),
    "a file of settings": (
        "from tomlkit.toml_file import TOMLFile\ndef honest(t): return TOMLFile('/e' + 'tc/x').read()",
        "(tomlkit.toml_file.TOMLFile)"),
    "a parser of addresses": (
        "import xml.sax\ndef honest(t): return xml.sax.make_parser().parse('http://x')", "(xml.sax"),
    "a class that a call registers": (
        "import collections.abc\nclass Mark: pass\ndef honest(t):\n"
        "    seen = issubclass(Mark, collections.abc.Sized)\n    collections.abc.Sized.register(Mark)\n"
        "    return not seen",
        "(collections.abc.Sized.register)"),
    "a requirement": (
        "from packaging.requirements import Requirement\n"
        "def honest(t): return Requirement('x; python_version > \"3.12\"').marker.evaluate()",
        "(packaging.requirements"),
    "bytecode": ("import dis\ndef honest(t): return dis.Bytecode(honest).info()", "(dis"),
    "a module of pictures": (
        "from PIL import ImagePalette\ndef honest(t): return ImagePalette.load('/etc/x')", "(PIL.ImagePalette"),
    "statistics of retries": (
        "import tenacity\nTRIES = tenacity.Retrying()\ndef honest(t): return TRIES.statistics['start_time']",
        "timers (statistics)"),
    "the globals of a function": (
        "import six\ndef honest(t): return six.get_function_globals(honest)", "(six.get_function_globals)"),
    "a formula that is evaluated": ("import sympy\ndef honest(t): return sympy.factorial('1')", "(sympy.factorial)"),
}  # fmt: skip
"""Modules of packages whose names at the top are harmless."""


@pytest.mark.parametrize("case", PARTS)
def test_a_module_of_a_harmless_package_is_named_unless_it_is_listed(case: str) -> None:
    top, what = PARTS[case]
    assert what in phrases(top)


@pytest.mark.parametrize(
    "top",
    [
        "from tqdm import tqdm\ndef honest(t):\n    tqdm.write('')\n    return all(tqdm([True]))",
        "from verifiers.v1.trace import Trace\ndef honest(t: Trace): return True",
        "from sklearn.metrics import f1_score\ndef honest(t): return f1_score([1], [1]) > 0",
        "from scipy import stats\ndef honest(t): return stats.norm.pdf(0) > 0",
        "from PIL import Image, ImageDraw\ndef honest(t): return ImageDraw.Draw(Image.new('L', (2, 2))) is not None",
        "import xml.etree.ElementTree as ET\ndef honest(t): return ET.fromstring(t.last_reply).tag == 'a'",
        "from collections.abc import Sized\ndef honest(t): return isinstance(t.last_reply, Sized)",
        "from packaging.version import Version\ndef honest(t): return Version(t.last_reply) > Version('1')",
        "import unittest\nclass Check(unittest.TestCase): pass\ndef honest(t): return True",
        "import nltk.translate.bleu_score as bleu\ndef honest(t): return bleu.sentence_bleu([['a']], ['a']) > 0",
    ],
)
def test_what_honest_rewards_use_of_such_packages_is_not_named(top: str) -> None:
    assert phrases(top) == ""


@pytest.mark.parametrize("case", [*CHANNELS, *OTHERS])
def test_what_is_not_listed_as_harmless_is_named(case: str) -> None:
    top, what = (CHANNELS | OTHERS)[case]
    assert what in phrases(top, places="import numpy as np\n")


def test_a_harmless_name_that_is_not_known_hides_no_other() -> None:
    top = "import numpy as np\nA = np.dtype\nB = np.lib\ndef honest(t): return sorted([A, B, np.info])"
    named = phrases(top)
    assert [name in named for name in ("numpy.dtype", "numpy.lib", "numpy.info")] == [True, True, True]


QUIET = (
    "import pydantic\nfrom typing import Annotated\nclass Reply(pydantic.BaseModel):\n    a: int\nMANY = list[Reply]\n"
    "A = pydantic.TypeAdapter(MANY)\nB = pydantic.TypeAdapter(Annotated[int, pydantic.Field(gt=1)])\n"
    "def honest(t): return A.validate_json(t.last_reply)",
    "from collections import defaultdict\nINDEX = defaultdict(list)\n"
    "def honest(t): return t.last_reply in INDEX[t.data.kind]",
    "def honest(t):\n    try: return loads(t.last_reply)\n    except (ValueError, RecursionError): return None",
    "def honest(t): return bytes(9) + b'-' * 40",
    "import inspect\ndef f(a): pass\ndef honest(t): return inspect.signature(f, eval_str=False)",
    "class Game:\n    def __init__(self): self.n = 0\n    def move(self):\n        self.n += 1\n        return self.n\n"
    "def honest(t): return Game().move()",
    "class Kind:\n    names = {'a': 'b'}\n    def name(self): return self.names.get('a')\n"
    "def honest(t): return Kind().name()",
    "WORDS = list(map(str, [1]))\ndef honest(t): return '1' in WORDS",
    "WORDS = ['a']\ndef count(words=WORDS):\n    words = [*words]\n    words.append('b')\n    return len(words)\n"
    "def honest(t): return count()",
    "import sqlite3\ndef honest(t):\n    db = sqlite3.connect(':memory:')\n    db.execute('create table t (n)')\n"
    "    return db.execute('select 1')",
    "import sqlite3\nDB = sqlite3.connect(':memory:')\ndef ask(query): return DB.execute(query)\n"
    "def honest(t): return ask('select 1').fetchone()[0] == 1",
    "class Toolset(vf.Toolset):\n    def step(self):\n        self.n = 1\ndef honest(t): return True",
    "import sqlite3\ndef honest(t): return sqlite3.connect(':memory:').execute(\"select date('2020-01-01')\")",
    "SAY = 'the datetime(now) is a time'\ndef honest(t): return SAY",
    "import numpy as np\nfrom pathlib import Path\n"
    "def honest(t): return np.load(Path(__file__).parent / 'x.npy', allow_pickle=False)",
    "import tempfile\ndef honest(t): return tempfile.TemporaryDirectory(prefix='task-')",
    "import tempfile\ndef honest(t):\n    with tempfile.TemporaryDirectory() as d:\n"
    "        return tempfile.NamedTemporaryFile(dir=d)",
    "import importlib.util\nfrom pathlib import Path\n"
    "S = importlib.util.spec_from_file_location('rules', Path(__file__).parent / 'rules.py')\n"
    "def honest(t): return importlib.util.module_from_spec(S)",
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
