"""Finds the places where an environment's code reads its surroundings: anything besides the task and the completion.

Code that reads the process's arguments, the loaded modules, names of this server or its own path can recognise a test
and score honestly only then. Such a read is a blocker. Reads of the clock, the host name, variables, the process or
files outside of the package have honest uses. They are listed, and a witness (side_effects.py) shows whether they
change a reward. Reads that can take many forms (files, network, processes, timers, the interpreter, state of earlier
calls, computed names) are listed once for each kind.

considered_code.py says which code is considered; surroundings_report.py names the places. The module reads the syntax
tree and runs no code.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.rewards.caller_frames import FRAME_FUNCTIONS, frame_reads, imported_modules
from prime_lab_mcp.lab.rewards.considered_code import considered_code
from prime_lab_mcp.lab.rewards.deciding_arguments import decided_reads, parses_what_it_is_given, stays_inside
from prime_lab_mcp.lab.rewards.kept_objects import KeptObjects
from prime_lab_mcp.lab.rewards.lasting_objects import lasting_objects
from prime_lab_mcp.lab.rewards.lasting_state import (
    changed_state,
    counters,
    ending_functions,
    keeping_functions,
    module_names,
)
from prime_lab_mcp.lab.rewards.loggers import setup_reads
from prime_lab_mcp.lab.rewards.name_lookups import NameLookups
from prime_lab_mcp.lab.rewards.outside_kinds import (
    ARGUMENTS,
    ARGUMENTS_IF_NONE_GIVEN,
    FILES,
    INSTALLED,
    INTERPRETER,
    KEPT,
    LOOKUP,
    PLACE,
    SAMPLING,
    STATE,
    TEMPORARY,
    TIMERS,
    UNLISTED,
    outside_kind,
)
from prime_lab_mcp.lab.rewards.outside_names import ResolvedNames, resolve_names
from prime_lab_mcp.lab.rewards.own_place import PLACES, imports_program, reads_program
from prime_lab_mcp.lab.rewards.possible_texts import PossibleTexts
from prime_lab_mcp.lab.rewards.process_limits import awaited_turn, measured_limit
from prime_lab_mcp.lab.rewards.smells.reach import RewardProgram, reached_functions
from prime_lab_mcp.lab.rewards.training_marks import training_marks
from prime_lab_mcp.lab.state.source_code import SourceCode, SourceFile, imported_files

_CLOCK = frozenset(
    f"{module}.{name}"
    for module, names in {
        "time": ("time", "time_ns", "localtime", "gmtime", "ctime", "asctime"),
        "datetime.datetime": ("now", "utcnow", "today"),
        "datetime.date": ("today",),
    }.items()
    for name in names
)
_HOST = frozenset({"socket.gethostname", "socket.getfqdn", "platform.node", "platform.uname", "os.uname"})
_VARIABLES = frozenset({"os.environ", "os.environb", "os.getenv"})
_PROCESS = frozenset(
    {
        "os.getppid",
        "os.getcwd",
        "os.getlogin",
        "os.getuid",
        "getpass.getuser",
        "pathlib.Path.cwd",
        "pathlib.Path.home",
        "os.path.expanduser",
        "gc.get_objects",
        "gc.get_referrers",
        "sys.meta_path",
    }
)
_OF_PROCESS = frozenset({"sys.argv", "sys.orig_argv"})
_OF_TESTER = frozenset({"gc.get_freeze_count"})
_NAMED_APART = _CLOCK | _HOST | _VARIABLES | _PROCESS | _OF_PROCESS | _OF_TESTER | FRAME_FUNCTIONS | {"sys.modules"}
_MARKS = ("seccomp", "nonewprivs", "no_new_privs", "landlock")
_OWN_STATUS = ("/proc/self/", "/proc/thread-self/")
_STATUS = ("status", "cmdline", "environ", "attr", "syscall", "auxv")
_OURS = ("prime_lab", "prime-lab", "_lab_worker", "vf_lab_chat", "vf_lab_loop", "prime_rl")
"""Names of this server and of the trainer. Code that contains them can only use them to find out who runs it."""
_TEXT_TESTS = frozenset({"startswith", "endswith", "find", "index", "count", "match", "search", "fullmatch"})
_TEXT_PARTS = frozenset(
    {"split", "rsplit", "partition", "rpartition", "removeprefix", "removesuffix", "replace", "strip", "encode"}
)
_TEMPORARY_FILES = "/tmp/"
_HARMLESS_FILES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/std", "/dev/fd/", "/tmp")
"""Paths that every machine has, and temporary ones, which have a kind of their own."""
_FOLDERS = ("/dev", "/proc", "/sys", "/etc", "/run", "/home", "/mnt")
"""Folders whose content differs from machine to machine."""
_REFERS_TO_FILE = re.compile(r"\Afile:/|<!ENTITY[^>]*\bSYSTEM\b")
"""Matches texts with which readers of JSON schemas and of XML open files."""
_ALARMS = frozenset({"signal.alarm", "signal.setitimer"})
"""Functions that return how much of the earlier alarm is left."""
_PLAIN_CODE = re.compile(r"[\w.()\[\]]+", re.ASCII)
"""Matches code that cannot be read as a sentence, because it has no blanks."""


@dataclass(frozen=True, slots=True)
class SurroundingsRead:
    """One place in the code that reads the surroundings. `what` describes the read and may quote the code."""

    what: str
    where: str
    """The place as `PATH:LINE`."""
    recognises: bool = False
    """The read only serves to find out who runs the code, which is a blocker."""
    in_reward: bool = False
    """The place is inside a function that a reward runs."""
    kind: str = ""
    """The kind of surroundings, such as files, for reads that can take many forms (outside_names.py); empty for others.

    Reads with a kind are reported as information only.
    """


def find_surroundings(code: SourceCode, module: str, name: str = "") -> list[SurroundingsRead]:
    """Return every place that reads the surroundings: blockers first, then places inside rewards.

    `module` and `name` are the names of the environment's module and of the environment.
    """
    program = RewardProgram(code)
    rewards = {id(at.function.node) for at in reached_functions(code)}
    surroundings: dict[tuple[str, str], SurroundingsRead] = {}
    files = imported_files(code, module)
    if any(_loads_by_path(file) for file in files):  # Such a file is none that is imported by its name.
        files = [*files, *(file for file in code.files if file not in files and file.tree is not None)]
    tops = {file.path: module_names(file.tree) if file.tree is not None else frozenset() for file in files}
    keepers = {file.path: keeping_functions(file.tree) for file in files if file.tree is not None}
    parsed = [(file.path, file.tree) for file in files if file.tree is not None]
    found = lasting_objects([tree for _, tree in parsed])
    objects = {path: of_file for (path, _), of_file in zip(parsed, found, strict=True)}
    ending = frozenset(f for file in files if file.tree is not None for f in ending_functions(file.tree))
    resolved = resolve_names(program, files)
    texts = PossibleTexts(program, files)
    kept = KeptObjects(program, files, objects, ending)
    lookups = {file.path: NameLookups(program, file, resolved[file.path], texts) for file in files}
    own_names = frozenset(f.name for file in files for f in program.by_file[file.path])
    imported = {f.path: imported_modules(f.tree) if f.tree is not None else frozenset() for f in files}
    for file, owner, nodes in considered_code(program, files, rewards):
        names = resolved[file.path]
        for what, line in frame_reads(names, nodes, own_names, imported[file.path]):
            read = SurroundingsRead(what, file.at(line), True, id(owner) in rewards)
            surroundings.setdefault((what, read.where), read)
        for what, line, recognises in _reads(names, nodes, (module, name)):
            read = SurroundingsRead(what, file.at(line), recognises, id(owner) in rewards)
            surroundings.setdefault((what, read.where), read)
        for kind, what, line in (
            *_outside(names, nodes, owner, _LOADS_OWN if _loads_own_alone(names, file) else frozenset()),
            *((KEPT, *use) for use in kept.uses(file, owner, nodes)),
            *(
                (STATE, *change)
                for change in changed_state(
                    owner,
                    nodes,
                    tops[file.path],
                    ending,
                    keepers.get(file.path),
                    objects.get(file.path),
                    in_reward=id(owner) in rewards,
                )
            ),
            *decided_reads(names, nodes),
            *training_marks(owner, nodes),
            *lookups[file.path].in_nodes(owner, nodes),
        ):
            what = what if _PLAIN_CODE.fullmatch(what) else quote(what, 80)
            read = SurroundingsRead(f"{kind} ({what})", file.at(line), False, id(owner) in rewards, kind)
            surroundings.setdefault((read.what, read.where), read)
    return sorted(surroundings.values(), key=lambda r: (not r.recognises, not r.in_reward))


_LOADS_BY_PATH = "spec_from_file_location"
_LOADS_OWN = frozenset(
    {"importlib", "importlib.util", f"importlib.util.{_LOADS_BY_PATH}", "importlib.util.module_from_spec"}
)
"""Names by which code loads a file of its package by the file's path."""


def _by_path(file: SourceFile) -> Iterator[ast.Call]:
    """Yield the calls of a file that load a module by its path."""
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.Call) and _LOADS_BY_PATH in (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", ""),
        ):
            yield node


def _loads_by_path(file: SourceFile) -> bool:
    return next(_by_path(file), None) is not None


def _loads_own_alone(names: ResolvedNames, file: SourceFile) -> bool:
    """Whether a file loads modules by their path, and every one of them is a file of the package.

    What such a module reads is considered like the rest of the package.
    """
    calls = list(_by_path(file))
    return bool(calls) and all(
        len(call.args) > 1 and names.is_below_package(call.args[1]) and _names_python(call) for call in calls
    )


def _names_python(call: ast.Call) -> bool:
    """Whether a call that loads a module by its path leaves the loader to Python, or says that the file is a source."""
    texts = [n.value for n in ast.walk(call.args[1]) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return not any(k.arg in ("loader", None) for k in call.keywords) or any(t.endswith(".py") for t in texts)


def _outside(
    names: ResolvedNames, nodes: list[ast.AST], owner: ast.AST | None, harmless: frozenset[str] = frozenset()
) -> Iterator[tuple[str, str, int]]:
    """Yield (kind, name, line) for every read that has a kind. `harmless` names are no reads."""
    safe: set[int] = set()
    inside: set[int] = set()
    setup = setup_reads(nodes)
    parses_given = parses_what_it_is_given(nodes)
    unused = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and (scratch := _temporary_file(node.value)):
            yield TEMPORARY, scratch, line
        if isinstance(node, ast.Call) and id(node) not in unused and (alarm := names.of(node.func) & _ALARMS):
            yield TIMERS, min(alarm), line
        if isinstance(node, ast.Attribute | ast.Constant) and (place := _place_attribute(node)):
            yield PLACE, place, line
        if limit := measured_limit(node):
            yield INTERPRETER, limit, line
        if turn := awaited_turn(node, names.of):
            yield TIMERS, turn, line
        if isinstance(node, ast.Constant) and _REFERS_TO_FILE.search(str(node.value)):
            yield FILES, str(node.value)[:60], line
        if names.foreign_resources(node):
            yield FILES, ast.unparse(node)[:60], line
        yield from ((UNLISTED, module, line) for module in names.unlisted_modules(node))
        yield from ((INSTALLED, module, line) for module, line in _tried_modules(_guarded(names, node)))
        if isinstance(node, ast.Match) and any(names.of(n) & PLACES for n in _expressions(node.subject)):
            yield FILES, ast.unparse(node.subject)[:60], line
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("get", "pop")
            and any(names.of(n) & PLACES for a in node.args[:1] for n in _expressions(a))
        ):
            yield FILES, ast.unparse(node.args[0])[:60], line
        if isinstance(node, ast.Compare | ast.Call) and (temporary := _temporary_path(names, node)):
            yield FILES, temporary, line
        if sampled := names.rollouts.sampling(node) or names.rollouts.written_out(node):
            yield SAMPLING, sampled, line
        if isinstance(node, ast.Call):
            path = node.args[0] if node.args else None
            stated = isinstance(path, ast.Constant) and isinstance(path.value, str) and _is_path(path.value)
            if stated or any(names.is_below_package(part) for part in (*node.args[:1], node.func)):
                safe.add(id(node.func))
            if stays_inside(names, node, nodes):
                inside.add(id(node.func))
        if names.looks_up(node):
            yield LOOKUP, ast.unparse(node)[:60], line
        if not isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            continue
        if isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            continue
        full = names.of(node) - _NAMED_APART - harmless
        if counters(owner, full):
            yield STATE, min(full), line
        kinds = {kind: name for name in sorted(full) if (kind := outside_kind(name)) and id(node) not in inside}
        if id(node) in safe:  # A file of the package may be read. What runs its text or its program reads anything.
            kinds.pop(FILES, None)
        if isinstance(node, ast.Attribute) and id(node) not in setup and (own := names.attribute_kind(node)):
            kinds.setdefault(own, node.attr)
        if private := names.private_name(full):
            kinds.setdefault(INTERPRETER, private)
        if kinds.get(ARGUMENTS) == "argparse.ArgumentParser" and parses_given:
            kinds[ARGUMENTS_IF_NONE_GIVEN] = kinds.pop(ARGUMENTS)
        yield from ((kind, name, line) for kind, name in kinds.items())


def _place_attribute(node: ast.Attribute | ast.Constant) -> str:
    """Return the attribute with which an expression reads, or names for a read, the file of some code; empty for other
    expressions."""
    name = node.attr if isinstance(node, ast.Attribute) else node.value
    return name if name in ("co_filename", "__cached__", "__pycache__") and isinstance(name, str) else ""


def _temporary_path(names: ResolvedNames, node: ast.Compare | ast.Call) -> str:
    """Return the function whose temporary path an expression compares, measures or searches; empty for other
    expressions. The path tells where the code runs."""
    if isinstance(node, ast.Compare):
        parts: list[ast.expr] = [node.left, *node.comparators]
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT_TESTS | _TEXT_PARTS:
        parts = [node.func.value, *node.args]
    elif isinstance(node.func, ast.Name) and node.func.id in ("len", "hash"):
        parts = list(node.args)
    else:
        return ""
    return next((made for part in parts for inner in _expressions(part) if (made := names.temporary_path(inner))), "")


def _expressions(node: ast.AST) -> list[ast.AST]:
    return [n for n in ast.walk(node) if isinstance(n, ast.Name | ast.Attribute | ast.Call)]


def _guarded(names: ResolvedNames, node: ast.AST) -> list[ast.stmt]:
    """Return the statements whose errors a statement catches, or suppresses by `with suppress(ImportError)`."""
    if isinstance(node, ast.Try | ast.TryStar):
        return node.body if node.handlers else []
    made = [item.context_expr for item in node.items] if isinstance(node, ast.With) else []
    suppressed = any(isinstance(one, ast.Call) and "contextlib.suppress" in names.of(one.func) for one in made)
    return node.body if isinstance(node, ast.With) and suppressed else []


def _tried_modules(body: list[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Yield (module, line) for imports whose failure is caught: they show whether another distribution is installed."""
    for statement in body:
        if isinstance(statement, ast.Import):
            modules = [alias.name for alias in statement.names]
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            modules = [statement.module or ""]
        else:
            continue
        tops = (name.partition(".")[0] for name in modules)
        yield from ((top, statement.lineno) for top in tops if top and top not in sys.stdlib_module_names)


def _reads(names: ResolvedNames, nodes: list[ast.AST], own: tuple[str, str]) -> Iterator[tuple[str, int, bool]]:
    """Yield (description, line, recognises) for every read without a kind; `SurroundingsRead` explains the fields."""
    stored = {ast.dump(n.slice) for n in nodes if isinstance(n, ast.Subscript) and _is_modules(names, n.value)}
    harmless: set[int] = set()
    inner = {id(n.value) for n in nodes if isinstance(n, ast.Attribute)}
    for node in nodes:
        line = getattr(node, "lineno", 0)
        if _is_modules_use(names, node, stored, own[0]):
            harmless |= {id(n) for n in ast.walk(node)}
        elif isinstance(node, ast.Compare | ast.Call) and (_tests_place(names, node) or names.places.is_tested(node)):
            yield "its own path or folder, in a comparison", line, True
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _of_text(node.value, line, own)
        if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
            resolved = sorted(names.of(node))
        else:
            resolved = []
        for name in resolved:
            if _ours(name, own):
                yield f"the name {quote(name, 80)}", line, True
            elif reads_program({name}):
                yield "the program that runs it (__main__)", line, True
            elif name in _OF_PROCESS:
                yield f"the arguments of the process ({name})", line, True
            elif name in FRAME_FUNCTIONS:
                yield f"the frames of its callers ({name})", line, True
            elif name in _OF_TESTER:
                yield f"whether a process of this server loaded it ({name})", line, True
            elif _is_modules(names, node) and id(node) not in harmless:
                yield "the modules that are loaded (sys.modules)", line, True
            elif name in _CLOCK:
                yield f"the clock ({name})", line, False
            elif name in _HOST:
                yield f"the host name ({name})", line, False
            elif name in _PROCESS:
                yield f"the process ({name})", line, False
            elif name in _VARIABLES and id(node) not in inner:
                yield "environment variables", line, False
        if isinstance(node, ast.Call | ast.Subscript) and (variable := _variable(names, node)):
            yield f"the variable {quote(variable, 60)}", line, False
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = [a.name for a in node.names] + ([node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            if imports_program(node):
                yield "the program that runs it (__main__)", line, True
            elif any(_ours(n, own) for n in modules):
                yield f"the name {quote(modules[-1], 80)}", line, True
            elif any(f"{node.module}.{a.name}" in _OF_TESTER for a in node.names if isinstance(node, ast.ImportFrom)):
                yield "whether a process of this server loaded it (gc.get_freeze_count)", line, True


def _of_text(text: str, line: int, own: tuple[str, str]) -> Iterator[tuple[str, int, bool]]:
    """Yield the read that a string literal suggests: a name of this server, the process's status, or a path."""
    if text.split() != [text] or len(text) > 300:
        return  # A longer text, or one with blanks, is prose or data.
    status = text.startswith(_OWN_STATUS) and text.rstrip("/").rpartition("/")[2].startswith(_STATUS)
    if _ours(text, own):
        yield f"the name {quote(text, 80)}", line, True
    elif status or any(mark in text.lower() for mark in _MARKS):
        yield f"how its process is confined ({quote(text, 80)})", line, True
    elif _is_path(text):
        yield f"the path {quote(text, 80)}", line, False


def _is_path(text: str) -> bool:
    """Whether a text is an absolute path of a file that a machine may lack, other than a temporary one."""
    absolute = text.startswith(("/", "~/")) and not text.startswith(("//", *_HARMLESS_FILES))
    return text.rstrip("/") in _FOLDERS or (absolute and text.count("/") > 1 and _may_be_path(text))


def _temporary_file(value: object) -> str:
    """Return the text of a constant that is a path below the temporary folder; empty for other constants.

    Honest code writes such files in its own sandbox. The one that a trainer leaves shows where the code runs.
    """
    return value if isinstance(value, str) and value.startswith(_TEMPORARY_FILES) and _may_be_path(value) else ""


def _may_be_path(text: str) -> bool:
    return not text.endswith("/") and len(text) <= 300 and all(c.isalnum() or c in "/._-~" for c in text)


def _ours(text: str, own: tuple[str, str]) -> bool:
    """Whether a text contains a name of this server or trainer, and no name of the environment itself."""
    lowered = text.lower()
    return any(name in lowered for name in _OURS) and not any(n and n.lower() in lowered for n in own)


def _is_modules(names: ResolvedNames, node: ast.AST) -> bool:
    return isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript) and "sys.modules" in names.of(node)


def _is_modules_use(names: ResolvedNames, node: ast.AST, stored: set[str], module: str) -> bool:
    """Whether a node uses `sys.modules` as loading code does: to store, get or remove a module of a computed name."""

    def computed(key: ast.AST) -> bool:
        return not isinstance(key, ast.Constant) or str(key.value).partition(".")[0] == module.partition(".")[0]

    if isinstance(node, ast.Subscript):
        return _is_modules(names, node.value) and computed(node.slice)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        known = node.func.attr in ("get", "pop", "setdefault")
        return known and _is_modules(names, node.func.value) and _names_itself(node.args[0])
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return _is_modules(names, node.comparators[0]) and ast.dump(node.left) in stored and computed(node.left)
    return False


def _names_itself(key: ast.AST) -> bool:
    """Whether an expression is the name of the code's own module."""
    return (isinstance(key, ast.Name) and key.id == "__name__") or (
        isinstance(key, ast.Attribute) and key.attr in ("__module__", "__name__")
    )


def _tests_place(names: ResolvedNames, node: ast.Compare | ast.Call) -> bool:
    """Whether a comparison or text method compares a path of the code or of the process with a constant text."""
    if isinstance(node, ast.Compare):
        parts: list[ast.expr] = [node.left, *node.comparators]
    elif isinstance(node.func, ast.Attribute) and node.func.attr in _TEXT_TESTS:
        parts = [node.func.value, *node.args]
    else:
        return False
    places = any(
        isinstance(n, ast.Name | ast.Attribute | ast.Call) and bool(names.of(n) & PLACES)
        for part in parts
        for n in ast.walk(part)
    )
    return places and any(isinstance(p, ast.Constant | ast.Tuple | ast.JoinedStr) for p in parts)


def _variable(names: ResolvedNames, node: ast.Call | ast.Subscript) -> str:
    """Return the name of the environment variable that an expression reads; empty if it reads none or the name is
    computed."""
    key: ast.AST | None = None
    if isinstance(node, ast.Subscript) and names.of(node.value) & _VARIABLES:
        key = node.slice
    elif isinstance(node, ast.Call) and node.args:
        known = names.of(node.func) & {"os.getenv", "os.environ.get", "os.environb.get"}
        key = node.args[0] if known else None
    return str(key.value) if isinstance(key, ast.Constant) else ""
