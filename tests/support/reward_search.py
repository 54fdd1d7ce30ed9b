"""Searches of rewards are off in tests, but for those that are about the search: each costs seconds.

The product's default stays as it is: `search=10`. What is off is the number of completions that any search may try, so
that reports, gates and evidence are those of a call with the default.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from prime_lab_mcp.lab.rewards.search import reward_search

ALLOWED = reward_search.MOST_COMPLETIONS
"""What the product allows."""


def pytest_configure() -> None:
    reward_search.MOST_COMPLETIONS = 0


@contextmanager
def searching(completions: int = ALLOWED) -> Iterator[None]:
    """Searches run in the block."""
    with patch.object(reward_search, "MOST_COMPLETIONS", completions):
        yield
