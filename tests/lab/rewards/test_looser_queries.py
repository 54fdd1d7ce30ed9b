"""Right queries without their conditions."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.looser_queries import looser_query_probes


@pytest.mark.parametrize(
    ("right", "looser"),
    [
        ("```sql\nSELECT name FROM owners WHERE town = 'Kelso';\n```", "```sql\nSELECT name FROM owners;\n```"),
        ("SELECT a FROM t WHERE b > 2 ORDER BY a", "SELECT a FROM t ORDER BY a"),
        ("<sql>select a from t where b = 1 and c = 2</sql>", "<sql>select a from t</sql>"),
    ],
)
def test_a_condition_is_left_out_within_the_form_of_the_reply(right: str, looser: str) -> None:
    assert [probe.completion for probe in looser_query_probes({3: right})] == [looser]


@pytest.mark.parametrize(
    "other",
    [
        "SELECT count(*) FROM t WHERE a = 1",
        "SELECT a FROM t WHERE b = 1 LIMIT 3",
        "SELECT a FROM t",
        "Select a place from where you see the sea",
    ],
)
def test_a_query_that_would_return_other_values_is_left_alone(other: str) -> None:
    assert looser_query_probes({0: other}) == []
