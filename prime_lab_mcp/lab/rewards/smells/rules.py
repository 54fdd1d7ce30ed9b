"""Contains the rules for smells: each finds one kind of frequent mistake in the syntax tree of a reward's code.

Some rules also parse regular expressions, to find nested quantifiers and patterns that match anywhere. A rule yields
(kind, line, description of the code's behaviour). `SMELL_KINDS` (hints.py) has the fix for each kind.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.rewards.smells.reach import ReachedFunction, RewardProgram
from prime_lab_mcp.lab.state.source_code import dotted_name

_METHODS = frozenset({"search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"})
_WRAPPER = re.compile(r"<\\?/?\w|boxed|####|\\#\\#")


def pattern_uses(program: RewardProgram, at: ReachedFunction) -> Iterator[tuple[ast.Call, str, str, ast.expr | None]]:
    """Yield every use of a constant regular expression: (call, method, pattern, expression that is searched)."""
    for node in at.function.nodes():
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
            continue
        name = program.full_name(at.file, node.func)
        head, _, method = name.rpartition(".")
        if method not in _METHODS:
            continue
        if head in ("re", "regex"):
            if node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str):
                text = 2 if method in ("sub", "subn") else 1
                yield node, method, node.args[0].value, node.args[text] if len(node.args) > text else None
        elif isinstance(node.func, ast.Attribute):
            pattern = _compiled(program, at, node.func.value)
            if pattern is not None:
                text = 1 if method in ("sub", "subn") else 0
                yield node, method, pattern, node.args[text] if len(node.args) > text else None


def _compiled(program: RewardProgram, at: ReachedFunction, node: ast.expr) -> str | None:
    """Return the pattern of a module-level `NAME = re.compile("...")` in this file or an imported one; None if there is
    none."""
    module, _, name = program.full_name(at.file, node).rpartition(".")
    files = program.files_of(module) if module else [at.file]
    for file in files:
        for statement in file.tree.body if file.tree is not None else ():
            if (
                isinstance(statement, ast.Assign)
                and any(isinstance(t, ast.Name) and t.id == name for t in statement.targets)
                and isinstance(statement.value, ast.Call)
                and (dotted_name(statement.value.func) or "").endswith("compile")
                and statement.value.args
                and isinstance(statement.value.args[0], ast.Constant)
                and isinstance(statement.value.args[0].value, str)
            ):
                return statement.value.args[0].value
    return None


def nested_quantifier(pattern: str) -> bool:
    """Whether a pattern repeats a repetition, as in `(a+)+`. Its matching time can grow exponentially with length."""
    tree = _tree(pattern)
    return tree is not None and any(_ambiguous(body) for body in _repeated(tree))


def _tree(pattern: str) -> Any:
    """Return the syntax tree of a regular expression; None if it is not valid."""
    # The parser of the standard library is private since 3.11, and the public name for it warns.
    try:
        return importlib.import_module("re._parser").parse(pattern)
    except (re.error, OverflowError, RecursionError):
        return None


def _repeated(tree: Any) -> Iterator[Any]:
    """Yield the parts of a regular expression that are repeated without a limit."""
    for kind, value in tree:
        if str(kind) in ("MAX_REPEAT", "MIN_REPEAT") and str(value[1]) == "MAXREPEAT":
            yield value[2]
        yield from (body for part in _parts(value) for body in _repeated(part))


def _parts(value: Any) -> Iterator[Any]:
    if hasattr(value, "data") and hasattr(value, "getwidth"):
        yield value
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _parts(part)


def _ambiguous(body: Any) -> bool:
    """Whether one iteration of a repetition can consist of nothing but another repetition."""
    items = list(body)
    for number, (kind, value) in enumerate(items):
        rest = items[:number] + items[number + 1 :]
        if not all(_optional(item) for item in rest):
            continue
        name = str(kind)
        if name in ("MAX_REPEAT", "MIN_REPEAT") and str(value[1]) == "MAXREPEAT" and value[2].getwidth()[1] > 0:
            return True
        if name == "SUBPATTERN" and _ambiguous(value[-1]):
            return True
        if name == "BRANCH" and any(_ambiguous(branch) for branch in value[1]):
            return True
    return False


def _optional(item: Any) -> bool:
    kind, value = str(item[0]), item[1]
    return kind in ("MAX_REPEAT", "MIN_REPEAT") and value[0] == 0


def matches_anywhere(pattern: str) -> bool:
    """Whether a pattern such as `[A-E]` or `-?\\d+` can match anywhere: it has no anchor, no wrapper and no fixed
    letter."""
    tree = _tree(pattern)
    return tree is not None and not _tied(pattern) and not _has_wrapper(pattern) and not _required(tree)


def matches_wrapper(pattern: str) -> bool:
    """Whether a pattern captures the content of a tag, a box or ####, and is not anchored to the start or end."""
    return _has_wrapper(pattern) and not _tied(pattern) and _captures(pattern)


def _captures(pattern: str) -> bool:
    try:
        return re.compile(pattern).groups > 0
    except (re.error, OverflowError, RecursionError):
        return False


def _has_wrapper(pattern: str) -> bool:
    return _WRAPPER.search(pattern) is not None


def _tied(pattern: str) -> bool:
    """Whether a pattern is anchored to the start or the end of the text."""
    start = re.sub(r"^\(\?[a-zA-Z]+\)", "", pattern)
    return start.startswith((".*", "[\\s\\S]*", "(?:.*", "^", "\\A")) or pattern.rstrip(")").endswith(("$", "\\Z"))


def _required(tree: Any) -> bool:
    """Whether every match contains a fixed letter."""
    for kind, value in tree:
        name = str(kind)
        if name == "LITERAL" and chr(value).isalpha():
            return True
        if name == "SUBPATTERN" and _required(value[-1]):
            return True
        if name in ("MAX_REPEAT", "MIN_REPEAT") and value[0] > 0 and _required(value[2]):
            return True
    return False


SmellHit = tuple[str, int, str]
"""(kind of smell, line, description of the code's behaviour)."""
SmellRule = Callable[[RewardProgram, ReachedFunction], Iterator[SmellHit]]
_CLOCK = ("time.time", "datetime.now", "datetime.utcnow", "date.today", "time.time_ns")
_MONOTONIC = ("time.monotonic", "time.perf_counter")
_WAITS = ("subprocess.run", "subprocess.check_output", "subprocess.check_call", "subprocess.call")
_WRITES = frozenset({"append", "add", "extend", "insert", "update", "setdefault", "pop", "remove", "discard", "clear"})
_READS = re.compile(r"parse|extract|read|last|answer|tag|box|given|search|match|findall|loads", re.I)
_KEYWORD = re.compile(r"[A-Za-z][A-Za-z' ,]{2,40}")


def _calls(program: RewardProgram, at: ReachedFunction) -> Iterator[tuple[str, ast.Call]]:
    for node in at.function.nodes():
        if isinstance(node, ast.Call) and dotted_name(node.func):
            yield program.full_name(at.file, node.func), node


def chance(program: RewardProgram, at: ReachedFunction) -> Iterator[SmellHit]:
    """Find random numbers, clocks and `hash()`."""
    paid = {id(n) for r in at.function.nodes() if isinstance(r, ast.Return) for n in ast.walk(r)}
    for name, call in _calls(program, at):
        if name == "random.Random" and call.args:
            continue
        # A monotonic clock usually measures a time limit, but not inside a returned value.
        clock = name.endswith(_CLOCK) or (name.endswith(_MONOTONIC) and id(call) in paid)
        if name.startswith(("random.", "numpy.random.")) or name == "hash" or clock:
            yield "chance", call.lineno, f"{name}() gives another value in another call or process"


def unlimited(program: RewardProgram, at: ReachedFunction) -> Iterator[SmellHit]:
    """Find programs that are started without a time limit."""
    for name, call in _calls(program, at):
        limited = any(k.arg in ("timeout", None) for k in call.keywords)
        if name in _WAITS and not limited:
            yield "unlimited", call.lineno, f"{name}() has no timeout"


def changes_state(program: RewardProgram, at: ReachedFunction) -> Iterator[SmellHit]:
    """Find changes to variables of the module, of a class or of `self`."""
    shared = _shared(at) - set(at.function.parameters)
    for node in at.function.nodes():
        if isinstance(node, ast.Global):
            yield "state", node.lineno, f"writes the global {', '.join(node.names)}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WRITES:
            name = dotted_name(node.func.value) or ""
            if _is_shared(name, shared):
                yield "state", node.lineno, f"{name}.{node.func.attr}() keeps something between calls"
        elif isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                inner = target.value if isinstance(target, ast.Subscript) else target
                name = dotted_name(inner) or ""
                changed = isinstance(target, ast.Subscript) or isinstance(node, ast.AugAssign)
                if (changed and _is_shared(name, shared)) or (isinstance(inner, ast.Attribute) and name[:1].isupper()):
                    yield "state", node.lineno, f"{name} keeps something between calls"


def _shared(at: ReachedFunction) -> set[str]:
    """Return the module-level variables that the function does not redefine."""
    tree = at.file.tree
    local = {n.id for n in at.function.nodes() if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    mutable = {
        t.id
        for s in (tree.body if tree is not None else ())
        if isinstance(s, ast.Assign | ast.AnnAssign)
        for t in (s.targets if isinstance(s, ast.Assign) else [s.target])
        if isinstance(t, ast.Name)
    }
    return mutable - local


def _is_shared(name: str, shared: set[str]) -> bool:
    return name in shared or (name.startswith("self.") and not name.startswith("self.state"))


def substring(program: RewardProgram, at: ReachedFunction) -> Iterator[SmellHit]:
    """Find tests whether the completion contains the gold."""
    for node in at.function.nodes():
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.In):
            if at.names.is_gold(node.left) and at.names.is_whole(node.comparators[0]):
                yield "substring", node.lineno, "asks whether the gold occurs anywhere in the reply"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            method = node.func.attr
            if _looks_for_gold(at, node.func.value, method, node.args):
                yield "substring", node.lineno, f"looks for the gold in the reply with {method}()"


def _looks_for_gold(at: ReachedFunction, on: ast.expr, method: str, args: list[ast.expr]) -> bool:
    if method in ("count", "find", "rfind", "index", "endswith", "startswith"):
        return at.names.is_whole(on) and at.names.is_gold(args[0])
    if method not in ("search", "findall") or len(args) < 2 or not at.names.is_whole(args[1]):
        return False
    return any(at.names.is_gold(n) for n in ast.walk(args[0]) if isinstance(n, ast.Name | ast.Attribute))


def first_match(program: RewardProgram, at: ReachedFunction) -> Iterator[SmellHit]:
    """Find code that takes the first match of a pattern, unless the function counts the matches."""
    if _counts(at):
        return
    first = _firsts(at)
    for call, method, pattern, text in pattern_uses(program, at):
        if text is None or not at.names.is_part(text):
            continue
        taken = method == "search" or (method == "findall" and id(call) in first)
        if taken and (matches_anywhere(pattern) or matches_wrapper(pattern)):
            yield "first-match", call.lineno, f"takes the first match of {quote(pattern, 60)}"


def _firsts(at: ReachedFunction) -> set[int]:
    """Return the ids of expressions whose first element is used: x in `x[0]`, and in `y = x` before `y[0]`."""
    taken = [n.value for n in at.function.nodes() if isinstance(n, ast.Subscript) and _is_zero(n.slice)]
    named = {n.id for n in taken if isinstance(n, ast.Name)}
    assigned = [n for n in at.function.nodes() if isinstance(n, ast.Assign)]
    initial = [n.value for n in assigned if any(isinstance(t, ast.Name) and t.id in named for t in n.targets)]
    return {id(n) for n in (*taken, *initial)}


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0 and not isinstance(node.value, bool)


def _counts(at: ReachedFunction) -> bool:
    """Whether the function counts matches or iterates over them."""
    for node in at.function.nodes():
        if isinstance(node, ast.Compare) and any(
            isinstance(n, ast.Call) and (dotted_name(n.func) == "len" or getattr(n.func, "attr", "") == "count")
            for n in (node.left, *node.comparators)
        ):
            return True
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "finditer":
            return True
    return False


def backtracking(program: RewardProgram, at: ReachedFunction) -> Iterator[SmellHit]:
    """Find patterns with nested quantifiers."""
    for call, _, pattern, text in pattern_uses(program, at):
        if text is not None and not isinstance(text, ast.Constant) and nested_quantifier(pattern):
            yield "backtracking", call.lineno, f"{quote(pattern, 60)} repeats a repetition"


def error_pays(_: RewardProgram, at: ReachedFunction) -> Iterator[SmellHit]:
    """Find exception handlers that return a positive number."""
    if not at.pays:
        return
    for node in at.function.nodes():
        if isinstance(node, ast.ExceptHandler):
            for inner in chain.from_iterable(ast.walk(s) for s in node.body):
                if isinstance(inner, ast.Return) and _positive(inner.value):
                    yield "error-pays", inner.lineno, f"returns {ast.unparse(inner.value or inner)} after an exception"


def missing_pays(_: RewardProgram, at: ReachedFunction) -> Iterator[SmellHit]:
    """Find a positive reward for a missing answer: `if not match: return 0.5`, where the completion was searched for
    `match`."""
    if not at.pays:
        return
    read = {
        t.id
        for node in at.function.nodes()
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _reads(at, node.value)
        for t in node.targets
        if isinstance(t, ast.Name)
    }
    for node in at.function.nodes():
        if isinstance(node, ast.If) and _nothing(at, node.test, read):
            for statement in node.body:
                if isinstance(statement, ast.Return) and _positive(statement.value):
                    yield "missing-pays", statement.lineno, f"returns {_text(statement.value)} when no answer is found"
        elif isinstance(node, ast.IfExp) and _positive(node.body) and _nothing(at, node.test, read):
            yield "missing-pays", node.lineno, f"gives {_text(node.body)} when no answer is found"


def _text(node: ast.expr | None) -> str:
    return "nothing" if node is None else ast.unparse(node)[:20]


def _reads(at: ReachedFunction, call: ast.Call) -> bool:
    """Whether a call extracts something from the completion. The name of the called function decides."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else dotted_name(call.func) or ""
    return bool(_READS.search(name)) and any(at.names.is_part(a) for a in call.args)


def _nothing(at: ReachedFunction, test: ast.expr, read: set[str]) -> bool:
    """Whether a condition is true if no answer was found. `read` are variables with extracted answers."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _read(at, test.operand, read)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Is | ast.Eq):
        other = test.comparators[0]
        return isinstance(other, ast.Constant) and other.value in (None, "") and _read(at, test.left, read)
    return False


def _read(at: ReachedFunction, node: ast.expr, read: set[str]) -> bool:
    if isinstance(node, ast.Name) and node.id in read:
        return True
    return at.names.is_whole(node) or (isinstance(node, ast.Call) and _reads(at, node))


def _positive(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value > 0


def whole_reply(_: RewardProgram, at: ReachedFunction) -> Iterator[SmellHit]:
    """Find comparisons of the whole completion with the gold."""
    for node in at.function.nodes():
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            left, right = node.left, node.comparators[0]
            if (at.names.is_whole(left) and at.names.is_gold(right)) or (
                at.names.is_gold(left) and at.names.is_whole(right)
            ):
                yield "whole", node.lineno, "compares the whole reply with the gold"


def length(_: RewardProgram, at: ReachedFunction) -> Iterator[SmellHit]:
    """Find rewards that grow with the length of the completion."""
    if at.pays:
        for node, text in _paid(at):
            if any(_is_length(at, n) for n in ast.walk(text)):
                yield "length", node.lineno, "pays by the length of the reply"
                return


def _is_length(at: ReachedFunction, node: ast.AST) -> bool:
    """Whether an expression is the length of the completion or of a part of it."""
    return (
        isinstance(node, ast.Call)
        and dotted_name(node.func) == "len"
        and bool(node.args)
        and at.names.is_part(node.args[0])
    )


def _paid(at: ReachedFunction) -> Iterator[tuple[ast.stmt | ast.expr, ast.expr]]:
    """Yield (node, expression) for expressions that raise the reward: terms, factors and conditions of a bonus."""
    for node in at.function.nodes():
        if isinstance(node, ast.Return | ast.Assign | ast.AugAssign) and node.value is not None:
            if isinstance(node, ast.AugAssign) and not isinstance(node.op, ast.Add | ast.Mult):
                continue
            yield from ((node, part) for part in _terms(node.value))
        elif isinstance(node, ast.If):
            bonus = (
                isinstance(s, ast.AugAssign) and isinstance(s.op, ast.Add) and _positive(s.value) for s in node.body
            )
            if any(bonus) and isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.Gt | ast.GtE):
                yield node, node.test


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the operands that raise the value of an arithmetic expression: summands, factors and dividends."""
    number = isinstance(node, ast.Call) and dotted_name(node.func) in ("float", "int")
    for inner in _added(node):
        if isinstance(inner, ast.BinOp):
            if isinstance(inner.op, ast.Add | ast.Mult):
                yield from (inner.left, inner.right)
            elif isinstance(inner.op, ast.Div) and _constant(inner.right):
                yield inner.left
        elif number and isinstance(inner, ast.Compare) and isinstance(inner.ops[0], ast.Gt | ast.GtE):
            yield inner


def _added(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes below it, without those that are subtracted."""
    yield node
    taken_away = node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) else None
    for child in ast.iter_child_nodes(node):
        if child is not taken_away:
            yield from _added(child)


def _constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


def keywords(_: RewardProgram, at: ReachedFunction) -> Iterator[SmellHit]:
    """Find rewards for a fixed word in the completion. Words that lower the reward do not count."""
    if not at.pays:
        return
    for node in at.function.nodes():
        value = node.value if isinstance(node, ast.Return | ast.AugAssign) else None
        if isinstance(node, ast.AugAssign) and not isinstance(node.op, ast.Add | ast.Mult):
            continue
        if isinstance(node, ast.If) and any(
            (isinstance(s, ast.AugAssign) and isinstance(s.op, ast.Add))
            or (isinstance(s, ast.Return) and _positive(s.value))
            for s in node.body
        ):
            value = node.test
        for inner in ast.walk(value) if value is not None else ():
            word = _word(at, inner)
            if word:
                yield "keyword", inner.lineno if isinstance(inner, ast.expr) else at.function.line, word
                return


def _word(at: ReachedFunction, node: ast.AST) -> str | None:
    """Describe an expression that searches the completion for a fixed word; None for any other expression."""
    if isinstance(node, ast.GeneratorExp | ast.ListComp) and len(node.generators) == 1:
        over, test = node.generators[0].iter, node.elt
        fixed = isinstance(over, ast.List | ast.Tuple | ast.Set) and any(map(_keyword, over.elts))
        asked = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In)
        if fixed and asked and isinstance(test, ast.Compare) and at.names.is_whole(test.comparators[0]):
            return "pays for fixed words in the reply"
        return None
    word: ast.expr | None = None
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In) and at.names.is_whole(node.comparators[0]):
        word = node.left
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and at.names.is_whole(node.func.value):
        word = node.args[0] if node.func.attr == "count" and node.args else None
    if word is None or not _keyword(word):
        return None
    return f"pays for {quote(ast.literal_eval(word), 40)} in the reply"


def _keyword(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(_KEYWORD.fullmatch(node.value))


SMELL_RULES: tuple[SmellRule, ...] = (
    substring,
    error_pays,
    missing_pays,
    first_match,
    changes_state,
    chance,
    backtracking,
    unlimited,
    length,
    keywords,
    whole_reply,
)
