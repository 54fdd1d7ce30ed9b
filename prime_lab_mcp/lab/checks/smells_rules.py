"""One rule per smell: what in a reward's code often goes wrong, found in its syntax tree.

Each yields (kind, line, what the code does). A kind is explained in smells.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from itertools import chain

from prime_lab_mcp.lab.checks import smells_patterns as patterns
from prime_lab_mcp.lab.checks.code import dotted
from prime_lab_mcp.lab.checks.smells_reach import Program, Reached
from prime_lab_mcp.lab.text import quote

Hit = tuple[str, int, str]
Rule = Callable[[Program, Reached], Iterator[Hit]]
_EVALUATES = ("eval", "exec", "builtins.eval", "builtins.exec", "os.system")
_SYMBOLIC = ("sympify", "parse_expr")
_CLOCK = ("time.time", "datetime.now", "datetime.utcnow", "date.today", "time.time_ns")
_MONOTONIC = ("time.monotonic", "time.perf_counter")
_BLOCKING = ("time.sleep", "requests.", "urllib.request.", "httpx.get", "httpx.post", "subprocess.run",
             "subprocess.check_", "subprocess.call", "os.system")  # fmt: skip
_WAITS = ("subprocess.run", "subprocess.check_output", "subprocess.check_call", "subprocess.call")
_WRITES = frozenset({"append", "add", "extend", "insert", "update", "setdefault", "pop", "remove", "discard", "clear"})
_READS = re.compile(r"parse|extract|read|last|answer|tag|box|given|search|match|findall|loads", re.I)
_KEYWORD = re.compile(r"[A-Za-z][A-Za-z' ,]{2,40}")


def _calls(program: Program, at: Reached) -> Iterator[tuple[str, ast.Call]]:
    for node in at.function.nodes():
        if isinstance(node, ast.Call) and dotted(node.func):
            yield program.full_name(at.file, node.func), node


def evaluates(program: Program, at: Reached) -> Iterator[Hit]:
    for name, call in _calls(program, at):
        constant = all(isinstance(a, ast.Constant) for a in call.args)
        if not constant and (name in _EVALUATES or name.rsplit(".", 1)[-1] in _SYMBOLIC):
            yield "evaluates", call.lineno, f"{quote(name, 60)[1:-1]}() evaluates text"


def chance(program: Program, at: Reached) -> Iterator[Hit]:
    paid = {id(n) for r in at.function.nodes() if isinstance(r, ast.Return) for n in ast.walk(r)}
    for name, call in _calls(program, at):
        if name == "random.Random" and call.args:
            continue
        # A monotonic clock usually measures a time limit; inside what is returned it does not.
        clock = name.endswith(_CLOCK) or (name.endswith(_MONOTONIC) and id(call) in paid)
        if name.startswith(("random.", "numpy.random.")) or name == "hash" or clock:
            yield "chance", call.lineno, f"{name}() gives another value in another call or process"


def blocking(program: Program, at: Reached) -> Iterator[Hit]:
    if at.threaded:
        return
    for name, call in _calls(program, at):
        if name.startswith(_BLOCKING):
            yield "blocking", call.lineno, f"{name}() holds up every other rollout"


def alarm(program: Program, at: Reached) -> Iterator[Hit]:
    for name, call in _calls(program, at):
        if name in ("signal.alarm", "signal.setitimer", "signal.signal"):
            yield "alarm", call.lineno, f"{name}() works in the main thread only"


def unlimited(program: Program, at: Reached) -> Iterator[Hit]:
    for name, call in _calls(program, at):
        limited = any(k.arg in ("timeout", None) for k in call.keywords)
        if name in _WAITS and not limited:
            yield "unlimited", call.lineno, f"{name}() has no timeout"


def state(program: Program, at: Reached) -> Iterator[Hit]:
    """Names of the module, a class or self that a call changes."""
    shared = _shared(at) - set(at.function.parameters)
    for node in at.function.nodes():
        if isinstance(node, ast.Global):
            yield "state", node.lineno, f"writes the global {', '.join(node.names)}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WRITES:
            name = dotted(node.func.value) or ""
            if _kept(name, shared):
                yield "state", node.lineno, f"{name}.{node.func.attr}() keeps something between calls"
        elif isinstance(node, ast.Assign | ast.AugAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                inner = target.value if isinstance(target, ast.Subscript) else target
                name = dotted(inner) or ""
                changed = isinstance(target, ast.Subscript) or isinstance(node, ast.AugAssign)
                if (changed and _kept(name, shared)) or (isinstance(inner, ast.Attribute) and name[:1].isupper()):
                    yield "state", node.lineno, f"{name} keeps something between calls"


def _shared(at: Reached) -> set[str]:
    tree = at.file.tree
    local = {n.id for n in at.function.nodes() if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    made = {
        t.id
        for s in (tree.body if tree is not None else ())
        if isinstance(s, ast.Assign | ast.AnnAssign)
        for t in (s.targets if isinstance(s, ast.Assign) else [s.target])
        if isinstance(t, ast.Name)
    }
    return made - local


def _kept(name: str, shared: set[str]) -> bool:
    return name in shared or (name.startswith("self.") and not name.startswith("self.state"))


def substring(program: Program, at: Reached) -> Iterator[Hit]:
    for node in at.function.nodes():
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.In):
            if at.names.is_gold(node.left) and at.names.is_whole(node.comparators[0]):
                yield "substring", node.lineno, "asks whether the gold occurs anywhere in the reply"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            method = node.func.attr
            if _looks_for_gold(at, node.func.value, method, node.args):
                yield "substring", node.lineno, f"looks for the gold in the reply with {method}()"


def _looks_for_gold(at: Reached, on: ast.expr, method: str, args: list[ast.expr]) -> bool:
    if method in ("count", "find", "rfind", "index", "endswith", "startswith"):
        return at.names.is_whole(on) and at.names.is_gold(args[0])
    if method not in ("search", "findall") or len(args) < 2 or not at.names.is_whole(args[1]):
        return False
    return any(at.names.is_gold(n) for n in ast.walk(args[0]) if isinstance(n, ast.Name | ast.Attribute))


def first_match(program: Program, at: Reached) -> Iterator[Hit]:
    """The first number, letter or tag, where a model reasons first; not where the function counts the matches."""
    if _counts(at):
        return
    first = _firsts(at)
    for call, method, pattern, text in patterns.uses(program, at):
        if text is None or not at.names.is_said(text):
            continue
        taken = method == "search" or (method == "findall" and id(call) in first)
        if taken and (patterns.anywhere(pattern) or patterns.of_carrier(pattern)):
            yield "first-match", call.lineno, f"takes the first match of {quote(pattern, 60)}"


def _firsts(at: Reached) -> set[int]:
    """Expressions of which only the first element is used, `x[0]` or `found = x` and then `found[0]`."""
    taken = [n.value for n in at.function.nodes() if isinstance(n, ast.Subscript) and _is_zero(n.slice)]
    named = {n.id for n in taken if isinstance(n, ast.Name)}
    assigned = [n for n in at.function.nodes() if isinstance(n, ast.Assign)]
    kept = [n.value for n in assigned if any(isinstance(t, ast.Name) and t.id in named for t in n.targets)]
    return {id(n) for n in (*taken, *kept)}


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0 and not isinstance(node.value, bool)


def _counts(at: Reached) -> bool:
    """The function looks at how many matches there are, or at more than the first."""
    for node in at.function.nodes():
        if isinstance(node, ast.Compare) and any(
            isinstance(n, ast.Call) and (dotted(n.func) == "len" or getattr(n.func, "attr", "") == "count")
            for n in (node.left, *node.comparators)
        ):
            return True
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "finditer":
            return True
    return False


def backtracking(program: Program, at: Reached) -> Iterator[Hit]:
    for call, _, pattern, text in patterns.uses(program, at):
        if text is not None and not isinstance(text, ast.Constant) and patterns.nested(pattern):
            yield "backtracking", call.lineno, f"{quote(pattern, 60)} repeats a repetition"


def error_pays(_: Program, at: Reached) -> Iterator[Hit]:
    if not at.pays:
        return
    for node in at.function.nodes():
        if isinstance(node, ast.ExceptHandler):
            for inner in chain.from_iterable(ast.walk(s) for s in node.body):
                if isinstance(inner, ast.Return) and _positive(inner.value):
                    yield "error-pays", inner.lineno, f"returns {ast.unparse(inner.value or inner)} after an exception"


def missing_pays(_: Program, at: Reached) -> Iterator[Hit]:
    """`if not found: return 0.5`, where `found` was read from the completion."""
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


def _reads(at: Reached, call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func) or ""
    return bool(_READS.search(name)) and any(at.names.is_said(a) for a in call.args)


def _nothing(at: Reached, test: ast.expr, read: set[str]) -> bool:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _read(at, test.operand, read)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Is | ast.Eq):
        other = test.comparators[0]
        return isinstance(other, ast.Constant) and other.value in (None, "") and _read(at, test.left, read)
    return False


def _read(at: Reached, node: ast.expr, read: set[str]) -> bool:
    if isinstance(node, ast.Name) and node.id in read:
        return True
    return at.names.is_whole(node) or (isinstance(node, ast.Call) and _reads(at, node))


def _positive(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value > 0


def whole(_: Program, at: Reached) -> Iterator[Hit]:
    for node in at.function.nodes():
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
            left, right = node.left, node.comparators[0]
            if (at.names.is_whole(left) and at.names.is_gold(right)) or (
                at.names.is_gold(left) and at.names.is_whole(right)
            ):
                yield "whole", node.lineno, "compares the whole reply with the gold"


def length(_: Program, at: Reached) -> Iterator[Hit]:
    if at.pays:
        for node, text in _paid(at):
            if any(_is_length(at, n) for n in ast.walk(text)):
                yield "length", node.lineno, "pays by the length of the reply"
                return


def _is_length(at: Reached, node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and dotted(node.func) == "len" and bool(node.args) and at.names.is_said(node.args[0])
    )


def _paid(at: Reached) -> Iterator[tuple[ast.stmt | ast.expr, ast.expr]]:
    """Expressions that raise what is returned: factors and terms of a result, and conditions of a bonus."""
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
    """The parts of arithmetic that add to its value, at any depth; what is taken away or divided by is left out."""
    number = isinstance(node, ast.Call) and dotted(node.func) in ("float", "int")
    for inner in _added(node):
        if isinstance(inner, ast.BinOp):
            if isinstance(inner.op, ast.Add | ast.Mult):
                yield from (inner.left, inner.right)
            elif isinstance(inner.op, ast.Div) and _constant(inner.right):
                yield inner.left
        elif number and isinstance(inner, ast.Compare) and isinstance(inner.ops[0], ast.Gt | ast.GtE):
            yield inner


def _added(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    taken_away = node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) else None
    for child in ast.iter_child_nodes(node):
        if child is not taken_away:
            yield from _added(child)


def _constant(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())


def keywords(_: Program, at: Reached) -> Iterator[Hit]:
    """A fixed word in the reply that is paid for; not one that takes the reward away."""
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


def _word(at: Reached, node: ast.AST) -> str | None:
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


RULES: tuple[Rule, ...] = (
    evaluates, substring, error_pays, missing_pays, first_match, state, chance, backtracking, blocking, unlimited,
    alarm, length, keywords, whole,
)  # fmt: skip
