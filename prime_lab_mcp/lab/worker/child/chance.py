"""Fixes the random generators of this process, so that each rollout begins with the same random state.

Two rollouts with the same replies can then differ only because of state that an earlier rollout left behind, the clock,
or randomness from the operating system.
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
    """During the block, give all generators that are made without a seed a fixed seed, also those of `secrets`.

    If `wanted` is False, change nothing.
    """
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
    """Set all generators of the process to the same fixed state: those of `random`, and of numpy if it is loaded."""
    random.seed(_SEED)
    numpy = sys.modules.get("numpy.random")
    kinds: tuple[type, ...] = (random.Random,)
    if numpy is not None:
        numpy.seed(_SEED)
        kinds = (random.Random, numpy.Generator, numpy.RandomState)
    for candidate in gc.get_objects():
        # `isinstance` could run code of a proxy object, so the type is compared instead.
        if issubclass(type(candidate), kinds):
            with contextlib.suppress(Exception):
                _rewind(candidate)


def _rewind(generator: Any) -> None:
    if isinstance(generator, random.SystemRandom):
        return
    if isinstance(generator, random.Random):
        generator.seed(_SEED)
        return
    bits = getattr(generator, "bit_generator", None)
    if bits is None:  # A generator of numpy's older API.
        generator.seed(_SEED)
    else:
        bits.state = type(bits)(_SEED).state
