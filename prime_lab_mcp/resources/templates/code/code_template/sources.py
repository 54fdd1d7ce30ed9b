"""Tests and solutions as datasets write them, made into one form: what the class `Tests` holds, as plain values.

Read are: lists of assert statements (MBPP), a function `check(candidate)` (HumanEval), inputs with outputs of a program
that reads and prints (APPS, TACO, Codeforces) and inputs with outputs of a named function (APPS).
"""

from __future__ import annotations

import ast
import builtins
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from code_template.programs import FENCE, parsed

MOST_CASES = 12
"""Inputs of one task that are run; each takes a process of its own."""
_TESTS = ("test_list", "tests", "test", "test_cases", "asserts", "input_output", "private_tests", "public_tests")
_MORE_TESTS = ("challenge_test_list",)
_SETUP = ("test_setup_code", "test_imports", "setup", "prelude")
_SOLUTIONS = ("solution", "canonical_solution", "reference_solution", "code", "solutions")
_BUILTINS = frozenset(dir(builtins))
_SAME = """\
def _plain(value):
    return [_plain(v) for v in value] if isinstance(value, (list, tuple)) else value
"""
Spec = dict[str, Any]


def solution_in(row: Mapping[str, Any]) -> str | None:
    """A program that solves the task; None when the row has none that parses and can stand in a code block."""
    for name in _SOLUTIONS:
        found = loaded(row.get(name))
        found = next(iter(found), None) if isinstance(found, list) else found
        if isinstance(found, str) and found.strip():
            prompt = row.get("prompt")
            continues = isinstance(row.get("entry_point"), str) and isinstance(prompt, str)
            for code in (f"{prompt}{found}", found) if continues else (found,):
                code = code.replace("\r\n", "\n").strip("\n")
                if FENCE not in code and _defined(code):
                    return code
    return None


def tests_in(row: Mapping[str, Any], column: str, solution: str | None) -> Spec | None:
    """The tests of a row, from `column` or the columns that usually hold them; None where there are none to be run."""
    for name in dict.fromkeys((column, *_TESTS)):
        found = _lists(loaded(row.get(name)))
        if isinstance(found, Mapping):
            spec = _paired(found)
        else:
            more = [found, *(loaded(row.get(other)) for other in _MORE_TESTS)] if isinstance(found, list) else [found]
            texts = [text for part in more for text in (part if isinstance(part, list) else [part])]
            spec = _coded(row, [text for text in texts if isinstance(text, str) and text.strip()], solution)
        if spec is not None:
            return spec
    return None


def loaded(found: Any) -> Any:
    """A text that is JSON of a list or an object as that, anything else as it is."""
    if isinstance(found, str) and found.strip()[:1] in ("[", "{"):
        try:
            return json.loads(found)
        except (ValueError, RecursionError):
            return found
    return found


# --- code ------------------------------------------------------------------------------------------------------------


def _coded(row: Mapping[str, Any], texts: Sequence[str], solution: str | None) -> Spec | None:
    code = "\n".join(texts)
    tree = parsed(code)
    if tree is None or not any(isinstance(node, ast.Assert) for node in ast.walk(tree)):
        return None
    setup = (loaded(row.get(name)) for name in _SETUP)
    prelude = "\n".join(line for part in setup for line in (part if isinstance(part, list) else [part]) if line)
    entry = row.get("entry_point")
    checked = any(isinstance(node, ast.FunctionDef) and node.name == "check" for node in tree.body)
    if checked:
        if not isinstance(entry, str) or not entry.isidentifier():
            return None
        stub = row.get("prompt")
        prelude += f"\n{stub}" if isinstance(stub, str) and parsed(stub) is not None else ""
        return {"prelude": prelude, "tests": f"{code}\n\ncheck({entry})\n", "names": [entry], "cases": []}
    names = _used(tree, prelude, solution)
    return {"prelude": prelude, "tests": code, "names": names, "cases": []} if names else None


def _used(tree: ast.Module, prelude: str, solution: str | None) -> list[str]:
    """What the tests use of the program: what the solution defines of it or, without one, what nothing else defines."""
    used = dict.fromkeys(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    if solution is not None:
        return [name for name in used if name in _defined(solution)]
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    known = bound | _BUILTINS | _defined(prelude) | _defined(ast.unparse(tree))
    return [name for name in used if name not in known]


def _defined(code: str) -> set[str]:
    """Names that code defines at its top level. Empty when it does not parse."""
    tree = parsed(code)
    found: set[str] = set()
    for node in tree.body if tree is not None else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Expr | ast.For | ast.While | ast.If | ast.With | ast.Try):
            found.add("")  # a program that does something
    return found


# --- inputs and outputs ----------------------------------------------------------------------------------------------


def _lists(found: Any) -> Any:
    """Cases one by one (LiveCodeBench, SYNTHETIC-1) as a list of inputs and one of outputs; anything else as it is.

    Cases that LiveCodeBench calls functional stay as they are, since it names their function elsewhere.
    """
    if isinstance(found, Mapping) and isinstance(found.get("test_cases"), list):
        found = found["test_cases"]
    if not isinstance(found, list) or not all(isinstance(case, Mapping) and "input" in case for case in found):
        return found
    if not found or any(case.get("testtype") == "functional" for case in found):
        return found
    outputs = [case.get("output", case.get("expected_output", "")) for case in found]
    return {"inputs": [case["input"] for case in found], "outputs": outputs, "fn_name": found[0].get("fn_name")}


def _paired(found: Mapping[str, Any]) -> Spec | None:
    inputs, outputs = (found.get(f"{side}s", found.get(side)) for side in ("input", "output"))
    if not (isinstance(inputs, list) and isinstance(outputs, list) and inputs and len(inputs) == len(outputs)):
        return None
    pairs = list(zip(inputs, outputs, strict=True))[:MOST_CASES]
    name = found.get("fn_name")
    if isinstance(name, str) and name.isidentifier():
        tests = "\n".join(_called(name, given, wanted) for given, wanted in pairs)
        return {"prelude": _SAME, "tests": tests, "names": [name], "cases": []}
    cases = [{"input": _as_text(given), "output": _as_text(wanted)} for given, wanted in pairs]
    return (
        {"prelude": "", "tests": "", "names": [], "cases": cases} if any(c["output"].strip() for c in cases) else None
    )


def _called(name: str, given: Any, wanted: Any) -> str:
    """One assert. APPS wraps most results of functions in a list of one; either reading of it is right."""
    args = ", ".join(map(repr, given if isinstance(given, list) else [given]))
    either = [wanted, wanted[0]] if isinstance(wanted, list) and len(wanted) == 1 else [wanted]
    return f"assert _plain({name}({args})) in {either!r}"


def _as_text(found: Any) -> str:
    return "\n".join(map(str, found)) if isinstance(found, list) else str(found)


def shown(spec: Spec) -> Iterator[str]:
    """What the task must say of its tests: the names, and the first of several asserts as an example."""
    if spec["cases"]:
        yield "The program reads from standard input and writes to standard output."
    elif spec["names"]:
        yield f"The program must define {' and '.join(f'`{name}`' for name in spec['names'])}."
    asserts = [line for line in spec["tests"].splitlines() if line.startswith("assert ")]
    if len(asserts) > 1 and len(asserts[0]) <= 400 and parsed(asserts[0]) is not None and "_plain(" not in asserts[0]:
        yield f"One of its tests:\n\n    {asserts[0]}"
