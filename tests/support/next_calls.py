"""Checks every report that the one call path returns in this process: each recommended call can be called as it is.

A fix of a blocker names tools only by the calls that it holds (lab/base/fix.py).

A plugin, so that all tests that make calls are the sample.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import PASSING
from prime_lab_mcp.lab.base.fix import calls_record
from prime_lab_mcp.lab.base.report import Next, Report
from prime_lab_mcp.server import arguments
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools import WORKFLOW
from prime_lab_mcp.tools.tool import AnyTool

_ANSWERS = ("confirm", "yes")
_TOOL = re.compile(rf"(?<![\w/])({'|'.join(WORKFLOW)})(?!\w)")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_LISTS_TOOLS = ("unknown-tool",)
"""Codes whose fix lists tools and recommends none."""


def problems_of(report: Report, tool: str, given: Mapping[str, Any], tools: Mapping[str, AnyTool]) -> list[str]:
    """What is wrong with the recommended calls of a report."""
    found = []
    for one in report.next:
        found += [f"{one.tool}({dict(one.arguments or {})}): {p}" for p in _problems(one, report, tool, given, tools)]
    for finding in report.findings:
        if finding.severity == "blocker" and finding.code not in _LISTS_TOOLS:
            spelled = set(_TOOL.findall(_QUOTED.sub("", finding.fix))) - {
                one["tool"] for one in calls_record(finding.fix)
            }
            found += [f"the fix of {finding.code} names {name} without a call: {finding.fix}" for name in spelled]
    if report.status in ("failed", "blocked", "inconclusive") and not report.next and "read_reference" in tools:
        found.append(f"{tool}, {report.status}: no next call")
    return found


def _problems(
    one: Next, report: Report, tool: str, given: Mapping[str, Any], tools: Mapping[str, AnyTool]
) -> list[str]:
    called, named = tools.get(one.tool), dict(one.arguments or {})
    if called is None:
        return [] if one.tool in WORKFLOW else ["no such tool"]  # a test's server has some of the tools
    found = []
    parsed = arguments.parse(called, named)
    if isinstance(parsed, Report):
        found.append(f"refused: {parsed.findings[0].message}")
    elif not arguments.can_be_called(called, named):
        found.append("names none of the arguments of which it needs one")
    before = {name: value for name, value in given.items() if name not in _ANSWERS}
    passes = any(finding.code in PASSING for finding in report.findings)
    if report.status in ("failed", "blocked", "error") and one.tool == tool and named == before and not passes:
        found.append("repeats the call that just failed")
    return found


@pytest.fixture(scope="session", autouse=True)
def recommended_calls_are_right() -> Any:
    execute = Calls.execute

    async def checked(self: Calls, name: str, given: Mapping[str, Any], **options: Any) -> Report:
        report = await execute(self, name, given, **options)
        problems = problems_of(report, name, given, self.tools)
        assert not problems, (problems, report)
        return report

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Calls, "execute", checked)
        yield
