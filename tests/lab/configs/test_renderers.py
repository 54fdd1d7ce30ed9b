"""The vendored map of renderers is the one of the installed package."""

from __future__ import annotations

import importlib.metadata

import pytest

from prime_lab_mcp.lab.configs.context import known_renderers, renderer_data


def test_the_map_says_where_it_is_from() -> None:
    data = renderer_data()
    assert (data["source"], len(data["models"])) == ("renderers.base.MODEL_RENDERER_MAP", len(known_renderers()))


def test_the_map_equals_the_installed_one() -> None:
    base = pytest.importorskip("renderers.base")
    if importlib.metadata.version("renderers") != renderer_data()["version"]:
        pytest.skip("another version of renderers is installed")
    assert dict(known_renderers()) == dict(base.MODEL_RENDERER_MAP)
