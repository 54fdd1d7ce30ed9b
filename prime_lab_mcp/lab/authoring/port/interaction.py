"""Carries over the interaction between replies of the model: tools that are plain functions, and simple games.

What cannot be carried over is named part by part, each with the line of the older package that somebody has to write
anew.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from prime_lab_mcp.lab.authoring.port.description import CodePlace, OldClass, OldEnvironment, OldFunction, is_name
from prime_lab_mcp.lab.authoring.port.functions import FunctionsModule
from prime_lab_mcp.lab.authoring.port.source import Definition, NotPortable, OldPackage

_TYPES = frozenset(
    ("str", "int", "float", "bool", "list", "dict", "tuple", "None", "Any", "Literal", "Optional", "Union")
)
GAME = frozenset(
    ("env_response", "setup_state", "has_error", "max_turns_reached", "has_final_env_response", "max_turns")
)
"""Names that the class Game of a ported package defines."""


@dataclass(frozen=True, slots=True)
class PortedTool:
    """A tool of the new package: its name, and the text of the method that calls the old function."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class PortedGame:
    """The class of a game, for the module `functions`."""

    name: str
    text: str


def port_tool(module: FunctionsModule, tool: OldFunction) -> PortedTool:
    """Carry a tool over. Raises NotPortable."""
    node = module.package.definition(tool.place)
    if isinstance(node, ast.Lambda) or not is_name(node.name) or node.name in ("setup", "run", "result"):
        raise NotPortable("its name cannot be that of a method", tool.place)
    if node.args.vararg or node.args.kwarg or node.args.posonlyargs:
        raise NotPortable("it takes any number of arguments, or arguments without names", tool.place)
    for annotation in (a.annotation for a in (*node.args.args, *node.args.kwonlyargs)):
        names = {n.id for n in ast.walk(annotation) if isinstance(n, ast.Name)} if annotation is not None else set()
        if not names <= _TYPES:
            raise NotPortable(f"an argument has the type {sorted(names - _TYPES)[0]}", tool.place)
    for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
        try:
            ast.literal_eval(default)
        except (ValueError, SyntaxError) as error:
            raise NotPortable("a default of an argument is no constant", tool.place) from error
    name = module.function(tool)
    arguments = ast.unparse(node.args)
    call_arguments = ", ".join(f"{a.arg}={a.arg}" for a in (*node.args.args, *node.args.kwonlyargs))
    lines = [
        "    @vf.tool",
        f"    async def {node.name}(self{', ' if arguments else ''}{arguments}) -> str:",
        *_docstring(node),
        f"        return await result(functions.{name}{', ' if call_arguments else ''}{call_arguments})",
    ]
    return PortedTool(node.name, "\n".join(lines))


def _docstring(node: Definition) -> list[str]:
    """The unchanged docstring as lines of code, because the model sees it as the tool's description."""
    text = ast.get_docstring(node)
    if not text:
        return []
    literal = repr(text) if '"""' in text or "\\" in text or text.endswith('"') else f'"""{text}"""'
    if literal.startswith('"""') and "\n" in text:
        literal = '"""' + text.replace("\n", "\n        ") + '\n        """'
    return [f"        {line}".rstrip() for line in [literal]]


def port_game(module: FunctionsModule, old: OldEnvironment) -> PortedGame:
    """Carry the class of a game over. Raises NotPortable."""
    if old.own is None:
        raise NotPortable("its turns are in no class of the package", CodePlace(module.package.main, 1))
    if old.own.bases:
        raise NotPortable("its class inherits from another class of the package", old.own.place)
    node = module.package.class_around(old.own.place, old.own.name)
    module.uses_game = True
    lead = _class_attributes(module, old, old.own, node)
    return PortedGame(node.name, module.class_text(old.own, frozenset({"__init__"}), lead, "Game"))


def _class_attributes(module: FunctionsModule, old: OldEnvironment, own: OldClass, node: ast.ClassDef) -> str:
    """Write the instance attributes that methods read as class attributes. Returns their lines.

    Raises NotPortable for an attribute of verifiers v0.
    """
    methods = [m for m in node.body if isinstance(m, Definition)]
    here = {m.name for m in methods} | {n.id for s in node.body for n in _assigned(s)}
    lines = [f"max_turns = {old.max_turns if old.max_turns is not None else -1}"]
    read: dict[str, int] = {}
    for method in methods:
        if method.name == "__init__":
            continue
        for inner in ast.walk(method):
            if isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self":
                read.setdefault(inner.attr, inner.lineno)
    for name, line in read.items():
        place = CodePlace(own.place.path, line)
        if name in here or name in GAME:
            continue
        if name not in own.attributes or not is_name(name):
            raise NotPortable(f"it uses self.{name} of verifiers v0", place)
        lines.append(f"{name} = {module.value(f'self.{name}', own.attributes[name], place)}")
    return "\n".join(lines)


def _assigned(statement: ast.stmt) -> list[ast.Name]:
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return [n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return []


BASE_CLASSES = frozenset({"SingleTurnEnv", "MultiTurnEnv", "ToolEnv"})
"""The classes of verifiers whose interaction is carried over."""
_METHODS = {
    "setup_state": "it prepares the state of each rollout",
    "update_tool_args": "it adds arguments to the calls of tools",
    "env_response": "it answers each reply of the model",
    "is_completed": "it ends rollouts",
}
_DECORATED = {
    "stop": "it ends rollouts",
    "cleanup": "it cleans up after each rollout",
    "teardown": "it cleans up at the end",
}
"""What methods of a class of verifiers are for, by their name, and by the name of their decorator."""


def class_parts(
    package: OldPackage, old: OldEnvironment, reason: NotPortable | None = None
) -> Iterator[tuple[str, NotPortable]]:
    """Yield the parts of an environment's class that are not carried over: the class itself, its methods, and the limit
    of turns. `reason` says why; None for a class of verifiers that has no counterpart."""
    node = _class_node(package, old)
    place = _class_place(package, old, node)
    name = old.own.name if old.own is not None else old.base or "of the environment"
    base = f"it inherits from {old.base}; " if old.own is not None and is_name(old.base) else ""
    why = f"{base}only SingleTurnEnv, ToolEnv and MultiTurnEnv are carried over"
    yield f"the class {name}", reason or NotPortable(why, place)
    tools = {tool.name for tool in old.tools}
    for method in node.body if node is not None else ():
        if isinstance(method, Definition) and method.name != "__init__" and method.name not in tools:
            yield f"method {method.name}", NotPortable(_purpose(method), CodePlace(place.path, method.lineno))
    # The taskset of a port with tools has the limit.
    if old.max_turns is not None and old.max_turns > 0 and old.base not in ("SingleTurnEnv", "ToolEnv"):
        limit = _limit_place(package, node, place)
        yield "the turn limit", NotPortable(f"max_turns is {old.max_turns}", limit)


def tool_parts(package: OldPackage, old: OldEnvironment) -> Iterator[tuple[str, NotPortable]]:
    """Yield the tools of an environment whose class is not carried over."""
    for tool in old.tools:
        yield f"tool {tool.name}", NotPortable("only the tools of a ToolEnv are carried over", tool.place)


def _class_node(package: OldPackage, old: OldEnvironment) -> ast.ClassDef | None:
    """The environment's own class in the package; None if it has none, or its code is not found."""
    if old.own is None or old.own.place.path not in package.files:
        return None
    try:
        return package.class_around(old.own.place, old.own.name)
    except NotPortable:
        return None


def _class_place(package: OldPackage, old: OldEnvironment, node: ast.ClassDef | None) -> CodePlace:
    """The line of the environment's class, or else the line that constructs the environment; an unknown place if
    neither is found."""
    if node is not None and old.own is not None:
        return CodePlace(old.own.place.path, node.lineno)
    name = old.own.name if old.own is not None else old.base
    call = next((call for call in _calls(package) if _called(call) == name), None)
    return CodePlace("", 0) if call is None else CodePlace(package.main, call.lineno)


def _limit_place(package: OldPackage, node: ast.ClassDef | None, place: CodePlace) -> CodePlace:
    """The line that sets the limit of turns: in the main file, or else in the class; the place of the class without
    one."""
    keywords = [(package.main, word) for call in _calls(package) for word in call.keywords]
    inner = ast.walk(node) if node is not None else ()
    keywords += [(place.path, word) for call in inner if isinstance(call, ast.Call) for word in call.keywords]
    return next((CodePlace(path, word.value.lineno) for path, word in keywords if word.arg == "max_turns"), place)


def _calls(package: OldPackage) -> list[ast.Call]:
    tree = package.files[package.main].tree
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _purpose(method: Definition) -> str:
    """What a method of the older class is for, as far as verifiers says."""
    for decorator in method.decorator_list:
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = named.attr if isinstance(named, ast.Attribute) else getattr(named, "id", "")
        if name in _DECORATED:
            return _DECORATED[name]
    return _METHODS.get(method.name, "it belongs to the class")
