"""Findings of many checks become one list: the worst first, doubles merged, many of a kind counted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import SEVERITIES, Finding, Severity, capped, merged, run_checks, worst_first

FINDINGS = st.lists(
    st.builds(
        Finding,
        st.sampled_from(["secret", "leak-exact", "leak-near"]),
        st.sampled_from(SEVERITIES),
        st.sampled_from(["one", "two"]),
        st.just("mend"),
        st.sampled_from([None, "a.py:1", "b.py:2"]),
    ),
    max_size=20,
)


def made(code: Code, severity: Severity, where: str | None = None) -> Finding:
    return Finding(code, severity, "says", "mend", where)


def test_the_order_holds_every_severity() -> None:
    assert set(SEVERITIES) == set(get_args(Severity))


@given(FINDINGS)
def test_the_worst_come_first_and_nothing_else_moves(findings: list[Finding]) -> None:
    ordered = worst_first(findings)
    assert all(SEVERITIES.index(a.severity) <= SEVERITIES.index(b.severity) for a, b in pairwise(ordered))
    for severity in SEVERITIES:
        assert [f for f in ordered if f.severity == severity] == [f for f in findings if f.severity == severity]


@given(FINDINGS, st.integers(1, 4))
def test_a_cap_loses_no_count(findings: list[Finding], each: int) -> None:
    shown = capped(findings, each)
    for code, severity in {(f.code, f.severity) for f in findings}:
        all_alike = [f for f in findings if (f.code, f.severity) == (code, severity)]
        alike = [f for f in shown if (f.code, f.severity) == (code, severity)]
        assert alike[:-1] == all_alike[: len(alike) - 1]
        assert len(alike) == min(each, len(all_alike))
        more = len(all_alike) - each
        assert (f"; {more} more like it" in alike[-1].message) == (more > 0)


def test_the_places_of_what_a_cap_leaves_out_are_named() -> None:
    (shown,) = capped([made("secret", "info", f"{n}.py:1") for n in range(9)], 1)
    assert shown.message == "says; 8 more like it at 1.py:1, 2.py:1, 3.py:1, 4.py:1, 5.py:1, 6.py:1"


def test_of_doubles_the_first_stays_unless_a_later_one_blocks() -> None:
    first, graver, other = made("secret", "warning", "a"), made("secret", "blocker", "b"), made("leak-exact", "info")
    assert merged([first, other, graver], {"secret"}) == [graver, other]
    assert merged([graver, other, first], {"secret"}) == [graver, other]
    assert merged([first, other, first], {"secret"}) == [first, other]
    assert merged([first, other, graver], set()) == [first, other, graver]


def test_checks_run_in_order_over_one_subject() -> None:
    def one(subject: str, other: int) -> Iterator[Finding]:
        yield made("secret", "info", f"{subject}{other}")

    def two(subject: str, other: int) -> Iterator[Finding]:
        yield from (made("leak-exact", "blocker"), made("leak-near", "info"))

    assert [f.code for f in run_checks((one, two), "a", 1)] == ["secret", "leak-exact", "leak-near"]
    assert run_checks((one,), "a", 1)[0].where == "a1"
