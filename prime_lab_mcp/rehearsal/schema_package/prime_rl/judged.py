"""A config that is validated by a schema file in this folder. It has the methods of pydantic models that the worker
uses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from pydantic_core import SchemaValidator

from prime_lab_mcp.rehearsal.schema_package.prime_rl.relations import RELATIONS
from prime_lab_mcp.rehearsal.schema_package.prime_rl.translation import validator


class Judged:
    """A table of a config. Its attributes are the keys, and nested tables have this class too."""

    schema: ClassVar[str] = ""
    model_fields: ClassVar[Mapping[str, Any]] = {"orchestrator": SimpleNamespace(annotation=None)}

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = dict(fields)

    @classmethod
    def model_validate(cls, data: Mapping[str, Any]) -> Judged:
        """Raises pydantic's ValidationError."""
        text = (Path(__file__).parent / f"{cls.schema}.json").read_text(encoding="utf-8")
        judge: SchemaValidator = validator(json.loads(text), RELATIONS[cls.schema])
        return Judged(judge.validate_python(data))

    def __getattr__(self, name: str) -> Any:
        try:
            value = self.__dict__["_fields"][name]
        except KeyError:
            raise AttributeError(name) from None
        return Judged(value) if isinstance(value, dict) else value

    def model_dump(self, *, mode: str = "json", exclude: set[str] | None = None) -> dict[str, Any]:
        return {key: value for key, value in self._fields.items() if key not in (exclude or ())}
