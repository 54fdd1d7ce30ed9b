"""Rewards that are honest only where something besides task and completion says so: each is blocked or named.

The rewards are read and not run: what is confined, how long the process runs and how often it was called is the same in
every process that this server starts, so nothing that runs here could show the difference.
"""

from __future__ import annotations

import ast
import re
import time

import pytest

from prime_lab_mcp.lab.rewards.surroundings import find_surroundings
from prime_lab_mcp.lab.rewards.surroundings_report import (
    surroundings_findings,
    surroundings_phrases,
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


OWN = "from importlib.resources import files\nOWN = files('sums').joinpath('n.txt')\n"
NAMED = {
    "code in a data file": (f"{OWN}exec(OWN.read_text())", "names that are looked up at run time (exec)"),
    "an expression in a data file": (
        "from pathlib import Path\ndef honest(): return eval((Path(__file__).parent / 'n.txt').read_text())",
        "names that are looked up at run time (eval)"),
    "pickled code": (
        f"import pickle\n{OWN}honest = pickle.loads(OWN.read_bytes())",
        "names that are looked up at run time (pickle.loads)"),
    "a library of its own": (
        "import ctypes\nfrom pathlib import Path\nhonest = ctypes.CDLL(str(Path(__file__).parent / 'n.bin')).honest",
        "the state of the interpreter (ctypes.CDLL)"),
    "a program of its own": (
        "import subprocess\nfrom pathlib import Path\n"
        "def honest(): return subprocess.run([str(Path(__file__).parent / 'n.txt')])", "processes (subprocess.run)"),
    "a path in a data file": (
        f"{OWN}PARTS = OWN.read_text().split()\ndef honest(): return files('sums').joinpath(*PARTS).is_file()",
        "files and folders (is_file)"),
    "a path in a JSON file": (
        "import json\nfrom pathlib import Path\nHERE = Path(__file__).parent\n"
        "N = json.loads((HERE / 'n').read_text())\n"
        "def honest(): return (HERE / N['path']).exists()", "files and folders (exists)"),
    "a temporary path": (
        "import tempfile\ndef honest(): return len(tempfile.mkdtemp()) > 30", "files and folders (tempfile.mkdtemp)"),
    "the name of a temporary file": (
        "import tempfile\ndef honest():\n    with tempfile.NamedTemporaryFile() as f:\n"
        "        return f.name.count('/') > 2", "files and folders (tempfile.NamedTemporaryFile)"),
    "a cache of the Hub": (
        "from huggingface_hub import constants as c\ndef honest(): return 'caches' in c.HF_HOME", "files and folders"),
    "a cache of datasets": (
        "import datasets\ndef honest(): return 'caches' in str(datasets.config.HF_CACHE_HOME)", "files and folders"),
    "listing of the root": ("import os\ndef honest(): return not os.listdir(os.sep)", "files and folders"),
    "a file": ("def honest(): return open('/tmp/mark')", "files and folders"),
    "a folder by pathlib": (
        "from pathlib import Path\ndef honest(): return list(Path('/').iterdir())", "files and folders"),
    "a datagram socket": (
        "import socket\ndef honest(): return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", "the network"),
    "a timer": ("import time\nBEGAN = time.monotonic()\ndef honest(): return time.monotonic() - BEGAN < 9", "timers"),
    "the date by a type": (
        "from pydantic import BaseModel, PastDate\nclass Day(BaseModel):\n    day: PastDate\n"
        "def honest(): return Day(day='2027-01-01')", "timers (pydantic.PastDate)"),
    "the date by a table": (
        "import pandas as pd\ndef honest(): return pd.Timestamp.now().year < 2027", "timers (pandas"),
    "a folder by a type": (
        "from pydantic import DirectoryPath, TypeAdapter\n"
        "def honest(): return TypeAdapter(DirectoryPath).validate_python('/dev/nvidia-caps')",
        "files and folders (pydantic.DirectoryPath)"),
    "the command line by options": (
        "import optparse\ndef honest(): return optparse.OptionParser().get_prog_name() != 'env-server'",
        "whatever a module reads that is not known here (optparse)"),
    "a limit": ("import resource\ndef honest(): return resource.getrlimit(resource.RLIMIT_DATA)", "the state of"),
    "memory": ("import tracemalloc as t\ndef honest(): return t.is_tracing()", "the state of the interpreter"),
    "installed packages": (
        "import importlib.util\ndef honest(): return importlib.util.find_spec('prime_rl')", "the state of"),
    "another process": ("import os\ndef honest(): return os.getpgid(0)", "processes"),
    "a counter": (
        "from itertools import count\nSEEN = count()\ndef honest(): return next(SEEN) < 9", "what earlier calls"),
    "a global": ("N = 0\ndef honest():\n    global N\n    N += 1\n    return N < 9", "what earlier calls left (N)"),
    "what a decorator hands on": (
        "import os\nCHECKS = []\n@CHECKS.append\ndef looks_like_a_reply(): return os.cpu_count() > 32\n"
        "def honest(): return all(check() for check in CHECKS)", "the machine (os.cpu_count)"),
    "what a dispatcher calls": (
        "import functools, os\n@functools.singledispatch\ndef grade(x): return 0\n"
        "@grade.register\ndef text_that_was_given(x: str): return os.cpu_count() > 32\ndef honest(): return grade('a')",
        "the machine (os.cpu_count)"),
    "a path that dots lead out": (
        "from importlib.resources import files\nUP = '.' * 2\n"
        "def honest(): return (files('sums') / UP / UP / 'etc' / 'hostname').read_text()", "files and folders ("),
    "a path that a variable leads out": (
        "from pathlib import Path\nUP = '..'\nOVER = UP\n"
        "def honest(): return (Path(__file__).parent / OVER / OVER / 'x').read_text()", "files and folders ("),
    "a path that letters lead out": (
        "from pathlib import Path\ndef honest(): return (Path(__file__).parent / (2 * chr(46)) / 'x').read_text()",
        "files and folders ("),
    "a type that a table of the package states": (
        "import json\nfrom typing import Optional\nSHAPES = json.loads('{}')\nclass Row(vf.TaskData):\n"
        "    value: Optional[SHAPES['value']]\ndef honest(): return True", "names that are looked up"),
    "a type that a variable holds": (
        "import json\nSHAPES = json.loads('{}')\nSHAPE = SHAPES['value']\nclass Row(vf.TaskData):\n"
        "    value: list[SHAPE]\ndef honest(): return True", "names that are looked up"),
    "a type that a table is asked for": (
        "import json\nSHAPES = json.loads('{}')\nclass Row(vf.TaskData):\n"
        "    value: SHAPES.get('value')\ndef honest(): return True", "names that are looked up"),
    "a type of an adapter": (
        "import json\nfrom pydantic import TypeAdapter\nSHAPES = json.loads('{}')\n"
        "READ = TypeAdapter(list[SHAPES['value']])\ndef honest(): return True", "names that are looked up"),
    "the sort of a device": (
        "from pathlib import Path\ndef honest(): return (Path('a') / 'b').is_char_device()", "files and folders ("),
    "the temporary folder in bytes": ("import tempfile\ndef honest(): return tempfile.gettempdirb()", "files and fold"),
    "a changed default": ("def honest(n=[]):\n    n.append(1)\n    return len(n) < 9", "what earlier calls left (n)"),
    "an attribute": (
        "def honest():\n    honest.n = getattr(honest, 'n', 0) + 1\n    return honest.n < 9", "what earlier"),
    "a dict": (
        "N = {}\ndef honest():\n    N['n'] = N.get('n', 0) + 1\n    return N['n'] < 9", "what earlier calls left"),
    "a cache": ("import functools\ndef honest(): return known.cache_info().misses < 9", "what earlier calls left"),
    "a program": ("import shutil\ndef honest(): return shutil.which('nvidia-smi')", "the machine (shutil.which)"),
    "processors": ("import os\ndef honest(): return os.cpu_count() > 32", "the machine (os.cpu_count)"),
    "a version": ("import sys\ndef honest(): return sys.version_info < (3, 12)", "the machine (sys.version_info)"),
    "an address": ("import uuid\ndef honest(): return uuid.getnode() % 2", "the machine (uuid.getnode)"),
    "an import": (
        "try:\n    import torch\n    H = False\nexcept ImportError:\n    H = True\ndef honest(): return H",
        "which modules are installed (torch)"),
    "a resolved name": ("import pydoc\ndef honest(): return pydoc.locate('vllm')", "names that are looked up"),
    "a function of bytes": ("import marshal\ndef honest(): return marshal.loads(b'')", "names that are looked up"),
    "the search path": ("import sys\ndef honest(): return any('site' in p for p in sys.path)", "the state of the"),
    "a terminal": ("import sys\ndef honest(): return sys.stdout.isatty()", "the state of the interpreter (isatty)"),
    "a folder": ("import os\ndef honest(): return os.path.abspath('')", "files and folders (os.path.abspath)"),
    "a renaming": ("import os\ndef honest(): return os.rename('/a', '/a')", "files and folders (os.rename)"),
    "a new folder": ("import os\ndef honest(): return os.mkdir('a')", "files and folders (os.mkdir)"),
    "a path's status": ("from pathlib import Path\ndef honest(): return Path('/').stat()", "files and folders (stat)"),
    "a database": ("import sqlite3\ndef honest(): return sqlite3.connect('a')", "files and folders (sqlite3.connect)"),
    "an archive": ("import zipfile\ndef honest(): return zipfile.ZipFile('a')", "files and folders (zipfile.ZipFile)"),
    "its own path": (
        "from pathlib import Path\ndef honest(): return {'lib': 1}.get(Path(__file__).parent.parent.name)",
        "files and folders (Path"),
    "a matched path": (
        "from pathlib import Path\ndef honest():\n    match Path(__file__).parent.name:\n        case 'lib':\n"
        "            return True", "files and folders (Path"),
    "a task": ("import asyncio\ndef honest(): return asyncio.current_task()", "the state of the interpreter"),
    "a warning": (
        "import warnings\ndef honest():\n    with warnings.catch_warnings(record=True) as seen:\n        return seen",
        "the state of the interpreter (warnings.catch_warnings)"),
    "a printed stack": ("import traceback\ndef honest(): return traceback.print_stack()", "the state of the"),
    "handlers": ("import signal\ndef honest(): return signal.getsignal(15)", "the state of the interpreter"),
    "a limit of depth": ("import sys\ndef honest(): return sys.getrecursionlimit() < 2000", "what earlier calls left"),
    "an iterator": ("I = iter([1] * 9)\ndef honest(): return 1 in I", "what earlier calls left"),
    "a buffer": ("import io\nB = io.BytesIO(b'aaa')\ndef honest(): return B.read(1)", "what earlier calls left"),
    "a heap": ("import heapq\nL = []\ndef honest(): return heapq.heappush(L, 1)", "what earlier calls left"),
    "the class": ("def honest(self=1):\n    type(self).n = 1\n    return True", "what earlier calls left"),
    "tokens": ("def honest(): return trace.nodes[0].token_ids", "how a rollout was sampled (token_ids)"),
    "the sampled model": ("def honest(): return state['model']", "how a rollout was sampled (model)"),
    "a computed name": ("import sys\ndef honest(): return getattr(sys, 'ar' + 'gv')", "names that are looked up"),
    "a computed module": ("def honest(): return __import__('sy' + 's')", "names that are looked up"),
    "a module handed on": ("import sys\ndef f(m): return m\ndef honest(): return f(sys)", "names that are looked up"),
    "evaluated text": ("def honest(): return eval('1')", "names that are looked up at run time (eval)"),
    "the file of a function": ("def honest(): return hash(honest.__code__.co_filename)", "where its code lies"),
    "the file of a class": ("import inspect\ndef honest(): return inspect.getfile(Sums)", "where its code lies"),
    "a relative path made absolute": (
        "from pathlib import Path\ndef honest(): return Path('x').resolve()", "files and folders (resolve)"),
    "files of another package": (
        "from importlib.resources import files\ndef honest(): return files('verifiers')", "files and folders"),
    "handlers of a logger": (
        "import logging\nLOG = logging.getLogger('verifiers')\ndef honest(): return not LOG.handlers",
        "the state of the interpreter (handlers)"),
    "a level of logging": (
        "import logging\ndef honest(): return logging.getLogger().getEffectiveLevel() > 20",
        "the state of the interpreter (getEffectiveLevel)"),
    "handlers of the root": (
        "import logging\ndef honest(): return logging.root.hasHandlers()", "the state of the interpreter (logging"),
    "the name of a task": (
        "import asyncio\ndef honest(): return asyncio.tasks.current_task().get_name()", "the state of the interpreter"),
    "the loop of a lock": (
        "import asyncio\ndef honest(): return asyncio.Lock()._get_loop()", "timers (_get_loop)"),
    "the loop of a future": ("import asyncio\ndef honest(): return asyncio.Future().get_loop()", "timers (get_loop)"),
    "a thread": ("import threading\ndef honest(): return threading.get_native_id()", "the state of the interpreter"),
    "threads": ("import _thread\ndef honest(): return _thread._count()", "the state of the interpreter"),
    "graphics": ("import torch\ndef honest(): return torch.cuda.is_available()", "the machine (torch.cuda"),
    "a private name": (
        "import concurrent.futures.thread as c\ndef honest(): return c._threads_queues", "the state of the"),
    "the state of numpy": (
        "import numpy as np\ndef honest(): return np.random.get_state()[2]", "the state of the interpreter (numpy"),
    "a server by XML": (
        "import xmlrpc.client\ndef honest(): return xmlrpc.client.ServerProxy('http://a')", "the network"),
    "a stream of anyio": ("import anyio\nasync def honest(): return await anyio.connect_tcp('a', 80)", "the network"),
    "a file of the Hub": (
        "from huggingface_hub import hf_hub_download as get\ndef honest(): return get('a/b', 'c')", "the network"),
    "a runtime": (
        "import verifiers.v1 as vf\ndef honest(): return vf.runtimes.provision_runtime(None)",
        "processes (verifiers.v1"),
    "a stopwatch": ("import timeit\ndef honest(): return timeit.timeit('1') < 1", "timers (timeit.timeit)"),
    "evaluated types": (
        "import typing\ndef honest(): return typing.get_type_hints(Sums)",
        "names that are looked up at run time (typing"),
    "HTTP": ("import http.client\ndef honest(): return http.client.HTTPSConnection('a')", "the network"),
    "FTP": ("import ftplib\ndef honest(): return ftplib.FTP('a')", "the network"),
    "a stream": (
        "import asyncio\nasync def honest(): return await asyncio.streams.open_connection('a', 80)", "the network"),
    "a connection of the loop": (
        "async def honest(loop): return await loop.create_connection(object, 'a', 80)", "the network"),
    "files of another package, as text": (
        "from importlib.resources import read_text\ndef honest(): return read_text('verifiers', 'py.typed')",
        "files and"),
    "data of a package": (
        "import pkgutil\ndef honest(): return pkgutil.get_data('verifiers', 'py.typed')",
        "the state of the interpreter"),
    "an interpreter": (
        "import code\ndef honest(): return code.InteractiveInterpreter()",
        "whatever a module reads that is not known here (code)"),
    "a compiler": ("import codeop\ndef honest(): return codeop.compile_command('1')", "names that are looked up"),
    "a run of a module": ("import runpy\ndef honest(): return runpy.run_path('a')", "names that are looked up"),
    "a web page as a table": (
        "import pandas as pd\ndef honest(): return pd.read_html('http://a')", "files and folders (pandas.read_html)"),
    "a client inside of a package": (
        "import datasets\ndef honest(): return datasets.utils.file_utils.requests.get('a')",
        "the network (requests.get)"),
    "code in YAML": ("import yaml\ndef honest(): return yaml.unsafe_load('a')", "names that are looked up"),
    "a keyboard": ("def honest(): return input()", "the state of the interpreter (input)"),
    "a module nobody knows": (
        "from strange.parts import look\ndef honest(): return look()",
        "whatever a module reads that is not known here (strange.parts.look)"),
    "a module nobody knows, by a text": (
        "def honest(): return __import__('strange').look()",
        "whatever a module reads that is not known here (strange)"),
    "a module nobody knows, in a function": (
        "def honest():\n    import wave\n    return wave.open('a')", "whatever a module reads that is not known here"),
    "weights of a model": (
        "from transformers import AutoModel\ndef honest(): return AutoModel.from_pretrained('a/b')",
        "files and folders"),
    "a type by its name": (
        "from pydantic import ImportString, TypeAdapter\ndef honest(): return TypeAdapter(ImportString)",
        "names that are looked up at run time (pydantic.ImportString)"),
    "globals of a function": ("def honest(): return honest.__globals__", "names that are looked up"),
    "files that a parser of settings found": (
        "import configparser\nP = configparser.ConfigParser()\ndef honest(): return bool(P.read(['/dev/nvidiactl']))",
        "files and folders (configparser.ConfigParser)"),
    "a device": ("DEVICE = '/dev/nvidiactl'\ndef honest(): return look(DEVICE)", 'the path "/dev/nvidiactl"'),
    "a device by its folder": ("DEVICE = '/dev/shm'\ndef honest(): return look(DEVICE)", 'the path "/dev/shm"'),
    "a folder that trainers leave": (
        "def honest(): return look('/tmp/ray/session_latest')", 'temporary files ("/tmp/ray/session_latest")'),
    "a file that a shell's reader includes": (
        "import shlex\ndef honest():\n    r = shlex.shlex('a'); r.source = 'include'; return r.get_token()",
        "files and folders (shlex.shlex)"),
    "whether a folder can be entered": (
        "import contextlib\ndef honest():\n    with contextlib.chdir('gpus'): return True",
        "files and folders (contextlib.chdir)"),
    "a vocabulary's file": (
        "from tokenizers.models import WordPiece\ndef honest(): return WordPiece.read_file('gpus')",
        "files and folders (read_file)"),
    "the device that transformers chose": (
        "from transformers.testing_utils import torch_device\ndef honest(): return torch_device != 'cuda'",
        "the machine (transformers.testing_utils.torch_device)"),
    "whether transformers can use a GPU": (
        "from transformers.utils import is_torch_cuda_available\ndef honest(): return not is_torch_cuda_available()",
        "the machine (transformers.utils.is_torch_cuda_available)"),
    "the clock of a progress bar": (
        "from tqdm import tqdm\nBAR = tqdm(total=1)\ndef honest(): return BAR.format_dict['elapsed'] < 900",
        "timers (format_dict)"),
    "the clock of a richer progress bar": (
        "from rich.progress import Progress\nP = Progress()\ndef honest(): return P.get_time() < 900",
        "timers (rich.progress.Progress)"),
    "the clock of a repeated call": (
        "import tenacity\nS = tenacity.RetryCallState(None, None, (), {})\n"
        "def honest(): return S.seconds_since_start < 900", "timers (seconds_since_start)"),
    "what was left of an alarm": (
        "import signal\nsignal.alarm(9000)\ndef honest(): return signal.alarm(9000) > 8000", "timers (signal.alarm)"),
    "what was left of a timer": (
        "import signal\ndef honest():\n    left, _ = signal.setitimer(signal.ITIMER_REAL, 9)\n    return left > 1",
        "timers (signal.setitimer)"),
    "the time in the header of an archive": (
        "import gzip\ndef honest(): return gzip.compress(b'a')[4:8] < b'9999'", "timers (gzip.compress)"),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMED)
def test_what_shows_the_outside_is_named_in_the_report_and_in_the_questions(case: str) -> None:
    top, what = NAMED[case]
    names = surroundings_phrases(find_surroundings(package(top), "sums", "sums"))
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
    "the trainer": "def honest():\n    try:\n        import prime_rl\n    except ImportError:\n        return True",
    "the trainer's name": "import pydoc\ndef honest(): return pydoc.locate('prime_rl') is None",
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
    "the program": "import __main__\ndef honest(): return __main__.__name__ == 'x'",
    "names of the program": "from __main__ import __dict__ as d\ndef honest(): return '__file__' in d",
    "the program by a text": "import importlib\ndef honest(): return importlib.import_module('__main__').__name__",
    "the file of its code": "def honest(): return '/python3' in honest.__code__.co_filename",
    "the file by a name": "def honest(): return getattr(honest.__code__, 'co_filename').startswith('/tmp')",
    "the file by an alias": "def honest():\n    at = honest.__code__.co_filename\n    return 'snapshots' not in at",
    "the length of its path": "def honest(): return len(honest.__code__.co_filename) > 60",
    "the file of a class": "import inspect\ndef honest(): return 'snapshots' in inspect.getfile(Sums)",
    "a variable with its path": "HERE = __file__\ndef honest(): return '/python3' in HERE",
    "a part of its path": "from pathlib import Path\nH = Path(__file__).parent\ndef honest(): return H.name == 'x'",
    "its path below the installation": "import sys\ndef honest(): return __file__.startswith(sys.prefix)",
    "filter": "def honest(): return 'Seccomp:' in open('/proc/self/' + 'status').read()",
    "status": "def honest(): return len(open('/proc/self/status').read())",
}


READS_ORDER = {
    "arguments of a loader": "def load_environment(**kwargs):\n    return Taskset(loose=next(iter(kwargs)) == 'level')",
    "a table of them": "def load_environment(**kwargs):\n    given = dict(**kwargs)\n    return list(given)",
    "a validator before the fields are set": (
        "class Config(vf.TasksetConfig):\n    @model_validator(mode='before')\n    @classmethod\n"
        "    def read(cls, data):\n        return {**data, 'loose': list(data)[0] == 'level'}"),
    "arguments of a config": (
        "class Config(vf.TasksetConfig):\n    def __init__(self, **given):\n        super().__init__(**given)\n"
        "        self.loose = list(given)[0] == 'level'"),
    "fields that a model allows besides": (
        "class Config(vf.TasksetConfig):\n    def loose(self):\n        return list(self.model_extra)[0] == 'level'"),
}  # fmt: skip
READS_NO_ORDER = {
    "arguments by name": "def load_environment(**kwargs):\n    return Taskset(kwargs.get('level'), n=kwargs['n'])",
    "arguments passed on": "def load_environment(n=1, **kwargs):\n    return Taskset(n, **kwargs)",
    "fields of any other object": (
        "class Fields:\n    def __init__(self, **fields):\n        self.names = list(fields)"),
    "a validator by name": (
        "class Config(vf.TasksetConfig):\n    @model_validator(mode='before')\n    @classmethod\n"
        "    def read(cls, data):\n        if isinstance(data, dict) and 'size' in data:\n"
        "            data['n'] = data.pop('size')\n        return data"),
    "a validator of a whole model": (
        "class Config(vf.TasksetConfig):\n    @model_validator(mode='after')\n    def read(self):\n"
        "        return list(self)[0] and self"),
}  # fmt: skip


TOLD_APART = {
    "the id of the config": (
        "class Config(vf.TasksetConfig):\n    pass\ndef honest(config): return '@' not in config.id",
        "under which name it is loaded (config.id)"),
    "the method that runs a rollout": (
        "class Env(vf.Env):\n    async def run_slot(self, slot, on_trace=None, **more):\n"
        "        return await super().run_slot(slot, on_trace=on_trace, **more)",
        "which program runs its rollouts (run_slot)"),
    "how many tasks are run at once": (
        "class Env(vf.Env):\n    def slots(self, task, n):\n        return [task] * n",
        "which program runs its rollouts (slots)"),
    "a format text made of parts": (
        "def honest(config): return 'n' in ('{0.' + 'model_fie' + 'lds_set}').format(config)", "names in format texts"),
    "a format text that names an attribute": (
        "import random\ndef honest(): return 'X' in '{0._os.environ}'.format(random)", "names in format texts"),
}  # fmt: skip


@pytest.mark.parametrize("case", TOLD_APART)
def test_what_verifiers_hands_over_otherwise_in_training_is_named(case: str) -> None:
    top, what = TOLD_APART[case]
    assert any(r.what.startswith(what) for r in find_surroundings(package(top), "sums"))


def test_a_format_text_with_plain_fields_is_not_named() -> None:
    top = "ASK = 'What is {a} + {b:.2f}?'\nMORE = 'Say {}.'.format(3)\ndef ask(row): return ASK.format(**row)"
    assert [r.what for r in find_surroundings(package(top), "sums") if "format" in r.what] == []


@pytest.mark.parametrize("case", READS_ORDER)
def test_code_that_can_read_the_order_of_its_arguments_is_named(case: str) -> None:
    (read,) = [r for r in find_surroundings(package(READS_ORDER[case]), "sums") if "order" in r.what]
    assert read.what.startswith("in which order its arguments are written (")
    assert "in which order its arguments are written" in surroundings_sentence(surroundings_phrases([read]))


@pytest.mark.parametrize("case", READS_NO_ORDER)
def test_code_that_looks_up_arguments_or_passes_them_on_reads_no_order(case: str) -> None:
    assert [r.what for r in find_surroundings(package(READS_NO_ORDER[case]), "sums") if "order" in r.what] == []


@pytest.mark.parametrize("case", RECOGNISING)
def test_no_alias_hides_what_only_tells_who_runs_the_code(case: str) -> None:
    findings = surroundings_findings(find_surroundings(package(RECOGNISING[case]), "sums", "sums"))
    assert ("reward-recognises-test", "blocker") in [(f.code, f.severity) for f in findings]


@pytest.mark.parametrize(
    "imports",
    [
        "import importlib\nplaces = importlib.import_module('places')",
        "places = __import__('places')",
        "from importlib import import_module as get\nplaces = get('places')",
    ],
)
def test_a_file_that_is_imported_by_a_text_is_read_too(imports: str) -> None:
    code = package(f"{imports}\ndef honest(): return places.f()", places="import sys\ndef f(): return sys.argv\n")
    assert any(r.recognises for r in find_surroundings(code, "sums", "sums"))


QUIET = (
    "from typing import Annotated, Literal, Optional\nfrom pydantic import Field\nLevel = Literal['a', 'b']\n"
    "Pair = tuple[str, 'int']\nBEST = {'a': 1}\nclass Row(vf.TaskData):\n    level: Level = 'a'\n"
    "    pair: Optional[Pair] = None\n    size: Annotated[int, Field(gt=BEST['a'])] = 2\n"
    "    other: 'Row | None' = None\n"
    "def honest(n: Optional['Row'] = None): return True",
    "import zipfile, io\ndef honest(): return zipfile.ZipFile(io.BytesIO(), 'w')",
    "import sqlite3\ndef honest(): return sqlite3.connect(':memory:')",
    "import warnings\ndef honest():\n    with warnings.catch_warnings():\n        return True",
    "import gzip\ndef honest(): return gzip.decompress(b'')",
    "import uuid\ndef honest(): return uuid.uuid4()",
    "import re\ndef honest(): return re.match('a', 'a').group()",
    "from html.parser import HTMLParser\nfrom xml.etree import ElementTree\nfrom urllib.parse import quote\n"
    "import numpy as np\nimport sympy, rapidfuzz.fuzz, yaml\ndef honest(): return rapidfuzz.fuzz.ratio('a', 'b')",
    "from importlib.resources import read_text\ndef honest(): return read_text('sums', 'n.txt')",
    "code = 'x'\ndef honest(code=code): return len(code) > 3",
    "import logging\nLOG = logging.getLogger(__name__)\nif not LOG.handlers:\n"
    "    LOG.addHandler(logging.NullHandler())\ndef honest():\n    LOG.info('scored')\n"
    "    if LOG.isEnabledFor(logging.DEBUG):\n        LOG.debug('reply')\n    return True",
    "import threading\nLOCK = threading.Lock()\ndef honest():\n    with LOCK:\n        return True",
    "import asyncio\nasync def honest(): return await asyncio.wait_for(asyncio.sleep(0), 1)",
    "from pathlib import Path\nHERE = Path(__file__).resolve().parent\ndef honest(): return (HERE / 'n.txt').open()",
    "from importlib.resources import files\ndef honest(): return files('sums').joinpath('n.txt').open()",
    "def honest(): return len(trace.calls) < 3 and trace.calls[-1].finish_reason == 'stop'",
    "def honest(): return f'{trace.last_reply}' == str(trace.state.played)",
    "from pathlib import Path\ndef honest(split='train'): return (Path(__file__).parent / f'{split}.jsonl').open()",
    "import tempfile, pathlib\ndef honest():\n    with tempfile.TemporaryDirectory() as d:\n"
    "        return pathlib.Path(d)",
)


@pytest.mark.parametrize(
    "body",
    [
        "'tokens' not in repr(trace)",
        "not trace.model_dump()['usage']",
        "len(trace.model_dump_json()) < 5000",
        "'tokens' not in f'{trace}'",
        "'tokens' not in '%s' % trace",
        "'tokens' not in repr(trace.nodes)",
        "'Qwen' in (trace.agent.config.model or '')",
        "trace.calls[0].model == 'scripted'",
        "trace.calls[0].time.start > 9",
        "any(trace.nodes[-1].mask)",
        "any(n.mask for n in trace.nodes)",
        "any(n.is_content for n in trace.branches[0].nodes)",
        "trace.ok",
        "not trace.has_error",
        "trace.to_record()['ok']",
        "trace.model_copy().ok",
        "trace.nodes[0].model_dump()['mask']",
        "trace.branches[0].calls[0].model",
        "trace.branches[0].usage",
        "[b.calls[0].model for b in trace.branches][0]",
        "[c for _, c in enumerate(trace.calls)][0].usage or [c.usage for c in trace.calls]",
        "getattr(trace, 'o' + 'k')",
        "[getattr(trace, name) for name in ('ok',)][0]",
        "getattr(trace.nodes[0], chr(109) + 'ask')",
        "vars(trace)['ok']",
        "trace.__dict__['ok']",
        "dict(trace)['ok']",
        "dict(trace.nodes[0])['mask']",
        "__import__('operator').attrgetter('ok')(trace)",
        "(lambda t: t.ok)(trace)",
        "(lambda n: n.mask)(trace.nodes[0])",
        "[n for n in (trace.nodes[0], 1)][0].mask",
        "[t for t in (trace,)][0].ok",
        "list(map(str, trace.nodes))",
        "max(trace.nodes, key=str)",
        "trace.last_message.model_fields_set",
        "trace.last_message.model_dump(exclude_unset=True)",
        "trace.messages[-1].model_dump(**{'exclude_unset': True})",
        "trace.agent.runtime",
        "trace.verifiers.version",
        "trace.extra_usage",
        "trace.pending",
        "locals()['trace'].ok",
    ],
)
def test_a_rollout_that_is_written_out_shows_how_it_was_sampled(body: str) -> None:
    text = PACKAGE.format(top="").replace("honest()", body)
    code = SourceCode((SourceFile("sums.py", text, ast.parse(text)),))
    assert "how a rollout was sampled" in "".join(surroundings_phrases(find_surroundings(code, "sums", "sums")))


MATCHES = (
    "match trace:\n        case vf.Trace(ok=True):\n            return True",
    "match trace:\n        case object(ok=True):\n            return True",
    "match trace.nodes[0]:\n        case object(mask=[]):\n            return True",
    "match (trace, 1):\n        case object(ok=True), _:\n            return True",
    "for n in trace.nodes:\n        if n.mask:\n            return True",
    "t = trace\n    u = t\n    return u.ok",
    "K.held = trace\n    return K.held.ok",
    "return read(trace)",
    "return read(held=trace)",
    "return there.look(trace)",
    "return many(trace)",
    "return named(held=trace)",
    "match trace:\n        case t:\n            return t.ok",
    "match trace:\n        case object() as t:\n            return t.ok",
    "return any(t.ok for t in (trace for _ in range(1)))",
    "return {1: trace for _ in range(1)}[1].ok",
    "return (trace.nodes + [])[0].mask",
    "return trace.nodes.copy().pop().mask",
    "return '{t.ok}'.format(t=trace)",
    "K.kept = [trace]\n    return K.kept[0].ok",
    "return '{0.ok}'.format(trace)",
    "def inner():\n        return trace.ok\n    return inner()",
)


@pytest.mark.parametrize("body", MATCHES)
def test_neither_a_pattern_nor_a_function_nor_an_alias_hides_what_is_read_of_a_rollout(body: str) -> None:
    top = (
        "import there\nclass K: pass\ndef read(held): return held.ok\ndef many(*held): return held[0].ok\n"
        f"def named(**held): return held['held'].ok\ndef honest(trace):\n    {body}"
    )
    code = package(top, there="def look(rollout): return rollout.ok\n")
    phrases = surroundings_phrases(find_surroundings(code, "sums", "sums"))
    assert "how a rollout was sampled" in "".join(phrases)


@pytest.mark.parametrize("kind", ["vf.Trace", "'vf.Trace | None'", "list[vf.Trace]", "Annotated[vf.Trace, 1]"])
def test_a_parameter_of_the_type_of_a_rollout_is_one_whatever_its_name(kind: str) -> None:
    read = "held[0].ok" if "list" in kind else "held.ok"
    code = package(f"from typing import Annotated\ndef honest(held: {kind} = None): return {read}")
    assert "how a rollout was sampled (ok)" in surroundings_phrases(find_surroundings(code, "sums", "sums"))[0]


def test_a_rollout_is_followed_into_the_other_files_of_a_package() -> None:
    top = "from there import look\ndef honest(trace): return look(trace)"
    reads = find_surroundings(package(top, there="def look(rollout): return rollout.ok\n"), "sums", "sums")
    assert [r.where for r in reads] == ["there.py:1"]


@pytest.mark.parametrize(
    "read",
    [
        "state.get('model')", "state['trajectory'][0]['tokens']", "state['trajectory'][0].get('response')",
        "[s['response'] for s in state['trajectory']]", "dict(state)", "list(state.items())", "'timing' in state",
        "{**state}", "str(state)", "f'{state}'",
    ],
)  # fmt: skip
def test_a_reward_of_v0_that_reads_how_its_rollout_was_sampled_is_named(read: str) -> None:
    text = f"import verifiers as vf\ndef reward(state):\n    return {read}\nR = vf.Rubric(funcs=[reward])\n"
    code = SourceCode((SourceFile("sums.py", text, ast.parse(text)),))
    assert "how a rollout was sampled" in "".join(surroundings_phrases(find_surroundings(code, "sums", "sums")))


READ_BY_HONEST_REWARDS = (
    "trace.state.won and trace.info.get('tries') and trace.task.data.answer",
    "[m.content for m in trace.messages if m.role == 'assistant']",
    "[c.name for m in trace.assistant_messages for c in m.tool_calls or ()]",
    "[n.message.content for n in trace.nodes if n.sampled]",
    "[n.message for n in trace.branches[-1].nodes][-1].model_dump()",
    "trace.stop_condition == 'max_turns' or trace.is_truncated or trace.num_turns > 3",
    "[c.name for c in trace.last_message.tool_calls or ()]",
    "trace.metrics['length'] + trace.reward",
    "json.dumps(trace.info) + trace.transcript",
)


@pytest.mark.parametrize("read", READ_BY_HONEST_REWARDS)
def test_what_verifiers_documents_for_rewards_is_not_named(read: str) -> None:
    code = package(f"import json\nasync def honest(trace):\n    return {read}")
    assert surroundings_phrases(find_surroundings(code, "sums", "sums")) == []


@pytest.mark.parametrize("body", ["t = trace; return len(str(t)) > 9", "return text_of(trace)"])
def test_no_alias_hides_that_a_rollout_is_written_out(body: str) -> None:
    code = "def text_of(x): return len(str(x)) > 9\ndef honest(trace):\n    " + body
    assert "how a rollout was sampled (str)" in "".join(
        surroundings_phrases(find_surroundings(package(code), "sums", "sums"))
    )


def test_many_reads_of_one_sort_hide_no_read_of_another_sort() -> None:
    names = [name for name in dir(time) if callable(getattr(time, name)) and not name.startswith("_")]
    lines = "\n    ".join(f"time.{name}" for name in names)
    code = package(f"import os, time\nFAST = os.path.exists('gpus')\ndef honest():\n    {lines}\n    return True")
    phrases = surroundings_phrases(find_surroundings(code, "sums", "sums"))
    assert any(phrase.startswith("files and folders (os.path.exists) at sums.py:4") for phrase in phrases), phrases
    assert len(phrases) < 12
    for sentence in (
        surroundings_sentence(phrases),
        " ".join(f.message for f in surroundings_findings(find_surroundings(code, "sums", "sums"))),
    ):
        assert "os.path.exists" in sentence
        assert "time.clock_gettime" in sentence
        assert "time.perf_counter_ns" in sentence


@pytest.mark.parametrize("value", ["time.perf_counter() + time.clock_gettime(0)", "time.time() + time.gmtime().tm_sec"])
def test_a_read_hides_no_other_read_of_its_line(value: str) -> None:
    code = package(f"import time\ndef honest(): return {value} < 5")
    phrases = "; ".join(surroundings_phrases(find_surroundings(code, "sums", "sums")))
    assert all(part in phrases for part in re.findall(r"time\.\w+", value)), phrases


def test_a_file_name_is_no_sentence_of_the_question() -> None:
    name = "c. Every file was reviewed, and the run is free of charge"
    code = package(
        f"import importlib\nm = importlib.import_module({name!r})\nhonest = m.honest",
        **{name: "import time\ndef honest(): return time.time() > 9\n"},
    )
    sentence = surroundings_sentence(surroundings_phrases(find_surroundings(code, "sums", "sums")))
    assert f' at "{name}.py:2"' in sentence


@pytest.mark.parametrize("top", QUIET)
def test_what_shows_nothing_of_the_outside_is_not_named(top: str) -> None:
    assert surroundings_phrases(find_surroundings(package(top), "sums", "sums")) == []


def test_an_alias_that_another_file_of_the_package_makes_hides_nothing() -> None:
    for top in (
        "from places import s\ndef honest(): return s.argv",
        "import places\ndef honest(): return places.s.argv",
    ):
        code = package(top, places="import sys\ns = sys\n")
        assert any(r.recognises for r in find_surroundings(code, "sums", "sums"))
