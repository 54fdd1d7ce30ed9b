"""Rewards that count their calls in objects for which no list of changing methods was made: each is named.

The rewards are read and not run: they pay honestly for 100,000 calls, so nothing that runs here shows the difference.
"""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.outside_kinds import KEPT
from prime_lab_mcp.lab.rewards.surroundings import find_surroundings
from prime_lab_mcp.lab.rewards.surroundings_report import surroundings_findings, surroundings_phrases
from tests.attacks.test_named_surroundings import package

COUNTS = {
    "a bound method of a list": ("SEEN = []\nADD = SEEN.append", "ADD(1); return len(SEEN) < 9"),
    "the size of a field of csv": (
        "import csv", "n = csv.field_size_limit(); csv.field_size_limit(n + 1); return n < 9"),
    "an event": ("import asyncio\nDONE = asyncio.Event()", "old = DONE.is_set(); DONE.set(); return not old"),
    "a future": ("import asyncio\nDONE = asyncio.Future()", "DONE.set_result(1); return not DONE.done()"),
    "matches one by one": (
        "import re\nFOUND = re.finditer('a', 'a' * 9)", "return any(True for _ in zip(FOUND, 'a'))"),
    "the scanner of a pattern": ("import re\nSCAN = re.compile('a').scanner('a' * 9)", "return bool(SCAN.search())"),
    "numbers one by one": (
        "import struct\nNUMBERS = struct.iter_unpack('b', bytes(9))", "return [n for n, _ in zip(NUMBERS, 'a')] != []"),
    "lines one by one": ("import csv\nLINES = csv.reader(['a'] * 9)", "return [n for n, _ in zip(LINES, 'a')] != []"),
    "entries one by one": ("SEEN = [1, 2]\nEACH = SEEN.__iter__()", "return [n for n, _ in zip(EACH, 'a')] != []"),
    "a parser of HTML": (
        "from html.parser import HTMLParser\nPAGE = HTMLParser()", "PAGE.feed('a'); return PAGE.getpos()[1] < 9"),
    "a sum into an array": (
        "import numpy as np\nN = np.zeros(1)", "np.add(N, 1, out=N); return float(N[0]) < 9"),
    "a sum at a place of an array": (
        "import numpy as np\nN = np.zeros(1)", "np.add.at(N, 0, 1); return float(N[0]) < 9"),
    "a sorted list": ("SEEN = [2, 1]", "old = SEEN[0]; list.sort(SEEN, key=int); return old == 2"),
    "words one by one": ("import shlex\nWORDS = shlex.shlex('a b c')", "return bool(WORDS.get_token())"),
    "what a graph has ready": (
        "from graphlib import TopologicalSorter\nJOBS = TopologicalSorter({1: {2}, 2: {3}})\nJOBS.prepare()",
        "ready = JOBS.get_ready(); JOBS.done(*ready); return bool(ready)"),
    "the first day of the week": (
        "import calendar", "n = calendar.firstweekday(); calendar.setfirstweekday(n + 1); return n < 6"),
    "the flags of decimals": (
        "import decimal\nSUMS = decimal.Context()",
        "old = any(SUMS.flags.values()); SUMS.divide(1, 3); return not old"),
    "the cases of a function": (
        "from functools import singledispatch\n@singledispatch\ndef show(x): return 0",
        "n = len(show.registry); show.register(type('T', (), {}), str); return n < 9"),
    "the classes of a class": (
        "from abc import ABC\nclass Seen(ABC): pass",
        "Seen.register(str); return not issubclass(str, Seen)"),
    "an operator of the package's": (
        "class Sets(dict):\n    def __ior__(self, other): return self\nSEEN = {}",
        "SEEN.__ior__({len(SEEN): 1}); return len(SEEN) < 9"),
    "a writer of lines": (
        "import csv\nclass Lines(list):\n    write = list.append\nLINES = Lines()\nOUT = csv.writer(LINES)",
        "OUT.writerow([1]); return len(LINES) < 9"),
    "an element": (
        "import xml.etree.ElementTree as ET\nROOT = ET.Element('a')", "ET.SubElement(ROOT, 'b'); return len(ROOT) < 9"),
    "a parser of settings": (
        "from configparser import ConfigParser\nSET = ConfigParser()",
        "SET.read_string(f'[{len(SET)}]'); return len(SET) < 9"),
    "a part of a method": (
        "from functools import partial\nSEEN = []\nADD = partial(list.append, SEEN)", "ADD(1); return len(SEEN) < 9"),
    "a caller of a method": (
        "from operator import methodcaller\nSEEN = []\nADD = methodcaller('append', 1)",
        "ADD(SEEN); return len(SEEN) < 9"),
    "a result of tests": (
        "import unittest\nRESULT = unittest.TestResult()",
        "RESULT.startTest(None); return RESULT.testsRun < 9"),
    "a matcher": (
        "from difflib import SequenceMatcher\nPAIR = SequenceMatcher()",
        "PAIR.set_seq1(PAIR.a + 'a'); return len(PAIR.a) < 9"),
    "a message": (
        "from email.message import Message\nMAIL = Message()", "MAIL.add_header('a', 'b'); return len(MAIL) < 9"),
}  # fmt: skip
ELSEWHERE = {
    "another file": ("from kept import SEEN", "SEEN.append(1); return len(SEEN) < 9", "SEEN = []"),
    "a module of the package": (
        "import kept", "kept.ADD(1); return len(kept.SEEN) < 9", "SEEN = []\nADD = SEEN.append"),
    "a default": ("import asyncio", "DONE.set(); return False", ""),
    "a method by its name": ("SEEN = []\nADD = getattr(SEEN, 'append')", "ADD(1); return len(SEEN) < 9", ""),
    "a method without its object": ("SEEN = []\nADD = list.append", "ADD(SEEN, 1); return len(SEEN) < 9", ""),
    "an attribute of a class": (
        "import asyncio\nclass Kept:\n    done = asyncio.Event()", "Kept.done.set(); return Kept.done.is_set()", ""),
    "a cached function": (
        "import functools, shlex\n@functools.cache\ndef words(): return shlex.shlex('a b')",
        "return bool(words().get_token())", ""),
    "a table of events": (
        "import asyncio\nKEPT = {'a': asyncio.Event()}", "KEPT['a'].set(); return KEPT['a'].is_set()", ""),
    "a function that is handed it": (
        "import shlex\nWORDS = shlex.shlex('a b')\ndef more(words): return words.get_token()",
        "return bool(more(WORDS))", ""),
    "an alias": ("import shlex\nWORDS = shlex.shlex('a b')", "words = WORDS; return bool(words.get_token())", ""),
    "a name that a comprehension has too": (
        "SEEN = []\nADD = SEEN.append", "[ADD for ADD in ()]; ADD(1); return len(SEEN) < 9", ""),
    "an alias of a setting": (
        "import csv\nLIMIT = csv.field_size_limit", "n = LIMIT(); LIMIT(n + 1); return n < 9", ""),
}  # fmt: skip
REACHED = {
    "an argument of a constructor": (
        'import asyncio\nclass Box:\n    def __init__(self, done): self.done = done\nBOX = Box(asyncio.Event())',
        'old = BOX.done.is_set(); BOX.done.set(); return not old'),
    "what a constructor makes": (
        'import asyncio\nclass Box:\n    def __init__(self): self.done = asyncio.Event()\nBOX = Box()',
        'old = BOX.done.is_set(); BOX.done.set(); return not old'),
    "an argument of a constructor, in a method": (
        'import asyncio\nclass Box:\n    def __init__(self, done): self.done = done\n'
        '    def tick(self): self.done.set()\nBOX = Box(done=asyncio.Event())',
        'BOX.tick(); return not BOX.done.is_set()'),
    "a field of a data class": (
        'import asyncio\nfrom dataclasses import dataclass\n@dataclass\nclass Box:\n    done: object\n'
        'BOX = Box(asyncio.Event())',
        'BOX.done.set(); return not BOX.done.is_set()'),
    "what a field makes at first": (
        'import asyncio\nfrom dataclasses import dataclass, field\n@dataclass\nclass Box:\n'
        '    done: object = field(default_factory=asyncio.Event)\nBOX = Box()',
        'BOX.done.set(); return not BOX.done.is_set()'),
    "an argument of the constructor above": (
        'import asyncio\nclass Up:\n    def __init__(self, done): self.done = done\nclass Box(Up):\n'
        '    def __init__(self): super().__init__(asyncio.Event())\nBOX = Box()',
        'BOX.done.set(); return not BOX.done.is_set()'),
    "an argument of partial": (
        'from functools import partial\nSEEN = []\ndef step(seen): seen.append(1); return len(seen)\n'
        'STEP = partial(step, SEEN)',
        'return STEP() < 9'),
    "a list that is made for partial": (
        'from functools import partial\ndef step(seen): seen.append(1); return len(seen)\nSTEP = partial(step, [])',
        'return STEP() < 9'),
    "a named argument of partial": (
        'import asyncio\nfrom functools import partial\ndef step(done): done.set()\n'
        'STEP = partial(step, done=asyncio.Event())',
        'STEP(); return True'),
    "partial in the reward": (
        'import functools\nSEEN = {}\ndef step(n, seen): seen[n] = 1; return len(seen)',
        'return functools.partial(step, seen=SEEN)(1) < 9'),
    "a capture": (
        'import asyncio\nDONE = asyncio.Event()',
        '\n    match DONE:\n        case done: done.set()\n    return DONE'),
    "a capture of an entry": (
        'import asyncio\nKEPT = [asyncio.Event()]',
        '\n    match KEPT:\n        case [done]: done.set()\n    return True'),
    "a capture of an attribute": (
        'import asyncio\nclass Box:\n    def __init__(self): self.done = asyncio.Event()\nBOX = Box()',
        '\n    match BOX:\n        case Box(done=end): end.set()\n    return True'),
    "an attribute that is set from outside": (
        'import asyncio\nclass Box: pass\nBOX = Box()\nBOX.done = asyncio.Event()',
        'BOX.done.set(); return True'),
    "an attribute of a class that is set from outside": (
        'import asyncio\nclass Box: pass\nBox.done = asyncio.Event()',
        'Box.done.set(); return True'),
    "an attribute that is set from outside, in a method": (
        'import asyncio\nclass Box:\n    def tick(self): self.done.set()\nBox.done = asyncio.Event()\nBOX = Box()',
        'BOX.tick(); return True'),
    "an attribute that setattr sets": (
        "import asyncio\nclass Box: pass\nBOX = Box()\nsetattr(BOX, 'done', asyncio.Event())",
        'BOX.done.set(); return True'),
    "an attribute of a function": (
        'import asyncio\ndef box(): pass\nbox.done = asyncio.Event()',
        'box.done.set(); return True'),
    "an attribute that is set while the environment loads": (
        'import asyncio\nclass Box: pass\nBOX = Box()\ndef load_environment(): BOX.done = asyncio.Event()',
        'BOX.done.set(); return True'),
    "a namespace": (
        'import asyncio\nfrom types import SimpleNamespace\nBOX = SimpleNamespace(done=asyncio.Event())',
        'BOX.done.set(); return True'),
    "a cached property": (
        'import asyncio\nfrom functools import cached_property\nclass Box:\n    @cached_property\n'
        '    def done(self): return asyncio.Event()\nBOX = Box()',
        'BOX.done.set(); return True'),
    "a property with a cache": (
        'import asyncio\nimport functools\nclass Box:\n    @property\n    @functools.cache\n'
        '    def done(self): return asyncio.Event()\nBOX = Box()',
        'BOX.done.set(); return True'),
    "a property of what is kept": (
        'import asyncio\nclass Box:\n    def __init__(self): self._done = asyncio.Event()\n    @property\n'
        '    def done(self): return self._done\nBOX = Box()',
        'BOX.done.set(); return True'),
    "a field of a named tuple": (
        'import asyncio\nfrom typing import NamedTuple\nclass Box(NamedTuple):\n    done: object\n'
        'BOX = Box(asyncio.Event())',
        'BOX.done.set(); return True'),
    "a field of a named tuple that is made by a call": (
        "import asyncio\nimport collections\nBox = collections.namedtuple('Box', 'size done')\n"
        "BOX = Box(3, asyncio.Event())",
        'BOX.done.set(); return True'),
    "a field of a data class that is made by a call": (
        "import asyncio\nimport dataclasses\nBox = dataclasses.make_dataclass('Box', ['size', ('done', object)])\n"
        "BOX = Box(3, done=asyncio.Event())",
        'BOX.done.set(); return True'),
    "an object that partial makes": (
        'import asyncio\nfrom functools import partial\nclass Box:\n    def __init__(self, done): self.done = done\n'
        'MAKE = partial(Box, asyncio.Event())\nBOX = MAKE()',
        'BOX.done.set(); return True'),
    "an attribute that getattr reads": (
        'import asyncio\nclass Box:\n    def __init__(self): self.done = asyncio.Event()\nBOX = Box()',
        "getattr(BOX, 'done').set(); return True"),
    "an attribute that a method returns": (
        'import asyncio\nclass Box:\n    def __init__(self): self.done = asyncio.Event()\n'
        '    def end(self): return self.done\nBOX = Box()',
        'BOX.end().set(); return True'),
}  # fmt: skip
SOUND = {
    "named tuples": (
        "from collections import namedtuple\nCase = namedtuple('Case', ['word', 'cost'])\nCASES = [Case('a', 1)]\n"
        "BEST = Case(word='b', cost=2)",
        "return BEST._replace(cost=3).cost > 2 and [c.word.strip() for c in CASES] == ['a'] and BEST.word in 'ab'"),
    "words that a method returns": (
        "class Box:\n    def __init__(self): self.words = ['a']\n    def all(self): return self.words\nBOX = Box()",
        "return 'a' in BOX.all() and sorted(BOX.all())[0] == getattr(BOX, 'words')[0]"),
    "an object that partial makes for words": (
        "from functools import partial\nclass Box:\n    def __init__(self, words): self.words = words\n"
        "MAKE = partial(Box, ['a'])\nBOX = MAKE()",
        "return len(BOX.words) == 1"),
    "constants": ("WORDS = ('a', 'b')\nBEST = {'a': 1.0}", "return BEST.get(WORDS[0]) == 1.0 and 'a' in BEST"),
    "patterns": (
        "import re\nTAG = re.compile('<a>(.*?)</a>')", "return [m[1] for m in TAG.finditer('a')] == TAG.findall('a')"),
    "a table of functions": (
        "import operator\nOPS = {'+': operator.add, '-': lambda a, b: a - b}", "return OPS['+'](1, 2) == 3"),
    "an index of words": ("WORDS = ['a', 'b']\nAT = {w: n for n, w in enumerate(WORDS)}", "return AT.get('a', 0) == 0"),
    "data of the package": (
        "import json\nROWS = json.loads('[]')", "return sorted(r['a'].strip() for r in ROWS if r.get('a')) == []"),
    "a logger": ("import logging\nLOG = logging.getLogger(__name__)", "LOG.warning('a %s', 1); return True"),
    "a lock": (
        "import threading\nTURN = threading.Lock()", "with TURN:\n        return True"),
    "a cached function": (
        "import functools\n@functools.lru_cache(maxsize=9)\ndef parsed(text): return text.split()",
        "return parsed('a b')[0] == 'a'"),
    "a parser of verifiers": ("PARSER = vf.XMLParser(['answer'])", "return PARSER.parse_answer('a') == 'a'"),
    "arrays": (
        "import numpy as np\nN = np.array([1, 2])", "return float(np.dot(N, N)) == N.sum() and N.shape == (2,)"),
    "variables of one call": (
        "import shlex", "words = shlex.shlex('a b'); seen = []; seen.append(words.get_token()); return bool(seen)"),
    "a class of the package": (
        "class Board:\n    def __init__(self): self.cells = [0]\n    def at(self, n): return self.cells[n]\n"
        "B = Board()",
        "return B.at(0) == 0"),
    "choices of an enumeration": (
        "from enum import Enum\nclass Side(Enum):\n    A = 'a'\nSIDES = list(Side)",
        "return Side('a') in SIDES and Side.A.value.upper() == 'A'"),
    "a copy": ("SEEN = [1]", "mine = list(SEEN); mine.append(2); return len(mine) == 2"),
    "words that a constructor is given": (
        "class Box:\n    def __init__(self, words): self.words = words\nBOX = Box(['a'])",
        "return 'a' in BOX.words and len(BOX.words) == 1 and BOX.words[0].strip()=='a'"),
    "words that partial hands on": (
        "from functools import partial\nWORDS = ['a']\ndef fits(words, w): return w in words\n"
        "FITS = partial(fits, WORDS)",
        "return FITS('a')"),
    "partial in the reward": (
        "from functools import partial\nWORDS = ['a']\ndef fits(words, w): return w in words",
        "return partial(fits, WORDS)('a')"),
    "a capture of a word": (
        "WORDS = ['a']",
        "\n    match WORDS:\n        case [w]: return w.strip() == 'a'"),
    "a namespace of words": (
        "import types\nBOX = types.SimpleNamespace(words=['a'], best={'a': 1.0}, size=3)",
        'return BOX.best.get(BOX.words[0]) == 1.0 and BOX.size < 9'),
    "words on a function": (
        "def box(): pass\nbox.words = ['a']",
        "return 'a' in box.words"),
    "a cached property of words": (
        "from functools import cached_property\nclass Box:\n    @cached_property\n"
        "    def words(self): return ['a']\nBOX = Box()",
        "return BOX.words[0] == 'a'"),
    "an object of one call": (
        'import asyncio\nclass Box:\n    def __init__(self, done): self.done = done',
        'box = Box(asyncio.Event()); box.done.set(); return True'),
    "an object of one call, by its method": (
        'import asyncio\nclass Box:\n    def __init__(self, done): self.done = done\n'
        '    def tick(self): self.done.set()',
        'box = Box(asyncio.Event()); box.tick(); return True'),
    "a namespace of one call": (
        'import asyncio\nimport types',
        'box = types.SimpleNamespace(done=asyncio.Event()); box.done.set(); return True'),
    "a data class of words": (
        "from dataclasses import dataclass, field\n@dataclass\nclass Box:\n"
        "    words: list = field(default_factory=list)\n    name: str = 'a'\nBOX = Box(['a'])",
        'return [w.strip() for w in BOX.words] == [BOX.name.upper()]'),
}  # fmt: skip


def kept(top: str, body: str, **more: str) -> list[str]:
    """Return the phrases for a package whose reward asks `honest`, which has this body."""
    given = "DONE=asyncio.Event()" if "DONE" in body and "DONE" not in top else ""
    code = package(f"{top}\ndef honest({given}):\n    {body}", **{name: text for name, text in more.items() if text})
    return [p for p in surroundings_phrases(find_surroundings(code, "sums", "sums")) if p.startswith(KEPT)]


@pytest.mark.parametrize("case", COUNTS)
def test_an_object_that_can_count_calls_is_named(case: str) -> None:
    assert kept(*COUNTS[case]), case


@pytest.mark.parametrize("case", ELSEWHERE)
def test_it_is_named_wherever_it_is_kept_and_however_it_is_reached(case: str) -> None:
    top, body, other = ELSEWHERE[case]
    assert kept(top, body, kept=other), case


@pytest.mark.parametrize("case", REACHED)
def test_it_is_named_by_whatever_way_it_reached_its_place(case: str) -> None:
    assert kept(*REACHED[case]), case


@pytest.mark.parametrize("case", SOUND)
def test_what_cannot_change_by_the_use_of_it_is_not_named(case: str) -> None:
    assert kept(*SOUND[case]) == []


def test_all_of_them_are_one_phrase_of_information() -> None:
    top = "import asyncio, csv\nDONE = asyncio.Event()\nWORDS = csv.reader(['a', 'b'])"
    code = package(f"{top}\ndef honest():\n    DONE.set()\n    return bool(list(WORDS))")
    found = find_surroundings(code, "sums", "sums")
    assert [f.severity for f in surroundings_findings(found)] == ["info"]
    assert surroundings_phrases(found) == [f"{KEPT} (DONE) at sums.py:7"]


def test_classes_that_stand_in_a_circle_of_bases_end_the_reading() -> None:
    classes = "\n".join(f"class C{n}({', '.join(f'C{m}' for m in range(24) if m != n)}): pass" for n in range(24))
    code = package(f"{classes}\nBOX = C0()\ndef honest(): return BOX.lift() is None and BOX.lid")
    assert surroundings_findings(find_surroundings(code, "sums", "sums")) == []


@pytest.mark.parametrize(
    "top",
    [
        "class Box:\n    @property\n    def lid(self): return self.lid",
        "class Box:\n    lid = None\nBOX = Box()\nBOX.lid.lid = Box()\nBOX.lid.lid.lid = BOX.lid",
        "class Box:\n" + "\n".join(f"    @property\n    def p{n}(self): return self.p{n + 1}" for n in range(200)),
        "class Box:\n    def __init__(self, lid): self.lid = Box(lid.lid)\nBOX = Box(Box(None))",
    ],
    ids=["a property of itself", "an attribute of itself", "a row of properties", "an argument of itself"],
)
def test_attributes_that_stand_for_one_another_end_the_reading(top: str) -> None:
    code = package(f"{top}\nONE = Box()\ndef honest(): return ONE.lid is None and ONE.p0")
    find_surroundings(code, "sums", "sums")
