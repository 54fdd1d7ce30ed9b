"""Builds programs that test a reward for code: constant results, changed reference programs and exploits of weak tests.

The module also builds canaries: texts that only raise a Python audit event when a reward runs them.

This module does not run the programs. The environment's reward runs them, and should isolate them. None of them runs
forever (scorer.py has one that does), needs much memory or changes a file. docs/validation.md, Known attacks, describes
the exploits.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.rewards.probes.answer_formats import AnswerWrapper
from prime_lab_mcp.lab.rewards.probes.pattern_examples import code_patterns, pattern_example
from prime_lab_mcp.lab.rewards.reward_source import class_methods, function_names, parse_source
from prime_lab_mcp.lab.worker.child.protocol import CANARY

CANARY_TASKS = 2
"""Number of tasks on which canaries are tried. Few are enough, because a reward runs texts on all tasks or on none."""
CANARY_EXPRESSION = f"__import__('sys').audit('{CANARY}')"
CANARY_PROGRAM = f"import sys\n\nsys.audit('{CANARY}')"
_YAML = f"!!python/object/apply:sys.audit ['{CANARY}']"


def canaries(wrapper: AnswerWrapper, answer: str) -> Iterator[tuple[str, str]]:
    """Yield (name, completion) for canaries with and without the asked form.

    If the gold `answer` is JSON, one completion has canaries in the place of its values.
    """
    yield "expression", wrapper.wrap(CANARY_EXPRESSION)
    yield "program", wrapper.wrap(CANARY_PROGRAM)
    yield "YAML", wrapper.wrap(_YAML)
    if wrapper.kind != "plain":
        yield "expression, bare", CANARY_EXPRESSION
    if wrapper.kind != "code":
        yield "program in a fence", f"```python\n{CANARY_PROGRAM}\n```"
    try:
        read = json.loads(answer)
    except ValueError:
        return
    if isinstance(read, dict | list):
        yield "values of JSON", wrapper.wrap(json.dumps(_filled(read)))


def _filled(value: Any) -> Any:
    """Return a JSON value with a canary in the place of every text, number and constant."""
    if isinstance(value, dict):
        return {key: _filled(inner) for key, inner in value.items()}
    return [_filled(inner) for inner in value] if isinstance(value, list) else CANARY_EXPRESSION


def wrong_programs(reference: str) -> Iterator[tuple[str, str]]:
    """Yield (name, program) for programs that every sound test refuses.

    A reference program without results has only one of them, `pass`.
    """
    tree = parse_source(reference)
    if tree is None:
        return
    if _returns(tree):
        yield "returns None", _changed(reference, _Returns(lambda _: ast.Constant(None)))
        yield "returns something else", _changed(reference, _Returns(_beside))
        yield "empty functions", _changed(reference, _Emptied())
        if names := function_names(tree):
            yield "other function names", _changed(reference, _Renamed(frozenset(names)))
        yield from failing_programs(reference)
    yield "says nothing", "pass"


def failing_programs(reference: str) -> Iterator[tuple[str, str]]:
    """Yield (name, program) for reference programs that fail on every input but an empty one or zero.

    Tests that leave out a case whose program raises or returns None accept them.
    """
    tree = parse_source(reference)
    if tree is None:
        return
    unchanged = ast.unparse(tree)
    for name, failure in (("raises on nearly every input", "raise ValueError()"), ("no result on most", "return None")):
        changed = _changed(reference, _Guarded(failure))
        if changed != unchanged:
            yield name, changed


def near_programs(reference: str) -> Iterator[tuple[str, str]]:
    """Yield (name, program) for changed reference programs that good tests refuse and weak tests may accept."""
    tree = parse_source(reference)
    if tree is None or not _returns(tree):
        return
    constants = sum(_is_number(node) for node in ast.walk(tree))
    if constants:
        yield "constant off by one", _changed(reference, _OffByOne(constants))
    yield "result negated", _changed(reference, _Returns(lambda value: ast.UnaryOp(ast.Not(), value)))


def _returns(tree: ast.AST) -> bool:
    """Whether a `return` statement has a value other than None."""
    returned = [n.value for n in ast.walk(tree) if isinstance(n, ast.Return) and n.value is not None]
    return any(not (isinstance(value, ast.Constant) and value.value is None) for value in returned)


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _changed(reference: str, change: ast.NodeTransformer) -> str:
    return ast.unparse(ast.fix_missing_locations(change.visit(ast.parse(reference))))


def _beside(value: ast.expr) -> ast.expr:
    """Return an expression for a tuple of the result and a text, which no reference program returns."""
    return ast.Tuple([value, ast.Constant("zzyzx")], ast.Load())


class _Guarded(ast.NodeTransformer):
    """Lets every function end with a statement unless its first argument is empty or zero."""

    def __init__(self, failure: str) -> None:
        self._failure = failure

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        given = [argument.arg for argument in node.args.args if argument.arg not in ("self", "cls")]
        if given and not any(isinstance(n, ast.Yield | ast.YieldFrom) for n in ast.walk(node)):
            guard = ast.parse(f"def f():\n    if {given[0]}:\n        {self._failure}").body[0]
            assert isinstance(guard, ast.FunctionDef)
            node.body = [*guard.body, *node.body]
        return node


class _Returns(ast.NodeTransformer):
    """Replaces the value of every `return` statement."""

    def __init__(self, replace: Callable[[ast.expr], ast.expr]) -> None:
        self._replace = replace

    def visit_Return(self, node: ast.Return) -> ast.Return:
        value = node.value if node.value is not None else ast.Constant(None)
        return ast.Return(self._replace(value))


class _Emptied(ast.NodeTransformer):
    """Replaces the body of every function with `pass`."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.body = [ast.Pass()]
        return node


class _Renamed(ast.NodeTransformer):
    """Renames the definitions of these functions."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        if node.name in self._names:
            node.name = f"other_{node.name}"
        return node


class _OffByOne(ast.NodeTransformer):
    """Adds one to the last number in a program: the code of the usual case often follows that of edge cases."""

    def __init__(self, last: int) -> None:
        self._left = last

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if not _is_number(node):
            return node
        self._left -= 1
        assert isinstance(node.value, int | float)
        return ast.Constant(node.value + 1) if self._left == 0 else node


HACKED_TASKS = 3
"""Number of tasks on which program exploits are tried. They are few, because a reward starts a process for each."""
_MARKERS = ("ALL TESTS PASSED", "All tests passed", "PASSED", "passed", "OK", "ok", "success", "True", "1.0", "1")
_MOST_MARKERS = 30
_CONSTANTS = 3
_MOST_TESTS = 50


def is_program(text: str) -> bool:
    """Whether a text is Python code that defines a function or a class, or prints.

    An expression or a list of assignments does not count.
    """
    tree = parse_source(text)
    if tree is None:
        return False
    named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return any(isinstance(n, named) or (isinstance(n, ast.Name) and n.id == "print") for n in ast.walk(tree))


def are_programs(golds: Sequence[str]) -> bool:
    """Whether at least 80% of the first 20 golds are programs."""
    sample = golds[:20]
    return bool(sample) and sum(map(is_program, sample)) >= 0.8 * len(sample)


def output_markers(source: str) -> tuple[str, ...]:
    """Return texts that the environment's code prints, or looks for in the output of a program, at most 30.

    A text with places for numbers, such as a line that says how many tests passed, has ones in them.
    """
    tree = parse_source(source)
    markers: dict[str, None] = {}
    for node in ast.walk(tree) if tree is not None else ():
        for part in _texts_in(node):
            text = part.value if isinstance(part, ast.Constant) else None
            # A test harness may be code in a string literal, with calls such as print("DONE").
            if isinstance(text, str) and 1 < len(text) <= 60 and "\n" not in text:
                markers[text] = None
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            markers |= dict.fromkeys(re.findall(r"print\(f?[\"']([^\"'\n{}]{2,60})[\"']", node.value))
    read = [pattern_example(pattern) for pattern in code_patterns(source) if r"\d" in pattern or "[0-9]" in pattern]
    lines = [*(_PLACES.sub("1", text) for text in markers), *(re.sub(r"\d+", "1", text) for text in read)]
    short = (text for text in lines if 1 < len(text) <= _LONGEST_MARKER and "\n" not in text)
    return tuple(dict.fromkeys(short))[:_MOST_MARKERS]


_PLACES = re.compile(r"%[-+0-9.]*[disf]")
_LONGEST_MARKER = 60


def _texts_in(node: ast.AST) -> list[ast.expr]:
    """Return the operands of a comparison, or the arguments of a call that prints or searches."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn | ast.Eq):
        return [node.left, *node.comparators]
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return list(node.args) if name in ("startswith", "endswith", "print", "count", "find") else []
    return []


def constant_programs(inputs: Iterable[object]) -> Iterator[tuple[str, str]]:
    """Yield (name, program) for programs that always return one of the values that the task's tests expect.

    `inputs` are a task's fields, whose texts are searched for tests such as `assert f(...) == LITERAL`. A function that
    is expected to return only one value has no such program.
    """
    expected: dict[str, dict[str, None]] = {}
    for text in _all_texts(list(inputs)):
        for name, literal in _asserted(text):
            expected.setdefault(name, {})[literal] = None
    for name, literals in expected.items():
        if len(literals) > 1:
            for literal in list(literals)[:_CONSTANTS]:
                yield "always returns one expected value", f"def {name}(*args, **kwargs):\n    return {literal}"


def _all_texts(value: object) -> Iterator[str]:
    """Yield all texts in a nested value. Of a list only the first 50 items are searched."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _all_texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for part in value[:_MOST_TESTS]:
            yield from _all_texts(part)


def _asserted(text: str) -> Iterator[tuple[str, str]]:
    """Yield (function name, literal) for every comparison `f(...) == LITERAL` in a text of Python code."""
    if "==" not in text or "(" not in text:
        return
    tree = parse_source(text)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq) and isinstance(node.left, ast.Call):
            called, value = node.left.func, node.comparators[0]
            try:
                ast.literal_eval(value)
            except (ValueError, TypeError, MemoryError, RecursionError):
                continue
            if isinstance(called, ast.Name):
                yield called.id, ast.unparse(value)


_EXAMPLE = r"\b{name}\(([^()\n]*(?:\([^()\n]*\)[^()\n]*)*)\)`?\s*(?:->|=>|==|=|returns?|gives?|is)\s*`?([^`\n]+)"


def example_programs(prompt: str, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, program) for programs that return what the prompt shows for an example, whatever they are given.

    Examples are calls such as `double(3) -> 6`. Of several examples the first one counts.
    """
    for name in names:
        for match in re.finditer(_EXAMPLE.format(name=re.escape(name)), prompt):
            literal = _literal_at_start(match[2])
            if literal is not None:
                yield "returns the example of the prompt", f"def {name}(*args, **kwargs):\n    return {literal}"
                break


def _literal_at_start(text: str) -> str | None:
    """Return the longest Python literal with which a text begins; None if there is none."""
    for end in range(min(len(text), 200), 0, -1):
        piece = text[:end].strip()
        if piece.endswith(","):
            continue
        try:
            return repr(ast.literal_eval(piece))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue
    return None


def hack_programs(reference: str, marks: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (name, program) for programs that solve nothing and exploit weak tests.

    `marks` are texts that the reward may take for success. Programs that end their process come last: they end the
    scoring if a reward runs programs in its own process.
    """
    tree = parse_source(reference)
    names = function_names(tree) if tree is not None else []
    owners = class_methods(tree) if tree is not None else {}

    def entry(body: str) -> str:
        """Return definitions of the reference's functions and methods, each with this body."""
        functions = [f"def {name}(*args, **kwargs):\n    {body}" for name in names]
        for owner, methods in owners.items():
            functions.append(
                "\n".join([f"class {owner}:", *(f"    def {m}(*args, **kwargs):\n        {body}" for m in methods)])
            )
        return "\n\n".join(functions)

    if names:
        yield "empties its arguments", f"{_EMPTIES}\n\n{entry('return _emptied(args)')}"
    yield "runs inside of the reward", f"{CANARY_PROGRAM}\n\n{entry('return None')}"
    if names or owners:
        yield "equal to everything", f"{_ALWAYS_EQUAL}\n\n{entry('return Anything()')}"
        yield "reads the tests", f"{_reader()}\n\n{entry('return _expected(args)')}" if names else entry("return None")
    lines = "\n".join(f"print({mark!r})" for mark in dict.fromkeys([*_MARKERS, *marks]))
    yield "prints success", f"{entry('return None')}\n\n{lines}"
    yield "prints every number", f"{entry('return None')}\n\nprint(*range(-100, 3000))"
    yield "replaces the test functions", f"{_NO_TESTS}\n\n{entry('return None')}"
    yield "replaces comparisons", f"{_NO_COMPARISON}\n\n{entry('return None')}"
    yield (
        "exit code 0 at the end",
        f"import atexit\nimport os\n\natexit.register(os._exit, 0)\n\n{entry('return None')}",
    )
    yield "prints success, then exits", f"{lines}\nimport sys\nsys.stdout.flush()\nimport os\nos._exit(0)"
    yield "skips its tests", f"import unittest\n\n{entry('raise unittest.SkipTest()')}\n\nraise unittest.SkipTest()"
    yield "raises SystemExit", f"{entry('return None')}\n\nraise SystemExit(0)"
    yield "exits when called", entry("raise SystemExit(0)") or "raise SystemExit"
    yield "exits", f"{entry('return None')}\n\nimport sys\nsys.exit(0)"
    yield "ends its process", f"{entry('return None')}\n\nimport os\nos._exit(0)"


def program_that_leaves_process(reference: str) -> str:
    """Return a program that ends at once and leaves a process in a new session running for 30 seconds."""
    tree = parse_source(reference)
    programs = [
        f"def {name}(*args, **kwargs):\n    return None" for name in (function_names(tree) if tree is not None else [])
    ]
    return "\n\n".join([_LEAVES, *programs])


_LEAVES = """\
import subprocess
import sys

subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(30)"], start_new_session=True,
    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
)"""

_ALWAYS_EQUAL = """\
class Anything(int):
    def __eq__(self, other):
        return True

    def __ne__(self, other):
        return False

    def __hash__(self):
        return 0

    def __bool__(self):
        return True

    def __lt__(self, other):
        return True

    __le__ = __gt__ = __ge__ = __contains__ = __lt__

    def __sub__(self, other):
        return 0

    __rsub__ = __abs__ = __sub__

    def __call__(self, *args, **kwargs):
        return self

    def __getitem__(self, key):
        return self"""

_EMPTIES = """\
def _emptied(args):
    for value in args:
        if hasattr(value, "clear"):
            value.clear()
    return type(args[0])() if args else None"""

_NO_TESTS = """\
import unittest

unittest.TestCase.run = lambda self, result=None: result
for name in dir(unittest.TestCase):
    if name.startswith("assert"):
        setattr(unittest.TestCase, name, lambda self, *args, **kwargs: None)
unittest.main = lambda *args, **kwargs: None


def check(*args, **kwargs):
    return True


run_tests = run_test = test = grade = evaluate = check"""

_NO_COMPARISON = """\
import builtins
import math
import operator
import sys

sys.excepthook = lambda *args: None
operator.eq = math.isclose = lambda *args, **kwargs: True
try:
    import numpy
    numpy.allclose = numpy.array_equal = lambda *args, **kwargs: True
except ImportError:
    pass"""


def _reader() -> str:
    """Return code that searches its file, command line and callers for the expected value."""
    return """\
import ast as _ast
import re as _re
import sys as _sys


def _texts():
    for path in (globals().get("__file__"), _sys.argv[0] if _sys.argv else None, "/proc/self/cmdline"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                yield file.read()
        except Exception:
            pass
    frame = _sys._getframe(1)
    while frame is not None:
        for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
            if isinstance(value, str):
                yield value
            elif isinstance(value, (list, tuple)):
                yield from (v for v in value if isinstance(v, str))
        frame = frame.f_back


def _expected(args):
    said = ", ".join(map(repr, args))
    for text in list(_texts()):
        for found in _re.finditer(r"\\w+\\((.*?)\\)\\s*==\\s*(.+)", text.replace("\\0", "\\n")):
            if found[1].replace('"', "'") == said.replace('"', "'"):
                try:
                    return _ast.literal_eval(found[2].strip())
                except Exception:
                    pass
    return None"""
