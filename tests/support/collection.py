"""Collects the tests without the garbage collector, which would go through a million lasting objects again and again.

A pytest plugin. What was collected stays to the end of the run, so the collector skips it during the tests too.
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
