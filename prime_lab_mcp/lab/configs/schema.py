"""Validates a parsed config against prime-rl's own JSON schema.

No package index has prime-rl-configs, so the schemas of one commit are files of this package. A schema has keys, types
and bounds; the package `rules` judges relations between keys. The `env` table of a source may have further keys,
because prime-rl validates it only after it has imported the environment.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import key_path, quote
from prime_lab_mcp.lab.base.versions import PRIME_RL_COMMIT

SCHEMA_COMMIT = PRIME_RL_COMMIT
"""Commit of PrimeIntellect-ai/prime-rl from which the schemas were exported."""

SchemaKind = Literal["rl", "sft"]
SchemaProblemKind = Literal["unknown", "type", "missing", "value"]

PLATFORM_KEYS: Mapping[str, type] = {
    "name": str,
    "image_tag": str,
    "gpu_type": str,
    "volume": str,
    "volume_size": str,
    "source_ref": str,
    "env_file": object,
    "env_files": object,
    "type": object,
}
"""Top-level keys that `prime train` uses itself and does not pass to prime-rl."""

_OPEN = frozenset({"EnvConfig", "TasksetConfig", "TaskConfig"})
"""Classes that an environment replaces by its own config class, so that further keys are allowed."""

_SWITCHABLE = ".full_offload"
"""End of the path of a table that may also be written as `true`, which means its defaults."""

_JSON_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_TYPE_NAMES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "a table",
}


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """One value or key that the schema does not accept.

    `key` is the dotted path, such as `orchestrator.train.source[0].ratio`. `problem` completes the sentence "KEY ...".
    `near` is the known key that was probably meant.
    """

    key: str
    problem: str
    kind: SchemaProblemKind = "value"
    near: str | None = None


def schema_problems(table: Mapping[str, Any], kind: SchemaKind = "rl") -> list[SchemaProblem]:
    """Return the problems of a config in file order: unknown keys, missing keys, and values that are not accepted."""
    schema = load_schema(kind)
    body = {key: value for key, value in table.items() if key not in PLATFORM_KEYS}
    problems = [
        SchemaProblem(key, f"must be text, not {_value_text(table[key])}", "type")
        for key, expected in PLATFORM_KEYS.items()
        if key in table and not isinstance(table[key], expected)
    ]
    return [*problems, *_Walk(schema).table(body, schema, "")]


def problems_against(table: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> list[SchemaProblem]:
    """Return the problems of one table against a schema of its own. `path` is the dotted path of the table."""
    return list(_Walk(schema, frozenset()).table(table, schema, path))


@cache
def load_schema(kind: SchemaKind) -> dict[str, Any]:
    """Return the JSON schema of one kind of config."""
    text = (resources.files(__package__) / "schemas" / f"{kind}.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


@cache
def vllm_options() -> frozenset[str]:
    """Return the options of vLLM that prime-rl names itself. It passes all others on, whatever they are."""
    return frozenset(load_schema("rl")["$defs"]["VllmConfig"]["properties"])


@cache
def load_env_schema() -> dict[str, Any]:
    """Return the schemas of verifiers for the `env` table of a source.

    `env` is the schema of the table of a plain taskset, `harnesses` has the schema of each harness by id, and
    `verifiers` is the version. tests/lab/configs/write_env_schema.py exports them from the pinned verifiers, because
    the server does not import verifiers.
    """
    loaded: dict[str, Any] = json.loads(
        (resources.files(__package__) / "schemas" / "env.json").read_text(encoding="utf-8")
    )
    return loaded


@cache
def tables_of_key(kind: SchemaKind) -> Mapping[str, tuple[str, ...]]:
    """Return the dotted paths at which each key name is allowed, the shortest first.

    Findings use them to say where a misplaced key belongs.
    """
    tables: dict[str, list[str]] = {}
    schema = load_schema(kind)
    walk = _Walk(schema)
    queue: list[tuple[str, Mapping[str, Any], int]] = [("", schema, 0)]
    while queue:
        path, node, depth = queue.pop(0)
        for name, child in node.get("properties", {}).items():
            full_path = f"{path}.{name}" if path else name
            tables.setdefault(name, []).append(full_path)
            if depth < 4:
                queue += [(full_path, branch, depth + 1) for branch in walk.branches(child)]
    return {name: tuple(paths) for name, paths in tables.items()}


@cache
def default_values(kind: SchemaKind, path: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the defaults that the alternatives of a schema give to the key at a path; empty where one has none.

    Items of a list have the path of the list.
    """
    schema = load_schema(kind)
    walk = _Walk(schema)
    nodes: list[Mapping[str, Any]] = [schema]
    found: list[Mapping[str, Any]] = []
    for key in path:
        tables = [leaf for node in nodes for branch in walk.branches(node) for leaf in _item(walk, branch)]
        found = [node for table in tables if (node := _entry(table, key)) is not None]
        nodes = found
    values = [node["default"] for node in found if "default" in node]
    return tuple(values) if len(values) == len(found) else ()


def _entry(table: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    """Return the schema of the value under a key of a table; None for a key that the table does not name."""
    named: Mapping[str, Any] | None = table.get("properties", {}).get(key)
    others = table.get("additionalProperties")
    return named if named is not None or not isinstance(others, Mapping) else others


def _item(walk: _Walk, node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the alternatives of the items of a list; those of another node are the node itself."""
    return walk.branches(node.get("items", {})) if node.get("type") == "array" else [node]


class _Walk:
    """Compares a table with its schema, level by level. Classes in `opened` accept further keys."""

    def __init__(self, schema: Mapping[str, Any], opened: frozenset[str] = _OPEN) -> None:
        self._opened = opened
        self._definitions: Mapping[str, Any] = schema.get("$defs", {})

    def table(self, value: Mapping[str, Any], node: Mapping[str, Any], path: str) -> Iterator[SchemaProblem]:
        properties = node.get("properties", {})
        extra = node.get("additionalProperties", True)
        for name, inner in value.items():
            shown = key_path((name,))
            full_path = f"{path}.{shown}" if path else shown
            if name in properties:
                yield from self.value(inner, properties[name], full_path)
            elif isinstance(extra, Mapping):
                yield from self.value(inner, extra, full_path)
            elif extra is False:
                near = difflib.get_close_matches(name, list(properties), n=1, cutoff=0.72)
                yield SchemaProblem(full_path, "is no key of this table", "unknown", near[0] if near else None)
        for name in node.get("required", ()):
            if name not in value:
                full_path = f"{path}.{name}" if path else name
                yield SchemaProblem(full_path, "is required and missing", "missing")

    def value(self, value: Any, node: Mapping[str, Any], path: str) -> Iterator[SchemaProblem]:
        branches = self.branches(node)
        nullable = any(b.get("type") == "null" for b in branches)
        candidates = [b for b in branches if b.get("type") != "null"]
        if value == "None":
            if not nullable:
                yield SchemaProblem(path, 'is "None", which prime-rl reads as null, and it may not be null', "value")
            return
        if value is True and path.endswith(_SWITCHABLE):
            return
        tag = self._tag(node)
        if isinstance(value, dict) and tag is not None:
            by_tag = {b["properties"][tag]["const"]: b for b in candidates if "const" in b["properties"].get(tag, {})}
            name = value.get(tag, self._default_tag(node, tag))
            if not isinstance(name, str) or name not in by_tag:
                listed = ", ".join(sorted(by_tag))
                problem = "is missing" if name is None else f"is {_value_text(name)}"
                yield SchemaProblem(f"{path}.{tag}", f"{problem}; it must be one of {listed}", "value")
                return
            candidates = [by_tag[name]]
        elif len(candidates) > 1:
            candidates = [b for b in candidates if "type" not in b or _fits(value, str(b["type"]))] or candidates
        attempts = [list(self._one(value, branch, path)) for branch in candidates]
        if attempts:
            yield from min(attempts, key=len)

    def branches(self, node: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the alternatives of a schema node, with references resolved."""
        if "$ref" in node:
            name = str(node["$ref"]).rsplit("/", 1)[-1]
            target = self._definitions[name]
            return self.branches({**target, "additionalProperties": True} if name in self._opened else target)
        for union in ("anyOf", "oneOf"):
            if union in node:
                return [leaf for branch in node[union] for leaf in self.branches(branch)]
        return [node]

    def _default_tag(self, node: Mapping[str, Any], tag: str) -> str | None:
        """Return the default of the tag `type`, which prime-rl fills in. Any other tag has no default."""
        default = node.get("default")
        tag_value = default.get(tag) if tag == "type" and isinstance(default, dict) else None
        return str(tag_value) if tag_value is not None else None

    def _tag(self, node: Mapping[str, Any]) -> str | None:
        if "discriminator" in node:
            return str(node["discriminator"]["propertyName"])
        for union in ("anyOf", "oneOf"):
            for branch in node.get(union, ()):
                if tag := self._tag(branch):
                    return tag
        return None

    def _one(self, value: Any, node: Mapping[str, Any], path: str) -> Iterator[SchemaProblem]:
        json_type = node.get("type")
        if isinstance(json_type, str) and not _fits(value, json_type):
            yield SchemaProblem(
                path, f"must be {_TYPE_NAMES.get(json_type, json_type)}, not {_value_text(value)}", "type"
            )
            return
        if "const" in node and value != node["const"]:
            yield SchemaProblem(path, f"must be {node['const']!r}, not {_value_text(value)}", "value")
        if "enum" in node and value not in node["enum"]:
            near = difflib.get_close_matches(str(value), [str(e) for e in node["enum"]], n=1)
            listed = ", ".join(map(str, node["enum"]))
            yield SchemaProblem(
                path, f"must be one of {listed}, not {_value_text(value)}", "value", near[0] if near else None
            )
        if isinstance(value, str) and "pattern" in node and not re.search(node["pattern"], value):
            yield SchemaProblem(path, f"must match {node['pattern']}, and is {_value_text(value)}", "value")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield from _bounds(value, node, path)
        if isinstance(value, dict):
            yield from self.table(value, node, path)
        if isinstance(value, list):
            if len(value) < node.get("minItems", 0):
                yield SchemaProblem(path, f"needs at least {node['minItems']} entries", "value")
            for index, inner in enumerate(value):
                yield from self.value(inner, node.get("items", {}), f"{path}[{index}]")


def _bounds(value: float, node: Mapping[str, Any], path: str) -> Iterator[SchemaProblem]:
    broken = (
        ("minimum", "at least", "minimum" in node and value < node["minimum"]),
        ("exclusiveMinimum", "more than", "exclusiveMinimum" in node and value <= node["exclusiveMinimum"]),
        ("maximum", "at most", "maximum" in node and value > node["maximum"]),
        ("exclusiveMaximum", "less than", "exclusiveMaximum" in node and value >= node["exclusiveMaximum"]),
    )
    for name, comparison, is_broken in broken:
        if is_broken:
            yield SchemaProblem(path, f"must be {comparison} {node[name]}, not {value}", "value")


def _fits(value: Any, json_type: str) -> bool:
    if isinstance(value, bool):
        return json_type == "boolean"
    if json_type == "integer" and isinstance(value, float):
        return value.is_integer()  # pydantic accepts 2.0 as an integer
    return isinstance(value, _JSON_TYPES.get(json_type, (object,)))


def _value_text(value: Any) -> str:
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    return quote(value if isinstance(value, str) else json.dumps(value, default=str), limit=60)


def prime_rl_refuses(code: Code, why: str, fix: str, where: str) -> Finding:
    """Return the blocker for a setting that a validator of prime-rl refuses. `why` follows "prime-rl refuses this:"."""
    return Finding(code, "blocker", f"prime-rl refuses this: {why}.", fix, where)
