"""The arguments of an environment in one canonical form, in which evidence, pushes and configs are compared.

Arguments are the keys of a v1 taskset's config table without `id`, or the keyword arguments of a v0 `load_environment`.
Missing arguments mean the defaults. An argument that is given as its own default counts as missing only where the
source code shows that the package cannot tell the two apart (`known_defaults`). Everywhere else it counts as another
argument.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import clip
from prime_lab_mcp.lab.state.manifest import Manifest
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import SourceCode, dotted_name, import_aliases, read_source

_TEXT_LIMIT = 300


def check_args(manifest: Manifest) -> dict[str, Any]:
    """Return `[tool.prime-lab] check_args`, the arguments with which checks load the environment. Raises BadInput."""
    tool = manifest.table.get("tool")
    lab_table = tool.get("prime-lab") if isinstance(tool, Mapping) else None
    arguments = lab_table.get("check_args", {}) if isinstance(lab_table, Mapping) else {}
    if not isinstance(arguments, Mapping):
        raise BadInput(
            "[tool.prime-lab] check_args in pyproject.toml is no table",
            fix='Write it as a table, such as check_args = { split = "train" }.',
            code="bad-check-args",
        )
    return dict(arguments)


def canonical_arguments(given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Sorted by key, without arguments that are given as their known default."""
    known = defaults or {}
    return {k: given[k] for k in sorted(given) if not (k in known and _identical(given[k], known[k]))}


def same_arguments(one: Mapping[str, Any], other: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> bool:
    """Whether two sets of arguments are the same. `1`, `1.0` and `true` are three different values."""
    return _json(canonical_arguments(one, defaults)) == _json(canonical_arguments(other, defaults))


def arguments_summary(arguments: Mapping[str, Any]) -> str:
    """`default arguments`, or `env_args={...}` as a caller writes it."""
    if not arguments:
        return "default arguments"
    return f"env_args={clip(_json(canonical_arguments(arguments)), _TEXT_LIMIT)}"


def without_null_text(table: Mapping[str, Any]) -> dict[str, Any]:
    """The taskset table of a TOML file with null in place of the text "None".

    pydantic_config 0.4 reads "None" in a table of a config class as null. Only the taskset's table and its `task` table
    are certainly such tables.
    """
    return {
        key: None
        if value == "None"
        else {k: None if v == "None" else v for k, v in value.items()}
        if key == "task" and isinstance(value, Mapping)
        else value
        for key, value in table.items()
    }


def _identical(one: Any, other: Any) -> bool:
    return _json(one) == _json(other)


def _json(value: Any) -> str:
    # A value that JSON does not know (a date of a TOML file) equals only a value of the same type and text.
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=lambda v: f"{type(v).__name__}:{v}")


_SIMPLE = {"bool": bool, "int": int, "float": float, "str": str}
_FIELD_OPTIONS = frozenset({"default", "description", "title", "ge", "gt", "le", "lt"})
_TELLING = (
    "fields_set",
    "unset",
    "exclude_defaults",
    "validator",
    "post_init",
    "core_schema",
    "model_construct",
    "getattribute",
    "attrgetter",
    "__dict__",
    "getstate",
    "reduce",
    "pickle",
    "init_subclass",
    "metaclass",
    "setattr",
    "settrace",
    "setprofile",
)
"""Words in the code of a package that can tell a default from a value that was given."""
_DYNAMIC = frozenset({"eval", "exec", "compile", "vars", "__import__", "globals", "locals"})


def known_defaults(snapshot: Snapshot, code: SourceCode | None = None) -> dict[str, Any]:
    """Defaults of the taskset's config that a caller may give as well as leave out, without any difference.

    Read from the source, never by running it. Empty for v0 and for every package in which a given value could be told
    from a default: more than one config class, statements other than fields in the class, validators, dynamic access.
    """
    code = code or read_source(snapshot)
    nodes = [node for file in code.files if file.tree is not None for node in ast.walk(file.tree)]
    if any(file.tree is None for file in code.files) or _passes_getattr(nodes) or any(map(_tells, nodes)):
        return {}
    classes = [
        (node, import_aliases(file, "verifiers"))
        for file in code.files
        for node in ast.walk(file.tree or ast.Module([], []))
        if isinstance(node, ast.ClassDef) and any((dotted_name(b) or "").endswith("TasksetConfig") for b in node.bases)
    ]
    if len(classes) != 1 or not _only_declares_fields(*classes[0]):
        return {}
    return dict(_fields(classes[0][0]))


_NAMED = {"Literal": ("typing", "typing_extensions"), "Field": ("pydantic",), **dict.fromkeys(_SIMPLE, ())}
"""Names whose usual meaning is relied on, with the modules that they may be imported from."""


def _tells(node: ast.AST) -> bool:
    """Whether a node could find out which arguments were given, or gives another meaning to a name of `_NAMED`."""
    if isinstance(node, ast.Call):
        reads = dotted_name(node.func) in ("getattr", "hasattr")
        return reads and not (len(node.args) > 1 and isinstance(node.args[1], ast.Constant))
    if isinstance(node, ast.Name):
        rebound = isinstance(node.ctx, ast.Store) and node.id in _NAMED
        return rebound or node.id in _DYNAMIC or _telling(node.id)
    if isinstance(node, ast.Attribute):
        return _telling(node.attr)
    if isinstance(node, ast.keyword):
        return _telling(node.arg or "")
    if isinstance(node, ast.ImportFrom):
        bound = {alias.asname or alias.name: alias.name for alias in node.names}
        return "*" in bound or any(
            node.module not in _NAMED[name] or bound[name] != name for name in bound if name in _NAMED
        )
    if isinstance(node, ast.alias):
        return _telling(node.name)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name in _NAMED or _telling(node.name)
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and _telling(node.value)


def _passes_getattr(nodes: Sequence[ast.AST]) -> bool:
    """Whether `getattr` or `hasattr` is used other than by calling it at once."""
    named = sum(isinstance(n, ast.Name) and n.id in ("getattr", "hasattr") for n in nodes)
    return named != sum(isinstance(n, ast.Call) and dotted_name(n.func) in ("getattr", "hasattr") for n in nodes)


def _telling(name: str) -> bool:
    return any(word in name.lower() for word in _TELLING)


def _only_declares_fields(node: ast.ClassDef, aliases: Mapping[str, str]) -> bool:
    """Whether a class is a direct subclass of verifiers' TasksetConfig that only declares fields."""
    if node.decorator_list or node.keywords or len(node.bases) != 1:
        return False
    head, _, rest = (dotted_name(node.bases[0]) or "").partition(".")
    full = f"{aliases.get(head, '')}.{rest}" if rest else aliases.get(head, "")
    return full in ("verifiers.v1.TasksetConfig", "verifiers.v1.configs.taskset.TasksetConfig") and all(
        isinstance(s, ast.AnnAssign | ast.Pass) or (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))
        for s in node.body
    )


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    for item in node.body:
        if not isinstance(item, ast.AnnAssign) or not isinstance(item.target, ast.Name) or item.value is None:
            continue
        default = _default(item.value)
        if default is not None and _fits(item.annotation, default.value):
            yield item.target.id, default.value


def _default(node: ast.expr) -> ast.Constant | None:
    """The constant default of a field, written as a value or as `Field(value, description=...)`."""
    if isinstance(node, ast.Constant):
        return node
    if not isinstance(node, ast.Call) or (dotted_name(node.func) or "").rpartition(".")[2] != "Field":
        return None
    options = {k.arg: k.value for k in node.keywords}
    if not set(options) <= _FIELD_OPTIONS or len(node.args) + ("default" in options) != 1:
        return None
    value = node.args[0] if node.args else options["default"]
    return value if isinstance(value, ast.Constant) else None


def _fits(annotation: ast.expr, value: Any) -> bool:
    """Whether validation leaves exactly this value unchanged, as it leaves a default."""
    if isinstance(annotation, ast.Name):
        return type(value) is _SIMPLE.get(annotation.id)
    if isinstance(annotation, ast.Constant):
        return annotation.value is None and value is None
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        other = annotation.right
        if not (isinstance(other, ast.Constant) and other.value is None):
            return False
        return value is None or _fits(annotation.left, value)
    if isinstance(annotation, ast.Subscript) and dotted_name(annotation.value) in ("Literal", "typing.Literal"):
        choices = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        return any(isinstance(c, ast.Constant) and _identical(c.value, value) for c in choices)
    return False
