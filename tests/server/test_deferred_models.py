"""A server builds the models of the SDK when it uses them, and they are the same as those built at import."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from pydantic import BaseModel, TypeAdapter

from prime_lab_mcp.server.deferred_models import deferred_models

_MODELS = """
import contextlib, json, sys
from pydantic import BaseModel, TypeAdapter
from prime_lab_mcp.server.deferred_models import deferred_models
with deferred_models() if sys.argv[1] == "deferred" else contextlib.nullcontext():
    import prime_lab_mcp.server.app
import mcp_types, mcp_types.jsonrpc, mcp_types._types
def below(model):
    for one in model.__subclasses__():
        yield one
        yield from below(one)
def schema(made):
    try:
        return json.dumps(made(), sort_keys=True, default=str)
    except Exception as error:
        return type(error).__name__
models = {f"{m.__module__}.{m.__qualname__}": m for m in below(BaseModel) if m.__module__.startswith("mcp")}
built = sorted(name for name, model in models.items() if model.__pydantic_complete__)
schemas = {name: schema(model.model_json_schema) for name, model in models.items()}
for module in (mcp_types.jsonrpc, mcp_types._types):
    adapters = {n: a for n, a in vars(module).items() if isinstance(a, TypeAdapter)}
    schemas |= {name: schema(adapter.json_schema) for name, adapter in adapters.items()}
print(json.dumps({"built": built, "schemas": schemas}))
"""


def _models(way: str) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", _MODELS, way], capture_output=True, text=True, check=True)
    models: dict[str, Any] = json.loads(done.stdout)
    return models


def test_models_built_on_use_are_those_built_at_import_and_few_are_built_before() -> None:
    deferred, eager = _models("deferred"), _models("at once")
    assert deferred["schemas"] == eager["schemas"]
    assert len(eager["built"]) > 500, "the SDK no longer builds its models at import: this module may be superfluous"
    assert len(deferred["built"]) < 30, deferred["built"]


def test_models_and_adapters_defined_meanwhile_validate_and_later_ones_are_built_at_once() -> None:
    with deferred_models():

        class Folder(BaseModel):
            name: str
            inner: list[Folder] = []

        Folder.model_rebuild()
        either: TypeAdapter[Folder | int] = TypeAdapter(Folder | int)
        alone = TypeAdapter(Folder)
        assert not Folder.__pydantic_complete__

    class Later(BaseModel):
        size: int

    assert Later.__pydantic_complete__
    assert Later.model_rebuild() is None
    assert either.validate_python({"name": "a", "inner": [{"name": "b"}]}) == Folder(name="a", inner=[Folder(name="b")])
    assert either.validate_json("7") == 7
    assert alone.validate_python({"name": "a"}) == Folder(name="a")
    assert TypeAdapter(list[Later]).validate_python([{"size": 1}]) == [Later(size=1)]
