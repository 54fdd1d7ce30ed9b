"""Lets the models of the SDK be built when they are first used.

The SDK (mcp 2.0.0 to 2.3.0) defines some 640 pydantic models, and pydantic builds a validator and a serializer for each
while the module is imported. That takes a third of a server's start, and a server on stdio uses some forty of them. The
setting `defer_build` of pydantic moves the building to the first use. Models inherit the setting from `BaseModel`, so
it is set there while the SDK is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter

_DEFERRED = ConfigDict(defer_build=True)
_CLASS = type


@contextmanager
def deferred_models() -> Iterator[None]:
    """Defer the building of all models and type adapters that are defined meanwhile.

    The SDK rebuilds a few models at the end of its modules, because they name classes that are defined below them. Such
    a rebuild is left out: the first use builds the model, and by then all classes are defined.
    """
    model: Any = BaseModel
    adapter: Any = TypeAdapter
    config, rebuild, init = model.model_config, model.__dict__["model_rebuild"], adapter.__init__

    def rebuild_on_use(cls: type[BaseModel], /, **options: Any) -> Any:
        # The first use passes options, the modules of the SDK pass none.
        return rebuild.__get__(None, cls)(**options) if options else None

    def deferred_init(self: Any, type: Any, *, config: ConfigDict | None = None, **options: Any) -> None:
        # A model brings a config of its own, and an adapter of one with another config is an error.
        if config is None and not isinstance(type, _CLASS):
            config = _DEFERRED
        # Names in annotations are looked up in the frame that many calls above; this function is one more.
        options["_parent_depth"] = options.get("_parent_depth", 2) + 1
        init(self, type, config=config, **options)

    model.model_config, model.model_rebuild, adapter.__init__ = _DEFERRED, classmethod(rebuild_on_use), deferred_init
    try:
        yield
    finally:
        model.model_config, model.model_rebuild, adapter.__init__ = config, rebuild, init
