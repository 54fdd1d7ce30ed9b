"""The README tells a stranger what is so."""

from __future__ import annotations

import re

from prime_lab_mcp.cli.main import COMMANDS
from tests.server.readme import README, current, table

TEXT = README.read_text(encoding="utf-8")


def test_the_table_of_tools_is_the_registry() -> None:
    assert current() == table()


def test_its_make_targets_exist() -> None:
    targets = set(re.findall(r"(?:^|`)make (\w+)", TEXT, re.M))
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    assert {"demo", "test"} <= targets
    assert [target for target in targets if f"\n{target}:" not in makefile] == []


def test_its_terminal_commands_exist() -> None:
    named = set(re.findall(r"^prime-lab-mcp (\w+)", TEXT, re.M))
    assert named <= set(COMMANDS)
    assert {"call", "approve", "override"} <= named
