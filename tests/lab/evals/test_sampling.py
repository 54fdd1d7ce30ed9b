"""Whether an evaluation sampled as training will."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.evals.judging import other_sampling


@pytest.mark.parametrize(
    ("sampling", "named"),
    [
        ({"temperature": 1.0, "max_tokens": 512}, None),
        ({"temperature": 0.0}, "temperature 0"),
        ({"temperature": 1.0, "top_p": 0.9}, "top_p 0.9"),
        ({"temperature": 1.0, "top_p": 1, "top_k": -1, "min_p": 0}, None),
        ({"min_p": 0.1}, "min_p 0.1"),
    ],
)
def test_other_sampling_is_named(sampling: dict[str, Any], named: str | None) -> None:
    told = other_sampling(sampling)
    assert told is None if named is None else named in (told or "")
