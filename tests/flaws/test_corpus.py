"""The corpus itself: what its headers say, and (slow) that the tools tell every flaw from every sound reward."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from prime_lab_mcp.server.call import Calls
from tests.flaws.corpus import FORMATS, SETS, BadHeader, Sample, files, read, samples
from tests.flaws.run import GOOD, opened, tried, without_wheels
from tests.support.rotation import rotates

pytestmark = pytest.mark.anyio
CORPUS = samples()
SOUND = [sample for sample in CORPUS if sample.expected is None]
FLAWED = [sample for sample in CORPUS if sample.expected is not None]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def calls(pytestconfig: pytest.Config) -> AsyncIterator[Calls]:
    """A run with rotation spares the wheels, a run of all cases tries the samples as `python -m tests.flaws` does."""
    with without_wheels() if rotates(pytestconfig) else nullcontext():
        async with opened() as found:
            yield found


def test_every_file_of_the_corpus_has_a_header() -> None:
    assert len(CORPUS) == sum(len(list(files(name))) for name in SETS)
    assert all(sample.title and sample.why for sample in CORPUS)


def test_names_are_unique_across_the_sets() -> None:
    assert [name for name, times in Counter(sample.name for sample in CORPUS).items() if times > 1] == []


def test_only_flawed_rewards_name_a_finding() -> None:
    by_set = {name: {sample.expected is not None for sample in CORPUS if sample.set == name} for name in SETS}
    assert by_set == {"defects": {True}, "sound": {False}, "held_out": {True, False}}


def test_no_sample_is_about_wheels() -> None:
    codes = {code for sample in FLAWED if sample.expected for code in sample.expected.codes}
    assert [code for code in codes if code.startswith("wheel-") or code == "task-not-self-contained"] == []


def test_the_corpus_is_as_large_as_the_issue_asks() -> None:
    held = [sample for sample in CORPUS if sample.set == "held_out"]
    assert len(samples("defects")) >= 40
    assert len(samples("sound")) >= 15
    assert sum(sample.expected is not None for sample in held) >= 12
    assert sum(sample.expected is None for sample in held) >= 4


def test_environments_with_tools_state_or_turns_are_a_good_part_of_the_corpus() -> None:
    marks = ("ToolEnv", "MultiTurnEnv", "Toolset", "interaction(", "vf.State)")
    played = [s for s in CORPUS if any(mark in s.path.read_text(encoding="utf-8") for mark in marks)]
    assert len(played) >= 50
    assert sum(sample.expected is None for sample in played) >= 20
    assert sum(sample.generation == "v1" for sample in played) >= 20


def test_flaws_cover_every_format_and_both_generations() -> None:
    assert {sample.format for sample in FLAWED} == FORMATS
    assert sum(sample.generation == "v0" for sample in samples("defects")) >= 12
    assert {sample.generation for sample in samples("sound")} == {"v1", "v0"}


def test_no_two_flaws_are_the_same_code() -> None:
    bodies = Counter(_body(sample) for sample in CORPUS)
    assert max(bodies.values()) == 1


def _body(sample: Sample) -> str:
    """The code of a sample without its docstring and its names."""
    text = sample.path.read_text(encoding="utf-8")
    tree = ast.parse(text.replace("".join(part.capitalize() for part in sample.name.split("_")), "Sample"))
    return ast.dump(ast.Module(tree.body[1:], []))


@pytest.mark.parametrize(
    "header",
    [
        "Only a title.",
        "Title.\n\nformat: numeric\ngeneration: v1\n",
        "Title.\n\nformat: prose\ngeneration: v1\n\nWhy.",
        "Title.\n\nformat: numeric\ngeneration: v2\n\nWhy.",
        "Title.\n\nformat: numeric\ngeneration: v1\nfinding: reward-slow\n\nWhy.",
        "Title.\n\nformat: numeric\ngeneration: v1\nfinding: reward-slow, info\n\nWhy.",
    ],
    ids=["bare", "no reason", "format", "generation", "no severity", "severity"],
)
def test_a_header_that_lacks_something_is_refused(header: str, tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(f'"""{header}"""\n', encoding="utf-8")
    with pytest.raises(BadHeader):
        read(path, "defects")


@pytest.mark.slow
@pytest.mark.rotate(share=12)
@pytest.mark.parametrize("sample", FLAWED, ids=lambda sample: f"{sample.set}-{sample.name}")
async def test_a_flaw_is_found_by_its_code(calls: Calls, sample: Sample) -> None:
    result = await tried(calls, sample)
    assert result.verdict in GOOD, (result.verdict, result.codes)


@pytest.mark.slow
@pytest.mark.rotate(share=8)
@pytest.mark.parametrize("sample", SOUND, ids=lambda sample: f"{sample.set}-{sample.name}")
async def test_a_sound_reward_passes(calls: Calls, sample: Sample) -> None:
    result = await tried(calls, sample)
    assert result.verdict in GOOD, (result.verdict, result.codes)
