"""Holds chance: while it is held, each rollout begins with the same state of every random generator of the process.

Two rollouts with the same replies then differ only by what an earlier rollout left behind, or by what no generator of
this process decides: the clock, or entropy of the operating system.
"""

from __future__ import annotations

import contextlib
import gc
import random
import sys
from collections.abc import Iterator
from typing import Any

_SEED = 20_011


@contextlib.contextmanager
def held(wanted: bool) -> Iterator[None]:
    """Where `wanted`, generators that are made without a seed get a fixed one, also those of `secrets`."""
    if not wanted:
        yield
        return
    seed, entropy = random.Random.seed, getattr(random, "_urandom", None)
    source = random.Random(_SEED)

    def fixed(self: Any, a: Any = None, version: int = 2) -> None:
        seed(self, _SEED if a is None else a, version)

    random.Random.seed = fixed  # type: ignore[method-assign]
    if entropy is not None:
        random._urandom = source.randbytes  # type: ignore[attr-defined]
    try:
        yield
    finally:
        random.Random.seed = seed  # type: ignore[method-assign]
        if entropy is not None:
            random._urandom = entropy  # type: ignore[attr-defined]


def rewind() -> None:
    """Set every generator of the process back to one state: those of `random`, and those of a loaded numpy."""
    random.seed(_SEED)
    numpy = sys.modules.get("numpy.random")
    kinds: tuple[type, ...] = (random.Random,)
    if numpy is not None:
        numpy.seed(_SEED)
        kinds = (random.Random, numpy.Generator, numpy.RandomState)
    for thing in gc.get_objects():
        # Only the true type is asked, because `isinstance` may run code of a proxy.
        if issubclass(type(thing), kinds):
            with contextlib.suppress(Exception):
                _rewind(thing)


def _rewind(generator: Any) -> None:
    if isinstance(generator, random.SystemRandom):
        return
    if isinstance(generator, random.Random):
        generator.seed(_SEED)
        return
    bits = getattr(generator, "bit_generator", None)
    if bits is None:  # the older kind of numpy
        generator.seed(_SEED)
    else:
        bits.state = type(bits)(_SEED).state
