"""The code on the guides runs, and the environment that guide/environments shows passes every free check."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.lab import Lab
from tests.lab.rewards.packages import check, codes, try_reward
from tests.resources.fenced import blocks, files, page

README = """\
# marbles

## Dataset

Sums made by the code.

## Input and output

A question; a whole number in answer tags.

## Reward

1 for the right number, 0.1 for one number in answer tags.

## Usage

vf-eval marbles -m MODEL --no-push
"""


def test_the_reward_on_the_page_does_what_the_page_asserts() -> None:
    code = "\n".join(code for language, code in blocks(page("guide/rewards")) if language == "python")
    assert code.count("assert ") == 9
    exec(compile(code, "guide/rewards", "exec"), {"__name__": "guide"})


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.parametrize(("topic", "name"), [("guide/environments", "marbles"), ("guide/interaction", "till")])
async def test_the_environment_on_the_page_passes_the_free_checks(lab: Lab, topic: str, name: str) -> None:
    readme = README.replace("marbles", name)
    for path, code in {**files(page(topic)), f"environments/{name}/README.md": readme}.items():
        target = Path(lab.workspace.root, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(code, encoding="utf-8")
    checked = await check(lab, name)
    assert (codes(checked), checked.status) == (set(), "passed")
    assert codes(checked, "warning") == set()
    tried = await try_reward(lab, name)
    assert (tried.status, codes(tried), codes(tried, "warning")) == ("passed", set(), set())
