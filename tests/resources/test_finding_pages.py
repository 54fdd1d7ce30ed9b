"""Every finding code has a page with cause, fix and tool; no page is about a code that nothing emits."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

from prime_lab_mcp.lab.base.codes import Code, recorded_code
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.tools.registry import TOOLS
from tests.resources.codes import emitted, expanded
from tests.resources.write_codes import TARGET, module_text
from tests.support.laws import every

PAGES = {code: References().page(f"finding/{code}") or "" for code in References().finding_codes()}
NAMES = {tool.name for tool in TOOLS}


@functools.cache
def _source() -> tuple[dict[str, set[str]], list[str]]:
    """Codes and unknown expressions of the source, which takes seconds to parse: not while tests are collected."""
    return emitted()


def test_every_computed_code_is_accounted_for() -> None:
    assert _source()[1] == []


def test_every_code_of_the_source_has_a_page() -> None:
    assert {code: sorted(files) for code, files in _source()[0].items() if code not in PAGES} == {}


def test_every_page_is_about_a_code_of_the_source() -> None:
    assert sorted(PAGES.keys() - _source()[0].keys()) == []


def test_the_type_of_codes_is_written_from_the_pages() -> None:
    assert TARGET.read_text(encoding="utf-8") == module_text(), "run: make codes"
    assert sorted(get_args(Code)) == sorted(PAGES)


def test_a_code_that_is_no_page_is_a_type_error(tmp_path: Path) -> None:
    """mypy follows `Finding` and `LabError` from a caller that misspells a code."""
    caller = tmp_path / "caller.py"
    caller.write_text(
        "from prime_lab_mcp.lab.base.errors import BadInput\n"
        "from prime_lab_mcp.lab.base.report import Finding\n"
        'Finding("leak-exact", "info", "", "")\n'
        'BadInput("", fix="", code="bad-input")\n'
        'Finding("leak-exakt", "info", "", "")\n'
        'BadInput("", fix="", code="bad-imput")\n',
        encoding="utf-8",
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--cache-dir",
        str(tmp_path),
        caller,
    ]
    done = subprocess.run(command, cwd=TARGET.parents[3], capture_output=True, text=True, check=False)
    lines = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error: " in line]
    assert lines == [5, 6], done.stdout[-2_000:]


def test_a_finding_of_an_older_version_loads_with_its_code() -> None:
    old = Finding(recorded_code("a-code-of-yore"), "info", "", "")
    assert old.as_json()["code"] == "a-code-of-yore"


def test_the_codes_of_the_design_are_among_them() -> None:
    design = {
        "leak-near",
        "position-bias",
        "contaminated-benchmark",
        "unpinned-dataset",
        "also-an-environment",
        "reward-order-dependent",
        "reward-length-bonus",
        "distribution-no-signal",
        "migration",
        "hub-content-differs",
        "worker-timeout",
        "run-overrun",
        "eval-crashed",
        "config-old-key",
        "bad-argument",
    }
    assert design <= _source()[0].keys()


@every("code", PAGES)
def test_a_page_says_cause_and_fix_and_names_tools_of_the_registry(code: str) -> None:
    page = PAGES[code]
    cause, fix, shown = (
        re.search(rf"^\*\*{part}(.+?)(?:\n\n|\Z)", page, re.S | re.M)
        for part in ("Cause\\.\\*\\*", "Fix\\.\\*\\*", "Shown by\\*\\*")
    )
    assert page.startswith(f"# {code}\n")
    assert cause is not None and len(cause[1]) > 20  # noqa: PT018
    assert fix is not None and len(fix[1]) > 8  # noqa: PT018
    assert shown is not None
    tools = re.findall(r"`([a-z_]+)`", shown[1])
    assert tools
    assert set(tools) <= NAMES


def test_pages_stay_short_and_the_list_of_all_codes_under_2_000_tokens() -> None:
    assert max(map(len, PAGES.values())) < 2_000
    listed = References().page("finding") or ""
    assert set(expanded(listed)) >= set(PAGES)
    assert len(listed) / 4 < 2_000
