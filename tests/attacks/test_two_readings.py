"""A config that two parsers read alike where it is checked, and otherwise where it is sent.

`prime` reads configs with the package `toml`, which looks at the end of a text to judge its first quote.
"""

from __future__ import annotations

import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.configs.config import parse_config, text_with_name
from prime_lab_mcp.lab.configs.older_platforms import old_reading_here
from prime_lab_mcp.lab.training.submission import write_checked_copy
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.tools.loopback import CONFIG, Desk, desk

pytestmark = pytest.mark.anyio
toml = pytest.importorskip("toml")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("readings")) as opened:
        yield opened


def swallowing() -> str:
    """A sound config whose `max_steps` is a part of another text once something stands before its first quote."""
    rest = "\n".join(line for line in CONFIG.splitlines() if not line.startswith(("max_steps", "name", "#")))
    return f'"output_dir" = """"outputs b"""\nmax_steps = 20\n# """\n{rest}\n# """'


def test_both_parsers_read_the_file_alike_and_what_is_sent_otherwise() -> None:
    text = swallowing()
    assert toml.loads(text) == tomllib.loads(text)
    sent = text_with_name(text, "run-12345678")
    assert "max_steps" in tomllib.loads(sent)
    assert "max_steps" not in toml.loads(sent)


async def test_a_run_whose_steps_the_parser_of_prime_swallows_is_refused(at: Desk) -> None:
    at.config(swallowing(), "configs/rl/swallowed.toml")
    report = await Calls(at.lab, TOOLS, References()).execute(
        "submit_training", {"config": "configs/rl/swallowed.toml"}
    )
    assert report.status == "blocked", report
    assert "config-toml-dialect" in {finding.code for finding in report.findings}


async def test_what_is_sent_is_compared_even_if_the_check_passed(at: Desk) -> None:
    path = at.config(swallowing(), "configs/rl/passed.toml")
    with pytest.raises(LabError) as caught:
        await write_checked_copy(at.lab, parse_config(swallowing(), Path(path)), "run-12345678", "0" * 64)
    assert caught.value.code == "config-toml-dialect"


def test_line_ends_are_read_as_prime_opens_the_file() -> None:
    """`prime` opens the file with every line end as a line feed; `toml` makes a blank of a carriage return."""
    text = 'a = """x\r\ny"""\r\nb = 1\r\n'
    assert toml.loads(text) != tomllib.loads(text)
    reading = old_reading_here(text)
    assert reading is not None
    assert reading.table == tomllib.loads(text)
