"""Makes recommended calls of the calls that the fix of a finding names (lab/base/fix.py).

A fix states what differs from the present call. This module fills in the rest: the value of an argument `...`, and what
the named tool cannot do without, if the present call knows it. A call that still lacks a value is not recommended.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prime_lab_mcp.lab.base.fix import FixCall, NamedCall, SameCall, calls_named_in
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.state.workspace import HUB_NAME
from prime_lab_mcp.tools.tool import Arguments

_MOST_CALLS = 2
"""Maximum number of calls that are recommended from one fix. The text of the fix names the others."""
_VALUES_FROM: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("watch_run", "id"): ("id", "eval", "rescore", "resume_from"),
    ("control_run", "id"): ("id", "resume_from"),
    ("read_eval", "eval"): ("eval", "id", "rescore"),
    ("write_training_config", "based_on"): ("config", "path", "based_on"),
    ("check_training_config", "path"): ("config", "path", "based_on"),
    ("search_hub", "query"): ("environment", "hub", "id"),
    ("read_environment", "environment"): ("environment", "port", "name"),
    ("check_environment", "environment"): ("environment", "port", "name"),
}
"""For an argument of a tool, the arguments of the present call that can provide its value."""


def calls_of_fix(fix: str, tool: str, carried: Mapping[str, Any], tools: Mapping[str, type[Arguments]]) -> list[Next]:
    """The calls that a fix names, at most two, without those that equal the present call.

    `tool` and `carried` are the present call; `tools` are the arguments of every tool. Calls of a named tool come
    first, because they often show what to change.
    """
    calls: list[Next] = []
    for one in sorted(calls_named_in(fix), key=lambda one: isinstance(one, SameCall)):
        recommended = _recommended(one, tool, carried, tools)
        if recommended is None or (recommended.tool, recommended.arguments or {}) == (tool, dict(carried)):
            continue
        if recommended not in calls:
            calls.append(recommended)
    return calls[:_MOST_CALLS]


def _recommended(
    one: FixCall, tool: str, carried: Mapping[str, Any], tools: Mapping[str, type[Arguments]]
) -> Next | None:
    """The recommendation of one call of a fix; None if it lacks a value or the tool does not know an argument."""
    if isinstance(one, NamedCall):
        return _named(one, tool, carried, tools.get(one.tool))
    return _changed(one, tool, carried, tools.get(tool))


def _named(one: NamedCall, tool: str, carried: Mapping[str, Any], takes: type[Arguments] | None) -> Next | None:
    if takes is None:
        return None
    given: dict[str, Any]
    if one.keeps_the_rest or one.arguments:
        rest = carried.items() if one.keeps_the_rest and one.tool == tool else ()
        given = {name: value for name, value in rest if name not in one.left_out}
        given |= {
            name: _from_present_call(one.tool, name, carried) if value is ... else value
            for name, value in one.arguments.items()
        }
    else:
        given = takes.alternatives(carried)
        if one.tool == tool == "test_reward":  # The test after a change is the whole test, as it was called.
            given = {name: value for name, value in carried.items() if name not in ("cases", "confirm")}
            given |= {"cases_file": "last"} if carried.get("cases") else {}
    given |= _implied(one.tool, given, carried)
    if ... in given.values() or not given.keys() <= takes.model_fields.keys():
        return None
    return Next(one.tool, "what the finding's fix names", given or None)


def _changed(one: SameCall, tool: str, carried: Mapping[str, Any], takes: type[Arguments] | None) -> Next | None:
    fields = takes.model_fields if takes is not None else {}
    changes = {name: value for name, value in one.changes.items() if name in fields}
    if not changes and not set(one.left_out) & set(carried):
        return None
    rest = {name: value for name, value in carried.items() if name not in one.left_out}
    return Next(tool, "the same call, changed as the fix says", {**rest, **changes})


def _implied(tool: str, given: Mapping[str, Any], carried: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that follow from others: an environment's folder has the name of the environment on the Hub."""
    if tool in ("read_environment", "check_environment") and "environment" not in given:
        environment = _from_present_call(tool, "environment", carried)
        return {} if environment is ... else {"environment": environment}
    if tool == "create_environment" and isinstance(given.get("hub"), str) and "name" not in given:
        return {"name": _name_on_hub(given["hub"])}
    return {}


def _from_present_call(tool: str, name: str, carried: Mapping[str, Any]) -> Any:
    """The value that the present call has for an argument of a tool; `...` if it has none."""
    if tool == "create_environment" and name in ("name", "hub"):
        named = (carried.get(other) for other in ("hub", "environment"))
        hub = next((one for one in named if isinstance(one, str) and HUB_NAME.match(one)), None)
        return ... if hub is None else (hub if name == "hub" else _name_on_hub(hub))
    for other in (*_VALUES_FROM.get((tool, name), ()), name):
        if carried.get(other) is not None:
            return carried[other]
    return ...


def _name_on_hub(hub: str) -> str:
    return hub.partition("@")[0].rpartition("/")[2]
