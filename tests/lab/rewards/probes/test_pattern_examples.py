"""The shortest match of a pattern shows the form in which a reward reads an answer."""

from __future__ import annotations

import re

import pytest

from prime_lab_mcp.lab.rewards.probes.pattern_examples import code_patterns, pattern_example, pattern_frames


@pytest.mark.parametrize(
    ("pattern", "frame"),
    [
        (r"<entry>\s*([A-Za-z]+)\s*</entry>", ("<entry>", "</entry>")),
        (r"^\W*CODE:\W*(\d{4})\W*$", ("CODE:", "")),
        (r"```(?:python|py)?\s*\n(.*?)```", ("```\n", "```")),
        (r"(?i)the verdict is (yes|no)\b", ("the verdict is ", "")),
        (r"(\w+)=(\d+)", None),
        (r"no group", None),
    ],
)
def test_what_stands_around_the_group_of_a_pattern_is_a_wrapper(pattern: str, frame: tuple[str, str] | None) -> None:
    assert pattern_frames(pattern) == frame
    assert re.search(pattern, pattern_example(pattern))


@pytest.mark.parametrize("pattern", ["(", "(?=a)b", r"(a)\1", "[", "x{2000}", "(x{100}){4000000000}"])
def test_a_pattern_without_a_short_match_gives_none(pattern: str) -> None:
    assert (pattern_example(pattern), pattern_frames(pattern)) == ("", None)


def test_patterns_are_read_from_calls_of_re() -> None:
    source = "import re\nLINE = re.compile(r'a(b)', re.M)\ndef f(x):\n    return re.findall('c', x) or x.find('d')\n"
    assert code_patterns(source) == ["a(b)", "c"]
