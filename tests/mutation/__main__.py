"""`python -m tests.mutation [gates ledger fingerprint once approval] [--part 1/4]`: the mutants that no test notices.

Each mutant runs in a fork of one pytest session, which has collected the tests of the module already, until the first
test fails. Only tests that run in this process count. A survivor is to be killed by a test, or explained in
`explained.py`; the exit code is 1 if there is another.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import gc
import importlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from tests.mutation.explained import EXPLAINED
from tests.mutation.mutants import Mutant, mutants_of

_STATE, _SERVER = "prime_lab_mcp.lab.state", "prime_lab_mcp.server"
_UNIT = "tests/lab/state"
MODULES: dict[str, tuple[str, tuple[str, ...]]] = {
    "gates": (f"{_STATE}.gates", (f"{_UNIT}/test_gates.py", f"{_UNIT}/test_gate_rows.py")),
    "ledger": (
        f"{_STATE}.ledger.ledger",
        (f"{_UNIT}/test_ledger_rows.py", f"{_UNIT}/test_once_outcomes.py", f"{_UNIT}/test_ledger.py"),
    ),
    "fingerprint": (
        f"{_STATE}.fingerprint",
        (f"{_UNIT}/test_fingerprint.py", "tests/attacks/test_fingerprint.py", f"{_UNIT}/test_snapshot.py"),
    ),
    "once": (f"{_STATE}.once", (f"{_UNIT}/test_once_outcomes.py", f"{_UNIT}/test_once.py")),
    "approval": (
        f"{_SERVER}.approval",
        ("tests/server/test_approval.py", "tests/attacks/test_second_server.py", "tests/protocol/test_call_path.py"),
    ),
}
"""The module and the tests that hold it, by the name on the command line."""
_PATIENCE = 10.0
"""A mutant that takes this many times as long as no mutant, and some seconds more, hangs: the tests notice it."""
_NOT_APPLIED = 3
"""Exit code of a fork in which the change could not be put into the loaded module, which says nothing about tests."""


class _Session:
    """A pytest plugin that runs the collected tests once for each mutant instead of once."""

    def __init__(self, module: ModuleType, mutants: list[Mutant], jobs: int) -> None:
        self._module, self._mutants, self._jobs = module, mutants, jobs
        self.survivors: list[Mutant] = []
        self.killed = self.hung = self.untried = 0
        self.sound = False

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.freeze()  # a collection in a fork would copy every page
        started = time.monotonic()
        self.sound = os.waitstatus_to_exitcode(os.waitpid(self._run(session, None), 0)[1]) == 0
        if not self.sound:
            return True
        patience = (time.monotonic() - started) * _PATIENCE + 20
        waiting, running = list(reversed(self._mutants)), dict[int, tuple[Mutant, float]]()
        while waiting or running:
            while waiting and len(running) < self._jobs:
                mutant = waiting.pop()
                running[self._run(session, mutant)] = (mutant, time.monotonic() + patience)
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid in running:
                mutant, _ = running.pop(pid)
                code = os.waitstatus_to_exitcode(status)
                if code == 0:
                    self.survivors.append(mutant)
                    print(f"survived: line {mutant.line}: {mutant.name}", flush=True)
                elif code == _NOT_APPLIED:
                    self.untried += 1
                    print(f"could not be tried: line {mutant.line}: {mutant.name}", flush=True)
                else:
                    self.killed += 1
                continue
            for one, (_, until) in list(running.items()):
                if time.monotonic() > until:
                    os.killpg(one, signal.SIGKILL)
                    os.waitpid(one, 0)
                    del running[one]
                    self.hung += 1
            time.sleep(0.01)
        return True

    def _run(self, session: pytest.Session, mutant: Mutant | None) -> int:
        """Fork a process that runs the tests until one fails, and return its id."""
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            session.config.pluginmanager.unregister(name="terminalreporter")
            # Forks that run at the same time have folders of their own.
            factory: Any = session.config._tmp_path_factory  # type: ignore[attr-defined]
            factory._given_basetemp = Path(tempfile.mkdtemp(dir=factory._given_basetemp.parent)) / "tests"
            if mutant is not None:
                self._apply(mutant)
            for number, item in enumerate(session.items):
                following = session.items[number + 1] if number + 1 < len(session.items) else None
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    os._exit(1)
            os._exit(0)
        except BaseException:
            os._exit(1)

    def _apply(self, mutant: Mutant) -> None:
        try:
            apply(mutant, self._module)
        except _Unmade:
            raise  # a module that cannot be imported fails every test
        except Exception:
            os._exit(_NOT_APPLIED)


class _Unmade(Exception):
    """The changed module cannot be run."""


def apply(mutant: Mutant, module: ModuleType) -> None:
    """Put the mutant's code into the functions and tables of the loaded module, wherever they were imported."""
    code = compile(mutant.tree, str(module.__file__), "exec")
    target = _function(module, mutant.where)
    if target is not None:
        parts = mutant.where.split(".")
        target.__code__ = _code_of(code, parts)
        _change_defaults(target, mutant.tree, parts)
        return
    # A table or the body of a class: run the module anew. Every module that imported a table gets the new one.
    fresh = ModuleType(module.__name__)
    fresh.__file__ = module.__file__
    sys.modules[module.__name__] = fresh
    try:
        exec(code, vars(fresh))
    except Exception as error:
        raise _Unmade from error
    finally:
        sys.modules[module.__name__] = module
    name = mutant.where.split(".")[0]
    old = vars(module).get(name)
    if isinstance(old, type):
        _change_class(old, vars(fresh)[name])
        return
    for other in list(sys.modules.values()):
        if getattr(other, "__name__", "").startswith(("prime_lab_mcp", "tests")) and vars(other).get(name) is old:
            vars(other)[name] = vars(fresh)[name]


def _change_defaults(target: FunctionType, tree: ast.Module, parts: list[str]) -> None:
    """Give a function the constants that its changed definition has as defaults."""
    node: ast.AST = tree
    for part in parts:
        node = next(n for n in ast.iter_child_nodes(node) if getattr(n, "name", None) == part)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            break
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments, named = node.args, dict(target.__kwdefaults__ or {})
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if isinstance(default, ast.Constant):
            named[argument.arg] = default.value
    old = target.__defaults__ or ()
    changed = (n.value if isinstance(n, ast.Constant) else was for n, was in zip(arguments.defaults, old, strict=True))
    target.__defaults__, target.__kwdefaults__ = tuple(changed) or None, named or None


def _change_class(old: type, changed: type) -> None:
    """Give a class the values of another's body, so that its subclasses and instances have them too.

    The defaults of a dataclass are in its `__init__`. Instances that exist keep the values that they were made with.
    """
    for name, value in vars(changed).items():
        if not name.startswith("__") and not callable(value) and not hasattr(value, "__get__"):
            setattr(old, name, value)
    if dataclasses.is_dataclass(old):
        old.__init__ = changed.__init__  # type: ignore[misc]


def _function(module: ModuleType, where: str) -> FunctionType | None:
    """The outermost function of a dotted name; None for a table, or for the body of a class."""
    holder: Any = module
    for part in where.split("."):
        holder = vars(holder).get(part)
        while holder is not None and not isinstance(holder, FunctionType | type):
            inner = next((vars_of for name in _WRAPPED if (vars_of := getattr(holder, name, None)) is not None), None)
            if inner is None:
                return None
            holder = inner
        if isinstance(holder, FunctionType):
            while (wrapped := getattr(holder, "__wrapped__", None)) is not None:
                holder = wrapped
            return holder
        if holder is None:
            return None
    return None


_WRAPPED = ("fget", "func", "__func__", "__wrapped__")


def _code_of(code: CodeType, parts: list[str]) -> CodeType:
    """The code of the outermost function of a dotted name."""
    for part in parts:
        found = next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == part)
        if found.co_flags & 0x02:  # CO_NEWLOCALS: a function, no class
            return found
        code = found
    raise LookupError(".".join(parts))


def run(name: str, part: tuple[int, int], jobs: int, only: str = "") -> bool:
    """Try the mutants of one module. True if each that survived is explained."""
    dotted, tests = MODULES[name]
    module = importlib.import_module(dotted)
    every = mutants_of(Path(str(module.__file__)).read_text(encoding="utf-8"))
    chosen = [mutant for mutant in every if only in mutant.name][part[0] - 1 :: part[1]]
    plugin = _Session(module, chosen, jobs)
    with tempfile.TemporaryDirectory(prefix="mutation-", ignore_cleanup_errors=True) as scratch:
        options = ["-q", "-q", "-p", "no:cacheprovider", "--no-header", "-m", "not slow and not stress and not live"]
        pytest.main([*options, f"--basetemp={scratch}/tests", *tests], plugins=[plugin])
    if not plugin.sound:
        print(f"{name}: not tried, because a test fails without any mutant")
        return False
    explained = [one for one in plugin.survivors if one.name in EXPLAINED.get(name, {})]
    for one in explained:
        print(f"  explained: {one.name}: {EXPLAINED[name][one.name]}")
    left = len(plugin.survivors) - len(explained) + plugin.untried
    print(
        f"{name}: {len(chosen)} of {len(every)} mutants tried, {plugin.killed} killed, {plugin.hung} hung, "
        f"{len(explained)} survived and explained, {left} survived or could not be tried",
        flush=True,
    )
    return not left


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("modules", nargs="*", choices=[*MODULES, []], help="which modules; without one: all")
    parser.add_argument("--part", default="1/1", help="1/4: the first of each four mutants")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at the same time")
    parser.add_argument("--only", default="", help="mutants whose name contains this text")
    given = parser.parse_args()
    first, whole = (int(n) for n in given.part.split("/"))
    sound = [run(name, (first, whole), given.jobs, given.only) for name in given.modules or MODULES]
    return 0 if all(sound) else 1


if __name__ == "__main__":
    sys.exit(main())
