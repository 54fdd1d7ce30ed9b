"""Writes the module `functions.py` of a ported package.

The module holds everything that the rewards of the old package use: functions, classes, constants and parsers.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.authoring.port.description import (
    CodePlace,
    OldClass,
    OldFunction,
    OldParser,
    OldReward,
    OldValue,
    is_name,
)
from prime_lab_mcp.lab.authoring.port.source import (
    Definition,
    NotPortable,
    OldPackage,
    parameters_of,
    written_module,
)

RESERVED = frozenset(
    ("__init__", "rows", "conversation", "taskset", "v0", "functions", "tools", "game", "math_reward", "data")
)
"""Modules of a ported package. A module of the old package with such a name gets a prefix."""
_TASK_NAMES = frozenset(
    (
        *("config", "data", "earned", "finalize", "hash", "hooks", "key", "plugged_judges", "score", "setup"),
        *("solution", "toolsets", "type", "validate"),
    )
)
"""Attributes of a v1 task, which a reward must not replace."""


@dataclass(frozen=True, slots=True)
class PortedReward:
    """A reward of the new package: the name of its method, and of its function in the module `functions`."""

    name: str
    old_name: str
    weight: float
    function: str
    parser: str | None
    """The constant with its parser, if the function takes one."""


class FunctionsModule:
    """Collects the content of the module `functions`. Its methods raise NotPortable for code that cannot be carried
    over."""

    def __init__(self, package: OldPackage, module: str) -> None:
        self.package, self.module = package, module
        self.uses_math = False
        self.uses_game = False
        self._constants: dict[str, str] = {}
        self._nested: dict[str, str] = {}
        self._imports: set[str] = set()
        self._parsers: dict[str, str] = {}
        self._places: dict[str, CodePlace] = {}
        self._used: set[str] = set()

    def reward(self, old: OldReward) -> PortedReward:
        """Carry a reward function over to the new package. Raises NotPortable."""
        place = old.function.place
        if old.group:
            raise NotPortable("a group reward is paid for all rollouts of a task together", place)
        if old.weight is None:
            raise NotPortable("its weight is no number", place)
        if old.library == "MathRubric.correct_answer":
            self.uses_math = True
            self._imports.add(f"from {self.module}.math_reward import correct_answer as math_correct_answer")
            return self._ported_reward(old, "math_correct_answer", self.parser(old.parser))
        if old.library.endswith("get_format_reward_func.<locals>.format_reward_func"):
            constant = self.parser(old.parser)
            name = self._free_name("format_reward_func")
            self._set(name, f"{constant}.get_format_reward_func()", place)
            return self._ported_reward(old, name, None)
        if old.library:
            owner = old.rubric if old.library == "method" else old.library
            raise NotPortable(f"it is a method of {owner if is_name(owner) else 'a class'}", place)
        function = self.function(old.function)
        node = self.package.definition(place)
        names = parameters_of(node)
        takes_parser = names is None or "parser" in names
        return self._ported_reward(old, function, self.parser(old.parser) if takes_parser else None)

    def function(self, old: OldFunction) -> str:
        """Carry a function over to the new package. Returns its name in the module. Raises NotPortable."""
        if old.bound:
            raise NotPortable("it is a method of an object", old.place)
        node = self.package.definition(old.place)
        if isinstance(node, ast.Lambda):
            return self._lambda(old, node)
        if not is_name(node.name):
            raise NotPortable("its name is no plain identifier", old.place)
        if self.package.is_top_level(old.place, node):
            self.take(old.place.path, node.name)
            return node.name
        return self._nested_function(old, node)

    def _lambda(self, old: OldFunction, node: ast.Lambda) -> str:
        if old.place.path != self.package.main:
            raise NotPortable("it is a lambda of another file", old.place)
        self._set_free(old, "")
        self.package.require_names(old.place.path, node, provided=old.free)
        name = self._free_name("unnamed")
        self._set(name, ast.unparse(node), old.place)
        return name

    def _set_free(self, old: OldFunction, own_name: str) -> None:
        for name, value in old.free.items():
            if name != own_name and is_name(name):
                self._set(name, self._code(name, value, old.place), old.place)

    def _nested_function(self, old: OldFunction, node: Definition) -> str:
        if old.place.path != self.package.main:
            raise NotPortable("another function of another file makes it", old.place)
        if node.name in self._places and self._places[node.name] != old.place:
            raise NotPortable(f"two functions are called {node.name}", old.place)
        self._set_free(old, node.name)
        self.package.require_names(old.place.path, node, provided=(*old.free, node.name))
        self._places[node.name] = old.place
        self._nested.setdefault(node.name, self.package.text(old.place, node))
        return node.name

    def take(self, path: str, name: str) -> None:
        """Carry a top-level name of an old file over, so that this module defines or imports the name."""
        if name in self._constants or name in self._nested:
            raise NotPortable(f"two things are called {name}", CodePlace(path, 1))
        self.package.take(path, name)
        if path != self.package.main:
            self._imports.add(f"from {self.module}.{self.module_names()[path]} import {name}")

    def class_text(self, old: OldClass, drop: frozenset[str], lead: str, base: str) -> str:
        """The text of a class of the main file with another base, with `lead` as first lines, without the methods in
        `drop`."""
        node = self.package.class_around(old.place, old.name)
        if old.place.path != self.package.main or node not in self.package.files[self.package.main].tree.body:  # type: ignore[union-attr]
            raise NotPortable("its class is not at the top of the file of load_environment", old.place)
        if any(isinstance(k.value, ast.AST) for k in node.keywords) or len(node.bases) != 1:
            raise NotPortable("its class has several bases", old.place)
        methods = [m for m in node.body if not (isinstance(m, Definition) and m.name in drop)]
        for method in methods:
            self.package.require_names(old.place.path, method)
        texts = [self.package.text(old.place, m) for m in methods]
        docstring = ast.get_docstring(node) is not None
        parts = [*(texts[:1] if docstring else []), *([lead] if lead else []), *texts[1 if docstring else 0 :]]
        body = "\n\n".join(parts) or "pass"
        return f"class {node.name}({base}):\n" + "\n".join(f"    {line}".rstrip() for line in body.splitlines())

    def parser(self, old: OldParser | None) -> str:
        """Define a constant with the parser, and return the constant's name."""
        if old is None:
            return "None"
        code = self._parser_text(old)
        if code not in self._parsers:
            name = "PARSER" if not self._parsers else f"PARSER_{len(self._parsers) + 1}"
            self._parsers[code] = name
            self._constants[name] = code
        return self._parsers[code]

    def _parser_text(self, old: OldParser) -> str:
        place = old.own.place if old.own else CodePlace("", 0)
        if old.kind not in ("Parser", "XMLParser", "ThinkParser", "MaybeThinkParser"):
            raise NotPortable("its parser is none of verifiers", place)
        kind = old.kind
        arguments = []
        if old.own is not None:
            node = self.package.class_around(old.own.place, old.own.name)
            self.take(old.own.place.path, node.name)
            kind = node.name
            own_init = next((m for m in node.body if isinstance(m, Definition) and m.name == "__init__"), None)
            if own_init is not None:
                required = len(own_init.args.args) - 1 - len(own_init.args.defaults)
                if required or any(d is None for d in own_init.args.kw_defaults):
                    raise NotPortable("its parser is made with arguments", place)
                return f"{kind}()"
        else:
            self._imports.add(f"from {self.module}.v0 import {kind}")
        if old.kind == "XMLParser":
            fields = [n[0] if len(n) == 1 else n for n in old.fields]
            arguments.append(f"[{', '.join(_literal(f) for f in fields)}]")
            if old.answer_field != "answer":
                arguments.append(f"answer_field={_literal(old.answer_field)}")
        extract = self._extract_text(old, place)
        if extract:
            arguments.append(f"extract_fn={extract}")
        return f"{kind}({', '.join(arguments)})"

    def _extract_text(self, old: OldParser, place: CodePlace) -> str:
        how = old.extract.get("kind")
        if how == "none":
            return ""
        name, arguments = str(old.extract.get("name")), old.extract.get("arguments") or {}
        if how == "library" and name in self.package.offered:
            self._imports.add(f"from {self.module}.v0 import {name}")
            if not arguments:
                return name
            self._imports.add("from functools import partial")
            return f"partial({name}, {', '.join(f'{k}={_literal(v)}' for k, v in arguments.items() if is_name(k))})"
        if how == "function" and old.extracts is not None:
            return self.function(old.extracts)
        raise NotPortable("its parser applies something that is no function of the package", place)

    def value(self, name: str, value: OldValue, place: CodePlace) -> str:
        """The Python expression for a value. Raises NotPortable."""
        return self._code(name, value, place)

    def _code(self, name: str, value: OldValue, place: CodePlace) -> str:
        if value.parser is not None:
            return self.parser(value.parser)
        if value.function is not None:
            return self.function(value.function)
        if value.type == "other":
            raise NotPortable(f"it uses {name}, which is no constant, parser or function", place)
        if value.type in ("set", "tuple"):
            return f"{value.type}({_literal(value.constant)})"
        return _literal(value.constant)

    def _set(self, name: str, code: str, place: CodePlace) -> None:
        if code == name:
            return
        main = self.package.cut.get(self.package.main)
        bound = {n for s in (main.statements.values() if main else ()) for n in _assigned(s)}
        if self._constants.get(name, code) != code or name in self._nested or name in bound:
            raise NotPortable(f"two things are called {name}", place)
        self._constants[name] = code

    def _free_name(self, name: str) -> str:
        free, number = name, 1
        while free in self._constants or free in self._nested:
            number += 1
            free = f"{name}_{number}"
        return free

    def _ported_reward(self, old: OldReward, function: str, parser: str | None) -> PortedReward:
        base = old.name if is_name(old.name) and not old.name.startswith("_") else "reward"
        base = f"{base}_reward" if base in _TASK_NAMES else base
        name, number = base, 1
        while name in self._used:
            number += 1
            name = f"{base}_{number}"
        self._used.add(name)
        assert old.weight is not None
        return PortedReward(name, old.name, old.weight, function, parser)

    # --- writing -----------------------------------------------------------------------------------------------------

    def module_names(self) -> dict[str, str]:
        """The name of the new module for each old file from which code is cut out."""
        names: dict[str, str] = {}
        for path in [self.package.main, *sorted(self.package.files)]:
            if path == self.package.main:
                names[path] = "functions"
                continue
            stem = path.removesuffix("/__init__.py").removesuffix(".py").rpartition("/")[2]
            reserved = RESERVED | set(names.values())
            names[path] = f"old_{stem}" if stem in reserved else stem
        return names

    def texts(self, title: str, more: str = "") -> dict[str, str]:
        """Write the new modules. Returns their texts by name; `more` is appended to the module `functions`."""
        names = self.module_names()
        texts = {}
        for path in {self.package.main, *self.package.cut}:
            imports, body = written_module(self.package, path, self.module, names)
            parts = [body] if body else []
            if path == self.package.main:
                game = [f"from {self.module}.game import Game"] if self.uses_game else []
                imports = [*imports, *self._imports, *game]
                early, late = self._placed_constants()
                parts = [p for p in (*parts, early, *self._nested.values(), late, more) if p]
            head = f'"""{title}"""\n\nfrom __future__ import annotations\n'
            listed = "\n".join(sorted(dict.fromkeys(imports), key=_import_order))
            texts[names[path]] = "\n\n".join([head + (f"\n{listed}" if listed else ""), "\n\n\n".join(parts)]) + "\n"
        return texts

    def _placed_constants(self) -> tuple[str, str]:
        """The text of the constants: those before the nested functions, and those after them because they use such a
        function."""
        early: list[str] = []
        late: list[str] = []
        after = set(self._nested)
        for name, code in sorted(self._constants.items(), key=lambda item: not item[0].startswith("PARSER")):
            used = {n.id for n in ast.walk(ast.parse(code)) if isinstance(n, ast.Name)}
            (late if used & after else early).append(f"{name} = {code}")
            after |= {name} if used & after else set()
        return "\n".join(early), "\n".join(late)


def _assigned(statement: ast.stmt) -> list[str]:
    if isinstance(statement, Definition | ast.ClassDef):
        return [statement.name]
    return [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _import_order(line: str) -> tuple[bool, str]:
    return (line.startswith("from"), line)


def _literal(value: Any) -> str:
    """A JSON value, or a tuple of them, as Python source."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_literal(k)}: {_literal(v)}" for k, v in value.items()) + "}"
    if isinstance(value, str):
        return json.dumps(value.encode("utf-8", "replace").decode("utf-8"), ensure_ascii=False)
    return repr(value)
