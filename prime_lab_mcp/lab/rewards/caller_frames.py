"""Finds code that looks at the frames of its callers, whose names tell this server from the trainer.

The module reads the syntax tree and runs no code. Every way to a frame counts: attributes, patterns, names of
attributes that are computed, stacks of tasks, and the stack levels of warnings and log records. An object's own method
of the same name does not count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from prime_lab_mcp.lab.base.syntax import last_name
from prime_lab_mcp.lab.rewards.outside_names import ResolvedNames
from prime_lab_mcp.lab.state.fingerprint import constant_texts, folded_text

FRAME_FUNCTIONS = frozenset(
    {
        "sys._getframe",
        "sys._current_frames",
        "inspect.stack",
        "inspect.currentframe",
        "inspect.trace",
        "inspect.getouterframes",
        "inspect.getinnerframes",
        "traceback.extract_stack",
        "traceback.format_stack",
        "traceback.walk_stack",
    }
)
_ATTRIBUTES = frozenset({"tb_frame", "f_back", "gi_frame", "cr_frame", "ag_frame"})
"""Attributes that hold a frame."""
_OF_FRAMES = frozenset({"f_globals", "f_builtins", "f_locals", "f_code"})
"""Attributes that only frames have. As texts, they may be names of anything."""
_NAMES = _ATTRIBUTES | {name.partition(".")[2] for name in FRAME_FUNCTIONS if "_" in name}
_NAMED = re.compile(rf"\b(?:{'|'.join(sorted(_NAMES))})\b")
_MODULES = frozenset({"sys", "inspect", "traceback"})
"""Modules with functions that give frames. A function that is handed the module may look up any of them."""
_HARMLESS_CALLS = frozenset({"reload", "isinstance", "print", "repr", "str", "id", "type", "hasattr", "setattr"})
_TASK_METHODS = frozenset({"get_stack", "print_stack"})
_TASKS = frozenset({"current_task", "all_tasks", "create_task", "ensure_future", "Task", "TaskGroup"})
_RUNS_TEXT = frozenset({"exec", "eval", "compile"})
_LOG_METHODS = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})
_USUAL_LEVELS = 3
"""Stack levels of warnings that reach no further than a caller inside of a library."""


def frame_reads(
    names: ResolvedNames, nodes: list[ast.AST], own_names: frozenset[str], imported: frozenset[str]
) -> Iterator[tuple[str, int]]:
    """Yield (description, line) for each place that may look at frames.

    `nodes` are the syntax nodes that run, `own_names` the names of the functions that the package defines, and
    `imported` the modules that the file imports.
    """
    constants = constant_texts(nodes)
    with_tasks = any(last_name(node) in _TASKS for node in nodes)
    traced = any(isinstance(node, ast.Attribute) and node.attr == "__traceback__" for node in nodes)
    fixed = {id(n.value) for n in nodes if isinstance(n, ast.Subscript) and folded_text(n.slice, constants) is not None}
    for node in nodes:
        what = ""
        if isinstance(node, ast.Attribute):
            what = _of_attribute(node, own_names, with_tasks)
            if not what and node.attr == "__dict__" and id(node) not in fixed:
                what = _whole_module(names, node.value, imported)
        elif isinstance(node, ast.MatchClass):
            what = next((name for name in node.kwd_attrs if name in _ATTRIBUTES | _OF_FRAMES), "")
        elif isinstance(node, ast.Call):
            what = _of_call(names, node, constants, traced) or _handed_module(names, node, constants, imported)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            what = _of_text(node.value)
        if what:
            yield f"the frames of its callers ({what})", getattr(node, "lineno", 0)


def imported_modules(tree: ast.Module) -> frozenset[str]:
    """Return the names of the modules that a file imports."""
    return frozenset(alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names)


def _of_attribute(node: ast.Attribute, own_names: frozenset[str], with_tasks: bool) -> str:
    if node.attr in _ATTRIBUTES | _OF_FRAMES:
        return node.attr
    if node.attr == "findCaller" and node.attr not in own_names:
        return node.attr
    return node.attr if node.attr in _TASK_METHODS - own_names and with_tasks else ""


def _of_text(text: str) -> str:
    """The attribute that a short text names, such as the one of `operator.attrgetter("__traceback__.tb_frame")`."""
    if text.split() != [text] or len(text) > 200:
        return ""
    return next((part for part in text.split(".") if part in _ATTRIBUTES), "")


def _of_call(names: ResolvedNames, node: ast.Call, constants: Mapping[str, str], traced: bool) -> str:
    called, last = names.of(node.func), last_name(node.func)
    texts = [folded_text(argument, constants) for argument in node.args]
    if "traceback.print_stack" in called and (node.keywords or len(node.args) > 2):
        return "traceback.print_stack into a file"
    if called & {"getattr", "builtins.getattr"} and len(node.args) > 1:
        if texts[1] is None:
            return "an attribute whose name is computed, beside __traceback__" if traced else ""
        return texts[1] if texts[1] in _NAMES | _OF_FRAMES else ""
    if last in ("attrgetter", "methodcaller", "__getattribute__"):
        parts = {part for text in texts if text for part in text.split(".")}
        return min(parts & (_NAMES | _OF_FRAMES | _TASK_METHODS), default="")
    if last in _RUNS_TEXT and texts and texts[0] is not None:
        found = _NAMED.search(texts[0])
        return found.group() if found is not None else ""
    return _of_level(node)


def _handed_module(names: ResolvedNames, node: ast.Call, constants: Mapping[str, str], imported: frozenset[str]) -> str:
    """Describe a call that is handed a module with frames, and may look up any of its functions."""
    if last_name(node.func) in _HARMLESS_CALLS:
        return ""
    if len(node.args) > 1 and folded_text(node.args[1], constants) is not None:
        return ""  # a fixed attribute, as of getattr or of a test that patches
    return next((what for argument in node.args if (what := _whole_module(names, argument, imported))), "")


def _whole_module(names: ResolvedNames, node: ast.AST, imported: frozenset[str]) -> str:
    if not isinstance(node, ast.Name | ast.Attribute):
        return ""
    module = min(names.of(node) & _MODULES & imported, default="")
    return f"a function of {module} whose name is computed" if module else ""


def _of_level(node: ast.Call) -> str:
    """The stack level with which a warning or a log record names a caller far above."""
    if last_name(node.func) not in _LOG_METHODS | {"warn"}:
        return ""
    for keyword in node.keywords:
        value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        if keyword.arg == "stacklevel" and isinstance(value, int) and value > _USUAL_LEVELS:
            return f"stacklevel {value}"
        if keyword.arg == "stack_info" and value is True:
            return "stack_info"
    return ""
