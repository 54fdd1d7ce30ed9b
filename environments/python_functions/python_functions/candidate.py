"""The process in which the code of a reply runs: it answers calls with plain values, and never sees a test.

The grader starts it as a program of its own (`python -c`, so it imports nothing but the standard library). Values cross
between the two as JSON in the form of `encode`; what is no plain value stays here and crosses as a number that stands
for it. Whatever the code does to this process, all it can give back is values.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

LONGEST_ITERATION = 10_000
"""Items taken from a generator or another iterator that a call returns."""
DEEPEST = 60
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux


def encode(value: Any, keep: Callable[[Any], int], levels: int = DEEPEST) -> Any:
    """A value as JSON that keeps its type. `keep` numbers what is no plain value. Raises ValueError when too deep."""
    if levels <= 0:
        raise ValueError("too deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return ["int", hex(int.__index__(value))]
    if isinstance(value, float):
        return ["float", float.hex(value)]
    if isinstance(value, complex):
        return ["complex", value.real.hex(), value.imag.hex()]
    if isinstance(value, bytes | bytearray):
        return ["bytes", bytes(value).hex()]
    if isinstance(value, Mapping):
        return ["dict", [[encode(k, keep, levels - 1), encode(v, keep, levels - 1)] for k, v in value.items()]]
    for kind in (list, tuple, set, frozenset):
        if isinstance(value, kind):
            return [kind.__name__, [encode(item, keep, levels - 1) for item in value]]
    if isinstance(value, range):
        return ["range", value.start, value.stop, value.step]
    if hasattr(value, "__iter__") and hasattr(value, "__next__"):
        items = [item for _, item in zip(range(LONGEST_ITERATION), value, strict=False)]
        return ["iter", [encode(item, keep, levels - 1) for item in items]]
    return ["object", keep(value)]


def decode(told: Any, known: Callable[[int], Any]) -> Any:
    """The value of an encoded one; `known` gives what a number stands for. Raises ValueError, TypeError for others."""
    if told is None or isinstance(told, bool | str):
        return told
    kind, *rest = told
    if kind == "int":
        return int(rest[0], 16)
    if kind == "float":
        return float.fromhex(rest[0])
    if kind == "complex":
        return complex(float.fromhex(rest[0]), float.fromhex(rest[1]))
    if kind == "bytes":
        return bytes.fromhex(rest[0])
    if kind == "range":
        return range(*map(int, rest))
    if kind == "object":
        return known(int(rest[0]))
    if kind == "dict":
        return {decode(k, known): decode(v, known) for k, v in rest[0]}
    make: dict[str, Callable[[Any], Any]] = {
        "list": list,
        "tuple": tuple,
        "set": set,
        "frozenset": frozenset,
        "iter": iter,
    }
    return make[kind]([decode(item, known) for item in rest[0]])


def limit(limits: Mapping[str, int]) -> None:
    """Bound this process for good: seconds of CPU, megabytes of memory, bytes of a file; no core dump."""
    import resource

    for name, most in (
        ("RLIMIT_CPU", limits["cpu"]),
        ("RLIMIT_AS", limits["memory"] * 1_048_576),
        ("RLIMIT_FSIZE", limits["output"]),
        ("RLIMIT_NOFILE", 64),
        ("RLIMIT_CORE", 0),
    ):
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS does not bound memory
            resource.setrlimit(kind, (most, most))
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, 9)


def answer_calls(asked: Any, answers: Any) -> None:
    """Run the code, then answer one call after the other until the asking end is closed."""
    objects: dict[int, Any] = {}
    module = types.ModuleType("solution")
    sys.modules["solution"] = module  # a dataclass looks its module up

    def keep(value: Any) -> int:
        objects[id(value)] = value
        return id(value)

    def answer(question: dict[str, Any]) -> dict[str, Any]:
        if question["do"] == "load":
            exec(compile(question["code"], "solution.py", "exec"), module.__dict__)
            return {"value": None}
        held: Any = objects[question["of"]] if "of" in question else module
        if question["do"] == "get":
            return {"value": encode(getattr(held, question["name"]), keep)}
        target = getattr(held, question["name"]) if "name" in question else held
        args = [decode(a, objects.__getitem__) for a in question["args"]]
        kwargs = {name: decode(a, objects.__getitem__) for name, a in question["kwargs"].items()}
        value = target(*args, **kwargs)
        return {"value": encode(value, keep), "args": [encode(a, keep) for a in args]}

    for line in asked:
        try:
            told = answer(json.loads(line))
        except BaseException as error:
            told = {"raised": type(error).__name__, "message": str(error)[:300]}
        answers.write(json.dumps(told) + "\n")
        answers.flush()


def run_program(source: Any) -> None:
    """Run the code as a program with this process's standard input and output."""
    code = source.read()
    source.close()
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    exec(compile(code, "solution.py", "exec"), module.__dict__)


if __name__ == "__main__":
    _ways: dict[str, Callable[..., None]] = {"calls": answer_calls, "program": run_program}
    _way, _limits, *_fds = sys.argv[1:]
    _files = [os.fdopen(int(fd), mode, encoding="utf-8") for fd, mode in zip(_fds, ("r", "w"), strict=False)]
    limit(json.loads(_limits))
    sys.argv = ["solution.py"]
    _ways[_way](*_files)
