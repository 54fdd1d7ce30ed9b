"""Describes a loaded v0 environment for a port to v1: its reward functions, weights, parsers, tools and classes.

The description gives the file and line of each function, and constants. The server reads the code from the files.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
from typing import Any, TypedDict

from . import coercion

_LARGEST = 20_000
"""Most characters of a constant that is copied into the new package."""
_DEPTH = 4


class PortFunctionReply(TypedDict):
    """The file and first line of a function of a v0 environment. `free` describes its closure variables by name.

    `bound` says that the function is a bound method.
    """

    name: str
    file: str
    line: int
    bound: bool
    free: dict[str, dict[str, Any]]


class PortClassReply(TypedDict):
    """A class of a v0 package and one instance of it.

    `line` is a line inside the class, `own_bases` are its base classes that verifiers does not define, and `held` are
    the attributes of the instance.
    """

    name: str
    file: str
    line: int
    own_bases: list[str]
    held: dict[str, dict[str, Any]]


class PortParserReply(TypedDict):
    """A parser of a v0 environment.

    `kind` is the parser's class in verifiers, `own` the package's subclass of it (null if there is none), and
    `extract` the function with which it extracts an answer.
    """

    kind: str
    own: PortClassReply | None
    fields: list[list[str]]
    answer_field: str
    extract: dict[str, Any]


class PortRewardReply(TypedDict):
    """A reward function of a v0 environment.

    `library` is the qualified name of a function of verifiers, `method` for a method of the package, otherwise empty.
    `seconds` is the rubric's time limit.
    """

    name: str
    weight: float | None
    library: str
    rubric: str
    group: bool
    function: PortFunctionReply
    parser: PortParserReply | None
    seconds: float | None


class PortReply(TypedDict):
    """The description of a v0 environment for a port to v1, without its rows.

    `base` is the environment's class in verifiers, and `own` the package's subclass of it. `objects` are the names of
    further arguments that the rubrics pass to reward functions.
    """

    base: str
    own: PortClassReply | None
    max_turns: int | None
    tools: list[PortFunctionReply]
    rewards: list[PortRewardReply]
    parser: PortParserReply | None
    objects: list[str]


def describe(env: Any, leaves: list[Any]) -> PortReply:
    """Describe a v0 environment. `leaves` are its rubrics; rubric groups are replaced by their members."""
    rewards = [
        _reward(getattr(fn, "_fn", fn), weight, rubric)
        for rubric in leaves
        for fn, weight in zip(rubric.funcs, rubric.weights)  # noqa: B905
    ]
    return {
        "base": _base(type(env)),
        "own": None if _foreign(type(env)) else _class(env),
        "max_turns": _integer(getattr(env, "max_turns", None)),
        "tools": [_function(tool) for tool in getattr(env, "tools", None) or []],
        "rewards": rewards,
        "parser": _parser(getattr(env, "parser", None)),
        "objects": sorted({coercion.text(n, 100) for r in leaves for n in getattr(r, "class_objects", {})}),
    }


def _foreign(definition: Any) -> bool:
    return str(getattr(definition, "__module__", "")).split(".")[0] == "verifiers"


def _base(kind: type) -> str:
    """Return the name of the first base class that verifiers defines."""
    return next((c.__name__ for c in kind.__mro__ if _foreign(c)), "")


def _reward(fn: Any, weight: Any, rubric: Any) -> PortRewardReply:
    owner = getattr(fn, "__self__", None)
    library = ""
    inner = inspect.unwrap(fn) if callable(fn) else fn
    if _foreign(inner):
        library = coercion.text(getattr(inner, "__qualname__", ""), 200)
    elif owner is not None:
        library = "method"
    parser = getattr(rubric, "parser", None)
    if library.endswith("format_reward_func"):
        parser = _cells(inner).get("self", parser)
    return {
        "name": coercion.text(getattr(fn, "__name__", type(fn).__name__), 200),
        "weight": coercion.number(weight),
        "library": library,
        "rubric": type(rubric).__name__,
        "group": _is_group(rubric, fn),
        "function": _function(fn),
        "parser": _parser(parser),
        "seconds": coercion.number(getattr(rubric, "timeout_seconds", None)),
    }


def _is_group(rubric: Any, fn: Any) -> bool:
    try:
        return bool(rubric._is_group_func(fn))
    except Exception:
        return False


def _function(fn: Any, depth: int = _DEPTH) -> PortFunctionReply:
    """Describe a function: its file and line, and the values of its closure variables."""
    inner = inspect.unwrap(fn) if callable(fn) else fn
    code = getattr(inner, "__code__", None)
    return {
        "name": coercion.text(getattr(inner, "__name__", type(inner).__name__), 200),
        "file": coercion.text(getattr(code, "co_filename", ""), 2000),
        "line": int(getattr(code, "co_firstlineno", 0)),
        "bound": getattr(fn, "__self__", None) is not None,
        "free": {coercion.text(n, 200): _value(v, depth - 1) for n, v in _cells(inner).items()} if depth else {},
    }


def _cells(fn: Any) -> dict[str, Any]:
    names = getattr(getattr(fn, "__code__", None), "co_freevars", ())
    contents = {}
    for name, cell in zip(names, getattr(fn, "__closure__", None) or ()):  # noqa: B905
        try:
            contents[name] = cell.cell_contents
        except ValueError:
            continue
    return contents


def _value(value: Any, depth: int) -> dict[str, Any]:
    """Describe the value of a variable as a constant, a parser or a function; otherwise by the name of its type."""
    if _survives_json(value):
        return {"constant": coercion.to_json(value)}
    if isinstance(value, set | frozenset) and _survives_json(sorted(value, key=repr)):
        return {"constant": coercion.to_json(sorted(value, key=repr)), "type": "set"}
    if isinstance(value, tuple) and _survives_json(list(value)):
        return {"constant": coercion.to_json(list(value)), "type": "tuple"}
    if callable(getattr(value, "parse_answer", None)):
        return {"parser": _parser(value)}
    if inspect.isfunction(value):
        return {"function": _function(value, depth)}
    return {"other": type(value).__name__}


def _survives_json(value: Any) -> bool:
    """Return whether a value is unchanged after it is written as JSON and read back."""
    try:
        written = json.dumps(value, allow_nan=False)
        return len(written) <= _LARGEST and _same(value, json.loads(written))
    except (TypeError, ValueError, RecursionError):
        return False


def _same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def _parser(parser: Any) -> PortParserReply | None:
    if parser is None:
        return None
    fields = [[coercion.text(n, 200) for n in names] for _, names in getattr(parser, "_fields", [])]
    own = not _foreign(type(parser))
    return {
        "kind": _base(type(parser)),
        "own": _class(parser) if own else None,
        "fields": fields,
        "answer_field": coercion.text(getattr(parser, "answer_field", "answer"), 200),
        "extract": _extract(getattr(parser, "extract_fn", None)),
    }


def _extract(fn: Any) -> dict[str, Any]:
    """Describe the function with which a parser extracts an answer.

    `kind` is `none`, `library` (a function of verifiers), `function` (a function of the package) or `other`.
    """
    arguments: dict[str, Any] = {}
    if isinstance(fn, functools.partial) and not fn.args and _survives_json(dict(fn.keywords)):
        fn, arguments = fn.func, dict(fn.keywords)
    name = getattr(fn, "__name__", "")
    if fn is None or (_foreign(fn) and name == "<lambda>"):
        return {"kind": "none"}
    if _foreign(fn):
        return {"kind": "library", "name": coercion.text(name, 200), "arguments": coercion.to_json(arguments)}
    if inspect.isfunction(fn) and not arguments:
        return {"kind": "function", "function": _function(fn)}
    return {"kind": "other", "name": type(fn).__name__}


def _class(instance: Any) -> PortClassReply:
    """Describe an instance of a class of the package: a line inside the class, and the attributes of the instance."""
    kind = type(instance)
    functions = list(map(inspect.unwrap, filter(inspect.isfunction, vars(kind).values())))
    code = next((f.__code__ for f in functions), None)
    held = {}
    for name, value in vars(instance).items():
        if isinstance(value, float) and not math.isfinite(value):
            continue
        held[coercion.text(name, 200)] = _value(value, 2)
    return {
        "name": coercion.text(kind.__name__, 200),
        "file": coercion.text(getattr(code, "co_filename", ""), 2000),
        "line": int(getattr(code, "co_firstlineno", 0)),
        "own_bases": [
            coercion.text(c.__name__, 200)
            for c in kind.__mro__[1:]
            if not _foreign(c) and c.__module__ not in ("builtins", "abc", "typing")
        ],
        "held": held,
    }


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
