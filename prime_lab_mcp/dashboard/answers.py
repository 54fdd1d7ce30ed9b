"""What each view of the page shows, as values for JSON. HTTP (page.py) and MCP resources serve the same answers."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, cast

import anyio

from prime_lab_mcp import __version__
from prime_lab_mcp.dashboard import environments, evaluations, runs
from prime_lab_mcp.dashboard.reading_lab import ReadingLab
from prime_lab_mcp.dashboard.rollout_index import ORDERS, OUTCOMES, Order, Outcome, RolloutQuery
from prime_lab_mcp.lab.base.errors import BadInput, LabError, PrimeError
from prime_lab_mcp.lab.spend import spend_overview

log = logging.getLogger("prime_lab_mcp")
_NOT_FOUND = frozenset({"eval-not-found", "run-not-found", "environment-not-found", "not-found", "results-missing"})
_MOST_SEARCHED = 200
"""Characters of a text to search for."""

Query = Mapping[str, str]
"""The parameters of a view, such as the page of a list."""
Answer = Callable[..., Awaitable[Any]]
"""A function of the lab, the parameters, and the words of the path that its pattern names."""


async def answer_view(lab: ReadingLab, path: str, query: Query) -> tuple[int, Any]:
    """The answer of a view and its HTTP status.

    404 for what there is not, 502 for failures of the platform, 400 for other refusals, 500 for a failure of the page.
    """
    try:
        for pattern, answer in _ANSWERS:
            match = pattern.fullmatch(path)
            if match is not None:
                return 200, await answer(lab, query, *match.groups())
        return 404, {"error": "there is no such view"}
    except LabError as error:
        status = 404 if error.code in _NOT_FOUND else 502 if isinstance(error, PrimeError) else 400
        return status, {"error": error.message, "fix": error.fix, "code": error.code}
    except Exception:
        log.exception("the page could not answer %s", path)
        return 500, {"error": "the page failed here; server.log in the state directory says why"}


async def _workspace(lab: ReadingLab, query: Query) -> Any:
    return {
        "name": lab.workspace.root.name,
        "path": lab.key,
        "platform": lab.platform,
        "approval": "always" if lab.limits.always else "ask",
        "version": __version__,
    }


async def _environments(lab: ReadingLab, query: Query) -> Any:
    return {"environments": await environments.list_environments(lab)}


async def _environment(lab: ReadingLab, query: Query, name: str) -> Any:
    return await environments.environment(lab, name)


async def _evaluations(lab: ReadingLab, query: Query) -> Any:
    page, name = _number(query, "page", 1), query.get("environment")
    return await anyio.to_thread.run_sync(evaluations.list_evaluations, lab, page, name)


async def _evaluation(lab: ReadingLab, query: Query, id: str) -> Any:
    return await anyio.to_thread.run_sync(evaluations.evaluation, lab, id)


async def _rollouts(lab: ReadingLab, query: Query, id: str) -> Any:
    task = _number(query, "task", 0) if "task" in query else None
    chosen = RolloutQuery(
        cast("Outcome", _choice(query, "outcome", OUTCOMES)),
        cast("Order", _choice(query, "order", ORDERS)),
        task,
        query.get("text", "")[:_MOST_SEARCHED],
    )
    page = _number(query, "page", 1)
    return await anyio.to_thread.run_sync(evaluations.rollout_page, lab, id, chosen, page)


async def _rollout(lab: ReadingLab, query: Query, id: str, position: str) -> Any:
    return await anyio.to_thread.run_sync(evaluations.whole_rollout, lab, id, int(position))


async def _zeros(lab: ReadingLab, query: Query, id: str) -> Any:
    return await anyio.to_thread.run_sync(evaluations.zero_classes, lab, id)


async def _compare(lab: ReadingLab, query: Query, id: str, other: str) -> Any:
    return await anyio.to_thread.run_sync(evaluations.comparison, lab, id, other)


async def _runs(lab: ReadingLab, query: Query) -> Any:
    return {"runs": await anyio.to_thread.run_sync(runs.list_runs, lab)}


async def _run(lab: ReadingLab, query: Query, id: str) -> Any:
    return await runs.training_run(lab, id)


async def _spend(lab: ReadingLab, query: Query) -> Any:
    overview = await anyio.to_thread.run_sync(spend_overview, lab)
    return overview.as_json() | {"sentence": overview.sentence()}


_ANSWERS: Sequence[tuple[re.Pattern[str], Answer]] = tuple(
    (re.compile(pattern), answer)
    for pattern, answer in (
        ("workspace", _workspace),
        ("environments", _environments),
        ("environments/([^/]+)", _environment),
        ("evaluations", _evaluations),
        ("evaluations/([^/]+)", _evaluation),
        ("evaluations/([^/]+)/rollouts", _rollouts),
        ("evaluations/([^/]+)/rollouts/([0-9]{1,9})", _rollout),
        ("evaluations/([^/]+)/zeros", _zeros),
        ("evaluations/([^/]+)/compare/([^/]+)", _compare),
        ("runs", _runs),
        ("runs/([^/]+|outputs/[^/]+)", _run),
        ("spend", _spend),
    )
)


def _number(query: Query, name: str, least: int) -> int:
    """A whole number of the query; `least` where it is missing. Raises BadInput."""
    text = query.get(name, str(least))
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < least:
        raise BadInput(f"{name} must be a whole number of at least {least}", fix="Correct the address.")
    return int(text)


def _choice(query: Query, name: str, choices: Sequence[str]) -> str:
    """One of the choices; the first where the query has none. Raises BadInput."""
    value = query.get(name, choices[0])
    if value not in choices:
        raise BadInput(f"{name} must be one of {', '.join(choices)}", fix="Correct the address.")
    return value
