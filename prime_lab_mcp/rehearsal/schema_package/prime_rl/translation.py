"""Converts a JSON schema that pydantic exported back to a pydantic-core validator."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from pydantic_core import CoreSchema, SchemaValidator
from pydantic_core import core_schema as core

from prime_lab_mcp.rehearsal.schema_package.prime_rl.relations import Relation

Node = Mapping[str, Any]

_OPEN = frozenset({"EnvConfig", "TasksetConfig", "TaskConfig"})
"""Tables whose keys the environment's own package defines. That package is not available, so further keys are
allowed."""
_BOUNDS = {"minimum": "ge", "exclusiveMinimum": "gt", "maximum": "le", "exclusiveMaximum": "lt"}


def validator(schema: Node, relations: Mapping[str, Relation]) -> SchemaValidator:
    definitions = [
        {**_related(_table(node, open=name in _OPEN), relations.get(name)), "ref": name}
        if "properties" in node or node.get("type") == "object"
        else {**_node(node), "ref": name}
        for name, node in schema.get("$defs", {}).items()
    ]
    whole = _table(schema, open=False)
    return SchemaValidator(core.definitions_schema(whole, definitions))  # type: ignore[arg-type]


def _related(schema: CoreSchema, relation: Relation | None) -> CoreSchema:
    return core.no_info_after_validator_function(relation, schema) if relation else schema


def _table(node: Node, *, open: bool) -> CoreSchema:
    required = set(node.get("required", ()))
    fields = {
        name: core.typed_dict_field(_field(name, child, name in required), required=name in required)
        for name, child in node.get("properties", {}).items()
    }
    extra = node.get("additionalProperties", True)
    if not fields and isinstance(extra, Mapping):
        return core.dict_schema(core.str_schema(), _node(extra))
    forbids = extra is False and not open
    return core.typed_dict_schema(fields, extra_behavior="forbid" if forbids else "allow")


def _field(name: str, node: Node, required: bool) -> CoreSchema:
    default = node.get("default")

    def as_written(value: Any) -> Any:
        """Normalise values like prime-rl: "None" is null, `full_offload = true` its defaults, a missing `type` the
        default's."""
        if value == "None" and isinstance(value, str):
            return None
        if name == "full_offload" and value is True:
            return {}
        if isinstance(value, dict) and isinstance(default, dict) and "type" in default and "type" not in value:
            return {"type": default["type"], **value}
        return value

    inner = core.no_info_before_validator_function(as_written, _node(node))
    if required or "default" not in node:
        return inner
    nested = isinstance(default, dict | list)
    return core.with_default_schema(inner, default_factory=lambda: deepcopy(default), validate_default=nested)


def _node(node: Node) -> CoreSchema:
    if "$ref" in node:
        return core.definition_reference_schema(str(node["$ref"]).rsplit("/", 1)[-1])
    if "discriminator" in node:
        mapping = node["discriminator"]["mapping"]
        choices = {tag: _node({"$ref": ref}) for tag, ref in mapping.items()}
        return core.tagged_union_schema(choices, str(node["discriminator"]["propertyName"]))
    for union in ("anyOf", "oneOf"):
        if union in node:
            branches = [b for b in node[union] if b.get("type") != "null"]
            some = _node(branches[0]) if len(branches) == 1 else core.union_schema([_node(b) for b in branches])
            return core.nullable_schema(some) if len(branches) < len(node[union]) else some
    if "const" in node:
        return core.literal_schema([node["const"]])
    if "enum" in node:
        return core.literal_schema(list(node["enum"]))
    return _core_schema(node)


def _core_schema(node: Node) -> CoreSchema:
    bounds: dict[str, Any] = {ours: node[theirs] for theirs, ours in _BOUNDS.items() if theirs in node}
    match node.get("type"):
        case "integer":
            return core.int_schema(**bounds)
        case "number":
            return core.float_schema(**bounds)
        case "string":
            return core.str_schema()
        case "boolean":
            return core.bool_schema()
        case "null":
            return core.none_schema()
        case "array":
            return core.list_schema(_node(node.get("items", {})), min_length=node.get("minItems"))
        case "object":
            return _table(node, open=False)
    return core.any_schema()
