"""Carries over the interaction between replies of the model: tools that are plain functions, and simple games."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from prime_lab_mcp.lab.authoring.port.description import CodePlace, OldClass, OldEnvironment, OldFunction, is_name
from prime_lab_mcp.lab.authoring.port.functions import FunctionsModule
from prime_lab_mcp.lab.authoring.port.source import Definition, NotPortable

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
