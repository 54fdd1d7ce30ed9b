"""Brings the arguments of an environment into one canonical form, so that evidence, pushes and configs can be compared.

Arguments are the keys of a v1 taskset's config table without `id`, or the keyword arguments of a v0 `load_environment`.
A missing argument means its default. An argument that is given as its own default counts as missing only if the source
code shows that the package cannot tell the two apart (`known_defaults`). Otherwise it counts as a different argument.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import clip
from prime_lab_mcp.lab.state.fingerprint import folded_text
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
    """Sort arguments by key, and drop those that equal their known default. Tables below keep the order of keys."""
    known = defaults or {}
    return {k: given[k] for k in sorted(given) if not (k in known and _identical(given[k], known[k]))}


def same_arguments(one: Mapping[str, Any], other: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> bool:
    """Whether two sets of arguments are the same. `1`, `1.0` and `true` are three different values.

    So are two tables with the same keys in another order, because code of the environment can read the order.
    """
    return _json(canonical_arguments(one, defaults)) == _json(canonical_arguments(other, defaults))


def differ_in_order_alone(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two sets of arguments have the same values, and only the order of keys in their tables differs."""
    return not same_arguments(one, other) and _sorted(one) == _sorted(other)


def ordered_text(arguments: Mapping[str, Any]) -> str:
    """Return the arguments as text if a table of them has its keys in another order than the sorted one; else ""."""
    text = _json(canonical_arguments(arguments))
    return "" if text == _sorted(arguments) else text


def arguments_summary(arguments: Mapping[str, Any]) -> str:
    """Return `default arguments`, or `env_args={...}` in the form in which a caller writes it."""
    if not arguments:
        return "default arguments"
    return f"env_args={clip(_json(canonical_arguments(arguments)), _TEXT_LIMIT)}"


def without_null_text(table: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the text "None" with null in the taskset table of a TOML file.

    pydantic_config 0.4 reads "None" in a table of a config class as null. Only the taskset's table and its `task` table
    are certain to be such tables.
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
    return json.dumps(value, ensure_ascii=False, default=_typed)


def _sorted(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, sort_keys=True, ensure_ascii=False, default=_typed)


def _typed(value: Any) -> dict[str, str]:
    """Return what stands for a value that JSON does not know, such as a date of a TOML file: its type and its text.

    It equals only a value of the same type and text, and no text.
    """
    return {f"({type(value).__name__})": str(value)}


_SIMPLE = {"bool": bool, "int": int, "float": float, "str": str}
_FIELD_OPTIONS = frozenset({"default", "description", "title", "ge", "gt", "le", "lt"})
_DISTINGUISHING_WORDS = (
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
    "getrefcount",
    "get_referrers",
    "get_referents",
    "weakref",
    "model_fields",
    "is_not",
    "settrace",
    "setprofile",
)
"""Words in identifiers and texts of code that can find out whether an argument was given or is a default."""
_DYNAMIC = frozenset({"eval", "exec", "compile", "vars", "__import__", "globals", "locals"})


def known_defaults(snapshot: Snapshot, code: SourceCode | None = None) -> dict[str, Any]:
    """Return the defaults of the taskset's config that a caller may give or omit without any difference.

    The defaults are read from the source; no code runs. The result is empty for v0, and for every package that could
    tell a given value from a default: one with several config classes, statements other than fields in the class,
    validators, or dynamic access. They are read once for each content, because every gate asks for them.
    """
    key = (snapshot.tree, snapshot.content)
    known = _KNOWN_DEFAULTS.get(key)
    if known is None:
        if len(_KNOWN_DEFAULTS) >= _MOST_KNOWN_DEFAULTS:
            _KNOWN_DEFAULTS.clear()
        known = _KNOWN_DEFAULTS[key] = _read_defaults(code or read_source(snapshot))
    return dict(known)


_KNOWN_DEFAULTS: dict[tuple[Path, str], Mapping[str, Any]] = {}
"""A cache of `known_defaults` by tree and content fingerprint. Reading them takes most of the time of a refusal."""
_MOST_KNOWN_DEFAULTS = 1024


def taskset_fields(code: SourceCode) -> tuple[str, ...] | None:
    """Return the names of the fields that the taskset's config class adds; no code runs.

    None if they are not certain: with several config classes, another base than verifiers' own, or other statements
    than fields in the class.
    """
    declared = _config_class(code)
    if declared is None:
        return None
    body = declared.body
    return tuple(s.target.id for s in body if isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name))


def _read_defaults(code: SourceCode) -> dict[str, Any]:
    nodes = [node for file in code.files if file.tree is not None for node in ast.walk(file.tree)]
    if any(file.tree is None for file in code.files) or _passes_getattr(nodes) or any(map(_may_distinguish, nodes)):
        return {}
    declared = _config_class(code)
    return dict(_fields(declared)) if declared is not None else {}


def _config_class(code: SourceCode) -> ast.ClassDef | None:
    """The one config class of a taskset, if it only declares fields."""
    classes = [
        (node, import_aliases(file, "verifiers"))
        for file in code.files
        for node in ast.walk(file.tree or ast.Module([], []))
        if isinstance(node, ast.ClassDef) and any((dotted_name(b) or "").endswith("TasksetConfig") for b in node.bases)
    ]
    return classes[0][0] if len(classes) == 1 and _only_declares_fields(*classes[0]) else None


_TRUSTED_NAMES = {"Literal": ("typing", "typing_extensions"), "Field": ("pydantic",), **dict.fromkeys(_SIMPLE, ())}
"""Names that a field's type or default may use, and the modules they come from. Rebinding one ends the analysis."""


def _may_distinguish(node: ast.AST) -> bool:
    """Whether a node could find out which arguments were given, or rebinds a name of `_TRUSTED_NAMES`."""
    if isinstance(node, ast.Call):
        reads = dotted_name(node.func) in ("getattr", "hasattr")
        return reads and not (len(node.args) > 1 and isinstance(node.args[1], ast.Constant))
    if isinstance(node, ast.BinOp | ast.JoinedStr):
        return _has_distinguishing_word(folded_text(node, {}) or "")
    if isinstance(node, ast.MatchClass):
        return any(map(_has_distinguishing_word, node.kwd_attrs))
    if isinstance(node, ast.Compare):
        # A given value is another object than the default that the class holds.
        identity = any(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops)
        return identity and not any(_is_single_object(n) for n in (node.left, *node.comparators))
    if isinstance(node, ast.Name):
        rebound = isinstance(node.ctx, ast.Store) and node.id in _TRUSTED_NAMES
        identity = node.id in ("id", "is_") and isinstance(node.ctx, ast.Load)
        return rebound or identity or node.id in _DYNAMIC or _has_distinguishing_word(node.id)
    if isinstance(node, ast.Attribute):
        return node.attr == "is_" or _has_distinguishing_word(node.attr)
    if isinstance(node, ast.keyword):
        return _has_distinguishing_word(node.arg or "")
    if isinstance(node, ast.ImportFrom):
        bound = {alias.asname or alias.name: alias.name for alias in node.names}
        return "*" in bound or any(
            node.module not in _TRUSTED_NAMES[name] or bound[name] != name for name in bound if name in _TRUSTED_NAMES
        )
    if isinstance(node, ast.alias):
        return node.name == "is_" or _has_distinguishing_word(node.name)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name in _TRUSTED_NAMES or _has_distinguishing_word(node.name)
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and _has_distinguishing_word(node.value)


def _is_single_object(node: ast.expr) -> bool:
    """Whether an expression is a value of which there is one object: None, True, False or `...`."""
    return isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, bool | type(...)))


def _passes_getattr(nodes: Sequence[ast.AST]) -> bool:
    """Whether the code uses `getattr` or `hasattr` in any other way than to call it."""
    named = sum(isinstance(n, ast.Name) and n.id in ("getattr", "hasattr") for n in nodes)
    return named != sum(isinstance(n, ast.Call) and dotted_name(n.func) in ("getattr", "hasattr") for n in nodes)


def _has_distinguishing_word(name: str) -> bool:
    return any(word in name.lower() for word in _DISTINGUISHING_WORDS)


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
    """Whether validation of a field with this annotation returns the value unchanged, as it returns every default."""
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
