"""Tests of a law over an inventory: one test for all members, whose failure lists every member that breaks the law."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

_BREAKS = (Exception, pytest.fail.Exception, pytest.skip.Exception)


def every(
    names: str | Sequence[str], members: Iterable[Any], ids: Callable[[Any], str] | Sequence[str] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Call the decorated law once per member and fail with all members that break the law.

    The arguments are those of `pytest.mark.parametrize`. Fixtures are shared by all members, so a law must not change
    them. Use parametrize where a case is worth its own line in a report, or changes something.
    """
    inventory = list(members)
    if not inventory:
        raise ValueError("a law over an empty inventory cannot fail")
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    labels = [ids(member) for member in inventory] if callable(ids) else [str(label) for label in ids or inventory]

    def decorate(law: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(law)

        @functools.wraps(law)
        def test(**fixtures: Any) -> None:
            offenders = []
            for label, member in zip(labels, inventory, strict=True):
                values = [member] if len(keys) == 1 else member
                try:
                    law(**dict(zip(keys, values, strict=True)), **fixtures)
                except _BREAKS as error:
                    offenders.append(f"{label}: {_reason(error)}")
            if offenders:
                pytest.fail(f"{len(offenders)} of {len(inventory)} break the law\n" + "\n".join(offenders), False)

        rest = [parameter for name, parameter in signature.parameters.items() if name not in keys]
        test.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return test

    return decorate


def _reason(error: BaseException) -> str:
    line = traceback.extract_tb(error.__traceback__)[1].lineno
    return f"line {line}: {type(error).__name__}: {error}"
